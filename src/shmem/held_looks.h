/*-------------------------------------------------------------------------
 *
 * held_looks.h
 *	  Held tasks of a queue: at which a pass is to look, and when; and whether any
 *	  task waits for the end of another one.
 *
 * Both are parts of a queue's state (queue_state.h); each structure says what
 * guards it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_HELD_LOOKS_H
#define FAIRQ_HELD_LOOKS_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/spin.h"

/* Held tasks to look at that are remembered one by one. */
#define HELD_LOOKS		32

/* Why a task is to be looked at once more, and not at once. */
typedef enum HeldAgain
{
	HELD_BUSY,					/* it, or one before it, is in others' hands */
	HELD_FAILED,				/* it could not be ended */
} HeldAgain;

#define HELD_AGAIN_COUNT	(HELD_FAILED + 1)

/*
 * Tasks that are to be looked at once more, for one reason: some by name, and
 * all from an id on.  The mutex of the queue's HeldLooks guards it.  at is
 * DT_NOEND if and only if count is 0; walk_at is DT_NOEND if and only if from
 * is PG_INT64_MAX.
 */
typedef struct HeldPutOff
{
	TimestampTz at;				/* when, by name; DT_NOEND: there are none */
	int			count;
	int			oldest;			/* if there is no room: who gives way */
	int64		tasks[HELD_LOOKS];
	TimestampTz walk_at;		/* when a walk is to begin; DT_NOEND: none is */
	int64		from;			/* and from which id on */
} HeldPutOff;

/*
 * What is to be looked at, by name or in a walk over all that is held.
 * Whoever writes has the mutex.  A walk is the pass's, which has the
 * maintenance lock.
 *
 * A task that may have nothing before it any more is named in tasks or put_off,
 * or its id is not below walk_from, next_from or the from of a put_off, or a
 * pass has taken it and puts it back if it rolls back: so none is forgotten.
 */
typedef struct HeldLooks
{
	slock_t		mutex;			/* guards the rest */
	int			count;
	int64		tasks[HELD_LOOKS];
	int64		walk_from;		/* how far the walk has come; PG_INT64_MAX:
								 * there is none */
	TimestampTz walk_began;		/* 0: it has yet to */
	TimestampTz rests_until;	/* none for what was put off begins before */
	int64		next_from;		/* where the next one begins; PG_INT64_MAX:
								 * none is asked for */
	HeldPutOff	put_off[HELD_AGAIN_COUNT];
} HeldLooks;

/*
 * held_looks.c.  All but held_looks_init and held_looks_next take the mutex, so
 * the caller holds no spinlock.  None fails: a transaction may call them when
 * it has ended.
 */
extern void held_looks_init(HeldLooks *looks);
extern void held_looks_add(HeldLooks *looks, int64 task, bool all);
extern void held_looks_put_off(HeldLooks *looks, int64 task, bool named, HeldAgain why,
							   TimestampTz now);
extern int	held_looks_take(HeldLooks *looks, TimestampTz now, int64 *tasks, int64 *from);
extern void held_looks_walked(HeldLooks *looks, int64 from);
extern void held_looks_rest(HeldLooks *looks, TimestampTz now);
extern void held_looks_put_back(HeldLooks *looks, int64 task, bool all);
extern void held_looks_hurry(HeldLooks *looks);
extern TimestampTz held_looks_next(const HeldLooks *looks);

/* successor_filter.c: whether any task waits for the end of another one */
/* Bits of a queue; tasks share them by their ids. */
#define SUCCESSOR_BITS	32768

/* A filter: the bit of a task that has successors is set, and any with it. */
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

#endif							/* FAIRQ_HELD_LOOKS_H */
