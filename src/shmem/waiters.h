/*-------------------------------------------------------------------------
 *
 * waiters.h
 *	  Who waits for tasks, or for the end of one, and how they are told.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_WAITERS_H
#define FAIRQ_WAITERS_H

#include "datatype/timestamp.h"
#include "miscadmin.h"
#include "storage/proc.h"

#include "shmem/queue_state.h"

/* What of a task a waiter may ask for. */
#define WAITERS_ANY_BUCKET	(-1)
#define WAITERS_ANY_GROUP	0

/* For how many queues at once a backend can wait. */
#define WAITERS_SEATS		32

/*
 * What a waiter wants of a queue.  A waiter for several queues wants all of
 * each: no choice of buckets or groups.  What this points to is read by
 * waiters_begin, and not kept: so it is looked at without a lock, by the
 * backend itself.
 */
typedef struct WaiterWants
{
	QueueState *queue;
	bool		claims;			/* false: it only tells its client */
	int			queue_buckets;	/* how many the queue has */
	int			bucket_count;	/* -1: all */
	const int  *buckets;
	int			group_count;	/* -1: all */
	text	  **groups;
} WaiterWants;

/*
 * Does a bucket of a queue, or any (WAITERS_ANY_BUCKET), look as if there were
 * something to claim?  Handed in, for lanes call this module.  It is called
 * with no lock of ours held, and takes those of lanes (queue_ready_bucket).
 */
typedef bool (*WaitersReady) (QueueState *queue, int bucket);

/* waiters.c, waiter_seats.c */
extern Size waiters_shmem_size(void);
extern void waiters_shmem_init(void *area, bool found);

/*
 * The number of our backend, which others know its seats and its latch by
 * (GetPGProcByNumber).  Auxiliary processes, which have higher ones, do not
 * wait for tasks.  For backends that have a PGPROC, so also at an abort.
 */
static inline int
waiters_me(void)
{
	int			number = (int) (MyProc - ProcGlobal->allProcs);

	Assert(number >= 0 && number < MaxBackends);
	return number;
}

extern uint16 waiters_group(const GroupName *name);

/*
 * For those who make tasks claimable.  While no backend waits each is one look
 * at an atomic; else it takes the lock of the queue's list, which is the last
 * of ours: so the caller may hold any other but a spinlock.  They never fail.
 */
extern void waiters_offered(int queue, int bucket, uint16 group);
extern void waiters_lowered(int queue, int bucket);
extern void waiters_defer(void);
extern void waiters_say(void);
extern void waiters_look_anew(QueueState *queue);

/*
 * For those who wait.  For each queue waiters_begin, a look at it, and
 * waiters_looked; then a sleep until waiters_told, and so on; waiters_end at
 * last.  An abort ends it all.  The caller holds no lock of ours.
 */
extern void waiters_begin(const WaiterWants *wanted, int seat);
extern void waiters_took(int bucket, const text *key);
extern void waiters_looked(int got, WaitersReady ready);
extern bool waiters_told_in(int seat);
extern bool waiters_told(void);
extern void waiters_end(void);

/* When a queue, or a worker, is no more; never fail. */
extern void waiters_queue_gone(int queue);
extern void waiters_worker_gone(Oid database);

/*
 * waiter_errands.c.  The first two are for whoever makes tasks claimable or
 * publishes settings, the others for the worker of a database.
 */
extern void waiter_errands_note(int queue);
extern void waiter_errands_set_notify(QueueState *queue, bool notify);
extern int	waiter_errands_due(Oid database, TimestampTz now, WaitersReady ready,
							   int max, int *queues, TimestampTz *next);
extern void waiter_errands_notify_again(int queue, TimestampTz when);

/* awaiters.c: who waits for the end of a task */
/* Instead of how a task has ended: its awaiter is to look. */
#define AWAITERS_LOOK		(-1)

extern Size awaiters_shmem_size(void);
extern void awaiters_shmem_init(void *area, bool found);

/*
 * For those who end tasks.  The lock of a list is the last of ours, so the
 * caller may hold any other but a spinlock.  These never fail.
 */
extern bool awaiters_any(int queue, int64 task);
extern void awaiters_tell(int queue, int64 task, int outcome);
extern void awaiters_look_again(int queue);

/*
 * For those who wait, and hold no lock of ours: awaiters_begin, a look for the
 * task, a sleep until awaiters_told, and so on; awaiters_end at last.  A
 * backend awaits one task at a time.
 */
extern int	awaiters_begin(int queue, int64 task);
extern bool awaiters_told(void);
extern int	awaiters_outcome(void);
extern void awaiters_end(void);

#endif							/* FAIRQ_WAITERS_H */
