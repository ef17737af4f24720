/*-------------------------------------------------------------------------
 *
 * turn_lines.c
 *	  The line of a group, for those who have the group's partition locked.
 *
 * A line begins with the first task of its group that is in no window, and ends
 * when a producer, or who looks for entries that can be forgotten, finds that
 * there is none.  The head of turns.c says what a line is.
 *
 * Locking: the caller has the lock of the group's partition, exclusively where
 * not said otherwise.  It keeps the line's beginning and end away.  The home
 * lane's is taken after it, and that of a limit last.  Where a function takes
 * neither it says which the caller holds.
 *
 * Races: 7 (the last lease of a group ends before its line is blocked) is
 * guarded by turn_lines_block, 11 (a task comes before where its line has been
 * read) by turn_lines_lower.
 *
 * Much of this is called in the callbacks of commit and abort: nothing in here
 * fails.
 *
 * A claim comes to lines by their turns, and has the lane locked and no
 * partition: so what both may change, tags, candidates and the blocking, is the
 * lane's; and what makes a line that of a group, its beginning, its end and the
 * limit that the group has, takes both locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/turn_private.h"
#include "shmem/waiters.h"

/*
 * The line of a group begins, in a lane that is locked, unless it has one.  It
 * is empty, stands in no heap, and is neither blocked nor read.  Its tags go on
 * from where the group has got to; between the subgroups of one that is divided
 * virtual time begins at 0, as their own tags do.
 *
 * Both the partition and the lane (its number plus one) are locked exclusively.
 * The caller puts something into the line, or has it ended by the next who
 * finds it empty (turn_lines_end).
 */
static void
begin_line(FairGroup *group, uint32 lane)
{
	GroupLine  *line = &group->line;
	const VirtualTime start = {0, 0};

	AssertGroupLockedExclusively(group);
	AssertLaneLockedExclusively(lanes_get(lane - 1));
	if (line->lane != 0)
		return;
	line->lane = lane;
	line->last_parked = NO_ENTRY;
	line->target = TURNS_READ_LEAST;
	line->standing = line->reading = line->blocked = line->dropped = false;
	line->next = virtual_time_pack(group->finish);
	line->resumed = virtual_time_pack(v_none);
	if (group->divided)
	{
		line->subgroups = NULL;
		line->parked = 0;
		line->time = virtual_time_pack(start);
		line->last = virtual_time_pack(start);
		return;
	}
	line->head = line->tail = NO_ENTRY;
	line->frontier = line->lowered = PG_INT64_MAX;
}

/*
 * See that a group has a line, in the lane that its slot says; a subgroup in
 * that of its group, which has one from then on, too.  Returns the lane, locked
 * exclusively; or NULL, if its class has no lanes yet.
 *
 * The number of the home lane is read without that lane's lock: a line begins
 * and ends under the partition's lock only, which the caller holds.
 */
static Lane *
lock_line(QueueState *queue, FairGroup *group)
{
	const LaneSet *set = &queue->orders[group->key.class].lanes;
	FairGroup  *whole = group_whole(group);
	uint32		number = whole->line.lane;
	Lane	   *lane;

	AssertGroupLockedExclusively(group);
	if (number == 0)
	{
		int			bucket;

		if (!lanes_any(set))
			return NULL;

		/* That of the last bucket below high is there: so is one from here. */
		bucket = whole->slot % ((volatile const LaneSet *) set)->high;
		lane = lanes_next(set, &bucket);
		Assert(lane != NULL);
		number = set->lanes[bucket];
	}
	lane = lanes_get(number - 1);
	AssertNotLocked(&lane->lock);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	FOR_LEVELS(level, group)
		begin_line(level, number);
	return lane;
}

/*
 * See that a group has a line: a task of its is of the overflow, and about to
 * be given back to that.  If its class has no lanes it gets none: then
 * turns_return has a pass read the overflow.
 *
 * The partition is locked exclusively.  Takes and releases the lock of the home
 * lane.  The lock of a lease may be held, too (groups_count).
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
 * A task of the overflow, whose row is known, is to be a candidate: so a line
 * that has few is served without a look at the index.  Of one that has more,
 * those at its end are read when it comes to them: to find the task's place
 * would take a walk along the line, and candidates are from one pool.  The line
 * is not being read, and the task is before its frontier.
 *
 * The home lane is locked exclusively; the caller sees to the line's place.
 */
static void
add_task(GroupLine *line, const OverflowTask *task)
{
	LaneEntry	entry = {.tid = task->tid};
	int			n = 0;

	for (uint32 i = line->tail; i != line->last_parked && turn_candidates[i].task < task->id &&
		 n < TURNS_READ_LEAST; i = turn_candidates[i].prev)
		n++;
	if (turn_candidates_are_few() || n == TURNS_READ_LEAST)
		turn_candidates_cut(line, task->id);
	else
		turn_candidates_put_back(line, task->id, &entry, task->cost, false);
}

/*
 * There are tasks of the group's overflow from the first on that the line may
 * not have: that alone, if its row is given.  Returns whether the group had
 * nothing there to be served; of a subgroup, whether its group had not.
 *
 * The caller says it when its transaction has ended, or having read the rows.
 * A claimer that reads the line at this moment may have seen them too early, so
 * its reading ends before the first (race 11).  A line, or a group, that had
 * nothing begins at virtual time.  Those who wait are told at the end, with the
 * lane unlocked.
 */
bool
turn_lines_lower(QueueState *queue, FairGroup *group, const OverflowTask *first)
{
	GroupLine  *line = &group->line;
	FairGroup  *above = group_above(group);
	Lane	   *lane = lock_line(queue, group);
	TurnPlace	before;
	bool		empty;

	if (lane == NULL)
		return false;
	before = turns_place(group);
	empty = above == NULL ? !turns_has_any(group) && !line->reading : !turns_has_any(above);
	if (!turns_has_overflow(line))
		virtual_time_raise(&line->next, turns_time_of(group));
	if (above != NULL && empty)
		virtual_time_raise(&above->line.next, turns_time_of(above));
	FOR_LEVELS(level, group)
		virtual_time_raise(&level->line.next, level->finish);
	if (line->reading)
		line->lowered = Min(line->lowered, first->id);
	if (first->id < line->frontier && (line->reading || !ItemPointerIsValid(&first->tid)))
		turn_candidates_cut(line, first->id);
	else if (first->id < line->frontier)
		add_task(line, first);
	turns_take_place_if_moved(group, &before);
	LWLockRelease(&lane->lock);
	waiters_lowered(lane->queue, WAITERS_ANY_BUCKET);
	return empty;
}

/*
 * A group has nothing in the overflow, by its count.  If its line has none
 * either the group's tasks have addresses again, from where the line has come
 * to, and a line that has nothing parked ends.  Returns whether that is so.
 *
 * The group has a line.  One that is being read, or is blocked, stays: the
 * reader, or the limit, comes back to it.  One of a group that is divided stays
 * while it has subgroups, whose lines are in its heap.
 *
 * The partition is locked exclusively, so that nothing comes to the line
 * meanwhile; takes the home lane's lock.
 */
bool
turn_lines_end(FairGroup *group)
{
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);
	bool		ends;

	AssertGroupLockedExclusively(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	ends = group->divided ? group->subgroups == 0 : !turns_has_overflow(line);
	if (ends)
		group->finish = virtual_time_max(group->finish, virtual_time_unpack(line->next));
	if (ends && !turns_has_any(group) && !line->blocked)
	{
		Assert(!line->standing);
		line->lane = 0;
	}
	LWLockRelease(&lane->lock);
	return ends;
}

/*
 * Virtual time between the subgroups of a group that is divided; 0 without a
 * line.  The partition may be locked in shared mode; takes the home lane's lock
 * in shared mode.
 */
VirtualTime
turn_lines_time(FairGroup *group)
{
	VirtualTime time = {0, 0};

	AssertGroupLocked(group);
	if (group->line.lane != 0)
	{
		LWLockAcquire(&turns_home(group)->lock, LW_SHARED);
		time = group_line_time_now(&group->line);
		LWLockRelease(&turns_home(group)->lock);
	}
	return time;
}

/*
 * Lock the home lane of a group that has a line, for one who is going to change
 * that, and has the partition locked exclusively.
 */
static void
lock_home(const FairGroup *group)
{
	AssertGroupLockedExclusively(group);
	LWLockAcquire(&turns_home(group)->lock, LW_EXCLUSIVE);
}

/* The line has been changed: see to its place, and unlock its home lane. */
static void
unlock_in_place(FairGroup *group)
{
	turns_take_place(group);
	LWLockRelease(&turns_home(group)->lock);
}

/*
 * Give an addressed task of a group that has a line the next tag of that, from
 * virtual time v on: the group has one order of tags, whether its tasks are
 * parked, of the overflow, or neither.  Sets start and finish of *tag; the
 * caller notes the latter as the group's finish, too.  The partition is locked
 * exclusively.
 */
void
turn_lines_tag(FairGroup *group, VirtualTime v, double charge, double weight, GroupTag *tag)
{
	GroupLine  *line = &group->line;

	lock_home(group);
	tag->start = virtual_time_max(virtual_time_max(v, group->finish),
								  virtual_time_unpack(line->next));
	tag->finish = virtual_time_add(tag->start, charge, weight);
	line->next = virtual_time_pack(tag->finish);
	unlock_in_place(group);
}

/*
 * As the group's own tag, that of its line goes back from finish to start, if
 * there was none since.  The group has a line, and its partition is locked
 * exclusively.
 */
void
turn_lines_untag(FairGroup *group, VirtualTime start, VirtualTime finish)
{
	lock_home(group);
	if (virtual_time_compare(virtual_time_unpack(group->line.next), finish) == 0)
		group->line.next = virtual_time_pack(start);
	unlock_in_place(group);
}

/*
 * The tags of a line are changed: they are at least low, and at most *high
 * (NULL: there is no bound).  Of a group, not of a subgroup, when its rows were
 * read, or its tasks removed.  Tags that tasks have already stay.  The
 * partition is locked exclusively.
 */
void
turn_lines_bound(FairGroup *group, VirtualTime low, const VirtualTime *high)
{
	GroupLine  *line = &group->line;

	lock_home(group);
	virtual_time_raise(&line->next, low);
	if (high != NULL && virtual_time_compare(virtual_time_unpack(line->next), *high) > 0)
		line->next = virtual_time_pack(*high);
	if (high != NULL && virtual_time_compare(virtual_time_unpack(line->resumed), *high) > 0)
		line->resumed = virtual_time_pack(*high);
	unlock_in_place(group);
}

/*
 * Has a group its turn, and at which tag?  A subgroup in its group; *kept: that
 * is a tag which its first task has already, between groups.  The group has a
 * line; the partition may be locked in shared mode.
 */
bool
turn_lines_turn(FairGroup *group, VirtualTime *tag, bool *kept)
{
	Lane	   *lane = turns_home(group);
	bool		standing;

	AssertGroupLocked(group);
	LWLockAcquire(&lane->lock, LW_SHARED);
	standing = group->line.standing;
	*tag = turns_tag(group);
	*kept = !group->divided && turns_first_has_tag(group, tag);
	LWLockRelease(&lane->lock);
	return standing;
}

/*
 * Count n more tasks that are parked, or were to be; n < 0: fewer.  At each
 * level, and in its limit, if it has one.  The caller holds the home lane's
 * lock, under which a group is told its limit, and not that of the partition if
 * it is a claim that reads (turns_read_dropped).
 */
void
turn_lines_count_parked(FairGroup *group, int n)
{
	AssertLineLocked(group);
	FOR_LEVELS(level, group)
	{
		if (level->divided)
			level->line.parked += n;
		limit_entry_count(level->limit, 0, 0, n);
	}
}

/*
 * How many tasks are parked in a group; a line that has dropped some counts one
 * for these.  So it is what turn_lines_count_parked has counted since the line
 * began.  Those of a line come first in its list, so only they are walked
 * along.  The home lane is locked.
 */
static int
parked_of(const FairGroup *group)
{
	const GroupLine *line = &group->line;
	int			n = line->dropped;

	if (group->divided)
		return line->parked;
	for (uint32 i = line->head; i != turns_first_of_overflow(line); i = turn_candidates[i].next)
		n++;
	return n;
}

/*
 * A group is told its limit, unless it knows that.  Some of its tasks may be
 * parked, though it had none, since the other level has one.  Both locks, the
 * partition's and the home lane's, are held while these and the leases are
 * counted in the limit: none begins, ends, is parked or taken meanwhile that
 * the limit would miss, or count twice.  Takes the home lane's lock, and the
 * limit's.
 */
void
turn_lines_limited(FairGroup *group, uint32 limit)
{
	Lane	   *lane = group->line.lane == 0 ? NULL : turns_home(group);

	AssertGroupLockedExclusively(group);
	if (group->limit != NO_LIMIT)
		return;
	if (lane != NULL)
		LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	group->limit = limit;
	limit_entry_count(limit, 1, group->leased, lane == NULL ? 0 : parked_of(group));
	if (lane != NULL)
		LWLockRelease(&lane->lock);
}

/*
 * Let go of what is parked.  Returns whether anything is, or was to be; *from
 * is the tag of the first then.  The caller sees to it that the lanes are read
 * again from there, or that they need not be, and to the line's place.
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
		*from = virtual_time_unpack(turn_candidates[line->head].tag);
	line->dropped = false;
	for (; line->last_parked != NO_ENTRY; n++)
		turn_candidates_remove(line, line->head);
	turn_lines_count_parked(group, -n);
	return n > 0;
}

/*
 * The overflow of a queue is read anew: a line forgets what it has of it.  all:
 * the queue is gone, and so is what is parked, and the limit that blocks the
 * line.  A reading that is under way ends with nothing, and is begun again. The
 * group has a line, and keeps it: turn_lines_end() ends it.
 *
 * A group that is divided has nothing of its own to forget, but may be blocked.
 * The partition is locked exclusively; takes the home lane's lock.
 */
void
turn_lines_forget(FairGroup *group, bool all)
{
	GroupLine  *line = &group->line;
	VirtualTime from;

	lock_home(group);
	if (!group->divided)
	{
		turn_candidates_cut(line, PG_INT64_MIN);
		line->frontier = PG_INT64_MAX;
		if (all)
			(void) remove_parked(group, &from);
	}
	line->blocked &= !all;
	unlock_in_place(group);
}

/*
 * A task cannot be parked for want of room: the lanes are read again there when
 * the line comes to it (turns_read_dropped).  Of several the first is
 * remembered, by its block, before which no other one is.  What is dropped
 * counts as one that is parked, so that the limit has the group's later tasks
 * wait.  The caller holds the home lane's lock exclusively, and sees to the
 * line's place.
 */
static void
drop(FairGroup *group, VirtualTime tag)
{
	GroupLine  *line = &group->line;

	if (!line->dropped || tag.whole < line->dropped_from)
		line->dropped_from = tag.whole;
	if (!line->dropped)
		turn_lines_count_parked(group, 1);
	line->dropped = true;
}

/*
 * A group's ready tasks were removed, or most of them.  What is parked is of no
 * use.  read_again: should some be left, the lanes are read again from the
 * first on, when it is the group's turn.  Else the caller lowers the lanes
 * itself, after this.  The group has a line and is not divided.  The partition
 * is locked exclusively; takes the home lane's lock, and that of the limit.
 */
void
turn_lines_unpark(FairGroup *group, bool read_again)
{
	VirtualTime from;

	lock_home(group);
	if (remove_parked(group, &from) && read_again)
		drop(group, from);
	unlock_in_place(group);
}

/*
 * The line of a group has tasks: if a level of it may not have any that waits.
 * Returns whether one does.  The caller sees to its place.
 *
 * For claims, too, which have the home lane locked and not the partition.  Each
 * level's limit is locked in turn, after the lane, and remembers the line that
 * it blocks before it is unlocked (T3 in turns.c).
 */
bool
turn_lines_block(FairGroup *group)
{
	bool		blocked = false;

	AssertLineLocked(group);
	FOR_LEVELS(level, group)
	{
		RoomLevel	blocks = {&level->key, level - group_entries, true, &level->line.blocked};

		if (!level->line.blocked)
			limit_room_block(((volatile FairGroup *) level)->limit, &blocks);
		blocked |= level->line.blocked;
	}
	return blocked;
}

/*
 * A claim has met a task of a group with a limit that may not have it, or not
 * before others that are parked: the entry is parked, if lane is its own, and
 * the line goes on when the group may have another.  NULL: the caller has not
 * taken it out of its lane, and waits for the group.
 *
 * The group may have it by now.  So the limit is asked again, under the lock
 * under which a lease is counted off; if it may, the line is not blocked (race
 * 7).
 *
 * It is parked before the line is blocked or takes its place: if the group may
 * have it, the next claim finds it at the line's turn.
 */
void
turn_lines_park(QueueState *queue, FairGroup *group, Lane *lane, const LaneEntry *entry,
				float4 cost)
{
	GroupLine  *line = &group->line;
	Lane	   *home = lock_line(queue, group);
	bool		room = true;

	Assert(home != NULL);
	if (lane != NULL && turn_candidates_park(line, lane, entry, cost, &room))
		turn_lines_count_parked(group, 1);
	if (!room)
		drop(group, lanes_entry_tag(entry));
	(void) turn_lines_block(group);
	turns_take_place(group);
	LWLockRelease(&home->lock);
}
