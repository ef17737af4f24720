/*-------------------------------------------------------------------------
 *
 * lease_counts.c
 *	  What groups count of leased tasks.
 *
 * A task is counted in its group, or it has a lease that knows whether it will
 * be when that ends: whoever looks under the lock of the lease finds one of the
 * two.  So a count is changed with that lock held; the lock of the group is
 * taken inside it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/groups.h"
#include "shmem/lease_table.h"
#include "shmem/queue_state.h"

/*
 * The row of a task is being counted, and locked.  If the task has a lease,
 * which goes into *info, that lease's end counts it (if its group is known).
 * Returns whether it has one.
 *
 * The caller holds the row's page locked exclusively, so that no claim comes
 * between this and the note that the row is counted (counts.counted).  If the
 * group is not known it has the lease adopted, and asks again.
 */
bool
leases_count_row(int queue, int64 task, LeaseInfo *info)
{
	Partition  *partition;
	Lease	   *lease = lock_task(queue, task, LW_EXCLUSIVE, &partition);

	if (lease != NULL)
	{
		copy_lease(lease - lease_entries, info);
		lease->counted = (info->group != FAIRQ_NO_GROUP);
	}
	unlock_partition(partition);
	return lease != NULL;
}

/*
 * The rows of a queue are going to be counted: no task of a lease is, as yet.
 * Leases that are granted meanwhile go by where their rows are
 * (queue_state_is_counted).  Called before groups_count_anew: a task that is
 * given back between the two would be counted here, and again with its row.
 */
void
leases_count_anew(int queue)
{
	for (uint32 i = 0; i < lease_table->free.high_water; i++)
	{
		LeaseRef	ref;
		Partition  *partition = lock_lease_of(queue, i, LW_EXCLUSIVE, &ref);

		if (partition == NULL)
			continue;
		lease_entries[i].counted = false;
		unlock_partition(partition);
	}
}

/*
 * The groups of a queue are others from now on: the leased tasks count for none
 * until they are adopted.  The caller has the queue's table locked against all
 * others, so no lease begins meanwhile.  Never fails.
 */
void
leases_leave_groups(int queue)
{
	for (uint32 i = 0; i < lease_table->free.high_water; i++)
	{
		Lease	   *lease = &lease_entries[i];
		LeaseRef	ref;
		Partition  *partition = lock_lease_of(queue, i, LW_EXCLUSIVE, &ref);
		uint32		group;

		if (partition == NULL)
			continue;
		group = lease->group;
		lease->group = FAIRQ_NO_GROUP;
		lease->counted = false;
		unlock_partition(partition);
		groups_lease_ends(group, -1, 0);
	}
}

/*
 * A task was removed from its place, not by who has it leased: it is not
 * counted there any more.  was is the token of the lease that the task had when
 * its row was removed (0: none).  If it still has that, it is not counted now,
 * and its lease will not count it again when it ends, whatever it ends with.
 *
 * Called at commit, when there may be another row of the task, which may have
 * been claimed already, as in leases_task_written.  Never fails.
 */
void
leases_task_removed(int queue, int64 task, uint64 was, TaskCount in)
{
	Partition  *partition;
	Lease	   *lease = lock_task(queue, task, LW_EXCLUSIVE, &partition);

	if (lease != NULL && lease->token == was)
		lease->counted = false;
	else
		groups_count(in.group, in.overflow, -1);
	unlock_partition(partition);
}

/*
 * The row of a task was written with SQL, and the caller has counted it where
 * it is now.  was is the token of the lease that the task had then (0: none).
 * Where the task was before, it is counted off; or, if it still has that lease,
 * the lease's end counts it where it is now, and the caller takes back what it
 * has counted.  Returns whether it has to.
 *
 * Called at commit, when the new row may have been claimed already: such a
 * lease has another token, and has counted the task off where it is now.  All
 * is done under one lock, so the task is counted once, whether the claim comes
 * before or after (race 30).  Whoever settles the lease has waited for this
 * (row_reader_wait_writer).
 *
 * before.group is FAIRQ_NO_GROUP if the old row was counted nowhere.  Takes the
 * lock of the lease's partition, and inside it that of a group.  Never fails.
 */
bool
leases_task_written(int queue, int64 task, uint64 was, TaskCount now, TaskCount before)
{
	Partition  *partition;
	Lease	   *lease = lock_task(queue, task, LW_EXCLUSIVE, &partition);
	bool		of_before = (lease != NULL && lease->token == was);
	uint32		left = FAIRQ_NO_GROUP;

	if (of_before)
	{
		if (lease->group != now.group)
		{
			left = lease->group;
			lease->group = now.group;
			groups_lease_joins(now.group);
		}
		lease->counted = true;
		lease->overflow = now.overflow;
	}
	else if (before.group != FAIRQ_NO_GROUP)
		groups_count(before.group, before.overflow, -1);
	unlock_partition(partition);
	groups_lease_ends(left, -1, 0);
	return of_before;
}
