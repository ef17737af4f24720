/*-------------------------------------------------------------------------
 *
 * lease_table.c
 *	  The table of leases in shared memory, and its free entries.
 *
 * An entry is 80 bytes.  It is found in two ways:
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
 * (lost_leases.c).  So it takes no scan to know what has expired.
 *
 * What is known of a durable lease besides is in a second array, which costs
 * nothing where there are none.  A restored lease has another entry than
 * before, so that its receipt does not lead to it: it is moved, and found by
 * its token in chains of their own.
 *
 * Locking: the lock of the partition guards its chains, its wheel and the
 * entries in them.  The lock of the free list guards the free list, the lock of
 * the moved guards their chains: while it is held the leases in them stay as
 * they are.  A partition may be locked before either, not after.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "common/shared_memory.h"
#include "shmem/groups.h"
#include "shmem/lease_table.h"

/*
 * The parts of the area, as each process has them: the table, the heads of
 * chains (lease_chain_mask + 1 of them), the entries, and as many parts of
 * durable leases.
 */
LeaseTable *lease_table = NULL;
uint32	   *lease_chains = NULL;
Lease	   *lease_entries = NULL;
DurablePart *lease_durables = NULL;
uint32		lease_chain_mask;

/*
 * Entries that this backend took off the free list and has not used yet: free
 * ones, linked from this one on.  They are this backend's alone.
 */
static uint32 reserved_first = NO_ENTRY;

/*
 * Entries of leases that have ended, linked, on their way to the free list: the
 * one that ended last is the first.  Until they are there they are this
 * backend's, and say by whom their tasks were claimed, and when.
 */
static bool deferring = false;	/* between the two functions that say so */
static uint32 deferred_first = NO_ENTRY;
static uint32 deferred_last;	/* set if there is a first */

/*
 * The memory for all leases that there may be, with as many heads of chains,
 * and for what durable ones need besides (invariant I10).
 */
Size
leases_shmem_size(void)
{
	return add_size(fixed_table_size(sizeof(LeaseTable), settings_max_leases, sizeof(Lease)),
					mul_size(settings_max_leases, sizeof(DurablePart)));
}

/*
 * Set up the table, without a lease and with a salt of its own, or find it
 * (found).  The postmaster calls this before there are other processes, so
 * that nothing is locked.
 */
void
leases_shmem_init(void *area, bool found)
{
	lease_table = area;
	lease_entries = fixed_table_init(area, sizeof(LeaseTable), settings_max_leases, found,
									 &lease_chains, &lease_chain_mask);
	lease_durables = (DurablePart *) &lease_entries[settings_max_leases];
	if (found)
		return;

	LWLockInitialize(&lease_table->free_lock,
					 shared_memory_tranche(FAIRQ_TRANCHE_LEASE_FREE));
	lease_table->free = all_entries_free;
	if (!pg_strong_random(&lease_table->salt, sizeof(lease_table->salt)))
		lease_table->salt = (uint32) GetCurrentTimestamp();
	lease_table->salt &= 0xFFF;
	pg_atomic_init_u64(&lease_table->tick, 0);
	LWLockInitialize(&lease_table->moved_lock, shared_memory_tranche(FAIRQ_TRANCHE_LEASE));
	memset(lease_table->moved, 0xFF, sizeof(lease_table->moved));
	for (int i = 0; i < CLAIM_TIMES; i++)
		pg_atomic_init_u64(&lease_table->claim_times[i], 0);
	for (int i = 0; i < PARTITIONS; i++)
	{
		Partition  *partition = &lease_table->partitions[i];

		LWLockInitialize(&partition->lock,
						 shared_memory_tranche(FAIRQ_TRANCHE_LEASE));
		partition->tick = 0;
		partition->used = 0;
		for (int j = 0; j <= WHEEL_SLOTS; j++)
			partition->wheel[j] = NO_ENTRY;
	}
}

/* ----------------------------------------------------------------
 * Free entries
 * ----------------------------------------------------------------
 */

/*
 * Take up to n entries off the free list, for leases_grant to use.  Returns
 * how many there are: fewer than n if the table is full.  What was reserved
 * before is returned first.  The caller returns what it did not use; if it
 * fails, leases_return_reserved is called when the transaction rolls back.
 *
 * A claim calls this before it locks the page of a row, so that the lease
 * itself finds its entry.  Never fails.
 */
int
leases_reserve(int n)
{
	int			count = 0;

	Assert(n > 0);
	AssertNotLocked(&lease_table->free_lock);
	leases_return_reserved();
	LWLockAcquire(&lease_table->free_lock, LW_EXCLUSIVE);
	for (; count < n; count++)
	{
		uint32		number = free_entries_take(&lease_table->free, settings_max_leases,
											   lease_entries, hash_next);

		if (number == NO_ENTRY)
			break;
		lease_entries[number].hash_next = reserved_first;
		reserved_first = number;
	}
	lease_check_free();
	LWLockRelease(&lease_table->free_lock);
	return count;
}

/*
 * Return what is left of the reserved entries, if any.  Never fails: called
 * when a (sub)transaction has rolled back, too.
 *
 * Takes and releases the lock of the free list, the last in the order: a
 * caller may hold a partition.
 */
void
leases_return_reserved(void)
{
	if (reserved_first == NO_ENTRY)
		return;
	LWLockAcquire(&lease_table->free_lock, LW_EXCLUSIVE);
	while (reserved_first != NO_ENTRY)
	{
		uint32		number = lease_take_reserved();

		Assert(lease_entries[number].state == LEASE_FREE && lease_entries[number].token == 0);
		free_entries_give(&lease_table->free, number, &lease_entries[number].hash_next);
	}
	LWLockRelease(&lease_table->free_lock);
}

/*
 * One of the reserved entries, which is free; NO_ENTRY if there is none.  Only
 * the caller knows it from now on, and enters it for a lease.  Never fails.
 */
uint32
lease_take_reserved(void)
{
	uint32		number = reserved_first;

	if (number != NO_ENTRY)
		reserved_first = lease_entries[number].hash_next;
	return number;
}

/*
 * A task has ended so many microseconds after its claim: how many after the
 * last one of the same claim?  What one call has claimed has one time and one
 * process, which name the claim.  Two claims that share a place take it from
 * each other, and then it is since the claim.
 *
 * Without a lock: of two backends that end tasks of one claim at once, the one
 * that comes second to the place finds there what the other has written.
 *
 * elapsed is 0 or more and has CLAIM_TIME_BITS bits.  What is returned adds
 * up, over the tasks of a claim, to what the longest of them has taken, unless
 * its place was taken.
 */
static int64
since_last_of_claim(const Lease *lease, int64 elapsed)
{
	uint32		hash = murmurhash32(murmurhash32((uint32) (lease->started >> 32) + lease->pid) +
									(uint32) lease->started);
	pg_atomic_uint64 *place = &lease_table->claim_times[hash % CLAIM_TIMES];
	uint64		claim = (uint64) (hash / CLAIM_TIMES) << CLAIM_TIME_BITS;
	uint64		seen = pg_atomic_read_u64(place);
	int64		last;

	do
	{
		last = (seen >> CLAIM_TIME_BITS == claim >> CLAIM_TIME_BITS) ? (int64) (seen - claim) : 0;
		if (last >= elapsed)
			return 0;
	} while (!pg_atomic_compare_exchange_u64(place, &seen, claim | (uint64) elapsed));
	return elapsed - last;
}

/*
 * Leases have ended, whose entries are in no chain any more, but linked
 * (deferred_first): tell their groups, and give the entries back.
 *
 * A worker does the tasks of a claim one after the other, or all at once.
 * Either way a task has taken the time since the last one of the claim ended,
 * so that all of them together have taken no more than the claim has; and those
 * that end together have taken equal parts of that.
 *
 * The groups come first: once an entry is in the free list another backend may
 * use it, and what it says of the lease that has ended is lost.
 *
 * The caller holds no lock of a partition: those of groups and their limits
 * come before.  GetCurrentTransactionStopTimestamp() is when the transaction
 * ended, so it is one time for all leases that end with it.
 */
static void
free_entries(void)
{
	uint32		number = deferred_first;

	if (number == NO_ENTRY)
		return;
	while (number != NO_ENTRY)
	{
		const Lease *lease = &lease_entries[number];
		uint32		end = number;
		int			together = 0;
		int64		run = -1;
		int64		charged = 0;

		do
		{
			together++;
			end = lease_entries[end].hash_next;
		} while (end != NO_ENTRY && lease_entries[end].started == lease->started &&
				 lease_entries[end].pid == lease->pid);
		if (lease->started != LEASE_NOT_USED)
		{
			run = GetCurrentTransactionStopTimestamp() - wall_clock_shown(lease->started);
			run = Min(Max(run, 0), (INT64CONST(1) << CLAIM_TIME_BITS) - 1);
			charged = since_last_of_claim(lease, run) / together;
		}
		for (; number != end; number = lease_entries[number].hash_next)
			groups_lease_ends(lease_entries[number].group, run, charged);
	}
	LWLockAcquire(&lease_table->free_lock, LW_EXCLUSIVE);
	free_entries_give(&lease_table->free, deferred_first,
					  &lease_entries[deferred_last].hash_next);
	LWLockRelease(&lease_table->free_lock);
	deferred_first = NO_ENTRY;
}

/*
 * A lease has ended, and its entry is in no chain any more.  The caller has
 * unlocked the partition, for the locks of the group and of its limits are
 * taken here.  Never fails.
 */
void
lease_free_entry(uint32 number)
{
	Lease	   *lease = &lease_entries[number];

	Assert(lease->state == LEASE_FREE && lease->token == 0);
	lease->hash_next = deferred_first;
	if (deferred_first == NO_ENTRY)
		deferred_last = number;
	deferred_first = number;
	if (!deferring)
		free_entries();
}

/*
 * Many leases are going to end: all that is left to do for them is done at
 * once, for there is one free list for everybody, and it is known then which
 * have ended together.  Neither function fails, and what is between them must
 * not, or entries would never become free.  The pair is not nested.
 */
void
leases_defer_free(void)
{
	Assert(!deferring && deferred_first == NO_ENTRY);
	deferring = true;
}

/*
 * The other one of the pair: groups are told of all leases that have ended
 * since, and their entries become free.  The caller holds no lock of ours.
 */
void
leases_free_deferred(void)
{
	Assert(deferring);
	deferring = false;
	free_entries();
}
