/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Figures of what happens in a queue: counters, rates, histograms; and those of
 *	  the tasks of a name.
 *
 * Times are in microseconds, payloads in bytes.  The heads of stats.c and
 * name_stats.c say what is locked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_STATS_H
#define FAIRQ_STATS_H

#include "port/pg_bitutils.h"

#include "shmem/queue_state.h"

/* What there are histograms of. */
typedef enum StatsHistogram
{
	STATS_WAIT,					/* microseconds from enqueue or due to claim */
	STATS_RUN,					/* microseconds from claim to ack */
	STATS_PAYLOAD				/* bytes of jsonb */
} StatsHistogram;

#define STATS_HISTOGRAMS	(STATS_PAYLOAD + 1)

/*
 * Buckets of a histogram: one for each value below 16, then 16 for each power
 * of two, so that one is no wider than 1/16 of its values.  The last ends at
 * 2^49: microseconds of 17 years.
 */
#define STATS_SUBBITS	4
#define STATS_MAX		((UINT64CONST(1) << 49) - 1)
#define STATS_BUCKETS	((49 - STATS_SUBBITS + 1) << STATS_SUBBITS)

/* Of these the sum of the values is kept, too: of payloads a counter has it. */
#define STATS_SUMS		(STATS_RUN + 1)

/*
 * What others are shown of a histogram of microseconds: how many values are
 * below each of some powers of two, from a millisecond to five hours.  There a
 * bucket begins, so these counts are exact.
 */
#define STATS_BOUNDS	19

/* What is counted by the second: the first counters. */
#define STATS_RATES		(QUEUE_ACKED + 1)

/*
 * A value as it is entered: 0 where it is below that, as a clock was set, and
 * no more than the highest of the last bucket.
 */
static inline uint64
stats_clamp(int64 value)
{
	return value < 0 ? 0 : Min((uint64) value, STATS_MAX);
}

/*
 * The bucket of a value: below STATS_BUCKETS, and never below that of a lower
 * value.  Above 2^STATS_SUBBITS it is the power of two, and of the value the
 * STATS_SUBBITS bits that follow the first.
 */
static inline int
stats_bucket(int64 value)
{
	uint64		v = stats_clamp(value);
	int			power;

	if (v < (1 << STATS_SUBBITS))
		return (int) v;
	power = pg_leftmost_one_pos64(v) - STATS_SUBBITS;
	return (power << STATS_SUBBITS) + (int) (v >> power);
}

/* The highest value of a bucket: stats_bucket() of it is that bucket. */
static inline int64
stats_bucket_top(int bucket)
{
	int			power = (bucket >> STATS_SUBBITS) - 1;

	if (power < 0)
		return bucket;
	return (((int64) (bucket - (power << STATS_SUBBITS)) + 1) << power) - 1;
}

/*
 * The power of two of a bound: one more than the last from 65 ms to 268 s, two
 * more elsewhere.
 */
static inline int
stats_bound_power(int i)
{
	return 10 + i + Min(i, 3) + Max(i - 15, 0);
}

/*
 * A rate is counted in a ring of slots of five seconds each, of which those of
 * the last minute are looked at.  In the upper part of a slot is the number of
 * its five seconds, as far as it fits, in the lower the count.
 */
#define STATS_SLOTS			16
#define STATS_SLOT_USECS	(5 * USECS_PER_SEC)
#define STATS_WINDOW		12	/* slots before that of now */
#define STATS_SLOT_SHIFT	40
#define STATS_SLOT_COUNT	((UINT64CONST(1) << STATS_SLOT_SHIFT) - 1)
#define STATS_SLOT_NUMBER	((UINT64CONST(1) << (64 - STATS_SLOT_SHIFT)) - 1)

/*
 * A slot with n more of five seconds number.  A clock that was set back, or a
 * commit that took minutes from its time-stamp to here, counts in what the slot
 * counts by then.
 */
static inline uint64
stats_slot_add(uint64 slot, uint64 number, uint64 n)
{
	uint64		later = (number - (slot >> STATS_SLOT_SHIFT)) & STATS_SLOT_NUMBER;

	if (slot == 0 || (later > 0 && later < STATS_SLOT_NUMBER / 2))
		return (number << STATS_SLOT_SHIFT) | n;
	return slot + n;
}

/* What of a slot is of the window that ends with five seconds number. */
static inline uint64
stats_slot_count(uint64 slot, uint64 number)
{
	uint64		age = (number - (slot >> STATS_SLOT_SHIFT)) & STATS_SLOT_NUMBER;

	return age <= STATS_WINDOW ? slot & STATS_SLOT_COUNT : 0;
}

/*
 * Values on their way to a histogram: those of one call are much alike, and
 * come to a few additions.  A run is of one bucket, at the index that its lower
 * bits say.  One that gives way to another bucket is entered then; sum is of
 * all values since the last stats_flush().
 */
typedef struct StatsBatch
{
	struct
	{
		uint16		bucket;
		uint16		n;
	}			runs[1 << STATS_SUBBITS];
	uint64		sum;
} StatsBatch;

/*
 * stats.c.  In all of these the caller keeps the queue from being released, by
 * a lock on its relation.  Nothing is locked here but the table of names.
 */
extern Size stats_shmem_size(void);
extern void stats_shmem_init(void *area, bool found);
extern void stats_init_queue(int number);
extern void stats_reset(QueueState *queue);

/* At once, whatever becomes of the transaction; under any lock.  Never fail. */
extern void stats_add(QueueState *queue, StatsHistogram histogram, int bucket,
					  int64 n);
extern void stats_count(QueueState *queue, QueueCounter counter, int64 n,
						TimestampTz now);
extern void stats_flush(QueueState *queue, StatsHistogram histogram,
						StatsBatch *batch);

/*
 * At commit.  The stats_tally functions may fail for want of memory, and then
 * have counted nothing; they are called in a transaction.  The callbacks are
 * pending.c's, and never fail.
 */
extern void stats_tally(QueueState *queue, QueueCounter counter, int64 n);
extern void stats_tally_value(QueueState *queue, StatsHistogram histogram,
							  int64 value);
extern void stats_tally_name(QueueState *queue, Datum name, NameCounter counter);
extern void stats_tally_name_value(QueueState *queue, Datum name,
								   StatsHistogram histogram, int64 value);
extern void stats_before_prepare(TransactionId xid);
extern void stats_at_commit(void);
extern void stats_at_abort(void);
extern void stats_at_subcommit(SubTransactionId subid, SubTransactionId parent);
extern void stats_at_subabort(SubTransactionId subid);

/* To read: nothing is locked, and so figures may be of two moments. */
extern double stats_rate(QueueState *queue, QueueCounter counter, TimestampTz now);
extern int64 stats_quantiles(QueueState *queue, StatsHistogram histogram,
							 const double *quantiles, int n, int64 *values);
extern int64 stats_below_bounds(QueueState *queue, StatsHistogram histogram,
								int64 *counts, double *sum);

/*
 * Add a value to a batch that began as zeros, and that is of this queue and
 * histogram alone.  Never fails.  The caller ends with stats_flush().
 */
static inline void
stats_batch_add(StatsBatch *batch, QueueState *queue, StatsHistogram histogram,
				int64 value)
{
	int			bucket = stats_bucket(value);
	int			i = bucket & ((1 << STATS_SUBBITS) - 1);

	if (unlikely(batch->runs[i].bucket != bucket || batch->runs[i].n == PG_UINT16_MAX))
	{
		if (batch->runs[i].n > 0)
			stats_add(queue, histogram, batch->runs[i].bucket, batch->runs[i].n);
		batch->runs[i].bucket = bucket;
		batch->runs[i].n = 0;
	}
	batch->runs[i].n++;
	batch->sum += stats_clamp(value);
}

/* name_stats.c: figures of the tasks of a name */
/* Waits and runs: the first histograms. */
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
 * What there is to be seen of one name in one queue: a copy, whose figures may
 * be of moments that are a little apart.  Sums are of microseconds.  The name
 * has length bytes, and no 0 behind them.
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

/*
 * The bucket of a number of microseconds: below NAME_BUCKETS.  Bucket i > 0
 * begins at 2^(i + NAME_FIRST_POWER - 1).
 */
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

/*
 * For stats.c: in a transaction, and when that has ended.  name_stats_note
 * alone may fail.  Between name_stats_begin_count and name_stats_end_count the
 * table's lock is held, in either mode.
 */
extern int	name_stats_note(Datum name);
extern void name_stats_forget_noted(void);
extern void name_stats_begin_count(void);
extern void name_stats_count(QueueState *queue, int noted, int what, int64 n,
							 uint64 sum);
extern void name_stats_end_count(void);

/* For those who look: name_stats_next takes the lock, the others a copy. */
extern bool name_stats_next(uint32 *number, NameStats *stats);
extern int64 name_stats_below_bounds(const NameStats *stats, StatsHistogram histogram,
									 int64 *counts, double *sum);
extern int64 name_stats_quantiles(const NameStats *stats, StatsHistogram histogram,
								  const double *quantiles, int n, int64 *values);

#endif							/* FAIRQ_STATS_H */
