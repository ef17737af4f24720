/*-------------------------------------------------------------------------
 *
 * settle.h
 *	  The verbs that end a lease or a task, and those of the holder of a lease:
 *	  ack, nack, release; extend, progress; and those that go by row: cancel,
 *	  purge, revive.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SETTLE_H
#define FAIRQ_SETTLE_H

#include "storage/queue_catalog.h"
#include "storage/row_reader.h"
#include "verbs/ended_tasks.h"

typedef enum SettleVerb
{
	SETTLE_ACK,
	SETTLE_NACK,
	SETTLE_RELEASE,
	/* From here on the lease goes on. */
	SETTLE_EXTEND,
	SETTLE_PROGRESS
} SettleVerb;

/* A run of settlements by one call, with the queue that was open last. */
typedef struct Settlement
{
	SettleVerb	verb;
	Jsonb	   *result;			/* ack: NULL or what came of it */
	text	   *error;			/* nack: NULL or what went wrong */
	bool		final;			/* nack: no attempt is left, whatever the task
								 * says */
	Jsonb	   *progress;		/* progress: how far it is */
	int64		delay;			/* nack, release: microseconds; -1: the
								 * queue's backoff */
	int64		lease;			/* extend: usecs; -1: the task's or queue's */
	TimestampTz until;			/* result of extend */
	TimestampTz now;			/* when the first was acknowledged */

	/* private */
	Relation	rel;
	QueueInfo  *info;
	RowReader	row;
	Placement	placement;		/* for tasks that are put back; zero: not
								 * begun */
	EndedTasks	ended;
} Settlement;

/* settle.c */
extern void settle_begin(Settlement *settlement, SettleVerb verb);
extern bool settle_receipt(Settlement *settlement, const pg_uuid_t *receipt);
extern bool settle_lease(Settlement *settlement, const LeaseRef *ref);
extern void settle_end(Settlement *settlement);

/* remove.c: cancel, purge, revive */
extern bool remove_cancel(Relation rel, QueueInfo *info, int64 id);
extern int64 remove_purge(Relation rel, QueueInfo *info, const text *group);
extern int64 remove_revive(Relation rel, QueueInfo *info, int64 id);
extern int64 remove_revive_all(Relation rel, QueueInfo *info, const text *group);

#endif							/* FAIRQ_SETTLE_H */
