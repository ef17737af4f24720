/*-------------------------------------------------------------------------
 *
 * group_overflow.c
 *	  The overflow of groups: how many of their tasks have no address.
 *
 * A group that has more than max_ready_per_group tasks ready, or one that
 * comes when max_ready are, has its next tasks put into the overflow: rows
 * without an address.  While it has any there, committed or not, all its new
 * ones go there, so that they stay in order.  When it is their turn is known
 * to its line (turns.c).
 *
 * A group's two counts, ready and overflow, are what was added less what was
 * taken: a task is in one of them, or leased.  One with an address is ready
 * from when it gets that, committed or not; one of the overflow counts there
 * from its commit on.  There is no guessing: who takes a task away finds out
 * where it was counted, and a lease knows whether its task goes back
 * (groups_count).  Rows that were written before anybody counted are
 * counted in one go (recovery.c).  Should a count be off, the line is right.
 *
 * Locking: the lock of the group's partition guards both counts, and pending.
 * Each function takes it exclusively, and under it the home lane's, and then
 * tells those who wait.
 *
 * Race 11 (a task of the overflow becomes claimable where its line has been
 * read already): the line is told after the commit, by turn_lines_lower.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/group_private.h"
#include "shmem/groups.h"
#include "shmem/queue_state.h"

/*
 * A group has n more tasks in the overflow, or (none) tasks that its line may
 * not have, from the first on.
 *
 * If it had nothing to be served until now, that time is left out of the
 * periods of which views show its share (group_had_no_work).  The caller holds
 * the partition's lock exclusively.
 */
static void
overflow_comes(QueueState *queue, FairGroup *group, int n, const OverflowTask *first)
{
	QueueOrder *order = &queue->orders[group->key.class];
	VirtualTime v = queue_order_virtual_time(order);
	FairGroup  *whole = group_whole(group);
	VirtualTime begins = whole->finish;
	bool		empty = whole->ready == 0 && whole->overflow <= 0;

	AssertGroupLockedExclusively(group);
	group_table_count_overflow(group, n);
	if (whole->line.lane != 0)
		begins = virtual_time_max(begins, virtual_time_unpack(whole->line.next));
	if (turn_lines_lower(queue, group, first) && empty &&
		(whole->since.whole == v_none.whole || virtual_time_compare(v, begins) > 0))
		group_had_no_work(order, whole, virtual_time_max(v, begins));
}

/*
 * n tasks of a group that were pending are so no more, for the transaction has
 * ended.  If it has committed they are in the overflow, and the line may have
 * them from the first on.  The group is not forgotten before this.  Never
 * fails.
 */
void
group_overflow_ends(QueueState *queue, uint32 number, int n, const OverflowTask *first,
					bool committed)
{
	FairGroup  *group = group_table_lock_number(number);

	Assert(n >= 0 && n <= group->pending);
	group->pending -= n;
	if (committed && n > 0)
		overflow_comes(queue, group, n, first);
	group_table_unlock(group);
}

/*
 * The line of a group may not have its tasks from an id on.  The group may have
 * been forgotten, and its entry be another's: then a pass finds whose they are.
 * Never fails.
 */
void
group_overflow_again(QueueState *queue, int class, uint32 number, int64 id)
{
	FairGroup  *group = group_table_lock_hint(number);
	OverflowTask first = {.id = id};
	bool		known = group != NULL && group->key.queue == queue_state_number(queue) &&
		group->key.class == class;

	if (known)
		overflow_comes(queue, group, 0, &first);
	else
		queue_order_overflow_lost(queue, class, id);
	if (group != NULL)
		group_table_unlock(group);
}

/*
 * A row says that a group has a task in the overflow.  again: it is counted,
 * and claims may not come to it, nor to those after it.  For the backend that
 * reads the rows, of a queue or of what is lost.  Fails, with nothing changed,
 * if there is no entry.
 */
void
group_overflow_found(QueueState *queue, int class, const GroupName *name,
					 int64 id, bool again)
{
	FairGroup  *group = group_table_lock(queue, class, name, NULL, ENTRY_KNOWN_TASK);
	OverflowTask first = {.id = id};

	overflow_comes(queue, group, again ? 0 : 1, &first);
	group_table_unlock(group);
}
