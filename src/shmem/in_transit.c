/*-------------------------------------------------------------------------
 *
 * in_transit.c
 *	  Since when tasks have been on their way from one hand to another.
 *
 * A claim takes tasks out of lanes, and then leases them; a transaction that
 * commits is seen by others, and then hands its tasks over.  In between such a
 * task is in no lane and has no lease, just as one that was lost.  That takes
 * microseconds, unless the process is kept from running then, or reads a slow
 * disk: so how long it has lasted does not tell the one from the other.  Each
 * process says here since when it has had tasks on their way, and the sweep
 * (sweep.c) waits for it.
 *
 * Locking: none.  Each process writes its own place only, before it takes the
 * first task, and after it has let go of the last; both are followed or preceded
 * by a lock of a lane or a partition of leases, which is the memory barrier.  Who
 * reads does so after he has had these locks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"

#include "shmem/in_transit.h"

/* By the number of the process, as TimestampTz; 0: nothing. */
static pg_atomic_uint64 *since_when = NULL;

/* Has this process said that it has tasks in its hands? */
static bool begun = false;

static inline int
in_transit_places(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

Size
in_transit_shmem_size(void)
{
	return mul_size(in_transit_places(), sizeof(pg_atomic_uint64));
}

void
in_transit_shmem_init(void *area, bool found)
{
	since_when = area;
	if (found)
		return;
	for (int i = 0; i < in_transit_places(); i++)
		pg_atomic_init_u64(&since_when[i], 0);
}

/*
 * This process is about to take tasks, and began with it at the time since or
 * later.
 */
void
in_transit_begins(TimestampTz since)
{
	begun = true;
	pg_atomic_write_u64(&since_when[MyProc - ProcGlobal->allProcs], (uint64) since);
}

/*
 * It has none in its hands that nobody else can see.  May be said at any time, and
 * is at the end of every transaction, most of which have to do with no queue.
 */
void
in_transit_ends(void)
{
	if (likely(!begun))
		return;
	pg_atomic_write_u64(&since_when[MyProc - ProcGlobal->allProcs], 0);
	begun = false;
}

/*
 * Since when has somebody had tasks in his hands?  The longest; DT_NOEND if
 * nobody has any.
 */
TimestampTz
in_transit_oldest(void)
{
	TimestampTz oldest = DT_NOEND;

	for (int i = 0; i < in_transit_places(); i++)
	{
		TimestampTz since = (TimestampTz) pg_atomic_read_u64(&since_when[i]);

		if (since != 0 && since < oldest)
			oldest = since;
	}
	return oldest;
}
