/*-------------------------------------------------------------------------
 *
 * stat_queues.c
 *	  The functions behind the views: figures of queues, of the names of tasks, of
 *	  buckets and leases, and finished tasks.
 *
 * They show the queues that the caller may read, and all of them to members of
 * pg_monitor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "access/xact.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "shmem/stats.h"
#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "sql/result_rows.h"
#include "storage/archive.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"

PG_FUNCTION_INFO_V1(fairq_stats_of_queues);
PG_FUNCTION_INFO_V1(fairq_histograms_of_queues);
PG_FUNCTION_INFO_V1(fairq_stats_of_names);
PG_FUNCTION_INFO_V1(fairq_histograms_of_names);
PG_FUNCTION_INFO_V1(fairq_reset_stats);
PG_FUNCTION_INFO_V1(fairq_stats_of_buckets);
PG_FUNCTION_INFO_V1(fairq_live_leases);
PG_FUNCTION_INFO_V1(fairq_done_of_queues);

/* What is shown of waits and runs, and of payloads. */
static const double quantiles[] = {0.5, 0.95, 0.99, 1.0};

#define QUANTILES_OF_TIMES	3

/* Those of n waits or runs. */
static void
add_times(ResultRow *row, int64 n, const int64 *found)
{
	for (int i = 0; i < QUANTILES_OF_TIMES; i++)
		result_rows_add_usecs(row, n > 0, n > 0 ? found[i] : 0);
}

/*
 * Rates, quantiles of waits and runs, and sizes of payloads: 13 columns.
 */
static void
add_figures(ResultRow *row, QueueState *state)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		found[lengthof(quantiles)] = {0};
	int64		n;

	for (int i = 0; i < STATS_RATES; i++)
		result_rows_add(row, Float8GetDatum(stats_rate(state, i, now)));
	for (int h = STATS_WAIT; h <= STATS_RUN; h++)
	{
		n = stats_quantiles(state, h, quantiles, QUANTILES_OF_TIMES, found);
		add_times(row, n, found);
	}
	n = stats_quantiles(state, STATS_PAYLOAD, quantiles, lengthof(quantiles), found);
	result_rows_add_if(row, n > 0, Int64GetDatum(queue_state_counter(state, QUEUE_PAYLOAD_BYTES) /
												 Max(n, 1)));
	result_rows_add_if(row, n > 0, Int64GetDatum(found[0]));
	result_rows_add_if(row, n > 0, Int64GetDatum(found[1]));
	result_rows_add_if(row, n > 0, Int64GetDatum(found[3]));
}

/*
 * fairq.reset_stats(queue): count anew.  As with the server's own statistics
 * it is done at once and not undone, and needs no transaction that may write.
 */
Datum
fairq_reset_stats(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;

	arguments_require_preload(fcinfo);
	info = queue_open(arguments_queue(fcinfo), AccessShareLock, QUEUE_OWNER, &rel);
	stats_reset(info->state);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}

/* A column of so many tasks; depths: NULL if not known. */
static void
add_depth(ResultRow *row, const int64 *depths, int depth, int leased)
{
	result_rows_add_if(row, depths != NULL,
					   Int64GetDatum(depths == NULL ? 0 : Max(depths[depth] - leased, 0)));
}

/*
 * One row of queue_stats.  depths, oldest: NULL if not known.
 */
static void
put_queue(ReturnSetInfo *rsinfo, const char *name, QueueState *state,
		  const int64 *depths, const TimestampTz *oldest)
{
	ResultRow	row = {0};
	int			leased;
	int			of_overflow;

	result_rows_add(&row, CStringGetTextDatum(name));
	if (state == NULL)
	{
		while (row.n < rsinfo->setDesc->natts)
			result_rows_add_if(&row, false, (Datum) 0);
		result_rows_end(&row, rsinfo);
		return;
	}
	leased = leases_count(queue_state_number(state), &of_overflow);
	/* Of the overflow: their rows say so when they are leased, too. */
	add_depth(&row, depths, QUEUE_ADDRESSED, leased - of_overflow);
	result_rows_add(&row, Int64GetDatum(leased));
	add_depth(&row, depths, QUEUE_SCHEDULED, 0);
	add_depth(&row, depths, QUEUE_OVERFLOW, of_overflow);
	add_depth(&row, depths, QUEUE_HELD, 0);
	add_depth(&row, depths, QUEUE_DEAD, 0);
	result_rows_add_if(&row, oldest != NULL, oldest == NULL ? (Datum) 0 :
					   DirectFunctionCall2(timestamp_mi,
										   TimestampTzGetDatum(GetCurrentTimestamp()),
										   TimestampTzGetDatum(*oldest)));
	for (int i = QUEUE_ENQUEUED; i <= QUEUE_SWEPT; i++)
		result_rows_add(&row, Int64GetDatum(queue_state_counter(state, i)));
	add_figures(&row, state);
	result_rows_add(&row, TimestampTzGetDatum(state->tallies.since));
	result_rows_add(&row, Int64GetDatum(queue_state_counter(state, QUEUE_EXPIRED_TASKS)));
	result_rows_add(&row, Int64GetDatum(queue_state_counter(state, QUEUE_DEDUPLICATED)));
	result_rows_add(&row, Int64GetDatum(queue_state_counter(state, QUEUE_SNOOZED)));
	result_rows_add(&row, Int64GetDatum(queue_state_counter(state, QUEUE_NEAR_END)));
	result_rows_end(&row, rsinfo);
}

/* Of a queue that is locked or unfit: what shared memory knows. */
static void
put_stats(ReturnSetInfo *rsinfo, const VisibleQueue *queue)
{
	QueueState *state = queue->state;
	QueueDepths depths;
	TimestampTz oldest = 0;

	if (queue->info == NULL)
	{
		for (int i = QUEUE_FIRST_DEPTH; state != NULL && i < QUEUE_COUNTERS; i++)
			depths[i] = queue_state_counter(state, i);
		put_queue(rsinfo, queue->name, state,
				  state != NULL && state->recovery.groups == QUEUE_KNOWN &&
				  !RecoveryInProgress() ? depths : NULL, NULL);
		return;
	}
	recovery_depths(queue->rel, queue->info, depths);
	recovery_classes(queue->rel, queue->info);
	put_queue(rsinfo, queue->name, state, depths,
			  inspect_tasks_oldest_ready(queue->rel, queue->info, &oldest) ? &oldest : NULL);
}

/*
 * fairq_internal.stats_of_queues(): one row a queue.
 */
Datum
fairq_stats_of_queues(PG_FUNCTION_ARGS)
{
	return visible_queues_rows(fcinfo, put_stats);
}

/*
 * The rows of a histogram: for each bound how many values are below it, and
 * their sum.  They begin with the columns that row has.
 */
static void
put_histogram(ReturnSetInfo *rsinfo, ResultRow *row, StatsHistogram histogram,
			  const int64 *counts, double sum)
{
	int			before = row->n;

	for (int i = 0; i <= STATS_BOUNDS; i++)
	{
		row->n = before;
		result_rows_add(row, CStringGetTextDatum(histogram == STATS_WAIT ? "wait" : "run"));
		result_rows_add(row, Float8GetDatum(i == STATS_BOUNDS ? get_float8_infinity() :
											ldexp(1, stats_bound_power(i)) / USECS_PER_SEC));
		result_rows_add(row, Int64GetDatum(counts[i]));
		result_rows_add(row, Float8GetDatum(sum));
		result_rows_end(row, rsinfo);
	}
	row->n = before;
}

static void
put_histograms(ReturnSetInfo *rsinfo, const VisibleQueue *queue)
{
	ResultRow	row = {0};

	result_rows_add(&row, CStringGetTextDatum(queue->name));
	for (int h = STATS_WAIT; queue->state != NULL && h <= STATS_RUN; h++)
	{
		int64		counts[STATS_BOUNDS + 1];
		double		sum;

		counts[STATS_BOUNDS] = stats_below_bounds(queue->state, h, counts, &sum);
		put_histogram(rsinfo, &row, h, counts, sum);
	}
}

/*
 * fairq_internal.histograms_of_queues(): what others can add up of how long
 * tasks wait and run.
 */
Datum
fairq_histograms_of_queues(PG_FUNCTION_ARGS)
{
	return visible_queues_rows(fcinfo, put_histograms);
}

/*
 * The next name in a queue that the caller may see: in row the columns queue,
 * name, other.  Returns false if there is none.
 */
static bool
next_name(uint32 *number, NameStats *stats, ResultRow *row)
{
	while (name_stats_next(number, stats))
	{
		char	   *queue;

		CHECK_FOR_INTERRUPTS();
		if (stats->database != MyDatabaseId || !visible_queues_may_see(stats->relation))
			continue;
		queue = queue_catalog_name_of(stats->relation);
		if (queue == NULL)
			continue;
		row->n = 0;
		result_rows_add(row, CStringGetTextDatum(queue));
		result_rows_add_if(row, !stats->other,
						   PointerGetDatum(cstring_to_text_with_len(stats->name, stats->length)));
		result_rows_add(row, BoolGetDatum(stats->other));
		return true;
	}
	return false;
}

/*
 * fairq_internal.stats_of_names(): one row for each name in a queue.
 */
Datum
fairq_stats_of_names(PG_FUNCTION_ARGS)
{
	NameStats	stats;
	ResultRow	row;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	for (uint32 number = 0; next_name(&number, &stats, &row);)
	{
		for (int i = 0; i < NAME_COUNTERS; i++)
			result_rows_add(&row, Int64GetDatum(stats.counters[i]));
		for (int h = STATS_WAIT; h <= STATS_RUN; h++)
		{
			int64		found[QUANTILES_OF_TIMES];
			int64		n = name_stats_quantiles(&stats, h, quantiles, QUANTILES_OF_TIMES, found);

			add_times(&row, n, found);
		}
		result_rows_end(&row, (ReturnSetInfo *) fcinfo->resultinfo);
	}
	return (Datum) 0;
}

/*
 * fairq_internal.histograms_of_names(): what others can add up of how long the
 * tasks of a name wait and run.
 */
Datum
fairq_histograms_of_names(PG_FUNCTION_ARGS)
{
	NameStats	stats;
	ResultRow	row;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	for (uint32 number = 0; next_name(&number, &stats, &row);)
	{
		for (int h = STATS_WAIT; h <= STATS_RUN; h++)
		{
			int64		counts[STATS_BOUNDS + 1];
			double		sum;

			counts[STATS_BOUNDS] = name_stats_below_bounds(&stats, h, counts, &sum);
			put_histogram((ReturnSetInfo *) fcinfo->resultinfo, &row, h, counts, sum);
		}
	}
	return (Datum) 0;
}

static void
put_buckets(ReturnSetInfo *rsinfo, const VisibleQueue *queue)
{
	QueueState *state = queue->state;

	if (queue->info == NULL)
		return;
	recovery_classes(queue->rel, queue->info);
	for (int class = 0; class < state->classes; class++)
	{
		const LaneSet *set = &state->orders[class].lanes;
		Lane	   *lane;

		for (int b = 0; (lane = lanes_next(set, &b)) != NULL; b++)
		{
			LaneEntry	entries[LANE_WINDOW];
			FairqAddress *frontier = palloc(sizeof(FairqAddress));
			FairqAddress *next = palloc(sizeof(FairqAddress));
			bool		complete;
			ResultRow	row = {0};
			int			n = lanes_copy_window(lane, entries, frontier, &complete);

			if (n > 0)
				lanes_entry_address(lane, &entries[0], next);
			result_rows_add(&row, CStringGetTextDatum(queue->name));
			result_rows_add(&row, Int32GetDatum(b));
			result_rows_add(&row, Int32GetDatum(class));
			result_rows_add(&row, Int32GetDatum(n));
			result_rows_add(&row, BoolGetDatum(complete));
			result_rows_add_if(&row, n > 0, FairqAddressPGetDatum(next));
			result_rows_add_if(&row, !complete && frontier->block != PG_INT64_MIN,
							   FairqAddressPGetDatum(frontier));
			result_rows_end(&row, rsinfo);
		}
	}
}

/*
 * fairq_internal.stats_of_buckets(): one row a lane that is set up.
 */
Datum
fairq_stats_of_buckets(PG_FUNCTION_ARGS)
{
	return visible_queues_rows(fcinfo, put_buckets);
}

/*
 * Durable leases are restored when their queue is first opened after a crash:
 * see that those of all queues are, but for what is locked or unfit.
 */
static void
restore_leases(void)
{
	ListCell   *lc;

	foreach(lc, visible_queues_list())
	{
		QueueState *state = queue_state_find(lfirst_oid(lc));
		Relation	rel;

		if ((state == NULL || state->recovery.leases != QUEUE_KNOWN) &&
			visible_queues_open(lfirst_oid(lc), &rel) != NULL)
			relation_close(rel, AccessShareLock);
	}
}

/*
 * fairq_internal.live_leases(): one row a lease of a queue of this database.
 */
Datum
fairq_live_leases(PG_FUNCTION_ARGS)
{
	LeaseInfo  *leases;
	TimestampTz now = GetCurrentTimestamp();
	int			n;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	restore_leases();
	n = leases_list(&leases);
	for (int i = 0; i < n; i++)
	{
		QueueState *state = queue_state_by_number(leases[i].queue);
		ResultRow	row = {0};
		TimestampTz until;
		pg_uuid_t	receipt;
		bool		ends;
		char	   *queue;

		CHECK_FOR_INTERRUPTS();
		if (state->database != MyDatabaseId || leases[i].ref.token == 0 ||
			!visible_queues_may_see(state->relation))
			continue;
		queue = queue_catalog_name_of(state->relation);
		if (queue == NULL)
			continue;
		leases_to_receipt(&leases[i], &receipt);
		ends = leases_until(&leases[i], &until);
		result_rows_add(&row, CStringGetTextDatum(queue));
		result_rows_add(&row, Int64GetDatum(leases[i].task));
		result_rows_add(&row, UUIDPGetDatum(&receipt));
		result_rows_add_if(&row, ends, TimestampTzGetDatum(until));
		result_rows_add(&row, Int32GetDatum(leases[i].attempt));
		result_rows_add(&row, CStringGetTextDatum(leases[i].settling ? "settling" :
												  until > now ? "held" : "expired"));
		result_rows_add(&row, Int32GetDatum(leases[i].pid));
		result_rows_end(&row, (ReturnSetInfo *) fcinfo->resultinfo);
	}
	return (Datum) 0;
}

/*
 * fairq_internal.done_of_queues(): the archives that the caller may read.
 */
Datum
fairq_done_of_queues(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, queue_catalog_list(NULL))
	{
		char	   *queue = queue_catalog_name_of(lfirst_oid(lc));

		if (queue != NULL)
			archive_put_rows((ReturnSetInfo *) fcinfo->resultinfo, queue, lfirst_oid(lc));
	}
	return (Datum) 0;
}
