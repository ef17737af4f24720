/*-------------------------------------------------------------------------
 *
 * turns.c
 *	  Turns: where the tasks of a group come that have no address.
 *
 * A group's tasks of the overflow stand in its line: first candidates, which
 * are in memory, in the order of their ids; then all from the line's frontier
 * on, which are found by reading the index.  The group itself stands in the
 * heap of one lane, its home, with the start tag of the first task of its
 * line: its turn.  A claim merges the window of a lane and its turns.  Which
 * task a turn is of is chosen when it is taken.  So however many groups have
 * overflow, and however much, a claim comes to each in its order, and nothing
 * has to be moved before.
 *
 * Tags.  "next" is the start tag of the next task that is taken (start-time
 * fair queueing, virtual_time.h).  A task is charged when it is taken, by the
 * weight that its group has then.  What is taken and leads nowhere gives its
 * charge back, and so does what is taken and not leased.  What was leased and
 * comes back as it was keeps its tag, and is not charged again.  A group whose
 * line was empty, or blocked, begins at virtual time again.
 *
 * Invariants, under the home lane's lock:
 *
 *	 T1	Every claimable task of the overflow with an id before the frontier is a
 *		candidate, or in a claimer's hands.
 *	 T2	A line stands in the heap if there is something in it, or may be, and it
 *		is not blocked.
 *	 T3	A blocked line has one task parked, or in the hands of who blocks it
 *		(parking.c).  When that comes back the line goes on.
 *
 * The race that matters is that of lanes.c: a task may become claimable, with
 * an id before where its line has been read, while it is read.  Whoever makes
 * it so comes here afterwards (turns_line_lower, turns_return), and either
 * finds the frontier beyond it, or the reading under way, and says from where
 * on it has to be read again.
 *
 * Locking: the home lane's lock guards a line.  A line is begun and ended with
 * the lock of the group's partition, too, which is taken before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/lane_check.h"
#include "shmem/queue_order.h"
#include "shmem/turn_private.h"
#include "shmem/waiters.h"

/* The heap has the largest first, so this is the other way round. */
static int
compare_turns(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const FairGroup *x = pairingheap_const_container(FairGroup, line.node, a);
	const FairGroup *y = pairingheap_const_container(FairGroup, line.node, b);
	int			result = virtual_time_compare(group_line_tag(&y->line), group_line_tag(&x->line));

	return result != 0 ? result : (y->slot > x->slot) - (y->slot < x->slot);
}

/* Only the root is shared: the rest of a heap is the code that compares. */
static void
change_heap(Lane *lane, FairGroup *group, bool add)
{
	pairingheap heap = {0};

	AssertLaneLockedExclusively(lane);
	heap.ph_compare = compare_turns;
	heap.ph_root = lane->turns;
	if (add)
		pairingheap_add(&heap, &group->line.node);
	else
		pairingheap_remove(&heap, &group->line.node);
	lane->turns = heap.ph_root;
	group->line.standing = add;
}

/* Where a group that stands has its turn, and whether a task can be taken. */
static LaneView
turn_of(const FairGroup *group, LaneEntry *turn)
{
	Assert(group->line.standing);
	turn->block = group->line.tag_whole;
	turn->fraction = group->line.tag_fraction;
	lanes_entry_set_turn(turn, 0, group->slot);
	/* Behind what has an address. */
	ItemPointerSet(&turn->tid, MaxBlockNumber, PG_UINT16_MAX);
	return group->line.head != NO_ENTRY ? LANE_READY :
		group->line.reading ? LANE_REFILLING : LANE_UNREAD;
}

/* Say what the first turn of a lane is, for those who look without the lock. */
void
turns_show_first(Lane *lane)
{
	AssertLaneLockedExclusively(lane);
	lane->turn_view = lane->turns == NULL ? LANE_EMPTY :
		turn_of(pairingheap_container(FairGroup, line.node, lane->turns), &lane->turn);
}

/*
 * A line has changed: see that the group has its turn, at the tag of its first
 * task.
 */
void
turns_take_place(FairGroup *group)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);
	bool		stands = turns_has_any(line) && !line->blocked;
	VirtualTime tag = group_line_next(line);

	AssertLineLocked(group);
	if (line->head != NO_ENTRY && turn_candidates[line->head].charged)
		tag = turn_candidates[line->head].tag;
	if (line->standing && (!stands || virtual_time_compare(tag, group_line_tag(line)) != 0))
		change_heap(lane, group, false);
	if (stands && !line->standing)
	{
		line->tag_whole = tag.whole;
		line->tag_fraction = tag.fraction;
		change_heap(lane, group, true);
	}
	turns_show_first(lane);
	lane_check(lane);
}

/*
 * A line is blocked no more: the group begins at virtual time, as if it had had
 * nothing to be served.
 */
static void
resume(FairGroup *group)
{
	GroupLine  *line = &group->line;
	QueueState *queue = queue_state_by_number(group->key.queue);
	VirtualTime v;

	if (!line->blocked)
		return;
	line->blocked = false;
	v = queue_order_virtual_time(&queue->orders[group->key.class]);
	group_line_set_next(line, virtual_time_max(group_line_next(line), v));
	for (uint32 i = line->head; i != NO_ENTRY; i = turn_candidates[i].next)
		turn_candidates[i].tag = virtual_time_max(turn_candidates[i].tag, v);
}

/*
 * Lock the home lane of a group, if it has a line.  Returns the lane, or NULL.
 */
Lane *
turns_lock_home(FairGroup *group)
{
	for (;;)
	{
		uint32		number = ((volatile FairGroup *) group)->line.lane;
		Lane	   *lane;

		if (number == 0)
			return NULL;
		lane = lanes_get(number - 1);
		LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
		if (group->in_use && group->line.lane == number)
			return lane;
		LWLockRelease(&lane->lock);
	}
}

/* ----------------------------------------------------------------
 * For those who have the group's partition locked
 * ----------------------------------------------------------------
 */

/*
 * See that a group has a line, in the lane that its slot says.  Returns the
 * lane, locked; or NULL, if its class has no lanes yet.
 */
static Lane *
lock_line(QueueState *queue, FairGroup *group)
{
	const LaneSet *set = &queue->orders[group->key.class].lanes;
	GroupLine  *line = &group->line;
	Lane	   *lane;
	int			bucket;

	AssertGroupLockedExclusively(group);
	if (line->lane != 0)
	{
		lane = turns_home(group);
		LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
		return lane;
	}
	if (!lanes_any(set))
		return NULL;
	bucket = group->slot % ((volatile const LaneSet *) set)->high;
	lane = lanes_next(set, &bucket);
	Assert(lane != NULL);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	line->lane = set->lanes[bucket];
	line->head = line->tail = NO_ENTRY;
	line->target = TURNS_READ_LEAST;
	line->standing = line->reading = line->blocked = false;
	group_line_set_next(line, group->finish);
	line->frontier = line->lowered = PG_INT64_MAX;
	return lane;
}

/*
 * See that a group has a line: a task of its is of the overflow.
 */
void
turns_line_begin(QueueState *queue, FairGroup *group)
{
	Lane	   *lane;

	if (likely(group->line.lane != 0))
		return;
	lane = lock_line(queue, group);
	if (lane != NULL)
		LWLockRelease(&lane->lock);
}

/*
 * There are tasks of the group's overflow from an id on that the line may not
 * have (PG_INT64_MAX: none).  resumes: the line is not blocked any more.
 * Returns whether the line was empty, so that the group had nothing there to be
 * served.
 */
bool
turns_line_lower(QueueState *queue, FairGroup *group, int64 id, bool resumes)
{
	GroupLine  *line = &group->line;
	VirtualTime v = queue_order_virtual_time(&queue->orders[group->key.class]);
	Lane	   *lane = lock_line(queue, group);
	bool		empty;

	if (lane == NULL)
		return false;
	empty = !turns_has_any(line) && !line->reading;
	if (empty)
		group_line_set_next(line, virtual_time_max(group_line_next(line), v));
	group_line_set_next(line, virtual_time_max(group_line_next(line), group->finish));
	if (resumes)
		resume(group);
	if (line->reading)
		line->lowered = Min(line->lowered, id);
	if (id < line->frontier)
		turn_candidates_cut(line, id);
	turns_take_place(group);
	LWLockRelease(&lane->lock);
	waiters_lowered(lane->queue, lane->bucket);
	return empty;
}

/*
 * A group has nothing in the overflow, by its count.  If its line has nothing
 * either that ends, and the group's tasks have addresses again, from where the
 * line has come to.  Returns whether that is so.
 */
bool
turns_line_end(FairGroup *group)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);
	bool		ends;

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	ends = !turns_has_any(line) && !line->reading && !line->blocked;
	if (ends)
	{
		Assert(!line->standing);
		group->finish = virtual_time_max(group->finish, group_line_next(line));
		line->lane = 0;
	}
	LWLockRelease(&lane->lock);
	return ends;
}

/*
 * Give an addressed task of a group that has a line the next tag of that, from
 * virtual time v on.
 */
void
turns_line_tag(FairGroup *group, VirtualTime v, double charge, double weight, GroupTag *tag)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	tag->start = virtual_time_max(virtual_time_max(v, group->finish), group_line_next(line));
	tag->finish = virtual_time_add(tag->start, charge, weight);
	group_line_set_next(line, tag->finish);
	turns_take_place(group);
	LWLockRelease(&lane->lock);
}

/*
 * As group's tags, those of its line go back from finish to start, if there was
 * none since.
 */
void
turns_line_untag(FairGroup *group, VirtualTime start, VirtualTime finish)
{
	Lane	   *lane = turns_home(group);

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	if (virtual_time_compare(group_line_next(&group->line), finish) == 0)
		group_line_set_next(&group->line, start);
	turns_take_place(group);
	LWLockRelease(&lane->lock);
}

/*
 * The tags of a line are changed: they are at least low, and at most *high
 * (NULL: there is no bound).
 */
void
turns_line_bound(FairGroup *group, VirtualTime low, const VirtualTime *high)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	group_line_set_next(line, virtual_time_max(group_line_next(line), low));
	if (high != NULL && virtual_time_compare(group_line_next(line), *high) > 0)
		group_line_set_next(line, *high);
	turns_take_place(group);
	LWLockRelease(&lane->lock);
}

/*
 * The overflow of a queue is read anew: a line forgets all that it has.
 */
void
turns_line_forget(FairGroup *group)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	turn_candidates_cut(line, PG_INT64_MIN);
	line->frontier = PG_INT64_MAX;
	line->blocked = false;
	turns_take_place(group);
	LWLockRelease(&lane->lock);
}

/* ----------------------------------------------------------------
 * Taking, and what was taken
 * ----------------------------------------------------------------
 */

/* What a task of a group is charged, as settings are now. */
VirtualTime
turns_charge(const FairGroup *group, VirtualTime next, double cost)
{
	QueueState *queue = queue_state_by_number(group->key.queue);

	/* Both without their lock: either is as it was a moment ago. */
	return virtual_time_add(next, group_charge(queue, group, cost), group_weight(queue, group));
}

/* A task is taken out of a line, at the tag of that. */
static void
take_first(FairGroup *group, LaneEntry *entry, LaneTurn *turn)
{
	GroupLine  *line = &group->line;
	uint32		number = line->head;
	TurnCandidate  *candidate = &turn_candidates[number];
	VirtualTime tag = candidate->charged ? candidate->tag : group_line_next(line);

	AssertLineLocked(group);
	entry->block = tag.whole;
	entry->fraction = tag.fraction;
	entry->tid = candidate->tid;
	lanes_entry_set_turn(entry, candidate->task, group->slot);
	turn->group = group - group_entries;
	turn->cost = candidate->cost;
	turn->charge = turns_no_charge;
	if (!candidate->charged)
	{
		VirtualTime next = turns_charge(group, group_line_next(line), candidate->cost);

		turn->charge = virtual_time_moved(turns_no_charge, group_line_next(line), next);
		group_line_set_next(line, next);
	}
	line->head = candidate->next;
	if (line->head == NO_ENTRY)
		line->tail = NO_ENTRY;
	turn_candidates_free(number);
	turns_take_place(group);
}

/*
 * Take the first turn of a lane, which is ready.
 */
void
turns_take_first(Lane *lane, LaneEntry *entry, LaneTurn *turn)
{
	Assert(lane->turn_view == LANE_READY);
	take_first(pairingheap_container(FairGroup, line.node, lane->turns), entry, turn);
}

/*
 * What is first in the line of a group, and in which lane it stands.
 */
LaneView
turns_look(uint32 number, Lane **lane, LaneEntry *first)
{
	FairGroup  *group = &group_entries[number];
	LaneView	view = LANE_EMPTY;

	*lane = turns_lock_home(group);
	if (*lane == NULL)
		return LANE_EMPTY;
	if (group->line.standing)
		view = turn_of(group, first);
	LWLockRelease(&(*lane)->lock);
	return view;
}

/*
 * Take the first task of the line of a group.  Returns whether there is one.
 */
bool
turns_take_of(uint32 number, LaneEntry *entry, LaneTurn *turn, Lane **lane)
{
	FairGroup  *group = &group_entries[number];
	bool		takes;

	*lane = turns_lock_home(group);
	if (*lane == NULL)
		return false;
	takes = group->line.standing && group->line.head != NO_ENTRY;
	if (takes)
		take_first(group, entry, turn);
	LWLockRelease(&(*lane)->lock);
	return takes;
}

/* The group's line is not there: a pass has the overflow read. */
static void
has_no_line(Lane *lane, const LaneEntry *entry)
{
	queue_order_overflow_lost(queue_state_by_number(lane->queue), lane->class,
							  lanes_entry_task(entry));
}

/*
 * A turn that was taken comes back, from a lane.  resumes: the line was blocked
 * for it, and is not any more.  tell: those who wait for tasks.  Never fails.
 */
void
turns_return(Lane *lane, const LaneEntry *entry, const LaneTurn *turn, bool resumes, bool tell)
{
	FairGroup  *group = turn->group == FAIRQ_NO_GROUP ? NULL : &group_entries[turn->group];
	Lane	   *home = group == NULL ? NULL : turns_lock_home(group);

	Assert(lanes_entry_is_turn(entry));
	if (home == NULL)
	{
		has_no_line(lane, entry);
		return;
	}
	turn_candidates_put_back(&group->line, lanes_entry_task(entry), entry, turn);
	if (resumes)
		resume(group);
	turns_take_place(group);
	LWLockRelease(&home->lock);
	if (tell)
		waiters_offered(home->queue, home->bucket, WAITERS_ANY_GROUP);
}

/*
 * The group of a turn that was taken may not have another task now: its line is
 * blocked.  Returns whether the caller is to park the turn: the line goes on
 * when that comes back.  False: another one is parked, and this one is in the
 * line again.
 */
bool
turns_block(Lane *lane, const LaneEntry *entry, const LaneTurn *turn)
{
	FairGroup  *group = &group_entries[turn->group];
	Lane	   *home = turns_lock_home(group);
	bool		first;

	if (home == NULL)
	{
		has_no_line(lane, entry);
		return false;
	}
	first = !group->line.blocked;
	if (first)
		group->line.blocked = true;
	else
		turn_candidates_put_back(&group->line, lanes_entry_task(entry), entry, turn);
	/* Who waits for long does not keep what others need. */
	if (turn_candidates_are_few() && group->line.head != NO_ENTRY)
		turn_candidates_cut(&group->line, turn_candidates[group->line.head].task);
	turns_take_place(group);
	LWLockRelease(&home->lock);
	return first;
}

/*
 * A turn that was taken has led nowhere: its group was charged in vain.
 */
void
turns_refund(uint32 number, VirtualTime charge)
{
	FairGroup  *group = &group_entries[number];
	Lane	   *home;

	if (virtual_time_compare(charge, turns_no_charge) == 0)
		return;
	home = turns_lock_home(group);
	if (home == NULL)
		return;
	group_line_set_next(&group->line, virtual_time_moved(group_line_next(&group->line), charge,
														 turns_no_charge));
	turns_take_place(group);
	LWLockRelease(&home->lock);
}
