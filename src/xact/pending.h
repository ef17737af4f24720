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

/* Actions before those of new rows are folded: of 88 bytes each, 88 MB. */
#define PENDING_MAX			(1024 * 1024)

/* What a kind may keep in an action. */
#define PENDING_DATA_SIZE	72

typedef struct PendingAction PendingAction;
typedef void (*PendingCallback) (PendingAction *action);

/* When actions are carried out at commit; within a phase in their order. */
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
 * PREPARE: prepare or check_prepare is set.
 *
 * commit, abort and prepare are called when the transaction has ended: they
 * must not fail, and so they allocate nothing.
 */
typedef struct PendingKind
{
	const char *name;			/* for debuggers */
	PendingPhase phase;			/* of commit */
	PendingCallback commit;
	PendingCallback abort;
	PendingCallback check_prepare;	/* raises an error: PREPARE is refused */
	PendingCallback before_prepare; /* PREPARE is not refused; may fail */
	PendingCallback prepare;	/* often the same function as commit or abort */
} PendingKind;

struct PendingAction
{
	const PendingKind *kind;
	SubTransactionId subid;		/* that it is part of */
	SubTransactionId undone_with;	/* that undoes it when it rolls back */
	union
	{
		char		data[PENDING_DATA_SIZE];
		int64		align;
	}			u;
};

/*
 * Note an action; the result is its data.  Does not fail if room was reserved.
 */
#define pending_new(kind, type) \
	(StaticAssertExpr(sizeof(type) <= PENDING_DATA_SIZE, "a pending action has no room for " #type), \
	 (type *) pending_add(&(kind))->u.data)

#define pending_data(action, type)	((type *) (action)->u.data)

extern void pending_register(void);
extern void pending_at_abort(void (*hook) (void));

extern void pending_reserve(int n);
extern PendingAction *pending_add(const PendingKind *kind);
extern int	pending_mark(void);
extern PendingAction *pending_action(int number);
extern PendingAction *pending_find(int number, const PendingKind *kind);
extern void pending_become(PendingAction *action, const PendingKind *kind);
extern void pending_drop(PendingAction *action);
extern void pending_nothing(PendingAction *action);
extern TransactionId pending_preparing(void);

#endif							/* FAIRQ_PENDING_H */
