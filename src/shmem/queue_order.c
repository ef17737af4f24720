/*-------------------------------------------------------------------------
 *
 * queue_order.c
 *	  One fair order: virtual time, and which tasks of the overflow are lost.
 *
 * The overflow of a class is read again from the lower of two ids.  A task that
 * is in no line lowers overflow_lost; a pass moves that to overflow_sought, and
 * resets it when it has read all.  So what is lost meanwhile, and what a pass
 * was looking for that failed, is for the next one.
 *
 * Locking: the order's spinlock guards what is read and written here.  Each
 * function takes it for some instructions, so that its caller may hold any lock
 * of ours but a spinlock.  None fails.  The order's queue is kept from being
 * released by the caller, or by a lane or a group of it that the caller has
 * locked.
 *
 * Virtual time, and the highest finish tag that was served, never go back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/queue_state.h"
#include "shmem/worker_slots.h"

/*
 * A task of the overflow may be in no line (turns.c), and it is not known
 * whose it is: have a pass read the overflow of its class, from that on.
 * Never fails: called at the end of transactions, and under a lane's lock.
 */
void
queue_order_overflow_lost(QueueState *queue, int class, int64 task)
{
	QueueOrder *order = &queue->orders[class];
	bool		first;

	Assert(class >= 0 && class < FAIRQ_CLASSES);
	SpinLockAcquire(&order->mutex);
	first = (order->overflow_lost == PG_INT64_MAX);
	order->overflow_lost = Min(order->overflow_lost, task);
	SpinLockRelease(&order->mutex);
	if (first)
		worker_slots_wake_at(queue->database, 0);
}

/*
 * From which task on the overflow has to be read again; PG_INT64_MAX: it need
 * not be.  Without the lock: the caller may come a moment too early.
 */
int64
queue_order_lost(const QueueOrder *order)
{
	const volatile QueueOrder *now = order;

	return Min(now->overflow_lost, now->overflow_sought);
}

/*
 * From which task on a pass has to read the overflow, which it then does (one
 * pass at a time, or several of them) and says so.  What is lost meanwhile is
 * for the next time.  The caller has the maintenance lock, and has found by
 * queue_order_lost() that there is something to read.
 */
int64
queue_order_take_lost(QueueOrder *order)
{
	int64		result;

	SpinLockAcquire(&order->mutex);
	if (order->overflow_sought == PG_INT64_MAX)
	{
		order->overflow_sought = order->overflow_lost;
		order->overflow_lost = PG_INT64_MAX;
	}
	result = order->overflow_sought;
	SpinLockRelease(&order->mutex);
	return result;
}

/*
 * The pass has read all from what queue_order_take_lost() returned, and each
 * group that has tasks there has been told of them.  The caller has the
 * maintenance lock; if its transaction has failed before it does not come
 * here, and the next pass begins where this one has.
 */
void
queue_order_found_lost(QueueOrder *order)
{
	SpinLockAcquire(&order->mutex);
	order->overflow_sought = PG_INT64_MAX;
	SpinLockRelease(&order->mutex);
}

/*
 * A task was claimed: virtual time is at least its start tag.  Unless that was
 * made up: then it is as far as one task may advance it, and charged from
 * there.  finish is its finish tag, which counts when the busy period ends
 * (queue_order_idle).  One call may stand for a lot of tasks.
 */
void
queue_order_advance(QueueOrder *order, VirtualTime start, VirtualTime finish)
{
	SpinLockAcquire(&order->mutex);
	Assert(virtual_time_compare(virtual_time_leap(order->virtual_time, start),
								order->virtual_time) >= 0);
	order->virtual_time = virtual_time_leap(order->virtual_time, start);
	if (unlikely(finish.whole >= FAIRQ_TAGS_LEAP))
		finish = virtual_time_at_most(finish, order->virtual_time.whole + FAIRQ_MAX_CHARGE);
	order->served_finish = virtual_time_max(order->served_finish, finish);
	SpinLockRelease(&order->mutex);
}

/*
 * Tasks were claimed that were charged so much, not divided by weights.  The
 * sum never goes down, also when the claim is rolled back: views compare shares
 * of it (group_had_no_work), and a share that was had is not taken back.
 */
void
queue_order_served(QueueOrder *order, double cost)
{
	Assert(cost >= 0);
	SpinLockAcquire(&order->mutex);
	order->served_cost += cost;
	SpinLockRelease(&order->mutex);
}

/*
 * The rows were read, and this is the first start tag: virtual time begins
 * there, if nothing has been claimed.  Else it is known, and goes on from
 * where it is.
 */
void
queue_order_start_at(QueueOrder *order, VirtualTime first)
{
	const VirtualTime none = {0, 0};

	first = virtual_time_at_most(first, FAIRQ_TAGS_START);
	SpinLockAcquire(&order->mutex);
	if (virtual_time_compare(order->virtual_time, none) == 0)
	{
		order->virtual_time = virtual_time_max(none, first);
		order->served_finish = virtual_time_max(order->served_finish, first);
	}
	SpinLockRelease(&order->mutex);
}

/*
 * Nothing is ready: the busy period is over, and whoever comes next starts
 * level.  Start-time fair queueing sets virtual time to the highest finish
 * tag of a task that was served (not: assigned; tasks of a transaction still
 * open must not be put ahead of everybody who comes meanwhile).
 */
void
queue_order_idle(QueueOrder *order)
{
	SpinLockAcquire(&order->mutex);
	order->virtual_time = virtual_time_max(order->virtual_time,
										   order->served_finish);
	SpinLockRelease(&order->mutex);
}

/*
 * Virtual time is at least floor: whoever comes next starts there.  Returns
 * whether it was before that.  For a node whose class is behind where it is on
 * other nodes (sql_front.c); the caller has looked that no task which is ready
 * starts before floor, or it would be served late.
 */
bool
queue_order_raise(QueueOrder *order, VirtualTime floor)
{
	bool		raised;

	SpinLockAcquire(&order->mutex);
	raised = virtual_time_compare(order->virtual_time, floor) < 0;
	order->virtual_time = virtual_time_max(order->virtual_time, floor);
	SpinLockRelease(&order->mutex);
	return raised;
}

/*
 * Virtual time as it is now: the start tag of a task that comes to a group that
 * had nothing.  Under the spinlock, for it has two words.
 */
VirtualTime
queue_order_virtual_time(QueueOrder *order)
{
	VirtualTime result;

	SpinLockAcquire(&order->mutex);
	result = order->virtual_time;
	SpinLockRelease(&order->mutex);
	return result;
}
