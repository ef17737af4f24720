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

typedef struct PendingLease
{
	LeaseRef	lease;
	PendingPlace place;			/* of the task */
} PendingLease;

/* A lease that is settled, which may become the other. */
typedef struct PendingSettled
{
	LeaseRef	lease;
	int			queue;
	int			outcome;		/* how its task ends with it; NOT_ENDED: it
								 * does not */
	int64		task;
} PendingSettled;

#define NOT_ENDED	(-1)

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

static void
end_lease(PendingAction *action)
{
	PendingSettled *settled = pending_data(action, PendingSettled);

	(void) leases_drop(&settled->lease, true, NULL);

	/* The locks of that are the barrier between the commit and this look. */
	if (settled->outcome != NOT_ENDED && awaiters_any(settled->queue, settled->task))
		awaiters_tell(settled->queue, settled->task, settled->outcome);
}

/*
 * The lease ends with all others; the row is offered in its turn, when they
 * have.
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

static void
unsettle(PendingAction *action)
{
	leases_unsettle(&pending_data(action, PendingLease)->lease, true);
}

static void
end_vain(PendingAction *action)
{
	leases_end_vain(&pending_data(action, PendingLease)->lease);
	worker_slots_wake_at(MyDatabaseId, 0);
}

static void
refuse_prepare(PendingAction *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has claimed or settled tasks"),
			 errhint("Claim and settle tasks in a transaction of their own, and prepare one that enqueues only.")));
}

static const PendingKind claimed_task = {
	.name = "claimed task",
	.abort = give_back,
	.check_prepare = refuse_prepare,
};

static const PendingKind settled_lease = {
	.name = "settled lease",
	.phase = PENDING_LEASES_END,
	.commit = end_lease,
	.abort = unsettle,
	.check_prepare = refuse_prepare,
};

static const PendingKind released_lease = {
	.name = "released lease",
	.phase = PENDING_LEASES_END,
	.commit = end_released,
	.abort = unsettle,
	.check_prepare = refuse_prepare,
};

static const PendingKind vain_lease = {
	.name = "vain lease",
	.commit = end_vain,
	.check_prepare = refuse_prepare,
};

/*
 * A lease was granted, on a task in a place.  The result names the action to
 * pending_not_claimed.
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
 * keeps that, as in leases_give_back.
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
 * A lease is settling.  The caller does nothing between that and this call:
 * whatever fails later, the lease is unsettled.  The result names the action
 * to the next two.
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
	settled->task = lease->task;
	return number;
}

/*
 * The row of a leased task is deleted, and another transaction is settling the
 * lease.  That has to fail, for it does not have the row; but the lease must
 * not go on without one.
 */
void
pending_vain(const LeaseInfo *lease)
{
	PendingLease *vain = pending_new(vain_lease, PendingLease);

	vain->lease = lease->ref;
}

/*
 * A task ends with this transaction.  If what was noted last is that its lease
 * settles, that is to tell who awaits it: then true.
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
 * The lease is given back: its task is as it was.  task is which one it is, if
 * it is of the overflow; else 0.
 */
void
pending_released(int settled, Lane *lane, const FairqAddress *address, int64 task)
{
	PendingAction *action = pending_action(settled);
	PendingLease *released = pending_data(action, PendingLease);
	ItemPointerData no_tid;

	Assert(action != NULL && lane != NULL);
	Assert(action->kind == &settled_lease);
	pending_become(action, &released_lease);
	ItemPointerSetInvalid(&no_tid);
	released->place.lane = lane;
	released->place.waiting_group = WAITERS_ANY_GROUP;
	lanes_entry(&released->place.entry, address, &no_tid);
	if (task != 0)
		lanes_entry_set_turn(&released->place.entry, task, address->slot);
}

/*
 * The lease is not settled after all, and goes on.  For a pass, which comes
 * again.
 */
void
pending_not_settled(int settled)
{
	PendingAction *action = pending_action(settled);

	Assert(action != NULL);
	Assert(action->kind == &settled_lease);
	leases_unsettle(&pending_data(action, PendingLease)->lease, false);
	pending_drop(action);
}
