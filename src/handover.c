/*-------------------------------------------------------------------------
 *
 * handover.c
 *	  What a transaction owes to others when it ends.
 *
 * Tasks change hands at the end of transactions: an enqueued row becomes
 * claimable at commit; a claim that is rolled back gives its leases back and
 * offers the rows to the next claimer; a lease that is being settled ends at
 * commit and goes on at rollback.  This file keeps the list of what is owed,
 * in order, each item with its subtransaction, and carries it out in the
 * callbacks: forwards at commit, backwards at rollback.  Backwards, because
 * what came later was built on what came before: a task claimed and acked in
 * one transaction is first unsettled, then its lease is dropped, then the row
 * offered.  Always in that order: a row offered while its lease still stands
 * would be taken for somebody else's, passed over and lost until found again.
 * For the same reason all leases that end at commit end before any row is
 * offered, for the row may have been written before the lease was settled.
 *
 * The callbacks run when the transaction has ended for everybody else (it is
 * out of the proc array) and while it still has its locks on the relations.  The
 * first is what lanes.c relies on; the second keeps the shared state of a
 * queue from being released under us.  They must not fail, so they allocate
 * nothing: what they need is in the list.
 *
 * A list of millions of items would be a lot of memory.  When it is full the
 * items of new rows are folded: for each lane the lowest address, from which
 * the index is read again.  The only loss is a slower refill.
 *
 * A prepared transaction gives no callback when it ends, and the process that
 * ends it knows nothing of our list.  So PREPARE TRANSACTION is refused when
 * there are leases in the list.  Rows written in it are left in doubt: their
 * lanes remember the first, and claims look whether the transaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "handover.h"
#include "in_transit.h"
#include "stats.h"
#include "waiting.h"
#include "wakeup.h"

/* Items before new rows are folded: 96 MB. */
#define MAX_ITEMS		(1024 * 1024)

typedef enum HandoverKind
{
	HANDOVER_NOTHING,			/* what was owed has been taken back */
	HANDOVER_ENQUEUED,			/* commit: offer; abort: untag */
	HANDOVER_OFFER_AT_COMMIT,
	HANDOVER_OFFER_AT_ABORT,
	HANDOVER_LOWER_AT_COMMIT,
	HANDOVER_LOWER_AT_ABORT,
	HANDOVER_CLAIMED,			/* abort: drop the lease, offer */
	HANDOVER_SETTLED,			/* commit: drop the lease; abort: unsettle */
	HANDOVER_RELEASED,			/* the same; commit: offer, too */
	HANDOVER_CANCELLED,			/* commit: untag */
	HANDOVER_PURGED,			/* commit: groups start level */
	HANDOVER_REMOVED,			/* commit: a group has fewer tasks ready */
	HANDOVER_OVERFLOW_REMOVED,	/* commit: a group has fewer in the overflow */
	HANDOVER_OVERFLOWED,		/* a group has tasks in the overflow, or not */
	HANDOVER_FED,				/* a group's overflow was moved, or not */
	HANDOVER_GROUP_SET,			/* commit: a group has other limits; or not */
	HANDOVER_DEFAULTS_SET,		/* commit: the others of a queue have */
	HANDOVER_READ_AGAIN,		/* commit: have a queue's rows read anew */
	HANDOVER_ROOM,				/* give back what was reserved for tasks */
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
		}			overflow;
		struct
		{
			Oid			database;
			Oid			relation;
		}			release;
	}			u;
} HandoverItem;

static HandoverItem *items = NULL;
static int	items_count = 0;
static int	items_size = 0;
static int	lease_items = 0;	/* those that forbid PREPARE TRANSACTION */
static bool room_reserved = false;	/* some HANDOVER_ROOM is in the list */
static int	feedings = 0;		/* groups that are being fed */

/*
 * Where in the list the overflow of a group was noted last: a hint, by group.  So
 * there is one item for each group, not for each task.
 */
#define OVERFLOW_HINTS	1024
static int	overflow_hints[OVERFLOW_HINTS];

static TransactionId preparing_xid = InvalidTransactionId;
static bool wake_when_seen = false;

/*
 * Tables of queues that were created in this transaction and have a shared
 * state already, with the subtransaction that created them.  If that is
 * rolled back there never was such a table, and its state goes.
 */
#define MAX_CREATED		64

static struct
{
	Oid			relation;
	SubTransactionId subid;
}			created[MAX_CREATED];
static int	created_count = 0;

/*
 * Entries on their way from a lane to a lease.  They are in no window any
 * more, so if the claimer fails they go back.
 */
#define MAX_HELD		LANE_WINDOW

static LaneEntry held_entries[MAX_HELD];
static Lane *held_lanes[MAX_HELD];
static int	held_count = 0;

/*
 * Make room for n items.  Before something is done in shared memory that an
 * item has to undo: adding the item cannot fail then.
 */
void
handover_reserve(int n)
{
	int			size = Max(items_size, 128);

	if (items_count + n <= items_size)
		return;
	while (size < items_count + n)
		size *= 2;
	if (items == NULL)
		items = MemoryContextAllocHuge(TopMemoryContext,
									   size * sizeof(HandoverItem));
	else
		items = repalloc_huge(items, size * sizeof(HandoverItem));
	items_size = size;
}

static HandoverItem *
new_item(HandoverKind kind)
{
	HandoverItem *item;

	handover_reserve(1);
	item = &items[items_count++];
	item->kind = kind;
	item->group = WAITING_ANY_GROUP;
	item->task = 0;
	item->subid = GetCurrentSubTransactionId();
	return item;
}

/* A task is not going to be served: its group has its tag back. */
static void
untag(const HandoverItem *item)
{
	VirtualTime start = {item->address.block, item->address.fraction};

	/* What is cancelled may be leased, so who does it says what it was. */
	groups_untag(item->address.slot, item->u.tag.group, start, item->u.tag.finish,
				 item->kind == HANDOVER_ENQUEUED);
}

/*
 * Fold a row into the lowest address of its lane and subtransaction.
 */
static void
lower_item(HandoverKind kind, Lane *lane, const FairqAddress *address)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	HandoverItem *item;

	for (int i = items_count - 1; i >= 0 && i >= items_count - 2 * FAIRQ_MAX_BUCKETS; i--)
	{
		item = &items[i];
		if (item->subid != subid)
			break;
		if (item->kind == kind && item->lane == lane)
		{
			if (address_compare(address, &item->address) < 0)
				item->address = *address;
			return;
		}
	}
	item = new_item(kind);
	item->lane = lane;
	item->address = *address;
}

static void
place_item(HandoverKind kind, Lane *lane, const FairqAddress *address,
		   const ItemPointerData *tid)
{
	HandoverItem *item = new_item(kind);

	item->lane = lane;
	item->address = *address;
	item->tid = *tid;
}

/*
 * A row is going to be written at a new address.  tag is NULL where there are
 * no groups.  Said before the row is written, so that the tag is given back if
 * that fails; the result is for handover_written to say where the row is.
 */
int
handover_placed(Lane *lane, const FairqAddress *address, const GroupTag *tag)
{
	HandoverItem *item;

	if (items_count >= MAX_ITEMS)
	{
		lower_item(HANDOVER_LOWER_AT_COMMIT, lane, address);
		return -1;
	}
	item = new_item(tag ? HANDOVER_ENQUEUED : HANDOVER_OFFER_AT_COMMIT);
	item->lane = lane;
	item->address = *address;
	ItemPointerSetInvalid(&item->tid);
	if (tag != NULL)
	{
		item->u.tag.finish = tag->finish;
		item->u.tag.group = tag->group;
	}
	return items_count - 1;
}

/*
 * Whose task it is, for those who wait for some groups only.
 */
void
handover_group(int placed, const char *key, int keylen)
{
	if (placed >= 0)
		items[placed].group = waiting_group(key, keylen);
}

void
handover_written(int placed, const ItemPointerData *tid)
{
	if (placed >= 0)
		items[placed].tid = *tid;
}

/*
 * The row was not written after all: the group has its tag back.
 */
void
handover_not_written(int placed)
{
	if (placed < 0)
		return;
	if (items[placed].kind == HANDOVER_ENQUEUED)
		untag(&items[placed]);
	items[placed].kind = HANDOVER_NOTHING;
}

void
handover_offer_at_commit(Lane *lane, const FairqAddress *address,
						 const ItemPointerData *tid)
{
	if (items_count >= MAX_ITEMS)
		lower_item(HANDOVER_LOWER_AT_COMMIT, lane, address);
	else
		place_item(HANDOVER_OFFER_AT_COMMIT, lane, address, tid);
}

/*
 * A claimable row is being deleted or changed.
 */
void
handover_offer_at_abort(Lane *lane, const FairqAddress *address,
						const ItemPointerData *tid)
{
	if (items_count >= MAX_ITEMS)
		lower_item(HANDOVER_LOWER_AT_ABORT, lane, address);
	else
		place_item(HANDOVER_OFFER_AT_ABORT, lane, address, tid);
}

void
handover_lower_at_commit(Lane *lane, const FairqAddress *address)
{
	lower_item(HANDOVER_LOWER_AT_COMMIT, lane, address);
}

void
handover_lower_at_abort(Lane *lane, const FairqAddress *address)
{
	lower_item(HANDOVER_LOWER_AT_ABORT, lane, address);
}

/*
 * A claim has come to the place of a task of the overflow that this transaction may
 * have changed (written) or removed: whether it is there is known when it ends.
 */
void
handover_passed(Lane *lane, const LaneEntry *place, bool written)
{
	for (int i = 0; i < (written ? 2 : 1); i++)
	{
		HandoverItem *item = new_item(i == 0 ? HANDOVER_OFFER_AT_ABORT :
									  HANDOVER_OFFER_AT_COMMIT);

		item->lane = lane;
		lanes_entry_address(lane, place, &item->address);
		item->tid = place->tid;
		item->task = lanes_entry_task(place);
	}
}

/*
 * A lease was granted, on a task in a place.
 */
void
handover_claimed(const LeaseInfo *lease, Lane *lane, const LaneEntry *place)
{
	HandoverItem *item;

	item = new_item(HANDOVER_CLAIMED);
	item->lane = lane;
	lanes_entry_address(lane, place, &item->address);
	item->task = lanes_entry_task(place);
	item->u.lease = lease->ref;
	lease_items++;
}

/*
 * A lease is settling.  Nothing may come between that and this: whatever fails
 * later, the lease is unsettled.  The result names the item to the next two.
 */
int
handover_settled(const LeaseInfo *lease)
{
	HandoverItem *item = new_item(HANDOVER_SETTLED);

	item->u.lease = lease->ref;
	lease_items++;
	return items_count - 1;
}

/*
 * The lease is given back: its task is as it was.  task is which one it is, if it
 * is of the overflow and the address is in memory only; else 0.
 */
void
handover_released(int settled, Lane *lane, const FairqAddress *address,
				  int64 task)
{
	HandoverItem *item = &items[settled];

	Assert(item->kind == HANDOVER_SETTLED);
	item->kind = HANDOVER_RELEASED;
	item->lane = lane;
	item->address = *address;
	item->task = task;
}

/*
 * It did not come to that: the lease goes on.
 */
void
handover_not_settled(int settled)
{
	HandoverItem *item = &items[settled];

	Assert(item->kind == HANDOVER_SETTLED);
	leases_unsettle(&item->u.lease);
	item->kind = HANDOVER_NOTHING;
	lease_items--;
}

/*
 * A task is being removed that was the last of its group.
 */
void
handover_cancelled(const FairqAddress *address, const GroupTag *tag)
{
	HandoverItem *item = new_item(HANDOVER_CANCELLED);

	item->address = *address;
	item->u.tag.finish = tag->finish;
	item->u.tag.group = tag->group;
}

/*
 * Rows may have been written without our trigger.
 */
void
handover_read_again(Oid relation)
{
	new_item(HANDOVER_READ_AGAIN)->u.release.relation = relation;
}

/*
 * The tasks of a group are being removed (tag NULL: of all groups).
 */
void
handover_purged(QueueState *queue, const GroupTag *tag)
{
	HandoverItem *item = new_item(HANDOVER_PURGED);

	item->u.purged.queue = queue;
	item->u.purged.group = tag ? tag->group : FAIRQ_NO_GROUP;
	if (tag)
		item->u.purged.finish = tag->finish;
}

/*
 * Reserve room for n tasks more in a queue that may have max.  Returns false if
 * there is none.
 */
bool
handover_room(QueueState *queue, int n, int64 max)
{
	HandoverItem *item;

	handover_reserve(1);
	if (!queue_state_reserve(queue, n, max))
		return false;
	item = new_item(HANDOVER_ROOM);
	item->u.overflow.queue = queue;
	item->u.overflow.n = n;
	room_reserved = true;
	return true;
}

/*
 * What a group may have is being changed, and that was announced; room was
 * reserved.
 */
void
handover_group_set(QueueState *queue, uint32 limit, const LimitSettings *settings)
{
	HandoverItem *item = new_item(HANDOVER_GROUP_SET);

	item->u.group_set.queue = queue;
	item->u.group_set.limit = limit;
	item->u.group_set.settings = *settings;
}

/*
 * The same of those groups of a queue that were not given anything.
 */
void
handover_defaults_set(QueueState *queue, const LimitSettings *settings)
{
	HandoverItem *item = new_item(HANDOVER_DEFAULTS_SET);

	/* As if one of them had a limit: no lease is granted that nobody counts. */
	pg_atomic_fetch_add_u32(&queue->limits.entries, 1);
	item->u.group_set.queue = queue;
	item->u.group_set.settings = *settings;
}

/*
 * Nobody will be told when a prepared transaction commits that changes what groups
 * may have: but everybody is when settings have changed, and looks at them then.
 */
static void
prepare_settings(const HandoverItem *item)
{
	if (item->kind != HANDOVER_GROUP_SET)
		return;
	item->u.group_set.queue->limits.prepared = true;
	CacheInvalidateRelcacheByRelid(item->u.group_set.queue->relation);
}

/*
 * A ready task is being removed.
 */
void
handover_removed(QueueState *queue, uint32 group,
				 const FairqAddress *address)
{
	HandoverItem *item = new_item(HANDOVER_REMOVED);

	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->address = *address;
}

/*
 * n tasks in the overflow of a group are being removed, from an id on.
 */
void
handover_overflow_removed(QueueState *queue, uint32 group, int n, int64 id)
{
	HandoverItem *item = new_item(HANDOVER_OVERFLOW_REMOVED);

	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->u.overflow.n = n;
	item->u.overflow.id = id;
}

/* The item of this subtransaction for the overflow of a group, or NULL. */
static HandoverItem *
overflow_item(QueueState *queue, uint32 group)
{
	int			i = overflow_hints[group % OVERFLOW_HINTS];

	if (i < items_count && items[i].kind == HANDOVER_OVERFLOWED &&
		items[i].subid == GetCurrentSubTransactionId() &&
		items[i].u.overflow.queue == queue && items[i].u.overflow.group == group)
		return &items[i];
	return NULL;
}

/*
 * A task is put into the overflow of its group.  Room was reserved.
 */
void
handover_overflowed(QueueState *queue, uint32 group, int64 id)
{
	HandoverItem *item = overflow_item(queue, group);

	if (item != NULL)
	{
		item->u.overflow.n++;
		item->u.overflow.id = Min(item->u.overflow.id, id);
		return;
	}
	item = new_item(HANDOVER_OVERFLOWED);
	overflow_hints[group % OVERFLOW_HINTS] = items_count - 1;
	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->u.overflow.n = 1;
	item->u.overflow.id = id;
}

/*
 * The task that was noted last was not written after all.
 */
void
handover_not_overflowed(QueueState *queue, uint32 group)
{
	HandoverItem *item = overflow_item(queue, group);

	Assert(item != NULL);

	/* Without tasks the group may be forgotten, and so must the item be. */
	if (--item->u.overflow.n == 0)
		item->kind = HANDOVER_NOTHING;
	groups_overflow_ends(queue, group, 1, PG_INT64_MAX, false);
}

/*
 * A group was taken from the list of the hungry; room was reserved.  The result
 * is for handover_fed to say what came of it.
 */
int
handover_feeding(QueueState *queue, uint32 group)
{
	HandoverItem *item = new_item(HANDOVER_FED);

	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->u.overflow.n = 0;
	item->u.overflow.id = PG_INT64_MIN;
	item->u.overflow.held = PG_INT64_MAX;
	feedings++;
	return items_count - 1;
}

/*
 * Is any group being fed by this transaction?
 */
bool
handover_feeds(void)
{
	return feedings > 0;
}

void
handover_fed(int feeding, int moved, int64 next, int64 held)
{
	Assert(items[feeding].kind == HANDOVER_FED);
	items[feeding].u.overflow.n = moved;
	items[feeding].u.overflow.id = next;
	items[feeding].u.overflow.held = held;
}

/*
 * Count at commit.  There is no order between counts, and many are alike, so
 * they have a list of their own.
 */
void
handover_count(QueueState *queue, QueueCounter counter, int64 n)
{
	stats_tally(queue, counter, n);
}

/*
 * A row was added that cursor has to find, and the worker to look for at
 * wake_at.  Of a run of them the earliest says it all.
 */
void
handover_due_added(DueCursor *cursor, TimestampTz due, TimestampTz wake_at)
{
	HandoverItem *item = items_count > 0 ? &items[items_count - 1] : NULL;

	if (item == NULL || item->kind != HANDOVER_DUE_ADDED ||
		item->subid != GetCurrentSubTransactionId() || item->u.due.cursor != cursor)
	{
		item = new_item(HANDOVER_DUE_ADDED);
		item->u.due.cursor = cursor;
		item->u.due.place.due = due;
		item->u.due.wake_at = wake_at;
	}
	item->u.due.place.due = Min(item->u.due.place.due, due);
	item->u.due.wake_at = Min(item->u.due.wake_at, wake_at);
}

/*
 * A task was scheduled.
 */
void
handover_scheduled(QueueState *queue, TimestampTz due)
{
	handover_due_added(&queue->due, due, due);
}

/*
 * A due row that was skipped is dealt with by this transaction, or is gone.
 */
void
handover_due_done(DueCursor *cursor, const DuePlace *place)
{
	HandoverItem *item = new_item(HANDOVER_DUE_DONE);

	item->u.due.cursor = cursor;
	item->u.due.place = *place;
}

/*
 * What was due before frontier is dealt with by this transaction.
 */
void
handover_due_read(DueCursor *cursor, const DuePlace *frontier)
{
	HandoverItem *item = new_item(HANDOVER_DUE_READ);

	item->u.due.cursor = cursor;
	item->u.due.place = *frontier;
}

/*
 * From place on there are more due rows in the hands of others than can be
 * remembered.
 */
void
handover_due_held(DueCursor *cursor, const DuePlace *place)
{
	HandoverItem *item = new_item(HANDOVER_DUE_HELD);

	item->u.due.cursor = cursor;
	item->u.due.place = *place;
}

/*
 * A task that is held behind another one was written.
 */
void
handover_task_held(QueueState *queue, int64 task, int64 before)
{
	HandoverItem *item = new_item(HANDOVER_HELD);

	item->u.held.queue = queue;
	item->u.held.task = task;
	item->u.held.before = before;
}

/*
 * Tasks go that others may be held behind, and nobody has looked which.
 */
void
handover_look(QueueState *queue)
{
	/* Of a run of them one is enough; other items may be in between. */
	for (int i = items_count - 1; i >= 0 && i >= items_count - 4; i--)
	{
		if (items[i].kind == HANDOVER_LOOK && items[i].u.held.queue == queue &&
			items[i].subid == GetCurrentSubTransactionId())
			return;
	}
	new_item(HANDOVER_LOOK)->u.held.queue = queue;
}

/*
 * What was to be looked at is in this transaction's hands: a held task, or all
 * from an id on.
 */
void
handover_looked(QueueState *queue, int64 task, bool all)
{
	HandoverItem *item = new_item(HANDOVER_LOOKED);

	item->u.held.queue = queue;
	item->u.held.task = task;
	item->u.held.before = all;
}

/*
 * A session is being closed.
 */
void
handover_session_closed(const SessionRef *session)
{
	new_item(HANDOVER_SESSION_CLOSED)->u.session = *session;
}

/*
 * Settings of a queue are changed: something else may be due now, or claimable.
 */
void
handover_settings(Oid relation)
{
	new_item(HANDOVER_SETTINGS)->u.release.relation = relation;
}

/*
 * Extensions or databases come or go: perhaps ours.
 */
void
handover_probe(void)
{
	(void) new_item(HANDOVER_PROBE);
}

/*
 * A queue's relation is being dropped (relation InvalidOid: a database is).
 */
void
handover_release_queue(Oid database, Oid relation)
{
	HandoverItem *item = new_item(HANDOVER_RELEASE_QUEUE);

	item->u.release.database = database;
	item->u.release.relation = relation;
}

/*
 * A queue's state was set up whose table is new in this transaction.  Beyond
 * MAX_CREATED of them a rollback leaves states behind, until the next restart.
 */
void
handover_created(Oid relation, SubTransactionId subid)
{
	for (int i = 0; i < created_count; i++)
	{
		if (created[i].relation == relation)
			return;
	}
	if (created_count < MAX_CREATED)
	{
		created[created_count].relation = relation;
		created[created_count].subid = subid;
		created_count++;
	}
}

static void
release_created(SubTransactionId subid)
{
	int			kept = 0;

	for (int i = 0; i < created_count; i++)
	{
		if (created[i].subid >= subid)
			queue_state_release(MyDatabaseId, created[i].relation);
		else
			created[kept++] = created[i];
	}
	created_count = kept;
}

/*
 * Hold n entries that were taken from a lane, in their order, until they are leased
 * or let go.  All that is held is in order, also when some came late; what is then
 * more than max goes back, from the end.
 */
void
handover_hold(Lane *lane, const LaneEntry *entries, int n, int max)
{
	Assert(max <= MAX_HELD);
	for (int i = 0; i < n; i++)
	{
		int			at = held_count;

		/* Mostly at the end: lanes are taken from in order. */
		while (at > 0 && lanes_compare(&entries[i], &held_entries[at - 1]) < 0)
			at--;
		if (held_count == max)
		{
			int			last = max - 1;

			if (at == max)
			{
				lanes_offer_entry(lane, &entries[i]);
				continue;
			}
			lanes_offer_entry(held_lanes[last], &held_entries[last]);
			held_count--;
		}
		if (unlikely(at < held_count))
		{
			memmove(&held_entries[at + 1], &held_entries[at],
					(held_count - at) * sizeof(LaneEntry));
			memmove(&held_lanes[at + 1], &held_lanes[at],
					(held_count - at) * sizeof(Lane *));
		}
		held_entries[at] = entries[i];
		held_lanes[at] = lane;
		held_count++;
	}
}

int
handover_held(LaneEntry **entries, Lane ***lanes)
{
	*entries = held_entries;
	*lanes = held_lanes;
	return held_count;
}

/*
 * Give back what is held but for the first done entries.
 */
void
handover_let_go(int done)
{
	for (int i = done; i < held_count; i++)
		lanes_offer_entry(held_lanes[i], &held_entries[i]);
	held_count = 0;
	in_transit_ends();
}

/*
 * The lease of an item has ended, and its task is as it was before.
 */
static void
give_back(HandoverItem *item, const LeaseInfo *lease)
{
	item->tid = lease->tid;
	groups_ready(queue_state_by_number(lease->queue), lease->group);
}

/* The place that an item is about. */
static void
place_of(const HandoverItem *item, LaneEntry *place)
{
	lanes_entry(place, &item->address, &item->tid);
	if (item->task != 0)
		(void) lanes_entry_set_task(place, item->task);
}

/*
 * It is to be claimed.  Not until other leases have ended, see the head.
 */
static void
offer(const HandoverItem *item)
{
	LaneEntry	place;

	place_of(item, &place);
	lanes_offer_of_group(item->lane, &place, item->group);
}

/*
 * First of all at commit the leases that were settled end, wherever they are
 * in the list.
 */
static void
end_lease(HandoverItem *item)
{
	if (item->kind == HANDOVER_SETTLED)
		(void) leases_drop(&item->u.lease, true, NULL);
	else if (item->kind == HANDOVER_RELEASED)
	{
		LeaseInfo	lease;

		ItemPointerSetInvalid(&item->tid);
		if (leases_drop(&item->u.lease, false, &lease))
			give_back(item, &lease);
	}
}

static void
look_at_held(const HandoverItem *item)
{
	if (item->kind == HANDOVER_LOOK)
		queue_state_look_from(item->u.held.queue, PG_INT64_MIN);
	else if (item->kind == HANDOVER_LOOKED && item->u.held.before)
		queue_state_look_from(item->u.held.queue, item->u.held.task);
	else
		queue_state_look(item->u.held.queue, item->u.held.task);
	wakeup_at(item->u.held.queue->database, 0);
}

/*
 * A task that is held has been written, or is as it was.  Whoever ends the lease
 * of the task before it from now on sees it.  Who has looked already may not
 * have, or left it to us: his lease says so until it is over.
 */
static void
look_behind(const HandoverItem *item)
{
	if (!leases_will_look(queue_state_number(item->u.held.queue),
						  item->u.held.before))
		look_at_held(item);
}

static void
carry_out_commit(const HandoverItem *item)
{
	switch ((HandoverKind) item->kind)
	{
		case HANDOVER_ENQUEUED:
		case HANDOVER_OFFER_AT_COMMIT:
			offer(item);
			break;
		case HANDOVER_LOWER_AT_COMMIT:
			lanes_lower(item->lane, &item->address);
			break;
		case HANDOVER_RELEASED:
			if (ItemPointerIsValid(&item->tid))
				offer(item);
			break;
		case HANDOVER_CANCELLED:
			untag(item);
			break;
		case HANDOVER_GROUP_SET:
			pg_atomic_fetch_add_u32(&item->u.group_set.queue->limits.changes, 1);
			groups_settle_limit(item->u.group_set.queue, item->u.group_set.limit,
								&item->u.group_set.settings);
			break;
		case HANDOVER_DEFAULTS_SET:
			queue_state_set_defaults(item->u.group_set.queue,
									 &item->u.group_set.settings);
			limits_defaults_changed(queue_state_number(item->u.group_set.queue));
			pg_atomic_fetch_sub_u32(&item->u.group_set.queue->limits.entries, 1);
			break;
		case HANDOVER_READ_AGAIN:
			queue_state_read_again(item->u.release.relation);
			wakeup_at(MyDatabaseId, 0);
			break;
		case HANDOVER_PURGED:
			groups_level(item->u.purged.queue, item->u.purged.group,
						 item->u.purged.finish);
			break;
		case HANDOVER_REMOVED:
			groups_removed(item->u.overflow.queue, item->u.overflow.group,
						   &item->address);
			break;
		case HANDOVER_OVERFLOW_REMOVED:
			groups_overflow_removed(item->u.overflow.queue, item->u.overflow.group,
									item->u.overflow.n, item->u.overflow.id);
			break;
		case HANDOVER_OVERFLOWED:
			groups_overflow_ends(item->u.overflow.queue, item->u.overflow.group,
								 item->u.overflow.n, item->u.overflow.id, true);
			break;
		case HANDOVER_DUE_ADDED:
			due_cursor_add(item->u.due.cursor, item->u.due.place.due);
			wakeup_at(MyDatabaseId, item->u.due.wake_at);
			break;
		case HANDOVER_DUE_DONE:
			due_cursor_done(item->u.due.cursor, &item->u.due.place);
			break;
		case HANDOVER_DUE_READ:
			due_cursor_end(item->u.due.cursor, &item->u.due.place);
			break;
		case HANDOVER_DUE_HELD:
			due_cursor_hold(item->u.due.cursor, &item->u.due.place);
			break;
		case HANDOVER_HELD:
			look_behind(item);
			break;
		case HANDOVER_LOOK:
			look_at_held(item);
			break;
		case HANDOVER_SESSION_CLOSED:
			sessions_close(&item->u.session);
			break;
		case HANDOVER_SETTINGS:
			queue_state_settings_changed(item->u.release.relation);
			wake_when_seen = true;
			break;
		case HANDOVER_PROBE:
			wakeup_probe(MyDatabaseId);
			break;
		case HANDOVER_RELEASE_QUEUE:
			queue_state_release(item->u.release.database,
								item->u.release.relation);
			break;
		case HANDOVER_OFFER_AT_ABORT:
		case HANDOVER_LOWER_AT_ABORT:
		case HANDOVER_CLAIMED:
		case HANDOVER_SETTLED:
		case HANDOVER_ROOM:		/* later: end_of_commit */
		case HANDOVER_FED:
		case HANDOVER_LOOKED:
		case HANDOVER_NOTHING:
			break;
	}
}

/*
 * Last of all at commit, when all tasks are counted and offered: room is no longer
 * reserved for them, and groups are told what they were fed.  A group that hears
 * that its overflow is empty gives its next task an address at once, and that must
 * not be claimed before those that were moved can be.
 */
static void
end_of_commit(const HandoverItem *item)
{
	if (item->kind == HANDOVER_ROOM)
		queue_state_unreserve(item->u.overflow.queue, item->u.overflow.n);
	else if (item->kind == HANDOVER_FED)
	{
		groups_fed(item->u.overflow.queue, item->u.overflow.group,
				   item->u.overflow.n, item->u.overflow.id,
				   item->u.overflow.held);
		queue_state_fed(item->u.overflow.queue, true);
	}
}

static void
carry_out_abort(HandoverItem *item)
{
	switch ((HandoverKind) item->kind)
	{
		case HANDOVER_ENQUEUED:
			untag(item);
			break;
		case HANDOVER_OFFER_AT_ABORT:
			offer(item);
			break;
		case HANDOVER_LOWER_AT_ABORT:
			lanes_lower(item->lane, &item->address);
			break;
		case HANDOVER_CLAIMED:
			{
				LeaseInfo	lease;

				if (leases_give_back(&item->u.lease, &lease))
				{
					give_back(item, &lease);
					offer(item);
				}
				else
					wakeup_at(MyDatabaseId, 0);
			}
			break;
		case HANDOVER_SETTLED:
		case HANDOVER_RELEASED:
			leases_unsettle(&item->u.lease);
			break;
		case HANDOVER_ROOM:
			queue_state_unreserve(item->u.overflow.queue, item->u.overflow.n);
			break;
		case HANDOVER_OVERFLOWED:
			groups_overflow_ends(item->u.overflow.queue, item->u.overflow.group,
								 item->u.overflow.n, item->u.overflow.id, false);
			break;
		case HANDOVER_FED:
			groups_not_fed(item->u.overflow.queue, item->u.overflow.group);
			queue_state_fed(item->u.overflow.queue, false);
			feedings--;
			break;
		case HANDOVER_HELD:
			look_behind(item);
			break;
		case HANDOVER_LOOKED:
			look_at_held(item);
			break;
		case HANDOVER_GROUP_SET:
			groups_settle_limit(item->u.group_set.queue, item->u.group_set.limit, NULL);
			break;
		case HANDOVER_DEFAULTS_SET:
			pg_atomic_fetch_sub_u32(&item->u.group_set.queue->limits.entries, 1);
			break;
		case HANDOVER_OFFER_AT_COMMIT:
		case HANDOVER_LOWER_AT_COMMIT:
		case HANDOVER_REMOVED:
		case HANDOVER_OVERFLOW_REMOVED:
		case HANDOVER_DUE_ADDED:
		case HANDOVER_DUE_DONE:
		case HANDOVER_DUE_READ:
		case HANDOVER_DUE_HELD:
		case HANDOVER_NOTHING:
		case HANDOVER_CANCELLED:
		case HANDOVER_PURGED:
		case HANDOVER_READ_AGAIN:
		case HANDOVER_LOOK:
		case HANDOVER_SESSION_CLOSED:
		case HANDOVER_SETTINGS:
		case HANDOVER_PROBE:
		case HANDOVER_RELEASE_QUEUE:
			break;
	}
}

/*
 * The transaction is prepared.  Nobody tells us when it ends and how, so its
 * rows are in doubt; claims look after the doubts of a lane.  Counted is what
 * will have happened if it commits, as most do.
 */
static void
carry_out_prepare(HandoverItem *item)
{
	LaneEntry	place;

	switch ((HandoverKind) item->kind)
	{
		case HANDOVER_ENQUEUED:
		case HANDOVER_OFFER_AT_COMMIT:
		case HANDOVER_OFFER_AT_ABORT:
		case HANDOVER_LOWER_AT_COMMIT:
		case HANDOVER_LOWER_AT_ABORT:
			place_of(item, &place);
			lanes_doubt(item->lane, preparing_xid, &place);
			break;
		case HANDOVER_DUE_ADDED:
		case HANDOVER_CANCELLED:
		case HANDOVER_PURGED:
		case HANDOVER_REMOVED:
		case HANDOVER_OVERFLOW_REMOVED:
		case HANDOVER_OVERFLOWED:
		case HANDOVER_READ_AGAIN:
		case HANDOVER_SESSION_CLOSED:
		case HANDOVER_SETTINGS:
		case HANDOVER_PROBE:
			carry_out_commit(item);
			break;
		case HANDOVER_HELD:
		case HANDOVER_LOOK:
		case HANDOVER_LOOKED:
			/* Passes look again and again while it is in doubt. */
			look_at_held(item);
			break;
		case HANDOVER_GROUP_SET:	/* prepare_settings */
		case HANDOVER_DEFAULTS_SET:
		case HANDOVER_FED:
		case HANDOVER_ROOM:
			carry_out_abort(item);
			break;
		case HANDOVER_DUE_DONE:
		case HANDOVER_DUE_READ:
		case HANDOVER_DUE_HELD:
		case HANDOVER_NOTHING:
		case HANDOVER_CLAIMED:
		case HANDOVER_SETTLED:
		case HANDOVER_RELEASED:
		case HANDOVER_RELEASE_QUEUE:
			break;
	}
}

/* Nothing is owed any more; give a large list's memory back. */
static void
forget_items(void)
{
	items_count = 0;
	lease_items = 0;
	room_reserved = false;
	feedings = 0;
	created_count = 0;
	if (items_size > 16384)
	{
		pfree(items);
		items = NULL;
		items_size = 0;
	}
}

/* What a failed claim left half done. */
static void
clean_up_claim(void)
{
	lanes_at_abort();
	leases_return_reserved();
	handover_let_go(0);
	waiting_at_abort();
}

static void
handover_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
			stats_at_commit();
			waiting_defer();
			if (lease_items > 0)
			{
				leases_defer_free();
				for (int i = 0; i < items_count; i++)
					end_lease(&items[i]);
				leases_free_deferred();
			}
			for (int i = 0; i < items_count; i++)
				carry_out_commit(&items[i]);

			for (int i = 0; (room_reserved || feedings > 0) && i < items_count; i++)
				end_of_commit(&items[i]);
			in_transit_ends();
			waiting_say();
			forget_items();
			break;

		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			stats_at_abort();
			waiting_defer();
			clean_up_claim();
			if (items_count > 0)
				in_transit_begins(GetCurrentTimestamp());
			for (int i = items_count - 1; i >= 0; i--)
				carry_out_abort(&items[i]);
			in_transit_ends();
			release_created(InvalidSubTransactionId);
			waiting_say();
			forget_items();
			break;

		case XACT_EVENT_PRE_PREPARE:
			if (lease_items > 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has claimed or settled tasks"),
						 errhint("Claim and settle tasks in a transaction of their own, and prepare one that enqueues only.")));
			preparing_xid = GetTopTransactionIdIfAny();
			for (int i = 0; i < items_count; i++)
				prepare_settings(&items[i]);
			break;

		case XACT_EVENT_PREPARE:
			stats_at_commit();
			for (int i = 0; i < items_count; i++)
				carry_out_prepare(&items[i]);
			forget_items();
			break;

		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			if (items_count > 0)
				in_transit_begins(GetCurrentStatementStartTimestamp());
			break;
	}
}

static void
handover_subxact_callback(SubXactEvent event, SubTransactionId subid,
						  SubTransactionId parent, void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			stats_at_subcommit(subid, parent);
			for (int i = items_count - 1; i >= 0 && items[i].subid >= subid; i--)
				items[i].subid = parent;
			for (int i = 0; i < created_count; i++)
			{
				if (created[i].subid >= subid)
					created[i].subid = parent;
			}
			break;

		case SUBXACT_EVENT_ABORT_SUB:
			stats_at_subabort(subid);
			waiting_defer();
			clean_up_claim();
			if (items_count > 0)
				in_transit_begins(GetCurrentTimestamp());
			while (items_count > 0 && items[items_count - 1].subid >= subid)
			{
				HandoverItem *item = &items[items_count - 1];

				carry_out_abort(item);
				if (item->kind == HANDOVER_CLAIMED ||
					item->kind == HANDOVER_SETTLED ||
					item->kind == HANDOVER_RELEASED)
					lease_items--;
				items_count--;
			}
			in_transit_ends();
			release_created(subid);
			waiting_say();
			break;

		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

/*
 * Invalidations are sent after the callback at commit, and locks released after
 * that.  A worker that were woken then might still go by the old settings.
 */
static void
handover_release_callback(ResourceReleasePhase phase, bool commit, bool top, void *arg)
{
	if (!wake_when_seen || phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	wake_when_seen = false;
	wakeup_at(MyDatabaseId, 0);
}

/*
 * Register the callbacks.  Called once a process, from _PG_init.
 */
void
handover_register(void)
{
	RegisterResourceReleaseCallback(handover_release_callback, NULL);
	RegisterXactCallback(handover_xact_callback, NULL);
	RegisterSubXactCallback(handover_subxact_callback, NULL);
}
