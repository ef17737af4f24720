/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Groups: the tags that share a queue fairly between them.
 *
 * Start-time fair queueing (see virtual_time.h) needs one number a group: F,
 * the finish tag of its last task.  It is kept here, for each group, queue and
 * priority class, together with the group's slot, the tie-break between groups
 * of one start tag.  So a producer gets a task's address without a row lock
 * and without waiting for any other transaction (invariant I6).
 *
 * A group whose F is not beyond virtual time carries no information: its next
 * task gets the start tag v whether it is known or not.  It is forgotten when
 * its entry is wanted.  Its slot may then be another group's at once, without
 * two tasks ever having the same address: all start tags the old one gave out
 * are below its F, so below v, and all that the new one gives out are not.
 *
 * A group's key is known by 128 bits of hash, with a seed that is new at each
 * start of the server.  Should two keys ever collide (one in 10^26 with a
 * million groups) they would share one place in the fair order, no more.
 *
 * Entries are found through chains of a hash table, in partitions with a lock
 * each, and each order (class of a queue) links its groups in a ring.  A new
 * group first looks at the next two of the ring and takes over the entry of
 * one that can be forgotten, slot and all: so there are never more than about
 * twice as many entries as there are groups with work.
 *
 * Overflow.  A group that has more than max_ready_per_group tasks ready, or one
 * that comes when max_ready are, has its next tasks put into the overflow: rows
 * without an address.  While it has any there, committed or not, all its new
 * ones go there, so that they stay in order; also while tasks of its overflow may
 * be ready whose places are in memory only: these may get lost, and must not come
 * behind new ones then.  When some of its room is free the group is hungry: it comes
 * to the end of the queue's list of hungry groups, which the background worker
 * feeds in turn (promote.c), from the lowest id on that may be there, overflow_from.
 *
 * Both counts of a group, ready and overflow, are hints: rows may be written with
 * SQL, and transactions may be prepared.  That a group has nothing in the overflow
 * is believed only of who has read to the end of it.  So as long as overflow_from
 * says that there may be something, the group is fed when there is room, or when
 * the count is at zero: what is there is found then, or overflow_from goes away.
 * And a group is taken to have nothing ready when virtual time has reached its F
 * or nothing is ready at all.
 *
 * Locking: the lock of the partition guards its chains and the entries in
 * them.  The creation lock guards rings, free list and slot counters, and
 * is taken before a partition's.  A queue's hungry_mutex is taken after.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "groups.h"
#include "group_limits.h"
#include "settings.h"
#include "shared_state.h"
#include "wakeup.h"

#define PARTITIONS		256

/* Before all tags. */
static const VirtualTime v_none = {PG_INT64_MIN, 0};

/*
 * A group is fed when this many of its tasks may be moved, or a quarter of what
 * it may have ready; so tasks are moved some at a time, and the group is far from
 * running dry.  Likewise the queue as a whole: but an eighth, as who waits for its
 * room may be new.
 *
 * And not before half of what the lanes have room for is gone, shared between the
 * groups with overflow, but FEED_LEAST at least: what is more has to be written.
 */
#define FEED_AT_ONCE	500
#define FEED_LEAST		16
#define FEED_QUEUE_AT_ONCE	100

/* How often claims that can do without look for entries, in microseconds. */
#define RECLAIM_USECS	INT64CONST(100000)

typedef struct GroupKey
{
	uint64		low;
	uint64		high;
	uint16		queue;
	uint8		class;
} GroupKey;

typedef enum GroupHunger
{
	NOT_HUNGRY,
	HUNGRY,						/* in the list */
	BEING_FED
} GroupHunger;

typedef struct FairGroup
{
	/* partition's lock */
	GroupKey	key;
	VirtualTime finish;			/* F */
	int32		ready;			/* tasks with an address that nobody has: a hint */
	int32		leased;			/* tasks in flight */
	int32		pending;		/* tasks put into the overflow, not committed yet */
	int32		overflow;		/* tasks in the overflow: not fewer than there are */
	int64		overflow_from;	/* they have this id, or a higher one; PG_INT64_MAX:
								 * there are none */
	int64		overflow_limit; /* what came while it was fed is from here on */
	int64		overflow_held;	/* some from here on were in somebody's hands */
	VirtualTime offered_finish; /* F when the last of them got it, or later */
	uint32		hungry_next;
	uint8		hunger;			/* a GroupHunger */
	uint32		limit;			/* group_limits.c's number, or NO_LIMIT */
	uint64		served;			/* tasks leased */
	double		served_cost;	/* what they were charged */
	int64		run_time;		/* of tasks that were worked on, microseconds */
	double		seconds;		/* what a task takes, by those of late; < 0: none */
	TimestampTz head_time;		/* the first of the ready tasks came then, or later */
	int			keylen;
	char		text[GROUP_KEY_SHOWN];	/* the key, or its beginning */
	uint32		hash_next;

	/* creation lock */
	uint32		ring_next;		/* or next in the free list */

	/* both to change */
	uint64		slot;
	bool		in_use;
} FairGroup;

typedef struct GroupTable
{
	LWLock		creation_lock;
	uint32		free_head;
	uint32		high_water;
	uint64		seed;
	pg_atomic_uint64 vain_reclaim;	/* when all groups were looked at in vain */
	LWLockPadded partitions[PARTITIONS];
} GroupTable;

static GroupTable *table = NULL;
static uint32 *chains = NULL;
static FairGroup *groups = NULL;
static uint32 chain_mask;

#define TABLE_SIZE	CACHELINEALIGN(sizeof(GroupTable))

static uint32
chains_wanted(void)
{
	return pg_nextpower2_32(Max(settings_max_groups, PARTITIONS));
}

Size
groups_shmem_size(void)
{
	Size		size = TABLE_SIZE;

	size = add_size(size, CACHELINEALIGN(mul_size(chains_wanted(), sizeof(uint32))));
	return add_size(size, mul_size(settings_max_groups, sizeof(FairGroup)));
}

void
groups_shmem_init(void *area, bool found)
{
	char	   *p = area;

	table = (GroupTable *) p;
	p += TABLE_SIZE;
	chains = (uint32 *) p;
	p += CACHELINEALIGN(mul_size(chains_wanted(), sizeof(uint32)));
	groups = (FairGroup *) p;
	chain_mask = chains_wanted() - 1;
	if (found)
		return;

	LWLockInitialize(&table->creation_lock,
					 shared_state_tranche(FAIRQ_TRANCHE_GROUP));
	table->free_head = FAIRQ_NO_GROUP;
	table->high_water = 0;
	pg_atomic_init_u64(&table->vain_reclaim, 0);
	if (!pg_strong_random(&table->seed, sizeof(table->seed)))
		table->seed = (uint64) GetCurrentTimestamp() * UINT64CONST(0x9E3779B97F4A7C15);
	for (int i = 0; i < PARTITIONS; i++)
		LWLockInitialize(&table->partitions[i].lock,
						 shared_state_tranche(FAIRQ_TRANCHE_GROUP));
	memset(chains, 0xFF, mul_size(chains_wanted(), sizeof(uint32)));
}

static void
make_key(QueueState *queue, int class, const char *key, int keylen,
		 GroupKey *result)
{
	/* What hashtextextended(key, 0) is in SQL: the overflow is found by it. */
	result->low = hash_bytes_extended((const unsigned char *) key, keylen, 0);
	result->high = hash_bytes_extended((const unsigned char *) key, keylen,
									   table->seed);
	result->queue = queue_state_number(queue);
	result->class = class;
}

static inline uint32
key_hash(const GroupKey *key)
{
	return hash_combine((uint32) key->high, key->queue * FAIRQ_CLASSES + key->class);
}

static inline LWLock *
partition_lock(uint32 hash)
{
	return &table->partitions[hash % PARTITIONS].lock;
}

static inline bool
key_equal(const GroupKey *a, const GroupKey *b)
{
	return a->low == b->low && a->high == b->high &&
		a->queue == b->queue && a->class == b->class;
}

static FairGroup *
search_chain(uint32 hash, const GroupKey *key)
{
	uint32		number = chains[hash & chain_mask];

	while (number != FAIRQ_NO_GROUP)
	{
		if (key_equal(&groups[number].key, key))
			return &groups[number];
		number = groups[number].hash_next;
	}
	return NULL;
}

/*
 * Count ready tasks, of the group and of the queue.  Partition locked.
 */
static void
count_ready(QueueState *queue, FairGroup *group, int n)
{
	n = Max(n, -group->ready);
	group->ready += n;
	if (n != 0)
		pg_atomic_fetch_add_u64(&queue->ready, (int64) n);
}

/*
 * Set how many tasks of a group are in the overflow.  Partition locked.
 *
 * With the first one the worker is woken, though there may be no room: it looks
 * now and then, from then on, whether there is and nobody noticed.
 */
static void
set_overflow(QueueState *queue, FairGroup *group, int n)
{
	if (n > 0 && group->overflow == 0 &&
		pg_atomic_fetch_add_u32(&queue->overflowing, 1) == 0)
		wakeup_at(queue->database, 0);
	else if (n == 0 && group->overflow > 0)
		pg_atomic_fetch_sub_u32(&queue->overflowing, 1);
	group->overflow = n;
}

/*
 * Take a group out of its chain, if it can be forgotten at virtual time v.
 * Creation lock held.
 */
static bool
unlink_if_idle(FairGroup *group, VirtualTime v)
{
	uint32		hash = key_hash(&group->key);
	LWLock	   *lock = partition_lock(hash);
	bool		idle;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	idle = virtual_time_compare(group->finish, v) <= 0 &&
		group->leased == 0 && group->pending == 0 && group->overflow == 0 &&
		group->hunger == NOT_HUNGRY &&
		(group->limit == NO_LIMIT || !limits_waits(group->limit));
	if (idle)
	{
		uint32	   *link = &chains[hash & chain_mask];

		while (&groups[*link] != group)
			link = &groups[*link].hash_next;
		*link = group->hash_next;
		count_ready(queue_state_by_number(group->key.queue), group, -group->ready);
		if (group->limit != NO_LIMIT)
			limits_detach(group->limit);
		group->in_use = false;
	}
	LWLockRelease(lock);
	return idle;
}

/*
 * An entry for a new group of an order, in its ring and with a slot; NULL if
 * all are taken.  Creation lock held.
 */
static FairGroup *
new_entry(QueueOrder *order, VirtualTime v)
{
	FairGroup	   *group;

	for (int i = 0; i < 2 && order->group_ring != FAIRQ_NO_GROUP; i++)
	{
		group = &groups[order->group_ring];
		order->group_ring = group->ring_next;
		if (unlink_if_idle(group, v))
			return group;
	}

	if (table->free_head != FAIRQ_NO_GROUP)
	{
		group = &groups[table->free_head];
		table->free_head = group->ring_next;
	}
	else if (table->high_water < (uint32) settings_max_groups)
		group = &groups[table->high_water++];
	else
		return NULL;

	group->slot = order->next_slot++;
	if (order->group_ring == FAIRQ_NO_GROUP)
		group->ring_next = group - groups;
	else
	{
		group->ring_next = groups[order->group_ring].ring_next;
		groups[order->group_ring].ring_next = group - groups;
	}
	order->group_ring = group - groups;
	return group;
}

/*
 * Free the entries of all groups of an order that can be forgotten.  Returns
 * how many.
 *
 * If nothing is ready it ends the busy period first, at the highest F: groups
 * whose tasks were cancelled or purged were never served as far as they got.
 */
int
groups_reclaim(QueueState *queue, int class, bool nothing_ready)
{
	QueueOrder *order = &queue->orders[class];
	VirtualTime v = queue_state_virtual_time(order);
	uint32		previous;
	uint32		last;
	int			freed = 0;

	LWLockAcquire(&table->creation_lock, LW_EXCLUSIVE);
	if (nothing_ready && order->group_ring != FAIRQ_NO_GROUP)
	{
		uint32		number = order->group_ring;

		do
		{
			v = virtual_time_max(v, groups[number].finish);
			number = groups[number].ring_next;
		} while (number != order->group_ring);
		queue_state_advance(order, v, v);
	}
	last = previous = order->group_ring;
	while (previous != FAIRQ_NO_GROUP)
	{
		uint32		number = groups[previous].ring_next;

		if (unlink_if_idle(&groups[number], v))
		{
			groups[previous].ring_next = groups[number].ring_next;
			groups[number].ring_next = table->free_head;
			table->free_head = number;
			freed++;
			if (number == previous)
				order->group_ring = previous = FAIRQ_NO_GROUP;
			else if (number == last)
			{
				order->group_ring = previous;
				break;
			}
		}
		else
		{
			previous = number;
			if (number == last)
				break;
		}
	}
	LWLockRelease(&table->creation_lock);
	return freed;
}

/*
 * A group is told its limit.  Partition locked.
 */
static void
set_limit(FairGroup *group, uint32 limit)
{
	if (limit == NO_LIMIT || group->limit != NO_LIMIT)
		return;
	group->limit = limit;
	limits_attach(limit, group->leased);
}

/*
 * The weight of a group.  Partition locked.
 */
static inline double
weight_of(QueueState *queue, const FairGroup *group)
{
	return group->limit == NO_LIMIT ? queue->limits.defaults.weight :
		limits_weight(group->limit);
}

/*
 * What a task is charged: its cost, or what tasks of its group have taken of
 * late.  Partition locked.
 */
static inline double
charge_of(QueueState *queue, const FairGroup *group, double cost)
{
	if (!queue->charge_seconds || group->seconds < 0)
		return cost;
	return Min(Max(group->seconds, FAIRQ_MIN_COST), FAIRQ_MAX_COST);
}

/*
 * Free entries of groups that can be forgotten.  Returns whether there were any.
 * In a hurry that is not looked at again soon after it was in vain: it takes a look
 * at each group.
 */
static bool
reclaim(bool hurry)
{
	TimestampTz now = GetCurrentTimestamp();

	if (hurry &&
		now < (TimestampTz) pg_atomic_read_u64(&table->vain_reclaim) + RECLAIM_USECS)
		return false;
	if (queue_state_reclaim_groups() > 0)
		return true;
	pg_atomic_write_u64(&table->vain_reclaim, (uint64) now);
	return false;
}

/*
 * Find a group, made if there is none; returns with its partition locked.  NULL,
 * and nothing locked, if there is no entry to be had.  hurry: it can be done without.
 */
static FairGroup *
try_lock_group(QueueState *queue, const GroupKey *key, const char *text, int keylen,
			   VirtualTime v, bool hurry)
{
	uint32		hash = key_hash(key);
	LWLock	   *lock = partition_lock(hash);
	bool		reclaimed = false;

	for (;;)
	{
		FairGroup	   *group;

		LWLockAcquire(lock, LW_EXCLUSIVE);
		group = search_chain(hash, key);
		if (group != NULL)
			return group;
		LWLockRelease(lock);

		LWLockAcquire(&table->creation_lock, LW_EXCLUSIVE);

		/* Under the creation lock nobody else can make it: look once more. */
		LWLockAcquire(lock, LW_SHARED);
		group = search_chain(hash, key);
		LWLockRelease(lock);
		if (group == NULL)
		{
			group = new_entry(&queue->orders[key->class], v);
			if (group != NULL)
			{
				LWLockAcquire(lock, LW_EXCLUSIVE);
				group->key = *key;
				group->finish = v;
				group->ready = 0;
				group->leased = 0;
				group->pending = 0;
				group->overflow = 0;
				group->overflow_from = PG_INT64_MAX;
				group->overflow_limit = PG_INT64_MAX;
				group->overflow_held = PG_INT64_MAX;
				group->offered_finish = v_none;
				group->hunger = NOT_HUNGRY;
				group->limit = NO_LIMIT;
				group->served = 0;
				group->served_cost = 0;
				group->run_time = 0;
				group->seconds = -1;
				group->head_time = 0;
				group->keylen = keylen;
				memcpy(group->text, text, Min(keylen, GROUP_KEY_SHOWN));
				group->in_use = true;
				if (pg_atomic_read_u32(&queue->limits.entries) > 0)
					group->limit = limits_find_attach(key->queue, key->low, key->high);
				group->hash_next = chains[hash & chain_mask];
				chains[hash & chain_mask] = group - groups;
				LWLockRelease(&table->creation_lock);
				return group;
			}
		}
		LWLockRelease(&table->creation_lock);

		if (group == NULL && (reclaimed || !reclaim(hurry)))
			return NULL;
		reclaimed |= (group == NULL);
	}
}

static void
no_entry(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("cannot have more than %d groups with work at a time",
					settings_max_groups),
			 errhint("Raise the setting \"%s\" and restart the server, or try again when tasks have been claimed.",
					 "pgfairq.max_groups")));
}

/*
 * The same; an error if there is none.
 */
static FairGroup *
lock_group(QueueState *queue, const GroupKey *key, const char *text, int keylen,
		   VirtualTime v)
{
	FairGroup  *group = try_lock_group(queue, key, text, keylen, v, false);

	if (group == NULL)
		no_entry();
	return group;
}

/*
 * Enter a group into the list of the hungry.  Partition locked.
 */
static void
list_hungry(QueueState *queue, FairGroup *group)
{
	uint32		number = group - groups;

	group->hunger = HUNGRY;
	group->hungry_next = FAIRQ_NO_GROUP;
	SpinLockAcquire(&queue->hungry_mutex);
	if (queue->hungry_first == FAIRQ_NO_GROUP)
		queue->hungry_first = number;
	else
		groups[queue->hungry_last].hungry_next = number;
	queue->hungry_last = number;
	queue->hungry_count++;
	SpinLockRelease(&queue->hungry_mutex);
}

/*
 * How many tasks of a group are ready when it has been fed, at most.
 */
static int64
ready_when_fed(QueueState *queue, int class)
{
	int64		room = queue->orders[class].lanes.high * (LANE_WINDOW / 2) * 3 / 4;

	room /= Max(pg_atomic_read_u32(&queue->overflowing), 1);
	return Min(Max(room, FEED_LEAST), queue->max_ready_per_group);
}

/*
 * Is a group to be fed?  Partition locked.
 */
static inline bool
is_hungry(QueueState *queue, FairGroup *group)
{
	int64		max = queue->max_ready_per_group;
	int64		fed;

	if (likely(group->overflow_from == PG_INT64_MAX) || group->hunger != NOT_HUNGRY)
		return false;
	fed = ready_when_fed(queue, group->key.class);
	return group->overflow == 0 ||
		(group->ready <= max - Max(Min(max / 4, FEED_AT_ONCE), 1) &&
		 (fed == max || group->ready <= fed / 2));
}

/*
 * If it is, enter it into the list; and wake the worker.  Partition locked.
 */
static inline void
check_hungry(QueueState *queue, FairGroup *group)
{
	if (is_hungry(queue, group))
		list_hungry(queue, group);
	groups_wake_feeder(queue);
}

/*
 * Wake the worker if there are hungry groups, and room in the queue.  Never fails:
 * called at the end of transactions.
 */
void
groups_wake_feeder(QueueState *queue)
{
	int64		room;

	if (likely(((volatile QueueState *) queue)->hungry_count == 0))
		return;
	room = queue->max_ready - queue_state_ready(queue);
	if (room > 0 && room >= Min(queue->max_ready / 8, FEED_QUEUE_AT_ONCE))
		wakeup_at(queue->database, 0);
}

/*
 * Give a task of a group its tags: S = max(v, F), F = S + cost / weight.
 *
 * Returns false if the task has to wait in the overflow, if it may; then
 * tag->group is its group, which is not forgotten until groups_overflow_ends.
 */
bool
groups_tag(QueueState *queue, int class, const char *key, int keylen,
		   VirtualTime v, double cost, bool may_overflow, GroupTag *tag)
{
	GroupKey	group_key;
	FairGroup	   *group;
	bool		overflow;

	make_key(queue, class, key, keylen, &group_key);
	group = lock_group(queue, &group_key, key, keylen,
					   v);
	tag->group = group - groups;
	overflow = may_overflow &&
		(group->overflow > 0 || group->pending > 0 ||
		 virtual_time_compare(v, group->offered_finish) < 0 ||
		 group->ready >= queue->max_ready_per_group ||
		 queue_state_ready(queue) >= queue->max_ready);
	if (overflow)
		group->pending++;
	else
	{
		tag->start = virtual_time_max(v, group->finish);
		tag->finish = virtual_time_add(tag->start,
									   charge_of(queue, group, cost),
									   weight_of(queue, group));
		tag->slot = group->slot;
		group->finish = tag->finish;
		if (group->ready == 0)
			group->head_time = GetCurrentTimestamp();
		count_ready(queue, group, 1);
	}
	LWLockRelease(partition_lock(key_hash(&group_key)));
	return !overflow;
}

/*
 * Lock the partition of a group that cannot be forgotten now.
 */
static LWLock *
lock_number(uint32 number)
{
	LWLock	   *lock = partition_lock(key_hash(&groups[number].key));

	Assert(groups[number].in_use);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	return lock;
}

/*
 * There is no room for limits: groups without tasks in flight do without theirs,
 * if that is their queue's default.  No partition is locked.
 */
static void
let_go_of_limits(void)
{
	LWLockAcquire(&table->creation_lock, LW_SHARED);
	for (uint32 i = 0; i < table->high_water; i++)
	{
		FairGroup  *group = &groups[i];
		LWLock	   *lock;

		/* Without its lock first: most have none. */
		if (!group->in_use ||
			((volatile FairGroup *) group)->limit == NO_LIMIT ||
			((volatile FairGroup *) group)->leased > 0)
			continue;
		lock = lock_number(i);
		if (group->limit != NO_LIMIT && group->leased == 0 &&
			!limits_needed(group->limit))
		{
			limits_detach(group->limit);
			group->limit = NO_LIMIT;
		}
		LWLockRelease(lock);
	}
	LWLockRelease(&table->creation_lock);
}

/*
 * Tell a limit to the groups of its key, in all classes.  No partition is locked.
 *
 * Whoever makes a group looks for its limit with the creation lock held: so either
 * he finds it, or we find the group.
 */
static void
attach_classes(QueueState *queue, const GroupKey *key, uint32 limit)
{
	LWLockAcquire(&table->creation_lock, LW_SHARED);
	for (int class = 0; class < queue->classes; class++)
	{
		GroupKey	of_class = *key;
		LWLock	   *lock;
		FairGroup  *group;

		if (queue->orders[class].group_ring == FAIRQ_NO_GROUP)
			continue;
		of_class.class = class;
		lock = partition_lock(key_hash(&of_class));
		LWLockAcquire(lock, LW_EXCLUSIVE);
		group = search_chain(key_hash(&of_class), &of_class);
		if (group != NULL)
			set_limit(group, limit);
		LWLockRelease(lock);
	}
	LWLockRelease(&table->creation_lock);
}

/*
 * The limit of a key, as get says (limits_announce, limits_join); room is made for it
 * if there is none.  No partition is locked.
 */
static uint32
limit_of_key(QueueState *queue, const GroupKey *key,
			 uint32 (*get) (int queue, QueueLimits *limits, uint64 low, uint64 high))
{
	uint32		limit = get(key->queue, &queue->limits, key->low, key->high);

	if (unlikely(limit == NO_LIMIT))
	{
		let_go_of_limits();
		limit = get(key->queue, &queue->limits, key->low, key->high);
	}
	if (limit == NO_LIMIT)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot limit more than %d groups at a time",
						settings_max_limits),
				 errhint("Raise the setting \"%s\" and restart the server.",
						 "pgfairq.max_limits")));
	return limit;
}

/*
 * A group gets the limit that its queue's defaults say.  No partition is locked.
 *
 * With what it has in flight in all its classes, which may be from before there
 * were such defaults.
 */
static void
join_limit(QueueState *queue, const GroupKey *key)
{
	uint32		limit = limit_of_key(queue, key, limits_join);

	attach_classes(queue, key, limit);
	limits_joined(limit);
}

/*
 * A task is leased, or about to be, whose group has no entry.  That will not do
 * where groups have limits: nobody would count it.
 *
 * Looked at again when it is leased.  Whoever gives groups limits first says so,
 * and then looks for such leases: one of the two sees the other.
 */
void
groups_check_unknown(QueueState *queue)
{
	pg_memory_barrier();
	if (limits_by_default(&queue->limits) ||
		pg_atomic_read_u32(&queue->limits.entries) > 0)
		no_entry();
}

/*
 * A task of a group is going to be leased, of this cost and age.  Sets *group to
 * the group's number, for the lease: until that ends the group is not forgotten.
 * *charge is what the task is charged, by the group's weight.
 *
 * Returns false if the group is at its limit; *limit is its number then.
 */
bool
groups_lease_begins(QueueState *queue, const FairqAddress *address,
					const char *key, int keylen, double cost,
					TimestampTz enqueued_at, uint32 *number, double *charge,
					uint32 *limit)
{
	GroupKey	group_key;
	FairGroup  *group;
	LWLock	   *lock;
	bool		may = true;
	int			class = address->class;

	make_key(queue, class, key, keylen, &group_key);
	lock = partition_lock(key_hash(&group_key));
	for (;;)
	{
		group = try_lock_group(queue, &group_key, key, keylen,
							   queue_state_virtual_time(&queue->orders[class]),
							   !limits_by_default(&queue->limits) &&
							   pg_atomic_read_u32(&queue->limits.entries) == 0);
		if (likely(group == NULL || group->limit != NO_LIMIT ||
				   !limits_by_default(&queue->limits)))
			break;
		LWLockRelease(lock);
		join_limit(queue, &group_key);
	}
	*limit = NO_LIMIT;
	if (group == NULL)
	{
		/*
		 * Other groups have taken all the entries.  The task is there, and to
		 * be claimed: only where groups may have limits it has to be counted.
		 */
		pg_atomic_write_u32(&queue->limits.strangers, 1);
		groups_check_unknown(queue);
		*number = FAIRQ_NO_GROUP;
		*charge = cost / queue->limits.defaults.weight;
		return true;
	}
	*limit = group->limit;
	if (group->limit != NO_LIMIT)
		may = limits_take(group->limit, address);
	cost = charge_of(queue, group, cost);
	if (may)
	{
		group->leased++;
		group->served++;
		group->served_cost += cost;
		group->head_time = Max(group->head_time, enqueued_at);
		count_ready(queue, group, -1);

		/* The worker is woken when the claim is at its end. */
		if (is_hungry(queue, group))
			list_hungry(queue, group);
	}
	*number = group - groups;
	*charge = cost / weight_of(queue, group);
	LWLockRelease(lock);
	return may;
}

/* Of what a task took, how much goes into what the next is charged. */
#define NEW_SECONDS		0.1

static void
lease_ends(uint32 number, bool unused, TimestampTz started)
{
	int64		usecs = started > 0 ? Max(GetCurrentTransactionStopTimestamp() - started, 0) : 0;
	LWLock	   *lock = lock_number(number);
	FairGroup  *group = &groups[number];
	uint32		limit = group->limit;

	if (started > 0)
	{
		double		seconds = usecs / (double) USECS_PER_SEC;

		group->run_time += usecs;
		group->seconds = group->seconds < 0 ? seconds :
			group->seconds + NEW_SECONDS * (seconds - group->seconds);
	}

	/* The limit first: a group with tasks in flight keeps it. */
	group->leased--;
	if (unused)
		group->served--;
	LWLockRelease(lock);
	if (limit != NO_LIMIT)
		limits_give(limit, unused);
}

/*
 * Somebody else has a lease on it.
 */
void
groups_lease_refused(uint32 number)
{
	if (number != FAIRQ_NO_GROUP)
		lease_ends(number, true, 0);
}

/*
 * A lease has ended.  started is when it began if the task was worked on, else 0:
 * under charge 'seconds' the time that it took is what the group's next tasks
 * are charged, averaged over some.
 */
void
groups_lease_ends(uint32 number, TimestampTz started)
{
	if (number != FAIRQ_NO_GROUP)
		lease_ends(number, false, started);
}

/*
 * A lease is found whose group was not known.  Returns that.
 */
uint32
groups_adopt_lease(QueueState *queue, int class, const char *key, int keylen)
{
	GroupKey	group_key;
	FairGroup  *group;

	make_key(queue, class, key, keylen, &group_key);
	group = lock_group(queue, &group_key, key, keylen,
					   queue_state_virtual_time(&queue->orders[class]));
	group->leased++;
	if (group->limit != NO_LIMIT)
		limits_adopt(group->limit);
	LWLockRelease(partition_lock(key_hash(&group_key)));
	return group - groups;
}

/*
 * The limit of a group; NO_LIMIT: it has none.
 */
uint32
groups_limit(QueueState *queue, const char *key, int keylen)
{
	GroupKey	group_key;

	make_key(queue, 0, key, keylen, &group_key);
	return limits_find(group_key.queue, group_key.low, group_key.high);
}

/*
 * Offer a group up to n of its tasks that are set aside, to who asks for the group.
 * Returns how many.
 */
int
groups_release(QueueState *queue, const char *key, int keylen, int n)
{
	uint32		limit = groups_limit(queue, key, keylen);

	return limit == NO_LIMIT ? 0 : limits_release(limit, n);
}

/*
 * Has a group tasks set aside, until it may have them in flight?
 */
bool
groups_waits(QueueState *queue, const char *key, int keylen)
{
	uint32		limit;

	if (pg_atomic_read_u32(&queue->limits.waiting) == 0)
		return false;
	limit = groups_limit(queue, key, keylen);
	return limit != NO_LIMIT && limits_waits(limit);
}

/*
 * A group, by its key, is going to be given settings: its limit, made if there is
 * none, which nobody learns before they are committed (groups_settle_limit).
 */
uint32
groups_announce_limit(QueueState *queue, const char *key, int keylen)
{
	GroupKey	group_key;

	make_key(queue, 0, key, keylen, &group_key);
	return limit_of_key(queue, &group_key, limits_announce);
}

/*
 * They are in force, or (NULL) were rolled back.  Those who know the group learn
 * its limit first, so that what is in flight is counted.  Never fails.
 */
void
groups_settle_limit(QueueState *queue, uint32 limit, const LimitSettings *settings)
{
	GroupKey	key = {0};

	if (settings != NULL)
	{
		limits_settling(limit, &key.low, &key.high);
		key.queue = queue_state_number(queue);
		attach_classes(queue, &key, limit);
	}
	limits_settle(limit, settings);
}

/*
 * n tasks more of a group are ready, or less; in *limit is its limit.  The group
 * may have been forgotten, and its entry be another's by now: it is a hint.
 */
static void
change_ready(QueueState *queue, uint32 number, int n, uint32 *limit)
{
	*limit = NO_LIMIT;
	if (number == FAIRQ_NO_GROUP)
		return;
	LWLockAcquire(&table->creation_lock, LW_SHARED);
	if (groups[number].in_use &&
		groups[number].key.queue == queue_state_number(queue))
	{
		LWLock	   *lock = lock_number(number);

		count_ready(queue, &groups[number], n);
		check_hungry(queue, &groups[number]);
		*limit = groups[number].limit;
		LWLockRelease(lock);
	}
	LWLockRelease(&table->creation_lock);
}

/*
 * A task of a group is ready again, at its old place.
 */
void
groups_ready(QueueState *queue, uint32 number)
{
	uint32		limit;

	change_ready(queue, number, 1, &limit);
}

/*
 * A ready task of a group was removed, with this address.
 */
void
groups_removed(QueueState *queue, uint32 number, const FairqAddress *address)
{
	uint32		limit;

	change_ready(queue, number, -1, &limit);
	if (limit != NO_LIMIT)
		limits_removed(limit, address);
}

/*
 * A task of a group was written to the overflow by somebody else.
 */
void
groups_overflow(QueueState *queue, int class, const char *key, int keylen,
				GroupTag *tag)
{
	GroupKey	group_key;
	FairGroup  *group;

	make_key(queue, class, key, keylen, &group_key);
	group = lock_group(queue, &group_key, key, keylen,
					   queue_state_virtual_time(&queue->orders[class]));
	group->pending++;
	tag->group = group - groups;
	LWLockRelease(partition_lock(key_hash(&group_key)));
}

/*
 * Tasks of a group were put into the overflow, the lowest id is given, and the
 * transaction has ended.
 */
void
groups_overflow_ends(QueueState *queue, uint32 number, int n, int64 id,
					 bool committed)
{
	LWLock	   *lock = lock_number(number);
	FairGroup  *group = &groups[number];

	group->pending -= n;
	if (committed && n > 0)
	{
		set_overflow(queue, group, group->overflow + n);
		group->overflow_from = Min(group->overflow_from, id);
		group->overflow_limit = Min(group->overflow_limit, id);
		check_hungry(queue, group);
	}
	LWLockRelease(lock);
}

/*
 * n tasks of a group are in the overflow no more, from an id on, because they were
 * removed.  The group may have been forgotten, and its entry be another's by now.
 */
void
groups_overflow_removed(QueueState *queue, uint32 number, int n, int64 id)
{
	LWLockAcquire(&table->creation_lock, LW_SHARED);
	if (groups[number].in_use &&
		groups[number].key.queue == queue_state_number(queue))
	{
		LWLock	   *lock = lock_number(number);

		FairGroup  *group = &groups[number];

		/* One that has a place counts as ready already. */
		if (id < group->overflow_from)
			count_ready(queue, group, -n);
		else
			set_overflow(queue, group, Max(group->overflow - n, 0));
		if (group->overflow == 0)
		{
			group->overflow_from = Min(group->overflow_from, group->overflow_held);
			group->overflow_held = PG_INT64_MAX;
		}
		check_hungry(queue, group);
		LWLockRelease(lock);
	}
	LWLockRelease(&table->creation_lock);
}

/*
 * A row says that a group has a task in the overflow.  again: one that may be counted,
 * and may have lost its place.
 */
void
groups_overflow_found(QueueState *queue, int class, const char *key, int keylen,
					  int64 id, bool again)
{
	GroupKey	group_key;
	FairGroup  *group;

	make_key(queue, class, key, keylen, &group_key);
	group = lock_group(queue, &group_key, key, keylen,
					   queue_state_virtual_time(&queue->orders[class]));
	set_overflow(queue, group,
				 again ? Max(group->overflow, 1) : group->overflow + 1);
	group->overflow_from = Min(group->overflow_from, id);
	group->overflow_limit = Min(group->overflow_limit, id);
	check_hungry(queue, group);
	LWLockRelease(partition_lock(key_hash(&group_key)));
}

/*
 * The next group to feed, of which the caller takes care: groups_fed when the
 * transaction commits, groups_not_fed if it does not, and then queue_state_fed.
 * Returns false if there is
 * none, or no room in the queue.
 */
bool
groups_next_hungry(QueueState *queue, HungryGroup *hungry)
{
	int64		room = queue->max_ready - queue_state_ready(queue);
	int64		room_of_group;
	FairGroup  *group;
	LWLock	   *lock;
	int			waiting;

	if (room <= 0)
		return false;
	SpinLockAcquire(&queue->hungry_mutex);
	waiting = queue->hungry_count;
	hungry->group = queue->hungry_first;
	if (waiting > 0)
	{
		queue->hungry_first = groups[hungry->group].hungry_next;
		queue->hungry_count--;
		queue->being_fed++;
	}
	SpinLockRelease(&queue->hungry_mutex);
	if (waiting == 0)
		return false;

	group = &groups[hungry->group];
	lock = lock_number(hungry->group);
	Assert(group->hunger == HUNGRY);
	group->hunger = BEING_FED;
	group->overflow_limit = PG_INT64_MAX;
	hungry->class = group->key.class;
	hungry->hash = (int64) group->key.low;
	hungry->from = group->overflow_from;
	/* What room there is in the queue is shared between the hungry. */
	room_of_group = Min(Max(room / waiting, 1),
						ready_when_fed(queue, group->key.class) - group->ready);
	hungry->room = (int) Min(Max(room_of_group, 0), PG_INT32_MAX);
	LWLockRelease(lock);
	return true;
}

/*
 * A group was fed: moved tasks of its overflow are ready, and the next ones are
 * from the id next on (PG_INT64_MAX: there are no more), but for some in
 * somebody's hands from the id held on.
 */
void
groups_fed(QueueState *queue, uint32 number, int moved, int64 next, int64 held)
{
	LWLock	   *lock = lock_number(number);
	FairGroup  *group = &groups[number];

	group->overflow_from = Min(next, group->overflow_limit);
	group->overflow_held = Min(held, group->overflow_held);
	if (moved > 0)
		group->offered_finish = group->finish;
	if (group->overflow_from == PG_INT64_MAX && group->overflow_held == PG_INT64_MAX)
		set_overflow(queue, group, 0);
	else
		set_overflow(queue, group, Max(group->overflow - moved, 1));
	group->hunger = NOT_HUNGRY;

	/* The worker needs no waking: it comes again as long as anybody is hungry. */
	if (is_hungry(queue, group))
		list_hungry(queue, group);
	LWLockRelease(lock);
}

void
groups_not_fed(QueueState *queue, uint32 number)
{
	LWLock	   *lock = lock_number(number);

	list_hungry(queue, &groups[number]);
	LWLockRelease(lock);
}

/*
 * Look for hungry groups of an order that are not in the list.  Tasks that were
 * in somebody's hands are looked at again by groups that have no others left, or
 * (held) by all.
 */
void
groups_seek_hungry(QueueState *queue, int class, bool nothing_ready, bool held)
{
	VirtualTime v = queue_state_virtual_time(&queue->orders[class]);
	uint32		first;
	uint32		number;

	LWLockAcquire(&table->creation_lock, LW_SHARED);
	first = number = queue->orders[class].group_ring;
	while (number != FAIRQ_NO_GROUP)
	{
		FairGroup  *group = &groups[number];

		/*
		 * Without its lock first: most have neither.  What a group without
		 * overflow is wrongly thought to have ready takes the others' room.
		 */
		if (((volatile FairGroup *) group)->overflow > 0 ||
			((volatile FairGroup *) group)->ready > 0)
		{
			LWLock	   *lock = lock_number(number);

			if (nothing_ready || virtual_time_compare(group->finish, v) <= 0)
				count_ready(queue, group, -group->ready);
			if (group->hunger == NOT_HUNGRY &&
				(held || group->overflow_from == PG_INT64_MAX))
			{
				group->overflow_from = Min(group->overflow_from, group->overflow_held);
				group->overflow_held = PG_INT64_MAX;
			}
			check_hungry(queue, group);
			LWLockRelease(lock);
		}
		number = group->ring_next;
		if (number == first)
			break;
	}
	LWLockRelease(&table->creation_lock);
}

/*
 * The rows of a queue are going to be read and counted.
 */
void
groups_count_anew(QueueState *queue)
{
	int			queue_number = queue_state_number(queue);

	LWLockAcquire(&table->creation_lock, LW_SHARED);
	for (uint32 i = 0; i < table->high_water; i++)
	{
		LWLock	   *lock;

		if (!groups[i].in_use || groups[i].key.queue != queue_number)
			continue;
		lock = lock_number(i);
		groups[i].ready = 0;
		set_overflow(queue, &groups[i], 0);
		groups[i].overflow_from = PG_INT64_MAX;
		groups[i].overflow_held = PG_INT64_MAX;
		groups[i].offered_finish = v_none;
		LWLockRelease(lock);
	}
	pg_atomic_write_u64(&queue->ready, 0);
	LWLockRelease(&table->creation_lock);
}

/*
 * The task was not enqueued after all.  If the group has had no task since, it
 * has its tag back; else there is a gap.
 */
void
groups_untag(uint64 slot, uint32 number, VirtualTime start, VirtualTime finish,
			 bool was_ready)
{
	FairGroup	   *group = &groups[number];
	LWLock	   *lock;

	/*
	 * The entry may be another group's by now, and its key may change until
	 * the creation lock is held.  Shared: nobody makes or takes over entries.
	 */
	LWLockAcquire(&table->creation_lock, LW_SHARED);
	if (group->in_use && group->slot == slot)
	{
		QueueState *queue = queue_state_by_number(group->key.queue);

		lock = partition_lock(key_hash(&group->key));
		LWLockAcquire(lock, LW_EXCLUSIVE);
		if (virtual_time_compare(group->finish, finish) == 0)
			group->finish = start;
		if (was_ready)
			count_ready(queue, group, -1);
		check_hungry(queue, group);
		LWLockRelease(lock);
	}
	LWLockRelease(&table->creation_lock);
}

/*
 * How far a group has got.  Returns false if there is no such group.
 */
bool
groups_look(QueueState *queue, int class, const char *key, int keylen,
			GroupTag *tag)
{
	GroupKey	group_key;
	LWLock	   *lock;
	FairGroup  *group;

	make_key(queue, class, key, keylen, &group_key);
	lock = partition_lock(key_hash(&group_key));
	LWLockAcquire(lock, LW_SHARED);
	group = search_chain(key_hash(&group_key), &group_key);
	if (group != NULL)
	{
		tag->weight = weight_of(queue, group);
		tag->finish = group->finish;
		tag->slot = group->slot;
		tag->group = group - groups;
		tag->hungry = (group->hunger != NOT_HUNGRY);
		tag->overflow_fed = Min(group->overflow_from, group->overflow_held);
	}
	LWLockRelease(lock);
	return group != NULL;
}

/* Take back what a group has not been served.  Creation lock held. */
static void
level_group(QueueState *queue, FairGroup *group, const VirtualTime *if_finish)
{
	LWLock	   *lock = partition_lock(key_hash(&group->key));
	VirtualTime level;
	uint32		limit;

	level = virtual_time_add(queue_state_virtual_time(&queue->orders[group->key.class]),
							 1.0, 1.0);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if ((if_finish == NULL ||
		 virtual_time_compare(group->finish, *if_finish) == 0) &&
		virtual_time_compare(group->finish, level) > 0)
		group->finish = level;
	group->offered_finish = v_none;
	count_ready(queue, group, -group->ready);
	check_hungry(queue, group);
	limit = group->limit;
	LWLockRelease(lock);
	if (limit != NO_LIMIT)
		limits_purged(limit);
}

/*
 * The tasks of a group were purged: it did not get the service that they were
 * to be charged for, and starts one task behind virtual time (one may be in
 * flight).  Not if it has had new ones since it was at finish.  FAIRQ_NO_GROUP:
 * all groups of the queue.
 */
void
groups_level(QueueState *queue, uint32 number, VirtualTime finish)
{
	int			queue_number = queue_state_number(queue);

	LWLockAcquire(&table->creation_lock, LW_SHARED);
	if (number != FAIRQ_NO_GROUP)
	{
		if (groups[number].in_use && groups[number].key.queue == queue_number)
			level_group(queue, &groups[number], &finish);
	}
	else
	{
		for (uint32 i = 0; i < table->high_water; i++)
		{
			if (groups[i].in_use && groups[i].key.queue == queue_number)
				level_group(queue, &groups[i], NULL);
		}
	}
	LWLockRelease(&table->creation_lock);
}

/*
 * A row says that a group has a task of this start tag and cost, in this slot.
 * leased: somebody has the task.
 */
void
groups_restore(QueueState *queue, int class, const char *key, int keylen,
			   VirtualTime start, double cost, uint64 slot, bool leased)
{
	GroupKey	group_key;
	FairGroup	   *group;
	VirtualTime first = {PG_INT64_MIN, 0};
	VirtualTime finish;

	make_key(queue, class, key, keylen, &group_key);
	group = lock_group(queue, &group_key, key, keylen,
					   first);
	finish = virtual_time_add(start, cost, weight_of(queue, group));
	if (virtual_time_compare(group->finish, finish) < 0)
	{
		group->finish = finish;
		group->slot = slot;
	}
	if (!leased)
		count_ready(queue, group, 1);
	LWLockRelease(partition_lock(key_hash(&group_key)));

	if (queue->orders[class].next_slot <= slot)
	{
		LWLockAcquire(&table->creation_lock, LW_EXCLUSIVE);
		queue->orders[class].next_slot =
			Max(queue->orders[class].next_slot, slot + 1);
		LWLockRelease(&table->creation_lock);
	}
}

/*
 * Free the groups of a queue that is gone.
 */
void
groups_forget_queue(int queue)
{
	LWLockAcquire(&table->creation_lock, LW_EXCLUSIVE);
	for (uint32 i = 0; i < table->high_water; i++)
	{
		FairGroup	   *group = &groups[i];
		VirtualTime end = {PG_INT64_MAX, PG_UINT32_MAX};

		if (!group->in_use || group->key.queue != queue)
			continue;
		group->pending = 0;
		group->overflow = 0;
		group->hunger = NOT_HUNGRY;
		if (unlink_if_idle(group, end))
		{
			group->ring_next = table->free_head;
			table->free_head = i;
		}
	}
	LWLockRelease(&table->creation_lock);
}

/*
 * Copy what is known of the groups of a queue, a palloc'd array of one entry for
 * each group and class that has an entry.  Returns how many.
 */
int
groups_list(QueueState *queue, GroupInfo **infos)
{
	int			queue_number = queue_state_number(queue);
	uint32		high_water = table->high_water;
	int			size = 64;
	int			n = 0;

	*infos = palloc(size * sizeof(GroupInfo));
	for (uint32 i = 0; i < high_water; i++)
	{
		FairGroup  *group = &groups[i];
		GroupInfo  *info;

		if (!((volatile FairGroup *) group)->in_use ||
			((volatile FairGroup *) group)->key.queue != queue_number)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (n == size)
		{
			size *= 2;
			*infos = repalloc_huge(*infos, size * sizeof(GroupInfo));
		}

		/* Shared: nobody makes or takes over entries meanwhile. */
		LWLockAcquire(&table->creation_lock, LW_SHARED);
		if (group->in_use && group->key.queue == queue_number)
		{
			LWLock	   *lock = lock_number(i);

			info = &(*infos)[n++];
			info->class = group->key.class;
			info->hash[0] = group->key.low;
			info->hash[1] = group->key.high;
			info->finish = group->finish;
			info->ready = group->ready;
			info->leased = group->leased;
			info->overflow = group->overflow;
			info->served = group->served;
			info->served_cost = group->served_cost;
			info->run_time = group->run_time;
			info->head_time = group->head_time;
			info->limit = group->limit;
			info->keylen = group->keylen;
			memcpy(info->key, group->text, Min(group->keylen, GROUP_KEY_SHOWN));
			LWLockRelease(lock);
		}
		LWLockRelease(&table->creation_lock);
	}
	return n;
}
