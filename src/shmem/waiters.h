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

#include "shmem/queue_state.h"

/* What of a task a waiter may ask for. */
#define WAITERS_ANY_BUCKET	(-1)
#define WAITERS_ANY_GROUP	0

/* For how many queues at once a backend can wait. */
#define WAITERS_SEATS		32

/*
 * What a waiter wants of a queue.  Who waits for several wants all of each: no
 * choice of buckets or groups.  What it points to is read by waiters_begin, and
 * not kept.
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
 * something to claim?  Handed in, for lanes call this module.
 */
typedef bool (*WaitersReady) (QueueState *queue, int bucket);

/* waiters.c, waiter_seats.c */
extern Size waiters_shmem_size(void);
extern void waiters_shmem_init(void *area, bool found);

extern uint16 waiters_group(const GroupName *name);

/* For those who make tasks claimable; never fail. */
extern void waiters_offered(int queue, int bucket, uint16 group);
extern void waiters_lowered(int queue, int bucket);
extern void waiters_defer(void);
extern void waiters_say(void);
extern void waiters_look_anew(QueueState *queue);

/*
 * For those who wait.  For each queue waiters_begin, a look at it, and
 * waiters_looked; then a sleep until waiters_told, and so on; waiters_end at
 * last.  An abort ends it all.
 */
extern void waiters_begin(const WaiterWants *wanted, int seat);
extern void waiters_took(int bucket, const text *key);
extern void waiters_looked(int got, WaitersReady ready);
extern bool waiters_told_in(int seat);
extern bool waiters_told(void);
extern void waiters_end(void);
extern void waiters_at_abort(void);

extern void waiters_queue_gone(int queue);
extern void waiters_worker_gone(Oid database);

/* waiter_errands.c */
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

/* For those who end tasks; never fail. */
extern bool awaiters_any(int queue, int64 task);
extern void awaiters_tell(int queue, int64 task, int outcome);
extern void awaiters_look_again(int queue);

/* For those who wait. */
extern int	awaiters_begin(int queue, int64 task);
extern bool awaiters_told(void);
extern int	awaiters_outcome(void);
extern void awaiters_end(void);

#endif							/* FAIRQ_WAITERS_H */
