/*-------------------------------------------------------------------------
 *
 * waiter_errands.c
 *	  What the background worker does for those who wait and listen.
 *
 * A client that was told by fairq.wait or fairq.wait_any may or may not claim
 * then, and cannot pass on its word.  The worker looks a moment later whether
 * there still is something, and tells another one.
 *
 * And it sends a NOTIFY for queues that are set so.  That there is something
 * new is a flag here; the worker is woken, and what comes up to then, and for a
 * moment after the last one, is one NOTIFY.
 *
 * Locking: what a list has for this is atomic; its lock is taken only to tell a
 * seat.  Whoever sets something here wakes the worker after that, and the
 * worker resets a flag before it acts: so nothing that comes meanwhile is lost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/settings.h"
#include "common/wall_clock.h"
#include "shmem/waiter_seats.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"

/* The shortest time between two NOTIFY of a queue, in microseconds. */
#define NOTIFY_USECS	INT64CONST(20000)

/*
 * There is something new in a queue: the worker is to NOTIFY.  Never fails: it
 * is called at the end of transactions.
 *
 * Takes no lock.  The flag was not set before, or the worker has been told of
 * it already and has yet to look.  The queue is in use: the caller has its
 * relation locked.
 */
void
waiter_errands_note(int queue)
{
	WaiterList *list = waiter_seats_list(queue);

	if (pg_atomic_exchange_u32(&list->pending, 1) == 0)
		worker_slots_look_at(queue_state_by_number(queue)->database, WORKER_ERRANDS,
							 pg_atomic_read_u64(&list->notify_after));
}

/*
 * Whether to NOTIFY of a queue, as its settings say, and those have committed.
 * What became claimable before this was known was not noted, so at the start
 * there is one in any case.  Takes no lock; the caller has the queue's relation
 * locked.
 */
void
waiter_errands_set_notify(QueueState *queue, bool notify)
{
	int			number = queue_state_number(queue);
	WaiterList *list = waiter_seats_list(number);
	bool		before;

	before = (pg_atomic_read_u32(&list->attention) & ATTENTION_NOTIFY) != 0;
	if (notify == before)
		return;
	if (notify)
	{
		pg_atomic_fetch_or_u32(&list->attention, ATTENTION_NOTIFY);
		waiter_errands_note(number);
	}
	else
	{
		pg_atomic_fetch_and_u32(&list->attention, ~ATTENTION_NOTIFY);
		pg_atomic_write_u32(&list->pending, 0);
	}
}

/*
 * What is to be done now for those who wait and listen in a database.  Puts up
 * to max queues to NOTIFY of into queues, and returns how many; *next is when
 * to come again (PG_INT64_MAX: when it is told).
 *
 * For the worker, which holds no lock of ours.  The flags of what is returned
 * are reset: if the NOTIFY fails the worker says so
 * (waiter_errands_notify_again).
 *
 * now is by the wall clock, and so are all times here.  A queue that goes
 * while this is at it costs a NOTIFY in vain, or a look at a queue of its
 * number; ready is called with no lock held.
 */
int
waiter_errands_due(Oid database, TimestampTz now, WaitersReady ready, int max,
				   int *queues, TimestampTz *next)
{
	int			n = 0;

	*next = PG_INT64_MAX;
	for (int i = 0; i < settings_max_queues; i++)
	{
		WaiterList *list = waiter_seats_list(i);
		QueueState *queue = queue_state_by_number(i);
		TimestampTz when = pg_atomic_read_u64(&list->claimed_by);

		if (when == 0 && pg_atomic_read_u32(&list->pending) == 0)
			continue;
		if (queue->database != database)
			continue;

		/*
		 * A sleeper was told on behalf of a client.  The time is cleared
		 * before the look: one that is told from now on sets it again.
		 */
		if (wall_clock_ahead(when, now, WAITERS_CLIENT_USECS))
			*next = Min(*next, when);
		else if (when != 0)
		{
			pg_atomic_write_u64(&list->claimed_by, 0);
			pg_memory_barrier();
			if (ready(queue, WAITERS_ANY_BUCKET))
				(void) waiter_seats_tell_one(list);
		}

		if (pg_atomic_read_u32(&list->pending) == 0)
			continue;
		when = pg_atomic_read_u64(&list->notify_after);
		if (wall_clock_ahead(when, now, USECS_PER_SEC) || n == max)
		{
			*next = Min(*next, Max(when, now));
			continue;
		}
		/* What comes from now on is news again. */
		pg_atomic_write_u64(&list->notify_after, now + NOTIFY_USECS);
		pg_atomic_exchange_u32(&list->pending, 0);
		queues[n++] = i;
	}
	return n;
}

/*
 * A NOTIFY failed that waiter_errands_due has asked for, and is to be done
 * again at a time, or later.  The caller comes again by then.
 *
 * Never fails: the worker is in the handling of an error.
 */
void
waiter_errands_notify_again(int queue, TimestampTz when)
{
	WaiterList *list = waiter_seats_list(queue);

	pg_atomic_write_u64(&list->notify_after, when);
	pg_atomic_exchange_u32(&list->pending, 1);
}
