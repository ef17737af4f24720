/*-------------------------------------------------------------------------
 *
 * successor_filter.h
 *	  Whether any task waits for the end of another one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SUCCESSOR_FILTER_H
#define FAIRQ_SUCCESSOR_FILTER_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/spin.h"

/* Counters of a queue; tasks share them by their ids. */
#define SUCCESSOR_PLACES	4096

/*
 * The dependencies of a queue, counted by predecessor: rows of
 * fairq.dependency (dependency_table.c).
 */
typedef struct QueueSuccessors
{
	slock_t		mutex;			/* guards changes of the next five */
	uint32		epoch;			/* which count this is */
	bool		known;			/* it is complete */
	bool		stale;			/* and is to begin anew */
	pg_atomic_uint64 any;		/* the sum of places, and 1 more unless known;
								 * read without the lock */
	pg_atomic_uint32 places[SUCCESSOR_PLACES];	/* read without the lock */
	/* The maintenance lock guards the rest, where the pass goes on. */
	int64		next_task;
	int64		next_predecessor;
	TimestampTz recount_at;		/* when to count them all again */
} QueueSuccessors;

/* May a task of the queue have successors? */
static inline bool
successor_filter_any(QueueSuccessors *successors)
{
	return pg_atomic_read_u64(&successors->any) != 0;
}

extern void successor_filter_init(QueueSuccessors *successors);
extern bool successor_filter_perhaps(QueueSuccessors *successors, int64 task);
extern uint32 successor_filter_raise(QueueSuccessors *successors, int64 task);
extern uint32 successor_filter_epoch(QueueSuccessors *successors);
extern void successor_filter_lower(QueueSuccessors *successors, int64 task, uint32 epoch);
extern void successor_filter_forget(QueueSuccessors *successors);
extern bool successor_filter_is_unknown(QueueSuccessors *successors);
extern bool successor_filter_count_begins(QueueSuccessors *successors, bool anew);
extern void successor_filter_count_ends(QueueSuccessors *successors);

#endif							/* FAIRQ_SUCCESSOR_FILTER_H */
