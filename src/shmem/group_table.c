/*-------------------------------------------------------------------------
 *
 * group_table.c
 *	  The entries of groups in shared memory.
 *
 * There is one for each group, queue and priority class that has work.  One
 * that has none is forgotten when its entry is wanted (group_forget.c).
 *
 * A group's key is known by 128 bits of hash, with a seed that is new at each
 * start of the server.  Should two keys ever collide (one in 10^26 with a
 * million groups) they would share one place in the fair order, no more.
 *
 * Of a group that is divided each subgroup has an entry, too, which leads to
 * that of the group: so that is not forgotten while there are some, and made
 * before them.  They are in the group's partition, so that who has that locked
 * has both.
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
 * taken after.  So a claim or an enqueue of a group that has work takes one
 * lock here, and those of different groups mostly different ones; what comes
 * and goes is in line for the creation lock.
 *
 * A number is the fast way to an entry, for who has counted a task there
 * (group_table_lock_number); a number of before is looked at again under the
 * locks (group_table_lock_hint), and a name is searched.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "common/settings.h"
#include "common/shared_memory.h"
#include "shmem/group_private.h"
#include "shmem/groups.h"
#include "shmem/queue_state.h"

/*
 * The memory for pgfairq.max_groups entries and their chains (invariant I10).
 */
Size
group_table_shmem_size(void)
{
	return fixed_table_size(sizeof(GroupTable), settings_max_groups, sizeof(FairGroup));
}

/*
 * Set up the table, all of whose entries are free, or find it (found).  Entries
 * are aligned to cache lines, and what is compared in a heap of turns lies in
 * one of them, slot and line together: with many groups a claim pays for each
 * line that it looks at.
 *
 * Called by the postmaster, and by each backend where backends do not inherit
 * its memory.
 */
void
group_table_shmem_init(void *area, bool found)
{
	group_table = area;
	group_entries = fixed_table_init(area, sizeof(GroupTable), settings_max_groups, found,
									 &group_chains, &group_chain_mask);
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

/*
 * What a group is known by: the hashes of its key, its queue and its class.
 * The partition is worked out from the key of the group, also for a subgroup,
 * whose name has that: so one lock is that of both levels.  above is set by who
 * makes the entry; it is no part of what is compared (group_key_equal).
 */
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

/*
 * The entry of a key in its chain, or NULL.  A chain changes under the creation
 * lock, held exclusively, and its partition's: so the caller holds either.  A
 * group that is found is in use, as none that is forgotten is in a chain, and
 * stays for as long as the caller holds that lock.
 */
static FairGroup *
search_chain(uint32 hash, const GroupKey *key)
{
	uint32		number = group_chains[hash & group_chain_mask];

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

/*
 * The chain of a hash has groups in use of that chain, and comes to an end:
 * none leads to itself, nor beyond what was ever used.  A ring of two or more
 * in it is not found here, but by whoever searches.  The partition is locked.
 */
static void
check_chain(uint32 hash)
{
	uint32		number = group_chains[hash & group_chain_mask];

	AssertLocked(group_table_partition(hash));
	for (int i = 0; i < CHECK_LINKS && number != FAIRQ_NO_GROUP; i++)
	{
		const FairGroup *group = &group_entries[number];

		Assert(number < group_table->free.high_water && group->in_use);
		Assert((group_table_hash(&group->key) & group_chain_mask) == (hash & group_chain_mask));
		Assert(group->hash_next != number);
		number = group->hash_next;
	}
}

/*
 * The ring of an order has groups in use of that order only, and no loose end.
 * The creation lock is held.
 */
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
 * Are at least half of all entries free?  Then no group has more subgroups than
 * there are entries left, so that none is refused one.  Without the lock: as it
 * was a moment ago.
 */
bool
group_table_is_half_free(void)
{
	return ((volatile GroupTable *) group_table)->used <= (uint32) settings_max_groups / 2;
}

/*
 * Find a group, or NULL.  *lock is the lock of its partition, which is locked
 * in this mode then, also if there is none: the caller releases it.  While it
 * holds that lock no group of the partition is made or forgotten, so that NULL
 * stays true as well.
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
 * Count n ready tasks (n < 0: off), at each level and once for the queue.  The
 * caller holds the partition's lock exclusively.
 *
 * The queue's count is the sum over its groups, without subgroups.  It is added
 * to without a common lock, so it may be off by what others are about to add:
 * enqueues compare it with max_ready (groups_tag), for which that will do.
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
 * Count n tasks of the overflow (n < 0: off), at each level.  The caller holds
 * the partition's lock exclusively.  For the queue as a whole the overflow is
 * counted in its tallies (stats.c), by the rows that are written.
 */
void
group_table_count_overflow(FairGroup *group, int n)
{
	AssertGroupLockedExclusively(group);
	FOR_LEVELS(level, group)
		level->overflow += n;
}

/*
 * An entry for a new group of an order, in its ring and with a slot; NULL if
 * all are taken.  The creation lock is held exclusively; those of partitions
 * are taken by turns under it.
 *
 * It first looks at the next two groups of the ring, as the hand of a clock
 * goes round, and takes over the entry of one that can be forgotten at v, with
 * its place in the ring and its slot.  Two looks for each newcomer are enough
 * for there to be no more than about twice as many entries as there are groups
 * with work: the hand comes round once while half as many come as there are.
 *
 * Why the slot may be used again is said in group_forget.c.  One that never was
 * is the next number of the order.
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
		if (group_forget_if_idle(group, &v, false))
			return group;
	}

	/*
	 * Neither of them can go: one that was freed before, or that never was
	 * used.
	 */
	number = free_entries_take(&group_table->free, settings_max_groups, group_entries,
							   ring_next);
	if (number == FAIRQ_NO_GROUP)
		return NULL;
	group = &group_entries[number];
	Assert(!group->in_use);
	group_table->used++;
	group->slot = order->next_slot++ % FAIRQ_SLOTS;
	/* It comes into the ring behind the hand, and is the hand then. */
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

/*
 * Make an entry that of a new group, without tasks, line or limit.  It has been
 * taken out of its chain and keeps its slot and its place in the ring.  A
 * subgroup begins at 0, which is not beyond virtual time between those of its
 * group; a group begins at v, so that it has no credit from before.
 *
 * The creation lock and the partition's are held exclusively.  Who looks at the
 * fields without them sees those of the group before or of this one: such looks
 * are hints.
 */
static void
init_entry(FairGroup *group, const GroupKey *key, const GroupName *name, VirtualTime v)
{
	AssertLockedExclusively(&group_table->creation_lock);
	AssertLockedExclusively(group_table_partition(group_table_hash(key)));
	*group = (FairGroup) {
		.key = *key,
		.slot = group->slot,
		.ring_next = group->ring_next,
		.finish = name->subgroup ? (VirtualTime) {0, 0} : v,
		.divided = name->divided,
		.since = v_none,
		.limit = NO_LIMIT,
		.seconds = -1,
		.keylen = Min(name->len, PG_UINT16_MAX),
	};
	memcpy(group->shown, name->text, Min(name->len, GROUP_KEY_SHOWN));
	if (name->len > GROUP_KEY_SHOWN)
		group_id(name->text, name->len, &group->id);
	group->in_use = true;
}

/*
 * How many subgroups a group has, in all classes of its queue: as many entries
 * as it can have filled with keys that were made up.  The creation lock is held
 * exclusively, under which the count of each is changed.
 */
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
 * group, which is made first and counts the subgroup from then on, so that it
 * is not the next to be forgotten.  NULL: there is none to be had; *many is set
 * if its group has very many, for which the groups of all queues are not to be
 * looked at again and again.
 *
 * The caller holds the creation lock exclusively, and no partition's.  On
 * return the entry is in its chain and its ring, knows its limit, and is not
 * locked; nothing is counted in it, but it stays for as long as the creation
 * lock is held.
 *
 * A task that comes may be refused an entry for its subgroup: where less than
 * half of all are free a group has at most as many as are left to others
 * (ENTRY_NEW_TASK).  A task that is there may not.
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
			*many |= n > (uint32) settings_max_groups / GROUP_RECLAIM_PART;
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

	/*
	 * With the creation lock held: who makes a limit goes through the
	 * classes of its group with that lock, after the limit can be found
	 * (in_all_classes).
	 */
	if (pg_atomic_read_u32(&queue->limits.entries) > 0)
		group->limit = limit_table_find(key.queue, name, true);
	group->hash_next = group_chains[hash & group_chain_mask];
	group_chains[hash & group_chain_mask] = group - group_entries;
	check_chain(hash);
	check_ring(&queue->orders[class], &key);
	LWLockRelease(lock);
	return group;
}

/*
 * Find a group, made if there is none; returns with its partition locked
 * exclusively.  NULL: no entry is to be had, and none is locked.
 *
 * *v is where a group that is made begins; NULL: at virtual time, which is read
 * for that alone.  Who gives several tasks their places at once has read it
 * before, so that all begin level (placement.c); who reads rows has v_none.
 * Groups that are not beyond it may be forgotten for this one.
 *
 * The caller holds no lock of ours, for the directory lock and the creation
 * lock may be taken here.  Most calls find the group in its chain, at the cost
 * of one lock.  Else it is made with the creation lock held, and its partition
 * is locked before that is released, so that the group is not forgotten in
 * between.
 *
 * If no entry is free those of groups without work are freed, up to twice: of
 * what goes the first time, lines and subgroups, the groups themselves go the
 * second.  Not for a claim that can do without an entry, nor for a group that
 * has very many subgroups, soon after that was in vain (group_forget_idle).
 */
FairGroup *
group_table_try_lock(QueueState *queue, int class, const GroupName *name, const VirtualTime *v,
					 EntryFor what)
{
	GroupKey	key = key_of(queue, class, name);
	uint32		hash = group_table_hash(&key);
	LWLock	   *lock = group_table_partition(hash);
	int			reclaims = 2;	/* a group goes after its subgroups and lines */
	VirtualTime begins = v_none;

	AssertNotLocked(&group_table->creation_lock);
	for (;;)
	{
		FairGroup  *group;
		bool		rests = (what == ENTRY_UNCOUNTED);

		LWLockAcquire(lock, LW_EXCLUSIVE);
		group = search_chain(hash, &key);
		if (group != NULL)
			return group;
		LWLockRelease(lock);

		/* Before entries are freed, which may end the busy period. */
		if (reclaims == 2)
			begins = v != NULL ? *v : queue_order_virtual_time(&queue->orders[class]);
		LWLockAcquire(&group_table->creation_lock, LW_EXCLUSIVE);
		group = make_entry(queue, class, name, begins, what, &rests);
		if (group != NULL)
			LWLockAcquire(lock, LW_EXCLUSIVE);
		LWLockRelease(&group_table->creation_lock);
		if (group != NULL)
			return group;
		if (reclaims-- == 0 || !group_forget_idle(!rests))
			return NULL;
	}
}

/*
 * All entries are taken, or, for the subgroups of a group, as many as are left.
 * name: NULL, if the group is not known.  Fails always: so the caller holds no
 * lock of ours, and has noted what is to be undone.
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
 * held and nothing changed.
 */
FairGroup *
group_table_lock(QueueState *queue, int class, const GroupName *name, const VirtualTime *v,
				 EntryFor what)
{
	FairGroup  *group = group_table_try_lock(queue, class, name, v, what);

	if (group == NULL)
		group_table_no_entry(name);
	return group;
}

/*
 * As group_table_lock_number, of a number that is a hint: the group may have
 * been forgotten, and the entry be another group's, of any queue, which the
 * caller finds by its key or its slot.  NULL, with nothing locked, if the entry
 * is not in use.
 *
 * The key says which partition it is, and may change until the creation lock is
 * held, in shared mode; from then on the partition's lock keeps the group.
 */
FairGroup *
group_table_lock_hint(uint32 number)
{
	FairGroup  *group = &group_entries[number];

	AssertNotLocked(&group_table->creation_lock);
	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	group = group->in_use ? group_table_lock_number(number) : NULL;
	LWLockRelease(&group_table->creation_lock);
	return group;
}
