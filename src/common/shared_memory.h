/*-------------------------------------------------------------------------
 *
 * shared_memory.h
 *	  Whether there is shared memory; tranches of our LWLocks, wait events.
 *
 * Each area of shared memory (pgfairq.c has a table of them) is of one module,
 * which has two functions for it.  The one for its size says how many bytes it
 * takes: it goes by settings alone, and is called before any is allocated.  The
 * one that sets it up is given the area, by the postmaster at each start, and
 * where processes do not inherit memory by each of them.  If it is new (found
 * is false) it is zeros, and the function sets it up; no lock of ours is
 * needed, as no other process has it yet.  Neither fails.
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
	FAIRQ_TRANCHE_WAITER,
	FAIRQ_TRANCHE_NAME
} FairqTranche;

#define FAIRQ_TRANCHES	(FAIRQ_TRANCHE_NAME + 1)

/* What processes of ours sleep for; pg_stat_activity shows it from 17 on. */
typedef enum FairqWaitEvent
{
	FAIRQ_WAIT_TASKS,			/* a claim with wait, or fairq.wait */
	FAIRQ_WAIT_WORKER,			/* the worker: for what is due */
	FAIRQ_WAIT_LAUNCHER,		/* the launcher: for databases that need a
								 * worker */
	FAIRQ_WAIT_WORKER_STOP,		/* a command: for the worker to leave */
	FAIRQ_WAIT_INDEX,			/* a claim: for another one that reads the
								 * index */
	FAIRQ_WAIT_RECOVERY,		/* for a queue's rows to be read at a start */
	FAIRQ_WAIT_OUTCOME			/* fairq.await: for the end of a task */
} FairqWaitEvent;

#define FAIRQ_WAIT_EVENTS	(FAIRQ_WAIT_OUTCOME + 1)

extern Size shared_memory_shmem_size(void);
extern void shared_memory_shmem_init(void *area, bool found);
extern bool shared_memory_ready(void);
extern int	shared_memory_tranche(FairqTranche tranche);
extern uint32 shared_memory_wait_event(FairqWaitEvent event);
extern uint64 shared_memory_seed(void);

#endif							/* FAIRQ_SHARED_MEMORY_H */
