/*-------------------------------------------------------------------------
 *
 * lease_check.c
 *	  Whether leases are as they should be, in builds with assertions.
 *
 * A lease is in the chain of its task, once, and in one list of its
 * partition's wheel, which is linked both ways.
 *
 * A partition and the free list are looked at where their lock is about to be
 * released, for others would go by what is wrong there.  A lease is looked at
 * before it leaves a list or its chain: after that it may be in none.
 *
 * Locking: as in lease_table.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/lease_table.h"

#ifdef USE_ASSERT_CHECKING

/*
 * One look in so many, of this process, is at a whole partition: that costs a
 * walk over all lists of its wheel.
 */
#define CHECK_ALL_EVERY	64

/* So many free entries are looked at. */
#define CHECK_LINKS		8

/* Of this process, at partitions. */
static uint32 looks = 0;

/*
 * A lease of a partition that is locked is in one list of the wheel.  Looks at
 * the lease and at its neighbours, not at the list as a whole.
 */
void
lease_check_wheel(const Partition *partition, uint32 number)
{
	const Lease *lease = &lease_entries[number];

	AssertPartitionLocked(partition);
	Assert(lease->wheel_slot <= WHEEL_EXPIRED);
	if (lease->wheel_prev == NO_ENTRY)
		Assert(partition->wheel[lease->wheel_slot] == number);
	else
		Assert(lease_entries[lease->wheel_prev].wheel_next == number);
	Assert(lease->wheel_next == NO_ENTRY ||
		   lease_entries[lease->wheel_next].wheel_prev == number);
}

/*
 * A lease of a partition that is locked is where it should be: it is the one
 * that a search for its task finds, and is in the wheel.
 */
void
lease_check(const Partition *partition, uint32 number)
{
	const Lease *lease = &lease_entries[number];
	uint32		hash = lease_hash(lease->queue, lease->task);

	Assert(number < lease_table->free.high_water);
	Assert(lease->state != LEASE_FREE && lease->token != 0);
	Assert(lease->queue < settings_max_queues);
	Assert(partition_of(hash) == partition);
	Assert(lease->partition == partition - lease_table->partitions);
	Assert(search_chain(hash, lease->queue, lease->task) == number);
	lease_check_wheel(partition, number);
	Assert(!lease->moved || lease->durable);
}

/*
 * A partition that is locked has as many leases as are counted, each of them
 * in one list of its wheel.  The number is compared at each step, for a list
 * that is wrong may be a ring.
 */
void
lease_check_partition(const Partition *partition)
{
	uint32		n = 0;

	AssertPartitionLocked(partition);
	if (!contract_is_due(&looks, CHECK_ALL_EVERY))
		return;
	for (int slot = 0; slot <= WHEEL_EXPIRED; slot++)
	{
		uint32		number = partition->wheel[slot];

		for (; number != NO_ENTRY; number = lease_entries[number].wheel_next)
		{
			Assert(lease_entries[number].wheel_slot == slot);
			lease_check(partition, number);
			n++;
			Assert(n <= partition->used);
		}
	}
	Assert(n == partition->used);
}

/*
 * The free list, whose lock is held, has entries of no lease.  Its first ones
 * are looked at.  Their state may be read without a partition's lock, for no
 * backend enters an entry that is in the list.
 */
void
lease_check_free(void)
{
	uint32		number = lease_table->free.head;

	AssertLocked(&lease_table->free_lock);
	Assert(lease_table->free.high_water <= (uint32) settings_max_leases);
	for (int i = 0; i < CHECK_LINKS && number != NO_ENTRY; i++)
	{
		Assert(number < lease_table->free.high_water);
		Assert(lease_entries[number].state == LEASE_FREE);
		Assert(lease_entries[number].hash_next != number);
		number = lease_entries[number].hash_next;
	}
}

#endif							/* USE_ASSERT_CHECKING */
