/*-------------------------------------------------------------------------
 *
 * group_walks.c
 *	  Walks over the groups of a queue, all of which are changed.
 *
 * A walk goes through all entries of the server, for what rarely happens to a
 * queue: its table has another file, its rows are counted, all is purged.
 *
 * Locking: as in group_table.c.  No group is made or taken over during a walk,
 * which holds the creation lock in shared mode: whoever wants a new one waits.
 * Under it the partition of one group at a time is locked exclusively.  None
 * fails.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/group_private.h"
#include "shmem/queue_state.h"

/*
 * Do something to each group and each subgroup of a queue, whose partition is
 * locked.  A group may come before its subgroups or after them.
 */
static void
for_groups_of(QueueState *queue, void (*work) (QueueState *queue, FairGroup *group))
{
	int			queue_number = queue_state_number(queue);

	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	for (uint32 i = 0; i < group_table->free.high_water; i++)
	{
		FairGroup  *group = &group_entries[i];

		if (!group->in_use || group->key.queue != queue_number)
			continue;
		(void) group_table_lock_number(i);
		work(queue, group);
		group_table_unlock(group);
	}
	LWLockRelease(&group_table->creation_lock);
}

/*
 * What was counted of a group is counted off, and its line forgets the
 * overflow.  The queue counts a task once: not at its group if that is
 * divided.
 */
static void
count_anew(QueueState *queue, FairGroup *group)
{
	if (!group->divided)
		pg_atomic_fetch_sub_u64(&queue->counts.ready, (int64) group->ready);
	group->ready = 0;
	group->overflow = 0;
	if (group->line.lane != 0)
		turn_lines_forget(group, false);
}

/*
 * The rows of a queue are going to be read and counted; the caller has had the
 * leases counted anew (leases_count_anew), and takes its snapshot after this:
 * what commits from then on is counted by its backend.  Producers wait for that
 * (queue_state_recovery_begin).  What is in flight, pending or parked stays as
 * it is.
 */
void
groups_count_anew(QueueState *queue)
{
	for_groups_of(queue, count_anew);
}

/*
 * A line lets go what is parked; of a group that is divided there is none, but
 * in the lines of its subgroups.
 */
static void
unpark(QueueState *queue, FairGroup *group)
{
	if (group->line.lane != 0 && !group->divided)
		turn_lines_unpark(group, false);
}

/*
 * The lanes of a queue are read anew: what is parked will be found again.  The
 * caller sets the lanes back after this, not before: what a claim parks when
 * it has come from a lane that was read anew must not be let go.
 */
void
groups_unpark(QueueState *queue)
{
	for_groups_of(queue, unpark);
}

/*
 * A line is not before virtual time.  Subgroups have tags of their own, which
 * begin at 0.  The partition is locked exclusively.
 */
static void
begin_line(QueueState *queue, FairGroup *group)
{
	if (group->line.lane != 0 && group_above(group) == NULL)
		turn_lines_bound(group, queue_order_virtual_time(&queue->orders[group->key.class]),
						 NULL);
}

/*
 * The rows of a queue were read, and virtual time begins at the first of them:
 * no group with a line is before that.  The caller has set virtual time
 * (queue_order_start_at).
 */
void
groups_begin_lines(QueueState *queue)
{
	for_groups_of(queue, begin_line);
}

/*
 * Take back what a group has not been served: it starts one task behind virtual
 * time, unless it is before that (one may be in flight).  What subgroups owe
 * each other stays.  A line lets go what is parked; should some of that be left
 * the lanes are read again from there.
 */
static void
level_group(QueueState *queue, FairGroup *group)
{
	VirtualTime level = virtual_time_add(queue_order_virtual_time(&queue->orders[group->key.class]),
										 1.0, 1.0);

	AssertGroupLockedExclusively(group);
	if (group_above(group) == NULL)
	{
		if (virtual_time_compare(group->finish, level) > 0)
			group->finish = level;
		if (group->line.lane != 0)
			turn_lines_bound(group, v_none, &level);
	}
	if (group->line.lane != 0 && !group->divided)
		turn_lines_unpark(group, true);
}

/*
 * The tasks of a group were purged: it did not get the service that they were
 * to be charged for, and starts one task behind virtual time (one may be in
 * flight).  Not if it has had new ones since it was at finish.  FAIRQ_NO_GROUP:
 * all groups of the queue.
 *
 * The group was looked up before the purge, and its entry may be another one's
 * of the queue by now: then that one's line is set back, and no task is lost.
 * Never fails: called at the end of transactions.
 */
void
groups_level(QueueState *queue, uint32 number, VirtualTime finish)
{
	FairGroup  *group;

	if (number == FAIRQ_NO_GROUP)
	{
		for_groups_of(queue, level_group);
		return;
	}
	group = group_table_lock_hint(number);
	if (group == NULL)
		return;
	if (group->key.queue == queue_state_number(queue))
	{
		VirtualTime now = group->finish;

		level_group(queue, group);
		/* It has had new ones since: they were given tags from there on. */
		if (virtual_time_compare(now, finish) != 0)
			group->finish = now;
	}
	group_table_unlock(group);
}
