/*-------------------------------------------------------------------------
 *
 * stat_queues.c
 *	  The functions behind the views: figures of queues, buckets and leases, and
 *	  finished tasks.
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
PG_FUNCTION_INFO_V1(fairq_reset_stats);
PG_FUNCTION_INFO_V1(fairq_stats_of_buckets);
PG_FUNCTION_INFO_V1(fairq_live_leases);
PG_FUNCTION_INFO_V1(fairq_done_of_queues);

/*
 * Rates, quantiles of waits and runs, and sizes of payloads: 13 columns.
 */
static void
put_figures(QueueState *state, Datum *values, bool *nulls)
{
	static const double quantiles[] = {0.5, 0.95, 0.99, 1.0};
	TimestampTz now = GetCurrentTimestamp();
	int64		found[lengthof(quantiles)];
	int64		n;

	for (int i = 0; i < STATS_RATES; i++)
		values[i] = Float8GetDatum(stats_rate(state, i, now));
	for (int h = STATS_WAIT; h <= STATS_RUN; h++)
	{
		n = stats_quantiles(state, h, quantiles, 3, found);
		for (int i = 0; i < 3; i++)
		{
			Interval   *interval = palloc0(sizeof(Interval));
			int			at = STATS_RATES + h * 3 + i;

			nulls[at] = (n == 0);
			if (n > 0)
				interval->time = found[i];
			values[at] = IntervalPGetDatum(interval);
		}
	}

	n = stats_quantiles(state, STATS_PAYLOAD, quantiles, 4, found);
	for (int i = 9; i < 13; i++)
		nulls[i] = (n == 0);
	if (n == 0)
		return;
	values[9] = Int64GetDatum(queue_state_counter(state, QUEUE_PAYLOAD_BYTES) / n);
	values[10] = Int64GetDatum(found[0]);
	values[11] = Int64GetDatum(found[1]);
	values[12] = Int64GetDatum(found[3]);
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

/*
 * One row of queue_stats.  depths, oldest: NULL if not known.
 */
static void
put_queue(ReturnSetInfo *rsinfo, const char *name, QueueState *state,
		  const int64 *depths, const TimestampTz *oldest)
{
	Datum		values[35] = {0};
	bool		nulls[35];
	int			leased;
	int			of_overflow;

	memset(nulls, true, sizeof(nulls));
	values[0] = CStringGetTextDatum(name);
	nulls[0] = false;
	if (state != NULL)
	{
		leased = leases_count(queue_state_number(state), &of_overflow);
		memset(nulls, false, sizeof(nulls));
		for (int i = 1; i <= 6; i++)
			nulls[i] = (depths == NULL);
		if (depths != NULL)
		{
			/* Of the overflow: their rows say so when they are leased, too. */
			values[1] = Int64GetDatum(Max(depths[QUEUE_ADDRESSED] - (leased - of_overflow), 0));
			values[3] = Int64GetDatum(depths[QUEUE_SCHEDULED]);
			values[4] = Int64GetDatum(Max(depths[QUEUE_OVERFLOW] - of_overflow, 0));
			values[5] = Int64GetDatum(depths[QUEUE_HELD]);
			values[6] = Int64GetDatum(depths[QUEUE_DEAD]);
		}
		values[2] = Int64GetDatum(leased);
		nulls[2] = false;
		nulls[7] = (oldest == NULL);
		if (oldest != NULL)
			values[7] = DirectFunctionCall2(timestamp_mi,
											TimestampTzGetDatum(GetCurrentTimestamp()),
											TimestampTzGetDatum(*oldest));
		for (int i = QUEUE_ENQUEUED; i <= QUEUE_SWEPT; i++)
			values[8 + i] = Int64GetDatum(queue_state_counter(state, i));
		put_figures(state, values + 17, nulls + 17);
		values[30] = TimestampTzGetDatum(state->tallies.since);
		values[31] = Int64GetDatum(queue_state_counter(state, QUEUE_EXPIRED_TASKS));
		values[32] = Int64GetDatum(queue_state_counter(state, QUEUE_DEDUPLICATED));
		values[33] = Int64GetDatum(queue_state_counter(state, QUEUE_SNOOZED));
		values[34] = Int64GetDatum(queue_state_counter(state, QUEUE_NEAR_END));
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * The row of a queue that is locked, unfit or gone: what shared memory knows.
 */
static void
put_locked_queue(ReturnSetInfo *rsinfo, Oid relation)
{
	QueueState *state = queue_state_find(relation);
	char	   *queue = queue_catalog_name_of(relation);
	QueueDepths depths;

	if (queue == NULL)
		return;
	for (int i = QUEUE_FIRST_DEPTH; state != NULL && i < QUEUE_COUNTERS; i++)
		depths[i] = queue_state_counter(state, i);
	put_queue(rsinfo, queue, state,
			  state != NULL && state->recovery.groups == QUEUE_KNOWN && !RecoveryInProgress() ?
			  depths : NULL, NULL);
}

/*
 * fairq_internal.stats_of_queues(): one row a queue.
 */
Datum
fairq_stats_of_queues(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, visible_queues_list())
	{
		Relation	rel;
		QueueInfo  *info = visible_queues_open(lfirst_oid(lc), &rel);
		QueueDepths depths;
		TimestampTz oldest = 0;

		if (info == NULL)
		{
			put_locked_queue(rsinfo, lfirst_oid(lc));
			continue;
		}
		recovery_depths(rel, info, depths);
		recovery_classes(rel, info);
		put_queue(rsinfo, info->name, info->state, depths,
				  inspect_tasks_oldest_ready(rel, info, &oldest) ? &oldest : NULL);
		relation_close(rel, AccessShareLock);
	}
	return (Datum) 0;
}

/* The rows of one queue: for each bound those of waits and of runs. */
static void
put_histograms(ReturnSetInfo *rsinfo, const char *name, QueueState *state)
{
	static const char *const kinds[] = {"wait", "run"};

	for (int h = STATS_WAIT; h <= STATS_RUN; h++)
	{
		int64		counts[STATS_BOUNDS + 1];
		double		sum;

		counts[STATS_BOUNDS] = stats_below_bounds(state, h, counts, &sum);
		for (int i = 0; i <= STATS_BOUNDS; i++)
		{
			Datum		values[5];
			bool		nulls[5] = {false};

			values[0] = CStringGetTextDatum(name);
			values[1] = CStringGetTextDatum(kinds[h]);
			values[2] = Float8GetDatum(i == STATS_BOUNDS ? get_float8_infinity() :
									   ldexp(1, stats_bound_power(i)) / USECS_PER_SEC);
			values[3] = Int64GetDatum(counts[i]);
			values[4] = Float8GetDatum(sum);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	}
}

/*
 * fairq_internal.histograms_of_queues(): what others can add up of how long
 * tasks wait and run.
 */
Datum
fairq_histograms_of_queues(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, visible_queues_list())
	{
		Relation	rel;
		QueueInfo  *info = visible_queues_open(lfirst_oid(lc), &rel);

		if (info == NULL)
		{
			/* Locked, or unfit: it needs no look at the table. */
			QueueState *state = queue_state_find(lfirst_oid(lc));
			char	   *queue = queue_catalog_name_of(lfirst_oid(lc));

			if (queue != NULL && state != NULL)
				put_histograms(rsinfo, queue, state);
			continue;
		}
		put_histograms(rsinfo, info->name, info->state);
		relation_close(rel, AccessShareLock);
	}
	return (Datum) 0;
}

/*
 * fairq_internal.stats_of_buckets(): one row a lane that is set up.
 */
Datum
fairq_stats_of_buckets(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, visible_queues_list())
	{
		Relation	rel;
		QueueInfo  *info = visible_queues_open(lfirst_oid(lc), &rel);

		if (info == NULL)
			continue;
		recovery_classes(rel, info);
		for (int class = 0; class < info->state->classes; class++)
		{
			const LaneSet *set = &info->state->orders[class].lanes;
			Lane	   *lane;

			for (int b = 0; (lane = lanes_next(set, &b)) != NULL; b++)
			{
				LaneEntry	entries[LANE_WINDOW];
				FairqAddress *frontier = palloc(sizeof(FairqAddress));
				FairqAddress *next = palloc(sizeof(FairqAddress));
				bool		complete;
				Datum		values[7];
				bool		nulls[7] = {false};
				int			n = lanes_copy_window(lane, entries, frontier, &complete);

				values[0] = CStringGetTextDatum(info->name);
				values[1] = Int32GetDatum(b);
				values[2] = Int32GetDatum(class);
				values[3] = Int32GetDatum(n);
				values[4] = BoolGetDatum(complete);
				nulls[5] = (n == 0);
				if (n > 0)
					lanes_entry_address(lane, &entries[0], next);
				values[5] = FairqAddressPGetDatum(next);
				nulls[6] = complete || frontier->block == PG_INT64_MIN;
				values[6] = FairqAddressPGetDatum(frontier);
				tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
			}
		}
		relation_close(rel, AccessShareLock);
	}
	return (Datum) 0;
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
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
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
		Datum		values[7];
		bool		nulls[7] = {false};
		TimestampTz until;
		pg_uuid_t	receipt;
		char	   *queue;

		CHECK_FOR_INTERRUPTS();
		if (state->database != MyDatabaseId || leases[i].ref.token == 0 ||
			!visible_queues_may_see(state->relation))
			continue;
		queue = queue_catalog_name_of(state->relation);
		if (queue == NULL)
			continue;
		leases_to_receipt(&leases[i], &receipt);
		values[0] = CStringGetTextDatum(queue);
		values[1] = Int64GetDatum(leases[i].task);
		values[2] = UUIDPGetDatum(&receipt);
		nulls[3] = !leases_until(&leases[i], &until);
		values[3] = TimestampTzGetDatum(until);
		values[4] = Int32GetDatum(leases[i].attempt);
		values[5] = CStringGetTextDatum(leases[i].settling ? "settling" :
										until > now ? "held" : "expired");
		values[6] = Int32GetDatum(leases[i].pid);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
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
