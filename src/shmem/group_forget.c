/*-------------------------------------------------------------------------
 *
 * group_forget.c
 *	  Forgetting groups, so that their entries are free for others.
 *
 * A group whose F is not beyond virtual time and that has no tasks carries no
 * information: its next task gets the start tag v whether it is known or not.
 * It is forgotten when its entry is wanted; not before, for the entry counts
 * its tasks, and who has one to count off finds it there.  Its slot may then
 * be another group's at once, without two tasks ever having the same address:
 * all start tags the old one gave out are below its F, so below v, and all
 * that the new one gives out are not.
 *
 * There are three occasions.  A group that is new looks at two of its order
 * (new_entry in group_table.c), which is what mostly happens.  If no entry is
 * free the groups of all queues are gone through; that takes long, so it is
 * not repeated at once if it was in vain.  And when a queue is gone so are its
 * groups, whatever they have.
 *
 * A subgroup is forgotten by virtual time between those of its group, and a
 * group after all its subgroups.  A line goes before its group does: one that
 * has something in it, or is blocked, or is being read, keeps the group.
 *
 * Locking: an entry ceases to be a group's under the creation lock, held
 * exclusively, and the partition's.  So who holds the partition's lock, and
 * has found the group in use, keeps it from being forgotten.  All queues are
 * kept from going by the directory lock while their groups are gone through;
 * it is taken before the creation lock.  No function here fails.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/wall_clock.h"
#include "shmem/group_private.h"

/*
 * After a look at all groups that was in vain, as GROUP_RECLAIM_PART has it,
 * there is none for so many microseconds for each entry, which is some ten
 * times as long as it takes.
 */
#define RECLAIM_REST	INT64CONST(1)

/*
 * Is a group not beyond virtual time: that of its order, v; or, of a subgroup,
 * that between the subgroups of its group?  The latter is read under the home
 * lane's lock, which turn_lines_time takes.
 */
static bool
is_reached(FairGroup *group, VirtualTime v)
{
	FairGroup  *above = group_above(group);

	return virtual_time_compare(group->finish, above == NULL ? v : turn_lines_time(above)) <= 0;
}

/*
 * Take a group out of its chain, if it can be forgotten at virtual time v
 * (NULL: whatever that is).  scarce: all entries are taken.  Returns whether it
 * was; then the entry is in no chain and not in use, and the caller, which
 * holds the creation lock exclusively, makes it another group's, or takes it
 * out of its ring and frees it.  Takes the partition's lock, and those of the
 * home lane and of the limit under it.
 *
 * A line is ended on the way if the counts say that it is of no use.  Where
 * entries are scarce it forgets what it has first: if the group has no tasks
 * that leads nowhere, as after a purge, and no claim may come by to find that.
 */
bool
group_forget_if_idle(FairGroup *group, const VirtualTime *v, bool scarce)
{
	uint32		hash = group_table_hash(&group->key);
	LWLock	   *lock = group_table_partition(hash);
	FairGroup  *above = group_above(group);
	bool		idle;

	AssertLockedExclusively(&group_table->creation_lock);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (unlikely(group->line.lane != 0) && group->overflow <= 0 && group->pending == 0 &&
		group->subgroups == 0)
	{
		if (scarce && group->leased == 0 && group->ready == 0)
			turn_lines_forget(group, false);
		(void) turn_lines_end(group);
	}
	idle = (v == NULL || is_reached(group, *v)) &&
		group->subgroups == 0 && group->ready == 0 && group->leased == 0 &&
		group->pending == 0 && group->overflow <= 0 && group->line.lane == 0 &&
		(group->limit == NO_LIMIT || !limit_entry_waits(group->limit));
	if (idle)
	{
		uint32	   *link = &group_chains[hash & group_chain_mask];

		while (&group_entries[*link] != group)
			link = &group_entries[*link].hash_next;
		*link = group->hash_next;
		if (group->limit != NO_LIMIT)
			limit_table_detach(group->limit);
		group->in_use = false;
		/* Now the group may be the next that is forgotten. */
		if (above != NULL)
			above->subgroups--;
	}
	LWLockRelease(lock);
	return idle;
}

/*
 * An entry that is in no chain any more is free.  The caller takes it out of
 * its ring, by the link that this overwrites.
 */
static void
give_entry(uint32 number)
{
	AssertLockedExclusively(&group_table->creation_lock);
	Assert(group_table->used > 0);
	free_entries_give(&group_table->free, number, &group_entries[number].ring_next);
	group_table->used--;
}

/*
 * The highest F of the groups of an order, v at least.  Has any of them tasks
 * that wait, by its counts?  Without their locks: as it was a moment ago.  The
 * ring, which is not empty, stays, for the caller holds the creation lock.
 *
 * Subgroups have tags of another virtual time, which are not compared.
 */
static VirtualTime
highest_finish(const QueueOrder *order, VirtualTime v, bool *waits)
{
	uint32		number = order->group_ring;

	AssertCreationLocked();
	*waits = false;
	do
	{
		FairGroup  *group = &group_entries[number];

		if (group_above(group) == NULL)
			v = virtual_time_max(v, group->finish);
		*waits |= group->ready > 0 || group->overflow > 0 || group->pending > 0;
		number = group->ring_next;
	} while (number != order->group_ring);
	return v;
}

/*
 * Free the entries of all groups of an order that can be forgotten.  Returns
 * how many.  The directory lock is held; takes the creation lock for as long
 * as the order has groups.
 *
 * If nothing is ready, or no group has tasks that wait, it ends the busy period
 * first, at the highest F: groups whose tasks were cancelled or purged were
 * never served as far as they got.  Lanes know only of what claims have come
 * to: there may be none, and all was purged.  Counts are believed only where
 * the rows have been read.
 */
static int
reclaim_order(QueueState *queue, int class)
{
	QueueOrder *order = &queue->orders[class];
	VirtualTime v = queue_order_virtual_time(order);
	bool		nothing_ready = queue_ready_nothing(queue, class);
	uint32		previous;
	uint32		last;
	bool		ends;
	int			freed = 0;

	LWLockAcquire(&group_table->creation_lock, LW_EXCLUSIVE);
	last = previous = order->group_ring;
	ends = (last == FAIRQ_NO_GROUP);
	if (!ends)
	{
		bool		waits;
		VirtualTime highest = highest_finish(order, v, &waits);

		if (nothing_ready || (!waits && queue->recovery.groups == QUEUE_KNOWN))
		{
			v = highest;
			queue_order_advance(order, v, v);
		}
	}
	/* Once round, from behind the hand of the clock to where it stands. */
	while (!ends)
	{
		uint32		number = group_entries[previous].ring_next;

		ends = (number == last);
		if (!group_forget_if_idle(&group_entries[number], &v, true))
		{
			previous = number;
			continue;
		}
		group_entries[previous].ring_next = group_entries[number].ring_next;
		give_entry(number);
		freed++;
		/* The hand moves back to one that is left, unless none is. */
		if (ends)
			order->group_ring = (number == previous) ? FAIRQ_NO_GROUP : previous;
	}
	LWLockRelease(&group_table->creation_lock);
	return freed;
}

/*
 * Free entries of groups that can be forgotten, of all queues.  Returns whether
 * there were any.  It takes a look at each group, under locks that others want:
 * so unless it has to be, that is not done again soon after it was in vain.  It
 * has not to for a claim that can do without, nor for whoever has very many.
 *
 * Takes the directory lock in shared mode, so the caller holds no lock of ours.
 */
bool
group_forget_idle(bool has_to)
{
	int64		rest = settings_max_groups * RECLAIM_REST;
	QueueState *queue;
	int			freed = 0;

	if (!has_to &&
		wall_clock_ahead(pg_atomic_read_u64(&group_table->reclaim_at), GetCurrentTimestamp(), rest))
		return false;
	queue_state_lock_all(LW_SHARED);
	for (int n = 0; (queue = queue_state_next(&n)) != NULL;)
	{
		for (int class = 0; class < queue->classes; class++)
			freed += reclaim_order(queue, class);
	}
	queue_state_unlock_all();
	if (freed <= settings_max_groups / GROUP_RECLAIM_PART)
		pg_atomic_write_u64(&group_table->reclaim_at,
							(uint64) (GetCurrentTimestamp() + rest));
	return freed > 0;
}

/*
 * A queue is gone: a group has nothing any more, whatever was counted.  What
 * is in flight is counted off by the leases, which were forgotten before.
 */
static void
empty_entry(FairGroup *group)
{
	(void) group_table_lock_number(group - group_entries);
	group->ready = 0;
	group->pending = 0;
	group->overflow = 0;
	if (group->line.lane != 0)
		turn_lines_forget(group, true);
	group_table_unlock(group);
}

/*
 * Free the groups of a queue that is gone.  The caller holds the directory lock
 * exclusively, and gives the lanes back after this, as lines are in them.  None
 * of the groups is forgotten while its limit has tasks parked in another class,
 * so all are emptied before the first is forgotten.
 *
 * A group that comes before its subgroups is met once too early, and forgotten
 * in the last round.  Rings are not mended: they go with the queue's orders.
 */
void
group_forget_queue(int queue)
{
	LWLockAcquire(&group_table->creation_lock, LW_EXCLUSIVE);
	for (int round = 0; round < 3; round++)
	{
		for (uint32 i = 0; i < group_table->free.high_water; i++)
		{
			FairGroup  *group = &group_entries[i];

			if (!group->in_use || group->key.queue != queue)
				continue;
			if (round == 0)
				empty_entry(group);
			else if (group_forget_if_idle(group, NULL, false))
				give_entry(i);
		}
	}
	LWLockRelease(&group_table->creation_lock);
}
