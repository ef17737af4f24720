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
 * and comes back as it was keeps its tag, is not charged again, and comes
 * before the others of its line: its group was charged for more than it was
 * served, and would have the others wait for that later.  A group whose line
 * was empty, or blocked, begins at virtual time again.
 *
 * A parked task was charged when it was enqueued, and has its address.  But a
 * group that could not be served is like one that had nothing to do: it gets no
 * credit for that.  Were all its tasks taken at addresses long passed they
 * would come before those of all other groups.  So no task of a line has its
 * turn before "resumed": where virtual time was when the group could go on, and
 * on from there by what is charged for each that was parked.  Policies without
 * tags go by addresses alone.
 *
 * Subgroups.  Of a group that is divided each subgroup has a line, and those
 * with a turn stand in a heap of the group; only the group stands in the lane.
 * So the lane says which group is next, by the tags of groups, and the group
 * which of its subgroups, by tags of their own: start-time fair queueing at
 * each level (Goyal, Vin and Cheng 1996, "hierarchical"), with the bound of one
 * level at each.  A task that is taken is charged to both.  What comes back
 * with its tag, or was parked, comes before the group's others: it was its turn
 * already.  All this is under one lock, that of the group's home lane.
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
 *	 T2	A line stands in its heap if there is something in it, or may be, and it
 *		is not blocked; and a group that is divided if one of its lines does, and
 *		it is not blocked.
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

#include "shmem/lanes.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/turn_private.h"
#include "shmem/waiters.h"

/*
 * Has the first task of a line a tag of its own, that of its address or of a
 * time before?  Then that is in *tag, which is else left as it is.  What was
 * dropped comes after all that are parked, and before the overflow: its tag is
 * that of the first, of which the block is known.  The line is of a group that
 * is not divided.
 */
bool
turns_first_has_tag(const FairGroup *group, VirtualTime *tag)
{
	const GroupLine *line = &group->line;
	bool		parked = line->last_parked != NO_ENTRY;

	if (!parked && line->dropped)
		*tag = (VirtualTime) {line->dropped_from, 0};
	else if (parked || (line->head != NO_ENTRY && turn_candidates[line->head].charged))
		*tag = virtual_time_unpack(turn_candidates[line->head].tag);
	else
		return false;
	return true;
}

/*
 * The tag at which a task comes that has one of its own, of a group (whole)
 * that may have had nothing to be served meanwhile: not before the group could
 * go on.  parked: or was to be, and the tag is that of its address, which under
 * a policy without tags is a place and no time.  One that was charged before
 * waits only if another subgroup may have blocked the group.
 */
VirtualTime
turns_tag_of_kept(const FairGroup *whole, bool parked, VirtualTime tag)
{
	if (parked ? turns_have_tags(whole) : whole->divided)
		return virtual_time_max(tag, virtual_time_unpack(whole->line.resumed));
	return tag;
}

/*
 * The line of a group that is next: its own, or that of a subgroup; or NULL, if
 * it is divided and no subgroup has a turn.
 */
FairGroup *
turns_next_line(FairGroup *group)
{
	if (likely(!group->divided))
		return group;
	if (group->line.subgroups == NULL)
		return NULL;
	return pairingheap_container(FairGroup, line.node, group->line.subgroups);
}

/*
 * The tag of the first task of a group.  Where it stands in its lane's heap
 * goes by that: so when it changes the group takes its place anew, before
 * anything else does (turns_take_place).
 */
VirtualTime
turns_tag(const FairGroup *group)
{
	const FairGroup *next = turns_next_line(unconstify(FairGroup *, group));
	VirtualTime tag;

	if (next != NULL && turns_first_has_tag(next, &tag))
		return turns_tag_of_kept(group, next->line.last_parked != NO_ENTRY || next->line.dropped,
								 tag);
	return turns_next(&group->line);
}

/*
 * And the slot, by which those of one tag are told apart: of a parked task that
 * of its address, as in the window that it comes from.
 */
static uint64
first_slot(const FairGroup *group)
{
	const FairGroup *next = turns_next_line(unconstify(FairGroup *, group));

	return next == NULL || next->line.last_parked == NO_ENTRY ? group->slot :
		(uint64) turn_candidates[next->line.head].task;
}

/*
 * Where a group that stands has its turn among others.  Of most it is in the
 * cache line that the heap has to look at anyway.
 */
static inline VirtualTime
place_of(const FairGroup *group, uint64 *slot)
{
	if (unlikely(group->line.kept))
	{
		*slot = first_slot(group);
		return turns_tag(group);
	}
	*slot = group->slot;
	return turns_next(&group->line);
}

/* By tag, and where that is the same by slot: below zero if a is first. */
static inline int
compare_places(VirtualTime a, uint64 slot_a, VirtualTime b, uint64 slot_b)
{
	int			result = virtual_time_compare(a, b);

	return result != 0 ? result : (slot_a > slot_b) - (slot_a < slot_b);
}

/*
 * The heaps have the largest first, so these are the other way round.  Called
 * under the lock of the lane, with groups that stand in it: what is compared
 * does not change while they do, but by turns_take_place.
 */
static int
compare_turns(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const FairGroup *x = pairingheap_const_container(FairGroup, line.node, a);
	const FairGroup *y = pairingheap_const_container(FairGroup, line.node, b);
	uint64		slot_x;
	uint64		slot_y;
	VirtualTime tag_x = place_of(x, &slot_x);
	VirtualTime tag_y = place_of(y, &slot_y);

	return compare_places(tag_y, slot_y, tag_x, slot_x);
}

/*
 * Within a group those first whose first task has its tag: it was their turn.
 */
static int
compare_subgroups(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const FairGroup *x = pairingheap_const_container(FairGroup, line.node, a);
	const FairGroup *y = pairingheap_const_container(FairGroup, line.node, b);
	VirtualTime tag_x = turns_next(&x->line);
	VirtualTime tag_y = turns_next(&y->line);

	if (x->line.kept != y->line.kept)
		return x->line.kept ? 1 : -1;
	if (likely(!x->line.kept))
		return compare_places(tag_y, y->slot, tag_x, x->slot);
	turns_first_has_tag(x, &tag_x);
	turns_first_has_tag(y, &tag_y);
	/* Of one tag the first come. */
	if (x->line.head != NO_ENTRY && y->line.head != NO_ENTRY)
		return compare_places(tag_y, (uint64) turn_candidates[y->line.head].task,
							  tag_x, (uint64) turn_candidates[x->line.head].task);
	return compare_places(tag_y, y->slot, tag_x, x->slot);
}

/*
 * See that a group stands in a heap, at its place there, or does not.  Only the
 * root is shared: the rest of a heap is the code that compares.  The home lane
 * is locked exclusively.
 */
static void
stand(pairingheap_node **root, pairingheap_comparator compare, FairGroup *group, bool stands)
{
	GroupLine  *line = &group->line;
	FairGroup  *next = turns_next_line(group);
	pairingheap heap = {0};
	VirtualTime tag;

	AssertLineLocked(group);
	line->kept = next != NULL && turns_first_has_tag(next, &tag);
	if (line->standing && stands && *root == &line->node && line->node.first_child == NULL)
		return;					/* alone */
	heap.ph_compare = compare;
	heap.ph_root = *root;
	if (line->standing)
		pairingheap_remove(&heap, &line->node);
	if (stands)
		pairingheap_add(&heap, &line->node);
	*root = heap.ph_root;
	line->standing = stands;
}

/* T2: is a group to stand in its heap? */
static inline bool
has_turn(const FairGroup *group)
{
	return turns_has_any(group) && !group->line.blocked;
}

/*
 * Where a group that stands has its turn, and whether a task can be taken:
 * LANE_READY if it is in memory, LANE_UNREAD if the index is to be read, or the
 * lanes are for what was dropped, LANE_REFILLING while a backend reads.  The
 * group is none of subgroups; its home lane is locked, in either mode.
 */
LaneView
turns_turn_of(FairGroup *group, LaneEntry *turn)
{
	const GroupLine *line = &turns_next_line(group)->line;
	VirtualTime tag = turns_tag(group);

	Assert(group->line.standing && group_above(group) == NULL);
	turn->block = tag.whole;
	turn->fraction = tag.fraction;
	lanes_entry_set_turn(turn, 0, first_slot(group));
	/* Behind what has an address. */
	ItemPointerSet(&turn->tid, MaxBlockNumber, PG_UINT16_MAX);
	if (line->dropped && line->last_parked == NO_ENTRY)
		return LANE_UNREAD;
	return line->head != NO_ENTRY ? LANE_READY : line->reading ? LANE_REFILLING : LANE_UNREAD;
}

/*
 * Say what the first turn of a lane is, for those who look without the lock
 * (lanes_look).  Whatever changes a line ends with this, before it lets the
 * lane go.
 */
void
turns_show_first(Lane *lane)
{
	AssertLaneLockedExclusively(lane);
	lane->turn_view = lane->turns == NULL ? LANE_EMPTY :
		turns_turn_of(pairingheap_container(FairGroup, line.node, lane->turns), &lane->turn);
}

/*
 * Something of a group has changed: see that it has its turn, at the tag of its
 * first task; and if it is a subgroup, its group, which has its turn by that of
 * the subgroup that is next.  On return T2 holds for both, and the lane shows
 * its first turn.  The home lane is locked exclusively; never fails.
 */
void
turns_take_place(FairGroup *group)
{
	FairGroup  *above = group_above(group);
	FairGroup  *whole = group_whole(group);
	Lane	   *lane = turns_home(group);

	if (above != NULL)
		stand(&above->line.subgroups, compare_subgroups, group, has_turn(group));
	stand(&lane->turns, compare_turns, whole, has_turn(whole));
	turns_show_first(lane);
	lane_check(lane);
}

/*
 * As turns_take_place, if a line does not have its turn where it was before:
 * most of what comes to a line comes behind its first task.
 */
void
turns_take_place_if_moved(FairGroup *group, const TurnPlace *before)
{
	TurnPlace	now = turns_place(group);
	const FairGroup *whole = group_whole(group);

	if (has_turn(group) != group->line.standing || has_turn(whole) != whole->line.standing ||
		now.kept != before->kept ||
		virtual_time_compare(now.tag, before->tag) != 0 ||
		virtual_time_compare(now.above, before->above) != 0)
		turns_take_place(group);
	else
		turns_show_first(turns_home(group));
}

/*
 * Virtual time between those that share with a group.  Between subgroups of
 * which none has a turn it is where none of them owes another anything.
 */
VirtualTime
turns_time_of(const FairGroup *group)
{
	QueueState *queue = queue_state_by_number(group->key.queue);
	FairGroup  *above = group_above(group);

	if (above == NULL)
		return queue_order_virtual_time(&queue->orders[group->key.class]);
	/* Once there is one it goes on from there. */
	above->line.time = virtual_time_pack(group_line_time_now(&above->line));
	return virtual_time_unpack(above->line.time);
}

/*
 * A line that was blocked is not any more: what it has begins at virtual time,
 * whichever kind it is.  What is parked does by "resumed"; the overflow by
 * "next", which turns_next compares with that; and what keeps a tag of before
 * by having it raised.  A subgroup has its group begin anew, too, if that had
 * no other with a turn.
 *
 * The home lane is locked exclusively; the caller sees to the line's place.
 */
static void
unblock(FairGroup *group)
{
	GroupLine  *line = &group->line;
	FairGroup  *above = group_above(group);
	QueueState *queue = queue_state_by_number(group->key.queue);
	VirtualTime v = queue_order_virtual_time(&queue->orders[group->key.class]);

	line->blocked = false;
	virtual_time_raise(&line->resumed, turns_time_of(group));
	for (uint32 i = group->divided ? NO_ENTRY : turns_first_of_overflow(line); i != NO_ENTRY;
		 i = turn_candidates[i].next)
		virtual_time_raise(&turn_candidates[i].tag, v);
	if (above != NULL && above->line.subgroups == NULL)
		virtual_time_raise(&above->line.resumed, v);
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
	bool		resumes;

	if (lane == NULL)
		return;
	resumes = group->line.blocked;
	if (resumes)
	{
		unblock(group);
		turns_take_place(group);
	}
	LWLockRelease(&lane->lock);
	if (resumes)
		waiters_lowered(lane->queue, WAITERS_ANY_BUCKET);
}

/*
 * Lock a group's home lane, exclusively, and return it; NULL: it has no line.
 * Which lane that is is read without a lock, and again with it: a line ends
 * under the lock of its home lane, and another one may have begun elsewhere. So
 * as long as the lane is locked the group keeps its line, and with that its
 * entry.
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
