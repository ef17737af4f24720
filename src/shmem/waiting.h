/*-------------------------------------------------------------------------
 *
 * waiting.h
 *	  Who waits for tasks, and how they are told.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_WAITING_H
#define FAIRQ_WAITING_H

#include "datatype/timestamp.h"

#include "shmem/queue_state.h"

/* What of a task a waiter may ask for. */
#define WAITING_ANY_BUCKET	(-1)
#define WAITING_ANY_GROUP	0

/* What a waiter wants. */
typedef struct WaitingFor
{
	QueueState *queue;
	bool		claims;			/* false: it only tells its client */
	int			queue_buckets;	/* how many the queue has */
	int			bucket_count;	/* -1: all */
	const int  *buckets;
	int			group_count;	/* -1: all */
	text	  **groups;
} WaitingFor;

/*
 * Does a bucket of a queue, or any (WAITING_ANY_BUCKET), look as if there were
 * something to claim?  Handed in, for lanes call this module.
 */
typedef bool (*WaitingReady) (QueueState *queue, int bucket);

extern Size waiting_shmem_size(void);
extern void waiting_shmem_init(void *area, bool found);

extern uint16 waiting_group(const GroupName *name);

/* For those who make tasks claimable; never fail. */
extern void waiting_offered(int queue, int bucket, uint16 group);
extern void waiting_lowered(int queue, int bucket);
extern void waiting_defer(void);
extern void waiting_say(void);
extern void waiting_settings_changed(QueueState *queue);

/* For those who wait. */
extern void waiting_begin(const WaitingFor *wants);
extern void waiting_took(int bucket, const text *key);
extern void waiting_looked(int got, WaitingReady ready);
extern bool waiting_told(void);
extern void waiting_end(void);
extern void waiting_at_abort(void);

extern void waiting_queue_gone(int queue);
extern void waiting_worker_gone(Oid database);

/* What the background worker tells to those who listen. */
extern void waiting_set_notify(QueueState *queue, bool notify);
extern int	waiting_errands(Oid database, TimestampTz now, WaitingReady ready,
							int max, int *queues, TimestampTz *next);
extern void waiting_notify_again(int queue, TimestampTz when);

#endif							/* FAIRQ_WAITING_H */
