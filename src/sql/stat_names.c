/*-------------------------------------------------------------------------
 *
 * stat_names.c
 *	  The functions behind the views of names: their figures, and histograms.
 *
 * They show the names in queues that the caller may read, and all of them to
 * members of pg_monitor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/timestamp.h"

#include "shmem/stats.h"
#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "storage/queue_catalog.h"

PG_FUNCTION_INFO_V1(fairq_stats_of_names);
PG_FUNCTION_INFO_V1(fairq_histograms_of_names);

/*
 * The next name that the caller may see, and the name of its queue.  Returns
 * false if there is none.
 */
static bool
next_visible(uint32 *number, NameStats *stats, char **queue)
{
	while (name_stats_next(number, stats))
	{
		CHECK_FOR_INTERRUPTS();
		if (stats->database != MyDatabaseId || !visible_queues_may_see(stats->relation))
			continue;
		*queue = queue_catalog_name_of(stats->relation);
		if (*queue != NULL)
			return true;
	}
	return false;
}

/* The columns queue, name, other. */
static void
put_name(const NameStats *stats, const char *queue, Datum *values, bool *nulls)
{
	values[0] = CStringGetTextDatum(queue);
	nulls[1] = stats->other;
	values[1] = stats->other ? (Datum) 0 :
		PointerGetDatum(cstring_to_text_with_len(stats->name, stats->length));
	values[2] = BoolGetDatum(stats->other);
}

/*
 * fairq_internal.stats_of_names(): one row for each name in a queue.
 */
Datum
fairq_stats_of_names(PG_FUNCTION_ARGS)
{
	static const double quantiles[] = {0.5, 0.95, 0.99};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	NameStats	stats;
	char	   *queue;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	for (uint32 number = 0; next_visible(&number, &stats, &queue);)
	{
		Datum		values[14] = {0};
		bool		nulls[14] = {false};

		put_name(&stats, queue, values, nulls);
		for (int i = 0; i < NAME_COUNTERS; i++)
			values[3 + i] = Int64GetDatum(stats.counters[i]);
		for (int h = STATS_WAIT; h <= STATS_RUN; h++)
		{
			int64		found[lengthof(quantiles)];
			int64		n = name_stats_quantiles(&stats, h, quantiles, lengthof(quantiles), found);

			for (int i = 0; i < (int) lengthof(quantiles); i++)
			{
				Interval   *interval = palloc0(sizeof(Interval));
				int			at = 3 + NAME_COUNTERS + h * lengthof(quantiles) + i;

				nulls[at] = (n == 0);
				if (n > 0)
					interval->time = found[i];
				values[at] = IntervalPGetDatum(interval);
			}
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
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
	static const char *const kinds[] = {"wait", "run"};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	NameStats	stats;
	char	   *queue;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	for (uint32 number = 0; next_visible(&number, &stats, &queue);)
	{
		Datum		values[7] = {0};
		bool		nulls[7] = {false};

		put_name(&stats, queue, values, nulls);
		for (int h = STATS_WAIT; h <= STATS_RUN; h++)
		{
			int64		counts[STATS_BOUNDS + 1];
			double		sum;

			counts[STATS_BOUNDS] = name_stats_below_bounds(&stats, h, counts, &sum);
			values[3] = CStringGetTextDatum(kinds[h]);
			values[6] = Float8GetDatum(sum);
			for (int i = 0; i <= STATS_BOUNDS; i++)
			{
				values[4] = Float8GetDatum(i == STATS_BOUNDS ? get_float8_infinity() :
										   ldexp(1, stats_bound_power(i)) / USECS_PER_SEC);
				values[5] = Int64GetDatum(counts[i]);
				tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
			}
		}
	}
	return (Datum) 0;
}
