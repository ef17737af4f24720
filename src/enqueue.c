/*-------------------------------------------------------------------------
 *
 * enqueue.c
 *	  The verb enqueue.
 *
 * One heap insert, its index entries, and at commit an offer to the lane.  The
 * address comes from shared memory before the row is written; no row is locked
 * and no row is shared (invariant I6).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "enqueue.h"
#include "handover.h"
#include "placement.h"
#include "queue_relation.h"
#include "stats.h"

/* Tasks that are placed and written in one go, to bound memory. */
#define ENQUEUE_BATCH	1000

static void
enqueue_batch(Placement *placement, Relation rel, QueueInfo *info, int n,
			  const NewTask *tasks, int64 *ids)
{
	int			natts = info->natts;
	Datum	   *value_area = palloc0(n * natts * sizeof(Datum));
	bool	   *null_area = palloc(n * natts * sizeof(bool));
	Datum	  **values = palloc(n * sizeof(Datum *));
	bool	  **nulls = palloc(n * sizeof(bool *));
	Place	   *places = palloc(n * sizeof(Place));
	int		   *placed = palloc(n * sizeof(int));
	char	   *states = palloc(n);
	ItemPointer tids = palloc(n * sizeof(ItemPointerData));
	TimestampTz now = GetCurrentTimestamp();
	int			have_ids = 0;

	while (have_ids < n)
	{
		int			got;
		int64		first = queue_relation_new_ids(info, n - have_ids, &got);

		for (int i = 0; i < got; i++)
			ids[have_ids++] = first + i;
	}

	memset(null_area, true, n * natts * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		const NewTask *task = &tasks[i];

		placed[i] = -1;
		states[i] = task->run_at > now ? TASK_SCHEDULED : TASK_READY;
		if (states[i] == TASK_READY)
		{
			placement_assign(placement, ids[i], VARDATA_ANY(task->group_key),
							 VARSIZE_ANY_EXHDR(task->group_key), task->priority,
							 task->run_at == DT_NOBEGIN ? now : task->run_at,
							 task->cost, true, &places[i]);
			if (places[i].overflow)
			{
				states[i] = TASK_OVERFLOW;
				handover_overflowed(info->state, places[i].tag.group, ids[i]);
			}
			else
				placed[i] = handover_placed(places[i].lane, &places[i].address,
											places[i].tagged ? &places[i].tag : NULL);
		}

		values[i] = value_area + i * natts;
		nulls[i] = null_area + i * natts;
#define SET(column, value) \
		do { \
			values[i][info->columns[column] - 1] = (value); \
			nulls[i][info->columns[column] - 1] = false; \
		} while (0)
		SET(COLUMN_ID, Int64GetDatum(ids[i]));
		if (states[i] == TASK_READY)
			SET(COLUMN_ADDRESS, FairqAddressPGetDatum(&places[i].address));
		SET(COLUMN_ENQUEUED_AT, TimestampTzGetDatum(now));
		SET(COLUMN_PRIORITY, Int64GetDatum(task->priority));
		SET(COLUMN_COST, Float4GetDatum(task->cost));
		SET(COLUMN_ATTEMPTS, Int32GetDatum(0));
		SET(COLUMN_STATE, CharGetDatum(states[i]));
		SET(COLUMN_GROUP_KEY, PointerGetDatum(task->group_key));
		SET(COLUMN_PAYLOAD, task->payload);
		if (task->run_at != DT_NOBEGIN)
			SET(COLUMN_RUN_AT, TimestampTzGetDatum(task->run_at));
		else if (info->policy == QUEUE_TIME)
			SET(COLUMN_RUN_AT, TimestampTzGetDatum(now));
		if (task->max_attempts >= 0)
			SET(COLUMN_MAX_ATTEMPTS, Int32GetDatum(task->max_attempts));
		if (task->lease != NULL)
			SET(COLUMN_LEASE, IntervalPGetDatum(task->lease));
		if (task->has_headers)
			SET(COLUMN_HEADERS, task->headers);
#undef SET
	}

	queue_relation_insert(rel, info, n, values, nulls, tids);
	for (int i = 0; i < n; i++)
	{
		handover_written(placed[i], &tids[i]);
		if (states[i] == TASK_SCHEDULED)
			handover_scheduled(info->state, tasks[i].run_at);
		handover_count(info->state, queue_catalog_depth(states[i]), 1);
	}
}

/*
 * How large payloads are, as jsonb in memory, however they come.
 */
static void
count_payloads(QueueState *queue, int n, const NewTask *tasks)
{
	int64		bytes = 0;

	for (int i = 0; i < n; i++)
	{
		int64		size = toast_raw_datum_size(tasks[i].payload) - VARHDRSZ;

		bytes += size;
		stats_tally_value(queue, STATS_PAYLOAD, size);
	}
	handover_count(queue, QUEUE_PAYLOAD_BYTES, bytes);
}

/*
 * Enqueue n tasks, and set ids to theirs.  They exist when and only when the
 * transaction commits.
 *
 * rel is locked in RowExclusiveLock mode, and stays so until the end of the
 * transaction.
 */
void
enqueue_tasks(Relation rel, QueueInfo *info, int n, const NewTask *tasks,
			  int64 *ids)
{
	Placement	placement;

	if (n == 0)
		return;
	placement_begin(&placement, rel, info);
	if (info->max_tasks > 0 && !handover_room(info->state, n, info->max_tasks))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot enqueue %d more tasks: queue \"%s\" may have " INT64_FORMAT,
						n, info->name, info->max_tasks),
				 errhint("Try again when tasks are done, or raise \"max_tasks\" of the queue with fairq.alter_queue().")));
	for (int done = 0; done < n; done += ENQUEUE_BATCH)
		enqueue_batch(&placement, rel, info, Min(ENQUEUE_BATCH, n - done),
					  tasks + done, ids + done);
	handover_count(info->state, QUEUE_ENQUEUED, n);
	count_payloads(info->state, n, tasks);
}
