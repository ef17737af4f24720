/*-------------------------------------------------------------------------
 *
 * turns.c
 *	  Turns: where a group stands that has tasks which are in no window.
 *
 * Such tasks stand in their group's line.  First come those that are parked:
 * a claim met them, and the group could not have them.  Their rows have an
 * address.  Then comes the overflow, whose rows have none: candidates, which
 * are in memory, in the order of their ids; and from the line's frontier on
 * what is found by reading the index.  The group itself stands in the heap of
 * one lane, its home, with the start tag of the first task of its line: its
 * turn.  A claim merges the window of a lane and its turns.  Which task a turn
 * is of is chosen when it is taken.  So however many groups wait, and for
 * however many tasks, a claim comes to each in its order, and nothing has to be
 * moved before.
 *
 * Tags.  "next" is the start tag of the next task of the overflow (start-time
 * fair queueing, virtual_time.h).  A task of it is charged when it is taken, by
 * the weight that its group has then.  What is taken and leads nowhere gives
 * its charge back, and so does what is taken and not leased.  What was leased
 * and comes back as it was keeps its tag, and is not charged again.  A group
 * whose line was empty, or blocked, begins at virtual time again.
 *
 * A parked task was charged when it was enqueued, and has its address.  But a
 * group that could not be served is like one that had nothing to do: it gets no
 * credit for that.  Were all its tasks taken at addresses long passed they
 * would come before those of all other groups.  So no task of a line has its
 * turn before "resumed": where virtual time was when the group could go on, and
 * on from there by what is charged for each that was parked.  Policies without
 * tags go by addresses alone.
 *
 * Limits.  Who takes a task of a group with a limit has that keep room for it
 * (limit_room.c), or finds that there is none: then the line is blocked, and
 * stands in no heap until a lease of the group has ended, a token has come, or
 * its settings have changed (group_limits.c).
 *
 * Invariants, under the home lane's lock:
 *
 *	 T1	Every claimable task of the overflow with an id before the frontier is a
 *		candidate, or in a claimer's hands.
 *	 T2	A line stands in the heap if there is something in it, or may be, and it
 *		is not blocked.
 *	 T3	The limit of a group whose line is blocked knows that.
 *
 * The race that matters is that of lanes.c: a task may become claimable, with
 * an id before where its line has been read, while it is read.  Whoever makes
 * it so comes here afterwards (turn_lines_lower, turns_return), and either
 * finds the frontier beyond it, or the reading under way, and says from where
 * on it has to be read again.
 *
 * Locking: the home lane's lock guards a line.  A line is begun and ended with
 * the lock of the group's partition, too, which is taken before.  A limit's
 * lock is taken after.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/lane_check.h"
#include "shmem/limit_room.h"
#include "shmem/queue_order.h"
#include "shmem/turn_private.h"
#include "shmem/waiters.h"

/* The tag of a task that is parked, or was to be, with this in its address. */
static VirtualTime
tag_of_parked(const FairGroup *group, VirtualTime address)
{
	return turns_have_tags(group) ?
		virtual_time_max(group_line_resumed(&group->line), address) : address;
}

/*
 * The tag of the first task of a line.  Where a group stands in its heap goes
 * by that: so when it changes the group takes its place anew, before anything
 * else does (turns_take_place).
 */
VirtualTime
turns_tag(const FairGroup *group)
{
	const GroupLine *line = &group->line;

	if (line->last_parked != NO_ENTRY)
		return tag_of_parked(group, turn_candidate_tag(&turn_candidates[line->head]));
	if (line->dropped)
		return tag_of_parked(group, (VirtualTime) {line->dropped_from, 0});
	if (line->head != NO_ENTRY && turn_candidates[line->head].charged)
		return turn_candidate_tag(&turn_candidates[line->head]);
	return turns_next(line);
}

/* And the slot, by which those of one tag are told apart. */
static uint64
first_slot(const FairGroup *group)
{
	return group->line.last_parked == NO_ENTRY ? group->slot :
		(uint64) turn_candidates[group->line.head].task;
}

/* The heap has the largest first, so this is the other way round. */
static int
compare_turns(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const FairGroup *x = pairingheap_const_container(FairGroup, line.node, a);
	const FairGroup *y = pairingheap_const_container(FairGroup, line.node, b);
	int			result = virtual_time_compare(turns_tag(y), turns_tag(x));

	return result != 0 ? result : (first_slot(y) > first_slot(x)) - (first_slot(y) < first_slot(x));
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
	const GroupLine *line = &group->line;
	VirtualTime tag = turns_tag(group);

	Assert(line->standing);
	turn->block = tag.whole;
	turn->fraction = tag.fraction;
	lanes_entry_set_turn(turn, 0, first_slot(group));
	/* Behind what has an address. */
	ItemPointerSet(&turn->tid, MaxBlockNumber, PG_UINT16_MAX);
	if (line->dropped && line->last_parked == NO_ENTRY)
		return LANE_UNREAD;
	return line->head != NO_ENTRY ? LANE_READY : line->reading ? LANE_REFILLING : LANE_UNREAD;
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
	bool		alone = lane->turns == &line->node && line->node.first_child == NULL;

	AssertLineLocked(group);
	if (line->standing && !(stands && alone))
		change_heap(lane, group, false);
	if (stands && !line->standing)
		change_heap(lane, group, true);
	turns_show_first(lane);
	lane_check(lane);
}

/*
 * The group of a line may have tasks again, if it was blocked: it begins at
 * virtual time, as if it had had nothing to be served.  The group may have been
 * forgotten, and its entry be another's: then that finds its limit as it is.
 */
void
turns_resume(uint32 number)
{
	FairGroup  *group = &group_entries[number];
	Lane	   *lane = turns_lock_home(group);
	GroupLine  *line = &group->line;
	bool		resumes;

	if (lane == NULL)
		return;
	resumes = line->blocked;
	if (resumes)
	{
		QueueState *queue = queue_state_by_number(group->key.queue);
		VirtualTime v = queue_order_virtual_time(&queue->orders[group->key.class]);

		line->blocked = false;
		group_line_set_resumed(line, virtual_time_max(group_line_resumed(line), v));
		for (uint32 i = turns_first_of_overflow(line); i != NO_ENTRY; i = turn_candidates[i].next)
			turn_candidate_set_tag(&turn_candidates[i],
								   virtual_time_max(turn_candidate_tag(&turn_candidates[i]), v));
		turns_take_place(group);
	}
	LWLockRelease(&lane->lock);
	if (resumes)
		waiters_lowered(lane->queue, WAITERS_ANY_BUCKET);
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
 * Taking, and what was taken
 * ----------------------------------------------------------------
 */

/* What a task of a group is charged from a tag on, as settings are now. */
static VirtualTime
charged(const FairGroup *group, VirtualTime tag, double cost)
{
	QueueState *queue = queue_state_by_number(group->key.queue);

	/* Both without their lock: either is as it was a moment ago. */
	return virtual_time_add(tag, group_charge(queue, group, cost), group_weight(queue, group));
}

/*
 * Take a task at its turn: the first candidate of a line, or one that there was
 * no room for.  more: there are others behind it.  Returns false if the group
 * may not have it now; then its line is blocked.
 */
bool
turns_take_candidate(FairGroup *group, const TurnCandidate *candidate, bool more,
					 LaneEntry *entry, LaneTurn *turn)
{
	GroupLine  *line = &group->line;
	VirtualTime tag = turns_next(line);
	VirtualTime next;

	AssertLineLocked(group);
	turn->limit = ((volatile FairGroup *) group)->limit;
	if (unlikely(turn->limit != NO_LIMIT) &&
		!limit_room_reserve(&turn->limit, &group->key, group - group_entries,
							candidate->parked, more, &line->blocked))
		return false;
	turn->group = group - group_entries;
	turn->cost = candidate->cost;
	turn->lane = candidate->lane;
	turn->parked = candidate->parked;
	turn_candidates_entry(candidate, group->slot, entry);
	if (candidate->parked)
		tag = tag_of_parked(group, turn_candidate_tag(candidate));
	else if (candidate->charged)
		tag = turn_candidate_tag(candidate);
	turn->tag = tag;
	turn->charge = turns_no_charge;
	if (!candidate->parked)
	{
		entry->block = tag.whole;
		entry->fraction = tag.fraction;
	}
	if (candidate->parked ? !turns_have_tags(group) : candidate->charged)
		return true;
	next = charged(group, tag, candidate->cost);
	turn->charge = virtual_time_moved(turns_no_charge, tag, next);
	if (candidate->parked)
		group_line_set_resumed(line, next);
	else
		group_line_set_next(line, next);
	return true;
}

/*
 * Take the first task of a line that has one.  Returns false if the group may
 * not have it now.
 */
static bool
take_first(FairGroup *group, LaneEntry *entry, LaneTurn *turn)
{
	GroupLine  *line = &group->line;
	const TurnCandidate *first = &turn_candidates[line->head];
	bool		takes = turns_take_candidate(group, first,
											 first->next != NO_ENTRY || line->dropped ||
											 line->frontier != PG_INT64_MAX, entry, turn);

	if (takes)
		turn_candidates_remove_first(line);
	/* Who waits for long does not keep what others need. */
	if (line->blocked && turn_candidates_are_few() &&
		turns_first_of_overflow(line) != NO_ENTRY)
		turn_candidates_cut(line, turn_candidates[turns_first_of_overflow(line)].task);
	turns_take_place(group);
	return takes;
}

/*
 * Take the first turn of a lane, which is ready.  Returns false if its group
 * may not have the task now; then another turn is the first.
 */
bool
turns_take_first(Lane *lane, LaneEntry *entry, LaneTurn *turn)
{
	Assert(lane->turn_view == LANE_READY);
	return take_first(pairingheap_container(FairGroup, line.node, lane->turns), entry, turn);
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
 * Take the first task of the line of a group.  Returns whether there is one,
 * and the group may have it.
 */
bool
turns_take_of(uint32 number, LaneEntry *entry, LaneTurn *turn, Lane **lane)
{
	FairGroup  *group = &group_entries[number];
	LaneEntry	first;
	bool		takes;

	*lane = turns_lock_home(group);
	if (*lane == NULL)
		return false;
	takes = group->line.standing && turn_of(group, &first) == LANE_READY &&
		take_first(group, entry, turn);
	LWLockRelease(&(*lane)->lock);
	return takes;
}

/*
 * A task of the overflow that was taken comes back, from a lane.  tell: those
 * who wait for tasks.  The caller gives back the room that was kept for it.
 * Never fails.
 */
void
turns_return(Lane *lane, const LaneEntry *entry, const LaneTurn *turn, bool tell)
{
	FairGroup  *group = turn->group == FAIRQ_NO_GROUP ? NULL : &group_entries[turn->group];
	Lane	   *home = group == NULL ? NULL : turns_lock_home(group);

	Assert(lanes_entry_is_turn(entry) && !lanes_entry_is_parked(entry));
	if (home == NULL)
	{
		/* It has no line any more: a pass has the overflow read. */
		queue_order_overflow_lost(queue_state_by_number(lane->queue), lane->class,
								  lanes_entry_task(entry));
		return;
	}
	turn_candidates_put_back(&group->line, lanes_entry_task(entry), entry, turn);
	turns_take_place(group);
	LWLockRelease(&home->lock);
	if (tell)
		waiters_offered(home->queue, WAITERS_ANY_BUCKET, WAITERS_ANY_GROUP);
}

/*
 * A task that was taken has led nowhere, or goes back to its window: its group
 * was charged in vain.  The caller gives back the room that was kept for it.
 */
void
turns_refund(const LaneTurn *turn)
{
	FairGroup  *group = &group_entries[turn->group];
	GroupLine  *line = &group->line;
	Lane	   *home;

	if (virtual_time_compare(turn->charge, turns_no_charge) == 0)
		return;
	home = turns_lock_home(group);
	if (home == NULL)
		return;
	if (!turn->parked)
		group_line_set_next(line, virtual_time_moved(group_line_next(line), turn->charge,
													 turns_no_charge));
	else
		group_line_set_resumed(line, virtual_time_moved(group_line_resumed(line), turn->charge,
														turns_no_charge));
	turns_take_place(group);
	LWLockRelease(&home->lock);
}
