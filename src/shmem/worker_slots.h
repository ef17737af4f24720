/*-------------------------------------------------------------------------
 *
 * worker_slots.h
 *	  Who works in the background, and how they are woken.
 *
 * A worker is known by the number of its slot, from worker_slots_reserve to
 * worker_slots_unreserve.  Times are TimestampTz of the wall clock;
 * PG_INT64_MAX: never, before something is said.
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

/*
 * What a worker comes for.  Each has a time of its own: who sleeps or listens,
 * and schedules, take no look at the queues.
 */
typedef enum WorkerLook
{
	WORKER_QUEUES,				/* a pass over all queues */
	WORKER_ERRANDS,				/* for those who wait or listen */
	WORKER_SCHEDULES
} WorkerLook;

#define WORKER_LOOKS	(WORKER_SCHEDULES + 1)

extern Size worker_slots_shmem_size(void);
extern void worker_slots_shmem_init(void *area, bool found);

/*
 * For all backends.  The first two take no lock, and so may be called under
 * any.  worker_slots_probe, worker_slots_fence and worker_slots_unfence take
 * that of the slots.  Only worker_slots_fence() sleeps, or may fail.
 */
extern void worker_slots_look_at(Oid database, WorkerLook look, TimestampTz when);
extern bool worker_slots_alive(Oid database);
extern void worker_slots_probe(Oid database);
extern void worker_slots_fence(Oid database);
extern void worker_slots_unfence(Oid database);

/*
 * For the launcher, of which there is one, and which alone gives slots and
 * takes them back.  These take the lock of the slots, and never fail.
 */
extern void worker_slots_launcher_begin(void);
extern int	worker_slots_reserve(Oid database, uint32 *reservation);
extern WorkerEnd worker_slots_unreserve(int slot);
extern int	worker_slots_find(Oid database);
extern void worker_slots_dismiss(Oid database);
extern bool worker_slots_fenced(Oid database);
extern int	worker_slots_probes(Oid *databases, int max, bool *all);

/*
 * For the worker of a database: slot is its own, between worker_slots_begin and
 * worker_slots_end.  Of each kind of look it calls worker_slots_begin_look
 * before and worker_slots_next_look after it.  worker_slots_begin and
 * worker_slots_end take the lock of the slots, the others none.  None fails.
 */
extern bool worker_slots_begin(int slot, uint32 reservation);
extern Oid	worker_slots_end(int slot, WorkerEnd end);
extern bool worker_slots_stop_requested(int slot);
extern void worker_slots_begin_look(int slot, WorkerLook look);
extern TimestampTz worker_slots_next_look(int slot, WorkerLook look, TimestampTz when);

/* Something is due in a queue of a database: see worker_slots_look_at. */
static inline void
worker_slots_wake_at(Oid database, TimestampTz when)
{
	worker_slots_look_at(database, WORKER_QUEUES, when);
}

#endif							/* FAIRQ_WORKER_SLOTS_H */
