/*-------------------------------------------------------------------------
 *
 * enqueue.h
 *	  The verb enqueue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ENQUEUE_H
#define FAIRQ_ENQUEUE_H

#include "storage/queue_catalog.h"

/* A task as a producer gives it; all values are checked. */
typedef struct NewTask
{
	Datum		payload;		/* jsonb */
	text	   *group_key;
	bool		has_priority;	/* else the queue's default, once it is known */
	int64		priority;
	float4		cost;
	TimestampTz run_at;			/* DT_NOBEGIN: now */
	int			max_attempts;	/* -1: the queue's */
	Interval   *lease;			/* NULL: the queue's */
	bool		has_headers;
	Datum		headers;		/* jsonb */
	text	   *unique_key;		/* NULL: none */
	bool		replace;		/* a task of this key that waits */
} NewTask;

extern void enqueue_tasks(Relation rel, QueueInfo *info, int n,
						  const NewTask *tasks, int64 *ids);

#endif							/* FAIRQ_ENQUEUE_H */
