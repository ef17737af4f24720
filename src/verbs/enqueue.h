/*-------------------------------------------------------------------------
 *
 * enqueue.h
 *	  The verbs that make tasks: enqueue and publish.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ENQUEUE_H
#define FAIRQ_ENQUEUE_H

#include "utils/timestamp.h"

#include "storage/dependency_table.h"
#include "storage/queue_catalog.h"

/* A task as a producer gives it; all values are checked. */
typedef struct NewTask
{
	Datum		payload;		/* jsonb */
	text	   *group_key;
	text	   *subgroup_key;	/* NULL: none, or that with the empty key */
	bool		has_priority;	/* else the queue's default, once it is known */
	int64		priority;
	float4		cost;
	TimestampTz run_at;			/* DT_NOBEGIN: now */
	TimestampTz expires_at;		/* DT_NOBEGIN: the queue says; DT_NOEND: never */
	int			max_attempts;	/* -1: the queue's */
	int			max_lost;		/* -1: the queue's */
	text	   *name;			/* NULL: none */
	Interval   *lease;			/* NULL: the queue's */
	bool		has_headers;
	Datum		headers;		/* jsonb */
	text	   *unique_key;		/* NULL: none */
	bool		replace;		/* a task of this key that waits */
	int64		unique_for;		/* microseconds; 0: the key is not remembered */
	int			after_count;	/* 0: it waits for none */
	int64	   *after;			/* ids in order, each once */
	char		on_dead;		/* ON_DEAD_HOLD, with after */
	const NewDependencies *waits;	/* NULL, or those of these that have yet
									 * to end: not the caller's to set */
} NewTask;

/* A task of which nothing is said. */
#define NEW_TASK	{.cost = 1, .run_at = DT_NOBEGIN, .expires_at = DT_NOBEGIN, \
		.max_attempts = -1, .max_lost = -1}

/*
 * When a task expires that is enqueued now; DT_NOEND: never.  By default it
 * has so long from when it may be claimed first.
 */
static inline TimestampTz
enqueue_expires_at(const QueueInfo *info, const NewTask *task, TimestampTz now)
{
	TimestampTz from;

	if (task->expires_at != DT_NOBEGIN)
		return task->expires_at;
	from = Max(now, task->run_at);
	if (info->expire_after == 0 || from >= END_TIMESTAMP - info->expire_after)
		return DT_NOEND;
	return from + info->expire_after;
}

/*
 * Into the values of a row, what a producer gives: all but its key, and when it
 * is to run.
 */
static inline void
enqueue_set_values(const QueueInfo *info, const NewTask *task, TimestampTz now,
				   Datum *values, bool *nulls)
{
	TimestampTz expires_at = enqueue_expires_at(info, task, now);

#define SET(column, is_given, value) \
	do { \
		nulls[info->columns[column] - 1] = !(is_given); \
		if (is_given) \
			values[info->columns[column] - 1] = (value); \
	} while (0)
	SET(COLUMN_PAYLOAD, true, task->payload);
	SET(COLUMN_HEADERS, task->has_headers, task->headers);
	SET(COLUMN_GROUP_KEY, true, PointerGetDatum(task->group_key));
	SET(COLUMN_SUBGROUP_KEY, task->subgroup_key != NULL, PointerGetDatum(task->subgroup_key));
	SET(COLUMN_PRIORITY, true, Int64GetDatum(task->priority));
	SET(COLUMN_COST, true, Float4GetDatum(task->cost));
	SET(COLUMN_MAX_ATTEMPTS, task->max_attempts >= 0, Int32GetDatum(task->max_attempts));
	SET(COLUMN_LEASE, task->lease != NULL, IntervalPGetDatum(task->lease));
	SET(COLUMN_ATTEMPTS, true, Int32GetDatum(0));
	SET(COLUMN_NAME, task->name != NULL, PointerGetDatum(task->name));
	SET(COLUMN_MAX_LOST, task->max_lost >= 0, Int32GetDatum(task->max_lost));
	SET(COLUMN_EXPIRES_AT, expires_at != DT_NOEND, TimestampTzGetDatum(expires_at));
#undef SET
}

/* enqueue.c */
extern void enqueue_tasks(Relation rel, QueueInfo *info, int n,
						  const NewTask *tasks, int64 *ids);

/* topics.c: which queues want what is published */
#define TOPIC_MAX		255		/* bytes */

extern const char *topics_check(const text *topic, bool pattern);

extern void topics_subscribe(const text *topic, const text *queue);
extern bool topics_unsubscribe(const text *topic, const text *queue);

typedef void (*TopicCheck) (QueueInfo *info, NewTask *task, void *arg);
extern int	topics_publish(const text *topic, const NewTask *task,
						   TopicCheck check, void *arg);

#endif							/* FAIRQ_ENQUEUE_H */
