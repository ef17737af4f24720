/*-------------------------------------------------------------------------
 *
 * name_stats.c
 *	  Figures of the tasks of a name.
 *
 * A hash table of fixed size with an entry for each name in each queue.  When
 * it has as many names as the setting pgfairq.max_names says, further names of
 * a queue are counted together, in its entry of the empty name, which no task
 * has; for these there is room beside the names.
 *
 * What a transaction counts is in the list of stats.c until it commits.  That
 * refers to a name by a number that this process gives it until then: so an
 * entry is made at the commit, and what is rolled back leaves nothing.  Names
 * are noted no more than the table could have.
 *
 * Entries are not forgotten before their queue is reset or gone.  A name that
 * is counted again then has a new entry, and so has one that a transaction had
 * noted before, and counts after it.
 *
 * That a name came too late for an entry of its own is not undone: the entry of
 * the empty name keeps what it has, also when there is room again.
 *
 * Locking: the table's lock guards the chains, and what an entry is of; it is
 * held exclusively to add or to forget an entry.  Counters are atomic, and
 * added to with the lock shared.  It is taken after the directory lock of
 * queues (name_stats_forget_queue), and no other lock is taken under it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "storage/lwlock.h"
#include "utils/memutils.h"

#include "common/contracts.h"
#include "common/hashfn.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "shmem/fixed_table.h"
#include "shmem/stats.h"

/*
 * An entry.  The lock guards all but the counts and sums, which are atomic and
 * only grow.  While the lock is free this holds:
 *
 *	 One in use has a queue, and is in the chain of its hash (hash_of); no other
 *	 is of that queue and name.  Its length is 0 if it is of the empty name.
 *
 *	 A free one has queue -1 and is in the free list, or was never used.  Its
 *	 counts are what they were: add_entry sets them to zero.
 *
 * database and relation are copied from the queue, so that a look at an entry
 * needs no lock of queues.
 */
typedef struct NameEntry
{
	uint32		next;			/* in its chain, or in the free list */
	uint32		hash;
	int			queue;			/* its number; -1: the entry is free */
	Oid			database;
	Oid			relation;
	int			length;
	char		name[MAX_TASK_NAME];
	pg_atomic_uint64 counts[NAME_WHATS];
	pg_atomic_uint64 sums[NAME_HISTOGRAMS];
} NameEntry;

/*
 * The lock guards the rest, and the chains.  names is settings_max_names at
 * most, so what is left is enough for the empty names of all queues.
 */
typedef struct NameTable
{
	LWLock		lock;
	FreeEntries free;
	int			names;			/* entries but those of the empty name */
} NameTable;

static NameTable *table = NULL;
static uint32 *chains = NULL;
static NameEntry *entries = NULL;
static uint32 chain_mask;

/*
 * The mode of the lock while this process counts, from name_stats_begin_count
 * to name_stats_end_count; of no meaning else.
 */
static bool exclusively;

/*
 * A name that this transaction has counted, in whatever queue.  It is known by
 * its index in the array, which tallies have.  Names are kept over a rollback
 * to a savepoint: that costs their memory until the transaction has ended.
 *
 * The first is the empty name, which is in no chain: so an index of 0 ends one.
 * The array outlives the transaction, so that most need not allocate; it is
 * NULL until a first name was noted, and noted_count is 0 until then.
 */
typedef struct NotedName
{
	uint64		hash;
	int			next;			/* in its chain of noted_chains; 0: none */
	int			length;
	char		name[MAX_TASK_NAME];
} NotedName;

static NotedName *noted = NULL;
static int	noted_count = 0;
static int	noted_size = 0;

#define NOTED_CHAINS	256		/* a power of two */
static int	noted_chains[NOTED_CHAINS];

/*
 * How many entries the table has: one for each name, and one for the empty name
 * of each queue: so there is one at commit, where nothing may fail.
 */
static uint32
entries_wanted(void)
{
	return (uint32) settings_max_names + settings_max_queues;
}

/*
 * The memory of the table (invariant I10).
 */
Size
name_stats_shmem_size(void)
{
	return fixed_table_size(sizeof(NameTable), entries_wanted(), sizeof(NameEntry));
}

/*
 * Set up the table, all of whose entries are free, or find it (found).
 */
void
name_stats_shmem_init(void *area, bool found)
{
	table = area;
	entries = fixed_table_init(area, sizeof(NameTable), entries_wanted(), found,
							   &chains, &chain_mask);
	if (found)
		return;
	LWLockInitialize(&table->lock, shared_memory_tranche(FAIRQ_TRANCHE_NAME));
	table->free = all_entries_free;
	table->names = 0;
}

#ifdef USE_ASSERT_CHECKING

/*
 * An entry is in its chain, and there are no more names than there may be.  The
 * lock is held, in either mode.
 */
static void
check_entry(const NameEntry *entry)
{
	uint32		number = chains[entry->hash & chain_mask];

	AssertLocked(&table->lock);
	while (number != NO_ENTRY && &entries[number] != entry)
		number = entries[number].next;
	Assert(number != NO_ENTRY);
	Assert(entry->queue >= 0 && entry->queue < settings_max_queues);
	Assert(entry->length >= 0 && entry->length <= MAX_TASK_NAME);
	Assert(table->names >= 0 && table->names <= settings_max_names);
}

#else
#define check_entry(entry) ((void) 0)
#endif

/*
 * Take an entry out of its chain, and have it free.  What is counted of its
 * name from now on is counted in a new one.
 *
 * The caller has the table locked exclusively.  A backend looks an entry up and
 * counts in it under one lock, so none is about to add to this one.
 */
static void
forget_entry(uint32 number)
{
	NameEntry  *entry = &entries[number];
	uint32	   *link = &chains[entry->hash & chain_mask];

	AssertLockedExclusively(&table->lock);
	check_entry(entry);
	while (*link != number)
		link = &entries[*link].next;
	*link = entry->next;
	if (entry->length > 0)
		table->names--;
	entry->queue = -1;
	free_entries_give(&table->free, number, &entry->next);
}

/*
 * Forget the names of the queue of this number, which is gone, or counts anew.
 * Never fails.  Takes the table's lock, exclusively, for a look at all entries;
 * the caller may have the directory locked.  What transactions that go on have
 * noted is counted at their commit all the same, in new entries.
 */
void
name_stats_forget_queue(int number)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < table->free.high_water; i++)
	{
		if (entries[i].queue == number)
			forget_entry(i);
	}
	LWLockRelease(&table->lock);
}

/* ----------------------------------------------------------------
 * Counting
 * ----------------------------------------------------------------
 */

/*
 * Make room for one name more, and for the first, the empty one.  May fail for
 * want of memory; what is noted stays as it is.
 *
 * On return noted[0] is the empty name, so that it can be counted in at commit
 * whatever was noted.
 */
static void
reserve(void)
{
	int			size = Max(noted_size * 2, 16);

	if (noted_count < noted_size)
		return;
	if (noted == NULL)
		noted = MemoryContextAllocHuge(TopMemoryContext, size * sizeof(NotedName));
	else
		noted = repalloc_huge(noted, size * sizeof(NotedName));
	noted_size = size;
	if (noted_count > 0)
		return;
	memset(&noted[0], 0, sizeof(NotedName));
	noted_count = 1;
}

/*
 * The number by which this transaction counts what happens to tasks of a name,
 * a text.  It is good until the transaction has ended, and is the name's each
 * time that it is noted; 0 if there are more names than the table could have,
 * which stands for the empty name.  May fail for want of memory.  Takes no
 * lock.
 *
 * Names are the users', so their hash begins with a seed of the server's:
 * names cannot be chosen so that all are in one chain.  One that is too long is
 * cut where a character ends, for it is going to be shown.
 */
int
name_stats_note(Datum name)
{
	text	   *given = DatumGetTextPP(name);
	const char *start = VARDATA_ANY(given);
	int			length = VARSIZE_ANY_EXHDR(given);
	uint64		hash;
	int		   *chain;
	NotedName  *new;

	/* Rows that were written with SQL may have any. */
	if (unlikely(length > MAX_TASK_NAME))
		length = pg_mbcliplen(start, length, MAX_TASK_NAME);
	hash = hash_bytes_extended((const unsigned char *) start, length, shared_memory_seed());
	chain = &noted_chains[hash & (NOTED_CHAINS - 1)];
	for (int i = *chain; i != 0; i = noted[i].next)
	{
		if (noted[i].hash == hash && noted[i].length == length &&
			memcmp(noted[i].name, start, length) == 0)
			return i;
	}
	reserve();
	/* The empty name has that entry already. */
	if (length == 0 || noted_count > settings_max_names)
		return 0;
	new = &noted[noted_count];
	new->hash = hash;
	new->length = length;
	memcpy(new->name, start, length);
	new->next = *chain;
	*chain = noted_count;
	return noted_count++;
}

/*
 * The transaction has ended: numbers mean nothing any more.  Never fails.  If
 * there were very many names their memory is given back.
 */
void
name_stats_forget_noted(void)
{
	/* Not all chains, for this is called after each transaction. */
	for (int i = 1; i < noted_count; i++)
		noted_chains[noted[i].hash & (NOTED_CHAINS - 1)] = 0;
	noted_count = Min(noted_count, 1);
	if (noted_size > 4096)
	{
		pfree(noted);
		noted = NULL;
		noted_count = 0;
		noted_size = 0;
	}
}

/*
 * The hash of a name in the queue of a number: it spreads a name's entries of
 * all queues over chains.
 */
static inline uint32
hash_of(int queue, const NotedName *name)
{
	return murmurhash32((uint32) name->hash + (uint32) queue * 0x9E3779B9);
}

/*
 * The entry of a name in a queue, or NULL.  In either mode of the lock, and
 * good until that is released.
 */
static NameEntry *
find_entry(int queue, const NotedName *name)
{
	uint32		hash = hash_of(queue, name);

	AssertLocked(&table->lock);
	for (uint32 i = chains[hash & chain_mask]; i != NO_ENTRY; i = entries[i].next)
	{
		NameEntry  *entry = &entries[i];

		if (entry->hash == hash && entry->queue == queue && entry->length == name->length &&
			memcmp(entry->name, name->name, name->length) == 0)
			return entry;
	}
	return NULL;
}

/*
 * Make the entry of a name, which the queue does not have, and which has been
 * looked for since the lock was taken exclusively.  Its counts are set to zero
 * before it is in its chain.
 *
 * There is a free one: the caller has seen that there is room for a name, or
 * this is the empty name, of which each queue has one at most.  Never fails,
 * for the transaction has ended.
 */
static NameEntry *
add_entry(QueueState *queue, const NotedName *name)
{
	uint32		number;
	NameEntry  *entry;
	uint32	   *chain;

	AssertLockedExclusively(&table->lock);
	number = free_entries_take(&table->free, entries_wanted(), entries, next);
	/* As many names as there may be, and the empty one of each queue. */
	Assert(number != NO_ENTRY);
	entry = &entries[number];
	entry->queue = queue_state_number(queue);
	entry->hash = hash_of(entry->queue, name);
	entry->database = queue->database;
	entry->relation = queue->relation;
	entry->length = name->length;
	memcpy(entry->name, name->name, name->length);
	for (int i = 0; i < NAME_WHATS; i++)
		pg_atomic_init_u64(&entry->counts[i], 0);
	for (int i = 0; i < NAME_HISTOGRAMS; i++)
		pg_atomic_init_u64(&entry->sums[i], 0);
	chain = &chains[entry->hash & chain_mask];
	entry->next = *chain;
	*chain = number;
	if (entry->length > 0)
		table->names++;
	check_entry(entry);
	return entry;
}

/*
 * The entry that a name of a queue counts in: its own, or where there is no
 * room for that the queue's entry of the empty name.  If either has to be made,
 * and the lock is shared, it is let go and taken exclusively.  Then all is
 * looked at once more: another backend may have made the entry in between, or
 * the last one that there was room for.  The lock then stays exclusive until
 * name_stats_end_count().
 *
 * Comes to an end: the second time around it is exclusive, and makes what is
 * missing.  Entries found before the lock was let go are not held on to.
 */
static NameEntry *
entry_of(QueueState *queue, const NotedName *name)
{
	int			number = queue_state_number(queue);

	for (;;)
	{
		const NotedName *of = name;
		NameEntry  *entry = find_entry(number, of);

		if (entry == NULL && of->length > 0 && table->names >= settings_max_names)
		{
			of = &noted[0];
			entry = find_entry(number, of);
		}
		if (likely(entry != NULL))
			return entry;
		if (exclusively)
			return add_entry(queue, of);
		LWLockRelease(&table->lock);
		LWLockAcquire(&table->lock, LW_EXCLUSIVE);
		exclusively = true;
	}
}

/*
 * From now on what was noted is counted, until name_stats_end_count().  Takes
 * the table's lock in shared mode; it becomes exclusive when an entry has to be
 * made.  Nothing is allocated, for the transaction has ended, and no other lock
 * is taken in between.
 */
void
name_stats_begin_count(void)
{
	AssertNotLocked(&table->lock);
	LWLockAcquire(&table->lock, LW_SHARED);
	exclusively = false;
}

/*
 * All that was noted is counted: releases the table's lock, in whatever mode.
 */
void
name_stats_end_count(void)
{
	LWLockRelease(&table->lock);
}

/*
 * Add n to what is counted of a name in a queue: number is what was noted, what
 * a counter, or name_stats_what() of a histogram and a value; sum is that of
 * the n values then.  Never fails.
 *
 * Called between name_stats_begin_count() and name_stats_end_count().  The
 * transaction has not given up its lock on the queue's relation, so the queue
 * is there.
 */
void
name_stats_count(QueueState *queue, int number, int what, int64 n, uint64 sum)
{
	NameEntry  *entry;

	AssertLocked(&table->lock);
	Assert(number >= 0 && number < noted_count);
	Assert(what >= 0 && what < NAME_WHATS);
	entry = entry_of(queue, &noted[number]);
	pg_atomic_fetch_add_u64(&entry->counts[what], n);
	if (what >= NAME_COUNTERS)
		pg_atomic_fetch_add_u64(&entry->sums[(what - NAME_COUNTERS) / NAME_BUCKETS], sum);
}

/* ----------------------------------------------------------------
 * Reading
 * ----------------------------------------------------------------
 */

/*
 * Copy the next entry that is in use, from *number on, and set *number behind
 * it.  Returns false if there is none.  The lock is taken for each by itself:
 * a name that comes or goes meanwhile may be seen or not.  Entries are of all
 * databases, and the caller leaves out what it is not to show.
 *
 * *number is 0 at first.  stats is set only if the result is true.  Counters
 * are read one after the other while others may count: a sum may have a value
 * that its bucket has not, or the other way round.
 */
bool
name_stats_next(uint32 *number, NameStats *stats)
{
	NameEntry  *entry;

	LWLockAcquire(&table->lock, LW_SHARED);
	while (*number < table->free.high_water && entries[*number].queue < 0)
		(*number)++;
	if (*number >= table->free.high_water)
	{
		LWLockRelease(&table->lock);
		return false;
	}
	entry = &entries[(*number)++];
	check_entry(entry);
	stats->database = entry->database;
	stats->relation = entry->relation;
	stats->other = (entry->length == 0);
	stats->length = entry->length;
	memcpy(stats->name, entry->name, entry->length);
	for (int i = 0; i < NAME_COUNTERS; i++)
		stats->counters[i] = pg_atomic_read_u64(&entry->counts[i]);
	for (int h = 0; h < NAME_HISTOGRAMS; h++)
	{
		pg_atomic_uint64 *buckets = &entry->counts[NAME_COUNTERS + h * NAME_BUCKETS];

		for (int i = 0; i < NAME_BUCKETS; i++)
			stats->histograms[h][i] = pg_atomic_read_u64(&buckets[i]);
		stats->sums[h] = pg_atomic_read_u64(&entry->sums[h]);
	}
	LWLockRelease(&table->lock);
	return true;
}

/*
 * As stats_below_bounds(), of a copy.  counts has room for STATS_BOUNDS.  Each
 * bound is where a bucket begins, so these counts are exact, too: bucket i has
 * values from 2^(i + NAME_FIRST_POWER - 1) on, so all that is below a bound is
 * in buckets up to its power less NAME_FIRST_POWER.
 */
int64
name_stats_below_bounds(const NameStats *stats, StatsHistogram histogram, int64 *counts,
						double *sum)
{
	int64		total = 0;
	int			bound = 0;

	Assert(histogram < NAME_HISTOGRAMS);
	*sum = stats->sums[histogram] / (double) USECS_PER_SEC;
	for (int i = 0; i < NAME_BUCKETS; i++)
	{
		if (bound < STATS_BOUNDS && i > stats_bound_power(bound) - NAME_FIRST_POWER)
			counts[bound++] = total;
		total += stats->histograms[histogram][i];
	}
	Assert(bound == STATS_BOUNDS);
	return total;
}

/*
 * As stats_quantiles(), of a copy; but a quantile is estimated, as if the
 * values of its bucket were even distances apart.  A bucket is as wide as all
 * that are below it, so its highest value would be up to twice the true one.
 * The last bucket is taken for as wide as it would be were there one behind it.
 */
int64
name_stats_quantiles(const NameStats *stats, StatsHistogram histogram,
					 const double *quantiles, int n, int64 *values)
{
	const int64 *counts = stats->histograms[histogram];
	int64		total = 0;
	int64		below = 0;
	int			bucket = 0;

	for (int i = 0; i < NAME_BUCKETS; i++)
		total += counts[i];
	for (int i = 0; total > 0 && i < n; i++)
	{
		/* Of this rank, from 1; quantiles ascend, so the walk goes on. */
		int64		rank = Max((int64) ceil(quantiles[i] * total), 1);
		double		top;
		double		bottom;

		while (below + counts[bucket] < rank && bucket < NAME_BUCKETS - 1)
			below += counts[bucket++];
		top = ldexp(1, bucket + NAME_FIRST_POWER);
		bottom = (bucket == 0) ? 0 : top / 2;
		values[i] = (int64) (bottom + (top - bottom) * (rank - below) / counts[bucket]);
	}
	return total;
}
