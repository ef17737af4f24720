/*-------------------------------------------------------------------------
 *
 * lease_receipts.c
 *	  Receipts: what names a lease to its holder.
 *
 * Most lead to their lease.  Those of leases that were restored into another
 * entry than they had (moved) are looked for, in chains by token.
 *
 * A receipt is a uuid of version 8 (RFC 9562: custom), from the left:
 *
 *	 32 bits	number of the entry
 *	 16 bits	number of the node, as it was when the receipt was made
 *	  4 bits	version
 *	 12 bits	salt of the server's start
 *	  2 bits	variant
 *	 62 bits	token, never 0
 *
 * After a crash the salt is a new one, so receipts of before do not lead to
 * entries: they are looked for among the moved.  The token is what cannot be
 * guessed.
 *
 * Locking: none to take a receipt apart or to make one; moved_lock for the
 * chains of the moved, inside the partition's lock or alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "common/node_number.h"
#include "common/settings.h"
#include "shmem/lease_table.h"

/*
 * The first half of the receipt of a lease that is not moved, but for the
 * node.
 *
 * The salt is in it, so a receipt of before a crash differs, unless the salts
 * are alike by chance: then its token finds nothing.
 */
uint64
lease_usual_receipt(uint32 entry)
{
	return ((uint64) entry << 32) | (8 << 12) | (lease_table->salt & 0xFFF);
}

/*
 * The receipt of a lease.  Every bit of it counts but those of the node, which
 * say where to go with it: the number may change while the lease lives.  Of a
 * moved lease it is what was written with the lease, and all bits count.
 *
 * *lease is a copy, of a lease that may be over.  The number of the node is
 * read without a lock.  Never fails.
 */
void
leases_to_receipt(const LeaseInfo *lease, pg_uuid_t *receipt)
{
	uint64		node = queue_state_by_number(lease->queue)->ids.node;
	uint64		high = lease->receipt != 0 ? lease->receipt :
		lease_usual_receipt(lease->ref.entry) | (node << NODE_UUID_SHIFT);

	node_make_uuid(high, lease->ref.token, receipt);
}

/*
 * The lease that a receipt names, if it can be one of this server's that is
 * not moved.  Looks at no lease: that the lease is there, and which one it is,
 * the caller learns when it looks or settles by *ref.
 *
 * *ref is set only in part if the result is false.  Takes no lock; never
 * fails.
 */
bool
leases_from_receipt(const pg_uuid_t *receipt, LeaseRef *ref)
{
	uint64		high;

	if (!node_split_uuid(receipt, &high, &ref->token))
		return false;
	ref->entry = high >> 32;
	return (high & ~NODE_UUID_MASK) == lease_usual_receipt(ref->entry) &&
		ref->entry < (uint32) settings_max_leases;
}

/*
 * The head of the chain of moved leases with a token; the lock of the moved
 * guards it.
 */
static inline uint32 *
moved_chain(uint64 token)
{
	return &lease_table->moved[token % MOVED_CHAINS];
}

/*
 * The moved lease of this database that a receipt names.  A database that was
 * made of another one has its leases, too, with their receipts.
 *
 * moved_lock keeps token, queue and receipt of what is in a chain as they are,
 * for a lease leaves its chain before it ends.  It may end as soon as the lock
 * is released: the token in *ref tells.
 *
 * Takes and releases moved_lock, shared.  *ref is of use only if the result is
 * true.
 */
bool
leases_find_moved(const pg_uuid_t *receipt, LeaseRef *ref)
{
	uint64		high;
	uint32		number;

	if (!node_split_uuid(receipt, &high, &ref->token))
		return false;
	LWLockAcquire(&lease_table->moved_lock, LW_SHARED);
	number = *moved_chain(ref->token);
	while (number != NO_ENTRY &&
		   (lease_entries[number].token != ref->token || lease_durables[number].receipt != high ||
			queue_state_by_number(lease_entries[number].queue)->database != MyDatabaseId))
		number = lease_durables[number].moved_next;
	LWLockRelease(&lease_table->moved_lock);
	ref->entry = number;
	return number != NO_ENTRY;
}

/*
 * The lease has a receipt that does not lead to it, of which this is the first
 * half, with the node.  It is in use, with its token set, and stays moved until
 * it ends.
 *
 * Takes and releases moved_lock inside the partition's lock.  On return the
 * lease is found by its receipt.
 */
void
lease_move(uint32 number, uint64 receipt)
{
	uint32	   *chain = moved_chain(lease_entries[number].token);

	AssertPartitionLockedExclusively(&lease_table->partitions[lease_entries[number].partition]);
	Assert(lease_entries[number].durable && !lease_entries[number].moved);
	Assert(receipt != 0);
	lease_entries[number].moved = true;
	lease_durables[number].receipt = receipt;
	LWLockAcquire(&lease_table->moved_lock, LW_EXCLUSIVE);
	lease_durables[number].moved_next = *chain;
	*chain = number;
	LWLockRelease(&lease_table->moved_lock);
}

/*
 * A moved lease ends: nothing finds it by its receipt any more.  Its token is
 * still there.
 */
void
lease_unlink_moved(uint32 number)
{
	uint32	   *link = moved_chain(lease_entries[number].token);

	AssertPartitionLockedExclusively(&lease_table->partitions[lease_entries[number].partition]);
	Assert(lease_entries[number].moved);
	LWLockAcquire(&lease_table->moved_lock, LW_EXCLUSIVE);
	while (*link != number)
	{
		Assert(*link != NO_ENTRY);
		link = &lease_durables[*link].moved_next;
	}
	*link = lease_durables[number].moved_next;
	LWLockRelease(&lease_table->moved_lock);
	lease_entries[number].moved = false;
}
