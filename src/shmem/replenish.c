/*-------------------------------------------------------------------------
 *
 * replenish.c
 *	  Waiting for groups to be replenished from their overflow.
 *
 * The worker moves tasks of the overflow to the groups on the starved list
 * (group_overflow.c); a claim that has found nothing waits for that.
 *
 * Locking: the replenish's spinlock guards what is read and written here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "utils/timestamp.h"

#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/replenish.h"

/*
 * A group was replenished, and its tasks have been offered; or (not done) it
 * is in the starved list again.
 */
void
replenish_ended(QueueState *queue, bool done)
{
	SpinLockAcquire(&queue->replenish.mutex);
	Assert(queue->replenish.under_way > 0);
	queue->replenish.under_way--;
	if (done)
	{
		queue->replenish.times++;
		queue->replenish.late = false;
	}
	SpinLockRelease(&queue->replenish.mutex);
	ConditionVariableBroadcast(&queue->replenish.done);
}

/*
 * Will any group be replenished soon, by all that is known, or was one since
 * times was read?
 */
bool
replenish_expected(QueueState *queue, uint32 times)
{
	bool		result;

	SpinLockAcquire(&queue->replenish.mutex);
	result = queue->replenish.times != times ||
		((queue->replenish.count > 0 || queue->replenish.under_way > 0) && !queue->replenish.late);
	SpinLockRelease(&queue->replenish.mutex);
	return result;
}

/*
 * Wait until a group is replenished that was not when times was read.  False
 * if that has not happened by give_up; then no claim waits any more until it
 * has.
 */
bool
replenish_wait(QueueState *queue, uint32 times, TimestampTz give_up)
{
	bool		done;
	bool		late;

	/* By a clock that is not set meanwhile. */
	give_up += wall_clock_real() - GetCurrentTimestamp();
	ConditionVariablePrepareToSleep(&queue->replenish.done);
	for (;;)
	{
		int64		now = wall_clock_real();

		SpinLockAcquire(&queue->replenish.mutex);
		done = (queue->replenish.times != times);
		late = queue->replenish.late || now >= give_up;
		if (!done)
			queue->replenish.late = late;
		SpinLockRelease(&queue->replenish.mutex);
		if (done || late)
			break;
		ConditionVariableTimedSleep(&queue->replenish.done, (give_up - now) / 1000 + 1,
									shared_memory_wait_event(FAIRQ_WAIT_OVERFLOW));
	}
	ConditionVariableCancelSleep();
	return done && !late;
}

/*
 * Wait until no group is dry.  If that has not happened by give_up, no claim
 * waits for those any more: whoever replenishes them may have a transaction
 * open.
 */
void
replenish_wait_dry(QueueState *queue, TimestampTz give_up)
{
	ConditionVariablePrepareToSleep(&queue->replenish.done);
	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		bool		done;

		SpinLockAcquire(&queue->replenish.mutex);
		if (queue->replenish.dry > 0 && now >= give_up)
		{
			queue->replenish.dry = 0;
			if (++queue->replenish.dry_epoch == 0)
				queue->replenish.dry_epoch = 1;
		}
		done = (queue->replenish.dry == 0);
		SpinLockRelease(&queue->replenish.mutex);
		if (done)
			break;
		ConditionVariableTimedSleep(&queue->replenish.done, (give_up - now) / 1000 + 1,
									shared_memory_wait_event(FAIRQ_WAIT_OVERFLOW));
	}
	ConditionVariableCancelSleep();
}
