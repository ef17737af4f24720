/*-------------------------------------------------------------------------
 *
 * wakeup.h
 *	  Who works in the background, and how they are woken.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_WAKEUP_H
#define FAIRQ_WAKEUP_H

#include "datatype/timestamp.h"

/* How the worker of a database ended, for the launcher. */
typedef enum WorkerEnd
{
	WORKER_FAILED,				/* it did not say */
	WORKER_NOT_NEEDED,			/* the extension is not in the database */
	WORKER_STOPPED				/* it was asked to */
} WorkerEnd;

extern Size wakeup_shmem_size(void);
extern void wakeup_shmem_init(void *area, bool found);

/* For everybody. */
extern void wakeup_at(Oid database, TimestampTz when);
extern void wakeup_errand_at(Oid database, TimestampTz when);
extern bool wakeup_worker_alive(Oid database);
extern void wakeup_probe(Oid database);
extern void wakeup_hold(Oid database);
extern void wakeup_unhold(Oid database);

/* For the launcher. */
extern void wakeup_launcher_begin(void);
extern int	wakeup_reserve(Oid database, uint32 *reservation);
extern WorkerEnd wakeup_unreserve(int slot);
extern int	wakeup_slot_of(Oid database);
extern void wakeup_dismiss(Oid database);
extern bool wakeup_held(Oid database);
extern int	wakeup_probes(Oid *databases, int max, bool *all);

/* For the worker of a database. */
extern bool wakeup_worker_begin(int slot, uint32 reservation);
extern Oid	wakeup_worker_end(int slot, WorkerEnd end);
extern bool wakeup_stop_requested(int slot);
extern void wakeup_pass_begins(int slot);
extern TimestampTz wakeup_next(int slot, TimestampTz when);
extern void wakeup_errands_begin(int slot);
extern TimestampTz wakeup_next_errand(int slot, TimestampTz when);

#endif							/* FAIRQ_WAKEUP_H */
