/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Figures of what happens in a queue: counters, rates, histograms.
 *
 * The counters themselves are in QueueState.  Here are the histograms of each
 * queue, the counts of the last minute that rates are made of, and what a
 * transaction has counted and not yet committed.
 *
 * Locking: everything shared is atomic and nothing is locked: a reader may see
 * a count that is a moment older than another.  A reset sets one after the
 * other to zero; what is counted at that moment may be on either side of it.
 *
 * A histogram has buckets on a logarithmic scale, a sixteenth of their values
 * wide at most.  A quantile is told as the highest value of its bucket, so it
 * is never below the true one, and above by no more than 6.25 %.
 *
 * A rate is counted in a ring of slots of five seconds.  A slot is one word:
 * in its upper part the number of the five seconds that it counts, in its
 * lower the count, so whoever counts first in a new five seconds also clears
 * the slot, and no process has to come by in time.
 *
 * What a transaction counts is for its commit, and does not have an order, so
 * it is not in pending.c's list but in one of its own, in which equal things
 * are one entry: a thousand acks are a few.  An entry is found again through a
 * small table; one that is not found is made anew, which is only a loss of
 * memory.  The callbacks that empty it are pending.c's; they allocate nothing.
 * What is counted of names of tasks (name_stats.c) is in the same list.
 *
 * Race 13 (a prepared transaction ends, and no function of ours is called): it
 * is counted as if it had committed, and stats_before_prepare() has a lane
 * remember it, so that the queue is counted anew if it has not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "shmem/lanes.h"
#include "shmem/stats.h"

/*
 * Of one queue, by its number.  All atomic, and nothing is consistent with
 * anything else: each word is right when all that count have done so.  There is
 * nothing else in it (clear).
 *
 * A slot of rates is as stats_slot_add makes it: the five seconds of number t
 * are counted in slot t % STATS_SLOTS.  What is in a slot is of those that it
 * names, however long ago they were; whoever reads it leaves out what is old.
 */
typedef struct QueueStats
{
	pg_atomic_uint64 histograms[STATS_HISTOGRAMS][STATS_BUCKETS];
	pg_atomic_uint64 sums[STATS_SUMS];
	pg_atomic_uint64 rates[STATS_RATES][STATS_SLOTS];
} QueueStats;

static QueueStats *stats = NULL;

/*
 * What a tally is of is one number: a QueueCounter, or behind these a bucket of
 * a histogram of the queue.
 */
#define TALLY_BUCKET(histogram, bucket) \
	(QUEUE_COUNTERS + (histogram) * STATS_BUCKETS + (bucket))

/* Behind these what is counted of a name that name_stats.c has noted. */
#define TALLY_NAMES		TALLY_BUCKET(STATS_HISTOGRAMS, 0)
#define TALLY_NAME(name, what)	(TALLY_NAMES + (name) * NAME_WHATS + (what))

/*
 * So much of one thing, counted by this transaction.  The list is in the order
 * of subid: what is counted now is the current subtransaction's, and those that
 * have ended are the parents'.  It may have two entries of one thing.
 *
 * The queue is there until the commit, for the transaction has its relation
 * locked: so an entry points to it.
 */
typedef struct Tally
{
	QueueState *queue;
	SubTransactionId subid;
	int			what;
	int64		n;
	uint64		sum;			/* of the values, if it is of a bucket */
} Tally;

#define TALLY_CACHE		128		/* a power of two */

/*
 * The list, of this transaction.  Its memory is kept for the next one, for most
 * transactions that count anything count the like.
 */
static Tally *tallies = NULL;
static int	tallies_count = 0;
static int	tallies_size = 0;

/*
 * Where an entry may be: an index in the list, which may be of another thing,
 * or beyond its end.  So it is looked at whether it is that one (tally_is), and
 * nothing has to be cleared at the end of a transaction.
 */
static int	tally_cache[TALLY_CACHE];

/*
 * The memory for the figures of pgfairq.max_queues queues (invariant I10).
 */
Size
stats_shmem_size(void)
{
	return mul_size(settings_max_queues, sizeof(QueueStats));
}

/*
 * Find the figures.  They are set up with their queue (stats_init_queue).
 */
void
stats_shmem_init(void *area, bool found)
{
	stats = area;
}

/* The figures of a queue, which is in use. */
static inline QueueStats *
stats_of(QueueState *queue)
{
	return &stats[queue_state_number(queue)];
}

/*
 * Set all figures of a queue to zero, one after the other.  Others may count
 * meanwhile: each of their counts is whole, and lost or not.
 */
static void
clear(QueueStats *s)
{
	pg_atomic_uint64 *words = (pg_atomic_uint64 *) s;

	for (Size i = 0; i < sizeof(QueueStats) / sizeof(pg_atomic_uint64); i++)
		pg_atomic_write_u64(&words[i], 0);
}

/*
 * A queue of this number is set up, and the directory is locked exclusively: no
 * other process counts in it yet.  One that is restored at the start does
 * without this, for shared memory is zeros then.
 */
void
stats_init_queue(int number)
{
	clear(&stats[number]);
}

/*
 * Begin anew: all but how many tasks there are.  In force at once, and not
 * undone by a rollback.  The caller has the queue's relation locked.  What
 * transactions have counted that commit later is counted after it.
 */
void
stats_reset(QueueState *queue)
{
	for (int i = 0; i < QUEUE_FIRST_DEPTH; i++)
		pg_atomic_write_u64(&queue->tallies.n[i], 0);
	clear(stats_of(queue));
	name_stats_forget_queue(queue_state_number(queue));
	queue->tallies.since = GetCurrentTimestamp();
}

/* ----------------------------------------------------------------
 * Counting at once
 * ----------------------------------------------------------------
 */

/*
 * Enter n values of a bucket (stats_bucket).  Never fails, as all in this part,
 * and takes no lock.  Their sum is another matter: whoever enters values of a
 * histogram that has one adds to it, too.
 */
void
stats_add(QueueState *queue, StatsHistogram histogram, int bucket, int64 n)
{
	pg_atomic_fetch_add_u64(&stats_of(queue)->histograms[histogram][bucket], n);
}

/*
 * Enter what is left in a batch, and the sum of all of its values, those that
 * have been entered before included.  The histogram is one that has a sum.  The
 * batch is zeros then.
 */
void
stats_flush(QueueState *queue, StatsHistogram histogram, StatsBatch *batch)
{
	for (int i = 0; i < (int) lengthof(batch->runs); i++)
	{
		if (batch->runs[i].n > 0)
			stats_add(queue, histogram, batch->runs[i].bucket, batch->runs[i].n);
		batch->runs[i].n = 0;
	}
	Assert(histogram < STATS_SUMS);
	pg_atomic_fetch_add_u64(&stats_of(queue)->sums[histogram], batch->sum);
	batch->sum = 0;
}

/*
 * Count n events of now.  Whether the slot counts another five seconds is
 * decided with the count, in one exchange: so of two that come first in five
 * seconds, one clears the slot and the other adds to it.  n is above 0: the
 * lower part of a slot cannot go below zero without changing the upper.
 */
static void
count_rate(QueueState *queue, QueueCounter counter, int64 n, TimestampTz now)
{
	uint64		number = now / STATS_SLOT_USECS;
	pg_atomic_uint64 *slot =
		&stats_of(queue)->rates[counter][number % STATS_SLOTS];
	uint64		old = pg_atomic_read_u64(slot);

	while (!pg_atomic_compare_exchange_u64(slot, &old,
										   stats_slot_add(old, number, n)))
		;
}

/*
 * Add to a counter; n is below zero where there are fewer tasks of a state.
 * now is when it happened, by the wall clock, and is needed by the counters
 * that have a rate.  In force at once.
 */
void
stats_count(QueueState *queue, QueueCounter counter, int64 n, TimestampTz now)
{
	queue_state_count(queue, counter, n);
	if ((int) counter < STATS_RATES && n > 0)
		count_rate(queue, counter, n, now);
}

/* ----------------------------------------------------------------
 * Counting at commit
 * ----------------------------------------------------------------
 */

/*
 * Where the index of an entry in the list may be noted.  Other entries share
 * it, and nothing is cleared when the list is: tally_is() looks.
 */
static inline int *
tally_index(QueueState *queue, int what, SubTransactionId subid)
{
	uint32		hash = what ^ (queue_state_number(queue) * 31) ^ (subid * 7);

	return &tally_cache[hash & (TALLY_CACHE - 1)];
}

/*
 * Is the entry at an index in the list that of a thing and a subtransaction?
 * The index is what the small table says, and may be of an earlier list.
 */
static inline bool
tally_is(int index, QueueState *queue, int what, SubTransactionId subid)
{
	return index < tallies_count && tallies[index].what == what &&
		tallies[index].queue == queue && tallies[index].subid == subid;
}

/*
 * Count n of what for the current subtransaction.  May fail for want of memory,
 * and has counted nothing then.  The caller has the queue's relation locked
 * until the end of the transaction, so that the queue is there at its commit.
 *
 * An entry that the small table has lost is made anew, at the end of the list:
 * the current subtransaction is the highest, so the list stays in order.
 */
static void
tally(QueueState *queue, int what, int64 n, uint64 sum)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	int		   *index = tally_index(queue, what, subid);
	Tally	   *t;

	if (likely(tally_is(*index, queue, what, subid)))
	{
		tallies[*index].n += n;
		tallies[*index].sum += sum;
		return;
	}
	if (tallies_count == tallies_size)
	{
		int			size = Max(tallies_size * 2, 64);

		if (tallies == NULL)
			tallies = MemoryContextAllocHuge(TopMemoryContext, size * sizeof(Tally));
		else
			tallies = repalloc_huge(tallies, size * sizeof(Tally));
		tallies_size = size;
	}
	*index = tallies_count;
	t = &tallies[tallies_count++];
	t->queue = queue;
	t->subid = subid;
	t->what = what;
	t->n = n;
	t->sum = sum;
}

/*
 * Add to a counter when the transaction commits, or is prepared; and nothing if
 * it, or the subtransaction, is rolled back.  May fail for want of memory.
 */
void
stats_tally(QueueState *queue, QueueCounter counter, int64 n)
{
	tally(queue, counter, n, 0);
}

/*
 * Enter a value into a histogram when the transaction commits.  As stats_tally.
 */
void
stats_tally_value(QueueState *queue, StatsHistogram histogram, int64 value)
{
	tally(queue, TALLY_BUCKET(histogram, stats_bucket(value)), 1, stats_clamp(value));
}

/*
 * Add to a counter of the tasks of this name, a text, when the transaction
 * commits.  As stats_tally.
 */
void
stats_tally_name(QueueState *queue, Datum name, NameCounter counter)
{
	tally(queue, TALLY_NAME(name_stats_note(name), counter), 1, 0);
}

/*
 * Enter a value into a histogram of the tasks of this name when the transaction
 * commits.  As stats_tally.
 */
void
stats_tally_name_value(QueueState *queue, Datum name, StatsHistogram histogram, int64 value)
{
	tally(queue, TALLY_NAME(name_stats_note(name), name_stats_what(histogram, value)), 1,
		  stats_clamp(value));
}

/*
 * The list is empty, and so is that of names.  Memory that few transactions
 * need is given back.  Never fails.
 */
static void
forget_tallies(void)
{
	tallies_count = 0;
	name_stats_forget_noted();
	if (tallies_size > 16384)
	{
		pfree(tallies);
		tallies = NULL;
		tallies_size = 0;
	}
}

/*
 * The transaction is being prepared, and what it counts is going to be
 * counted as if it had committed.  That there was one is noted, in case it is
 * rolled back: as a doubt of a lane, which whoever finds that it is over looks
 * at (race 13).  Before stats_at_commit(), which empties the list.
 *
 * One doubt for each queue is enough.  Entries of one queue mostly stand
 * together; where they do not, the lane finds that it has that doubt already.
 * Takes locks of lanes; never fails, for nothing may once it is prepared.
 */
void
stats_before_prepare(TransactionId xid)
{
	QueueState *noted = NULL;

	for (int i = 0; i < tallies_count; i++)
	{
		QueueState *queue = tallies[i].queue;

		for (int class = 0; queue != noted && class < queue->classes; class++)
		{
			if (lane_doubts_add_transaction(&queue->orders[class].lanes, xid))
				noted = queue;
		}

		/* There is no lane to remember it. */
		if (queue != noted)
			queue_state_recount(queue);
		noted = queue;
	}
}

/*
 * Count what was counted of names: the table is locked once for all.  Called at
 * the end of a transaction, with no lock of ours held that is taken after it.
 */
static void
count_names(void)
{
	name_stats_begin_count();
	for (int i = 0; i < tallies_count; i++)
	{
		const Tally *t = &tallies[i];

		if (t->what >= TALLY_NAMES)
			name_stats_count(t->queue, (t->what - TALLY_NAMES) / NAME_WHATS,
							 (t->what - TALLY_NAMES) % NAME_WHATS, t->n, t->sum);
	}
	name_stats_end_count();
}

/*
 * The transaction has committed, or is prepared, as most that are commit.
 * Never fails.  Pending actions come after this: room that was reserved for
 * tasks is given back when they are counted (queue_state_reserve).  Locks on
 * relations are given up still later, so the queues are there.
 */
void
stats_at_commit(void)
{
	TimestampTz now = 0;
	bool		named = false;

	for (int i = 0; i < tallies_count; i++)
	{
		const Tally *t = &tallies[i];

		if (unlikely(t->what >= TALLY_NAMES))
			named = true;
		else if (t->what >= QUEUE_COUNTERS)
		{
			StatsHistogram histogram = (t->what - QUEUE_COUNTERS) / STATS_BUCKETS;

			stats_add(t->queue, histogram,
					  (t->what - QUEUE_COUNTERS) % STATS_BUCKETS, t->n);
			if (histogram < STATS_SUMS)
				pg_atomic_fetch_add_u64(&stats_of(t->queue)->sums[histogram], t->sum);
		}
		else
		{
			if (t->what < STATS_RATES && now == 0)
				now = GetCurrentTransactionStopTimestamp();
			stats_count(t->queue, t->what, t->n, now);
		}
	}
	if (unlikely(named))
		count_names();
	forget_tallies();
}

/*
 * The transaction has aborted: nothing has happened.  Never fails.
 */
void
stats_at_abort(void)
{
	forget_tallies();
}

/*
 * What a subtransaction has counted is its parent's.  Entries are in the order
 * of subtransactions, so these are the last; they are merged with those that
 * the parent has, so that a loop of savepoints does not make the list grow.
 * Never fails: what is not merged takes the place of one that is gone, for the
 * list is never longer than before.
 *
 * Each is copied before its place is written, as that may be its own.  What is
 * found as the parent's is below tallies_count, so it is not one that is yet to
 * be moved.
 */
void
stats_at_subcommit(SubTransactionId subid, SubTransactionId parent)
{
	int			first = tallies_count;
	int			end = tallies_count;

	while (first > 0 && tallies[first - 1].subid >= subid)
		first--;
	tallies_count = first;
	for (int i = first; i < end; i++)
	{
		Tally		t = tallies[i];
		int		   *index = tally_index(t.queue, t.what, parent);

		if (tally_is(*index, t.queue, t.what, parent))
		{
			tallies[*index].n += t.n;
			tallies[*index].sum += t.sum;
		}
		else
		{
			t.subid = parent;
			*index = tallies_count;
			tallies[tallies_count++] = t;
		}
	}
}

/*
 * What a subtransaction has counted, and its own that have ended, is nothing:
 * they are the last entries.  Never fails.
 */
void
stats_at_subabort(SubTransactionId subid)
{
	while (tallies_count > 0 && tallies[tallies_count - 1].subid >= subid)
		tallies_count--;
}

/* ----------------------------------------------------------------
 * Reading
 * ----------------------------------------------------------------
 */

/*
 * How often a second something happened in the last minute, or since counting
 * began if that is less.  counter is one of the first STATS_RATES, now the time
 * in microseconds.  The five seconds that now is in count, too.  The time is
 * taken for a second at least: one event of a moment ago is not a million each
 * second.
 */
double
stats_rate(QueueState *queue, QueueCounter counter, TimestampTz now)
{
	uint64		number = now / STATS_SLOT_USECS;
	TimestampTz since = (number - STATS_WINDOW) * STATS_SLOT_USECS;
	uint64		count = 0;

	for (int i = 0; i < STATS_SLOTS; i++)
		count += stats_slot_count(pg_atomic_read_u64(&stats_of(queue)->rates[counter][i]),
								  number);
	since = Max(since, queue->tallies.since);
	return (double) count * USECS_PER_SEC / Max(now - since, USECS_PER_SEC);
}

/*
 * Some quantiles of a histogram, which ascend, from 0 to 1.  Returns how many
 * values it has; if there are none the quantiles are not set.  The buckets are
 * copied first: what is counted meanwhile would put ranks and counts at odds.
 *
 * values has room for n.  As they ascend, one walk over the buckets is enough
 * for all of them.
 */
int64
stats_quantiles(QueueState *queue, StatsHistogram histogram,
				const double *quantiles, int n, int64 *values)
{
	uint64		counts[STATS_BUCKETS];
	uint64		total = 0;
	uint64		below = 0;
	int			bucket = 0;

	for (int i = 0; i < STATS_BUCKETS; i++)
	{
		counts[i] = pg_atomic_read_u64(&stats_of(queue)->histograms[histogram][i]);
		total += counts[i];
	}
	for (int i = 0; total > 0 && i < n; i++)
	{
		/* The value of this rank, counted from 1. */
		uint64		rank = Max((uint64) ceil(quantiles[i] * total), 1);

		while (below + counts[bucket] < rank && bucket < STATS_BUCKETS - 1)
			below += counts[bucket++];
		values[i] = stats_bucket_top(bucket);
	}
	return (int64) total;
}

/*
 * How many values of a histogram of microseconds are below each of the bounds.
 * Returns how many there are in all, and their sum in seconds, which begins
 * anew beyond 2^64 microseconds.  counts has room for STATS_BOUNDS.
 *
 * Buckets are read in their order, each once, and what is counted meanwhile may
 * be in or not: but counts ascend, and none is above the result.
 */
int64
stats_below_bounds(QueueState *queue, StatsHistogram histogram, int64 *counts, double *sum)
{
	QueueStats *s = stats_of(queue);
	int64		total = 0;
	int			bound = 0;

	Assert(histogram < STATS_SUMS);
	*sum = pg_atomic_read_u64(&s->sums[histogram]) / (double) USECS_PER_SEC;
	for (int i = 0; i < STATS_BUCKETS; i++)
	{
		if (bound < STATS_BOUNDS && i == stats_bucket(INT64CONST(1) << stats_bound_power(bound)))
			counts[bound++] = total;
		total += pg_atomic_read_u64(&s->histograms[histogram][i]);
	}
	Assert(bound == STATS_BOUNDS);
	return total;
}
