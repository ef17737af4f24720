/*-------------------------------------------------------------------------
 *
 * group_leases.c
 *	  What groups have in flight: a task is leased, and its lease ends.
 *
 * A claim has its group count the task as leased before there is a lease, and
 * has that undone if none is granted.  So a limit is never exceeded, and two
 * claims that come for the last task that a group may have do not both get
 * one.  While a lease is counted its group is not forgotten: the lease knows
 * it by its number, and counts itself off there when it ends.
 *
 * A task is counted in one place: as ready, or in the overflow, or by its
 * lease.  It goes from one to another under the lock of the lease's partition
 * where it can be looked at in between (groups_count).
 *
 * A task whose group finds no entry is leased all the same, where no group is
 * limited, and counted nowhere.  Should groups be given limits later, such
 * leases are sought out (groups_check_unknown).
 *
 * Locking: the lock of a group's partition guards its entry.  Each function
 * takes it exclusively and releases it on return.  The locks of limits are
 * taken under it; that of a limit that lets its groups go on, after it.
 * groups.h says what a caller may hold.
 *
 * Races: 27 and 29 are guarded where limits are taken (group_limits_take), and
 * two claims that come for the last task of a group at once by counting the
 * lease before it is granted (groups_lease_begins).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "shmem/group_private.h"

/* Of what a task took, how much goes into what the next is charged. */
#define NEW_SECONDS		0.1

/*
 * May groups of a queue have limits, by its defaults or by settings of their
 * own?  Then each that has a task in flight needs an entry to count it.  Read
 * without a lock: see groups_check_unknown.
 */
static inline bool
may_be_limited(QueueState *queue)
{
	return limit_table_by_default(&queue->limits) ||
		pg_atomic_read_u32(&queue->limits.entries) > 0;
}

/*
 * A task is leased, or about to be, whose group has no entry.  That will not do
 * where groups have limits, for it would not be counted: fails then.  If it is
 * leased already the caller has noted that, so that the lease ends with the
 * transaction.
 *
 * Looked at again when it is leased.  Whoever gives groups limits first says
 * so (limits.entries), and then looks for such leases, if there may be any
 * (limits.strangers, group_settings_adopt): one of the two sees the other, for
 * each writes before it looks, and has a full barrier between the two.
 */
void
groups_check_unknown(QueueState *queue)
{
	pg_memory_barrier();
	if (may_be_limited(queue))
		group_table_no_entry(NULL);
}

/*
 * Note what the order has served by now, with what this claim has not told it
 * yet.  Since when a group that was read from rows has work is known only now.
 */
static inline void
note_leased(const QueueOrder *order, FairGroup *group, const FairqAddress *address,
			const GroupLease *lease, double cost)
{
	double		before = ((volatile const QueueOrder *) order)->served_cost + lease->before;

	AssertGroupLockedExclusively(group);
	if (unlikely(group->since.whole == v_none.whole))
	{
		group->since.whole = address->block;
		group->since.fraction = address->fraction;
		group->since_cost = before;
	}
	group->leased_cost = before + cost;
}

/*
 * The limits of a group, and of that above it, by level.  Returns whether it
 * has any.  The partition is locked.
 */
static inline bool
limits_of(const FairGroup *group, uint32 limits[LIMIT_LEVELS])
{
	const FairGroup *above = group_above(group);

	limits[0] = group->limit;
	limits[1] = above == NULL ? NO_LIMIT : above->limit;
	return limits[0] != NO_LIMIT || limits[1] != NO_LIMIT;
}

/*
 * If a level of a group that is locked has no limit, though defaults say that
 * it has one, that is made.  Returns whether it was; then the group is not
 * locked any more, and is to be looked up anew.  *crowded: there is no room
 * for that of a subgroup, and its group waits.  Fails if there is no room for
 * any limit.
 */
static bool
joins(QueueState *queue, FairGroup *group, const GroupName *name, bool *crowded)
{
	FairGroup  *lacks = NULL;
	GroupName	above;

	*crowded = false;

	FOR_LEVELS(level, group)
	{
		if (level->limit == NO_LIMIT && limit_settings_limit(group_defaults(queue, level)))
			lacks = level;
	}
	if (lacks == group && group_above(group) != NULL)
		*crowded = limit_entry_is_crowded(group_above(group)->limit);
	if (lacks == NULL || *crowded)
		return false;
	group_table_unlock(group);
	if (lacks != group)
	{
		above = group_name_above(name);
		name = &above;
	}
	limited_groups_join(queue, name);
	return true;
}

/*
 * A task of a group is going to be leased, of this age; its row is at tid, and
 * locked.  The caller fills in cost and of_overflow of *lease, as the row
 * says, what this claim has been charged before, and the limits that have kept
 * room for the task, or NO_LIMIT. *lease says then which group that is, which
 * is not forgotten until the lease ends, and what the task is charged, by the
 * group's weight.  What was kept by other limits, which the group had before,
 * the caller gives up; or all, if the task is not leased.
 *
 * The group counts the lease before there is one, and its limits do: so no two
 * claims take the last that it may have.  The caller undoes that with
 * groups_lease_refused if the lease is not granted.
 *
 * Returns false if the group is at its limit; then nothing is counted, and
 * lease->limits are those that it has.  Fails, with nothing counted, where
 * groups have limits and there is no entry for the group or for its limit.
 */
bool
groups_lease_begins(QueueState *queue, const FairqAddress *address,
					const ItemPointerData *tid, const GroupName *name,
					TimestampTz enqueued_at, GroupLease *lease)
{
	FairGroup  *group;
	FairGroup  *whole;
	bool		may = true;
	bool		crowded = false;
	bool		of_overflow = lease->of_overflow;
	uint32		reserved[LIMIT_LEVELS];
	double		cost = lease->cost;
	int			class = address->class;

	Assert(class < queue->classes);
	memcpy(reserved, lease->limits, sizeof(reserved));
	/* Until it has the limits that it is to have by default. */
	do
	{
		group = group_table_try_lock(queue, class, name, NULL,
									 may_be_limited(queue) ? ENTRY_KNOWN_TASK : ENTRY_UNCOUNTED);
	} while (unlikely(group != NULL && limit_table_by_default(&queue->limits) &&
					  joins(queue, group, name, &crowded)));
	lease->cost = 0;
	lease->counted = queue_state_is_counted(queue, tid);
	if (group == NULL)
	{
		/*
		 * Other groups have taken all the entries.  The task is there, and to
		 * be claimed: only where groups may have limits it has to be counted.
		 */
		pg_atomic_write_u32(&queue->limits.strangers, 1);
		groups_check_unknown(queue);
		lease->group = FAIRQ_NO_GROUP;
		lease->limits[0] = lease->limits[1] = NO_LIMIT;
		lease->counted = false;
		lease->charge = cost / queue->limits.defaults.weight;
		return true;
	}
	whole = group_whole(group);
	if (limits_of(group, lease->limits))
		may = !crowded && group_limits_take(lease->limits, reserved);
	cost = group_charge(queue, group, cost);
	if (may)
	{
		note_leased(&queue->orders[class], whole, address, lease, cost);
		FOR_LEVELS(level, group)
		{
			level->leased++;
			level->served++;
			level->served_cost += cost;
			level->head_time = Max(level->head_time, enqueued_at);
		}
		lease->cost = cost;
		if (likely(lease->counted && !of_overflow))
			group_table_count_ready(queue, group, -1);
	}
	lease->group = group - group_entries;
	lease->charge = cost / group_weight(queue, whole);
	group_table_unlock(group);
	return may;
}

/*
 * Another claim has a lease on the task, or the session is over: all counts
 * are as they were before groups_lease_begins, but for room that was kept for
 * the task, which is used up.  The limits are those that the group has now:
 * one that it was told meanwhile has counted this task, too.  Never fails.
 */
void
groups_lease_refused(const GroupLease *lease)
{
	FairGroup  *group;
	uint32		limits[LIMIT_LEVELS];

	if (lease->group == FAIRQ_NO_GROUP)
		return;
	group = group_table_lock_number(lease->group);
	(void) limits_of(group, limits);
	FOR_LEVELS(level, group)
	{
		level->leased--;
		level->served--;
		level->served_cost -= lease->cost;
	}
	if (lease->counted && !lease->of_overflow)
		group_table_count_ready(queue_state_by_number(group->key.queue), group, 1);
	group_table_unlock(group);
	for (int i = 0; i < LIMIT_LEVELS; i++)
		group_limits_give(limits[i], true);
}

/*
 * A lease has ended that ran for so many microseconds; run < 0: its task was
 * not worked on.  charged is how long of that it took of its worker's time, in
 * microseconds: under charge 'seconds' what the group's next tasks are
 * charged, averaged over some.  FAIRQ_NO_GROUP: the lease counts for none.
 *
 * The lease is not the group's any more, and the caller holds no lock of
 * groups, lanes or leases: the group goes on if it has waited for this, which
 * takes its lane's.  Then the entry may be another group's.  Never fails:
 * called at the end of transactions.
 */
void
groups_lease_ends(uint32 number, int64 run, int64 charged)
{
	FairGroup  *group;
	uint32		limits[LIMIT_LEVELS];

	if (number == FAIRQ_NO_GROUP)
		return;
	group = group_table_lock_number(number);
	/* The limits first: a group with tasks in flight keeps its own. */
	(void) limits_of(group, limits);
	FOR_LEVELS(level, group)
	{
		double		seconds = charged / (double) USECS_PER_SEC;

		level->leased--;
		if (run < 0)
			continue;
		level->run_time += run;
		level->seconds = level->seconds < 0 ? seconds :
			level->seconds + NEW_SECONDS * (seconds - level->seconds);
	}
	group_table_unlock(group);
	for (int i = 0; i < LIMIT_LEVELS; i++)
		group_limits_give(limits[i], false);
}

/* A group has a lease more, and so have its limits, room or not. */
static void
adopt(FairGroup *group)
{
	FOR_LEVELS(level, group)
	{
		level->leased++;
		limit_entry_count(level->limit, 0, 1, 0);
	}
}

/*
 * A lease is found whose group was not known.  Returns that, which counts it
 * from now on, and so do its limits, whether they have room or not.  The
 * caller tells the lease (leases_adopt); or takes it back, with
 * groups_lease_ends.  Fails if there is no entry.
 */
uint32
groups_adopt_lease(QueueState *queue, int class, const GroupName *name)
{
	FairGroup  *group = group_table_lock(queue, class, name, NULL, ENTRY_KNOWN_TASK);

	adopt(group);
	group_table_unlock(group);
	return group - group_entries;
}

/*
 * The task of a lease was written with SQL into this group, which counts it as
 * ready, and so is not forgotten.  It has the lease from now on.  Called with
 * the lock of the lease's partition held.  Never fails.
 */
void
groups_lease_joins(uint32 number)
{
	FairGroup  *group = group_table_lock_number(number);

	adopt(group);
	group_table_unlock(group);
}

/*
 * n tasks of a group are counted, as ready or in the overflow; or (n < 0) are
 * not any more: they were given back, leased, written or removed.  The group
 * has counted them until now, or has a task in flight, and so is not forgotten.
 * Never fails: called at the end of transactions, too.
 *
 * Where a lease is granted or ends the lock of its partition is held (leases.c,
 * lease_counts.c): so who looks under that lock finds the task leased or
 * counted, not both and not neither.  A task that is given back is counted here
 * before the group is told that it has one less in flight (groups_lease_ends),
 * so that it is not forgotten between the two.  In the overflow it needs a
 * line; the caller offers it to that.  One that is removed and is a candidate
 * of its line leads nowhere there.
 */
void
groups_count(uint32 number, bool of_overflow, int n)
{
	FairGroup  *group = group_table_lock_number(number);
	QueueState *queue = queue_state_by_number(group->key.queue);

	if (!of_overflow)
		group_table_count_ready(queue, group, n);
	else
	{
		group_table_count_overflow(group, n);
		if (n > 0)
			turn_lines_begin(queue, group);
	}
	group_table_unlock(group);
}
