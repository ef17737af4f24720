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

/* Bits of a queue; tasks share them by their ids. */
#define SUCCESSOR_BITS	32768

typedef struct SuccessorBits
{
	pg_atomic_uint32 any;		/* one is set */
	pg_atomic_uint32 words[SUCCESSOR_BITS / 32];
} SuccessorBits;

/*
 * Which tasks of a queue others wait for: predecessors of rows of
 * fairq.dependency (dependency_table.c).
 */
typedef struct QueueSuccessors
{
	pg_atomic_uint32 asked;		/* which array says so, plus one; 0: none yet */
	pg_atomic_uint32 stale;		/* all rows are to be read */
	SuccessorBits bits[2];
	/* The maintenance lock guards the rest, where the pass goes on. */
	bool		counting;
	int64		next_task;
	int64		next_predecessor;
	TimestampTz recount_at;		/* when to read them all again */
} QueueSuccessors;

/* May a task of the queue have successors? */
static inline bool
successor_filter_any(QueueSuccessors *successors)
{
	uint32		asked = pg_atomic_read_u32(&successors->asked);

	return asked == 0 || pg_atomic_read_u32(&successors->bits[asked - 1].any) != 0;
}

extern void successor_filter_init(QueueSuccessors *successors);
extern bool successor_filter_perhaps(QueueSuccessors *successors, int64 task);
extern void successor_filter_add(QueueSuccessors *successors, int64 task);
extern void successor_filter_recount(QueueSuccessors *successors);
extern bool successor_filter_is_stale(QueueSuccessors *successors);
extern void successor_filter_count_begins(QueueSuccessors *successors);
extern void successor_filter_count_ends(QueueSuccessors *successors);

#endif							/* FAIRQ_SUCCESSOR_FILTER_H */
