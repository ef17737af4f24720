/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  What a transaction owes to others when it ends.
 *
 * Tasks change hands at the end of transactions: an enqueued row becomes
 * claimable at commit; a claim that is rolled back gives its leases back and
 * offers the rows to the next claimer; a lease that is being settled ends at
 * commit and goes on at rollback.  This file keeps the list of what is owed,
 * in order, each item with its subtransaction, and has it carried out
 * (pending_kinds.c) in the callbacks: forwards at commit, backwards at
 * rollback.  Backwards, because what came later was built on what came before:
 * a task claimed and acked in one transaction is first unsettled, then its
 * lease is dropped, then the row offered.  Always in that order: a row offered while its lease still stands
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
 * the index is read again, and for each group from which tag to which its rows go.
 * The loss is a slower refill; and beyond MAX_TAGGED items, of thousands of groups by
 * turns, their groups do not have their tags back at rollback, and are counted anew.
 *
 * A prepared transaction gives no callback when it ends, and the process that
 * ends it knows nothing of our list.  So PREPARE TRANSACTION is refused when there
 * are leases in the list, or a queue that goes (or comes: new_queues.c): what is
 * in shared memory of them would stay.  And when there was a pass on a queue, for
 * the maintenance lock would be the prepared transaction's, and there would be none
 * until that has ended.  Rows written in it are left in doubt: their lanes remember
 * the first, and claims look whether the transaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "shmem/group_overflow.h"
#include "shmem/in_hand.h"
#include "shmem/in_transit.h"
#include "shmem/refill.h"
#include "shmem/stats.h"
#include "shmem/waiting.h"
#include "xact/new_queues.h"
#include "xact/pending_private.h"

/* Items before new rows are folded: of 96 bytes each, 96 MB. */
#define MAX_ITEMS		(1024 * 1024)

/* Items before the tags of new rows are not noted any more. */
#define MAX_TAGGED		(2 * MAX_ITEMS)

static PendingAction *items = NULL;
static int	items_count = 0;
static int	items_size = 0;
static int	lease_items = 0;	/* those about leases */
static bool last_items = false; /* some may be for pending_action_after_commit */
static int	feedings = 0;		/* groups that are being fed */

/*
 * Where in the list the overflow of a group was noted last: a hint, by group.  So
 * there is one item for each group, not for each task.
 */
#define OVERFLOW_HINTS	1024
static int	overflow_hints[OVERFLOW_HINTS];

/* The same for rows that are folded, by group and by lane. */
#define FOLD_HINTS		4096
static int	tag_hints[FOLD_HINTS];
static int	lane_hints[FOLD_HINTS];
static int	written_hints[FOLD_HINTS];

/* The same for those that are not noted, by queue. */
#define RECOUNT_HINTS	64
static int	recount_hints[RECOUNT_HINTS];

static TransactionId preparing_xid = InvalidTransactionId;

/*
 * Make room for n items.  Before something is done in shared memory that an
 * item has to undo: adding the item cannot fail then.
 */
void
pending_reserve(int n)
{
	int			size = Max(items_size, 128);

	if (items_count + n <= items_size)
		return;
	while (size < items_count + n)
		size *= 2;
	if (items == NULL)
		items = MemoryContextAllocHuge(TopMemoryContext,
									   size * sizeof(PendingAction));
	else
		items = repalloc_huge(items, size * sizeof(PendingAction));
	items_size = size;
}

static PendingAction *
new_item(PendingKind kind)
{
	PendingAction *item;

	pending_reserve(1);
	item = &items[items_count++];
	item->kind = kind;
	item->group = WAITING_ANY_GROUP;
	item->task = 0;
	item->subid = GetCurrentSubTransactionId();
	return item;
}

/* Is that, where a hint leads, an item of a kind and of this subtransaction? */
static bool
is_folded(int i, PendingKind kind, SubTransactionId subid)
{
	return i < items_count && items[i].kind == kind && items[i].subid == subid;
}

/*
 * Fold a row into the lowest address of its lane and subtransaction.
 */
static void
lower_item(PendingKind kind, Lane *lane, const FairqAddress *address)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	int		   *hint = &lane_hints[(uintptr_t) lane / 64 % FOLD_HINTS];
	PendingAction *item = NULL;

	if (is_folded(*hint, kind, subid) && items[*hint].lane == lane)
		item = &items[*hint];
	for (int i = items_count - 1;
		 item == NULL && i >= 0 && i >= items_count - 2 * FAIRQ_MAX_BUCKETS; i--)
	{
		if (items[i].subid != subid)
			break;
		if (items[i].kind == kind && items[i].lane == lane)
			item = &items[i];
	}
	if (item == NULL)
	{
		item = new_item(kind);
		item->lane = lane;
		item->address = *address;
	}
	else if (address_compare(address, &item->address) < 0)
		item->address = *address;
	*hint = item - items;
}

/*
 * A queue is to be counted anew, when this is rolled back or (PENDING_NOT_COUNTED) is
 * committed.
 */
static void
note_recount(PendingKind kind, QueueState *queue)
{
	int		   *hint = &recount_hints[queue_state_number(queue) % RECOUNT_HINTS];

	if (is_folded(*hint, kind, GetCurrentSubTransactionId()) &&
		items[*hint].u.overflow.queue == queue)
		return;
	new_item(kind)->u.overflow.queue = queue;
	*hint = items_count - 1;
}

/*
 * Fold the tag of a row into those of the rows of its group before it.  The tags of
 * a group go on from each other, unless others have had some in between: then what
 * can be given back begins here.
 */
static void
fold_tag(QueueState *queue, const FairqAddress *address, const GroupTag *tag)
{
	VirtualTime start = {address->block, address->fraction};
	int		   *hint = &tag_hints[tag->group % FOLD_HINTS];
	PendingAction *item = NULL;

	if (is_folded(*hint, PENDING_TAGGED, GetCurrentSubTransactionId()) &&
		items[*hint].u.tag.group == tag->group &&
		items[*hint].address.slot == address->slot)
		item = &items[*hint];
	if (item == NULL)
	{
		if (items_count >= MAX_TAGGED)
		{
			note_recount(PENDING_RECOUNT, queue);
			return;
		}
		item = new_item(PENDING_TAGGED);
		item->address = *address;
		item->u.tag.group = tag->group;
		item->u.tag.ready = 0;
		*hint = items_count - 1;
	}
	else if (virtual_time_compare(item->u.tag.finish, start) != 0)
		item->address = *address;
	item->u.tag.finish = tag->finish;
	item->u.tag.ready++;
}

static void
place_item(PendingKind kind, Lane *lane, const FairqAddress *address,
		   const ItemPointerData *tid)
{
	PendingAction *item = new_item(kind);

	item->lane = lane;
	item->address = *address;
	item->tid = *tid;
}

/*
 * A row is going to be written at a new address.  tag is NULL where there are
 * no groups.  Said before the row is written, so that the tag is given back if
 * that fails; the result is for pending_placed_at to say where the row is.
 */
int
pending_placed(Lane *lane, const FairqAddress *address, const GroupTag *tag)
{
	PendingAction *item;

	if (items_count >= MAX_ITEMS)
	{
		lower_item(PENDING_LOWER_AT_COMMIT, lane, address);
		if (tag != NULL)
			fold_tag(queue_state_by_number(lane->queue), address, tag);
		return -1;
	}
	item = new_item(tag ? PENDING_ENQUEUED : PENDING_OFFER_AT_COMMIT);
	item->lane = lane;
	item->address = *address;
	ItemPointerSetInvalid(&item->tid);
	if (tag != NULL)
	{
		item->u.tag.finish = tag->finish;
		item->u.tag.group = tag->group;
		item->u.tag.ready = 1;
	}
	return items_count - 1;
}

/*
 * Whose task it is, for those who wait for some groups only.
 */
void
pending_placed_group(int placed, const char *key, int keylen)
{
	if (placed >= 0)
		items[placed].group = waiting_group(key, keylen);
}

void
pending_placed_at(int placed, const ItemPointerData *tid)
{
	if (placed >= 0)
		items[placed].tid = *tid;
}

/*
 * The row was not written after all: the group has its tag back.
 */
void
pending_not_placed(int placed)
{
	if (placed < 0)
		return;
	if (items[placed].kind == PENDING_ENQUEUED)
		pending_row_untag(&items[placed]);
	items[placed].kind = PENDING_NOTHING;
}

void
pending_offer_at_commit(Lane *lane, const FairqAddress *address,
						const ItemPointerData *tid)
{
	if (items_count >= MAX_ITEMS)
		lower_item(PENDING_LOWER_AT_COMMIT, lane, address);
	else
		place_item(PENDING_OFFER_AT_COMMIT, lane, address, tid);
}

/*
 * A claimable row is being deleted or changed.
 */
void
pending_offer_at_abort(Lane *lane, const FairqAddress *address,
					   const ItemPointerData *tid)
{
	if (items_count >= MAX_ITEMS)
		lower_item(PENDING_LOWER_AT_ABORT, lane, address);
	else
		place_item(PENDING_OFFER_AT_ABORT, lane, address, tid);
}

void
pending_lower_at_abort(Lane *lane, const FairqAddress *address)
{
	lower_item(PENDING_LOWER_AT_ABORT, lane, address);
}

/*
 * A claim has come to the place of a task of the overflow that this transaction may
 * have changed (written) or removed: whether it is there is known when it ends.
 */
void
pending_passed(Lane *lane, const LaneEntry *place, bool written)
{
	for (int i = 0; i < (written ? 2 : 1); i++)
	{
		PendingAction *item = new_item(i == 0 ? PENDING_OFFER_AT_ABORT :
									   PENDING_OFFER_AT_COMMIT);

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
pending_claimed(const LeaseInfo *lease, Lane *lane, const LaneEntry *place)
{
	PendingAction *item;

	item = new_item(PENDING_CLAIMED);
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
pending_settled(const LeaseInfo *lease)
{
	PendingAction *item = new_item(PENDING_SETTLED);

	item->u.lease = lease->ref;
	lease_items++;
	return items_count - 1;
}

/*
 * The lease is given back: its task is as it was.  task is which one it is, if it
 * is of the overflow and the address is in memory only; else 0.
 */
void
pending_released(int settled, Lane *lane, const FairqAddress *address,
				 int64 task)
{
	PendingAction *item = &items[settled];

	Assert(item->kind == PENDING_SETTLED);
	item->kind = PENDING_RELEASED;
	item->lane = lane;
	item->address = *address;
	item->task = task;
}

/*
 * It did not come to that: the lease goes on.  For a pass, which comes again.
 */
void
pending_not_settled(int settled)
{
	PendingAction *item = &items[settled];

	Assert(item->kind == PENDING_SETTLED);
	leases_unsettle(&item->u.lease, false);
	item->kind = PENDING_NOTHING;
	lease_items--;
}

/*
 * A task is being removed that was the last of its group.
 */
void
pending_cancelled(const FairqAddress *address, const GroupTag *tag)
{
	PendingAction *item = new_item(PENDING_CANCELLED);

	item->address = *address;
	item->u.tag.finish = tag->finish;
	item->u.tag.group = tag->group;

	/* It may be leased, so who cancels it says what it was. */
	item->u.tag.ready = 0;
}

/*
 * Rows may have been written without our trigger.
 */
void
pending_read_again(Oid relation)
{
	new_item(PENDING_READ_AGAIN)->u.release.relation = relation;
}

/*
 * The tasks of a group are being removed (tag NULL: of all groups).
 */
void
pending_purged(QueueState *queue, const GroupTag *tag)
{
	PendingAction *item = new_item(PENDING_PURGED);

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
pending_room(QueueState *queue, int n, int64 max)
{
	PendingAction *item;

	pending_reserve(1);
	if (!queue_state_reserve(queue, n, max))
		return false;
	item = new_item(PENDING_ROOM);
	item->u.overflow.queue = queue;
	item->u.overflow.n = n;
	last_items = true;
	return true;
}

/*
 * What a group may have is being changed, and that was announced; room was
 * reserved.
 */
void
pending_group_set(QueueState *queue, uint32 limit, const LimitSettings *settings)
{
	PendingAction *item = new_item(PENDING_GROUP_SET);

	item->u.group_set.queue = queue;
	item->u.group_set.limit = limit;
	item->u.group_set.settings = *settings;
}

/*
 * The same of those groups of a queue that were not given anything.
 */
void
pending_defaults_set(QueueState *queue, const LimitSettings *settings)
{
	PendingAction *item = new_item(PENDING_DEFAULTS_SET);

	/* As if one of them had a limit: no lease is granted that nobody counts. */
	pg_atomic_fetch_add_u32(&queue->limits.entries, 1);
	item->u.group_set.queue = queue;
	item->u.group_set.settings = *settings;
}

/*
 * A task is being removed from its place, not by who has leased it, if anybody has.
 * address is NULL: it is of the overflow.
 */
void
pending_removed(QueueState *queue, uint32 group, int64 task,
				const FairqAddress *address)
{
	PendingAction *item = new_item(PENDING_REMOVED);

	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->u.overflow.id = task;
	item->of_overflow = (address == NULL);
	if (address != NULL)
		item->address = *address;
}

/*
 * n ready tasks of a group are being removed, which nobody has leased.
 */
void
pending_ready_removed(QueueState *queue, uint32 group, int n)
{
	PendingAction *item = new_item(PENDING_READY_REMOVED);

	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->u.overflow.n = n;
}

/*
 * A row was written with SQL: the task counts as ready in its group, just now, or (of
 * the overflow) is noted to come there.  When there are too many of them nobody looks
 * whether they are leased, and they are one for each group.
 */
void
pending_row_written(QueueState *queue, uint32 group, int64 task, bool of_overflow)
{
	bool		fold = (items_count >= MAX_ITEMS);
	int		   *hint = &written_hints[group % FOLD_HINTS];
	PendingAction *item;

	if (fold && of_overflow)
		return;
	if (fold && is_folded(*hint, PENDING_WRITTEN, GetCurrentSubTransactionId()) &&
		items[*hint].task == 0 && items[*hint].u.overflow.group == group)
	{
		items[*hint].u.overflow.n++;
		return;
	}
	item = new_item(PENDING_WRITTEN);
	item->task = fold ? 0 : task;
	item->of_overflow = of_overflow;
	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->u.overflow.n = 1;
	if (fold)
		*hint = items_count - 1;
}

/*
 * Rows were written when nobody had counted those of the queue.
 */
void
pending_not_counted(QueueState *queue)
{
	note_recount(PENDING_NOT_COUNTED, queue);
}

/*
 * n tasks in the overflow of a group are being removed, which have no places.
 */
void
pending_overflow_removed(QueueState *queue, uint32 group, int n)
{
	PendingAction *item = new_item(PENDING_OVERFLOW_REMOVED);

	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->u.overflow.n = n;
}

/* The item of this subtransaction for the overflow of a group, or NULL. */
static PendingAction *
overflow_item(QueueState *queue, uint32 group)
{
	int			i = overflow_hints[group % OVERFLOW_HINTS];

	if (i < items_count && items[i].kind == PENDING_OVERFLOWED &&
		items[i].subid == GetCurrentSubTransactionId() &&
		items[i].u.overflow.queue == queue && items[i].u.overflow.group == group)
		return &items[i];
	return NULL;
}

/*
 * A task is put into the overflow of its group.  Room was reserved.
 */
void
pending_overflowed(QueueState *queue, uint32 group, int64 id)
{
	PendingAction *item = overflow_item(queue, group);

	if (item != NULL)
	{
		item->u.overflow.n++;
		item->u.overflow.id = Min(item->u.overflow.id, id);
		return;
	}
	item = new_item(PENDING_OVERFLOWED);
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
pending_not_overflowed(QueueState *queue, uint32 group)
{
	PendingAction *item = overflow_item(queue, group);

	Assert(item != NULL);

	/* Without tasks the group may be forgotten, and so must the item be. */
	if (--item->u.overflow.n == 0)
		item->kind = PENDING_NOTHING;
	group_overflow_ends(queue, group, 1, PG_INT64_MAX, false);
}

/*
 * What is noted from now on may have to be taken back.
 */
int
pending_mark(void)
{
	return items_count;
}

/*
 * A task was not moved after all, and is as it was: so are the counts.  What was
 * noted since mark was for that.
 */
void
pending_not_moved(int mark)
{
	for (int i = mark; i < items_count; i++)
	{
		if (items[i].kind == PENDING_ENQUEUED)
			pending_row_untag(&items[i]);
		if (items[i].kind == PENDING_ENQUEUED || items[i].kind == PENDING_CANCELLED ||
			items[i].kind == PENDING_REMOVED)
			items[i].kind = PENDING_NOTHING;
	}
}

/*
 * A group was taken from the list of the hungry; room was reserved.  The result
 * is for pending_fed to say what came of it.
 */
int
pending_feeding(QueueState *queue, uint32 group, int64 lost)
{
	PendingAction *item = new_item(PENDING_FED);

	item->u.overflow.queue = queue;
	item->u.overflow.group = group;
	item->u.overflow.n = 0;
	item->u.overflow.id = PG_INT64_MIN;
	item->u.overflow.held = PG_INT64_MAX;
	item->u.overflow.lost = item->u.overflow.left = lost;
	item->of_overflow = false;
	feedings++;
	return items_count - 1;
}

/*
 * Is any group being fed by this transaction?
 */
bool
pending_feeds(void)
{
	return feedings > 0;
}

void
pending_fed(int feeding, int moved, int written, int64 next, int64 held, int64 lost)
{
	Assert(items[feeding].kind == PENDING_FED);
	items[feeding].of_overflow = (moved > 0);
	items[feeding].u.overflow.n = written;
	items[feeding].u.overflow.id = next;
	items[feeding].u.overflow.held = held;
	items[feeding].u.overflow.left = lost;
}

/*
 * The same at once, if nothing was written: all that the group was given is there,
 * whatever becomes of us.
 */
void
pending_fed_now(int feeding, int moved, int64 next, int64 held, int64 lost)
{
	QueueState *queue = items[feeding].u.overflow.queue;

	Assert(items[feeding].kind == PENDING_FED);
	group_overflow_fed(queue, items[feeding].u.overflow.group, moved > 0, 0, next, held,
					   lost);
	refill_ended(queue, true);
	items[feeding].kind = PENDING_NOTHING;
	if (feeding == items_count - 1)
		items_count--;
	feedings--;
}

/*
 * A row was added that cursor has to find, and the worker to look for at
 * wake_at.  Of a run of them the earliest says it all.
 */
void
pending_due_added(DueCursor *cursor, TimestampTz due, TimestampTz wake_at)
{
	PendingAction *item = items_count > 0 ? &items[items_count - 1] : NULL;

	if (item == NULL || item->kind != PENDING_DUE_ADDED ||
		item->subid != GetCurrentSubTransactionId() || item->u.due.cursor != cursor)
	{
		item = new_item(PENDING_DUE_ADDED);
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
pending_scheduled(QueueState *queue, TimestampTz due)
{
	pending_due_added(&queue->due, due, due);
}

/*
 * A due row that was skipped is dealt with by this transaction, or is gone.
 */
void
pending_due_done(DueCursor *cursor, const DuePlace *place)
{
	PendingAction *item = new_item(PENDING_DUE_DONE);

	item->u.due.cursor = cursor;
	item->u.due.place = *place;
}

/*
 * What was due before frontier is dealt with by this transaction.
 */
void
pending_due_read(DueCursor *cursor, const DuePlace *frontier)
{
	PendingAction *item = new_item(PENDING_DUE_READ);

	item->u.due.cursor = cursor;
	item->u.due.place = *frontier;
}

/*
 * From place on there are more due rows in the hands of others than can be
 * remembered.
 */
void
pending_due_held(DueCursor *cursor, const DuePlace *place)
{
	PendingAction *item = new_item(PENDING_DUE_HELD);

	item->u.due.cursor = cursor;
	item->u.due.place = *place;
}

/*
 * A task that is held behind another one was written.
 */
void
pending_task_held(QueueState *queue, int64 task, int64 before)
{
	PendingAction *item = new_item(PENDING_HELD);

	item->u.held.queue = queue;
	item->u.held.task = task;
	item->u.held.before = before;
}

/*
 * Tasks go that others may be held behind, and nobody has looked which.
 */
void
pending_look(QueueState *queue)
{
	/* Of a run of them one is enough; other items may be in between. */
	for (int i = items_count - 1; i >= 0 && i >= items_count - 4; i--)
	{
		if (items[i].kind == PENDING_LOOK && items[i].u.held.queue == queue &&
			items[i].subid == GetCurrentSubTransactionId())
			return;
	}
	new_item(PENDING_LOOK)->u.held.queue = queue;
}

/*
 * What was to be looked at is in this transaction's hands: a held task, or all
 * from an id on.
 */
void
pending_looked(QueueState *queue, int64 task, bool all)
{
	PendingAction *item = new_item(PENDING_LOOKED);

	item->u.held.queue = queue;
	item->u.held.task = task;
	item->u.held.before = all;
}

/*
 * A session is being closed.
 */
void
pending_session_closed(const SessionRef *session)
{
	new_item(PENDING_SESSION_CLOSED)->u.session = *session;
}

/*
 * Settings of a queue are changed: something else may be due now, or claimable.
 */
void
pending_settings(Oid relation)
{
	new_item(PENDING_SETTINGS)->u.release.relation = relation;
}

/*
 * Extensions or databases come or go: perhaps ours.
 */
void
pending_probe(void)
{
	(void) new_item(PENDING_PROBE);
}

/*
 * A queue's relation is being dropped (relation InvalidOid: a database is).
 */
void
pending_release_queue(Oid database, Oid relation)
{
	PendingAction *item = new_item(PENDING_RELEASE_QUEUE);

	item->u.release.database = database;
	item->u.release.relation = relation;
	last_items = true;
}

/*
 * A queue is being maintained, which nobody else can do until this transaction has
 * ended.
 */
void
pending_maintained(Oid relation)
{
	new_item(PENDING_MAINTAINED)->u.release.relation = relation;
}

/* Nothing is owed any more; give a large list's memory back. */
static void
forget_items(void)
{
	items_count = 0;
	lease_items = 0;
	last_items = false;
	feedings = 0;
	new_queues_forget();
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
	in_hand_let_go(0);
	waiting_at_abort();
}

static void
pending_xact_callback(XactEvent event, void *arg)
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
					pending_action_end_lease(&items[i]);
				leases_free_deferred();
			}
			for (int i = 0; i < items_count; i++)
				pending_action_commit(&items[i]);

			for (int i = 0; (last_items || feedings > 0) && i < items_count; i++)
				pending_action_after_commit(&items[i]);
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
				pending_action_abort(&items[i]);
			in_transit_ends();
			new_queues_at_abort(InvalidSubTransactionId);
			waiting_say();
			forget_items();
			break;

		case XACT_EVENT_PRE_PREPARE:
			for (int i = 0; i < items_count; i++)
				pending_action_check_prepare(&items[i]);
			new_queues_check_prepare();
			preparing_xid = GetTopTransactionIdIfAny();
			for (int i = 0; i < items_count; i++)
				pending_action_before_prepare(&items[i]);
			break;

		case XACT_EVENT_PREPARE:
			stats_before_prepare(preparing_xid);
			stats_at_commit();
			for (int i = 0; i < items_count; i++)
				pending_action_prepare(&items[i], preparing_xid);
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
pending_subxact_callback(SubXactEvent event, SubTransactionId subid,
						 SubTransactionId parent, void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			stats_at_subcommit(subid, parent);
			for (int i = items_count - 1; i >= 0 && items[i].subid >= subid; i--)
				items[i].subid = parent;
			new_queues_at_subcommit(subid, parent);
			break;

		case SUBXACT_EVENT_ABORT_SUB:
			stats_at_subabort(subid);
			waiting_defer();
			clean_up_claim();
			if (items_count > 0)
				in_transit_begins(GetCurrentTimestamp());
			while (items_count > 0 && items[items_count - 1].subid >= subid)
			{
				PendingAction *item = &items[items_count - 1];

				pending_action_abort(item);
				if (item->kind == PENDING_CLAIMED ||
					item->kind == PENDING_SETTLED ||
					item->kind == PENDING_RELEASED)
					lease_items--;
				else if (item->kind == PENDING_FED)
					feedings--;
				items_count--;
			}
			in_transit_ends();
			new_queues_at_abort(subid);
			waiting_say();
			break;

		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

static void
pending_release_callback(ResourceReleasePhase phase, bool commit, bool top, void *arg)
{
	if (phase == RESOURCE_RELEASE_AFTER_LOCKS)
		pending_settings_seen();
}

/*
 * Register the callbacks.  Called once a process, from _PG_init.
 */
void
pending_register(void)
{
	RegisterResourceReleaseCallback(pending_release_callback, NULL);
	RegisterXactCallback(pending_xact_callback, NULL);
	RegisterSubXactCallback(pending_subxact_callback, NULL);
}
