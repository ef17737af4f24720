/*-------------------------------------------------------------------------
 *
 * lease_restore.c
 *	  Leases that are there after a restart: from the file that a clean
 *	  shutdown leaves (lease_file.c), and durable ones from their rows
 *	  (durable_leases.c).
 *
 * A lease of the file has the entry, the token and the salt that it had, so its
 * receipt leads to it.  One of a row gets another entry, and its receipt is
 * found among the moved; if it is there from the file the row only says that it
 * is durable.
 *
 * Locking: as in lease_table.c for durable leases.  The rest runs in the
 * postmaster, without locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/node_number.h"
#include "common/settings.h"
#include "shmem/groups.h"
#include "shmem/lease_table.h"
#include "shmem/sessions.h"

/* ----------------------------------------------------------------
 * Durable leases
 * ----------------------------------------------------------------
 */

/*
 * A lease has a row in fairq.durable_lease now, or has it elsewhere.  Called as
 * soon as the row is written, by the transaction that has written it: from then
 * on whoever ends the lease looks for the row there.  If that transaction rolls
 * back the place leads nowhere, and is a hint anyway (durable_leases.c).  Does
 * nothing if the lease is over; never fails.
 */
void
leases_set_durable(const LeaseRef *ref, const ItemPointerData *durable_tid)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);

	if (partition == NULL)
		return;
	lease_entries[ref->entry].durable = true;
	lease_durables[ref->entry].tid = *durable_tid;
	unlock_partition(partition);
}

/*
 * Grant a lease as it was before a crash, unless it is there.  For a new one
 * there has to be a reserved entry.  If its session is over it has run out.
 * LEASE_VOID: the task has another one, which is in ref then.
 *
 * The caller is the only one that reads the rows of the queue
 * (queue_state_recovery_begin); leases that are there may be settled meanwhile.
 * If the result is LEASE_RESTORED the lease has taken over what its group has
 * counted for it; else the caller takes that back.  Never fails.
 *
 * A lease that is there already, from the file or from an earlier reading, is
 * told where its row is now.  It keeps its deadline and its session.
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

	ref->entry = 0;
	ref->token = 0;
	if (!lease_split_receipt(&durable->receipt, &high, &token))
		return LEASE_VOID;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	number = search_chain(hash, durable->queue, durable->task);
	if (number != NO_ENTRY && lease_entries[number].token != token)
	{
		result = LEASE_VOID;
		ref->entry = number;
		ref->token = lease_entries[number].token;
	}
	else if (number == NO_ENTRY)
	{
		number = lease_take_reserved();
		result = (number == NO_ENTRY) ? LEASE_NO_ROOM : LEASE_RESTORED;
	}
	if (result == LEASE_RESTORED)
	{
		lease = enter_lease(partition, hash, number, durable->queue, durable->task);
		lease->attempt = durable->attempt;
		lease->token = token;
		lease->tid = durable->tid;
		lease->deadline = durable->over ? 0 : durable->deadline;
		lease->pid = 0;
		lease->session = durable->over ? SESSION_OVER : NO_SESSION;
		lease->group = durable->group;
		lease->overflow = durable->overflow;
		lease->started = durable->started;
		lease->excused = true;
		wheel_schedule(partition, number);
	}
	if (result == LEASE_RESTORED || result == LEASE_KNOWN)
	{
		/* Its token is set by now, which says in which chain it is moved. */
		lease = &lease_entries[number];
		lease->durable = true;
		lease_durables[number].tid = durable->durable_tid;
		if (!lease->moved && (high & ~NODE_UUID_MASK) != lease_usual_receipt(number))
			lease_move(number, high);
		ref->entry = number;
		ref->token = lease->token;
	}
	unlock_partition(partition);
	return result;
}

/* ----------------------------------------------------------------
 * Across a restart: in the postmaster, alone
 * ----------------------------------------------------------------
 */

/*
 * The salt of receipts: 12 bits.  That of the start before is set again before
 * any lease is restored, so that receipts stay good.
 */
uint32
leases_salt(void)
{
	return lease_table->salt;
}

void
leases_set_salt(uint32 salt)
{
	lease_table->salt = salt & 0xFFF;
}

/*
 * What is kept of a lease: 1; 0 if there is none of this number; -1 if there
 * are none from here on.  If its session is over (that of a connection is)
 * the lease has run out, and the task has not been put back yet: that it was
 * tried must not be forgotten.
 *
 * All other processes have ended, so no lease is settling.  One that is held in
 * vain has no task, and is not kept.
 */
int
leases_save(int number, SavedLease *saved)
{
	Lease	   *lease = &lease_entries[number];
	SavedSession session;
	bool		over;

	if ((uint32) number >= lease_table->free.high_water)
		return -1;
	if (lease->state != LEASE_HELD)
		return 0;
	over = lease->session != NO_SESSION && !sessions_save(lease->session, &session);
	memset(saved, 0, sizeof(SavedLease));
	saved->ref.entry = number;
	saved->ref.token = lease->token;
	saved->task = lease->task;
	saved->deadline = over ? 0 : lease->deadline;
	saved->queue = lease->queue;
	saved->attempt = lease->attempt;
	saved->session = over ? SESSION_OVER : lease->session;
	saved->started = lease->started;
	saved->tid = lease->tid;
	saved->overflow = lease->overflow;
	return 1;
}

/*
 * Grant a lease as it was, if it fits.  Called in the order of their entries,
 * when the queues and the sessions have been restored.  Sizes may have been set
 * lower since, and with them a lease is forgotten whose entry, queue or session
 * is beyond; so is one of a task that has one.
 *
 * Its group is not known (leases_adopt), nor is its task counted: that is made
 * good when the rows are read.  Without a session it is excused until it is
 * extended, for its worker could not reach the server.
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
		(saved->session > (uint32) settings_max_sessions && saved->session != SESSION_OVER) ||
		search_chain(hash, saved->queue, saved->task) != NO_ENTRY)
		return;

	/* Entries in between that were free are free now. */
	while (lease_table->free.high_water <= number)
	{
		uint32		free = lease_table->free.high_water++;

		lease_entries[free].state = LEASE_FREE;
		if (free < number)
			free_entries_give(&lease_table->free, free, &lease_entries[free].hash_next);
	}
	if (lease_entries[number].state != LEASE_FREE ||
		number != lease_table->free.high_water - 1)
		return;
	lease = enter_lease(partition, hash, number, saved->queue, saved->task);
	lease->attempt = saved->attempt;
	lease->token = saved->ref.token;
	lease->tid = saved->tid;
	lease->deadline = saved->deadline;
	lease->pid = 0;
	lease->session = saved->session;
	lease->group = FAIRQ_NO_GROUP;
	lease->overflow = saved->overflow;
	lease->started = saved->started;
	lease->excused = (saved->session == NO_SESSION);
	if (saved->session != NO_SESSION)
		sessions_lease_restored(saved->session);
	wheel_schedule(partition, number);
}
