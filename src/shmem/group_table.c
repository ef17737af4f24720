/*-------------------------------------------------------------------------
 *
 * group_table.c
 *	  The entries of groups in shared memory.
 *
 * There is one for each group, queue and priority class that has work.
 *
 * A group whose F is not beyond virtual time and that has no tasks carries no
 * information: its next task gets the start tag v whether it is known or not.
 * It is forgotten when its entry is wanted; not before, for the entry counts
 * its tasks, and who has one to count off finds it there.  Its slot may then
 * be another group's at once, without two tasks ever having the same address:
 * all start tags the old one gave out are below its F, so below v, and all
 * that the new one gives out are not.
 *
 * A group's key is known by 128 bits of hash, with a seed that is new at each
 * start of the server.  Should two keys ever collide (one in 10^26 with a
 * million groups) they would share one place in the fair order, no more.
 *
 * Of a group that is divided each subgroup has an entry, too, which leads to
 * that of the group: so that is not forgotten while there are some, and made
 * before them.  They are in the group's partition, so that who has that locked
 * has both.  A subgroup is forgotten by virtual time between those of its
 * group.
 *
 * Entries are found through chains of a hash table, in partitions with a lock
 * each, and each order (class of a queue) links its groups in a ring.  A new
 * group first looks at the next two of the ring and takes over the entry of
 * one that can be forgotten, slot and all: so there are never more than about
 * twice as many entries as there are groups with work.
 *
 * Entries are one number for the server, and users of a tenant can be made up.
 * So a group may have as many subgroups as there are entries left, for tasks
 * that come, in all classes of its queue: if one has so many, as many are left
 * to others, and a second one takes half of these.  So groups that have no work
 * find room, whatever those do.
 *
 * Locking: the lock of the partition guards its chains and the entries in
 * them.  The creation lock guards rings, free list and slot counters, and is
 * taken before a partition's.  The lock of a group's home lane (turns.c) is
 * taken after.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/group_private.h"
#include "shmem/groups.h"
#include "shmem/queue_state.h"

/* A look at all groups is in vain if it frees less than one in so many ... */
#define RECLAIM_PART	100

/*
 * ... and then it is not repeated for so many microseconds for each entry,
 * which is some ten times as long as it takes.
 */
#define RECLAIM_REST	INT64CONST(1)

GroupTable *group_table = NULL;

static uint32 *chains = NULL;
static uint32 chain_mask;

Size
group_table_shmem_size(void)
{
	return fixed_table_size(sizeof(GroupTable), settings_max_groups, sizeof(FairGroup));
}

void
group_table_shmem_init(void *area, bool found)
{
	group_table = area;
	group_entries = fixed_table_init(area, sizeof(GroupTable), settings_max_groups, found,
									 &chains, &chain_mask);
	if (found)
		return;

	LWLockInitialize(&group_table->creation_lock,
					 shared_memory_tranche(FAIRQ_TRANCHE_GROUP));
	StaticAssertStmt(offsetof(FairGroup, slot) % 64 == 0 &&
					 offsetof(FairGroup, line.lane) == offsetof(FairGroup, slot) + 64,
					 "what is compared in a heap is in one cache line");
	group_table->free = all_entries_free;
	group_table->used = 0;
	pg_atomic_init_u64(&group_table->reclaim_at, 0);
	for (int i = 0; i < PARTITIONS; i++)
		LWLockInitialize(&group_table->partitions[i].lock,
						 shared_memory_tranche(FAIRQ_TRANCHE_GROUP));
}

/* What a group is known by. */
static inline GroupKey
key_of(const QueueState *queue, int class, const GroupName *name)
{
	int			number = queue_state_number(queue);
	GroupKey	key = {
		.low = name->low,
		.high = name->high,
		.queue = number,
		.class = class,
		.partition = group_table_mix(name->subgroup ? name->group_high : name->high, number,
									 class) % PARTITIONS,
		.above = FAIRQ_NO_GROUP,
	};

	Assert(class >= 0 && class < queue->classes);
	return key;
}

/* The entry of a key in its chain, or NULL.  Chains change under both locks. */
static FairGroup *
search_chain(uint32 hash, const GroupKey *key)
{
	uint32		number = chains[hash & chain_mask];

	Assert(!IsUnderPostmaster || LWLockHeldByMe(group_table_partition(hash)) ||
		   LWLockHeldByMeInMode(&group_table->creation_lock, LW_EXCLUSIVE));
	while (number != FAIRQ_NO_GROUP)
	{
		if (group_key_equal(&group_entries[number].key, key))
			return &group_entries[number];
		number = group_entries[number].hash_next;
	}
	return NULL;
}

#ifdef USE_ASSERT_CHECKING

/* So many links of a chain or a ring are looked at. */
#define CHECK_LINKS		32

/* The chain of a hash has groups of that chain, and comes to an end. */
static void
check_chain(uint32 hash)
{
	uint32		number = chains[hash & chain_mask];

	AssertLocked(group_table_partition(hash));
	for (int i = 0; i < CHECK_LINKS && number != FAIRQ_NO_GROUP; i++)
	{
		const FairGroup *group = &group_entries[number];

		Assert(number < group_table->free.high_water && group->in_use);
		Assert((group_table_hash(&group->key) & chain_mask) == (hash & chain_mask));
		Assert(group->hash_next != number);
		number = group->hash_next;
	}
}

/* The ring of an order has groups of the order only. */
static void
check_ring(const QueueOrder *order, const GroupKey *key)
{
	uint32		number = order->group_ring;

	AssertCreationLocked();
	for (int i = 0; i < CHECK_LINKS && number != FAIRQ_NO_GROUP; i++)
	{
		const FairGroup *group = &group_entries[number];

		Assert(number < group_table->free.high_water && group->in_use);
		Assert(group->key.queue == key->queue && group->key.class == key->class);
		Assert(group->ring_next != FAIRQ_NO_GROUP);
		number = group->ring_next;
	}
}

#else
#define check_chain(hash)	((void) 0)
#define check_ring(order, key)	((void) 0)
#endif

/*
 * Find a group, or NULL.  *lock is the lock of its partition, which is locked
 * in this mode then, also if there is none: the caller releases it.
 */
FairGroup *
group_table_find(QueueState *queue, int class, const GroupName *name, LWLockMode mode,
				 LWLock **lock)
{
	GroupKey	key = key_of(queue, class, name);
	uint32		hash = group_table_hash(&key);

	*lock = group_table_partition(hash);
	LWLockAcquire(*lock, mode);
	return search_chain(hash, &key);
}

/*
 * Count n ready tasks (n < 0: off), at each level and once for the queue.
 */
void
group_table_count_ready(QueueState *queue, FairGroup *group, int n)
{
	AssertGroupLockedExclusively(group);
	FOR_LEVELS(level, group)
		level->ready += n;
	pg_atomic_fetch_add_u64(&queue->counts.ready, (int64) n);
}

/*
 * Count n tasks of the overflow (n < 0: off), at each level.
 */
void
group_table_count_overflow(FairGroup *group, int n)
{
	AssertGroupLockedExclusively(group);
	FOR_LEVELS(level, group)
		level->overflow += n;
}

/*
 * Is a group not beyond virtual time: that of its order, v; or that of its
 * group?
 */
static bool
is_reached(FairGroup *group, VirtualTime v)
{
	FairGroup  *above = group_above(group);

	return virtual_time_compare(group->finish, above == NULL ? v : turn_lines_time(above)) <= 0;
}

/*
 * A group has no tasks, by its counts.  If that is so what its line has leads
 * nowhere, as after a purge; no claim may come by to find that.
 */
static void
end_line(FairGroup *group, bool scarce)
{
	if (scarce && group->leased == 0 && group->ready == 0)
		turn_lines_forget(group, false);
	(void) turn_lines_end(group);
}

/*
 * Take a group out of its chain, if it can be forgotten at virtual time v
 * (NULL: whatever that is).  scarce: all entries are taken.
 */
static bool
unlink_if_idle(FairGroup *group, const VirtualTime *v, bool scarce)
{
	uint32		hash = group_table_hash(&group->key);
	LWLock	   *lock = group_table_partition(hash);
	FairGroup  *above = group_above(group);
	bool		idle;

	AssertLockedExclusively(&group_table->creation_lock);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (unlikely(group->line.lane != 0) && group->overflow <= 0 && group->pending == 0 &&
		group->subgroups == 0)
		end_line(group, scarce);
	idle = (v == NULL || is_reached(group, *v)) &&
		group->subgroups == 0 && group->ready == 0 && group->leased == 0 &&
		group->pending == 0 && group->overflow <= 0 && group->line.lane == 0 &&
		(group->limit == NO_LIMIT || !limit_table_waits(group->limit));
	if (idle)
	{
		uint32	   *link = &chains[hash & chain_mask];

		while (&group_entries[*link] != group)
			link = &group_entries[*link].hash_next;
		*link = group->hash_next;
		if (group->limit != NO_LIMIT)
			limit_table_detach(group->limit);
		group->in_use = false;
		if (above != NULL)
			above->subgroups--;
	}
	LWLockRelease(lock);
	return idle;
}

/*
 * An entry for a new group of an order, in its ring and with a slot; NULL if
 * all are taken.
 */
static FairGroup *
new_entry(QueueOrder *order, VirtualTime v)
{
	FairGroup  *group;
	uint32		number;

	AssertLockedExclusively(&group_table->creation_lock);
	for (int i = 0; i < 2 && order->group_ring != FAIRQ_NO_GROUP; i++)
	{
		group = &group_entries[order->group_ring];
		order->group_ring = group->ring_next;
		if (unlink_if_idle(group, &v, false))
			return group;
	}

	number = free_entries_take(&group_table->free, settings_max_groups, group_entries,
							   ring_next);
	if (number == FAIRQ_NO_GROUP)
		return NULL;
	group = &group_entries[number];
	Assert(!group->in_use);
	group_table->used++;
	group->slot = order->next_slot++ % FAIRQ_SLOTS;
	if (order->group_ring == FAIRQ_NO_GROUP)
		group->ring_next = number;
	else
	{
		group->ring_next = group_entries[order->group_ring].ring_next;
		group_entries[order->group_ring].ring_next = number;
	}
	order->group_ring = number;
	return group;
}

/* An entry that is in no chain any more, and leaves its ring, is free. */
static void
give_entry(uint32 number)
{
	AssertLockedExclusively(&group_table->creation_lock);
	Assert(group_table->used > 0);
	free_entries_give(&group_table->free, number, &group_entries[number].ring_next);
	group_table->used--;
}

/*
 * The highest F of the groups of an order.  Has any of them tasks that wait, by
 * its counts?  Without their locks: as it was a moment ago.
 */
static VirtualTime
highest_finish(const QueueOrder *order, VirtualTime v, bool *waits)
{
	uint32		number = order->group_ring;

	AssertCreationLocked();
	*waits = false;
	do
	{
		FairGroup  *group = &group_entries[number];

		if (group_above(group) == NULL)
			v = virtual_time_max(v, group->finish);
		*waits |= group->ready > 0 || group->overflow > 0 || group->pending > 0;
		number = group->ring_next;
	} while (number != order->group_ring);
	return v;
}

/*
 * Free the entries of all groups of an order that can be forgotten.  Returns
 * how many.
 *
 * If nothing is ready, or no group has tasks that wait, it ends the busy period
 * first, at the highest F: groups whose tasks were cancelled or purged were
 * never served as far as they got.  Lanes know only of what claims have come
 * to: there may be none, and all was purged.
 */
static int
reclaim_order(QueueState *queue, int class, bool nothing_ready)
{
	QueueOrder *order = &queue->orders[class];
	VirtualTime v = queue_order_virtual_time(order);
	uint32		previous;
	uint32		last;
	int			freed = 0;

	LWLockAcquire(&group_table->creation_lock, LW_EXCLUSIVE);
	if (order->group_ring != FAIRQ_NO_GROUP)
	{
		bool		waits;
		VirtualTime highest = highest_finish(order, v, &waits);

		if (nothing_ready || (!waits && queue->recovery.groups == QUEUE_KNOWN))
		{
			v = highest;
			queue_order_advance(order, v, v);
		}
	}
	last = previous = order->group_ring;
	while (previous != FAIRQ_NO_GROUP)
	{
		uint32		number = group_entries[previous].ring_next;

		if (unlink_if_idle(&group_entries[number], &v, true))
		{
			group_entries[previous].ring_next = group_entries[number].ring_next;
			give_entry(number);
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
	LWLockRelease(&group_table->creation_lock);
	return freed;
}

/*
 * Free the entries of groups without work, of all queues.  Returns how many.
 */
static int
reclaim_all(void)
{
	QueueState *queue;
	int			freed = 0;

	queue_state_lock_all(LW_SHARED);
	for (int n = 0; (queue = queue_state_next(&n)) != NULL;)
	{
		for (int class = 0; class < queue->classes; class++)
			freed += reclaim_order(queue, class, queue_ready_nothing(queue, class));
	}
	queue_state_unlock_all();
	return freed;
}

/*
 * Free entries of groups that can be forgotten.  Returns whether there were
 * any.  It takes a look at each group, under locks that others want: so unless
 * it has to be, that is not done again soon after it was in vain.  It has not
 * to for a claim that can do without, nor for whoever has very many.
 */
static bool
reclaim(bool has_to)
{
	TimestampTz at = pg_atomic_read_u64(&group_table->reclaim_at);
	int64		rest = settings_max_groups * RECLAIM_REST;
	int			freed;

	if (!has_to && wall_clock_ahead(at, GetCurrentTimestamp(), rest))
		return false;
	freed = reclaim_all();
	if (freed <= settings_max_groups / RECLAIM_PART)
		pg_atomic_write_u64(&group_table->reclaim_at,
							(uint64) (GetCurrentTimestamp() + rest));
	return freed > 0;
}

/* Make an entry that of a new group. */
static void
init_entry(FairGroup *group, const GroupKey *key, const GroupName *name, VirtualTime v)
{
	const VirtualTime start = {0, 0};

	uint64		slot = group->slot;
	uint32		ring_next = group->ring_next;

	AssertLockedExclusively(&group_table->creation_lock);
	AssertLockedExclusively(group_table_partition(group_table_hash(key)));
	memset(group, 0, sizeof(FairGroup));
	group->slot = slot;
	group->ring_next = ring_next;
	group->key = *key;
	group->finish = name->subgroup ? start : v;
	group->divided = name->divided;
	group->since = v_none;
	group->limit = NO_LIMIT;
	group->seconds = -1;
	group->keylen = Min(name->len, PG_UINT16_MAX);
	memcpy(group->shown, name->text, Min(name->len, GROUP_KEY_SHOWN));
	if (name->len > GROUP_KEY_SHOWN)
		group_id(name->text, name->len, &group->id);
	group->in_use = true;
}

/* How many subgroups a group has, in all classes of its queue. */
static uint32
subgroups_of(QueueState *queue, const GroupName *name)
{
	uint32		n = 0;

	AssertLockedExclusively(&group_table->creation_lock);
	for (int class = 0; class < queue->classes; class++)
	{
		GroupKey	key = key_of(queue, class, name);
		const FairGroup *group = search_chain(group_table_hash(&key), &key);

		n += group == NULL ? 0 : group->subgroups;
	}
	return n;
}

/*
 * The entry of a group, made if there is none; of a subgroup with that of its
 * group.  NULL: there is none to be had; *many is set if its group has very
 * many.
 */
static FairGroup *
make_entry(QueueState *queue, int class, const GroupName *name, VirtualTime v, EntryFor what,
		   bool *many)
{
	GroupKey	key = key_of(queue, class, name);
	uint32		hash = group_table_hash(&key);
	LWLock	   *lock = group_table_partition(hash);
	FairGroup  *above = NULL;
	FairGroup  *group;

	/* No other process can make it: so look once more. */
	AssertLockedExclusively(&group_table->creation_lock);
	group = search_chain(hash, &key);
	if (group != NULL)
		return group;

	if (name->subgroup)
	{
		GroupName	name_above = group_name_above(name);
		uint32		n;

		above = make_entry(queue, class, &name_above, v, what, many);
		if (above == NULL)
			return NULL;
		if (what == ENTRY_NEW_TASK &&
			!group_table_is_half_free() &&
			(n = subgroups_of(queue, &name_above)) >= settings_max_groups - group_table->used)
		{
			*many |= n > (uint32) settings_max_groups / RECLAIM_PART;
			return NULL;
		}
		/* Now, or the next entry that is wanted may be this. */
		above->subgroups++;
		key.above = above - group_entries;
	}
	group = new_entry(&queue->orders[class], v);
	if (group == NULL)
	{
		if (above != NULL)
			above->subgroups--;
		return NULL;
	}
	LWLockAcquire(lock, LW_EXCLUSIVE);
	init_entry(group, &key, name, v);
	if (pg_atomic_read_u32(&queue->limits.entries) > 0)
		group->limit = limit_table_find(key.queue, name, true);
	group->hash_next = chains[hash & chain_mask];
	chains[hash & chain_mask] = group - group_entries;
	check_chain(hash);
	check_ring(&queue->orders[class], &key);
	LWLockRelease(lock);
	return group;
}

/*
 * Find a group, made if there is none, at virtual time v; returns with its
 * partition locked.  NULL: no entry is to be had, and none is locked.
 */
FairGroup *
group_table_try_lock(QueueState *queue, int class, const GroupName *name, VirtualTime v,
					 EntryFor what)
{
	GroupKey	key = key_of(queue, class, name);
	uint32		hash = group_table_hash(&key);
	LWLock	   *lock = group_table_partition(hash);
	int			reclaims = 2;	/* a group goes after its subgroups and lines */

	for (;;)
	{
		FairGroup  *group;
		bool		rests = (what == ENTRY_UNCOUNTED);

		LWLockAcquire(lock, LW_EXCLUSIVE);
		group = search_chain(hash, &key);
		if (group != NULL)
			return group;
		LWLockRelease(lock);

		LWLockAcquire(&group_table->creation_lock, LW_EXCLUSIVE);
		group = make_entry(queue, class, name, v, what, &rests);
		if (group != NULL)
			LWLockAcquire(lock, LW_EXCLUSIVE);
		LWLockRelease(&group_table->creation_lock);
		if (group != NULL)
			return group;
		if (reclaims-- == 0 || !reclaim(!rests))
			return NULL;
	}
}

/*
 * All entries are taken, or, for the subgroups of a group, as many as are left.
 * name: NULL, if the group is not known.  Fails always, with no lock of groups.
 */
void
group_table_no_entry(const GroupName *name)
{
	bool		subgroup = (name != NULL && name->subgroup);

	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 subgroup ?
			 errmsg("group \"%.*s\" cannot have more subgroups with work at a time",
					name->group_len, name->group_text) :
			 errmsg("cannot have more than %d groups with work at a time",
					settings_max_groups),
			 subgroup ?
			 errdetail("A group may have as many as there are entries left of %d for groups and subgroups.",
					   settings_max_groups) : 0,
			 errhint("Raise the setting \"%s\" and restart the server, or try again when tasks have been claimed.",
					 "pgfairq.max_groups")));
}

/*
 * As group_table_try_lock, but if no entry is to be had it fails, with no lock
 * held.
 */
FairGroup *
group_table_lock(QueueState *queue, int class, const GroupName *name, VirtualTime v,
				 EntryFor what)
{
	FairGroup  *group = group_table_try_lock(queue, class, name, v, what);

	if (group == NULL)
		group_table_no_entry(name);
	return group;
}

/*
 * Lock the partition of a group that cannot be forgotten now, exclusively.
 */
FairGroup *
group_table_lock_number(uint32 number)
{
	FairGroup  *group = &group_entries[number];

	Assert(number < group_table->free.high_water && group->in_use);
	LWLockAcquire(group_table_partition(group_table_hash(&group->key)), LW_EXCLUSIVE);
	return group;
}

/* A queue is gone: a group has nothing any more. */
static void
empty_entry(FairGroup *group)
{
	group->ready = 0;
	group->pending = 0;
	group->overflow = 0;
	if (group->line.lane == 0)
		return;
	(void) group_table_lock_number(group - group_entries);
	turn_lines_forget(group, true);
	group_table_unlock(group);
}

static void
forget_entry(FairGroup *group)
{
	if (unlink_if_idle(group, NULL, false))
		give_entry(group - group_entries);
}

/* Do something to each group of a queue that is divided, or is not. */
static void
for_entries_of(int queue, bool divided, void (*work) (FairGroup *group))
{
	AssertLockedExclusively(&group_table->creation_lock);
	for (uint32 i = 0; i < group_table->free.high_water; i++)
	{
		FairGroup  *group = &group_entries[i];

		if (group->in_use && group->key.queue == queue && group->divided == divided)
			work(group);
	}
}

/*
 * Free the groups of a queue that is gone: subgroups first.  None of them is
 * forgotten while its limit has tasks parked in another class.
 */
void
group_table_forget_queue(int queue)
{
	LWLockAcquire(&group_table->creation_lock, LW_EXCLUSIVE);
	for_entries_of(queue, false, empty_entry);
	for_entries_of(queue, true, empty_entry);
	for_entries_of(queue, false, forget_entry);
	for_entries_of(queue, true, forget_entry);
	LWLockRelease(&group_table->creation_lock);
}
