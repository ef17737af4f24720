/*-------------------------------------------------------------------------
 *
 * waiter_seats.h
 *	  The lists of those who wait for tasks, as the files see them that work
 *	  with them: waiters.c, waiter_errands.c and waiter_seats.c.
 *
 * The head of waiter_seats.c says which lock guards what.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_WAITER_SEATS_H
#define FAIRQ_WAITER_SEATS_H

#include "lib/ilist.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

#include "shmem/waiters.h"

/* Groups that a sleeper may name; with more it is told of all. */
#define MAX_GROUPS		8

/* How long a client that was told has to claim before another is told. */
#define WAITERS_CLIENT_USECS	INT64CONST(100000)

/* Bits of attention: how many are in the list, and whether to NOTIFY. */
#define ATTENTION_NOTIFY	((uint32) 1 << 31)

/* That there may be something to claim. */
typedef struct WaiterWord
{
	uint64		turn;			/* only for seats that joined before this
								 * turn */
	int16		bucket;			/* WAITERS_ANY_BUCKET: not known */
	uint16		group;			/* WAITERS_ANY_GROUP: not known */
	bool		many;			/* perhaps of more than one task */
} WaiterWord;

/*
 * The list of a queue, whether that is in use or not.  The lock guards all but
 * the atomic fields, which are read without it.
 *
 * While no backend has the lock exclusively (check_list): the seats are in the
 * order of their turns, which are all below turn; none of them was told;
 * attention counts them, and choosy those among them that do not want just any
 * task.
 */
typedef struct WaiterList
{
	LWLock		lock;
	dlist_head	seats;			/* first come, first told */
	uint64		turn;			/* of the next seat that joins */
	int			choosy;			/* read without the lock: a hint */
	Oid			database;		/* of the queue, since a backend joined */
	pg_atomic_uint32 attention; /* how many are in the list, changed under the
								 * lock; and ATTENTION_NOTIFY */
	pg_atomic_uint32 pending;	/* there is something to NOTIFY of */
	pg_atomic_uint64 notify_after;	/* and not before this */
	pg_atomic_uint64 claimed_by;	/* a client claims by then; 0: none */
} WaiterList;

/*
 * A backend's seat in a list.  While it is in one the list's lock guards it;
 * after that it is the backend's own.  told is set last, behind a write
 * barrier: an owner that has read it reads the rest after a read barrier.
 */
typedef struct WaiterSeat
{
	WaiterList *list;			/* the one it is in; NULL: none */
	dlist_node	node;			/* its place there */
	uint64		turn;			/* when it joined */
	volatile bool told;			/* it was taken out of the list ... */
	bool		gone;			/* ... because the queue is no more; else: */
	WaiterWord	word;
} WaiterSeat;

/*
 * waiter_seats.c.  waiter_seats_join, waiter_seats_leave and both that tell
 * take the list's lock, and so the caller does not hold it.  The others take
 * none.  None fails.
 */
extern WaiterList *waiter_seats_list(int queue);
extern int	waiter_seats_queue(const WaiterList *list);
extern WaiterSeat *waiter_seats_mine(int seat);
extern bool waiter_seats_want(const WaiterWants *wanted);
extern void waiter_seats_join(WaiterList *list, WaiterSeat *seat, Oid database);
extern bool waiter_seats_leave(WaiterList *list, WaiterSeat *seat);
extern void waiter_seats_awake(void);
extern bool waiter_seats_tell(WaiterList *list, WaiterWord *word, bool new);
extern bool waiter_seats_tell_one(WaiterList *list);

/* How many are in a list; 0 may have changed by now. */
static inline uint32
waiter_seats_count(WaiterList *list)
{
	return pg_atomic_read_u32(&list->attention) & ~ATTENTION_NOTIFY;
}

#endif							/* FAIRQ_WAITER_SEATS_H */
