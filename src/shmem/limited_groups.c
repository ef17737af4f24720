/*-------------------------------------------------------------------------
 *
 * limited_groups.c
 *	  Which limit a group has, and how the classes of a group learn it.
 *
 * limit_table.c has one entry for a key in all classes; group_table.c has one
 * for each class, which counts its tasks in flight.  A class that is told the
 * limit adds these to it.
 *
 * Locking: as in group_table.c.  The lock of a limit is taken after that of a
 * partition, and after that of a home lane; so is the table lock of limits.
 * Where a limit has to be made no partition is locked, for those of all groups
 * are to make room.
 *
 * Race 7 (the last lease of a group ends between a claim's look and the
 * blocking of its line) is guarded in limited_groups_park, 15 (settings that
 * are not committed) by announcing them first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/settings.h"
#include "shmem/group_private.h"
#include "shmem/groups.h"
#include "shmem/limit_table.h"

/* How long a group waits whose subgroups use up too many limits. */
#define CROWDED_USECS	USECS_PER_SEC

/*
 * A group does without its limit, if that says nothing (limit_entry_leave):
 * its settings were taken away, or limits are scarce.
 */
static void
leave(FairGroup *group, uint32 limit, bool scarce)
{
	AssertGroupLockedExclusively(group);
	if (limit == NO_LIMIT || group->limit != limit ||
		!limit_entry_leave(limit, group->leased, scarce))
		return;
	group->limit = NO_LIMIT;
	limit_table_detach(limit);
}

/* As leave, where the settings of a limit were taken away. */
static void
leave_limit(FairGroup *group, uint32 limit)
{
	leave(group, limit, false);
}

/*
 * There is no room for limits: groups without tasks in flight do without
 * theirs, if that is their queue's default, and all whose limit says nothing.
 * No partition is locked.
 */
static void
let_go_of_limits(void)
{
	AssertNotLocked(&group_table->creation_lock);
	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	for (uint32 i = 0; i < group_table->free.high_water; i++)
	{
		FairGroup  *group = &group_entries[i];

		/* Without its lock first: most have none. */
		if (!group->in_use || ((volatile FairGroup *) group)->limit == NO_LIMIT)
			continue;
		(void) group_table_lock_number(i);
		leave(group, group->limit, true);
		group_table_unlock(group);
	}
	LWLockRelease(&group_table->creation_lock);
}

/*
 * Do something about a limit for each group of its key, in all classes, with
 * the group's partition locked exclusively.  The caller has no partition
 * locked, nor the creation lock, which is held in shared mode all along.
 *
 * Whoever makes a group looks for its limit with the creation lock held: so
 * either it finds the limit, or we find the group.  A class without any group
 * is passed over, at the cost of one look.
 */
static void
in_all_classes(QueueState *queue, const GroupName *name, uint32 limit,
			   void (*work) (FairGroup *group, uint32 limit))
{
	AssertNotLocked(&group_table->creation_lock);
	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	for (int class = 0; class < queue->classes; class++)
	{
		LWLock	   *lock;
		FairGroup  *group;

		if (queue->orders[class].group_ring == FAIRQ_NO_GROUP)
			continue;
		group = group_table_find(queue, class, name, LW_EXCLUSIVE, &lock);
		if (group != NULL)
			work(group, limit);
		LWLockRelease(lock);
	}
	LWLockRelease(&group_table->creation_lock);
}

/*
 * The limit of a key, made if there is none (limit_table_make), for which room
 * is made.  No partition is locked.  Fails, with nothing changed, if there is
 * no room for it.
 *
 * announced: the groups of that key are going to be given settings, and learn
 * the limit when these are committed (limited_groups_settle), so that nothing
 * has to fail at the commit.  The caller settles it now, or has reserved a
 * pending action and notes that it is to be settled: else the entry would never
 * go.
 */
uint32
limited_groups_make(QueueState *queue, const GroupName *name, bool announced)
{
	int			number = queue_state_number(queue);
	uint32		limit = limit_table_make(number, &queue->limits, name, announced);

	if (unlikely(limit == NO_LIMIT))
	{
		let_go_of_limits();
		limit = limit_table_make(number, &queue->limits, name, announced);
	}
	if (limit == NO_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot limit more than %d groups at a time",
						settings_max_limits),
				 errhint("Raise the setting \"%s\" and restart the server.",
						 "pgfairq.max_limits")));
	return limit;
}

/*
 * A group gets the limit that its queue's defaults say, with what it has in
 * flight in all its classes, which may be from before there were such defaults.
 * No partition is locked.
 *
 * If there is no room for that of a subgroup, because of others of its group,
 * its group waits for a second, at a limit that it has for nothing else, if
 * need be: then its tasks come to this again.
 *
 * The caller, a claim, looks at the group anew: it may have been forgotten, or
 * been told its limit by another claim.  Fails as limited_groups_make.
 */
void
limited_groups_join(QueueState *queue, const GroupName *name)
{
	int			number = queue_state_number(queue);
	bool		crowded = name->subgroup && unlikely(limit_table_is_full_of(number, name));
	GroupName	above;
	uint32		limit;

	/* What others do not need is given up before it waits. */
	if (crowded)
	{
		let_go_of_limits();
		crowded = limit_table_is_full_of(number, name);
	}
	if (crowded)
	{
		above = group_name_above(name);
		name = &above;
	}
	/* It has no room until all classes are told: what they have is counted. */
	limit = limited_groups_make(queue, name, false);
	in_all_classes(queue, name, limit, turn_lines_limited);
	group_limits_joined(limit, crowded ? GetCurrentTimestamp() + CROWDED_USECS : 0);
}

/*
 * The weight of a group, or subgroup, whether it has tasks or not: that of its
 * limit, or its queue's default.  Above zero.  As of a moment ago.
 */
double
limited_groups_weight(QueueState *queue, const GroupName *name)
{
	uint32		limit = limit_table_find(queue_state_number(queue), name, false);

	if (limit != NO_LIMIT)
		return limit_entry_weight(limit);
	return name->subgroup ? queue->limits.subgroup_defaults.weight : queue->limits.defaults.weight;
}

/*
 * A task of a group may not have it now, as its claimer has found: its entry is
 * parked in the group's line until it may, if lane is its own.  lane NULL: the
 * claimer has left it where it is, and waits for the group.  Returns false if
 * the group has no limit any more: then the caller gives the entry back to its
 * lane.
 *
 * Between the claimer's look and this a lease of the group may have ended.  So
 * the limit is asked again (turn_lines_park), and the line is blocked only if
 * there is no room then (race 7).  Never fails.
 */
bool
limited_groups_park(QueueState *queue, int class, const GroupName *name, Lane *lane,
					const LaneEntry *entry, float4 cost)
{
	LWLock	   *lock;
	FairGroup  *group = group_table_find(queue, class, name, LW_EXCLUSIVE, &lock);
	bool		parks = false;

	FOR_LEVELS(level, group)
		parks |= (level->limit != NO_LIMIT);
	if (parks)
		turn_lines_park(queue, group, lane, entry, cost);
	LWLockRelease(lock);
	return parks;
}

/*
 * Does a group, or the one that it is a subgroup of, wait until it may have
 * tasks in flight: with some parked, or its line blocked?  A hint, for the
 * sweep: such a task is in no window, and not lost.
 */
bool
limited_groups_waits(QueueState *queue, const GroupName *name)
{
	uint32		limit;
	GroupName	above;

	if (pg_atomic_read_u32(&queue->limits.entries) == 0)
		return false;
	limit = limit_table_find(queue_state_number(queue), name, false);
	if (limit != NO_LIMIT && limit_entry_waits(limit))
		return true;
	if (!name->subgroup)
		return false;
	above = group_name_above(name);
	return limited_groups_waits(queue, &above);
}

/*
 * They are in force, or (NULL) were rolled back.  Those who know the group
 * learn its limit first, so that what is in flight is counted; and forget it
 * again if the settings were taken away.  Never fails: called at the end of
 * transactions, or right after the limit was announced.
 */
void
limited_groups_settle(QueueState *queue, uint32 limit, const LimitSettings *settings)
{
	GroupName	name;

	if (settings != NULL)
	{
		/* Nothing is taken from here on, until they have been changed. */
		limit_entry_settling(limit, &name);
		in_all_classes(queue, &name, limit, turn_lines_limited);
		group_limits_change(limit, settings);
		in_all_classes(queue, &name, limit, leave_limit);
	}
	limit_table_settled(limit);
}
