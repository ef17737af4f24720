/*-------------------------------------------------------------------------
 *
 * group_limits.c
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
 * Parking.  A claim that comes to a task of a group at its limit sets the place
 * aside here and goes on: the task is in the lane's window no more and is passed
 * over once, not by every claim.  As soon as the group may have another task,
 * the first place set aside is offered to its lane again.  The race: the last
 * lease may end between the claim's look and the parking.  So limits_park looks
 * again, under the lock that limits_give holds when it counts, and does not set
 * aside what may be had.
 *
 * A place that is offered may lead to a row that is gone.  Who removes a ready
 * task says so (limits_removed), and the next one is offered; should nobody have
 * said so, limits_tick, which the worker calls each second while anything is
 * set aside, does.  There is room for MAX_PARKED places.  When that is used up,
 * the lowest place that was let go is remembered, and when the group may go on
 * the lanes are read again from there.
 *
 * Settings.  Before a transaction writes what a group is given, it announces that:
 * the entry is made, so that nothing can fail when it has committed, but it is
 * nobody's.  If it is rolled back the entry goes again.
 *
 * Locking: the table lock guards chains and free list.  The lock of an entry
 * (one for some entries) guards the rest; it is taken after the lock of a
 * group's partition, and no other lock is taken with it but that of the free
 * places.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "group_limits.h"
#include "queue_state.h"
#include "settings.h"
#include "shared_state.h"
#include "wakeup.h"

#define LOCKS			64
#define NO_PLACE		PG_UINT32_MAX

/* Places that can be set aside, of all groups. */
#define MAX_PARKED		(2 * settings_max_limits)

/* How often claims look for groups that may go on, in microseconds. */
#define SEEK_USECS		INT64CONST(50000)

/* Places that are offered in one go. */
#define OFFERS			32

typedef struct GroupLimit
{
	/* table lock */
	uint64		low;			/* the group's key, see groups.c */
	uint64		high;
	int			queue;
	uint32		hash_next;		/* or next in the free list */

	/* the entry's lock */
	bool		in_use;			/* table lock, too, to change */
	bool		given;			/* has settings of its own */
	bool		announced;		/* is there for settings only that have not been
								 * committed */
	int			pending;		/* settings of open transactions */
	int			joining;		/* groups are about to be told: nothing is taken
								 * until what they have in flight is counted */
	bool		dropped;		/* places were let go: from dropped_from on */
	int			references;		/* groups that know it: its classes */
	int			leased;
	LimitSettings settings;
	double		tokens;
	TimestampTz token_time;		/* tokens are counted up to then */
	uint32		first;			/* places set aside, in order */
	uint32		last;
	int			parked;
	int			dropped_class;
	LaneEntry	dropped_from;
} GroupLimit;

typedef struct ParkedPlace
{
	LaneEntry	entry;
	Lane	   *lane;
	uint32		next;
} ParkedPlace;

typedef struct LimitTable
{
	LWLock		lock;
	uint32		free_head;
	uint32		high_water;
	uint32		hand;			/* of the clock that finds entries not needed */
	slock_t		place_mutex;	/* guards the next two */
	uint32		free_place;
	uint32		places_used;	/* those from here on never were */
	LWLockPadded locks[LOCKS];
} LimitTable;

static LimitTable *table = NULL;
static uint32 *chains = NULL;
static GroupLimit *entries = NULL;
static ParkedPlace *places = NULL;
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
	return add_size(size, mul_size(MAX_PARKED, sizeof(ParkedPlace)));
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
	places = (ParkedPlace *) p;
	chain_mask = chains_wanted() - 1;
	if (found)
		return;

	LWLockInitialize(&table->lock, shared_state_tranche(FAIRQ_TRANCHE_LIMIT));
	table->free_head = NO_LIMIT;
	table->high_water = 0;
	table->hand = 0;
	SpinLockInit(&table->place_mutex);
	table->free_place = NO_PLACE;
	table->places_used = 0;
	for (int i = 0; i < LOCKS; i++)
		LWLockInitialize(&table->locks[i].lock,
						 shared_state_tranche(FAIRQ_TRANCHE_LIMIT));
	memset(chains, 0xFF, mul_size(chains_wanted(), sizeof(uint32)));
}

void
limits_init_queue(QueueLimits *limits)
{
	static const LimitSettings none = {1.0, 0, 0, 0, false};

	limits->defaults = none;
	limits->known = false;
	limits->prepared = false;
	pg_atomic_init_u32(&limits->changes, 0);
	pg_atomic_init_u32(&limits->entries, 0);
	pg_atomic_init_u32(&limits->strangers, 0);
	pg_atomic_init_u32(&limits->waiting, 0);
	pg_atomic_init_u64(&limits->next_token, (uint64) DT_NOEND);
	pg_atomic_init_u64(&limits->sought, 0);
}

static inline LWLock *
entry_lock(uint32 number)
{
	return &table->locks[number % LOCKS].lock;
}

static inline QueueLimits *
limits_of(const GroupLimit *limit)
{
	return &queue_state_by_number(limit->queue)->limits;
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
	limit->tokens = Min(limit->tokens, settings->burst);
}

/*
 * How many tasks more the group may have in flight now.  If it waits for a token,
 * *token is when that comes.
 */
static int
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

static void
note_token(GroupLimit *limit, TimestampTz token)
{
	QueueLimits *limits = limits_of(limit);
	uint64		next = pg_atomic_read_u64(&limits->next_token);

	while (token < (TimestampTz) next &&
		   !pg_atomic_compare_exchange_u64(&limits->next_token, &next, (uint64) token))
		;
}

/* ----------------------------------------------------------------
 * Places set aside
 * ----------------------------------------------------------------
 */

static uint32
new_place(void)
{
	uint32		number;

	SpinLockAcquire(&table->place_mutex);
	number = table->free_place;
	if (number != NO_PLACE)
		table->free_place = places[number].next;
	else if (table->places_used < (uint32) MAX_PARKED)
		number = table->places_used++;
	SpinLockRelease(&table->place_mutex);
	return number;
}

static void
free_place(uint32 number)
{
	SpinLockAcquire(&table->place_mutex);
	places[number].next = table->free_place;
	table->free_place = number;
	SpinLockRelease(&table->place_mutex);
}

static void
set_waiting(GroupLimit *limit, bool was)
{
	bool		is = (limit->parked > 0 || limit->dropped);

	if (is && !was)
		pg_atomic_fetch_add_u32(&limits_of(limit)->waiting, 1);
	else if (was && !is)
		pg_atomic_fetch_sub_u32(&limits_of(limit)->waiting, 1);
}

/* Does a place come after another, across lanes? */
static inline bool
place_after(const Lane *lane, const LaneEntry *entry, const ParkedPlace *other)
{
	if (lane->class != other->lane->class)
		return lane->class > other->lane->class;
	return lanes_compare(entry, &other->entry) > 0;
}

/*
 * Set a place aside.  Entry locked.
 *
 * Mostly places come in order, or one comes back that is the first.
 */
static void
insert_place(GroupLimit *limit, Lane *lane, const LaneEntry *entry)
{
	bool		was = (limit->parked > 0 || limit->dropped);
	uint32	   *link = &limit->first;
	uint32		number;

	if (limit->parked > 0 && place_after(lane, entry, &places[limit->last]))
		link = &places[limit->last].next;
	else
	{
		while (*link != NO_PLACE && place_after(lane, entry, &places[*link]))
			link = &places[*link].next;

		/* A lane that was read again leads to the same rows. */
		if (*link != NO_PLACE && places[*link].lane == lane &&
			lanes_compare(&places[*link].entry, entry) == 0)
			return;
	}
	number = new_place();

	if (number == NO_PLACE)
	{
		if (!limit->dropped || lane->class < limit->dropped_class ||
			(lane->class == limit->dropped_class &&
			 lanes_compare(entry, &limit->dropped_from) < 0))
		{
			limit->dropped_from = *entry;
			limit->dropped_class = lane->class;
		}
		limit->dropped = true;
		set_waiting(limit, was);
		return;
	}
	places[number].entry = *entry;
	places[number].lane = lane;
	places[number].next = *link;
	*link = number;
	if (places[number].next == NO_PLACE)
		limit->last = number;
	limit->parked++;
	set_waiting(limit, was);
}

/*
 * Offer to their lanes as many places as the group may have tasks, the first
 * ones, up to max.  Called without locks, but for that of a group's partition.
 *
 * There are to be as many of its places in the lanes as it may have tasks, if it
 * has so many.  A task that is claimed is one less of both; a lease that ends is
 * one more that it may have, so one place is offered.  What is too much comes
 * back when it is met with the group at its limit.  Returns how many were offered.
 */
static int
go_on(uint32 number, int max)
{
	int			offered = 0;
	GroupLimit *limit = &entries[number];
	LWLock	   *lock = entry_lock(number);
	bool		more = true;

	while (more)
	{
		ParkedPlace offers[OFFERS];
		int			n = 0;
		int			may;
		LimitSettings settings;
		TimestampTz token;
		bool		was;
		LaneEntry	dropped_from;
		int			dropped_class = -1;
		QueueState *queue = queue_state_by_number(limit->queue);

		LWLockAcquire(lock, LW_EXCLUSIVE);
		was = (limit->parked > 0 || limit->dropped);
		if (!limit->in_use || !was)
		{
			LWLockRelease(lock);
			return offered;
		}
		may = room(limit, &settings, &token);
		if (may == 0)
			note_token(limit, token);
		may = Min(may, max);
		while (limit->parked > 0 && n < may && n < OFFERS)
		{
			uint32		first = limit->first;

			offers[n++] = places[first];
			limit->first = places[first].next;
			limit->parked--;
			free_place(first);
		}
		max -= n;
		offered += n;
		more = (n == OFFERS);
		if (limit->parked == 0 && limit->dropped && may > n)
		{
			limit->dropped = false;
			dropped_from = limit->dropped_from;
			dropped_class = limit->dropped_class;
		}
		set_waiting(limit, was);
		LWLockRelease(lock);

		for (int i = 0; i < n; i++)
		{
			FairqAddress address;

			lanes_entry_address(offers[i].lane, &offers[i].entry, &address);
			lanes_offer(offers[i].lane, &address, &offers[i].entry.tid);
		}

		/* Of the classes behind it is not known where they have to be read. */
		for (int class = dropped_class; class >= 0 && class < queue->classes; class++)
		{
			Lane	   *lane;

			for (int b = 0; (lane = lanes_next(&queue->orders[class].lanes, &b)) != NULL; b++)
			{
				FairqAddress address;

				lanes_entry_address(lane, &dropped_from, &address);
				lanes_lower(lane, class == dropped_class ? &address : NULL);
			}
		}
	}
	return offered;
}

/* Let go of all places.  Entry locked. */
static void
clear_places(GroupLimit *limit)
{
	bool		was = (limit->parked > 0 || limit->dropped);

	while (limit->first != NO_PLACE)
	{
		uint32		next = places[limit->first].next;

		free_place(limit->first);
		limit->first = next;
	}
	limit->last = NO_PLACE;
	limit->parked = 0;
	limit->dropped = false;
	set_waiting(limit, was);
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
		limit->pending == 0 && limit->leased == 0 && limit->parked == 0 && !limit->dropped;
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
	limit->dropped = false;
	limit->references = !announced;
	limit->leased = 0;
	limit->settings = none;
	limit->first = limit->last = NO_PLACE;
	limit->parked = 0;
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
	(void) go_on(number, INT_MAX);
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
	(void) go_on(number, INT_MAX);
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
	needed = limit->given || limit->parked > 0 || limit->dropped;
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
 * Is anything of the group set aside?
 */
bool
limits_waits(uint32 number)
{
	bool		result;

	LWLockAcquire(entry_lock(number), LW_SHARED);
	result = (entries[number].parked > 0 || entries[number].dropped);
	LWLockRelease(entry_lock(number));
	return result;
}

/* ----------------------------------------------------------------
 * Claims
 * ----------------------------------------------------------------
 */

/*
 * A task of the group is going to be leased, if it may.
 */
LimitAnswer
limits_take(uint32 number)
{
	GroupLimit *limit = &entries[number];
	LimitSettings settings;
	TimestampTz token;
	bool		may;
	Oid			database = InvalidOid;

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	may = (room(limit, &settings, &token) > 0);
	if (may)
	{
		limit->leased++;
		if (settings.rate > 0)
			limit->tokens -= 1;

		/* Was it the last one, for now?  Others wait for the next. */
		if (settings.rate > 0 && (limit->parked > 0 || limit->dropped) &&
			room(limit, &settings, &token) == 0 && token != DT_NOEND)
		{
			note_token(limit, token);
			database = queue_state_by_number(limit->queue)->database;
		}
	}
	LWLockRelease(entry_lock(number));
	if (OidIsValid(database))
		wakeup_at(database, token);
	return may ? LIMIT_OK : LIMIT_REACHED;
}

/*
 * A lease of the group has ended, or unused: was not granted after all.
 */
void
limits_give(uint32 number, bool unused)
{
	GroupLimit *limit = &entries[number];

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	limit->leased--;
	if (unused)
		limit->tokens += 1;
	LWLockRelease(entry_lock(number));
	(void) go_on(number, 1);
}

/*
 * A ready task of the group was removed: its place is let go, if it is set aside.
 * If it was in a lane already the next one is offered.
 */
void
limits_removed(uint32 number, const FairqAddress *address)
{
	GroupLimit *limit = &entries[number];
	uint32	   *link = &limit->first;
	uint32		previous = NO_PLACE;
	bool		was;

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	was = (limit->parked > 0 || limit->dropped);
	while (*link != NO_PLACE)
	{
		uint32		place = *link;
		FairqAddress other;

		lanes_entry_address(places[place].lane, &places[place].entry, &other);
		if (address_compare(&other, address) == 0)
		{
			*link = places[place].next;
			if (limit->last == place)
				limit->last = previous;
			limit->parked--;
			free_place(place);
		}
		else
		{
			previous = place;
			link = &places[place].next;
		}
	}
	set_waiting(limit, was);
	LWLockRelease(entry_lock(number));
	(void) go_on(number, 1);
}

/*
 * The group's ready tasks were removed, or most of them.  What is set aside is of
 * no use; should some be left, the lanes are read again from the first place on.
 */
void
limits_purged(uint32 number)
{
	GroupLimit *limit = &entries[number];
	ParkedPlace first;

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	if (limit->parked > 0)
	{
		bool		was_dropped = limit->dropped;

		first = places[limit->first];
		clear_places(limit);
		if (!was_dropped || first.lane->class < limit->dropped_class ||
			(first.lane->class == limit->dropped_class &&
			 lanes_compare(&first.entry, &limit->dropped_from) < 0))
		{
			limit->dropped_class = first.lane->class;
			limit->dropped_from = first.entry;
		}
		limit->dropped = true;
		set_waiting(limit, false);
	}
	LWLockRelease(entry_lock(number));
	(void) go_on(number, INT_MAX);
}

static bool
set_aside(uint32 number, Lane *lane, const LaneEntry *entry, bool if_none)
{
	GroupLimit *limit = &entries[number];
	LimitSettings settings;
	TimestampTz token;
	bool		may;
	Oid			database = InvalidOid;

	LWLockAcquire(entry_lock(number), LW_EXCLUSIVE);
	may = (room(limit, &settings, &token) > 0);
	if (!may)
	{
		if (!if_none || (limit->parked == 0 && !limit->dropped))
			insert_place(limit, lane, entry);
		if (token != DT_NOEND)
		{
			note_token(limit, token);
			database = queue_state_by_number(limit->queue)->database;
		}
	}
	LWLockRelease(entry_lock(number));
	if (OidIsValid(database))
		wakeup_at(database, token);
	return !may;
}

/*
 * Set a place of the group aside.  Returns false if the group may have the task
 * by now.
 */
bool
limits_park(uint32 number, Lane *lane, const LaneEntry *entry)
{
	return set_aside(number, lane, entry, false);
}

/*
 * The same for who reads the index and takes nothing out of lanes: a place is set
 * aside if none of the group is, so that the group goes on with an offer and who
 * waits for it is told.
 */
bool
limits_note(uint32 number, Lane *lane, const LaneEntry *entry)
{
	return set_aside(number, lane, entry, true);
}

/*
 * Let the groups of a queue go on that may.  Returns when to look again, and sets
 * *offers (if it is not NULL) to how many places were offered.
 */
TimestampTz
limits_tick(int queue, QueueLimits *limits, TimestampTz now, int *offers)
{
	int			offered = 0;

	if (offers != NULL)
		*offers = 0;
	if (pg_atomic_read_u32(&limits->waiting) == 0)
		return DT_NOEND;
	pg_atomic_write_u64(&limits->next_token, (uint64) DT_NOEND);
	for (uint32 i = 0; i < table->high_water; i++)
	{
		volatile GroupLimit *limit = &entries[i];

		if (!limit->in_use || limit->queue != queue ||
			(limit->parked == 0 && !limit->dropped))
			continue;
		/* Those with tokens again, or should an offer have gone astray. */
		offered += go_on(i, INT_MAX);
	}
	if (offers != NULL)
		*offers = offered;
	return Min((TimestampTz) pg_atomic_read_u64(&limits->next_token),
			   now + USECS_PER_SEC);
}

/*
 * The same for a claim that has come up short, if that has not been done for a
 * while.  Returns whether it was.
 */
bool
limits_seek(int queue, QueueLimits *limits, TimestampTz now)
{
	uint64		sought;

	if (pg_atomic_read_u32(&limits->waiting) == 0)
		return false;
	sought = pg_atomic_read_u64(&limits->sought);
	if (now < (TimestampTz) sought + SEEK_USECS ||
		!pg_atomic_compare_exchange_u64(&limits->sought, &sought, (uint64) now))
		return false;
	(void) limits_tick(queue, limits, now, NULL);
	return true;
}

/*
 * The lanes of a queue are read anew: what is set aside will be found again.
 */
void
limits_forget_parked(int queue)
{
	for (uint32 i = 0; i < table->high_water; i++)
	{
		if (!entries[i].in_use || entries[i].queue != queue)
			continue;
		LWLockAcquire(entry_lock(i), LW_EXCLUSIVE);
		clear_places(&entries[i]);
		LWLockRelease(entry_lock(i));
	}
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
		clear_places(limit);
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
