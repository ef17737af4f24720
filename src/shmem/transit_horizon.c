/*-------------------------------------------------------------------------
 *
 * transit_horizon.c
 *	  Since when each backend has held tasks that are in no lane and not leased.
 *
 * A claim takes tasks out of lanes before it leases them, and a transaction
 * that commits becomes visible before it offers its rows.  A task in between
 * looks like one that was lost.  That takes microseconds, unless the process
 * is kept from running then or reads a slow disk, so its duration does not
 * tell the one from the other.  Therefore each backend notes here since when
 * it has held such tasks.  The sweep (sweep.c) does not take a task for lost
 * while a backend has held any since before the sweep first missed that task.
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

/* By the number of the process, as TimestampTz; 0: it holds nothing. */
static pg_atomic_uint64 *since_when = NULL;

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
	return mul_size(transit_horizon_places(), sizeof(pg_atomic_uint64));
}

void
transit_horizon_shmem_init(void *area, bool found)
{
	since_when = area;
	if (found)
		return;
	for (int i = 0; i < transit_horizon_places(); i++)
		pg_atomic_init_u64(&since_when[i], 0);
}

/*
 * This process is about to take tasks, and began with it at the time since or
 * later.
 */
void
transit_horizon_begins(TimestampTz since)
{
	Assert(since != 0 && MyProc != NULL);
	begun = true;
	pg_atomic_write_u64(&since_when[MyProc - ProcGlobal->allProcs], (uint64) since);
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
	pg_atomic_write_u64(&since_when[MyProc - ProcGlobal->allProcs], 0);
	begun = false;
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
		TimestampTz since = (TimestampTz) pg_atomic_read_u64(&since_when[i]);

		if (since != 0 && since < oldest)
			oldest = since;
	}
	return oldest;
}
