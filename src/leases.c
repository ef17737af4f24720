/*-------------------------------------------------------------------------
 *
 * leases.c
 *	  Leases: who may work on which task until when.
 *
 * A claim does not touch the task's row.  That a task is leased is known here
 * and nowhere else; this table and the row are what invariant I2 (no two live
 * leases on one task) rests on.  A crash forgets all leases, and the tasks are
 * delivered again.
 *
 * An entry is 72 bytes.  It is found in two ways:
 *
 *	 by task: a hash table of chains, in partitions with a lock each;
 *	 by receipt: the receipt is a uuid that holds the entry's number, and a
 *	 token that is new with every lease, so that an old receipt finds nothing.
 *
 * and is in one list of its partition's timing wheel, for its deadline (George
 * Varghese and Tony Lauck, "Hashed and Hierarchical Timing Wheels", SOSP 1987):
 * WHEEL_SLOTS lists for a tick of TICK_USECS each, round and round.  A lease
 * that runs longer than a round is looked at once a round.  When its tick has
 * passed it goes to the list of the expired, from where its task is put back
 * (settle.c).  So it takes no scan to know what has expired.
 *
 * A lease is held, or settling: its task's row is being deleted or changed by
 * a transaction in progress, and until that ends the lease does not expire.
 *
 * A durable lease has a row in a table, too (durable_leases.c), from which it is
 * restored after a crash.  What is known of that is in a second array, which
 * costs nothing where there are none.  A restored lease has another entry than
 * before, so that its receipt does not lead to it: it is moved, and found by its
 * token in chains of their own.
 *
 * Locking: the lock of the partition guards its chains, its wheel and the
 * entries in them.  The lock of the free list guards the free list, the lock of
 * the moved guards their chains: while it is held the leases in them stay as
 * they are.  A partition may be locked before either, not after.  A claim grants a lease while
 * it has a share lock on the row's page (see claim.c for why), so nothing here
 * looks at a page.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "groups.h"
#include "leases.h"
#include "queue_state.h"
#include "sessions.h"
#include "settings.h"
#include "shared_state.h"
#include "wakeup.h"

#define PARTITIONS		256
#define WHEEL_SLOTS		1024
#define WHEEL_EXPIRED	WHEEL_SLOTS /* one list more */
#define TICK_USECS		INT64CONST(50000)
#define NO_ENTRY		PG_UINT32_MAX

/* How often a lease that is settling past its deadline is looked at: 1 s. */
#define SETTLING_TICKS	20

/* A token has 62 bits; the uuid's variant takes the other two. */
#define TOKEN_MASK		((UINT64CONST(1) << 62) - 1)

typedef enum LeaseState
{
	LEASE_FREE,
	LEASE_HELD,
	LEASE_SETTLING
} LeaseState;

typedef struct Lease
{
	int64		task;
	uint64		token;
	TimestampTz deadline;
	ItemPointerData tid;
	uint16		queue;
	uint32		hash_next;		/* next in the chain, or in the free list */
	uint32		wheel_next;
	uint32		wheel_prev;
	uint16		wheel_slot;
	uint8		partition;
	uint8		state:4;		/* a LeaseState */
	uint8		durable:1;		/* durables[] says more */
	uint8		moved:1;		/* and its receipt, too */
	uint8		closing:1;		/* its transaction has looked for a held task */
	int32		attempt;
	int32		pid;
	uint32		session;
	uint32		group;
	TimestampTz started;
} Lease;

/* Of a durable lease; guarded as the entry is. */
typedef struct DurablePart
{
	ItemPointerData tid;		/* where its row was seen */
	uint32		moved_next;		/* moved_lock: next in the chain */
	uint64		receipt;		/* if it is moved: the first half of its receipt */
} DurablePart;

#define MOVED_CHAINS	4096

typedef struct Partition
{
	LWLock		lock;
	int64		tick;			/* the wheel has been turned up to this one */
	uint32		used;			/* entries */
	uint32		wheel[WHEEL_SLOTS + 1];
} Partition;

typedef struct LeaseTable
{
	LWLock		free_lock;
	uint32		free_head;		/* free_lock: entries that were used before */
	uint32		high_water;		/* free_lock: entries from here on never were */
	uint32		salt;			/* 28 bits, new at each start */
	pg_atomic_uint64 tick;		/* some process turns, or turned, the wheels to
								 * this one */
	LWLock		moved_lock;
	uint32		moved[MOVED_CHAINS];	/* moved_lock */
	Partition	partitions[PARTITIONS];
} LeaseTable;

static LeaseTable *table = NULL;
static uint32 *chains = NULL;
static Lease *entries = NULL;
static DurablePart *durables = NULL;
static uint32 chain_mask;

/* Entries that this backend took off the free list and has not used yet. */
static uint32 *reserved = NULL;
static int	reserved_count = 0;
static int	reserved_size = 0;

/* Of this backend, seeded from a strong source. */
static pg_prng_state token_state;
static bool token_seeded = false;

#define TABLE_SIZE	CACHELINEALIGN(sizeof(LeaseTable))

static uint32
chains_wanted(void)
{
	return pg_nextpower2_32(Max(settings_max_leases, PARTITIONS));
}

Size
leases_shmem_size(void)
{
	Size		size = TABLE_SIZE;

	size = add_size(size, CACHELINEALIGN(mul_size(chains_wanted(), sizeof(uint32))));
	size = add_size(size, CACHELINEALIGN(mul_size(settings_max_leases, sizeof(Lease))));
	return add_size(size, mul_size(settings_max_leases, sizeof(DurablePart)));
}

void
leases_shmem_init(void *area, bool found)
{
	char	   *p = area;

	table = (LeaseTable *) p;
	p += TABLE_SIZE;
	chains = (uint32 *) p;
	p += CACHELINEALIGN(mul_size(chains_wanted(), sizeof(uint32)));
	entries = (Lease *) p;
	p += CACHELINEALIGN(mul_size(settings_max_leases, sizeof(Lease)));
	durables = (DurablePart *) p;
	chain_mask = chains_wanted() - 1;
	if (found)
		return;

	LWLockInitialize(&table->free_lock,
					 shared_state_tranche(FAIRQ_TRANCHE_LEASE_FREE));
	table->free_head = NO_ENTRY;
	table->high_water = 0;
	if (!pg_strong_random(&table->salt, sizeof(table->salt)))
		table->salt = (uint32) GetCurrentTimestamp();
	table->salt &= 0xFFFFFFF;
	pg_atomic_init_u64(&table->tick, 0);
	LWLockInitialize(&table->moved_lock, shared_state_tranche(FAIRQ_TRANCHE_LEASE));
	memset(table->moved, 0xFF, sizeof(table->moved));
	for (int i = 0; i < PARTITIONS; i++)
	{
		Partition  *partition = &table->partitions[i];

		LWLockInitialize(&partition->lock,
						 shared_state_tranche(FAIRQ_TRANCHE_LEASE));
		partition->tick = 0;
		partition->used = 0;
		for (int j = 0; j <= WHEEL_SLOTS; j++)
			partition->wheel[j] = NO_ENTRY;
	}
	memset(chains, 0xFF, mul_size(chains_wanted(), sizeof(uint32)));
}

static inline uint32
lease_hash(int queue, int64 task)
{
	return murmurhash32(murmurhash32((uint32) (task >> 32) * 16384 + queue) + (uint32) task);
}

static inline Partition *
partition_of(uint32 hash)
{
	return &table->partitions[hash % PARTITIONS];
}

static uint64
new_token(void)
{
	uint64		token;

	if (!token_seeded)
	{
		uint64		seed;

		if (!pg_strong_random(&seed, sizeof(seed)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate random values for receipts")));
		pg_prng_seed(&token_state, seed);
		token_seeded = true;
	}
	do
		token = pg_prng_uint64(&token_state) & TOKEN_MASK;
	while (token == 0);
	return token;
}

/* ----------------------------------------------------------------
 * The wheel.  The partition is locked exclusively.
 * ----------------------------------------------------------------
 */

static void
wheel_link(Partition *partition, uint32 number, int slot)
{
	Lease	   *lease = &entries[number];
	uint32		head = partition->wheel[slot];

	lease->wheel_slot = slot;
	lease->wheel_prev = NO_ENTRY;
	lease->wheel_next = head;
	if (head != NO_ENTRY)
		entries[head].wheel_prev = number;
	partition->wheel[slot] = number;
	if (slot == WHEEL_EXPIRED)
		pg_atomic_fetch_add_u32(&queue_state_by_number(lease->queue)->expired, 1);
}

static void
wheel_unlink(Partition *partition, uint32 number)
{
	Lease	   *lease = &entries[number];

	if (lease->wheel_prev == NO_ENTRY)
		partition->wheel[lease->wheel_slot] = lease->wheel_next;
	else
		entries[lease->wheel_prev].wheel_next = lease->wheel_next;
	if (lease->wheel_next != NO_ENTRY)
		entries[lease->wheel_next].wheel_prev = lease->wheel_prev;
	if (lease->wheel_slot == WHEEL_EXPIRED)
		pg_atomic_fetch_sub_u32(&queue_state_by_number(lease->queue)->expired, 1);
}

/* Link a lease where its deadline, rounded up to a tick, belongs. */
static void
wheel_schedule(Partition *partition, uint32 number)
{
	int64		tick = entries[number].deadline / TICK_USECS + 1;

	tick = Max(tick, partition->tick + 1);
	wheel_link(partition, number, tick % WHEEL_SLOTS);
}

/*
 * Turn the wheel of a partition to a tick: what has expired goes to the list
 * of the expired; what is settling, or runs for another round, stays.
 */
static void
wheel_turn(Partition *partition, int64 tick, TimestampTz now)
{
	int64		from;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	from = Max(partition->tick + 1, tick - WHEEL_SLOTS + 1);
	partition->tick = Max(partition->tick, tick);
	for (int64 t = from; t <= tick; t++)
	{
		uint32		number = partition->wheel[t % WHEEL_SLOTS];

		while (number != NO_ENTRY)
		{
			Lease	   *lease = &entries[number];
			uint32		next = lease->wheel_next;

			if (lease->deadline <= now)
			{
				wheel_unlink(partition, number);
				if (lease->state == LEASE_SETTLING)
					wheel_link(partition, number, (tick + SETTLING_TICKS) % WHEEL_SLOTS);
				else
				{
					wheel_link(partition, number, WHEEL_EXPIRED);

					/* Whoever turns the wheel may be of another database. */
					wakeup_at(queue_state_by_number(lease->queue)->database, now);
				}
			}
			number = next;
		}
	}
	LWLockRelease(&partition->lock);
}

/*
 * Look once a tick what has expired.  The first caller of a tick does the work, which is in proportion to what expires.
 */
void
leases_tick(TimestampTz now)
{
	int64		tick = now / TICK_USECS;
	uint64		turned = pg_atomic_read_u64(&table->tick);

	if ((int64) turned >= tick ||
		!pg_atomic_compare_exchange_u64(&table->tick, &turned, tick))
		return;
	for (int i = 0; i < PARTITIONS; i++)
		wheel_turn(&table->partitions[i], tick, now);
}

/* ----------------------------------------------------------------
 * Free entries
 * ----------------------------------------------------------------
 */

/*
 * Take up to n entries off the free list, for leases_grant to use.  Returns
 * how many there are; the caller returns what it did not use (if it fails,
 * leases_return_reserved is called at the end of the transaction).
 */
int
leases_reserve(int n)
{
	if (reserved_count > 0)
		leases_return_reserved();
	if (n > reserved_size)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		if (reserved != NULL)
			pfree(reserved);
		reserved = NULL;
		reserved_size = 0;
		reserved = palloc(n * sizeof(uint32));
		reserved_size = n;
		MemoryContextSwitchTo(old);
	}

	LWLockAcquire(&table->free_lock, LW_EXCLUSIVE);
	while (reserved_count < n)
	{
		if (table->free_head != NO_ENTRY)
		{
			reserved[reserved_count] = table->free_head;
			table->free_head = entries[table->free_head].hash_next;
		}
		else if (table->high_water < (uint32) settings_max_leases)
			reserved[reserved_count] = table->high_water++;
		else
			break;
		reserved_count++;
	}
	LWLockRelease(&table->free_lock);
	return reserved_count;
}

void
leases_return_reserved(void)
{
	if (reserved_count == 0)
		return;
	LWLockAcquire(&table->free_lock, LW_EXCLUSIVE);
	while (reserved_count > 0)
	{
		Lease	   *lease = &entries[reserved[--reserved_count]];

		lease->state = LEASE_FREE;
		lease->token = 0;
		lease->hash_next = table->free_head;
		table->free_head = lease - entries;
	}
	LWLockRelease(&table->free_lock);
}

static void
free_entry(uint32 number)
{
	LWLockAcquire(&table->free_lock, LW_EXCLUSIVE);
	entries[number].hash_next = table->free_head;
	table->free_head = number;
	LWLockRelease(&table->free_lock);
}

/* ----------------------------------------------------------------
 * Leases
 * ----------------------------------------------------------------
 */

static void
copy_lease(uint32 number, LeaseInfo *info)
{
	const Lease *lease = &entries[number];

	info->ref.entry = number;
	info->ref.token = lease->token;
	info->queue = lease->queue;
	info->task = lease->task;
	info->tid = lease->tid;
	info->deadline = lease->deadline;
	info->attempt = lease->attempt;
	info->pid = lease->pid;
	info->session = lease->session;
	info->group = lease->group;
	info->started = lease->started;
	info->settling = (lease->state == LEASE_SETTLING);
	info->durable = lease->durable;
	if (lease->durable)
		info->durable_tid = durables[number].tid;
	info->receipt = lease->moved ? durables[number].receipt : 0;
}

static uint32
search_chain(uint32 hash, int queue, int64 task)
{
	uint32		number = chains[hash & chain_mask];

	while (number != NO_ENTRY &&
		   (entries[number].task != task || entries[number].queue != queue))
		number = entries[number].hash_next;
	return number;
}

/*
 * Grant a lease on a task, if nobody has one.
 *
 * attempt is its number, started is now, deadline when it ends, session whose
 * it is (or of number NO_SESSION), and group that of the task, which counts it already
 * (groups_lease_begins).  There is a reserved entry.
 * The caller holds the page of the row locked, so nobody can delete it between
 * the caller's look and the lease.  A lease that has run out is a lease until
 * its task is put back.
 */
LeaseGrant
leases_grant(int queue, int64 task, const ItemPointerData *tid, int attempt,
			 TimestampTz started, TimestampTz deadline, const SessionRef *session,
			 uint32 group, LeaseInfo *info)
{
	uint32		hash = lease_hash(queue, task);
	Partition  *partition = partition_of(hash);
	uint64		token = new_token();
	uint32		number;
	Lease	   *lease;

	Assert(reserved_count > 0);

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	number = search_chain(hash, queue, task);
	if (number != NO_ENTRY)
	{
		/*
		 * The caller has just seen where the row is.  If it was moved, by an
		 * UPDATE with SQL, its entry that led here was the only one; whoever
		 * gives the lease back offers the row from here.
		 */
		entries[number].tid = *tid;
		LWLockRelease(&partition->lock);
		return LEASE_BUSY;
	}
	if (session->number != NO_SESSION && !sessions_lease_begins(session))
	{
		LWLockRelease(&partition->lock);
		return LEASE_SESSION_OVER;
	}

	number = reserved[--reserved_count];
	lease = &entries[number];
	lease->task = task;
	lease->queue = queue;
	lease->partition = hash % PARTITIONS;
	lease->attempt = attempt;
	lease->state = LEASE_HELD;
	lease->durable = lease->moved = false;
	lease->closing = false;
	lease->token = token;
	lease->tid = *tid;
	lease->deadline = deadline;
	lease->pid = MyProcPid;
	lease->session = session->number;
	lease->group = group;
	lease->started = started;
	lease->hash_next = chains[hash & chain_mask];
	chains[hash & chain_mask] = number;
	partition->used++;
	wheel_schedule(partition, number);
	copy_lease(number, info);
	LWLockRelease(&partition->lock);
	return LEASE_GRANTED;
}

/* The first half of the receipt of a lease that is not moved. */
static inline uint64
usual_receipt(uint32 entry)
{
	return ((uint64) entry << 32) | ((table->salt >> 12) << 16) |
		(8 << 12) | (table->salt & 0xFFF);
}

/*
 * The receipt of a lease: entry, salt and token, in a uuid of version 8 (RFC
 * 9562: custom).  Every bit of it counts.
 */
void
leases_to_receipt(const LeaseInfo *lease, pg_uuid_t *receipt)
{
	uint64		high = lease->receipt != 0 ? lease->receipt : usual_receipt(lease->ref.entry);
	uint64		low = (UINT64CONST(2) << 62) | lease->ref.token;

	for (int i = 0; i < 8; i++)
	{
		receipt->data[i] = (uint8) (high >> (56 - 8 * i));
		receipt->data[8 + i] = (uint8) (low >> (56 - 8 * i));
	}
}

/* The parts of a receipt; false if it cannot be one. */
static bool
split_receipt(const pg_uuid_t *receipt, uint64 *high, uint64 *token)
{
	uint64		low = 0;

	*high = 0;
	for (int i = 0; i < 8; i++)
	{
		*high = (*high << 8) | receipt->data[i];
		low = (low << 8) | receipt->data[8 + i];
	}
	*token = low & TOKEN_MASK;
	return ((*high >> 12) & 0xF) == 8 && (low >> 62) == 2 && *token != 0;
}

/*
 * The lease that a receipt names, if it can be one of this server's that is
 * not moved.
 */
bool
leases_from_receipt(const pg_uuid_t *receipt, LeaseRef *ref)
{
	uint64		high;

	if (!split_receipt(receipt, &high, &ref->token))
		return false;
	ref->entry = high >> 32;
	return high == usual_receipt(ref->entry) &&
		ref->entry < (uint32) settings_max_leases;
}

/* The chain of moved leases with a token. */
static inline uint32 *
moved_chain(uint64 token)
{
	return &table->moved[token % MOVED_CHAINS];
}

/*
 * The moved lease of this database that a receipt names.  A database that was
 * made of another one has its leases, too, with their receipts.
 */
bool
leases_find_moved(const pg_uuid_t *receipt, LeaseRef *ref)
{
	uint64		high;
	uint32		number;

	if (!split_receipt(receipt, &high, &ref->token))
		return false;
	LWLockAcquire(&table->moved_lock, LW_SHARED);
	number = *moved_chain(ref->token);
	while (number != NO_ENTRY &&
		   (entries[number].token != ref->token || durables[number].receipt != high ||
			queue_state_by_number(entries[number].queue)->database != MyDatabaseId))
		number = durables[number].moved_next;
	LWLockRelease(&table->moved_lock);
	ref->entry = number;
	return number != NO_ENTRY;
}

/* The lease has a receipt that does not lead to it.  Partition locked. */
static void
move_lease(uint32 number, uint64 receipt)
{
	uint32	   *chain = moved_chain(entries[number].token);

	entries[number].moved = true;
	durables[number].receipt = receipt;
	LWLockAcquire(&table->moved_lock, LW_EXCLUSIVE);
	durables[number].moved_next = *chain;
	*chain = number;
	LWLockRelease(&table->moved_lock);
}

static void
unlink_moved(uint32 number)
{
	uint32	   *link = moved_chain(entries[number].token);

	LWLockAcquire(&table->moved_lock, LW_EXCLUSIVE);
	while (*link != number)
		link = &durables[*link].moved_next;
	*link = durables[number].moved_next;
	LWLockRelease(&table->moved_lock);
	entries[number].moved = false;
}

/*
 * Lock the partition of a lease, if the lease is still there.  The partition
 * of an entry may be read without a lock: if the entry is used for another
 * lease meanwhile, the token under the lock tells.
 */
static Partition *
lock_lease(const LeaseRef *ref, LWLockMode mode)
{
	Lease	   *lease = &entries[ref->entry];

	for (;;)
	{
		uint8		number = ((volatile Lease *) lease)->partition;
		Partition  *partition = &table->partitions[number];

		LWLockAcquire(&partition->lock, mode);
		if (lease->partition == number)
		{
			if (lease->state != LEASE_FREE && lease->token == ref->token)
				return partition;
			LWLockRelease(&partition->lock);
			return NULL;
		}
		LWLockRelease(&partition->lock);
	}
}

/*
 * Read a lease.  Returns false if it is over.
 */
bool
leases_look(const LeaseRef *ref, LeaseInfo *info)
{
	Partition  *partition = lock_lease(ref, LW_SHARED);

	if (partition == NULL)
		return false;
	copy_lease(ref->entry, info);
	LWLockRelease(&partition->lock);
	return true;
}

/*
 * The lease on a task.  Returns false if there is none.
 */
bool
leases_find(int queue, int64 task, LeaseInfo *info)
{
	uint32		hash = lease_hash(queue, task);
	Partition  *partition = partition_of(hash);
	uint32		number;

	LWLockAcquire(&partition->lock, LW_SHARED);
	number = search_chain(hash, queue, task);
	if (number != NO_ENTRY)
		copy_lease(number, info);
	LWLockRelease(&partition->lock);
	return number != NO_ENTRY;
}

/*
 * The transaction that settles a task's lease is going to look, for the last time,
 * whether another task is held behind it.  Should it fail the lease goes on
 * and says so still, for another one may have said so, too: a look too many.
 */
void
leases_closing(int queue, int64 task)
{
	uint32		hash = lease_hash(queue, task);
	Partition  *partition = partition_of(hash);
	uint32		number;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	number = search_chain(hash, queue, task);
	if (number != NO_ENTRY && entries[number].state == LEASE_SETTLING)
		entries[number].closing = true;
	LWLockRelease(&partition->lock);
}

/*
 * Is a task leased, and has who ends the lease yet to look for a task that is held
 * behind it?
 */
bool
leases_will_look(int queue, int64 task)
{
	uint32		hash = lease_hash(queue, task);
	Partition  *partition = partition_of(hash);
	uint32		number;
	bool		result;

	LWLockAcquire(&partition->lock, LW_SHARED);
	number = search_chain(hash, queue, task);
	result = (number != NO_ENTRY && !entries[number].closing);
	LWLockRelease(&partition->lock);
	return result;
}

static bool
begin_settling(const LeaseRef *ref, LeaseInfo *info, bool expired_only)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &entries[ref->entry];
	bool		held;

	if (partition == NULL)
		return false;
	held = (lease->state == LEASE_HELD &&
			(!expired_only || lease->wheel_slot == WHEEL_EXPIRED));
	if (held)
	{
		lease->state = LEASE_SETTLING;
		if (lease->wheel_slot == WHEEL_EXPIRED)
		{
			wheel_unlink(partition, ref->entry);
			wheel_schedule(partition, ref->entry);
		}
		copy_lease(ref->entry, info);
	}
	LWLockRelease(&partition->lock);
	return held;
}

/*
 * Begin to settle a lease.  Returns false if it is over, or somebody (the
 * caller included) is settling it already: then it is not the caller's any
 * more.  At the end of the transaction it is dropped or unsettled.
 */
bool
leases_settle(const LeaseRef *ref, LeaseInfo *info)
{
	return begin_settling(ref, info, false);
}

/*
 * The same for whoever puts back what has run out: not if the lease was
 * extended meanwhile.
 */
bool
leases_settle_expired(const LeaseRef *ref, LeaseInfo *info)
{
	return begin_settling(ref, info, true);
}

/*
 * The settling transaction failed: the lease is as it was, and if it should
 * have run out meanwhile it does.
 */
void
leases_unsettle(const LeaseRef *ref)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &entries[ref->entry];
	Oid			database = InvalidOid;

	if (partition == NULL)
		return;
	lease->state = LEASE_HELD;
	if (lease->deadline <= GetCurrentTimestamp() && lease->wheel_slot != WHEEL_EXPIRED)
	{
		wheel_unlink(partition, ref->entry);
		wheel_link(partition, ref->entry, WHEEL_EXPIRED);
		database = queue_state_by_number(lease->queue)->database;
	}
	LWLockRelease(&partition->lock);
	if (OidIsValid(database))
		wakeup_at(database, GetCurrentTimestamp() + TICK_USECS);
}

/* Unlink an entry from chain and wheel.  Partition locked exclusively. */
static void
remove_entry(Partition *partition, uint32 number)
{
	Lease	   *lease = &entries[number];
	uint32	   *link = &chains[lease_hash(lease->queue, lease->task) & chain_mask];

	while (*link != number)
		link = &entries[*link].hash_next;
	*link = lease->hash_next;
	wheel_unlink(partition, number);
	partition->used--;
	if (lease->moved)
		unlink_moved(number);
	if (lease->session != NO_SESSION)
		sessions_lease_ends(lease->session);
	lease->state = LEASE_FREE;
	lease->token = 0;
}

/*
 * End a lease, and say what it was (if info is not NULL): where its task's row
 * was seen last.  used: its task was worked on, which its group is told of.
 * Returns false if it was over already.
 */
bool
leases_drop(const LeaseRef *ref, bool used, LeaseInfo *info)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	uint32		group;
	TimestampTz started;

	if (partition == NULL)
		return false;
	group = entries[ref->entry].group;
	started = entries[ref->entry].started;
	if (info != NULL)
		copy_lease(ref->entry, info);
	remove_entry(partition, ref->entry);
	LWLockRelease(&partition->lock);
	free_entry(ref->entry);
	groups_lease_ends(group, used ? started : 0);
	return true;
}

/*
 * The claim of a lease was rolled back: end it, and say where the row was seen
 * last.  Returns false if there is nothing to offer, because the lease is over
 * or somebody else is settling it, with a receipt that was passed on before
 * the claim had committed.  It goes on for him then, and runs out at once
 * should he not settle it.
 */
bool
leases_give_back(const LeaseRef *ref, LeaseInfo *info)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &entries[ref->entry];
	uint32		group;

	if (partition == NULL)
		return false;
	if (lease->state == LEASE_SETTLING)
	{
		wheel_unlink(partition, ref->entry);
		lease->deadline = 0;
		lease->attempt--;
		wheel_schedule(partition, ref->entry);
		LWLockRelease(&partition->lock);
		return false;
	}
	copy_lease(ref->entry, info);
	group = lease->group;
	remove_entry(partition, ref->entry);
	LWLockRelease(&partition->lock);
	free_entry(ref->entry);
	groups_lease_ends(group, 0);
	return true;
}

/*
 * Move the deadline of a lease.  Returns false if it is over or settling.
 */
bool
leases_extend(const LeaseRef *ref, TimestampTz deadline, LeaseInfo *info)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &entries[ref->entry];
	bool		held;

	if (partition == NULL)
		return false;
	held = (lease->state == LEASE_HELD);
	if (held)
	{
		wheel_unlink(partition, ref->entry);
		lease->deadline = deadline;
		wheel_schedule(partition, ref->entry);
		copy_lease(ref->entry, info);
	}
	LWLockRelease(&partition->lock);
	return held;
}

/*
 * A lease that was kept over a restart is of this group, which counts it.
 */
void
leases_adopt(const LeaseRef *ref, uint32 group)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	bool		adopted = false;

	if (partition != NULL)
	{
		adopted = (entries[ref->entry].group == FAIRQ_NO_GROUP);
		if (adopted)
			entries[ref->entry].group = group;
		LWLockRelease(&partition->lock);
	}
	if (!adopted)
		groups_lease_ends(group, 0);
}

/*
 * A lease has a row in fairq.durable_lease now, or has it elsewhere.
 */
void
leases_set_durable(const LeaseRef *ref, const ItemPointerData *durable_tid)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);

	if (partition == NULL)
		return;
	entries[ref->entry].durable = true;
	durables[ref->entry].tid = *durable_tid;
	LWLockRelease(&partition->lock);
}

/*
 * Grant a lease as it was before a crash, unless it is there.  For a new one
 * there has to be a reserved entry.  If its session is over it has run out.
 */
LeaseRestored
leases_restore_durable(const DurableLease *durable, LeaseRef *ref)
{
	uint32		hash = lease_hash(durable->queue, durable->task);
	Partition  *partition = partition_of(hash);
	LeaseRestored result = LEASE_KNOWN;
	uint64		high;
	uint64		token;
	uint32		number;
	Lease	   *lease;

	if (!split_receipt(&durable->receipt, &high, &token))
		return LEASE_VOID;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	number = search_chain(hash, durable->queue, durable->task);
	if (number == NO_ENTRY && reserved_count == 0)
		result = LEASE_NO_ROOM;
	else if (number != NO_ENTRY && entries[number].token != token)
		result = LEASE_VOID;
	else if (number == NO_ENTRY)
	{
		result = LEASE_RESTORED;
		number = reserved[--reserved_count];
		lease = &entries[number];
		lease->task = durable->task;
		lease->queue = durable->queue;
		lease->partition = hash % PARTITIONS;
		lease->attempt = durable->attempt;
		lease->state = LEASE_HELD;
		lease->moved = false;
		lease->token = token;
		lease->tid = durable->tid;
		lease->deadline = durable->over ? 0 : durable->deadline;
		lease->pid = 0;
		lease->session = durable->over ? SESSION_OVER : NO_SESSION;
		lease->group = durable->group;
		lease->started = durable->started;
		lease->hash_next = chains[hash & chain_mask];
		chains[hash & chain_mask] = number;
		partition->used++;
		wheel_schedule(partition, number);
	}
	if (result == LEASE_RESTORED || result == LEASE_KNOWN)
	{
		lease = &entries[number];
		lease->durable = true;
		durables[number].tid = durable->durable_tid;
		if (!lease->moved && high != usual_receipt(number))
			move_lease(number, high);
		ref->entry = number;
		ref->token = lease->token;
	}
	LWLockRelease(&partition->lock);
	return result;
}

/*
 * A session is over: its leases have run out.  Looks at all leases there are,
 * for sessions that end with leases are few.
 */
void
leases_end_session(uint32 session)
{
	for (uint32 i = 0; i < table->high_water; i++)
	{
		Lease	   *lease = &entries[i];
		Partition  *partition;
		LeaseRef	ref;

		if (lease->state == LEASE_FREE || lease->session != session)
			continue;
		ref.entry = i;
		ref.token = lease->token;
		partition = lock_lease(&ref, LW_EXCLUSIVE);
		if (partition == NULL)
			continue;
		if (lease->session == session && lease->wheel_slot != WHEEL_EXPIRED)
		{
			wheel_unlink(partition, i);
			lease->deadline = 0;
			if (lease->state == LEASE_HELD)
				wheel_link(partition, i, WHEEL_EXPIRED);
			else
				wheel_schedule(partition, i);
		}
		LWLockRelease(&partition->lock);
	}
}

/*
 * The leases of a session, in a palloc'd array.  Returns how many.
 */
int
leases_of_session(uint32 session, LeaseRef **refs)
{
	int			n = 0;
	int			size = 64;

	*refs = palloc(size * sizeof(LeaseRef));
	for (uint32 i = 0; i < table->high_water; i++)
	{
		if (entries[i].state == LEASE_FREE || entries[i].session != session)
			continue;
		if (n == size)
		{
			size *= 2;
			*refs = repalloc_huge(*refs, size * sizeof(LeaseRef));
		}
		(*refs)[n].entry = i;
		(*refs)[n].token = entries[i].token;
		n++;
	}
	return n;
}

/*
 * Up to max leases of a queue that have expired.  Returns how many.
 */
int
leases_expired(int queue, int max, LeaseInfo *leases)
{
	int			n = 0;
	static uint32 start = 0;

	/* From another one each time: what cannot be put back now is passed by. */
	start++;
	for (uint32 i = 0; i < PARTITIONS && n < max; i++)
	{
		Partition  *partition = &table->partitions[(start + i) % PARTITIONS];
		uint32		number;

		/* Without the lock: a look that may be a tick late. */
		if (partition->wheel[WHEEL_EXPIRED] == NO_ENTRY)
			continue;
		LWLockAcquire(&partition->lock, LW_SHARED);
		number = partition->wheel[WHEEL_EXPIRED];
		while (number != NO_ENTRY && n < max)
		{
			if (entries[number].queue == queue)
				copy_lease(number, &leases[n++]);
			number = entries[number].wheel_next;
		}
		LWLockRelease(&partition->lock);
	}
	return n;
}

/*
 * When the next lease of the server may run out: never later than it does, and
 * DT_NOEND if there is none.  Without locks; a lease that is granted meanwhile
 * is announced by whoever claims.
 */
TimestampTz
leases_next_deadline(TimestampTz now)
{
	int64		nearest = PG_INT64_MAX;

	for (int i = 0; i < PARTITIONS; i++)
	{
		Partition  *partition = &table->partitions[i];
		int64		tick;

		if (((volatile Partition *) partition)->used == 0)
			continue;

		/* From where this wheel has been turned to, not from now. */
		tick = ((volatile Partition *) partition)->tick;
		tick = Max(tick, now / TICK_USECS - WHEEL_SLOTS + 1) + 1;
		for (int ahead = 0; ahead < WHEEL_SLOTS && tick + ahead < nearest; ahead++)
		{
			if (partition->wheel[(tick + ahead) % WHEEL_SLOTS] != NO_ENTRY)
				nearest = tick + ahead;
		}
	}
	return nearest == PG_INT64_MAX ? DT_NOEND : nearest * TICK_USECS;
}

/*
 * How many leases a queue has.  Looks at all leases of the server: for views.
 */
int
leases_count(int queue)
{
	int			n = 0;

	for (uint32 i = 0; i < table->high_water; i++)
	{
		if (entries[i].state != LEASE_FREE && entries[i].queue == queue)
			n++;
	}
	return n;
}

/*
 * Copy all leases into a palloc'd array.  Returns how many.
 */
int
leases_list(LeaseInfo **leases)
{
	int			n = 0;
	int			size = 1024;

	*leases = palloc(size * sizeof(LeaseInfo));
	for (int p = 0; p < PARTITIONS; p++)
	{
		Partition  *partition = &table->partitions[p];
		uint32		used = partition->used;

		if (used == 0)
			continue;
		/* Room first: nothing is allocated under the lock. */
		while (n + (int) used * 2 + 64 > size)
		{
			size *= 2;
			*leases = repalloc_huge(*leases, size * sizeof(LeaseInfo));
		}
		LWLockAcquire(&partition->lock, LW_SHARED);
		for (int slot = 0; slot <= WHEEL_SLOTS; slot++)
		{
			for (uint32 number = partition->wheel[slot];
				 number != NO_ENTRY && n < size;
				 number = entries[number].wheel_next)
				copy_lease(number, &(*leases)[n++]);
		}
		LWLockRelease(&partition->lock);
	}
	return n;
}

/* ----------------------------------------------------------------
 * Across a restart: in the postmaster, alone
 * ----------------------------------------------------------------
 */

uint32
leases_salt(void)
{
	return table->salt;
}

void
leases_set_salt(uint32 salt)
{
	table->salt = salt & 0xFFFFFFF;
}

/*
 * What is kept of a lease: 1; 0 if there is none of this number, or its session
 * is not kept; -1 if there are none from here on.
 */
int
leases_save(int number, SavedLease *saved)
{
	Lease	   *lease = &entries[number];
	SavedSession session;

	if ((uint32) number >= table->high_water)
		return -1;
	if (lease->state != LEASE_HELD ||
		(lease->session != NO_SESSION && !sessions_save(lease->session, &session)))
		return 0;
	memset(saved, 0, sizeof(SavedLease));
	saved->ref.entry = number;
	saved->ref.token = lease->token;
	saved->task = lease->task;
	saved->deadline = lease->deadline;
	saved->queue = lease->queue;
	saved->attempt = lease->attempt;
	saved->session = lease->session;
	saved->started = lease->started;
	saved->tid = lease->tid;
	return 1;
}

/*
 * Grant a lease as it was, if it fits.
 */
void
leases_restore(const SavedLease *saved)
{
	uint32		hash = lease_hash(saved->queue, saved->task);
	Partition  *partition = partition_of(hash);
	uint32		number = saved->ref.entry;
	Lease	   *lease;
	SavedQueue	queue;

	if (number >= (uint32) settings_max_leases || saved->ref.token == 0 ||
		saved->queue < 0 || saved->queue >= settings_max_queues ||
		!queue_state_save(saved->queue, &queue) ||
		saved->session > (uint32) settings_max_sessions ||
		search_chain(hash, saved->queue, saved->task) != NO_ENTRY)
		return;

	/* Entries in between that were free are free now. */
	while (table->high_water <= number)
	{
		uint32		free = table->high_water++;

		entries[free].state = LEASE_FREE;
		if (free < number)
		{
			entries[free].hash_next = table->free_head;
			table->free_head = free;
		}
	}
	lease = &entries[number];
	if (lease->state != LEASE_FREE || number != table->high_water - 1)
		return;
	lease->task = saved->task;
	lease->queue = saved->queue;
	lease->partition = hash % PARTITIONS;
	lease->attempt = saved->attempt;
	lease->state = LEASE_HELD;
	lease->durable = lease->moved = false;	/* its row is still to be read */
	lease->closing = false;
	lease->token = saved->ref.token;
	lease->tid = saved->tid;
	lease->deadline = saved->deadline;
	lease->pid = 0;
	lease->session = saved->session;
	lease->group = FAIRQ_NO_GROUP;
	lease->started = saved->started;
	if (saved->session != NO_SESSION)
		sessions_lease_restored(saved->session);
	lease->hash_next = chains[hash & chain_mask];
	chains[hash & chain_mask] = number;
	partition->used++;
	wheel_schedule(partition, number);
}

/*
 * End all leases of a queue that is gone.
 */
void
leases_forget_queue(int queue)
{
	for (uint32 i = 0; i < table->high_water; i++)
	{
		LeaseRef	ref;
		Lease	   *lease = &entries[i];

		if (lease->state == LEASE_FREE || lease->queue != queue)
			continue;
		ref.entry = i;
		ref.token = lease->token;
		leases_drop(&ref, false, NULL);
	}
}
