/*-------------------------------------------------------------------------
 *
 * turn_lines.c
 *	  The line of a group, for those who have the group's partition locked.
 *
 * A line begins with the first task of its group that is in no window, and ends
 * when a producer, or who looks for entries that can be forgotten, finds that
 * there is none.  The head of turns.c says what a line is.
 *
 * Locking: the caller has the lock of the group's partition.  The home lane's
 * is taken after it, and that of a limit last.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/limit_room.h"
#include "shmem/queue_order.h"
#include "shmem/turn_private.h"
#include "shmem/waiters.h"

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
	line->head = line->tail = line->last_parked = NO_ENTRY;
	line->target = TURNS_READ_LEAST;
	line->standing = line->reading = line->blocked = line->dropped = false;
	group_line_set_next(line, group->finish);
	group_line_set_resumed(line, v_none);
	line->frontier = line->lowered = PG_INT64_MAX;
	return lane;
}

/*
 * See that a group has a line: a task of its is of the overflow.
 */
void
turn_lines_begin(QueueState *queue, FairGroup *group)
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
 * have.  Returns whether the line was empty, so that the group had nothing
 * there to be served.
 */
bool
turn_lines_lower(QueueState *queue, FairGroup *group, int64 id)
{
	GroupLine  *line = &group->line;
	VirtualTime v = queue_order_virtual_time(&queue->orders[group->key.class]);
	Lane	   *lane = lock_line(queue, group);
	bool		empty;
	bool		moves;
	VirtualTime before;

	if (lane == NULL)
		return false;
	before = turns_tag(group);
	empty = !turns_has_any(line) && !line->reading;
	if (!turns_has_overflow(line))
		group_line_set_next(line, virtual_time_max(group_line_next(line), v));
	group_line_set_next(line, virtual_time_max(group_line_next(line), group->finish));
	if (line->reading)
		line->lowered = Min(line->lowered, id);
	if (id < line->frontier)
		turn_candidates_cut(line, id);
	moves = !line->standing || virtual_time_compare(turns_tag(group), before) != 0;
	if (moves)
		turns_take_place(group);
	else
		turns_show_first(lane);
	LWLockRelease(&lane->lock);
	waiters_lowered(lane->queue, WAITERS_ANY_BUCKET);
	return empty;
}

/*
 * A group has nothing in the overflow, by its count.  If its line has none
 * either the group's tasks have addresses again, from where the line has come
 * to, and a line that has nothing parked ends.  Returns whether that is so.
 */
bool
turn_lines_end(FairGroup *group)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);
	bool		ends;

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	ends = !turns_has_overflow(line);
	if (ends)
		group->finish = virtual_time_max(group->finish, group_line_next(line));
	if (ends && !turns_has_any(line) && !line->blocked)
	{
		Assert(!line->standing);
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
turn_lines_tag(FairGroup *group, VirtualTime v, double charge, double weight, GroupTag *tag)
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
turn_lines_untag(FairGroup *group, VirtualTime start, VirtualTime finish)
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
turn_lines_bound(FairGroup *group, VirtualTime low, const VirtualTime *high)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	group_line_set_next(line, virtual_time_max(group_line_next(line), low));
	if (high != NULL && virtual_time_compare(group_line_next(line), *high) > 0)
		group_line_set_next(line, *high);
	if (high != NULL && virtual_time_compare(group_line_resumed(line), *high) > 0)
		group_line_set_resumed(line, *high);
	turns_take_place(group);
	LWLockRelease(&lane->lock);
}

/*
 * Has a group its turn, and at which tag?
 */
bool
turn_lines_turn(FairGroup *group, VirtualTime *tag)
{
	Lane	   *lane = turns_home(group);
	bool		standing;

	AssertGroupLocked(group);
	LWLockAcquire(&lane->lock, LW_SHARED);
	standing = group->line.standing;
	*tag = turns_tag(group);
	LWLockRelease(&lane->lock);
	return standing;
}

/*
 * Let go of what is parked.  Returns whether anything is, or was to be; *from
 * is the tag of the first then.
 */
static bool
remove_parked(FairGroup *group, VirtualTime *from)
{
	GroupLine  *line = &group->line;
	int			n = line->dropped;

	AssertLineLocked(group);
	from->whole = line->dropped_from;
	from->fraction = 0;
	if (line->last_parked != NO_ENTRY)
		*from = turn_candidate_tag(&turn_candidates[line->head]);
	line->dropped = false;
	for (; line->last_parked != NO_ENTRY; n++)
		turn_candidates_remove_first(line);
	limit_room_parked(group->limit, -n);
	return n > 0;
}

/*
 * The overflow of a queue is read anew: a line forgets what it has of it.  all:
 * the queue is gone, and so is what is parked.
 */
void
turn_lines_forget(FairGroup *group, bool all)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);
	VirtualTime from;

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	turn_candidates_cut(line, PG_INT64_MIN);
	line->frontier = PG_INT64_MAX;
	if (all)
	{
		(void) remove_parked(group, &from);
		line->blocked = false;
	}
	turns_take_place(group);
	LWLockRelease(&lane->lock);
}

/* A task cannot be parked for want of room: the lanes are read again there. */
static void
drop(FairGroup *group, VirtualTime tag)
{
	GroupLine  *line = &group->line;

	if (!line->dropped || tag.whole < line->dropped_from)
		line->dropped_from = tag.whole;
	if (!line->dropped)
		limit_room_parked(group->limit, 1);
	line->dropped = true;
}

/*
 * A group's ready tasks were removed, or most of them.  What is parked is of no
 * use.  read_again: should some be left, the lanes are read again from the
 * first on.
 */
void
turn_lines_unpark(FairGroup *group, bool read_again)
{
	Lane	   *lane = turns_home(group);
	VirtualTime from;

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	if (remove_parked(group, &from) && read_again)
		drop(group, from);
	turns_take_place(group);
	LWLockRelease(&lane->lock);
}

/*
 * A claim has met a task of a group with a limit that may not have it, or not
 * before others that are parked: the entry is parked, if lane is its own, and
 * the line goes on when the group may have another.  NULL: the caller has not
 * taken it out of its lane, and waits for the group.
 *
 * The group may have it by now.  So the limit is asked again, under the lock
 * under which a lease is counted off; if it may, the line is not blocked.
 */
void
turn_lines_park(QueueState *queue, FairGroup *group, Lane *lane, const LaneEntry *entry,
				float4 cost)
{
	GroupLine  *line = &group->line;
	Lane	   *home = lock_line(queue, group);
	bool		room = true;

	Assert(home != NULL && group->limit != NO_LIMIT);
	if (lane != NULL && turn_candidates_park(line, lane, entry, cost, &room))
		limit_room_parked(group->limit, 1);
	if (!room)
		drop(group, lanes_entry_tag(entry));
	if (!line->blocked)
		limit_room_block(group->limit, &group->key, group - group_entries, &line->blocked);
	turns_take_place(group);
	LWLockRelease(&home->lock);
}
