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
 * given, up to burst of them.  It is taken when the task is, before it is known
 * whether that can be leased, and given back if it is not: so claims that come
 * at once do not take one token twice.  Tokens are counted when they are asked
 * for, and no timer is needed but for groups that wait (limit_room.c).
 *
 * Settings.  A transaction that writes what a group is given announces that
 * before it commits: the entry is made, so that nothing can fail afterwards,
 * but no group knows it.  If the transaction is rolled back, the entry goes.
 *
 * Subgroups can be made up.  So those of a group have as many entries as there
 * are left for others; then the group is crowded, and waits.  They are counted
 * by the hash of their group: two groups in some thousand share a count.
 *
 * An entry that nothing needs is not freed at once, for its group would have it
 * made again with the next task: those who make one look for some to free, as
 * the hand of a clock goes round.  It is freed at once where settings were
 * taken away, or a group is forgotten.  Which need one is said at GroupLimit.
 *
 * Here are finding, making and freeing, and what is in force of an entry.  What
 * is done to one that is known by its number is in limit_entry.c, how room is
 * kept for tasks in limit_room.c, and who goes on then in group_limits.c.
 *
 * Locking: the table lock guards chains and free list, and is taken after the
 * lock of a group's partition.  The lock of an entry (one for some entries)
 * guards the rest; it is taken after the table lock, and after a lane's.  The
 * former is taken where groups come and go, the latter by every claim of a
 * group that has a limit.
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

/*
 * Locks of entries, by their numbers.
 */
#define LOCKS			64

/*
 * Counts of subgroups' entries, by the hashes of their groups: an array of them
 * instead of a count in the group's entry, as the group may have none.
 */
#define CROWDS			4096

/*
 * So many are never refused: or a group whose count is shared with that of
 * another one, or any while the table is almost full, could have none at all.
 */
#define LEAST_CROWD		8

/*
 * The lock guards all but locks[].  When it is free used entries have in_use
 * set, all below high_water, and each is in the chain of its key; crowds[] add
 * up to those of subgroups, and hand is an entry that was used, or 0.
 */
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

/*
 * The memory for pgfairq.max_limits entries and their chains (invariant I10).
 */
Size
limit_table_shmem_size(void)
{
	return fixed_table_size(sizeof(LimitTable), settings_max_limits, sizeof(GroupLimit));
}

/*
 * Set up the table, all of whose entries are free, or find it (found).  Entries
 * are zero, so that one that was never used leads to no queue; whoever makes
 * one sets all of it.
 */
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

/*
 * Entries from here on were never used.  Without the table lock: it only grows,
 * and an entry that is made meanwhile has what who walks over them is after
 * (group_limits_defaults_changed), or is none of the queue's.
 */
uint32
limit_table_high_water(void)
{
	return table->free.high_water;
}

/*
 * The lock of an entry, and of others: for two see limit_lock_levels.  Entries
 * share LOCKS locks, so that the table is small and yet claims of different
 * groups seldom meet at one.  Which lock it is does not depend on what the
 * entry is, so it can be taken for one that may be another group's by then.
 */
LWLock *
limit_table_lock(uint32 number)
{
	return &table->locks[number % LOCKS].lock;
}

/*
 * The limit of a key in its chain, or NO_LIMIT.  Groups of all classes have
 * one, so the class is no part of the key; a subgroup's hashes are seeded with
 * those of its group.  The table lock is held, in either mode.
 */
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

/*
 * The chain of a key has limits in use of that chain, and comes to an end: none
 * leads to itself, nor beyond what was ever used.  The table lock is held.
 */
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

/*
 * A limit whose entry is locked, in either mode, is as it should be:
 * limit_unlock looks at each that it unlocks.  One that is not in use has
 * nothing that is looked at: its counts are as they were left.
 */
void
limit_check(const GroupLimit *limit)
{
	AssertLimitLocked(limit);
	if (!limit->in_use)
		return;
	Assert(limit->queue >= 0 && limit->queue < settings_max_queues);
	Assert(limit->pending >= 0);
	Assert(limit->joining >= 0);
	Assert(limit->references >= 0);
	Assert(limit->leased >= 0);
	Assert(limit->reserved >= 0);
	Assert(limit->parked >= 0);
	Assert(limit->blocked_count >= 0 && limit->blocked_count <= FAIRQ_CLASSES);
	Assert(!limit->awaits_token || limit->blocked_count > 0);
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
 * lock, exclusively (in_all_classes), and the group's partition.
 *
 * Takes the table lock in shared mode, and the entry's under it to attach.
 * Never fails.
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

		limit->references += !limit->announced;
		if (limit->announced)
			number = NO_LIMIT;
		limit_unlock(limit_number(limit));
	}
	LWLockRelease(&table->lock);
	return number;
}

/* ----------------------------------------------------------------
 * What is in force
 * ----------------------------------------------------------------
 */

/*
 * What is in force of a limit, from its own settings and its queue's defaults:
 * none is below zero.  What is below zero is the default, and so is a burst of
 * 0 for its rate, of which a second's worth is kept, one token at least.
 *
 * The entry's lock is held, in either mode.  Defaults are read without theirs;
 * when they change each limit of the queue is looked at once more
 * (group_limits_defaults_changed), so that one who has read the old ones does
 * not have the last word.
 */
void
limit_table_in_force(const GroupLimit *limit, LimitSettings *settings)
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

/*
 * Count the tokens that have come up to now, no more than burst.  settings are
 * what is in force, and have a rate.  The entry's lock is held exclusively.
 *
 * By the wall clock, which may be set: forward it gives a group up to burst at
 * once.  Where it is a second or more behind when tokens were last counted it
 * has been set back, and counting goes on from there; less than that is another
 * backend's reading of the time that came first.
 */
void
limit_table_count_tokens(GroupLimit *limit, const LimitSettings *settings, TimestampTz now)
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
 * which room is reserved, and which have had their tokens; INT_MAX: any number.
 * *limited: each task takes a token.
 *
 * If it waits for a token *token is when that comes, or when it is not crowded
 * any more; else DT_NOEND, and something else lets it go on: a lease that ends,
 * settings that change, or whoever has its classes told (joining).
 *
 * Tokens that have come are counted, so where there is a rate the lock is held
 * exclusively; in any case it is held.
 */
int
limit_table_room(GroupLimit *limit, int reserved, TimestampTz *token, bool *limited)
{
	LimitSettings settings;
	int			result = INT_MAX;

	AssertLimitLocked(limit);
	*token = DT_NOEND;
	limit_table_in_force(limit, &settings);
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

	/*
	 * Where there is no room for want of leases no token is waited for: it
	 * would have the worker look in vain.
	 */
	if (settings.rate > 0 && result > 0)
	{
		TimestampTz now = GetCurrentTimestamp();

		limit_table_count_tokens(limit, &settings, now);
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

/*
 * The count of the subgroups of a group: of all whose hashes are alike.  Too
 * high a count has a group wait that need not; it has LEAST_CROWD all the same.
 */
static uint32 *
crowd_of(int queue, uint64 group_high)
{
	return &table->crowds[(group_high + queue) % CROWDS];
}

/*
 * An entry is in use, or not any more (change is 1 or -1).  Its key is set.
 * The table lock is held exclusively.
 */
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
 * Then there is none for it, if it has none yet.  They may have as many as are
 * left for others, so that a group whose users make up subgroups does not keep
 * other groups from being limited, which would refuse their tasks.
 *
 * As of a moment ago: claims that ask at once may have a few more.  Takes the
 * table lock in shared mode.
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
 * Free an entry if it is in use, and not needed any more.  Returns whether.
 * The table lock is held exclusively; takes the entry's.
 *
 * It is needed while it has settings, a group knows it, or a transaction has
 * announced some; and for what is counted: leased, reserved, what waits.  A
 * group without tasks in flight could have its limit made anew, but with a full
 * bucket: so one whose tokens are not all back stays until they are.  That is
 * found when the clock's hand comes by again.
 */
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

		limit_table_in_force(limit, &settings);
		if (settings.rate > 0)
		{
			limit_table_count_tokens(limit, &settings, GetCurrentTimestamp());
			unneeded = (limit->tokens >= settings.burst);
		}
	}
	/* Out of its chain, which has it, for it is in use: then none finds it. */
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
 * what the group has in flight be overlooked.  An entry that was announced only
 * is for groups to know from then on.  Either way it stays: until that call, or
 * until limit_table_settled.
 *
 * The caller has no partition locked, as it takes those of all groups to make
 * room (limited_groups_make).  Takes the table lock exclusively, and those of
 * entries under it.  Never fails.
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
		limit->pending += announced;
		limit->references += !announced;
		limit->joining += !announced;
		limit_unlock(number);
		LWLockRelease(&table->lock);
		return number;
	}

	/*
	 * Each newcomer looks for two to go, as the hand of a clock goes round: so
	 * there are about as many as groups at work.  Where all have been used it
	 * looks until one is free, but no further than holds the lock up for a
	 * moment; the next one goes on from there.
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
	/* Nothing is counted.  of_queue stays set, for limit_entry_weight. */
	memset((char *) limit + offsetof(GroupLimit, in_use), 0,
		   sizeof(GroupLimit) - offsetof(GroupLimit, in_use));
	limit->in_use = true;
	limit->announced = announced;
	limit->pending = announced;
	limit->joining = !announced;
	limit->references = !announced;
	limit->settings = LIMIT_SETTINGS_NONE;
	for (int class = 0; class < FAIRQ_CLASSES; class++)
		limit->blocked[class] = NOT_BLOCKED;
	/* A bucket that is new is full. */
	limit_table_in_force(limit, &settings);
	limit->tokens = settings.burst;
	limit->token_time = GetCurrentTimestamp();
	count_used(limit, 1);
	limit_unlock(number);

	/*
	 * From here on it is found, by who has the table lock: all of it is set.
	 */
	limit->hash_next = chains[(name->high + queue) & chain_mask];
	chains[(name->high + queue) & chain_mask] = number;
	check_chain(queue, name);
	pg_atomic_fetch_add_u32(&limits->entries, 1);
	LWLockRelease(&table->lock);
	return number;
}

/*
 * A transaction that announced a limit has ended, and if it committed its
 * settings are in force (group_limits_change).  If it was rolled back, or has
 * taken the group's settings away, the entry may not be needed, and is freed
 * unless a group keeps it: the number is not the caller's any more.
 *
 * Takes the table lock exclusively, and the entry's under it, so that pending
 * is counted down and the entry freed before another one can announce it.
 * Never fails: called at the end of transactions.
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
 *
 * For who has read the rows of the settings and looks which are there no more.
 * The array has room for all entries that there have been; it is allocated
 * before the table lock is taken, in shared mode.
 */
int
limit_table_given(int queue, GroupName **names)
{
	uint32		high_water = limit_table_high_water();
	int			n = 0;

	*names = palloc(Max(high_water, 1) * sizeof(GroupName));
	LWLockAcquire(&table->lock, LW_SHARED);
	for (uint32 i = 0; i < high_water; i++)
	{
		GroupLimit *limit = &limit_entries[i];

		if (limit->in_use && limit->given && limit->queue == queue)
			(*names)[n++] = limit_name(limit);
	}
	LWLockRelease(&table->lock);
	return n;
}

/*
 * A group does not know the limit any more, having nothing counted there, or
 * who made it for groups does not keep it: it goes if it is not needed.  Takes
 * the table lock exclusively, and the entry's under it: between the two steps
 * no other backend frees the entry, or finds it.  Never fails.
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
 * Free the limits of a queue that is gone; limit_room.c has forgotten it, and
 * group_forget.c its groups, so that nothing waits.  What is left is there for
 * its settings, or for tokens that are not back.  Called under the directory
 * lock.  Takes the table lock exclusively.  Never fails.
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
		/* It owes no tokens any more, or free_unneeded() would keep it. */
		limit->settings.rate = 0;
		limit_unlock(i);
		(void) free_unneeded(i);
	}
	LWLockRelease(&table->lock);
}
