/*-------------------------------------------------------------------------
 *
 * limit_check.c
 *	  Whether limits are as they should be, in builds with assertions.
 *
 * Locking: as in limit_table.c and parking.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/settings.h"
#include "shmem/limit_private.h"

#ifdef USE_ASSERT_CHECKING

/*
 * A limit whose entry is locked is as it should be.
 */
void
limit_check(const GroupLimit *limit)
{
	AssertLimitLocked(limit);
	if (!limit->in_use)
		return;
	Assert(limit->queue >= 0 && limit->queue < settings_max_queues);
	Assert(limit->pending >= 0);
	Assert(limit->joining >= 0);
	Assert(limit->references >= 0);
	Assert(limit->leased >= 0);
	Assert(limit->parked >= 0);
	Assert(limit->offered >= 0);
	Assert((limit->parked == 0) == (limit->root == NO_PARKED));
	Assert(limit->line <= LINE_TOKEN);
	Assert(!limit->dropped ||
		   (limit->dropped_class >= 0 && limit->dropped_class < FAIRQ_CLASSES));
	Assert(limit->turn_class < FAIRQ_CLASSES);
}

/*
 * The lines of a queue, whose lock is held: who is first stands in the line,
 * and the list is linked both ways there.
 */
void
limit_check_lines(const QueueLimits *limits)
{
	QueueLimits *queue = unconstify(QueueLimits *, limits);
	const dlist_node *head = &limits->offered.head;

	AssertLocked(&limits->line_lock);
	Assert((limits->turns == NULL) == (pg_atomic_read_u32(&queue->in_turn) == 0));
	Assert(limits->turns == NULL ||
		   pairingheap_container(GroupLimit, node, queue->turns)->line == LINE_TURN);
	Assert(limits->tokens == NULL ||
		   pairingheap_container(GroupLimit, node, queue->tokens)->line == LINE_TOKEN);
	if (!dlist_is_empty(&queue->offered))
	{
		Assert(head->next->prev == head && head->prev->next == head);
		Assert(head->next->next->prev == head->next);
		Assert(dlist_container(GroupLimit, offered_node, head->next)->line == LINE_OFFERED);
	}
}

#endif							/* USE_ASSERT_CHECKING */
