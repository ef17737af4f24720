/*-------------------------------------------------------------------------
 *
 * shared_state.h
 *	  The shared memory of pgfairq: its size, its start, its guards.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SHARED_STATE_H
#define FAIRQ_SHARED_STATE_H

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

extern void shared_state_request(void);
extern bool shared_state_ready(void);
extern int	shared_state_tranche(FairqTranche tranche);

#endif							/* FAIRQ_SHARED_STATE_H */
