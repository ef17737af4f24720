/*-------------------------------------------------------------------------
 *
 * group_check.c
 *	  Whether groups are as they should be, in builds with assertions.
 *
 * Locking: as in group_table.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/settings.h"
#include "shmem/group_private.h"

#ifdef USE_ASSERT_CHECKING

/* So many groups of a starved list are looked at, under its spinlock. */
#define CHECK_LINKS		4

/*
 * A group whose partition is locked is as it should be.  How many tasks it has
 * ready, or in the overflow, may be off until a queue is counted anew, so that
 * these counts are not looked at.
 */
void
group_check(const FairGroup *group)
{
	AssertGroupLocked(group);
	Assert(group->in_use);
	Assert(group->key.queue < settings_max_queues && group->key.class < FAIRQ_CLASSES);
	Assert(group->leased >= 0);
	Assert(group->pending >= 0);
	Assert(group->run_time >= 0);
	Assert(group->refund >= 0);
	Assert(group->keylen >= 0);
	Assert(group->limit == NO_LIMIT || group->limit < (uint32) settings_max_limits);
	Assert(group->replenish <= REFILL_UNDER_WAY);

	/* Who takes it out of the list does not have its partition locked. */
	Assert(!((volatile const FairGroup *) group)->listed ||
		   group->replenish == REFILL_LISTED || group->replenish == REFILL_URGENT);
	Assert(group->overflows == (group->overflow > 0 || group->overflow_from != PG_INT64_MAX ||
								group->overflow_held != PG_INT64_MAX));
}

static void
check_list(dlist_head *list)
{
	dlist_node *node = list->head.next;

	for (int i = 0; i < CHECK_LINKS && node != NULL && node != &list->head; i++)
	{
		Assert(node->next->prev == node && node->prev->next == node);
		Assert(dlist_container(FairGroup, starved_node, node)->listed);
		node = node->next;
	}
}

/*
 * The starved list of a queue, whose spinlock is held, is linked both ways.
 */
void
group_check_starved(QueueState *queue)
{
	QueueReplenish *replenish = &queue->replenish;

	AssertSpinLocked(&replenish->mutex);
	Assert(replenish->count >= 0 && replenish->under_way >= 0);
	Assert((replenish->count == 0) ==
		   (dlist_is_empty(&replenish->urgent) && dlist_is_empty(&replenish->starved)));
	check_list(&replenish->urgent);
	check_list(&replenish->starved);
}

#endif							/* USE_ASSERT_CHECKING */
