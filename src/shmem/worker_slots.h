/*-------------------------------------------------------------------------
 *
 * worker_slots.h
 *	  Who works in the background, and how they are woken.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_WORKER_SLOTS_H
#define FAIRQ_WORKER_SLOTS_H

#include "datatype/timestamp.h"

/*
 * How the worker of a database ended, for the launcher: one that has failed is
 * started again after a while, one that was stopped at once, unless there is to
 * be none, and one that was not needed after a worker_slots_probe().
 */
typedef enum WorkerEnd
{
	WORKER_FAILED,				/* it did not say */
	WORKER_NOT_NEEDED,			/* the extension is not in the database, or
								 * not in the library's version */
	WORKER_STOPPED				/* it was asked to */
} WorkerEnd;

extern Size worker_slots_shmem_size(void);
extern void worker_slots_shmem_init(void *area, bool found);

/* For everybody.  Only worker_slots_fence() sleeps, or may fail. */
extern void worker_slots_wake_at(Oid database, TimestampTz when);
extern void worker_slots_errand_at(Oid database, TimestampTz when);
extern void worker_slots_schedules(Oid database);
extern bool worker_slots_alive(Oid database);
extern void worker_slots_probe(Oid database);
extern void worker_slots_fence(Oid database);
extern void worker_slots_unfence(Oid database);

/* For the launcher, of which there is one. */
extern void worker_slots_launcher_begin(void);
extern int	worker_slots_reserve(Oid database, uint32 *reservation);
extern WorkerEnd worker_slots_unreserve(int slot);
extern int	worker_slots_find(Oid database);
extern void worker_slots_dismiss(Oid database);
extern bool worker_slots_fenced(Oid database);
extern int	worker_slots_probes(Oid *databases, int max, bool *all);

/*
 * For the worker of a database: what is due it is told in three kinds, each
 * with a function that is called before it looks and one that is called after.
 */
extern bool worker_slots_begin(int slot, uint32 reservation);
extern Oid	worker_slots_end(int slot, WorkerEnd end);
extern bool worker_slots_stop_requested(int slot);
extern void worker_slots_pass_begins(int slot);
extern TimestampTz worker_slots_next(int slot, TimestampTz when);
extern void worker_slots_errands_begin(int slot);
extern TimestampTz worker_slots_next_errand(int slot, TimestampTz when);
extern void worker_slots_schedules_begin(int slot);
extern TimestampTz worker_slots_next_schedule(int slot, TimestampTz when);

#endif							/* FAIRQ_WORKER_SLOTS_H */
