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
 * A lease is held, or settling: its task's row is being deleted or changed by
 * a transaction in progress, and until that ends the lease does not expire.
 * If its task is found to be gone it is held in vain (lease_rows.c).
 *
 * A durable lease has a row in a table, too (durable_leases.c), from which it
 * is restored after a crash.
 *
 * Here leases are granted, settled and ended.  lease_table.c has the entries,
 * lease_wheel.c turns the wheels, lease_receipts.c knows receipts, and
 * lease_restore.c what is there after a restart.
 *
 * Locking: see lease_table.c.  A claim grants a lease while it has a share
 * lock on the row's page (see claim_grant.c for why), so nothing here looks at
 * a page.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "common/node_number.h"
#include "shmem/groups.h"
#include "shmem/lease_table.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"
#include "shmem/worker_slots.h"

/*
 * Of this backend, seeded from a strong source: so that tokens of two backends
 * do not meet.
 */
static pg_prng_state token_state;
static bool token_seeded = false;

/*
 * A token for a new lease: 62 random bits, never 0.  Fails if there are no
 * random values; so it is asked for before a partition is locked.
 */
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
		token = pg_prng_uint64(&token_state) & NODE_TOKEN_MASK;
	while (token == 0);
	return token;
}

/*
 * A claim has met the row of a leased task.  If that has moved, whoever moved
 * it may not have told the lease yet.
 */
static void
meet(Lease *lease, const ItemPointerData *tid)
{
	lease->met |= !ItemPointerEquals(&lease->tid, unconstify(ItemPointerData *, tid));
	lease->tid = *tid;
}

/*
 * As copy_lease, with a tid only if the row was there when the lease was
 * granted and was met nowhere else: who changes the row waits for its writer
 * otherwise (race 32).
 */
static inline void
copy_granted(uint32 number, LeaseInfo *info)
{
	copy_lease(number, info);
	if (unlikely(lease_entries[number].met))
		ItemPointerSetInvalid(&info->tid);
}

/*
 * Grant a lease on a task, if it has none.
 *
 * The caller sets the lease's queue, task, enqueued_at (as the row has it),
 * tid, attempt (its number), started (now) and deadline, both by the steady
 * clock, group (which counts it already: groups_lease_begins) and overflow (its
 * entry is a turn).  The rest is set here.  session is whose the lease is going
 * to be (number NO_SESSION: of none); counted says whether the group counts the
 * task.  There is a reserved entry.
 *
 * The caller holds the page of the row locked, so that the row cannot be
 * deleted between the caller's look and the lease (race 2).  A lease that has
 * run out is a lease until its task is put back.
 *
 * LEASE_GRANTED: *info has all of the lease, and the caller notes at once that
 * it is to be given back at rollback (pending_claimed).  In all other cases
 * *info is as it was, the reserved entry is still there, and the caller takes
 * back what its group has counted (groups_lease_refused).
 */
LeaseGrant
leases_grant(LeaseInfo *info, const SessionRef *session, bool counted)
{
	uint32		hash = lease_hash(info->queue, info->task);
	Partition  *partition = partition_of(hash);
	uint64		token = new_token();
	uint32		number;

	Assert(info->queue >= 0 && info->queue < settings_max_queues);
	Assert(info->attempt > 0);
	Assert(ItemPointerIsValid(&info->tid));
	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	number = search_chain(hash, info->queue, info->task);
	if (number != NO_ENTRY)
	{
		/*
		 * The caller has just seen where the row is.  If it was moved, by an
		 * UPDATE with SQL, its entry that led here was the only one; whoever
		 * gives the lease back offers the row from here (race 12).
		 */
		meet(&lease_entries[number], &info->tid);
		unlock_partition(partition);
		return LEASE_BUSY;
	}

	/* Last of what may refuse: from here on the session has a lease more. */
	if (session->number != NO_SESSION && !sessions_lease_begins(session))
	{
		unlock_partition(partition);
		return LEASE_SESSION_OVER;
	}

	number = lease_take_reserved();
	Assert(number != NO_ENTRY);
	info->ref.token = token;
	info->pid = MyProcPid;
	info->session = session->number;
	info->excused = false;
	enter_lease(partition, hash, number, info)->counted = counted;
	copy_lease(number, info);
	if (unlikely(info->overflow) && counted)
		groups_count(info->group, true, -1);
	unlock_partition(partition);
	return LEASE_GRANTED;
}

/*
 * Read a lease.  Returns false if it is over.  It may be settling, have run out
 * or be held in vain: *info says so; its tid may be invalid.
 *
 * What *info says may be out of date when this returns.  Takes and releases
 * the lock of the partition, shared; never fails.
 */
bool
leases_look(const LeaseRef *ref, LeaseInfo *info)
{
	Partition  *partition = lock_lease(ref, LW_SHARED);

	if (partition == NULL)
		return false;
	copy_granted(ref->entry, info);
	unlock_partition(partition);
	return true;
}

/*
 * The lease on a task.  Returns false if there is none.  A claim may grant one
 * a moment later, but not while the row's page is locked exclusively, nor when
 * the row is deleted.
 *
 * *info is set only if there is one; it may be settling, have run out or be
 * held in vain.  The page may be locked, as a claim has it.
 */
bool
leases_find(int queue, int64 task, LeaseInfo *info)
{
	Partition  *partition;
	Lease	   *lease = lock_task(queue, task, LW_SHARED, &partition);

	if (lease != NULL)
		copy_lease(lease - lease_entries, info);
	unlock_partition(partition);
	return lease != NULL;
}

/*
 * A claim has come to the row of a task, which is locked, and may not have it.
 * If the task is leased, whoever gives it back offers the row from there.
 * Returns whether it is.  If not, the claim itself sees to its place.
 */
bool
leases_seen(int queue, int64 task, const ItemPointerData *tid)
{
	Partition  *partition;
	Lease	   *lease = lock_task(queue, task, LW_EXCLUSIVE, &partition);

	if (lease != NULL)
		meet(lease, tid);
	unlock_partition(partition);
	return lease != NULL;
}

/*
 * The transaction that settles a task's lease is going to look, for the last
 * time, whether another task is held behind it.  If the transaction fails the
 * lease goes on and says so still, for another one may have said so, too: a
 * look too many.
 *
 * The caller does this first and looks then.  A backend that commits a held
 * task asks leases_will_look when the task has become visible.  So one of the
 * two sees the other (race 10).
 */
void
leases_closing(int queue, int64 task)
{
	Partition  *partition;
	Lease	   *lease = lock_task(queue, task, LW_EXCLUSIVE, &partition);

	if (lease != NULL && lease->state == LEASE_SETTLING)
		lease->closing = true;
	unlock_partition(partition);
}

/*
 * Is a task leased, and has the transaction that ends the lease yet to look
 * for a task that is held behind it?  Then the caller need not have that
 * looked at (race 10).
 */
bool
leases_will_look(int queue, int64 task)
{
	Partition  *partition;
	Lease	   *lease = lock_task(queue, task, LW_SHARED, &partition);
	bool		result;

	result = (lease != NULL && !lease->closing);
	unlock_partition(partition);
	return result;
}

/*
 * A task has expired.  Is it leased?  Then it may go on, and the queue is told
 * when its lease ends and it is as it was (race 18).
 *
 * For a pass, which has looked at the row.  The mark stays until the lease
 * ends; if the task ends with it nothing is told.
 */
bool
leases_outlive(int queue, int64 task)
{
	Partition  *partition;
	Lease	   *lease = lock_task(queue, task, LW_EXCLUSIVE, &partition);

	if (lease != NULL)
		lease->outlived = true;
	unlock_partition(partition);
	return lease != NULL;
}

/* When begin_settling is to do it: if the lease is held, and ... */
typedef enum SettleIf
{
	IF_HELD,					/* nothing else */
	IF_EXPIRED,					/* is in the list of the expired; also if it
								 * is vain */
	IF_OF_QUEUE					/* of that queue, and of no session */
} SettleIf;

/*
 * Begin to settle a lease, if the condition holds.  If it has run out it goes
 * from the list of the expired to the wheel: no pass is to meet it there.  Its
 * deadline stays, so it is found again when the wheel is turned, and expires
 * if it is not settling any more (race 5).
 *
 * Returns whether it has; *info is set only then (copy_granted).  queue counts
 * with IF_OF_QUEUE only.
 */
static inline bool
begin_settling(const LeaseRef *ref, LeaseInfo *info, SettleIf condition, int queue)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &lease_entries[ref->entry];
	bool		held;

	if (partition == NULL)
		return false;
	held = ((lease->state == LEASE_HELD ||
			 (condition == IF_EXPIRED && lease->state == LEASE_VAIN)) &&
			(condition != IF_EXPIRED || lease->wheel_slot == WHEEL_EXPIRED) &&
			(condition != IF_OF_QUEUE ||
			 (lease->queue == queue && lease->session == NO_SESSION)));
	if (held)
	{
		lease->state = LEASE_SETTLING;
		if (lease->wheel_slot == WHEEL_EXPIRED)
		{
			wheel_unlink(partition, ref->entry);
			wheel_schedule(partition, ref->entry);
		}
		copy_granted(ref->entry, info);
	}
	unlock_partition(partition);
	return held;
}

/*
 * Begin to settle a lease.  Returns false if it is over, or a transaction
 * (the caller's included) is settling it already: then it is not the caller's
 * any more (race 4).  At the end of the transaction it is dropped or unsettled:
 * the caller has reserved room to note that, and does so before anything else
 * (pending_settled).  *info is set only if the result is true.
 */
bool
leases_settle(const LeaseRef *ref, LeaseInfo *info)
{
	return begin_settling(ref, info, IF_HELD, 0);
}

/*
 * Begin to settle a lease if it is of a queue, and of no session.  If it is
 * not, or if it is over, returns false and does nothing.  A backend that has
 * the queue open needs no leases_look before.
 */
bool
leases_settle_of(const LeaseRef *ref, int queue, LeaseInfo *info)
{
	return begin_settling(ref, info, IF_OF_QUEUE, queue);
}

/*
 * Begin to settle a lease that has run out, to put its task back: not if it was
 * extended meanwhile.  Also one that is held in vain, and no other function
 * does that.  For a pass, after leases_expired.
 */
bool
leases_settle_expired(const LeaseRef *ref, LeaseInfo *info)
{
	return begin_settling(ref, info, IF_EXPIRED, 0);
}

/*
 * The settling transaction failed: the lease is as it was, and runs out if
 * its deadline has passed meanwhile.  wake: the worker is woken for it.  A
 * pass does not wake it: it knows when to come again, and what it could not
 * put back it cannot put back at once.  Does nothing if the lease is over.
 *
 * A lease that has become vain meanwhile is vain then, and has run out (race
 * 28).  Called at the end of the transaction, or by a pass that gives up.
 */
void
leases_unsettle(const LeaseRef *ref, bool wake)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &lease_entries[ref->entry];
	Oid			database = InvalidOid;

	if (partition == NULL)
		return;
	Assert(lease->state == LEASE_SETTLING);
	lease->state = (lease->deadline == LEASE_VAIN_UNTIL) ? LEASE_VAIN : LEASE_HELD;
	if (lease->deadline <= wall_clock_steady() && lease->wheel_slot != WHEEL_EXPIRED)
	{
		wheel_unlink(partition, ref->entry);
		wheel_link(partition, ref->entry, WHEEL_EXPIRED);
		database = queue_state_by_number(lease->queue)->database;
	}
	unlock_partition(partition);
	if (wake && OidIsValid(database))
		worker_slots_wake_at(database, GetCurrentTimestamp() + TICK_USECS);
}

/*
 * A lease is going to end, and its task is as it was before: it is counted
 * again. And if it has expired meanwhile it is looked at again.
 *
 * Called under the lock of the lease, which ends before that is let go: so a
 * task is counted in its group, or by its lease, and never by both or neither.
 */
static void
count_given_back(const Lease *lease)
{
	AssertPartitionLockedExclusively(&lease_table->partitions[lease->partition]);
	if (unlikely(lease->outlived))
		queue_state_outlived(queue_state_by_number(lease->queue), lease->task);
	if (lease->counted && lease->group != FAIRQ_NO_GROUP)
		groups_count(lease->group, lease->overflow, 1);
}

/*
 * End a lease, whose partition is unlocked then.  used: its task was worked on,
 * which its group is told of; else it is as it was.
 *
 * The chain of the moved is left first, for it is found by the token.  The
 * session is told under the partition's lock, so that a backend that has a
 * lease locked knows that its session keeps its slot.
 *
 * The caller has the partition locked exclusively and the lease in it is in
 * use.  When this returns the partition is unlocked and the entry on its way
 * to the free list: whoever finds its number finds another token.  Never
 * fails.
 */
static void
end_lease(Partition *partition, uint32 number, bool used)
{
	Lease	   *lease = &lease_entries[number];
	uint32	   *link = &lease_chains[lease_hash(lease->queue, lease->task) & lease_chain_mask];

	AssertPartitionLockedExclusively(partition);
	lease_check(partition, number);
	if (!used)
		count_given_back(lease);
	while (*link != number)
	{
		Assert(*link != NO_ENTRY);
		link = &lease_entries[*link].hash_next;
	}
	*link = lease->hash_next;
	wheel_unlink(partition, number);
	Assert(partition->used > 0);
	partition->used--;
	if (lease->moved)
		lease_unlink_moved(number);
	if (lease->session != NO_SESSION)
		sessions_lease_ends(lease->session);
	lease->state = LEASE_FREE;
	lease->token = 0;
	if (!used)
		lease->started = LEASE_NOT_USED;
	unlock_partition(partition);
	lease_free_entry(number);
}

/*
 * End a lease, and say what it was (if info is not NULL): where its task's row
 * was seen last.  used: its task was worked on, which its group is told of;
 * else it is as it was, and counts in its group again.  Returns false if it was
 * over already.  At commit the caller offers the row when all leases of the
 * transaction have ended (race 3).
 */
bool
leases_drop(const LeaseRef *ref, bool used, LeaseInfo *info)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);

	if (partition == NULL)
		return false;
	if (info != NULL)
		copy_lease(ref->entry, info);
	end_lease(partition, ref->entry, used);
	return true;
}

/*
 * End a lease that no transaction is settling and that has no row, for there
 * is a row of another one.  Returns whether it has ended.  The task is not
 * counted, for that other lease on it is restored next.
 *
 * For the backend that restores durable leases (durable_restore.c), alone in
 * its queue.
 */
bool
leases_displace(const LeaseRef *ref)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &lease_entries[ref->entry];

	if (partition == NULL)
		return false;
	if (lease->state == LEASE_HELD && !lease->durable)
	{
		lease->counted = false;
		end_lease(partition, ref->entry, false);
		return true;
	}
	unlock_partition(partition);
	return false;
}

/*
 * The claim of a lease was rolled back: end it, and say where the row was
 * seen last.  Returns false if there is nothing to offer, because the lease
 * is over or another transaction is settling it, with a receipt that was
 * passed on before the claim had committed.  Then the lease goes on for that
 * one, and runs out at once if that does not settle it.
 */
bool
leases_give_back(const LeaseRef *ref, LeaseInfo *info)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &lease_entries[ref->entry];

	if (partition == NULL)
		return false;
	if (lease->state == LEASE_SETTLING)
	{
		wheel_unlink(partition, ref->entry);
		lease->deadline = Min(lease->deadline, 0);	/* vain stays vain */
		lease->attempt--;
		lease->excused = true;
		wheel_schedule(partition, ref->entry);
		unlock_partition(partition);
		return false;
	}
	copy_lease(ref->entry, info);
	end_lease(partition, ref->entry, false);
	return true;
}

/*
 * Move the deadline of a lease, by the steady clock.  Returns false if it is
 * over or settling, or held in vain.  In force at once, and not undone at
 * rollback.  One that has run out, but is not being put back, lives again.  The
 * caller has seen that its session is not over, and wakes the worker for the
 * new deadline.
 */
bool
leases_extend(const LeaseRef *ref, TimestampTz deadline, LeaseInfo *info)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &lease_entries[ref->entry];
	bool		held;

	if (partition == NULL)
		return false;
	held = (lease->state == LEASE_HELD);
	if (held)
	{
		wheel_unlink(partition, ref->entry);
		lease->deadline = deadline;
		lease->excused = false;
		if (lease->session != NO_SESSION)
			sessions_seen(lease->session);
		wheel_schedule(partition, ref->entry);
		copy_lease(ref->entry, info);
	}
	unlock_partition(partition);
	return held;
}

/*
 * A lease that was kept over a restart is of this group, which counts it: the
 * caller has called groups_adopt_lease.  That is undone if the lease is over by
 * now, or has a group already.
 */
void
leases_adopt(const LeaseRef *ref, uint32 group)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	bool		adopted = false;

	if (partition != NULL)
	{
		adopted = (lease_entries[ref->entry].group == FAIRQ_NO_GROUP);
		if (adopted)
			lease_entries[ref->entry].group = group;
		unlock_partition(partition);
	}
	if (!adopted)
		groups_lease_ends(group, -1, 0);
}

/*
 * How many leases a queue has, and how many of them are of tasks that their
 * rows say are in the overflow.  Looks at all leases of the server, without a
 * lock, and so may be wrong by those that begin and end meanwhile: for views.
 *
 * *overflow is set in any case.  Never fails.
 */
int
leases_count(int queue, int *overflow)
{
	int			n = 0;

	*overflow = 0;
	for (uint32 i = 0; i < lease_table->free.high_water; i++)
	{
		if (lease_entries[i].state != LEASE_FREE && lease_entries[i].queue == queue)
		{
			n++;
			*overflow += lease_entries[i].overflow;
		}
	}
	return n;
}

/*
 * Copy all leases into a palloc'd array.  Returns how many.  Partitions are
 * locked one after the other, so it is not one moment that is seen; and of a
 * partition that more than doubles meanwhile some are left out.
 */
int
leases_list(LeaseInfo **leases)
{
	int			n = 0;
	int			size = 1024;

	*leases = palloc(size * sizeof(LeaseInfo));
	wall_clock_check();
	for (int p = 0; p < PARTITIONS; p++)
	{
		Partition  *partition = &lease_table->partitions[p];
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
				 number = lease_entries[number].wheel_next)
				copy_lease(number, &(*leases)[n++]);
		}
		unlock_partition(partition);
	}
	return n;
}

/*
 * End all leases of a queue that is gone.  The caller holds the directory of
 * queues locked, and no other backend uses the queue: so none of these leases
 * begins or ends meanwhile.  The queue's groups are told, and go after this.
 */
void
leases_forget_queue(int queue)
{
	for (uint32 i = 0; i < lease_table->free.high_water; i++)
	{
		LeaseRef	ref;
		Partition  *partition = lock_lease_of(queue, i, LW_EXCLUSIVE, &ref);

		if (partition != NULL)
			end_lease(partition, i, false);
	}
}
