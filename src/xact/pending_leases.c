/*-------------------------------------------------------------------------
 *
 * pending_leases.c
 *	  Pending actions about leases that begin or end.
 *
 * A lease that this transaction was granted is given back at rollback, and its
 * task is offered again.  A lease that it settles ends at commit, before any
 * row is offered, and goes on at rollback.
 *
 * None can be prepared: no callback would end the lease with the transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/waiters.h"
#include "shmem/worker_slots.h"
#include "xact/pending_rows.h"

/*
 * A lease whose task has a place: one that was claimed, released or is vain.
 * The place has the row's address; where its row is, and its group, the lease
 * tells when it ends.
 */
typedef struct PendingLease
{
	LeaseRef	lease;
	PendingPlace place;			/* of the task; not set if the lease is vain */
} PendingLease;

/*
 * A lease that is settled.  It may become a PendingLease (pending_released),
 * so both begin with the lease, by which unsettle goes.
 */
typedef struct PendingSettled
{
	LeaseRef	lease;
	int			queue;
	int			outcome;		/* how its task ends with it; NOT_ENDED: it
								 * does not */
	int64		task;
	bool		gone;			/* its row was removed from its place, not
								 * by what settles (pending_settled_gone) */
} PendingSettled;

#define NOT_ENDED	(-1)

/*
 * The claim is rolled back: its lease ends and its task is offered again, in
 * this order (race 3).  Where the lease goes on, for a transaction that
 * settles it, the worker looks after it.
 */
static void
give_back(PendingAction *action)
{
	PendingLease *claimed = pending_data(action, PendingLease);
	LeaseInfo	lease;

	if (leases_give_back(&claimed->lease, &lease))
	{
		claimed->place.entry.tid = lease.tid;
		claimed->place.group = lease.group;
		pending_offer_place(&claimed->place);
	}
	else
		worker_slots_wake_at(MyDatabaseId, 0);
}

/*
 * The lease was settled, and that has committed.  Its task, if it has ended,
 * is told to its awaiters.
 */
static void
end_lease(PendingAction *action)
{
	PendingSettled *settled = pending_data(action, PendingSettled);

	(void) leases_drop(&settled->lease, !settled->gone, NULL);

	/* The locks of that are the barrier between the commit and this look. */
	if (settled->outcome != NOT_ENDED && awaiters_any(settled->queue, settled->task))
		awaiters_tell(settled->queue, settled->task, settled->outcome);
}

/*
 * The lease ends with all others; the row is offered in its turn, when they
 * have.
 *
 * A lease that is over, or knows no place of the row, leaves nothing to offer.
 */
static void
end_released(PendingAction *action)
{
	PendingLease *released = pending_data(action, PendingLease);
	LeaseInfo	lease;

	if (!leases_drop(&released->lease, false, &lease) || !ItemPointerIsValid(&lease.tid))
		return;
	released->place.entry.tid = lease.tid;
	released->place.group = lease.group;
	pending_become_offer(action, &released->place);
}

/*
 * What settled the lease is rolled back: it goes on.  The worker is woken if
 * it has run out meanwhile (race 5).
 */
static void
unsettle(PendingAction *action)
{
	leases_unsettle(&pending_data(action, PendingLease)->lease, true);
}

/*
 * The row is gone, for all to see: the lease cannot be settled any more (race
 * 28), and the worker's next pass ends it.
 */
static void
end_vain(PendingAction *action)
{
	leases_end_vain(&pending_data(action, PendingLease)->lease);
	worker_slots_wake_at(MyDatabaseId, 0);
}

#define REFUSED \
	.refused = "cannot PREPARE a transaction that has claimed or settled tasks", \
	.refused_hint = "Claim and settle tasks in a transaction of their own, and prepare one that enqueues only."

static const PendingKind claimed_task = {
	.name = "claimed task",
	.abort = give_back,
	REFUSED,
};

static const PendingKind settled_lease = {
	.name = "settled lease",
	.phase = PENDING_LEASES_END,
	.commit = end_lease,
	.abort = unsettle,
	REFUSED,
};

static const PendingKind released_lease = {
	.name = "released lease",
	.phase = PENDING_LEASES_END,
	.commit = end_released,
	.abort = unsettle,
	REFUSED,
};

static const PendingKind vain_lease = {
	.name = "vain lease",
	.commit = end_vain,
	REFUSED,
};

/*
 * A lease was granted, on a task in a place.  The caller has reserved room,
 * and does nothing that may fail between the grant and this.  The result names
 * the action to pending_not_claimed.
 */
int
pending_claimed(const LeaseInfo *lease, Lane *lane, const LaneEntry *entry)
{
	int			number = pending_mark();
	PendingLease *claimed = pending_new(claimed_task, PendingLease);

	Assert(lease->ref.token != 0);
	claimed->lease = lease->ref;
	claimed->place.lane = lane;
	claimed->place.entry = *entry;
	claimed->place.waiting_group = WAITERS_ANY_GROUP;
	return number;
}

/*
 * The task is not claimed after all, and the caller sees to its place.  A
 * transaction that deletes the row may be settling the lease already: then it
 * keeps that, as in leases_give_back (race 28).  claimed is the result of
 * pending_claimed in this subtransaction, and is void then.  Never fails.
 */
void
pending_not_claimed(int claimed)
{
	PendingAction *action = pending_action(claimed);
	LeaseInfo	lease;

	Assert(action != NULL);
	Assert(action->kind == &claimed_task);
	(void) leases_give_back(&pending_data(action, PendingLease)->lease, &lease);
	pending_drop(action);
}

/*
 * A lease is settling.  The caller has reserved room, and does nothing between
 * that and this call: whatever fails later, the lease is unsettled.  The
 * result names the action to pending_released and pending_not_settled.
 */
int
pending_settled(const LeaseInfo *lease)
{
	int			number = pending_mark();
	PendingSettled *settled = pending_new(settled_lease, PendingSettled);

	Assert(lease->ref.token != 0);
	settled->lease = lease->ref;
	settled->queue = lease->queue;
	settled->outcome = NOT_ENDED;
	settled->gone = false;
	settled->task = lease->task;
	return number;
}

/*
 * The row of a leased task is deleted, and another transaction is settling the
 * lease.  That has to fail, for it does not have the row; but the lease must
 * not go on without one.  At commit it is vain (race 28); at rollback the row
 * is there, and the lease goes on as it was.
 */
void
pending_vain(const LeaseInfo *lease)
{
	PendingLease *vain = pending_new(vain_lease, PendingLease);

	vain->lease = lease->ref;
}

/*
 * A task ends with this transaction.  If what was noted last is that its lease
 * settles, that is to tell who awaits it: then true.  Never fails.
 */
bool
pending_settled_ends(int queue, int64 task, int outcome)
{
	PendingAction *action = pending_find(pending_mark() - 1, &settled_lease);
	PendingSettled *settled = action ? pending_data(action, PendingSettled) : NULL;

	if (settled == NULL || settled->queue != queue || settled->task != task)
		return false;
	settled->outcome = outcome;
	return true;
}

/*
 * The lease is given back: its task is as it was, at this address of the lane.
 * task is which one it is, if it is of the overflow; else 0.  settled is the
 * result of pending_settled, in this transaction; the action takes its place
 * in the list, and so needs no room.  Never fails.
 */
void
pending_released(int settled, Lane *lane, const FairqAddress *address, int64 task)
{
	PendingAction *action = pending_action(settled);
	PendingLease *released = pending_data(action, PendingLease);
	const ItemPointerData no_tid = {{0, 0}, 0};

	Assert(action != NULL && lane != NULL);
	Assert(action->kind == &settled_lease);
	pending_become(action, &released_lease);
	released->place.lane = lane;
	released->place.waiting_group = WAITERS_ANY_GROUP;
	lanes_entry(&released->place.entry, address, &no_tid);
	if (task != 0)
		lanes_entry_set_turn(&released->place.entry, task, address->slot);
}

/*
 * The lease ends, and (gone) its row is gone, or was not in its place any more:
 * another transaction has done that, which counts the task off when it carries
 * out its actions; or this one has (placement_leaves_lease).  Its commit is
 * seen before that.  So the lease counts the task until then
 * (leases_task_removed), and counts it again as it ends, as one whose task is
 * given back (race 31).  The group is not told how long it was worked on.
 */
void
pending_settled_gone(int settled, bool gone)
{
	PendingAction *action = pending_action(settled);

	Assert(action != NULL);
	Assert(action->kind == &settled_lease);
	pending_data(action, PendingSettled)->gone = gone;
}

/*
 * The lease is not settled after all, and goes on.  For a pass, which comes
 * again, and so the worker is not woken.  settled is the result of
 * pending_settled, and is void then.  Never fails.
 */
void
pending_not_settled(int settled)
{
	PendingAction *action = pending_action(settled);

	Assert(action != NULL);
	Assert(action->kind == &settled_lease || action->kind == &released_lease);
	leases_unsettle(&pending_data(action, PendingLease)->lease, false);
	pending_drop(action);
}
