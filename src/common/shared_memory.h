/*-------------------------------------------------------------------------
 *
 * shared_memory.h
 *	  Whether there is shared memory, and the tranches of our LWLocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SHARED_MEMORY_H
#define FAIRQ_SHARED_MEMORY_H

#include "storage/lwlock.h"

/* The tranches of our LWLocks, as they show in pg_stat_activity. */
typedef enum FairqTranche
{
	FAIRQ_TRANCHE_QUEUE,
	FAIRQ_TRANCHE_LANE,
	FAIRQ_TRANCHE_GROUP,
	FAIRQ_TRANCHE_LIMIT,
	FAIRQ_TRANCHE_LEASE,
	FAIRQ_TRANCHE_LEASE_FREE,
	FAIRQ_TRANCHE_WORKER,
	FAIRQ_TRANCHE_SESSION,
	FAIRQ_TRANCHE_WAITER
} FairqTranche;

#define FAIRQ_TRANCHES	(FAIRQ_TRANCHE_WAITER + 1)

extern Size shared_memory_shmem_size(void);
extern void shared_memory_shmem_init(void *area, bool found);
extern bool shared_memory_ready(void);
extern int	shared_memory_tranche(FairqTranche tranche);

#endif							/* FAIRQ_SHARED_MEMORY_H */
