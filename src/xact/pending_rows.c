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

/* Actions before the tags of new rows are not noted any more: see fold_tag. */
#define MAX_TAGGED		(2 * PENDING_MAX)

/*
 * A new row, or one that is offered at one end of the transaction; folded, it
 * stands for all rows of its lane from its address on.  It begins with the
 * place, by which offer goes for kinds of other files (pending_become_offer).
 */
typedef struct PendingRow
{
	PendingPlace place;
	VirtualTime finish;			/* of a new row that has a tag */
	uint32		group;
} PendingRow;

/*
 * The tags of rows of one group, in one run from start to finish, which are
 * not going to be served: of rows that were folded if this rolls back, of a
 * task that was cancelled if it commits.
 */
typedef struct PendingTag
{
	uint64		slot;			/* of the group, which tells it from a later
								 * one of its number */
	VirtualTime start;
	VirtualTime finish;
	uint32		group;
	int			ready;			/* rows that count as ready */
} PendingTag;

/*
 * Tasks that were removed from their place, or written with SQL; or a task of
 * the overflow that was passed over.  n is of rows written with SQL, and is 1
 * unless task is 0.
 */
typedef struct PendingTask
{
	QueueState *queue;
	int64		task;			/* 0: several, which are not looked up */
	uint64		lease;			/* token of the one that it had when it was
								 * written or removed; 0: none */
	TaskCount	in;
	TaskCount	before;			/* before it was changed with SQL */
	int			n;
	float4		refund;			/* the cost that its group was charged for in
								 * vain */
	int			class;			/* of one that was removed, or passed over */
} PendingTask;

/*
 * Where the list has an action that a row can be folded into: a hint, by group
 * and by lane.  It is a number that may be out of date, and that two groups or
 * lanes may share; so pending_find and the action's own data are looked at.
 */
#define FOLD_HINTS		4096
static int	tag_hints[FOLD_HINTS];
static int	lane_hints[FOLD_HINTS];
static int	written_hints[FOLD_HINTS];

/* Where a row is, if that is not known. */
static const ItemPointerData no_tid = {{0, 0}, 0};

/*
 * The task in a place can be claimed.  The caller has ended its lease, if
 * there was one (race 3); see the head of pending.c.  Takes and releases the
 * lane's lock, and for a turn that of the group's partition.  Never fails.
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

/* The row can be claimed from now on: it was written, or is as it was. */
static void
offer(PendingAction *action)
{
	pending_offer_place(&pending_data(action, PendingRow)->place);
}

/*
 * Rows from an address on can be claimed, or may be: the lane reads the index
 * again from there.
 */
static void
lower(PendingAction *action)
{
	PendingPlace *place = &pending_data(action, PendingRow)->place;
	FairqAddress address;

	lanes_entry_address(place->lane, &place->entry, &address);
	lanes_lower(place->lane, &address);
}

/*
 * The prepared transaction has the row: claims look whether that has ended
 * (race 13).
 */
static void
doubt(PendingAction *action)
{
	PendingPlace *place = &pending_data(action, PendingRow)->place;

	Assert(TransactionIdIsValid(pending_preparing()));
	lane_doubts_add(place->lane, pending_preparing(), &place->entry, true);
}

/*
 * A new row is not going to be served: its group has its tag back, if it was
 * given none since.
 */
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
		groups_refund(queue, removed->class, removed->in.group, removed->refund);

	/* Only orders by groups count what these have. */
	if (queue->classes > 1)
		leases_task_removed(queue_state_number(queue), removed->task, removed->lease,
							removed->in);
}

/*
 * A task was written with SQL, and counted.  If it is leased it must not be
 * counted before it is given back: under the lock of the lease it is seen
 * whether it is, and what was counted is taken back here (race 30).
 */
static void
write_task(PendingAction *action)
{
	PendingTask *written = pending_data(action, PendingTask);
	QueueState *queue = written->queue;

	if (written->task != 0 &&
		leases_task_written(queue_state_number(queue), written->task, written->lease,
							written->in, written->before))
		groups_count(written->in.group, written->in.overflow, -1);
}

/*
 * The row was not written: it counts no more.  What was of the overflow was
 * not counted as yet (pending_overflowed).
 */
static void
unwrite_task(PendingAction *action)
{
	PendingTask *written = pending_data(action, PendingTask);

	if (!written->in.overflow)
		groups_count(written->in.group, false, -written->n);
}

/* A new row of a group. */
static const PendingKind enqueued = {
	.name = "enqueued row",
	.commit = offer,
	.abort = untag_row,
	.prepare = doubt,
};

/* A row that can be claimed when this commits, and has no tag to give back. */
static const PendingKind offered_at_commit = {
	.name = "offer at commit",
	.commit = offer,
	.prepare = doubt,
};

/* A row that is being deleted or changed, and is as it was if that fails. */
static const PendingKind offered_at_abort = {
	.name = "offer at abort",
	.abort = offer,
	.prepare = doubt,
};

/* Rows from an address on are read again: for new rows that were folded. */
static const PendingKind lowered_at_commit = {
	.name = "lower at commit",
	.commit = lower,
	.prepare = doubt,
};

/* Rows that were passed over, or folded, from an address on. */
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

/* The last task of its group is removed: at commit that has its tag back. */
static const PendingKind cancelled = {
	.name = "cancelled task",
	.commit = untag,
	.prepare = untag,
};

/* It counts until the commit, and its cost was charged for in vain. */
static const PendingKind removed_task = {
	.name = "removed task",
	.commit = remove_task,
	.prepare = remove_task,
};

/*
 * The line of a group is read again, from a task on, however the transaction
 * has ended (race 11).
 */
static void
read_overflow(PendingAction *action)
{
	PendingTask *unread = pending_data(action, PendingTask);

	group_overflow_again(unread->queue, unread->class, unread->in.group, unread->task);
}

/*
 * However the transaction ends the task may be claimable, so all ends are
 * alike.
 */
static const PendingKind unread_overflow = {
	.name = "overflow that was passed over",
	.commit = read_overflow,
	.abort = read_overflow,
	.prepare = read_overflow,
};

/* It was counted when it was written: at commit that may be once too often. */
static const PendingKind written_task = {
	.name = "task written with SQL",
	.commit = write_task,
	.abort = unwrite_task,
	.prepare = write_task,
};

/*
 * Is the list so long that rows are folded?  Then new actions are one for each
 * lane or group, not for each row.
 */
static inline bool
folding(void)
{
	return pending_mark() >= PENDING_MAX;
}

/*
 * Note an action of a kind for a row.  It is for any waiter:
 * pending_placed_group says more.
 */
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
 * Fold a row into the lowest address of its lane and subtransaction.  An
 * action is added if there is none yet, so there is one for each lane and
 * kind.
 */
static void
fold_address(const PendingKind *kind, Lane *lane, const FairqAddress *address)
{
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
 * between: then what can be given back begins here, for a group takes back
 * only its last tags.
 *
 * Where there are too many actions none is added, and the queue is counted
 * anew at rollback.
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
 * no groups; else the group has given it.  Noted before the row is written,
 * with room reserved before the tag was given, so that the tag is given back
 * if that fails.  The result is for the next three functions to say what
 * became of the row; it is below zero if the row was folded.
 */
int
pending_placed(Lane *lane, const FairqAddress *address, const GroupTag *tag)
{
	int			placed = pending_mark();
	PendingRow *row;

	if (placed >= PENDING_MAX)
	{
		fold_address(&lowered_at_commit, lane, address);
		if (tag != NULL)
			fold_tag(queue_state_by_number(lane->queue), address, tag);
		return -1;
	}
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
 * Without this all who wait for the bucket may be told.
 */
void
pending_placed_group(int placed, uint16 group)
{
	if (placed >= 0)
		pending_data(pending_action(placed), PendingRow)->place.waiting_group = group;
}

/*
 * Where the row is, now that it was written.  Without this the claim looks it
 * up by its id.
 */
void
pending_placed_at(int placed, const ItemPointerData *tid)
{
	if (placed >= 0)
		pending_data(pending_action(placed), PendingRow)->place.entry.tid = *tid;
}

/*
 * The row was not written after all: the group has its tag back, at once.  A
 * folded row keeps its action, which costs a read in vain.  Never fails.
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

/*
 * A row that can be claimed when this commits was written, or is to be offered
 * again from where it is.
 */
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
 * A claimable row is being deleted or changed: if that fails it is there as it
 * was, and claims that came to it meanwhile have dropped its entry.
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

/*
 * As pending_offer_at_abort, of a row whose TID is not known, or of many: one
 * action for each lane.
 */
void
pending_lower_at_abort(Lane *lane, const FairqAddress *address)
{
	fold_address(&lowered_at_abort, lane, address);
}

/*
 * What another action was about is to be offered at commit, in its turn.
 * place is often in the action itself.  For callbacks of the phase before
 * (end_released).  Never fails.
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
 *
 * The entry is offered as it is: at rollback, and if the row was written also
 * at commit.
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
 * A task is being removed that was the last of its group: at commit that has
 * its tag back, as if it had never been.  The address is the task's, and the
 * tag what the group said before.
 */
void
pending_cancelled(const FairqAddress *address, const GroupTag *tag)
{
	PendingTag *taken_back = pending_new(cancelled, PendingTag);

	Assert(tag->group != FAIRQ_NO_GROUP);
	taken_back->slot = address->slot;
	taken_back->start = (VirtualTime) {address->block, address->fraction};
	taken_back->finish = tag->finish;
	taken_back->group = tag->group;

	/* It may be leased, so the caller notes apart what it counts as. */
	taken_back->ready = 0;
}

/*
 * The caller has read a line, and has passed over a task that this transaction
 * may have changed or removed: it is read again when that ends (race 11).
 * Room is reserved.
 */
void
pending_overflow_unread(QueueState *queue, int class, uint32 group, int64 task)
{
	PendingTask *unread = pending_new(unread_overflow, PendingTask);

	unread->queue = queue;
	unread->class = class;
	unread->in.group = group;
	unread->task = task;
}

/* The token of the lease that a task has; 0: it has none. */
static uint64
token_of(QueueState *queue, int64 task)
{
	LeaseInfo	lease;

	return leases_find(queue_state_number(queue), task, &lease) ? lease.ref.token : 0;
}

/*
 * A task is being removed from its place, but not by the backend that has
 * leased it, if one has.  It counts until the commit.  Its group gets back
 * what it was charged for a cost of refund; 0: nothing.  Returns what names
 * this for pending_row_written().
 */
int
pending_removed(QueueState *queue, int class, uint32 group, int64 task, bool of_overflow,
				float4 refund)
{
	int			number = pending_mark();
	PendingTask *removed = pending_new(removed_task, PendingTask);

	Assert(task != 0);
	removed->queue = queue;
	removed->task = task;
	removed->lease = token_of(queue, task);
	removed->in.group = group;
	removed->n = 1;
	removed->in.overflow = of_overflow;
	removed->refund = queue->classes == 1 ? 0 : refund;
	removed->class = class;
	return number;
}

/*
 * A row was written with SQL: the task counts as ready in its group, just now,
 * or (of the overflow) is noted to come there.  removed names the removal of
 * its row of before, which becomes a part of this; below zero: it had none.
 * When there are too many of them it is not looked up whether they are leased,
 * and they are one for each group.
 *
 * Looked for last is the removal, for its action may move when one is added.
 */
void
pending_row_written(QueueState *queue, uint32 group, int64 task, bool of_overflow,
					int removed)
{
	PendingAction *before;
	bool		fold = folding();
	int		   *hint = &written_hints[group % FOLD_HINTS];
	PendingAction *found = fold ? pending_find(*hint, &written_task) : NULL;
	PendingTask *written = found ? pending_data(found, PendingTask) : NULL;

	Assert(task != 0);
	if (fold && of_overflow)
		return;
	if (written != NULL && written->task == 0 && written->in.group == group)
	{
		written->n++;
		return;
	}
	if (fold)
		*hint = pending_mark();
	written = pending_new(written_task, PendingTask);
	written->queue = queue;
	written->task = fold ? 0 : task;
	written->lease = token_of(queue, task);
	written->in.group = group;
	written->n = 1;
	written->in.overflow = of_overflow;
	written->before.group = FAIRQ_NO_GROUP;

	/* Found after an action was added, for which the list may have moved. */
	before = pending_find(removed, &removed_task);
	if (before != NULL && !fold && pending_data(before, PendingTask)->task == task)
	{
		written->before = pending_data(before, PendingTask)->in;
		pending_drop(before);
	}
}

/*
 * A task was not moved after all, and is as it was: so are the counts.  What
 * was noted since mark was for that, in this subtransaction: tags are given
 * back at once, and what would be counted at commit is not.  Offers stay,
 * which find the row or nothing.  Never fails.
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
