/*-------------------------------------------------------------------------
 *
 * pending_rows.c
 *	  Pending actions about rows that come, move or go.
 *
 * A new row is offered to claimers at commit, and at rollback its group has its
 * tag back.  A row that is being changed or deleted is offered again at
 * rollback.
 *
 * From PENDING_MAX actions on, those of new rows are folded: for each lane the
 * lowest address, from which the index is read again, and for each group from
 * which tag to which its rows go.  The loss is a slower refill.  Beyond
 * MAX_TAGGED actions, of thousands of groups by turns, their groups do not have
 * their tags back at rollback, and are counted anew.
 *
 * Rows of a prepared transaction are in doubt: no callback tells when it ends
 * and how, so claims look after the doubts of a lane.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/turns.h"
#include "shmem/waiters.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/* Actions before the tags of new rows are not noted any more. */
#define MAX_TAGGED		(2 * PENDING_MAX)

/* A new row, or one that is offered at one end of the transaction. */
typedef struct PendingRow
{
	PendingPlace place;
	VirtualTime finish;			/* of a new row that has a tag */
	uint32		group;
} PendingRow;

/* The tags of ready rows of a group, from start to finish. */
typedef struct PendingTag
{
	uint64		slot;
	VirtualTime start;
	VirtualTime finish;
	uint32		group;
	int			ready;			/* rows that count as ready */
} PendingTag;

/* Tasks that were removed from their place, or written with SQL. */
typedef struct PendingTask
{
	QueueState *queue;
	int64		task;			/* 0: several, which are not looked up */
	uint32		group;
	int			n;
	bool		of_overflow;
	float4		refund;			/* the cost that its group was charged for in
								 * vain */
	FairqAddress address;		/* of one that was removed and is not */
} PendingTask;

/*
 * Where the list has an action that a row can be folded into: a hint, by group
 * and by lane.
 */
#define FOLD_HINTS		4096
static int	tag_hints[FOLD_HINTS];
static int	lane_hints[FOLD_HINTS];
static int	written_hints[FOLD_HINTS];

/*
 * The task in a place can be claimed.  The caller has ended its lease, if
 * there was one; see the head of pending.c.
 */
void
pending_offer_place(const PendingPlace *place)
{
	const LaneTurn turn = {.group = place->group,.limits = NO_LIMITS};

	if (lanes_entry_is_turn(&place->entry))
		turns_return(place->lane, &place->entry, &turn, true);
	else
		lanes_offer_of_group(place->lane, &place->entry, place->waiting_group);
}

static void
offer(PendingAction *action)
{
	pending_offer_place(&pending_data(action, PendingRow)->place);
}

static void
lower(PendingAction *action)
{
	PendingPlace *place = &pending_data(action, PendingRow)->place;
	FairqAddress address;

	lanes_entry_address(place->lane, &place->entry, &address);
	lanes_lower(place->lane, &address);
}

static void
doubt(PendingAction *action)
{
	PendingPlace *place = &pending_data(action, PendingRow)->place;

	Assert(TransactionIdIsValid(pending_preparing()));
	lane_doubts_add(place->lane, pending_preparing(), &place->entry, true);
}

/* A new row is not going to be served: its group has its tag back. */
static void
untag_row(PendingAction *action)
{
	PendingRow *row = pending_data(action, PendingRow);
	LaneEntry  *entry = &row->place.entry;
	VirtualTime start = {entry->block, entry->fraction};

	groups_untag(entry->slot, row->group, start, row->finish, 1);
}

/* Rows that were folded, or cancelled, are not going to be served. */
static void
untag(PendingAction *action)
{
	PendingTag *tag = pending_data(action, PendingTag);

	groups_untag(tag->slot, tag->group, tag->start, tag->finish, tag->ready);
}

/*
 * A task was removed, not by the backend that had leased it.
 */
static void
remove_task(PendingAction *action)
{
	PendingTask *removed = pending_data(action, PendingTask);
	QueueState *queue = removed->queue;

	/* First: once it is counted off the group may be forgotten. */
	if (removed->refund > 0)
		groups_refund(queue, removed->address.class, removed->group, removed->refund);

	/* Only orders by groups count what these have. */
	if (queue->classes > 1)
		(void) leases_task_removed(queue_state_number(queue), removed->group, removed->task,
								   removed->of_overflow);
}

/*
 * A task was written with SQL, and counted.  If it is leased it must not be
 * counted before it is given back.
 */
static void
write_task(PendingAction *action)
{
	PendingTask *written = pending_data(action, PendingTask);
	QueueState *queue = written->queue;

	if (written->task == 0 ||
		!leases_task_written(queue_state_number(queue), written->task,
							 written->of_overflow))
		return;
	if (written->of_overflow)
		group_overflow_removed(queue, written->group, 1);
	else
		groups_written(queue, written->group, -1);
}

static void
unwrite_task(PendingAction *action)
{
	PendingTask *written = pending_data(action, PendingTask);

	if (!written->of_overflow)
		groups_written(written->queue, written->group, -written->n);
}

static const PendingKind enqueued = {
	.name = "enqueued row",
	.commit = offer,
	.abort = untag_row,
	.prepare = doubt,
};

static const PendingKind offered_at_commit = {
	.name = "offer at commit",
	.commit = offer,
	.prepare = doubt,
};

static const PendingKind offered_at_abort = {
	.name = "offer at abort",
	.abort = offer,
	.prepare = doubt,
};

/* Rows from an address on are read again. */
static const PendingKind lowered_at_commit = {
	.name = "lower at commit",
	.commit = lower,
	.prepare = doubt,
};

static const PendingKind lowered_at_abort = {
	.name = "lower at abort",
	.abort = lower,
	.prepare = doubt,
};

/* Rows that were folded: lowered_at_commit stands for their offers. */
static const PendingKind tagged = {
	.name = "folded tags",
	.abort = untag,
	.prepare = pending_nothing,
};

static const PendingKind cancelled = {
	.name = "cancelled task",
	.commit = untag,
	.prepare = untag,
};

static const PendingKind removed_task = {
	.name = "removed task",
	.commit = remove_task,
	.prepare = remove_task,
};

/* The line of a group is read again, from a task on. */
static void
read_overflow(PendingAction *action)
{
	PendingTask *unread = pending_data(action, PendingTask);

	group_overflow_again(unread->queue, unread->address.class, unread->group, unread->task);
}

static const PendingKind unread_overflow = {
	.name = "overflow that was passed over",
	.commit = read_overflow,
	.abort = read_overflow,
	.prepare = read_overflow,
};

static const PendingKind written_task = {
	.name = "task written with SQL",
	.commit = write_task,
	.abort = unwrite_task,
	.prepare = write_task,
};

/* Is the list so long that rows are folded? */
static inline bool
folding(void)
{
	return pending_mark() >= PENDING_MAX;
}

static PendingRow *
new_row(const PendingKind *kind, Lane *lane, const FairqAddress *address,
		const ItemPointerData *tid)
{
	PendingRow *row = pending_data(pending_add(kind), PendingRow);

	row->place.lane = lane;
	row->place.waiting_group = WAITERS_ANY_GROUP;
	lanes_entry(&row->place.entry, address, tid);
	return row;
}

/*
 * Fold a row into the lowest address of its lane and subtransaction.
 */
static void
fold_address(const PendingKind *kind, Lane *lane, const FairqAddress *address)
{
	const ItemPointerData no_tid = {{0, 0}, 0};
	int		   *hint = &lane_hints[(uintptr_t) lane / 64 % FOLD_HINTS];
	int			count = pending_mark();
	PendingPlace *found = NULL;
	LaneEntry	entry;

	/* Lanes that share a hint are found near the end of the list. */
	for (int i = -1; found == NULL && i < 2 * FAIRQ_MAX_BUCKETS; i++)
	{
		int			number = (i < 0) ? *hint : count - 1 - i;
		PendingAction *action = pending_find(number, kind);

		if (action == NULL || pending_data(action, PendingRow)->place.lane != lane)
			continue;
		found = &pending_data(action, PendingRow)->place;
		*hint = number;
	}
	if (found == NULL)
	{
		new_row(kind, lane, address, &no_tid);
		*hint = count;
		return;
	}
	lanes_entry(&entry, address, &no_tid);
	if (lanes_compare(&entry, &found->entry) < 0)
		found->entry = entry;
}

/*
 * Fold the tag of a row into those of the rows of its group before it.  The
 * tags of a group go on from each other, unless others have had some in
 * between: then what can be given back begins here.
 */
static void
fold_tag(QueueState *queue, const FairqAddress *address, const GroupTag *tag)
{
	VirtualTime start = {address->block, address->fraction};
	int		   *hint = &tag_hints[tag->group % FOLD_HINTS];
	PendingAction *action = pending_find(*hint, &tagged);
	PendingTag *fold = action ? pending_data(action, PendingTag) : NULL;

	Assert(tag->group != FAIRQ_NO_GROUP);
	if (fold == NULL || fold->group != tag->group || fold->slot != address->slot)
	{
		if (pending_mark() >= MAX_TAGGED)
		{
			pending_recount_at_abort(queue);
			return;
		}
		*hint = pending_mark();
		fold = pending_new(tagged, PendingTag);
		fold->slot = address->slot;
		fold->start = start;
		fold->group = tag->group;
		fold->ready = 0;
	}
	else if (virtual_time_compare(fold->finish, start) != 0)
		fold->start = start;
	fold->finish = tag->finish;
	fold->ready++;
}

/*
 * A row is going to be written at a new address.  tag is NULL where there are
 * no groups.  Noted before the row is written, so that the tag is given back
 * if that fails.  The result is for the next three functions to say what
 * became of the row; it is below zero if the row was folded.
 */
int
pending_placed(Lane *lane, const FairqAddress *address, const GroupTag *tag)
{
	int			placed = pending_mark();
	PendingRow *row;
	ItemPointerData no_tid;

	if (placed >= PENDING_MAX)
	{
		fold_address(&lowered_at_commit, lane, address);
		if (tag != NULL)
			fold_tag(queue_state_by_number(lane->queue), address, tag);
		return -1;
	}
	ItemPointerSetInvalid(&no_tid);
	row = new_row(tag ? &enqueued : &offered_at_commit, lane, address, &no_tid);
	if (tag != NULL)
	{
		row->finish = tag->finish;
		row->group = tag->group;
	}
	return placed;
}

/*
 * Whose task it is (waiters_group), for those who wait for some groups only.
 */
void
pending_placed_group(int placed, uint16 group)
{
	if (placed >= 0)
		pending_data(pending_action(placed), PendingRow)->place.waiting_group = group;
}

/*
 * Where the row is.
 */
void
pending_placed_at(int placed, const ItemPointerData *tid)
{
	if (placed >= 0)
		pending_data(pending_action(placed), PendingRow)->place.entry.tid = *tid;
}

/*
 * The row was not written after all: the group has its tag back.
 */
void
pending_not_placed(int placed)
{
	PendingAction *action = pending_action(placed);

	if (action == NULL)
		return;
	if (action->kind == &enqueued)
		untag_row(action);
	pending_drop(action);
}

void
pending_offer_at_commit(Lane *lane, const FairqAddress *address,
						const ItemPointerData *tid)
{
	if (folding())
		fold_address(&lowered_at_commit, lane, address);
	else
		new_row(&offered_at_commit, lane, address, tid);
}

/*
 * A claimable row is being deleted or changed.
 */
void
pending_offer_at_abort(Lane *lane, const FairqAddress *address,
					   const ItemPointerData *tid)
{
	if (folding())
		fold_address(&lowered_at_abort, lane, address);
	else
		new_row(&offered_at_abort, lane, address, tid);
}

void
pending_lower_at_abort(Lane *lane, const FairqAddress *address)
{
	fold_address(&lowered_at_abort, lane, address);
}

/*
 * What another action was about is to be offered at commit, in its turn.
 */
void
pending_become_offer(PendingAction *action, const PendingPlace *place)
{
	pending_become(action, &offered_at_commit);
	memmove(&pending_data(action, PendingRow)->place, place, sizeof(*place));
}

/*
 * A claim has come to the place of a task of the overflow that this
 * transaction may have changed (written) or removed: whether it is there is
 * known when it ends.
 */
void
pending_passed(Lane *lane, const LaneEntry *entry, uint32 group, bool written)
{
	const PendingPlace place = {lane, *entry, WAITERS_ANY_GROUP, group};

	pending_new(offered_at_abort, PendingRow)->place = place;
	if (written)
		pending_new(offered_at_commit, PendingRow)->place = place;
}

/*
 * A task is being removed that was the last of its group.
 */
void
pending_cancelled(const FairqAddress *address, const GroupTag *tag)
{
	PendingTag *taken_back = pending_new(cancelled, PendingTag);

	Assert(tag->group != FAIRQ_NO_GROUP);
	taken_back->slot = address->slot;
	taken_back->start.whole = address->block;
	taken_back->start.fraction = address->fraction;
	taken_back->finish = tag->finish;
	taken_back->group = tag->group;

	/* It may be leased, so the caller notes apart what it counts as. */
	taken_back->ready = 0;
}

/*
 * A task is being removed from its place, but not by the backend that has
 * leased it, if one has.  address is NULL: the task is of the overflow.
 */
void
pending_removed(QueueState *queue, uint32 group, int64 task,
				const FairqAddress *address)
{
	PendingTask *removed = pending_new(removed_task, PendingTask);

	Assert(task != 0);
	removed->queue = queue;
	removed->task = task;
	removed->group = group;
	removed->n = 1;
	removed->of_overflow = (address == NULL);
	removed->refund = 0;
	if (address != NULL)
		removed->address = *address;
}

/*
 * Who has read a line has passed over a task that this transaction may have
 * changed or removed: it is read again when that ends.
 */
void
pending_overflow_unread(QueueState *queue, int class, uint32 group, int64 task)
{
	PendingTask *unread = pending_new(unread_overflow, PendingTask);

	unread->queue = queue;
	unread->address.class = class;
	unread->group = group;
	unread->task = task;
}

/*
 * As pending_removed, of a task of a class that has expired.  Its group gets
 * back what it was charged for a cost of refund; 0: it was charged nothing.
 */
void
pending_expired(QueueState *queue, uint32 group, int64 task,
				const FairqAddress *address, int class, float4 refund)
{
	PendingTask *removed = pending_new(removed_task, PendingTask);

	removed->queue = queue;
	removed->task = task;
	removed->group = group;
	removed->n = 1;
	removed->of_overflow = (address == NULL);
	removed->refund = queue->classes == 1 ? 0 : refund;
	if (address != NULL)
		removed->address = *address;
	removed->address.class = class;
}

/*
 * A row was written with SQL: the task counts as ready in its group, just now,
 * or (of the overflow) is noted to come there.  When there are too many of
 * them it is not looked up whether they are leased, and they are one for each
 * group.
 */
void
pending_row_written(QueueState *queue, uint32 group, int64 task, bool of_overflow)
{
	bool		fold = folding();
	int		   *hint = &written_hints[group % FOLD_HINTS];
	PendingAction *found = fold ? pending_find(*hint, &written_task) : NULL;
	PendingTask *written = found ? pending_data(found, PendingTask) : NULL;

	Assert(task != 0);
	if (fold && of_overflow)
		return;
	if (written != NULL && written->task == 0 && written->group == group)
	{
		written->n++;
		return;
	}
	if (fold)
		*hint = pending_mark();
	written = pending_new(written_task, PendingTask);
	written->queue = queue;
	written->task = fold ? 0 : task;
	written->group = group;
	written->n = 1;
	written->of_overflow = of_overflow;
}

/*
 * A task was not moved after all, and is as it was: so are the counts.  What
 * was noted since mark was for that.
 */
void
pending_not_moved(int mark)
{
	PendingAction *action;

	for (int i = mark; (action = pending_action(i)) != NULL; i++)
	{
		if (action->kind == &enqueued)
			untag_row(action);
		if (action->kind == &enqueued || action->kind == &cancelled ||
			action->kind == &removed_task)
			pending_drop(action);
	}
}
