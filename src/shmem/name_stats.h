/*-------------------------------------------------------------------------
 *
 * name_stats.h
 *	  Figures of the tasks of a name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NAME_STATS_H
#define FAIRQ_NAME_STATS_H

#include "shmem/stats.h"

/* Waits and runs. */
#define NAME_HISTOGRAMS	(STATS_RUN + 1)

/*
 * Buckets of a histogram of microseconds: one below 2^7, then one for each
 * power of two, and one from 2^39 on, six days.  Those of a queue are finer;
 * these are what is needed for the lengths that others are shown
 * (stats_bound_power), and a name is to take little memory.
 */
#define NAME_FIRST_POWER	7
#define NAME_BUCKETS		34

/* What is counted of a name: counters, then buckets of the histograms. */
#define NAME_WHATS	(NAME_COUNTERS + NAME_HISTOGRAMS * NAME_BUCKETS)

/*
 * What there is to be seen of one name in one queue: a copy.  Sums are of
 * microseconds.
 */
typedef struct NameStats
{
	Oid			database;
	Oid			relation;
	bool		other;			/* of all names that have no line */
	int			length;
	char		name[MAX_TASK_NAME];
	int64		counters[NAME_COUNTERS];
	int64		histograms[NAME_HISTOGRAMS][NAME_BUCKETS];
	uint64		sums[NAME_HISTOGRAMS];
} NameStats;

/* The bucket of a number of microseconds. */
static inline int
name_stats_bucket(int64 value)
{
	uint64		v = stats_clamp(value) >> NAME_FIRST_POWER;

	return v == 0 ? 0 : Min(pg_leftmost_one_pos64(v) + 1, NAME_BUCKETS - 1);
}

/* What is counted when a value is entered: below NAME_WHATS. */
static inline int
name_stats_what(StatsHistogram histogram, int64 value)
{
	Assert(histogram < NAME_HISTOGRAMS);
	return NAME_COUNTERS + histogram * NAME_BUCKETS + name_stats_bucket(value);
}

extern Size name_stats_shmem_size(void);
extern void name_stats_shmem_init(void *area, bool found);
extern void name_stats_forget_queue(int number);
extern int	name_stats_note(Datum name);
extern void name_stats_forget_noted(void);
extern void name_stats_begin_count(void);
extern void name_stats_count(QueueState *queue, int noted, int what, int64 n,
							 uint64 sum);
extern void name_stats_end_count(void);
extern bool name_stats_next(uint32 *number, NameStats *stats);
extern int64 name_stats_below_bounds(const NameStats *stats, StatsHistogram histogram,
									 int64 *counts, double *sum);
extern int64 name_stats_quantiles(const NameStats *stats, StatsHistogram histogram,
								  const double *quantiles, int n, int64 *values);

#endif							/* FAIRQ_NAME_STATS_H */
