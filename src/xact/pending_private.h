/*-------------------------------------------------------------------------
 *
 * pending_private.h
 *	  What a transaction owes, as the files see it that keep the list of that
 *	  (pending.c) and carry it out (pending_kinds.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_PRIVATE_H
#define FAIRQ_PENDING_PRIVATE_H

#include "xact/pending.h"

typedef enum PendingKind
{
	PENDING_NOTHING,			/* what was owed has been taken back */
	PENDING_ENQUEUED,			/* commit: offer; abort: untag */
	PENDING_TAGGED,			/* abort: untag */
	PENDING_OFFER_AT_COMMIT,
	PENDING_OFFER_AT_ABORT,
	PENDING_LOWER_AT_COMMIT,
	PENDING_LOWER_AT_ABORT,
	PENDING_CLAIMED,			/* abort: drop the lease, offer */
	PENDING_SETTLED,			/* commit: drop the lease; abort: unsettle */
	PENDING_RELEASED,			/* the same; commit: offer, too */
	PENDING_CANCELLED,			/* commit: untag */
	PENDING_PURGED,			/* commit: groups start level */
	PENDING_REMOVED,			/* commit: a task is counted no more */
	PENDING_READY_REMOVED,		/* commit: a group has fewer tasks ready */
	PENDING_OVERFLOW_REMOVED,	/* commit: a group has fewer in the overflow */
	PENDING_WRITTEN,			/* a task was written with SQL; abort: it is not there */
	PENDING_RECOUNT,			/* abort: not all is known that is to be untagged */
	PENDING_NOT_COUNTED,		/* commit: rows were written that nobody has counted */
	PENDING_OVERFLOWED,		/* a group has tasks in the overflow, or not */
	PENDING_FED,				/* a group's overflow was moved, or not */
	PENDING_GROUP_SET,			/* commit: a group has other limits; or not */
	PENDING_DEFAULTS_SET,		/* commit: the others of a queue have */
	PENDING_READ_AGAIN,		/* commit: have a queue's rows read anew */
	PENDING_ROOM,				/* give back what was reserved for tasks */
	PENDING_MAINTAINED,		/* a pass: nothing is owed, but no PREPARE */
	PENDING_DUE_ADDED,			/* commit: wake the worker in time */
	PENDING_DUE_DONE,			/* commit: forget a due row that was skipped */
	PENDING_DUE_READ,			/* commit: move the frontier of what is due */
	PENDING_DUE_HELD,			/* commit: have it read again from there on */
	PENDING_HELD,				/* look at it, unless others will */
	PENDING_LOOK,				/* commit: look at all that are held */
	PENDING_LOOKED,			/* abort: look again */
	PENDING_SESSION_CLOSED,	/* commit: end a session */
	PENDING_SETTINGS,			/* commit: a queue's settings have changed */
	PENDING_PROBE,				/* commit: have the launcher look */
	PENDING_RELEASE_QUEUE		/* commit: forget a queue */
} PendingKind;

typedef struct PendingAction
{
	uint8		kind;			/* a PendingKind */
	bool		of_overflow;	/* PENDING_REMOVED, _WRITTEN: the task is; _FED: some
								 * tasks were given places */
	SubTransactionId subid;
	Lane	   *lane;
	FairqAddress address;
	ItemPointerData tid;
	uint16		group;			/* of a task that is offered, for those who wait */
	int64		task;			/* of the overflow, whose place it is; 0: it has an
								 * address */
	union
	{
		LeaseRef	lease;
		SessionRef	session;
		struct
		{
			VirtualTime finish;
			uint32		group;
			int			ready;	/* tasks that count as ready */
		}			tag;
		struct
		{
			DueCursor  *cursor;
			DuePlace	place;
			TimestampTz wake_at;
		}			due;
		struct
		{
			QueueState *queue;
			int64		task;
			int64		before;
		}			held;
		struct
		{
			QueueState *queue;
			VirtualTime finish;
			uint32		group;
		}			purged;
		struct
		{
			QueueState *queue;
			uint32		limit;
			LimitSettings settings;
		}			group_set;
		struct
		{
			QueueState *queue;
			uint32		group;
			int			n;
			int64		id;
			int64		held;
			int64		lost;	/* abort: look for those below again */
			int64		left;	/* commit: the same */
		}			overflow;
		struct
		{
			Oid			database;
			Oid			relation;
		}			release;
	}			u;
} PendingAction;

extern void pending_row_untag(const PendingAction *item);
extern void pending_action_end_lease(PendingAction *item);
extern void pending_action_commit(const PendingAction *item);
extern void pending_action_after_commit(const PendingAction *item);
extern void pending_action_abort(PendingAction *item);
extern void pending_action_check_prepare(const PendingAction *item);
extern void pending_action_before_prepare(const PendingAction *item);
extern void pending_action_prepare(PendingAction *item, TransactionId xid);
extern void pending_settings_seen(void);

#endif							/* FAIRQ_PENDING_PRIVATE_H */
