/*-------------------------------------------------------------------------
 *
 * lease_table.h
 *	  The lease table as the files that work on it see it: lease_table.c,
 *	  lease_check.c, lease_counts.c, lease_receipts.c, lease_restore.c,
 *	  lease_wheel.c and leases.c.
 *
 * The head of lease_table.c says what there is, and which lock guards what.
 * The functions that are written out here never fail: most of them are called
 * when a transaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LEASE_TABLE_H
#define FAIRQ_LEASE_TABLE_H

#include "common/hashfn.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/settings.h"
#include "common/wall_clock.h"
#include "shmem/fixed_table.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"

/* A lease is in the partition of its task's hash, whose number has 8 bits. */
#define PARTITIONS		256

/* A round of the wheel takes WHEEL_SLOTS ticks of 50 ms: 51.2 s. */
#define WHEEL_SLOTS		1024
#define WHEEL_EXPIRED	WHEEL_SLOTS /* one list more */
#define TICK_USECS		INT64CONST(50000)

/*
 * A lease is SETTLING from when a transaction begins to settle it: its commit
 * frees the entry, its rollback leads back.  leases_end_vain makes VAIN of
 * HELD; one that is SETTLING has its deadline set instead, and is VAIN when it
 * comes back.  Only a pass settles a lease that is VAIN, to end it.
 */
typedef enum LeaseState
{
	LEASE_FREE,
	LEASE_HELD,
	LEASE_SETTLING,
	LEASE_VAIN					/* its task is gone: it cannot be settled, and
								 * the next pass ends it */
} LeaseState;

/*
 * An entry.  While it is used the lock of its partition guards all of it.  A
 * free one is in the free list, or belongs to the backend that has reserved it,
 * or whose lease in it has ended a moment ago.
 *
 * When that lock is free this holds:
 *
 *	 The state is LEASE_FREE if and only if the token is 0.  queue, task, token,
 *	 partition, pid and session stay as they are while the lease lives.
 *
 *	 An entry in use is in the chain of its task, and no other one is of that
 *	 queue and task (invariant I2).  It is in one list of its partition's wheel.
 *
 *	 One that is VAIN is in the list of the expired, with the deadline
 *	 LEASE_VAIN_UNTIL.  One that is SETTLING is never in that list.
 *
 *	 One that is moved is durable, and in a chain of the moved.
 *
 * Walks over all entries read some fields without the lock, to pass over leases
 * that are not meant.  What they find they lock by its token (lock_lease).
 *
 * deadline and started are by the steady clock.  deadline is DT_NOEND if the
 * lease ends only with its session or, of a pop, its transaction; from 0 down
 * it has run out, whatever the clock says.  tid is where the task's row was
 * seen last: a hint, which may be invalid.
 */
typedef struct Lease
{
	int64		task;			/* id of its task; no two entries in use
								 * have one id and queue */
	uint64		token;			/* names the lease for ever; 0: free */
	TimestampTz deadline;		/* when it runs out, by the steady clock;
								 * see above */
	ItemPointerData tid;
	uint16		queue;			/* number of the state of its queue */
	uint32		hash_next;		/* next in the chain, or in the free list */
	uint32		wheel_next;		/* next and previous in its list of the
								 * wheel; NO_ENTRY: none */
	uint32		wheel_prev;
	uint16		wheel_slot:14;
	uint16		met:1;			/* a claim has met its row elsewhere than it
								 * was granted */
	uint16		excused:1;		/* it has no session, was restored after a
								 * restart and not extended since; or its
								 * claim was rolled back */
	uint8		partition;		/* number of the one whose lock guards it;
								 * read without that to find it (lock_lease) */
	uint8		state:2;		/* a LeaseState */
	uint8		outlived:1;		/* its task has expired: the queue is told
								 * when it ends, if the task is as it was */
	uint8		counted:1;		/* its group will count its task again when it
								 * is given back */
	uint8		durable:1;		/* it has a row: lease_durables says more */
	uint8		moved:1;		/* and its receipt, too */
	uint8		closing:1;		/* its transaction has looked for a held task */
	uint8		overflow:1;		/* its row said so; its group counts it
								 * there when it is given back */
	int32		attempt;		/* which attempt of its task it is */
	int32		pid;			/* of the backend that claimed; 0: restored */
	uint32		session;		/* that it ends with, by its slot;
								 * NO_SESSION or SESSION_OVER */
	uint32		group;			/* number of the group that has it in
								 * flight, or FAIRQ_NO_GROUP */
	TimestampTz started;		/* when it was claimed, by the steady clock;
								 * or LEASE_NOT_USED */
	TimestampTz enqueued_at;	/* as its task's row says; 0: not known */
} Lease;

/*
 * Of a durable lease; guarded as the entry is, and of no meaning if that is not
 * durable.  The receipt of a moved lease does not change, so it may be read
 * with moved_lock held instead.
 */
typedef struct DurablePart
{
	ItemPointerData tid;		/* where its row was seen */
	uint32		moved_next;		/* moved_lock: next in the chain */
	uint64		receipt;		/* if moved: the first half of its receipt */
} DurablePart;

/*
 * When a lease has begun that has ended and was of no use: "started" of its
 * entry, from its end until the entry is in the free list.
 */
#define LEASE_NOT_USED	INT64CONST(0)

/*
 * Chains of leases that are moved, by their tokens: of some that were restored
 * from their rows.
 */
#define MOVED_CHAINS	4096

/*
 * A place of claim_times says how many microseconds after its beginning a
 * claim's last task ended: the lower CLAIM_TIME_BITS.  Above them is the rest
 * of the claim's hash, whose lower bits are the number of the place.
 */
#define CLAIM_TIMES		65536
#define CLAIM_TIME_BITS	48

/*
 * The lock guards all of it, the chains of its hashes, and the entries in them.
 * When it is free, used is the number of entries in the lists, and what is in a
 * slot is of a tick after "tick".  used, tick and the heads of lists are read
 * without it where it does no harm to be late.
 *
 * The tick of a lease may be a round or more ahead: then it stays in its slot
 * when the wheel is turned there.  One that is settling may be there past its
 * deadline, and is looked at once a second (wheel_turn).
 */
typedef struct Partition
{
	LWLock		lock;
	int64		tick;			/* the wheel has been turned up to this one */
	uint32		used;			/* entries */
	uint32		wheel[WHEEL_SLOTS + 1]; /* heads of lists: of the tick t in t %
										 * WHEEL_SLOTS, of the expired in the
										 * last; NO_ENTRY: empty */
} Partition;

/*
 * free_lock guards hash_next of free entries, too, but not of those that belong
 * to a backend: reserved ones, and those of leases that have just ended.  The
 * salt is set before there are other processes.  claim_times are hints,
 * without a lock (since_last_of_claim).
 *
 * Of the backends that see a new tick one sets "tick", by an exchange, and
 * turns the wheels; so it says that this was begun, not that it is done.
 */
typedef struct LeaseTable
{
	LWLock		free_lock;
	FreeEntries free;			/* free_lock */
	uint32		salt;			/* 12 bits, new at each start */
	pg_atomic_uint64 tick;		/* some process turns, or turned, the wheels
								 * to this one */
	LWLock		moved_lock;
	uint32		moved[MOVED_CHAINS];	/* moved_lock */
	pg_atomic_uint64 claim_times[CLAIM_TIMES];
	Partition	partitions[PARTITIONS];
} LeaseTable;

extern FAIRQ_PRIVATE LeaseTable *lease_table;
extern FAIRQ_PRIVATE uint32 *lease_chains;
extern FAIRQ_PRIVATE Lease *lease_entries;
extern FAIRQ_PRIVATE DurablePart *lease_durables;
extern FAIRQ_PRIVATE uint32 lease_chain_mask;

/*
 * lease_table.c.  lease_take_reserved takes no lock; lease_free_entry is
 * called with no partition locked, for it takes locks of groups.  Neither
 * fails.
 */
extern FAIRQ_PRIVATE uint32 lease_take_reserved(void);
extern FAIRQ_PRIVATE void lease_free_entry(uint32 number);

/* lease_check.c */
#ifdef USE_ASSERT_CHECKING
extern FAIRQ_PRIVATE void lease_check(const Partition *partition, uint32 number);
extern FAIRQ_PRIVATE void lease_check_wheel(const Partition *partition, uint32 number);
extern FAIRQ_PRIVATE void lease_check_partition(const Partition *partition);
extern FAIRQ_PRIVATE void lease_check_free(void);
#else
#define lease_check(partition, number)	((void) 0)
#define lease_check_wheel(partition, number)	((void) 0)
#define lease_check_partition(partition)	((void) 0)
#define lease_check_free()	((void) 0)
#endif

/*
 * Contracts of the functions here and in the files that include this.  Where
 * it is not known which partition it is, its lock is taken by lock_lease,
 * lock_lease_of or lock_task.
 */
#define AssertPartitionLocked(partition) AssertLocked(&(partition)->lock)
#define AssertPartitionLockedExclusively(partition) \
	AssertLockedExclusively(&(partition)->lock)

/*
 * Unlock a partition, which is as it should be: what it says of its entries
 * may be wrong for a while under the lock, and must not be when this is called.
 */
static inline void
unlock_partition(Partition *partition)
{
	lease_check_partition(partition);
	LWLockRelease(&partition->lock);
}

/*
 * lease_receipts.c.  Both that take a number of a lease in use want its
 * partition locked exclusively if they change it (lease_move,
 * lease_unlink_moved), and take the lock of the moved inside.  None fails.
 */
extern FAIRQ_PRIVATE uint64 lease_usual_receipt(uint32 number);
extern FAIRQ_PRIVATE void lease_move(uint32 number, uint64 receipt);
extern FAIRQ_PRIVATE void lease_unlink_moved(uint32 number);

/*
 * What a lease is found by: murmurhash32 spreads both parts over all bits, for
 * the lower ones are the partition and the chain.
 */
static inline uint32
lease_hash(int queue, int64 task)
{
	return murmurhash32(murmurhash32((uint32) (task >> 32) * 16384 + queue) + (uint32) task);
}

/* The partition of a hash: its lower 8 bits. */
static inline Partition *
partition_of(uint32 hash)
{
	return &lease_table->partitions[hash % PARTITIONS];
}

/*
 * The entry of the lease on a task, in whatever state; NO_ENTRY: it has none.
 * hash is lease_hash of the two.  A chain is in one partition, for there are
 * no fewer chains than partitions, and both are powers of two.
 */
static inline uint32
search_chain(uint32 hash, int queue, int64 task)
{
	uint32		number = lease_chains[hash & lease_chain_mask];

	AssertPartitionLocked(partition_of(hash));
	while (number != NO_ENTRY &&
		   (lease_entries[number].task != task || lease_entries[number].queue != queue))
		number = lease_entries[number].hash_next;
	return number;
}

/*
 * Lock the partition of a lease, if the lease is still there.  The partition
 * of an entry may be read without a lock: if the entry is used for another
 * lease meanwhile, the token under the lock tells.
 *
 * ref may be of any age; the lease is of any state.  The caller holds no other
 * partition's lock.  NULL: the lease is over, and nothing is locked.
 */
static inline Partition *
lock_lease(const LeaseRef *ref, LWLockMode mode)
{
	Lease	   *lease = &lease_entries[ref->entry];

	Assert(ref->entry < (uint32) settings_max_leases);
	for (;;)
	{
		uint8		number = ((volatile Lease *) lease)->partition;
		Partition  *partition = &lease_table->partitions[number];

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
 * As lock_lease, of an entry that is a lease of a queue: for walks over all.
 * Sets *ref.  An entry that is not is passed over without a lock; under the
 * lock it is asked once more, for the token may be that of another lease.
 *
 * A lease that begins behind the walk is not met by it.  So whoever walks sees
 * to it that none begins, or that those that do need not be met.
 */
static inline Partition *
lock_lease_of(int queue, uint32 entry, LWLockMode mode, LeaseRef *ref)
{
	const Lease *lease = &lease_entries[entry];
	Partition  *partition;

	ref->entry = entry;
	ref->token = ((volatile const Lease *) lease)->token;
	if (lease->state == LEASE_FREE || lease->queue != queue)
		return NULL;
	partition = lock_lease(ref, mode);
	if (partition == NULL || lease->queue == queue)
		return partition;
	LWLockRelease(&partition->lock);
	return NULL;
}

/*
 * Lock the partition of a task, and find its lease; NULL: it has none.  The
 * partition is locked in either case, so no lease on the task begins or ends
 * until the caller unlocks it.  The page of the task's row may be locked.
 */
static inline Lease *
lock_task(int queue, int64 task, LWLockMode mode, Partition **partition)
{
	uint32		hash = lease_hash(queue, task);
	uint32		number;

	*partition = partition_of(hash);
	LWLockAcquire(&(*partition)->lock, mode);
	number = search_chain(hash, queue, task);
	return number != NO_ENTRY ? &lease_entries[number] : NULL;
}

/*
 * Copy a lease, of whatever state; durable_tid only if it is durable.  Its
 * times become those of the wall clock.  The partition is locked, in either
 * mode, or this is the postmaster, alone.
 */
static inline void
copy_lease(uint32 number, LeaseInfo *info)
{
	const Lease *lease = &lease_entries[number];

	AssertPartitionLocked(&lease_table->partitions[lease->partition]);
	info->ref.entry = number;
	info->ref.token = lease->token;
	info->queue = lease->queue;
	info->task = lease->task;
	info->tid = lease->tid;
	info->deadline = wall_clock_shown(lease->deadline);
	info->attempt = lease->attempt;
	info->pid = lease->pid;
	info->session = lease->session;
	info->group = lease->group;
	info->started = wall_clock_shown(lease->started);
	info->enqueued_at = lease->enqueued_at;
	info->overflow = lease->overflow;
	info->excused = lease->excused;
	info->settling = (lease->state == LEASE_SETTLING);
	info->durable = lease->durable;
	if (lease->durable)
		info->durable_tid = lease_durables[number].tid;
	info->receipt = lease->moved ? lease_durables[number].receipt : 0;
}

/* ----------------------------------------------------------------
 * The wheel
 * ----------------------------------------------------------------
 */

/*
 * Link a lease, which is in no list.  Those in the list of the expired are
 * counted in their queue, which tells a pass whether to look for any.
 *
 * slot is WHEEL_EXPIRED, or of a tick that the wheel has yet to be turned to.
 */
static inline void
wheel_link(Partition *partition, uint32 number, int slot)
{
	Lease	   *lease = &lease_entries[number];
	uint32		head = partition->wheel[slot];

	AssertPartitionLockedExclusively(partition);
	Assert(slot >= 0 && slot <= WHEEL_EXPIRED);
	Assert(lease->partition == partition - lease_table->partitions);
	lease->wheel_slot = slot;
	lease->wheel_prev = NO_ENTRY;
	lease->wheel_next = head;
	if (head != NO_ENTRY)
		lease_entries[head].wheel_prev = number;
	partition->wheel[slot] = number;
	if (slot == WHEEL_EXPIRED)
		pg_atomic_fetch_add_u32(&queue_state_by_number(lease->queue)->expired, 1);
}

/*
 * Take a lease out of its list.  The caller links it again, or ends it, before
 * it unlocks the partition.
 */
static inline void
wheel_unlink(Partition *partition, uint32 number)
{
	Lease	   *lease = &lease_entries[number];

	AssertPartitionLockedExclusively(partition);
	Assert(lease->partition == partition - lease_table->partitions);
	lease_check_wheel(partition, number);
	if (lease->wheel_prev == NO_ENTRY)
		partition->wheel[lease->wheel_slot] = lease->wheel_next;
	else
		lease_entries[lease->wheel_prev].wheel_next = lease->wheel_next;
	if (lease->wheel_next != NO_ENTRY)
		lease_entries[lease->wheel_next].wheel_prev = lease->wheel_prev;
	if (lease->wheel_slot == WHEEL_EXPIRED)
		pg_atomic_fetch_sub_u32(&queue_state_by_number(lease->queue)->expired, 1);
}

/*
 * Link a lease where its deadline, rounded up to a tick, belongs: when the
 * wheel is turned to that tick the deadline has passed.  What has run out
 * already goes to the next tick, for slots of ticks before are looked at a
 * round later.
 */
static inline void
wheel_schedule(Partition *partition, uint32 number)
{
	int64		tick = lease_entries[number].deadline / TICK_USECS + 1;

	Assert(lease_entries[number].state != LEASE_FREE);
	tick = Max(tick, partition->tick + 1);
	wheel_link(partition, number, tick % WHEEL_SLOTS);
}

/*
 * Use a free entry for a lease on a task, which has none: as *info says, whose
 * times are by the steady clock.  The caller has taken the entry off the free
 * list.  What *info says of the row in fairq.durable_lease, and of a receipt
 * that does not lead here, is left to the caller.
 */
static inline Lease *
enter_lease(Partition *partition, uint32 hash, uint32 number, const LeaseInfo *info)
{
	Lease	   *lease = &lease_entries[number];

	AssertPartitionLockedExclusively(partition);
	Assert(partition == partition_of(hash));
	Assert(lease->state == LEASE_FREE);
	Assert(search_chain(hash, info->queue, info->task) == NO_ENTRY);
	lease->task = info->task;
	lease->token = info->ref.token;
	lease->deadline = info->deadline;
	lease->tid = info->tid;
	lease->queue = info->queue;
	lease->met = false;
	lease->excused = info->excused;
	lease->partition = hash % PARTITIONS;
	lease->state = LEASE_HELD;
	lease->outlived = lease->counted = lease->durable = lease->moved = lease->closing = false;
	lease->overflow = info->overflow;
	lease->attempt = info->attempt;
	lease->pid = info->pid;
	lease->session = info->session;
	lease->group = info->group;
	lease->started = info->started;
	lease->enqueued_at = info->enqueued_at;
	lease->hash_next = lease_chains[hash & lease_chain_mask];
	lease_chains[hash & lease_chain_mask] = number;
	partition->used++;
	wheel_schedule(partition, number);
	return lease;
}

#endif							/* FAIRQ_LEASE_TABLE_H */
