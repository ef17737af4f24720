/*-------------------------------------------------------------------------
 *
 * limit_table.c
 *	  What a group may have: its weight, and how much of it may be in flight.
 *
 * A group that was given settings has an entry here, for its queue as a whole,
 * whatever the class of its tasks; so has every group with tasks in flight of a
 * queue whose defaults limit.  The groups of groups.c know their limit's number.
 *
 * max_leased is exact: a claim counts a task before it leases it, under the
 * entry's lock, and the count goes down when the lease has ended, however that
 * came about.  rate is a token bucket: a claim takes a token, which comes back
 * at the rate given, up to burst of them.
 *
 * What a group may not have just now is set aside until it may: parking.c.
 *
 * Settings.  Before a transaction writes what a group is given, it announces that:
 * the entry is made, so that nothing can fail when it has committed, but it is
 * nobody's.  If it is rolled back the entry goes again.
 *
 * Locking: the table lock guards chains and free list.  The lock of an entry
 * (one for some entries) guards the rest; it is taken after the lock of a
 * group's partition.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "common/shared_memory.h"
#include "shmem/limit_private.h"

#define LOCKS			64
typedef struct LimitTable
{
	LWLock		lock;
	uint32		free_head;
	uint32		high_water;
	uint32		hand;			/* of the clock that finds entries not needed */
	LWLockPadded locks[LOCKS];
} LimitTable;

static LimitTable *table = NULL;
static uint32 *chains = NULL;
static GroupLimit *entries = NULL;
static uint32 chain_mask;

#define TABLE_SIZE	CACHELINEALIGN(sizeof(LimitTable))

static uint32
chains_wanted(void)
{
	return pg_nextpower2_32(Max(settings_max_limits, LOCKS));
}

Size
limits_shmem_size(void)
{
	Size		size = TABLE_SIZE;

	size = add_size(size, CACHELINEALIGN(mul_size(chains_wanted(), sizeof(uint32))));
	size = add_size(size, CACHELINEALIGN(mul_size(settings_max_limits, sizeof(GroupLimit))));
	return add_size(size, parked_places_shmem_size());
}

void
limits_shmem_init(void *area, bool found)
{
	char	   *p = area;

	table = (LimitTable *) p;
	p += TABLE_SIZE;
	chains = (uint32 *) p;
	p += CACHELINEALIGN(mul_size(chains_wanted(), sizeof(uint32)));
	entries = (GroupLimit *) p;
	p += CACHELINEALIGN(mul_size(settings_max_limits, sizeof(GroupLimit)));
	parked_places_shmem_init(p, found);
	chain_mask = chains_wanted() - 1;
	if (found)
		return;

	LWLockInitialize(&table->lock, shared_memory_tranche(FAIRQ_TRANCHE_LIMIT));
	table->free_head = NO_LIMIT;
	table->high_water = 0;
	table->hand = 0;
	for (int i = 0; i < LOCKS; i++)
		LWLockInitialize(&table->locks[i].lock,
						 shared_memory_tranche(FAIRQ_TRANCHE_LIMIT));
	memset(chains, 0xFF, mul_size(chains_wanted(), sizeof(uint32)));
}

GroupLimit *
limits_get(uint32 number)
{
	return &entries[number];
}

uint32
limits_number(const GroupLimit *limit)
{
	return limit - entries;
}

/* Entries from here on never were. */
uint32
limits_high_water(void)
{
	return table->high_water;
}

static inline LWLock *
entry_lock(uint32 number)
{
	return &table->locks[number % LOCKS].lock;
}

LWLock *
limits_lock(uint32 number)
{
	return entry_lock(number);
}

static uint32
search_chain(int queue, uint64 low, uint64 high)
{
	uint32		number = chains[(high + queue) & chain_mask];

	while (number != NO_LIMIT &&
		   (entries[number].low != low || entries[number].high != high ||
			entries[number].queue != queue))
		number = entries[number].hash_next;
	return number;
}

/*
 * The limit of a group, or NO_LIMIT.
 */
uint32
limits_find(int queue, uint64 low, uint64 high)
{
	uint32		number;

	LWLockAcquire(&table->lock, LW_SHARED);
	number = search_chain(queue, low, high);
	LWLockRelease(&table->lock);
	return number;
}

/*
 * The same, for a group that is new and has no tasks in flight: it knows its limit
 * then.  The table lock, so that it is not freed meanwhile.
 */
uint32
limits_find_attach(int queue, uint64 low, uint64 high)
{
	uint32		number;

	LWLockAcquire(&table->lock, LW_SHARED);
	number = search_chain(queue, low, high);
	if (number != NO_LIMIT)
	{
		GroupLimit *limit = &entries[number];
		LWLock	   *lock = entry_lock(number);

		LWLockAcquire(lock, LW_EXCLUSIVE);
		if (limit->announced)
			number = NO_LIMIT;
		else
			limit->references++;
		LWLockRelease(lock);
	}
	LWLockRelease(&table->lock);
	return number;
}

/* ----------------------------------------------------------------
 * What is in force.  The entry is locked.
 * ----------------------------------------------------------------
 */

static void
settings_in_force(const GroupLimit *limit, LimitSettings *settings)
{
	const LimitSettings *defaults = &limits_of(limit)->defaults;

	*settings = limit->settings;
	if (settings->weight < 0)
		settings->weight = defaults->weight;
	if (settings->max_leased < 0)
		settings->max_leased = defaults->max_leased;
	if (settings->rate < 0)
		settings->rate = defaults->rate;
	if (settings->burst < 0)
		settings->burst = defaults->burst;
	if (settings->burst == 0)
		settings->burst = Max(1, (int) ceil(Min(settings->rate, 1e9)));
}

/* Count the tokens that have come up to now. */
static void
count_tokens(GroupLimit *limit, const LimitSettings *settings, TimestampTz now)
{
	if (now > limit->token_time)
	{
		limit->tokens += (now - limit->token_time) * (settings->rate / (double) USECS_PER_SEC);
		limit->token_time = now;
	}
	else if (now < limit->token_time - USECS_PER_SEC)
		limit->token_time = now;	/* the clock has been set back */
	limit->tokens = Min(limit->tokens, settings->burst);
}

/*
 * How many tasks more the group may have in flight now.  If it waits for a token,
 * *token is when that comes.
 */
static inline int
room(GroupLimit *limit, LimitSettings *settings, TimestampTz *token)
{
	int			result = INT_MAX;

	*token = DT_NOEND;
	settings_in_force(limit, settings);
	if (settings->paused || limit->joining > 0)
		return 0;
	if (settings->max_leased > 0)
		result = Max(settings->max_leased - limit->leased, 0);
	if (settings->rate > 0 && result > 0)
	{
		TimestampTz now = GetCurrentTimestamp();

		count_tokens(limit, settings, now);
		if (limit->tokens < 1)
			*token = now + (TimestampTz)
				Min(ceil((1 - limit->tokens) * USECS_PER_SEC / settings->rate), 1e15) + 1;
		result = Min(result, (int) Max(floor(limit->tokens), 0));
	}
	return result;
}

int
limits_room(GroupLimit *limit, TimestampTz *token)
{
	LimitSettings settings;

	return room(limit, &settings, token);
}

/* ----------------------------------------------------------------
 * Entries
 * ----------------------------------------------------------------
 */

/* Free an entry if it is not needed any more.  Table locked exclusively. */
static bool
free_unneeded(uint32 number)
{
	GroupLimit *limit = &entries[number];
	LWLock	   *lock = entry_lock(number);
	bool		unneeded;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	/* A lease that has just ended may not have been counted off yet. */
	unneeded = limit->in_use && !limit->given && limit->references == 0 &&
		limit->pending == 0 && limit->leased == 0 && !limit_waits(limit) &&
		limit->line == NOT_IN_LINE;
	if (unneeded)
	{
		/* A group that is forgotten must not have its tokens anew. */
		LimitSettings settings;

		settings_in_force(limit, &settings);
		if (settings.rate > 0)
		{
			count_tokens(limit, &settings, GetCurrentTimestamp());
			unneeded = (limit->tokens >= settings.burst);
		}
	}
	if (unneeded)
	{
		uint32	   *link = &chains[(limit->high + limit->queue) & chain_mask];

		while (*link != number)
			link = &entries[*link].hash_next;
		*link = limit->hash_next;
		limit->in_use = false;
		limit->hash_next = table->free_head;
		table->free_head = number;
		pg_atomic_fetch_sub_u32(&limits_of(limit)->entries, 1);
	}
	LWLockRelease(lock);
	return unneeded;
}

/*
 * The limit of a group, made if there is none.  NO_LIMIT: there is no room.
 * announced: for settings that have not been committed.  Otherwise it is for the
 * groups there are, and counts as one of them until they are told (limits_joined).
 */
static uint32
make(int queue, QueueLimits *limits, uint64 low, uint64 high, bool announced)
{
	static const LimitSettings none = {-1, -1, -1, -1, false};
	LimitSettings settings;
	uint32		number;
	GroupLimit *limit;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	number = search_chain(queue, low, high);
	if (number != NO_LIMIT)
	{
		limit = &entries[number];
		LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
		limit->announced &= announced;
		if (announced)
			limit->pending++;
		else
		{
			limit->references++;
			limit->joining++;
		}
		LWLockRelease(entry_lock(number));
		LWLockRelease(&table->lock);
		return number;
	}

	/* As many as there are groups at work: each newcomer looks for two to go. */
	for (uint32 i = 0; i < Min(table->high_water, table->high_water < (uint32) settings_max_limits ? 2 : 1024); i++)
	{
		table->hand = (table->hand + 1) % table->high_water;
		if (free_unneeded(table->hand) && i >= 2)
			break;
	}
	if (table->free_head != NO_LIMIT)
	{
		number = table->free_head;
		table->free_head = entries[number].hash_next;
	}
	else if (table->high_water < (uint32) settings_max_limits)
		number = table->high_water++;
	else
	{
		LWLockRelease(&table->lock);
		return NO_LIMIT;
	}

	limit = &entries[number];
	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	limit->low = low;
	limit->high = high;
	limit->queue = queue;
	limit->in_use = true;
	limit->given = false;
	limit->announced = announced;
	limit->pending = announced;
	limit->joining = !announced;
	limit->references = !announced;
	limit->leased = 0;
	limit->settings = none;
	set_aside_init(limit);
	settings_in_force(limit, &settings);
	limit->tokens = settings.burst;
	limit->token_time = GetCurrentTimestamp();
	LWLockRelease(entry_lock(number));
	limit->hash_next = chains[(high + queue) & chain_mask];
	chains[(high + queue) & chain_mask] = number;
	pg_atomic_fetch_add_u32(&limits->entries, 1);
	LWLockRelease(&table->lock);
	return number;
}

/*
 * Set what a group may have; NULL: what is the queue's default has changed.
 */
static void
change(uint32 number, const LimitSettings *settings)
{
	GroupLimit *limit = &entries[number];
	LimitSettings before;
	LimitSettings after;

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	settings_in_force(limit, &before);
	if (settings != NULL)
		limit->settings = *settings;
	settings_in_force(limit, &after);
	/* A bucket that is new is full. */
	if (settings != NULL && after.rate > 0 &&
		(before.rate != after.rate || before.burst != after.burst))
	{
		limit->tokens = after.burst;
		limit->token_time = GetCurrentTimestamp();
	}
	LWLockRelease(entry_lock(number));
	(void) set_aside_go_on(number);
}

/*
 * A transaction is going to give a group settings of its own.
 */
uint32
limits_announce(int queue, QueueLimits *limits, uint64 low, uint64 high)
{
	return make(queue, limits, low, high, true);
}

/*
 * It has committed: the groups of that key are going to be told, as with
 * limits_join, and then limits_settle is called.
 */
void
limits_settling(uint32 number, uint64 *low, uint64 *high)
{
	GroupLimit *limit = &entries[number];

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	limit->joining++;
	*low = limit->low;
	*high = limit->high;
	LWLockRelease(entry_lock(number));
}

/*
 * These are in force; or (NULL) it was rolled back.  Never fails: called at the end
 * of transactions.
 */
void
limits_settle(uint32 number, const LimitSettings *settings)
{
	GroupLimit *limit = &entries[number];
	bool		over;

	if (settings != NULL)
	{
		LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
		limit->given = true;
		limit->announced = false;
		limit->joining--;
		LWLockRelease(entry_lock(number));
		change(number, settings);
	}

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	over = (--limit->pending == 0 && limit->announced);
	LWLockRelease(entry_lock(number));
	if (over)
		(void) free_unneeded(number);
	LWLockRelease(&table->lock);
}

/*
 * A group has a limit by its queue's defaults, and the entry is made if there is
 * none.  The group is going to be told, in all classes, and then limits_joined is
 * called; until then it may have nothing, lest what is in flight be overlooked.
 */
uint32
limits_join(int queue, QueueLimits *limits, uint64 low, uint64 high)
{
	return make(queue, limits, low, high, false);
}

void
limits_joined(uint32 number)
{
	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	entries[number].joining--;
	LWLockRelease(entry_lock(number));
	(void) set_aside_go_on(number);
	limits_detach(number);
}

/*
 * One more group (a class of it) knows the limit, with leased tasks in flight.
 */
void
limits_attach(uint32 number, int leased)
{
	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	entries[number].references++;
	entries[number].leased += leased;
	LWLockRelease(entry_lock(number));
}

void
limits_detach(uint32 number)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	entries[number].references--;
	LWLockRelease(entry_lock(number));
	(void) free_unneeded(number);
	LWLockRelease(&table->lock);
}

/*
 * Does a group need its limit, though it has no tasks in flight?
 */
bool
limits_needed(uint32 number)
{
	GroupLimit *limit = &entries[number];
	bool		needed;

	LWLockAcquire(entry_lock(number), LW_SHARED);
	needed = limit->given || limit->pending > 0 || limit_waits(limit);
	LWLockRelease(entry_lock(number));
	return needed;
}

/*
 * A task in flight of which it was not known that it is the group's.
 */
void
limits_adopt(uint32 number)
{
	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	entries[number].leased++;
	LWLockRelease(entry_lock(number));
}

/*
 * What the limits of a queue that have none of their own may have has changed.
 */
void
limits_defaults_changed(int queue)
{
	for (uint32 i = 0; i < table->high_water; i++)
	{
		if (entries[i].in_use && entries[i].queue == queue)
			change(i, NULL);
	}
}

/*
 * The weight of a group.
 */
double
limits_weight(uint32 number)
{
	float4		weight = ((volatile GroupLimit *) &entries[number])->settings.weight;

	return weight > 0 ? weight : limits_of(&entries[number])->defaults.weight;
}

void
limits_look(uint32 number, LimitInfo *info)
{
	GroupLimit *limit = &entries[number];

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	settings_in_force(limit, &info->settings);
	if (info->settings.rate > 0)
		count_tokens(limit, &info->settings, GetCurrentTimestamp());
	info->leased = limit->leased;
	info->parked = limit->parked;
	info->tokens = limit->tokens;
	LWLockRelease(entry_lock(number));
}

/*
 * How many tasks more a group may have in flight now.
 */
int
limits_free(uint32 number)
{
	LimitSettings settings;
	TimestampTz token;
	int			result;

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	result = room(&entries[number], &settings, &token);
	LWLockRelease(entry_lock(number));
	return result;
}

/* ----------------------------------------------------------------
 * Claims
 * ----------------------------------------------------------------
 */

/*
 * A task of the group, at this address, is going to be leased, if it may.
 */
bool
limits_take(uint32 number, const FairqAddress *address)
{
	GroupLimit *limit = &entries[number];
	LimitSettings settings;
	TimestampTz token;
	bool		waits;
	bool		may;

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	waits = limit_waits(limit);
	may = room(limit, &settings, &token) > 0 &&
		!(waits && set_aside_before(limit, address));
	if (may)
	{
		limit->leased++;
		if (settings.rate > 0)
			limit->tokens -= 1;
		if (waits)
			set_aside_taken(limit, address);
	}
	LWLockRelease(entry_lock(number));

	/* It may have been the last token, or the last that was offered. */
	if (may && waits)
		(void) set_aside_go_on(number);
	return may;
}

/*
 * A lease of the group has ended, or unused: was not granted after all.
 */
void
limits_give(uint32 number, bool unused)
{
	GroupLimit *limit = &entries[number];
	bool		waits;

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	limit->leased--;
	if (unused)
		limit->tokens += 1;
	waits = limit_waits(limit);
	LWLockRelease(entry_lock(number));
	if (waits)
		(void) set_aside_go_on(number);
}

/*
 * Free the limits of a queue that is gone.
 */
void
limits_forget_queue(int queue)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < table->high_water; i++)
	{
		GroupLimit *limit = &entries[i];

		if (!limit->in_use || limit->queue != queue)
			continue;
		LWLockAcquire(entry_lock(i), LW_EXCLUSIVE);
		set_aside_clear(limit);
		limit->given = false;
		limit->pending = 0;
		limit->references = 0;
		limit->leased = 0;
		limit->settings.rate = 0;
		LWLockRelease(entry_lock(i));
		(void) free_unneeded(i);
	}
	LWLockRelease(&table->lock);
}
