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
 * partition.
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
 * A group is told its limit, unless it knows that.  What it has in flight is
 * counted there from now on.
 */
static void
set_limit(FairGroup *group, uint32 limit)
{
	AssertGroupLockedExclusively(group);
	if (limit == NO_LIMIT || group->limit != NO_LIMIT)
		return;
	turn_lines_limited(group, limit);
}

/*
 * There is no room for limits: groups without tasks in flight do without
 * theirs, if that is their queue's default, and all whose limit says nothing.
 * No partition is locked.
 */
static void
let_go_of_limits(void)
{
	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	for (uint32 i = 0; i < group_table->free.high_water; i++)
	{
		FairGroup  *group = &group_entries[i];

		/* Without its lock first: most have none. */
		if (!group->in_use || ((volatile FairGroup *) group)->limit == NO_LIMIT)
			continue;
		(void) group_table_lock_number(i);
		if (group->limit != NO_LIMIT && limit_table_leave(group->limit, group->leased))
			group->limit = NO_LIMIT;
		else if (group->limit != NO_LIMIT && group->leased == 0 &&
				 !limit_table_needed(group->limit))
		{
			limit_table_detach(group->limit);
			group->limit = NO_LIMIT;
		}
		group_table_unlock(group);
	}
	LWLockRelease(&group_table->creation_lock);
}

/*
 * A group does without its limit, if that says nothing: its settings were
 * taken away.
 */
static void
leave_limit(FairGroup *group, uint32 limit)
{
	AssertGroupLockedExclusively(group);
	if (group->limit == limit && limit_table_leave(limit, group->leased))
		group->limit = NO_LIMIT;
}

/*
 * Do something about a limit for each group of its key, in all classes.  No
 * partition is locked.
 *
 * Whoever makes a group looks for its limit with the creation lock held: so
 * either it finds the limit, or we find the group.
 */
static void
in_all_classes(QueueState *queue, const GroupName *name, uint32 limit,
			   void (*work) (FairGroup *group, uint32 limit))
{
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
 */
static uint32
limit_of_key(QueueState *queue, const GroupName *name, bool announced)
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
 * Is there no room for the limit of a subgroup, because of others of its group?
 * What these do not need is given up before.
 */
static bool
is_crowded(QueueState *queue, const GroupName *name)
{
	int			number = queue_state_number(queue);

	if (!name->subgroup || likely(!limit_table_is_full_of(number, name)))
		return false;
	let_go_of_limits();
	return limit_table_is_full_of(number, name);
}

/*
 * A group gets the limit that its queue's defaults say.  No partition is
 * locked.
 *
 * With what it has in flight in all its classes, which may be from before there
 * were such defaults.
 *
 * If there is no room for that of a subgroup its group waits, at a limit that
 * it has for nothing else, if need be.
 *
 * The caller, a claim, looks at the group anew: it may have been forgotten, or
 * been told its limit by another claim.  Fails as limit_of_key.
 */
void
limited_groups_join(QueueState *queue, const GroupName *name)
{
	bool		crowded = is_crowded(queue, name);
	GroupName	above;
	uint32		limit;

	if (unlikely(crowded))
	{
		above = group_name_above(name);
		name = &above;
	}
	/* It has no room until all classes are told: what they have is counted. */
	limit = limit_of_key(queue, name, false);
	in_all_classes(queue, name, limit, set_limit);
	group_limits_joined(limit, crowded ? GetCurrentTimestamp() + CROWDED_USECS : 0);
}

/*
 * The limit of a group; NO_LIMIT: it has none.  For those who look: it may be
 * another group's by the time that they do.
 */
uint32
limited_groups_find(QueueState *queue, const GroupName *name)
{
	return limit_table_find(queue_state_number(queue), name, false);
}

/*
 * The weight of a group, or subgroup, whether it has tasks or not.
 */
double
limited_groups_weight(QueueState *queue, const GroupName *name)
{
	uint32		limit = limited_groups_find(queue, name);

	if (limit != NO_LIMIT)
		return limit_table_weight(limit);
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
	limit = limited_groups_find(queue, name);
	if (limit != NO_LIMIT && limit_table_waits(limit))
		return true;
	if (!name->subgroup)
		return false;
	above = group_name_above(name);
	return limited_groups_waits(queue, &above);
}

/*
 * A group, by its key, is going to be given settings: its limit, made if there
 * is none, which no group learns before they are committed
 * (limited_groups_settle).  The caller settles it now, or has reserved a
 * pending action and notes that it is to be settled: else the entry would
 * never go.  Fails as limit_of_key: so nothing has to fail at the commit.
 */
uint32
limited_groups_announce(QueueState *queue, const GroupName *name)
{
	return limit_of_key(queue, name, true);
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
		limit_table_settling(limit, &name);
		in_all_classes(queue, &name, limit, set_limit);
		group_limits_change(limit, settings);
		in_all_classes(queue, &name, limit, leave_limit);
	}
	limit_table_settled(limit);
}
