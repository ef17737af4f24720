/*-------------------------------------------------------------------------
 *
 * replenished_tasks.c
 *	  Which tasks of the overflow have been given entries, and count as ready.
 *
 * When a group is replenished, a task of its overflow gets an entry in a lane,
 * and its row stays as it is (replenish_overflow.c).  From then on its group
 * counts it as ready, until it is leased or removed.  Neither its row says so
 * nor, for certain, its place: that may be in a window, parked, in a claimer's
 * hands, or lost.  So it is noted here, and whoever takes the task away knows
 * which of the group's two counts it was in.
 *
 * A hash table with as many entries as places can be had for some lanes that
 * are full of them; who finds it full writes the task's row instead.
 *
 * Locking: the lock of a partition guards its chains; it is taken last of all.
 * A task is entered or taken out together with its group's counts, under the
 * lock of the group's partition.  A spinlock guards the free entries.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "common/contracts.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "shmem/fixed_table.h"
#include "shmem/queue_state.h"
#include "shmem/replenished_tasks.h"

#define PARTITIONS		64

/* Tasks for each lane that there may be, and in all at least. */
#define TASKS_OF_LANE	64
#define LEAST_TASKS		4096

typedef struct RefilledEntry
{
	int64		task;
	int			queue;
	uint32		next;			/* in its chain, or in the free list */
} RefilledEntry;

typedef struct RefilledTable
{
	slock_t		mutex;			/* guards the next */
	FreeEntries free;
	LWLockPadded partitions[PARTITIONS];
} RefilledTable;

static RefilledTable *table = NULL;
static uint32 *chains = NULL;
static RefilledEntry *entries = NULL;
static uint32 chain_mask;

static uint32
entries_wanted(void)
{
	return Max((uint32) settings_max_lanes * TASKS_OF_LANE, LEAST_TASKS);
}

Size
replenished_tasks_shmem_size(void)
{
	return fixed_table_size(sizeof(RefilledTable), entries_wanted(), sizeof(RefilledEntry));
}

void
replenished_tasks_shmem_init(void *area, bool found)
{
	table = area;
	entries = fixed_table_init(area, sizeof(RefilledTable), entries_wanted(), found,
							   &chains, &chain_mask);
	if (found)
		return;
	SpinLockInit(&table->mutex);
	table->free = all_entries_free;
	for (int i = 0; i < PARTITIONS; i++)
		LWLockInitialize(&table->partitions[i].lock,
						 shared_memory_tranche(FAIRQ_TRANCHE_GROUP));
}

static inline uint32
hash_of(int queue, int64 task)
{
	return murmurhash32(murmurhash32((uint32) (task >> 32) * 16384 + queue) + (uint32) task);
}

/* The lock of a chain. */
static inline LWLock *
lock_of(uint32 hash)
{
	return &table->partitions[(hash & chain_mask) % PARTITIONS].lock;
}

#ifdef USE_ASSERT_CHECKING

/* So many links of a chain are looked at. */
#define CHECK_LINKS		32

/* A chain has tasks of that chain, and comes to an end. */
static void
check_chain(uint32 hash)
{
	uint32		number = chains[hash & chain_mask];

	AssertLocked(lock_of(hash));
	for (int i = 0; i < CHECK_LINKS && number != NO_ENTRY; i++)
	{
		const RefilledEntry *entry = &entries[number];

		Assert(number < entries_wanted());
		Assert((hash_of(entry->queue, entry->task) & chain_mask) == (hash & chain_mask));
		Assert(entry->next != number);
		number = entry->next;
	}
}

#else
#define check_chain(hash)	((void) 0)
#endif

/*
 * What leads to a task's entry; to NO_ENTRY if it has none.
 */
static uint32 *
link_to(uint32 hash, int queue, int64 task)
{
	uint32	   *link = &chains[hash & chain_mask];

	AssertLocked(lock_of(hash));
	check_chain(hash);
	while (*link != NO_ENTRY &&
		   (entries[*link].task != task || entries[*link].queue != queue))
		link = &entries[*link].next;
	return link;
}

static uint32
new_entry(void)
{
	uint32		number;

	SpinLockAcquire(&table->mutex);
	number = free_entries_take(&table->free, entries_wanted(), entries, next);
	SpinLockRelease(&table->mutex);
	return number;
}

/* Take the entry out that a link leads to. */
static void
remove_entry(uint32 *link)
{
	uint32		number = *link;

	AssertLockedExclusively(lock_of(hash_of(entries[number].queue, entries[number].task)));
	Assert(entries[number].task != 0);
	*link = entries[number].next;
	pg_atomic_fetch_sub_u32(&queue_state_by_number(entries[number].queue)->counts.replenished_tasks,
							1);
	SpinLockAcquire(&table->mutex);
	free_entries_give(&table->free, number, &entries[number].next);
	SpinLockRelease(&table->mutex);
}

/*
 * A task counts as ready from now on, unless there is no room.
 */
ReplenishedTask
replenished_tasks_add(int queue, int64 task)
{
	uint32		hash = hash_of(queue, task);
	ReplenishedTask result = REPLENISHED_KNOWN;

	Assert(task != 0);
	LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
	if (*link_to(hash, queue, task) == NO_ENTRY)
	{
		uint32		number = new_entry();

		result = (number == NO_ENTRY) ? REPLENISHED_NO_ROOM : REPLENISHED_NEW;
		if (result == REPLENISHED_NEW)
		{
			entries[number].task = task;
			entries[number].queue = queue;
			entries[number].next = chains[hash & chain_mask];
			chains[hash & chain_mask] = number;
			pg_atomic_fetch_add_u32(&queue_state_by_number(queue)->counts.replenished_tasks, 1);
		}
	}
	LWLockRelease(lock_of(hash));
	return result;
}

/*
 * A task does not count as ready any more.  Returns whether it did.
 */
bool
replenished_tasks_take(int queue, int64 task)
{
	uint32		hash = hash_of(queue, task);
	uint32	   *link;
	bool		found;

	if (pg_atomic_read_u32(&queue_state_by_number(queue)->counts.replenished_tasks) == 0)
		return false;
	LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
	link = link_to(hash, queue, task);
	found = (*link != NO_ENTRY);
	if (found)
		remove_entry(link);
	LWLockRelease(lock_of(hash));
	return found;
}

/*
 * Does a task of the overflow count as ready?
 */
bool
replenished_tasks_has(int queue, int64 task)
{
	uint32		hash = hash_of(queue, task);
	bool		found;

	if (pg_atomic_read_u32(&queue_state_by_number(queue)->counts.replenished_tasks) == 0)
		return false;
	LWLockAcquire(lock_of(hash), LW_SHARED);
	found = (*link_to(hash, queue, task) != NO_ENTRY);
	LWLockRelease(lock_of(hash));
	return found;
}

/*
 * The tasks of a queue are counted anew, or it is gone.
 */
void
replenished_tasks_forget_queue(int queue)
{
	if (pg_atomic_read_u32(&queue_state_by_number(queue)->counts.replenished_tasks) == 0)
		return;
	for (uint32 i = 0; i <= chain_mask; i++)
	{
		uint32	   *link = &chains[i];

		/* Without the lock first: most are empty. */
		if (*(volatile uint32 *) link == NO_ENTRY)
			continue;
		LWLockAcquire(lock_of(i), LW_EXCLUSIVE);
		while (*link != NO_ENTRY)
		{
			if (entries[*link].queue == queue)
				remove_entry(link);
			else
				link = &entries[*link].next;
		}
		LWLockRelease(lock_of(i));
	}
}
