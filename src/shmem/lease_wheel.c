/*-------------------------------------------------------------------------
 *
 * lease_wheel.c
 *	  When leases run out.
 *
 * The timing wheels of the partitions (the head of lease_table.c says what they
 * are) are turned here, and what has run out is found.  To link a lease is a
 * matter of a few instructions, which are in lease_table.h.
 *
 * A wheel is turned by whatever process comes first in a tick, of any database.
 * It moves leases to the list of the expired and wakes the workers of their
 * databases.  A pass over a queue then asks for those of the queue, settles
 * them, and puts their tasks back.
 *
 * Locking: as in lease_table.c.  Each function takes the partitions' locks
 * itself, one at a time; the caller holds none of ours.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/wall_clock.h"
#include "shmem/lease_table.h"
#include "shmem/sessions.h"
#include "shmem/worker_slots.h"

/*
 * How often a lease that is settling past its deadline is looked at, in ticks:
 * once a second.
 */
#define SETTLING_TICKS	20

/*
 * Turn the wheel of a partition to a tick: what has expired goes to the list
 * of the expired; what is settling, or runs for another round, stays.
 *
 * Another process may have turned it further: then nothing is done.  If it was
 * not turned for more than a round each slot is looked at once.
 *
 * On return what was due by that tick is in the list of the expired, but for
 * what is settling.  now and tick are of one moment of the steady clock.
 * Takes and releases the partition's lock.
 */
static void
wheel_turn(Partition *partition, int64 tick, TimestampTz now)
{
	int64		from;

	Assert(tick >= 0);
	LWLockAcquire(&partition->lock, LW_EXCLUSIVE);
	from = Max(partition->tick + 1, tick - WHEEL_SLOTS + 1);
	partition->tick = Max(partition->tick, tick);
	for (int64 t = from; t <= tick; t++)
	{
		uint32		number = partition->wheel[t % WHEEL_SLOTS];

		while (number != NO_ENTRY)
		{
			Lease	   *lease = &lease_entries[number];
			uint32		next = lease->wheel_next;

			if (lease->deadline <= now)
			{
				wheel_unlink(partition, number);

				/* It expires if its transaction rolls back (race 5). */
				if (lease->state == LEASE_SETTLING)
					wheel_link(partition, number, (tick + SETTLING_TICKS) % WHEEL_SLOTS);
				else
				{
					wheel_link(partition, number, WHEEL_EXPIRED);

					/* Whoever turns the wheel may be of another database. */
					worker_slots_wake_at(queue_state_by_number(lease->queue)->database, 0);
				}
			}
			number = next;
		}
	}
	unlock_partition(partition);
}

/*
 * Look once a tick what has expired.  The first caller of a tick does the
 * work, which is in proportion to what expires.
 *
 * now is by the steady clock.  When this returns another process may still be
 * turning the wheels, and it wakes the worker for what it finds.
 *
 * Never fails, and the caller holds no lock of ours.  In most calls it is one
 * read of an atomic.
 */
void
leases_tick(TimestampTz now)
{
	int64		tick = now / TICK_USECS;
	uint64		turned = pg_atomic_read_u64(&lease_table->tick);

	if ((int64) turned >= tick ||
		!pg_atomic_compare_exchange_u64(&lease_table->tick, &turned, tick))
		return;
	for (int i = 0; i < PARTITIONS; i++)
		wheel_turn(&lease_table->partitions[i], tick, now);
}

/*
 * Sessions were closed: their leases have run out.  Looks at all leases there
 * are, for sessions that end with leases are few.
 *
 * Called after sessions_overdue has said so.  A lease that begins behind the
 * walk, by a claim that has seen its session alive, is found by the next one, a
 * second later.  One that is settling runs out if its transaction rolls back.
 *
 * On return each lease of a closed session that was there has run out: passes
 * over its queue find it (leases_expired), unless it is settling.  Never
 * fails.
 */
void
leases_end_sessions(void)
{
	for (uint32 i = 0; i < lease_table->free.high_water; i++)
	{
		Lease	   *lease = &lease_entries[i];
		uint32		session = ((volatile Lease *) lease)->session;
		Partition  *partition;
		LeaseRef	ref;

		if (lease->state == LEASE_FREE || session == NO_SESSION ||
			lease->wheel_slot == WHEEL_EXPIRED || !sessions_closed(session))
			continue;
		ref.entry = i;
		ref.token = lease->token;
		partition = lock_lease(&ref, LW_EXCLUSIVE);
		if (partition == NULL)
			continue;

		/* Under the lock once more: it may be another lease by now. */
		if (lease->session != NO_SESSION && lease->wheel_slot != WHEEL_EXPIRED &&
			sessions_closed(lease->session))
		{
			wheel_unlink(partition, i);
			lease->deadline = Min(lease->deadline, 0);	/* vain stays vain */
			if (lease->state == LEASE_HELD)
				wheel_link(partition, i, WHEEL_EXPIRED);
			else
				wheel_schedule(partition, i);
		}
		unlock_partition(partition);
	}
}

/*
 * The task of a lease is gone, which has been found out otherwise than by
 * whoever settles it: from now on it cannot be settled, and it has run out.
 * One that is settling ends when that commits, and has run out if it does not.
 *
 * This is for a task whose row was removed while another transaction settles
 * its lease (race 28), and for one whose row is found to be gone
 * (lease_rows.c).  The caller wakes the worker.
 *
 * Never fails: called at commit, too.  Does nothing if the lease is over.
 */
void
leases_end_vain(const LeaseRef *ref)
{
	Partition  *partition = lock_lease(ref, LW_EXCLUSIVE);
	Lease	   *lease = &lease_entries[ref->entry];

	if (partition == NULL)
		return;
	lease->deadline = LEASE_VAIN_UNTIL;
	if (lease->state == LEASE_HELD)
	{
		lease->state = LEASE_VAIN;
		if (lease->wheel_slot != WHEEL_EXPIRED)
		{
			wheel_unlink(partition, ref->entry);
			wheel_link(partition, ref->entry, WHEEL_EXPIRED);
		}
	}
	unlock_partition(partition);
}

/*
 * The leases of a session, in a palloc'd array.  Returns how many.  Looks at
 * all leases there are, first without a lock: an entry may become another
 * lease any time, and shows the old session with the new token then.  Under
 * the lock it is one lease, of the session whose slot it keeps; and its token
 * names it for ever.  When this returns any of them may be over.
 *
 * Fails only for want of memory, with no lock held.  The array is the
 * caller's.
 */
int
leases_of_session(const SessionRef *session, LeaseRef **refs)
{
	int			n = 0;
	int			size = 64;

	*refs = palloc(size * sizeof(LeaseRef));
	for (uint32 i = 0; i < lease_table->free.high_water; i++)
	{
		volatile Lease *lease = &lease_entries[i];
		Partition  *partition;
		LeaseRef	ref;
		bool		its;

		if (lease->state == LEASE_FREE || lease->session != session->number)
			continue;
		ref.entry = i;
		ref.token = lease->token;
		partition = lock_lease(&ref, LW_SHARED);
		if (partition == NULL)
			continue;
		its = (lease->session == session->number && sessions_is(session));
		unlock_partition(partition);
		if (!its)
			continue;
		if (n == size)
		{
			size *= 2;
			*refs = repalloc_huge(*refs, size * sizeof(LeaseRef));
		}
		(*refs)[n++] = ref;
	}
	return n;
}

/*
 * Up to max leases of a queue that have expired.  Returns how many.  leases has
 * room for max.  They are copies: the caller, a pass, settles each one with
 * leases_settle_expired, which looks whether it is still so.  Those that it
 * cannot put back stay in the list of the expired, or return there.
 *
 * Never fails.  Takes the partitions' locks, shared, one after the other, and
 * only of those that have any.
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
		Partition  *partition = &lease_table->partitions[(start + i) % PARTITIONS];
		uint32		number;

		/* Without the lock: a look that may be a tick late. */
		if (partition->wheel[WHEEL_EXPIRED] == NO_ENTRY)
			continue;
		LWLockAcquire(&partition->lock, LW_SHARED);
		number = partition->wheel[WHEEL_EXPIRED];
		while (number != NO_ENTRY && n < max)
		{
			if (lease_entries[number].queue == queue)
				copy_lease(number, &leases[n++]);
			number = lease_entries[number].wheel_next;
		}
		unlock_partition(partition);
	}
	return n;
}

/*
 * When the next lease of the server may run out: never later than it does, and
 * DT_NOEND if there is none.  Without locks; a lease that is granted meanwhile
 * is announced by its claim.
 *
 * It is the time of a tick, for leases run out by ticks; too early if what is
 * in its slot runs for another round.  Those that have run out are not looked
 * at: the worker was woken for them.  A lease may become one of them, or live
 * again, at any moment, so the caller asks once (race 16).
 */
TimestampTz
leases_next_deadline(void)
{
	int64		turned = wall_clock_steady() / TICK_USECS - WHEEL_SLOTS + 1;
	int64		nearest = PG_INT64_MAX;

	for (int i = 0; i < PARTITIONS; i++)
	{
		Partition  *partition = &lease_table->partitions[i];
		int64		tick;

		if (((volatile Partition *) partition)->used == 0)
			continue;

		/* From where this wheel has been turned to, not from now. */
		tick = ((volatile Partition *) partition)->tick;
		tick = Max(tick, turned) + 1;
		for (int ahead = 0; ahead < WHEEL_SLOTS && tick + ahead < nearest; ahead++)
		{
			if (partition->wheel[(tick + ahead) % WHEEL_SLOTS] != NO_ENTRY)
				nearest = tick + ahead;
		}
	}
	return nearest == PG_INT64_MAX ? DT_NOEND : wall_clock_shown(nearest * TICK_USECS);
}
