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

/*
 * Grant a lease as it was: *saved has what is not of this server's run, its
 * times by the wall clock.  As enter_lease, with a token that the lease has had
 * before.
 */
static Lease *
enter_saved(uint32 hash, uint32 number, const LeaseInfo *saved, uint64 token)
{
	LeaseInfo	info = *saved;

	info.ref.token = token;
	info.deadline = wall_clock_unshown(saved->deadline);
	info.started = wall_clock_unshown(saved->started);
	info.pid = 0;
	return enter_lease(partition_of(hash), hash, number, &info);
}

/* ----------------------------------------------------------------
 * Durable leases
 * ----------------------------------------------------------------
 */

/*
 * A lease has a row in fairq.durable_lease now, or has it elsewhere.  Called as
 * soon as the row is written, by the transaction that has written it: from then
 * on whoever ends the lease looks for the row there.  If that transaction rolls
 * back the place leads nowhere, and is a hint anyway (durable_leases.c).
 * Returns false if the lease is over, and whoever has ended it has found no
 * row.  Never fails.
 */
bool
leases_set_durable(const LeaseRef *ref, const ItemPointerData *durable_tid)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);

	if (partition == NULL)
		return false;
	lease_entries[ref->entry].durable = true;
	lease_durables[ref->entry].tid = *durable_tid;
	unlock_partition(partition);
	return true;
}

/*
 * Grant a lease as it was before a crash, unless it is there: as it was written
 * to fairq.durable_lease, where its row is at durable_tid, and, from its task's
 * row, with tid, group and overflow.  Its session is NO_SESSION, or it has run
 * out and it is SESSION_OVER.  For a new one there has to be a reserved entry.
 * LEASE_VOID: the task has another one, which is in ref then.
 *
 * The caller is the only one that reads the rows of the queue
 * (queue_state_recovery_begin); leases that are there may be settled meanwhile.
 * The group has adopted the lease (groups_adopt_lease), if it is known.  If the
 * result is LEASE_RESTORED the lease has taken over what its group has counted
 * for it; else the caller takes that back.  Never fails.
 *
 * A lease that is there already, from the file or from an earlier reading, is
 * told where its row is now.  It keeps its deadline and its session.
 *
 * *ref is set in any case: with LEASE_RESTORED and LEASE_KNOWN to the lease of
 * the row, with LEASE_NO_ROOM and for what is no receipt to no lease.  Takes
 * and releases the partition's lock, and inside it that of the moved.
 */
LeaseRestored
leases_restore_durable(const LeaseInfo *saved, const pg_uuid_t *receipt, LeaseRef *ref)
{
	uint32		hash = lease_hash(saved->queue, saved->task);
	Partition  *partition = partition_of(hash);
	LeaseRestored result = LEASE_KNOWN;
	uint64		high;
	uint64		token;
	uint32		number;

	ref->entry = 0;
	ref->token = 0;
	if (!node_split_uuid(receipt, &high, &token))
		return LEASE_VOID;

	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	number = search_chain(hash, saved->queue, saved->task);
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
		enter_saved(hash, number, saved, token)->excused = true;
	if (result == LEASE_RESTORED || result == LEASE_KNOWN)
	{
		/* Its token is set by now, which says in which chain it is moved. */
		Lease	   *lease = &lease_entries[number];

		lease->durable = true;
		lease_durables[number].tid = saved->durable_tid;
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
 * any lease is restored, so that receipts stay good.  After that it does not
 * change while the server runs, and is read without a lock.
 */
uint32
leases_salt(void)
{
	return lease_table->salt;
}

/*
 * Set the salt of the start before.  For the postmaster, alone, while there is
 * no lease.
 */
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
 *
 * *saved is set only if there is one, with padding that is zero, for it is
 * written as it is.  number is from 0 on.
 */
int
leases_save(int number, LeaseInfo *saved)
{
	Lease	   *lease = &lease_entries[number];
	SessionInfo session;

	if ((uint32) number >= lease_table->free.high_water)
		return -1;
	if (lease->state != LEASE_HELD)
		return 0;
	memset(saved, 0, sizeof(LeaseInfo));
	copy_lease(number, saved);
	if (lease->session != NO_SESSION && !sessions_save(lease->session, &session))
	{
		saved->deadline = 0;
		saved->session = SESSION_OVER;
	}
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
 *
 * Never fails: what does not fit is left out, for its task is delivered again.
 * The caller has checked that the file is whole, not what it says.
 */
void
leases_restore(const LeaseInfo *saved)
{
	uint32		hash = lease_hash(saved->queue, saved->task);
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
	lease = enter_saved(hash, number, saved, saved->ref.token);
	lease->group = FAIRQ_NO_GROUP;
	lease->excused = (saved->session == NO_SESSION);
	if (saved->session != NO_SESSION)
		sessions_lease_restored(saved->session);
}
