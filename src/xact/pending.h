/*-------------------------------------------------------------------------
 *
 * pending.h
 *	  Pending actions: what a transaction owes to others when it ends.
 *
 * The files pending_*.c each define the kinds of one subject, and the
 * functions with which a verb notes an action of these kinds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_H
#define FAIRQ_PENDING_H

#include "shmem/queue_state.h"

/* Actions before those of new rows are folded: of 88 bytes each, 88 MB. */
#define PENDING_MAX			(1024 * 1024)

/*
 * Bytes that a kind may keep in an action.  pending_new() looks at compile
 * time whether what a kind keeps has room there.
 */
#define PENDING_DATA_SIZE	72

typedef struct PendingAction PendingAction;
typedef void (*PendingCallback) (PendingAction *action);

/*
 * When actions are carried out at commit: all of a phase before any of the
 * next, and within a phase in the order in which they were noted.  At rollback
 * there are no phases: actions are undone in the reverse of that order.
 */
typedef enum PendingPhase
{
	PENDING_IN_ORDER,			/* unless a kind says otherwise */
	PENDING_LEASES_END,			/* before: no row is offered yet */
	PENDING_LAST				/* after: all tasks are counted and offered */
} PendingPhase;

#define PENDING_PHASES		(PENDING_LAST + 1)

/*
 * A kind of action, told by a constant in the file of its owner.  A callback
 * that is NULL has nothing to do; but each kind says what becomes of it at
 * PREPARE: prepare, refused or check_prepare is set (pending_add asserts it).
 *
 * commit, abort and prepare are called when the transaction has ended: they
 * must not fail, and so they allocate nothing and note nothing.  One of them
 * is called for an action, once, unless it becomes another; so it frees what
 * the action points to.  No lock of ours is held when they are called, and
 * they take those that they need.
 *
 * check_prepare and before_prepare are called before PREPARE, while the
 * transaction may still fail: all of the former before any of the latter.
 */
typedef struct PendingKind
{
	const char *name;			/* for debuggers */
	PendingPhase phase;			/* of commit */
	PendingCallback commit;
	PendingCallback abort;
	const char *refused;		/* the error with which PREPARE is refused;
								 * NULL: it is not */
	const char *refused_hint;	/* of that error; set if refused is */
	PendingCallback check_prepare;	/* raises an error of its own */
	PendingCallback before_prepare; /* PREPARE is not refused; may fail */
	PendingCallback prepare;	/* often the same function as commit or abort */
} PendingKind;

/*
 * What is owed, an element of the transaction's list.  It is the backend's
 * own, so nothing guards it.  The list grows and so may move: a pointer to an
 * action is good only until the next one is noted.
 *
 * undone_with is set when the action is noted and stays, while subid becomes
 * the parent's at its commit.  The action is undone by a rollback of
 * undone_with, or of any parent of that: so, as parents have lower numbers, if
 * the one that rolls back is not above undone_with.
 */
struct PendingAction
{
	const PendingKind *kind;
	SubTransactionId subid;		/* that it is part of; its parent's from when
								 * that has committed */
	SubTransactionId undone_with;	/* that undoes it when it rolls back */
	union						/* not zeroed: who notes it sets each field */
	{
		char		data[PENDING_DATA_SIZE];
		int64		align;
	}			u;
};

/*
 * Note an action; the result is its data, which the caller fills in before it
 * does anything else.  Does not fail if room was reserved (pending_reserve).
 */
#define pending_new(kind, type) \
	(StaticAssertExpr(sizeof(type) <= PENDING_DATA_SIZE, "a pending action has no room for " #type), \
	 (type *) pending_add(&(kind))->u.data)

/* The data of an action, as its kind keeps it.  The caller knows the kind. */
#define pending_data(action, type)	((type *) (action)->u.data)

/*
 * When hooks are called.  The last two are called when the transaction, or the
 * subtransaction, has ended: what is called then must not fail.
 */
typedef enum PendingMoment
{
	PENDING_BEFORE_COMMIT,		/* or before PREPARE: it may write, and fail */
	PENDING_AT_ABORT,			/* of a subtransaction as well, before its
								 * actions are undone; must not fail */
	PENDING_AT_END				/* of the transaction; must not fail */
} PendingMoment;

#define PENDING_MOMENTS		(PENDING_AT_END + 1)

/*
 * pending.c.  None takes a lock: the list is the backend's own.  pending_add
 * and pending_call are called in a transaction that has not ended; they and
 * pending_reserve fail only for want of memory, and then the list is as it
 * was.  The others never fail.  Those that take an action take one of the list.
 */
extern void pending_register(void);
extern void pending_hook(PendingMoment moment, void (*hook) (void));

extern void pending_reserve(int n);
extern PendingAction *pending_add(const PendingKind *kind);
extern int	pending_mark(void);
extern PendingAction *pending_action(int number);
extern PendingAction *pending_find(int number, const PendingKind *kind);
extern void *pending_recent(const PendingKind *kind, const void *subject);
extern void pending_become(PendingAction *action, const PendingKind *kind);
extern void pending_drop(PendingAction *action);
extern void pending_nothing(PendingAction *action);
extern TransactionId pending_preparing(void);

/*
 * A call that is owed, about a queue, or n tasks of a group of it; or about a
 * relation where the queue's state may not be known: then queue is NULL.
 * number is the group's, or the relation's OID.  It is made when the
 * transaction has ended, with no lock of ours held, and must not fail.
 */
typedef void (*PendingCall) (QueueState *queue, uint32 number, int n);

extern void pending_call(PendingCall call, QueueState *queue, uint32 number, int n);

#endif							/* FAIRQ_PENDING_H */
