/*-------------------------------------------------------------------------
 *
 * refill.c
 *	  Waiting for refills of groups from their overflow.
 *
 * The worker moves tasks of the overflow to the groups on the starved list
 * (group_overflow.c); a claim that has found nothing waits for that.
 *
 * Locking: the refill's spinlock guards what is read and written here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "utils/timestamp.h"

#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/refill.h"

/*
 * A group was refilled, and its tasks have been offered; or (not done) it is in the
 * starved list again.
 */
void
refill_ended(QueueState *queue, bool done)
{
	SpinLockAcquire(&queue->refill.mutex);
	queue->refill.under_way--;
	if (done)
	{
		queue->refill.refills++;
		queue->refill.late = false;
	}
	SpinLockRelease(&queue->refill.mutex);
	ConditionVariableBroadcast(&queue->refill.refilled);
}

/*
 * Will any group be refilled soon, by all that is known, or was one since refills was
 * read?
 */
bool
refill_expected(QueueState *queue, uint32 refills)
{
	bool		result;

	SpinLockAcquire(&queue->refill.mutex);
	result = queue->refill.refills != refills ||
		((queue->refill.count > 0 || queue->refill.under_way > 0) && !queue->refill.late);
	SpinLockRelease(&queue->refill.mutex);
	return result;
}

/*
 * Wait until a group is refilled that was not when refills was read.  False if that has
 * not happened by give_up; then nobody waits any more until it has.
 */
bool
refill_wait(QueueState *queue, uint32 refills, TimestampTz give_up)
{
	bool		done;
	bool		late;

	/* By a clock that is not set meanwhile. */
	give_up += wall_clock_real() - GetCurrentTimestamp();
	ConditionVariablePrepareToSleep(&queue->refill.refilled);
	for (;;)
	{
		int64		now = wall_clock_real();

		SpinLockAcquire(&queue->refill.mutex);
		done = (queue->refill.refills != refills);
		late = queue->refill.late || now >= give_up;
		if (!done)
			queue->refill.late = late;
		SpinLockRelease(&queue->refill.mutex);
		if (done || late)
			break;
		ConditionVariableTimedSleep(&queue->refill.refilled, (give_up - now) / 1000 + 1,
									shared_memory_wait_event(FAIRQ_WAIT_OVERFLOW));
	}
	ConditionVariableCancelSleep();
	return done && !late;
}

/*
 * Wait until no group is dry.  If that has not happened by give_up, nobody waits for
 * those any more: whoever refills them may have a transaction open.
 */
void
refill_wait_dry(QueueState *queue, TimestampTz give_up)
{
	ConditionVariablePrepareToSleep(&queue->refill.refilled);
	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		bool		done;

		SpinLockAcquire(&queue->refill.mutex);
		if (queue->refill.dry > 0 && now >= give_up)
		{
			queue->refill.dry = 0;
			if (++queue->refill.dry_epoch == 0)
				queue->refill.dry_epoch = 1;
		}
		done = (queue->refill.dry == 0);
		SpinLockRelease(&queue->refill.mutex);
		if (done)
			break;
		ConditionVariableTimedSleep(&queue->refill.refilled, (give_up - now) / 1000 + 1,
									shared_memory_wait_event(FAIRQ_WAIT_OVERFLOW));
	}
	ConditionVariableCancelSleep();
}
