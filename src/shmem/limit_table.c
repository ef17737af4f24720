/*-------------------------------------------------------------------------
 *
 * limit_table.c
 *	  Groups that have a limit: their settings, tokens and tasks in flight.
 *
 * A group that was given settings has an entry here, for its queue as a whole,
 * whatever the class of its tasks; so has every group with tasks in flight of
 * a queue whose defaults limit.  The groups of groups.c know their limit's
 * number.
 *
 * rate is a token bucket: a claim takes a token, which comes back at the rate
 * given, up to burst of them.
 *
 * Settings.  A transaction that writes what a group is given announces that
 * before it commits: the entry is made, so that nothing can fail afterwards,
 * but no group knows it.  If the transaction is rolled back, the entry goes.
 *
 * Subgroups can be made up.  So those of a group have as many entries as there
 * are left for others; then the group is crowded, and waits.  They are counted
 * by the hash of their group: two groups in some thousand share a count.
 *
 * Locking: the table lock guards chains and free list, and is taken after the
 * lock of a group's partition.  The lock of an entry (one for some entries)
 * guards the rest; it is taken after the table lock, and after a lane's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "common/shared_memory.h"
#include "shmem/fixed_table.h"
#include "shmem/limit_private.h"

#define LOCKS			64

/* Counts of subgroups' entries. */
#define CROWDS			4096

/* So many are never refused. */
#define LEAST_CROWD		8

typedef struct LimitTable
{
	LWLock		lock;
	FreeEntries free;			/* high_water is read without the lock */
	uint32		used;			/* entries in use */
	uint32		crowds[CROWDS]; /* entries of subgroups, by their group */
	uint32		hand;			/* of the clock that finds entries not needed */
	LWLockPadded locks[LOCKS];	/* of entries, by their numbers */
} LimitTable;

GroupLimit *limit_entries = NULL;

static LimitTable *table = NULL;
static uint32 *chains = NULL;
static uint32 chain_mask;

Size
limit_table_shmem_size(void)
{
	return fixed_table_size(sizeof(LimitTable), settings_max_limits, sizeof(GroupLimit));
}

void
limit_table_shmem_init(void *area, bool found)
{
	table = area;
	limit_entries = fixed_table_init(area, sizeof(LimitTable), settings_max_limits, found,
									 &chains, &chain_mask);
	if (found)
		return;

	LWLockInitialize(&table->lock, shared_memory_tranche(FAIRQ_TRANCHE_LIMIT));
	table->free = all_entries_free;
	table->used = 0;
	memset(table->crowds, 0, sizeof(table->crowds));
	table->hand = 0;
	for (int i = 0; i < LOCKS; i++)
		LWLockInitialize(&table->locks[i].lock,
						 shared_memory_tranche(FAIRQ_TRANCHE_LIMIT));
}

/* Entries from here on were never used. */
uint32
limit_table_high_water(void)
{
	return table->free.high_water;
}

/* The lock of an entry, and of others: for two see limit_lock_levels. */
LWLock *
limit_table_lock(uint32 number)
{
	return &table->locks[number % LOCKS].lock;
}

static uint32
search_chain(int queue, const GroupName *name)
{
	uint32		number = chains[(name->high + queue) & chain_mask];

	AssertLocked(&table->lock);
	while (number != NO_LIMIT &&
		   (limit_entries[number].low != name->low || limit_entries[number].high != name->high ||
			limit_entries[number].queue != queue))
		number = limit_entries[number].hash_next;
	return number;
}

#ifdef USE_ASSERT_CHECKING

/* So many links of a chain are looked at. */
#define CHECK_LINKS		32

/* The chain of a key has limits of that chain, and comes to an end. */
static void
check_chain(int queue, const GroupName *name)
{
	uint32		chain = (name->high + queue) & chain_mask;
	uint32		number = chains[chain];

	AssertLocked(&table->lock);
	for (int i = 0; i < CHECK_LINKS && number != NO_LIMIT; i++)
	{
		const GroupLimit *limit = &limit_entries[number];

		Assert(number < table->free.high_water && limit->in_use);
		Assert(((limit->high + limit->queue) & chain_mask) == chain);
		Assert(limit->hash_next != number);
		number = limit->hash_next;
	}
}

#else
#define check_chain(queue, name)	((void) 0)
#endif

/*
 * The limit of a group, or NO_LIMIT.  A hint, unless attach: the entry may be
 * freed, and be another group's, when the caller comes to look at it.
 *
 * attach: the group is new and has no tasks in flight, and is counted as one
 * that knows the limit.  That is done under the table lock, so that the entry
 * is not freed meanwhile.  One that is only announced is not found: whoever
 * settles it tells those groups that there are.  The caller has the creation
 * lock, exclusively (in_all_classes), and the group's partition.  Never fails.
 */
uint32
limit_table_find(int queue, const GroupName *name, bool attach)
{
	uint32		number;

	LWLockAcquire(&table->lock, LW_SHARED);
	number = search_chain(queue, name);
	if (attach && number != NO_LIMIT)
	{
		GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
		bool		announced = limit->announced;

		limit->references += !announced;
		limit_unlock(number);
		if (announced)
			number = NO_LIMIT;
	}
	LWLockRelease(&table->lock);
	return number;
}

/* ----------------------------------------------------------------
 * What is in force
 * ----------------------------------------------------------------
 */

/* What is below zero is the default, and so is a burst of 0 for its rate. */
static void
settings_in_force(const GroupLimit *limit, LimitSettings *settings)
{
	const LimitSettings *defaults = limit_defaults(limit);

	AssertLimitLocked(limit);
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
	AssertLimitLockedExclusively(limit);
	Assert(settings->rate > 0 && settings->burst > 0);
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
 * How many tasks more the group may have in flight now, beside so many for
 * which room is reserved, and which have had their tokens; INT_MAX: any
 * number.  If it waits for a token *token is when that comes, or when it is
 * not crowded any more; else DT_NOEND.  *limited: each task takes a token.
 * Those that have come are counted, so where there is a rate the lock is held
 * exclusively.
 */
int
limit_table_room(GroupLimit *limit, int reserved, TimestampTz *token, bool *limited)
{
	LimitSettings settings;
	int			result = INT_MAX;

	AssertLimitLocked(limit);
	*token = DT_NOEND;
	settings_in_force(limit, &settings);
	*limited = settings.rate > 0;
	if (settings.paused || limit->joining > 0)
		return 0;
	if (unlikely(limit->crowded_until != 0) && limit->crowded_until > GetCurrentTimestamp())
	{
		*token = limit->crowded_until;
		return 0;
	}
	if (settings.max_leased > 0)
		result = Max(settings.max_leased - limit->leased - reserved, 0);
	if (settings.rate > 0 && result > 0)
	{
		TimestampTz now = GetCurrentTimestamp();

		count_tokens(limit, &settings, now);
		if (limit->tokens < 1)
			*token = now + (TimestampTz)
				Min(ceil((1 - limit->tokens) * USECS_PER_SEC / settings.rate), 1e15) + 1;
		result = Min(result, (int) Max(floor(limit->tokens), 0));
	}
	return result;
}

/* ----------------------------------------------------------------
 * Entries
 * ----------------------------------------------------------------
 */

/* The count of the subgroups of a group. */
static uint32 *
crowd_of(int queue, uint64 group_high)
{
	return &table->crowds[(group_high + queue) % CROWDS];
}

/* An entry is in use, or not any more. */
static void
count_used(const GroupLimit *limit, int change)
{
	AssertLockedExclusively(&table->lock);
	table->used += change;
	if (limit->subgroup)
		*crowd_of(limit->queue, limit->group_high) += change;
}

/*
 * Have the subgroups of the group of one all the entries that they may have?
 * Then there is none for it, if it has none yet.  As of a moment ago: claims
 * that ask at once may have a few more.
 */
bool
limit_table_is_full_of(int queue, const GroupName *name)
{
	bool		full;
	uint32		crowd;

	Assert(name->subgroup);
	LWLockAcquire(&table->lock, LW_SHARED);
	crowd = *crowd_of(queue, name->group_high);
	full = crowd >= LEAST_CROWD && crowd >= settings_max_limits - table->used &&
		search_chain(queue, name) == NO_LIMIT;
	LWLockRelease(&table->lock);
	return full;
}

/*
 * Has a group nothing for now, because of that?  Without its lock: as it was a
 * moment ago.  NO_LIMIT: it has not.
 */
bool
limit_table_is_crowded(uint32 number)
{
	TimestampTz until;

	if (number == NO_LIMIT)
		return false;
	until = ((volatile GroupLimit *) &limit_entries[number])->crowded_until;
	return unlikely(until != 0) && until > GetCurrentTimestamp();
}

/* Free an entry if it is in use, and not needed any more.  Returns whether. */
static bool
free_unneeded(uint32 number)
{
	GroupLimit *limit = &limit_entries[number];
	LWLock	   *lock = limit_table_lock(number);
	bool		unneeded;

	AssertLockedExclusively(&table->lock);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	/* A lease that has just ended may not have been counted off yet. */
	unneeded = limit->in_use && !limit->given && limit->references == 0 &&
		limit->pending == 0 && limit->leased == 0 && limit->reserved == 0 &&
		!limit_waits(limit);
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
		{
			Assert(*link != NO_LIMIT);
			link = &limit_entries[*link].hash_next;
		}
		*link = limit->hash_next;
		limit->in_use = false;
		count_used(limit, -1);
		free_entries_give(&table->free, number, &limit->hash_next);
		pg_atomic_fetch_sub_u32(&limit->of_queue->entries, 1);
	}
	LWLockRelease(lock);
	return unneeded;
}

/*
 * The limit of a group, made if there is none.  NO_LIMIT: there is no room.
 *
 * announced: a transaction is going to give the group settings of its own,
 * which are not committed yet.  Otherwise the group has a limit by its queue's
 * defaults: the caller tells its classes, and calls group_limits_joined; the
 * entry counts as known to a group until then, and lets nothing be taken, lest
 * what the group has in flight be overlooked.  An entry that was announced
 * only is for groups to know from then on.  Either way it stays: until that
 * call, or until limit_table_settled.  The caller has no partition locked, as
 * it takes those of all groups to make room (limited_groups.c).  Never fails.
 */
uint32
limit_table_make(int queue, QueueLimits *limits, const GroupName *name, bool announced)
{
	LimitSettings settings;
	uint32		number;
	uint32		looks;
	GroupLimit *limit;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	number = search_chain(queue, name);
	if (number != NO_LIMIT)
	{
		limit = limit_lock(number, LW_EXCLUSIVE);
		limit->announced &= announced;
		if (announced)
			limit->pending++;
		else
		{
			limit->references++;
			limit->joining++;
		}
		limit_unlock(number);
		LWLockRelease(&table->lock);
		return number;
	}

	/*
	 * As many as there are groups at work: each newcomer looks for two to go.
	 */
	looks = table->free.high_water < (uint32) settings_max_limits ? 2 : 1024;
	for (uint32 i = 0; i < Min(table->free.high_water, looks); i++)
	{
		table->hand = (table->hand + 1) % table->free.high_water;
		if (free_unneeded(table->hand) && i >= 2)
			break;
	}
	number = free_entries_take(&table->free, settings_max_limits, limit_entries, hash_next);
	if (number == NO_LIMIT)
	{
		LWLockRelease(&table->lock);
		return NO_LIMIT;
	}

	limit = limit_lock(number, LW_EXCLUSIVE);
	Assert(!limit->in_use);
	limit->low = name->low;
	limit->high = name->high;
	limit->subgroup = name->subgroup;
	limit->group_high = name->subgroup ? name->group_high : 0;
	limit->queue = queue;
	limit->of_queue = limits;
	limit->in_use = true;
	count_used(limit, 1);
	limit->crowded_until = 0;
	limit->given = false;
	limit->announced = announced;
	limit->pending = announced;
	limit->joining = !announced;
	limit->references = !announced;
	limit->leased = 0;
	limit->settings = LIMIT_SETTINGS_NONE;
	limit->reserved = 0;
	limit->parked = 0;
	limit->blocked_count = 0;
	for (int class = 0; class < FAIRQ_CLASSES; class++)
		limit->blocked[class] = NOT_BLOCKED;
	limit->awaits_token = false;
	settings_in_force(limit, &settings);
	limit->tokens = settings.burst;
	limit->token_time = GetCurrentTimestamp();
	limit_unlock(number);
	limit->hash_next = chains[(name->high + queue) & chain_mask];
	chains[(name->high + queue) & chain_mask] = number;
	check_chain(queue, name);
	pg_atomic_fetch_add_u32(&limits->entries, 1);
	LWLockRelease(&table->lock);
	return number;
}

/*
 * A transaction has committed that gave a group settings: the groups of that
 * key, which is returned without its text, are going to be told, and nothing
 * is taken until these are in force (group_limits_change).  Never fails.
 */
void
limit_table_settling(uint32 number, GroupName *name)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);

	limit->announced = false;	/* groups that are made now have it, too */
	limit->joining++;
	name->low = limit->low;
	name->high = limit->high;
	name->subgroup = limit->subgroup;
	name->group_high = limit->group_high;
	limit_unlock(number);
}

/*
 * The settings of a group that has one are in force.  The caller has the group
 * go on then (group_limits_change).  Never fails.
 */
void
limit_table_change(uint32 number, const LimitSettings *settings)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	LimitSettings before;
	LimitSettings after;

	limit->given = settings->paused || settings->weight >= 0 || settings->max_leased >= 0 ||
		settings->rate >= 0 || settings->burst >= 0;
	Assert(limit->joining > 0 && !limit->announced);
	limit->joining--;
	settings_in_force(limit, &before);
	limit->settings = *settings;
	settings_in_force(limit, &after);
	/* A bucket that is new is full. */
	if (after.rate > 0 && (before.rate != after.rate || before.burst != after.burst))
	{
		limit->tokens = after.burst;
		limit->token_time = GetCurrentTimestamp();
	}
	limit_unlock(number);
}

/*
 * A transaction that announced a limit has ended.  If it was rolled back, or
 * has taken the group's settings away, the entry may not be needed: the number
 * is not the caller's any more.  Never fails.
 */
void
limit_table_settled(uint32 number)
{
	GroupLimit *limit;
	bool		over;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	limit = limit_lock(number, LW_EXCLUSIVE);
	Assert(limit->pending > 0);
	over = (--limit->pending == 0 && (limit->announced || !limit->given));
	limit_unlock(number);
	if (over)
		(void) free_unneeded(number);
	LWLockRelease(&table->lock);
}

/*
 * The keys of the groups of a queue that have settings of their own, a palloc'd
 * array, without their texts.  Returns how many.  Settings that are given or
 * taken away meanwhile are in it or not (see limits.changes).
 */
int
limit_table_given(int queue, GroupName **names)
{
	uint32		high_water = limit_table_high_water();
	int			n = 0;

	*names = palloc0(Max(high_water, 1) * sizeof(GroupName));
	LWLockAcquire(&table->lock, LW_SHARED);
	for (uint32 i = 0; i < high_water; i++)
	{
		GroupLimit *limit = &limit_entries[i];

		if (!limit->in_use || !limit->given || limit->queue != queue)
			continue;
		(*names)[n].low = limit->low;
		(*names)[n].high = limit->high;
		(*names)[n].subgroup = limit->subgroup;
		(*names)[n++].group_high = limit->group_high;
	}
	LWLockRelease(&table->lock);
	return n;
}

/*
 * One more group (a class of it) knows the limit, with leased tasks in flight,
 * and parked ones in its line.  Its partition is locked, and the home lane of
 * its line, so that both are counted once.  Never fails.
 */
void
limit_table_attach(uint32 number, int leased, int parked)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);

	Assert(limit->in_use && leased >= 0);
	limit->references++;
	limit->leased += leased;
	limit->parked += parked;
	limit_unlock(number);
}

/*
 * A group without tasks in flight does not know the limit any more, or who
 * made it for groups does not keep it: it goes if it is not needed.  Never
 * fails.
 */
void
limit_table_detach(uint32 number)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	limit_lock(number, LW_EXCLUSIVE)->references--;
	limit_unlock(number);
	(void) free_unneeded(number);
	LWLockRelease(&table->lock);
}

/*
 * A group, with leased tasks in flight, does without its limit if it has one
 * for nothing: no settings, nothing that waits, and no transaction is about to
 * give it any. Its queue's defaults do not limit.  Returns whether it does;
 * then the caller, which has its partition locked, sets its limit to NO_LIMIT.
 */
bool
limit_table_leave(uint32 number, int leased)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	bool		leaves = !limit->given && limit->joining == 0 && !limit_waits(limit) &&
		!limit_settings_limit(limit_defaults(limit));

	if (leaves)
	{
		limit->references--;
		limit->leased -= leased;
	}
	limit_unlock(number);
	return leaves;
}

/*
 * Does a group need its limit, though it has no tasks in flight?
 */
bool
limit_table_needed(uint32 number)
{
	GroupLimit *limit = limit_lock(number, LW_SHARED);
	bool		needed = limit->given || limit->pending > 0 || limit_waits(limit);

	limit_unlock(number);
	return needed;
}

/*
 * A task in flight of which it was not known that it is the group's, counted
 * whether there is room or not.  The group's partition is locked.
 */
void
limit_table_adopt(uint32 number)
{
	limit_lock(number, LW_EXCLUSIVE)->leased++;
	limit_unlock(number);
}

/*
 * The weight of a group, > 0.  Without its lock: as it was a moment ago.
 */
double
limit_table_weight(uint32 number)
{
	float4		weight = ((volatile GroupLimit *) &limit_entries[number])->settings.weight;

	return weight > 0 ? weight : limit_defaults(&limit_entries[number])->weight;
}

/* What is in force of a limit, and its counts, for those who look. */
void
limit_table_copy(uint32 number, LimitInfo *info)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);

	settings_in_force(limit, &info->settings);
	if (info->settings.rate > 0)
		count_tokens(limit, &info->settings, GetCurrentTimestamp());
	info->leased = limit->leased;
	info->tokens = limit->tokens;
	limit_unlock(number);
}

/*
 * How many tasks more a group may have in flight now, for those who look.
 */
int
limit_table_available(uint32 number)
{
	TimestampTz token;
	bool		limited;
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	int			result = limit_table_room(limit, limit->reserved, &token, &limited);

	limit_unlock(number);
	return result;
}

/*
 * Has the group tasks that wait until it may have them?
 */
bool
limit_table_waits(uint32 number)
{
	bool		result = limit_waits(limit_lock(number, LW_SHARED));

	limit_unlock(number);
	return result;
}

/*
 * Free the limits of a queue that is gone; limit_room.c has forgotten it, and
 * group_table.c its groups, so that nothing waits.  Never fails.
 */
void
limit_table_forget_queue(int queue)
{
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < table->free.high_water; i++)
	{
		GroupLimit *limit = &limit_entries[i];

		if (!limit->in_use || limit->queue != queue)
			continue;
		(void) limit_lock(i, LW_EXCLUSIVE);
		Assert(!limit_waits(limit) && !limit->awaits_token);
		limit->given = false;
		limit->pending = 0;
		limit->references = 0;
		limit->leased = 0;
		limit->settings.rate = 0;
		limit_unlock(i);
		(void) free_unneeded(i);
	}
	LWLockRelease(&table->lock);
}
