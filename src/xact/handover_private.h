/*-------------------------------------------------------------------------
 *
 * handover_private.h
 *	  What a transaction owes, as the files see it that keep the list of that
 *	  (handover.c) and carry it out (handover_items.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_HANDOVER_PRIVATE_H
#define FAIRQ_HANDOVER_PRIVATE_H

#include "xact/handover.h"

typedef enum HandoverKind
{
	HANDOVER_NOTHING,			/* what was owed has been taken back */
	HANDOVER_ENQUEUED,			/* commit: offer; abort: untag */
	HANDOVER_TAGGED,			/* abort: untag */
	HANDOVER_OFFER_AT_COMMIT,
	HANDOVER_OFFER_AT_ABORT,
	HANDOVER_LOWER_AT_COMMIT,
	HANDOVER_LOWER_AT_ABORT,
	HANDOVER_CLAIMED,			/* abort: drop the lease, offer */
	HANDOVER_SETTLED,			/* commit: drop the lease; abort: unsettle */
	HANDOVER_RELEASED,			/* the same; commit: offer, too */
	HANDOVER_CANCELLED,			/* commit: untag */
	HANDOVER_PURGED,			/* commit: groups start level */
	HANDOVER_REMOVED,			/* commit: a task is counted no more */
	HANDOVER_READY_REMOVED,		/* commit: a group has fewer tasks ready */
	HANDOVER_OVERFLOW_REMOVED,	/* commit: a group has fewer in the overflow */
	HANDOVER_WRITTEN,			/* a task was written with SQL; abort: it is not there */
	HANDOVER_RECOUNT,			/* abort: not all is known that is to be untagged */
	HANDOVER_NOT_COUNTED,		/* commit: rows were written that nobody has counted */
	HANDOVER_OVERFLOWED,		/* a group has tasks in the overflow, or not */
	HANDOVER_FED,				/* a group's overflow was moved, or not */
	HANDOVER_GROUP_SET,			/* commit: a group has other limits; or not */
	HANDOVER_DEFAULTS_SET,		/* commit: the others of a queue have */
	HANDOVER_READ_AGAIN,		/* commit: have a queue's rows read anew */
	HANDOVER_ROOM,				/* give back what was reserved for tasks */
	HANDOVER_MAINTAINED,		/* a pass: nothing is owed, but no PREPARE */
	HANDOVER_DUE_ADDED,			/* commit: wake the worker in time */
	HANDOVER_DUE_DONE,			/* commit: forget a due row that was skipped */
	HANDOVER_DUE_READ,			/* commit: move the frontier of what is due */
	HANDOVER_DUE_HELD,			/* commit: have it read again from there on */
	HANDOVER_HELD,				/* look at it, unless others will */
	HANDOVER_LOOK,				/* commit: look at all that are held */
	HANDOVER_LOOKED,			/* abort: look again */
	HANDOVER_SESSION_CLOSED,	/* commit: end a session */
	HANDOVER_SETTINGS,			/* commit: a queue's settings have changed */
	HANDOVER_PROBE,				/* commit: have the launcher look */
	HANDOVER_RELEASE_QUEUE		/* commit: forget a queue */
} HandoverKind;

typedef struct HandoverItem
{
	uint8		kind;			/* a HandoverKind */
	bool		of_overflow;	/* HANDOVER_REMOVED, _WRITTEN: the task is; _FED: some
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
} HandoverItem;

extern void handover_item_untag(const HandoverItem *item);
extern void handover_item_end_lease(HandoverItem *item);
extern void handover_item_commit(const HandoverItem *item);
extern void handover_item_after_commit(const HandoverItem *item);
extern void handover_item_abort(HandoverItem *item);
extern void handover_item_check_prepare(const HandoverItem *item);
extern void handover_item_before_prepare(const HandoverItem *item);
extern void handover_item_prepare(HandoverItem *item, TransactionId xid);
extern void handover_items_seen(void);

#endif							/* FAIRQ_HANDOVER_PRIVATE_H */
