/*-------------------------------------------------------------------------
 *
 * transit_horizon.c
 *	  What each backend that commits, or claims, has yet to tell others.
 *
 * A claim takes tasks out of lanes before it leases them, and a transaction
 * that commits becomes visible before it offers its rows.  A task in between
 * looks like one that was lost.  That takes microseconds, unless the process
 * is kept from running then or reads a slow disk, so its duration does not
 * tell the one from the other.  Therefore each backend notes here since when
 * it has held such tasks.  The sweep (sweep.c) does not take a task for lost
 * while a backend has held any since before the sweep first missed that task.
 *
 * Whoever meets a row of a transaction that has committed may have to wait for
 * what that owes (row_reader_wait_writer).  It waits for the lock of the
 * transaction's id.  A subtransaction has given up the lock of its own by then,
 * so each backend notes as it commits which ids those have.
 *
 * Locking: none.  A backend writes its own slot only, before it takes the first
 * task and after it has released the last.  On either side it takes a lock of a
 * lane or of a partition of leases, which is the memory barrier; readers must
 * have taken the same locks first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"

#include "shmem/queue_state.h"

/* What one process says. */
typedef struct Transit
{
	pg_atomic_uint64 since;		/* when it began to hold tasks, as TimestampTz;
								 * 0: it holds none */
	pg_atomic_uint64 writers;	/* the transaction that commits (high half),
								 * and the last of its subtransactions that
								 * owe something; 0: none does */
} Transit;

/* By the number of the process. */
static Transit *transits = NULL;

/* Has this process noted that it holds tasks? */
static bool begun = false;

static inline int
transit_horizon_places(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

Size
transit_horizon_shmem_size(void)
{
	return mul_size(transit_horizon_places(), sizeof(Transit));
}

void
transit_horizon_shmem_init(void *area, bool found)
{
	transits = area;
	if (found)
		return;
	for (int i = 0; i < transit_horizon_places(); i++)
	{
		pg_atomic_init_u64(&transits[i].since, 0);
		pg_atomic_init_u64(&transits[i].writers, 0);
	}
}

static inline Transit *
mine(void)
{
	Assert(MyProc != NULL);
	return &transits[MyProc - ProcGlobal->allProcs];
}

/*
 * This process is about to take tasks, and began with it at the time since or
 * later.
 */
void
transit_horizon_begins(TimestampTz since)
{
	Assert(since != 0);
	begun = true;
	pg_atomic_write_u64(&mine()->since, (uint64) since);
}

/*
 * This process is about to commit the transaction top, which owes something for
 * rows of subtransactions, the last of which is last.  The caller has begun
 * (transit_horizon_begins).
 */
void
transit_horizon_commits(TransactionId top, TransactionId last)
{
	Assert(begun && TransactionIdPrecedes(top, last));
	pg_atomic_write_u64(&mine()->writers, (uint64) top << 32 | last);
}

/*
 * This process holds no task that others cannot see.  May be called at any
 * time, and is called at the end of every transaction, most of which use no
 * queue.
 */
void
transit_horizon_ends(void)
{
	if (likely(!begun))
		return;
	pg_atomic_write_u64(&mine()->since, 0);
	pg_atomic_write_u64(&mine()->writers, 0);
	begun = false;
}

/*
 * A process, from number *place on, whose transaction may have xid as a
 * subtransaction, and may have committed without having done yet all that it
 * owes.  Returns that transaction, and *place is the number of the next process
 * then; InvalidTransactionId: there is none.
 *
 * The caller has seen that xid has committed: so that process has noted it
 * before, and has done all if it says so no more.  The barriers are in the
 * locks of the proc array, or of the row's page.
 */
TransactionId
transit_horizon_top(TransactionId xid, int *place)
{
	while (*place < transit_horizon_places())
	{
		uint64		writers = pg_atomic_read_u64(&transits[(*place)++].writers);
		TransactionId top = (TransactionId) (writers >> 32);

		if (writers != 0 && TransactionIdPrecedes(top, xid) &&
			TransactionIdPrecedesOrEquals(xid, (TransactionId) writers))
			return top;
	}
	return InvalidTransactionId;
}

/*
 * Since when has any process held tasks?  The earliest; DT_NOEND if none holds
 * any.
 */
TimestampTz
transit_horizon_oldest(void)
{
	TimestampTz oldest = DT_NOEND;

	for (int i = 0; i < transit_horizon_places(); i++)
	{
		TimestampTz since = (TimestampTz) pg_atomic_read_u64(&transits[i].since);

		if (since != 0 && since < oldest)
			oldest = since;
	}
	return oldest;
}
