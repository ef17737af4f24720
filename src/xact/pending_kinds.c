/*-------------------------------------------------------------------------
 *
 * pending_kinds.c
 *	  What a transaction owes to others, carried out item by item.
 *
 * pending.c has the list, and says when and in which order.  But for what is done
 * before PREPARE nothing here may fail, or allocate memory: the transaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "shmem/group_limits.h"
#include "shmem/group_overflow.h"
#include "shmem/lane_doubts.h"
#include "shmem/queue_lifecycle.h"
#include "shmem/refill.h"
#include "shmem/wakeup.h"
#include "xact/pending_private.h"

/* Settings were changed: the worker is woken when all can see them. */
static bool wake_when_seen = false;

/* A task, or several, is not going to be served: its group has its tag back. */
void
pending_row_untag(const PendingAction *item)
{
	VirtualTime start = {item->address.block, item->address.fraction};

	groups_untag(item->address.slot, item->u.tag.group, start, item->u.tag.finish,
				 item->u.tag.ready);
}

/* The place that an item is about. */
static void
place_of(const PendingAction *item, LaneEntry *place)
{
	lanes_entry(place, &item->address, &item->tid);
	if (item->task != 0)
		(void) lanes_entry_set_task(place, item->task);
}

/*
 * It is to be claimed.  Not until other leases have ended, see the head of pending.c.
 */
static void
offer(const PendingAction *item)
{
	LaneEntry	place;

	place_of(item, &place);
	lanes_offer_of_group(item->lane, &place, item->group);
}

/*
 * First of all at commit the leases that were settled end, wherever they are
 * in the list.
 */
void
pending_action_end_lease(PendingAction *item)
{
	if (item->kind == PENDING_SETTLED)
		(void) leases_drop(&item->u.lease, true, NULL);
	else if (item->kind == PENDING_RELEASED)
	{
		LeaseInfo	lease;

		ItemPointerSetInvalid(&item->tid);
		if (leases_drop(&item->u.lease, false, &lease))
			item->tid = lease.tid;
	}
}

/*
 * A task was removed, not by who had leased it.
 */
static void
remove_task(const PendingAction *item)
{
	QueueState *queue = item->u.overflow.queue;
	int			number = queue_state_number(queue);
	LeaseInfo	lease;
	bool		leased;

	/* Only orders by groups count what these have. */
	if (queue->classes == 1)
		leased = leases_find(number, item->u.overflow.id, &lease);
	else
		leased = leases_task_removed(number, item->u.overflow.group,
									 item->u.overflow.id, item->of_overflow);
	if (!leased && !item->of_overflow)
		groups_place_removed(item->u.overflow.queue, item->u.overflow.group,
							 &item->address);
}

/*
 * A task was written with SQL, and counted.  If it is leased it is not to be counted
 * before it is given back.
 */
static void
write_task(const PendingAction *item)
{
	QueueState *queue = item->u.overflow.queue;

	if (item->task == 0 ||
		!leases_task_written(queue_state_number(queue), item->task, item->of_overflow))
		return;
	if (item->of_overflow)
		group_overflow_removed(queue, item->u.overflow.group, 1);
	else
		groups_written(queue, item->u.overflow.group, -1);
}

static void
look_at_held(const PendingAction *item)
{
	if (item->kind == PENDING_LOOK)
		queue_state_look_from(item->u.held.queue, PG_INT64_MIN);
	else if (item->kind == PENDING_LOOKED && item->u.held.before)
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
look_behind(const PendingAction *item)
{
	if (!leases_will_look(queue_state_number(item->u.held.queue),
						  item->u.held.before))
		look_at_held(item);
}

void
pending_action_commit(const PendingAction *item)
{
	switch ((PendingKind) item->kind)
	{
		case PENDING_ENQUEUED:
		case PENDING_OFFER_AT_COMMIT:
			offer(item);
			break;
		case PENDING_LOWER_AT_COMMIT:
			lanes_lower(item->lane, &item->address);
			break;
		case PENDING_RELEASED:
			if (ItemPointerIsValid(&item->tid))
				offer(item);
			break;
		case PENDING_CANCELLED:
			pending_row_untag(item);
			break;
		case PENDING_GROUP_SET:
			pg_atomic_fetch_add_u32(&item->u.group_set.queue->limits.changes, 1);
			groups_settle_limit(item->u.group_set.queue, item->u.group_set.limit,
								&item->u.group_set.settings);
			break;
		case PENDING_DEFAULTS_SET:
			queue_state_set_defaults(item->u.group_set.queue,
									 &item->u.group_set.settings);
			group_limits_defaults_changed(queue_state_number(item->u.group_set.queue));
			pg_atomic_fetch_sub_u32(&item->u.group_set.queue->limits.entries, 1);
			break;
		case PENDING_READ_AGAIN:
			queue_state_read_again(item->u.release.relation);
			wakeup_at(MyDatabaseId, 0);
			break;
		case PENDING_PURGED:
			groups_level(item->u.purged.queue, item->u.purged.group,
						 item->u.purged.finish);
			break;
		case PENDING_REMOVED:
			remove_task(item);
			break;
		case PENDING_READY_REMOVED:
			groups_written(item->u.overflow.queue, item->u.overflow.group,
						   -item->u.overflow.n);
			break;
		case PENDING_OVERFLOW_REMOVED:
			group_overflow_removed(item->u.overflow.queue, item->u.overflow.group,
								   item->u.overflow.n);
			break;
		case PENDING_WRITTEN:
			write_task(item);
			break;
		case PENDING_NOT_COUNTED:
			/* If somebody counts them just now he may have come too early. */
			if (item->u.overflow.queue->recovery.groups != QUEUE_UNKNOWN)
				queue_state_recount(item->u.overflow.queue);
			break;
		case PENDING_OVERFLOWED:
			group_overflow_ends(item->u.overflow.queue, item->u.overflow.group,
								item->u.overflow.n, item->u.overflow.id, true);
			break;
		case PENDING_DUE_ADDED:
			due_cursor_add(item->u.due.cursor, item->u.due.place.due);
			wakeup_at(MyDatabaseId, item->u.due.wake_at);
			break;
		case PENDING_DUE_DONE:
			due_cursor_done(item->u.due.cursor, &item->u.due.place);
			break;
		case PENDING_DUE_READ:
			due_cursor_end(item->u.due.cursor, &item->u.due.place);
			break;
		case PENDING_DUE_HELD:
			due_cursor_hold(item->u.due.cursor, &item->u.due.place);
			break;
		case PENDING_HELD:
			look_behind(item);
			break;
		case PENDING_LOOK:
			look_at_held(item);
			break;
		case PENDING_SESSION_CLOSED:
			sessions_close(&item->u.session);
			break;
		case PENDING_SETTINGS:
			queue_lifecycle_settings_changed(item->u.release.relation);
			wake_when_seen = true;
			break;
		case PENDING_PROBE:
			wakeup_probe(MyDatabaseId);
			break;
		case PENDING_TAGGED:
		case PENDING_RECOUNT:
		case PENDING_OFFER_AT_ABORT:
		case PENDING_LOWER_AT_ABORT:
		case PENDING_CLAIMED:
		case PENDING_SETTLED:
		case PENDING_MAINTAINED:
		case PENDING_ROOM:		/* later: pending_action_after_commit */
		case PENDING_FED:
		case PENDING_RELEASE_QUEUE:
		case PENDING_LOOKED:
		case PENDING_NOTHING:
			break;
	}
}

/*
 * Last of all at commit, when all tasks are counted and offered: room is no longer
 * reserved for them, and groups are told what they were fed.  A group that hears
 * that its overflow is empty gives its next task an address at once, and that must
 * not be claimed before those that were moved can be.  And a queue that was dropped
 * is forgotten, after everything else that the list has of it.
 */
void
pending_action_after_commit(const PendingAction *item)
{
	if (item->kind == PENDING_ROOM)
		queue_state_unreserve(item->u.overflow.queue, item->u.overflow.n);
	else if (item->kind == PENDING_FED)
	{
		group_overflow_fed(item->u.overflow.queue, item->u.overflow.group,
						   item->of_overflow, item->u.overflow.n, item->u.overflow.id,
						   item->u.overflow.held, item->u.overflow.left);
		refill_ended(item->u.overflow.queue, true);
	}
	else if (item->kind == PENDING_RELEASE_QUEUE)
		queue_lifecycle_release(item->u.release.database, item->u.release.relation);
}

void
pending_action_abort(PendingAction *item)
{
	switch ((PendingKind) item->kind)
	{
		case PENDING_ENQUEUED:
		case PENDING_TAGGED:
			pending_row_untag(item);
			break;
		case PENDING_OFFER_AT_ABORT:
			offer(item);
			break;
		case PENDING_LOWER_AT_ABORT:
			lanes_lower(item->lane, &item->address);
			break;
		case PENDING_CLAIMED:
			{
				LeaseInfo	lease;

				if (leases_give_back(&item->u.lease, &lease))
				{
					item->tid = lease.tid;
					offer(item);
				}
				else
					wakeup_at(MyDatabaseId, 0);
			}
			break;
		case PENDING_SETTLED:
		case PENDING_RELEASED:
			leases_unsettle(&item->u.lease, true);
			break;
		case PENDING_ROOM:
			queue_state_unreserve(item->u.overflow.queue, item->u.overflow.n);
			break;
		case PENDING_OVERFLOWED:
			group_overflow_ends(item->u.overflow.queue, item->u.overflow.group,
								item->u.overflow.n, item->u.overflow.id, false);
			break;
		case PENDING_FED:
			group_overflow_not_fed(item->u.overflow.queue, item->u.overflow.group,
								   item->u.overflow.lost);
			refill_ended(item->u.overflow.queue, false);
			break;
		case PENDING_WRITTEN:
			if (!item->of_overflow)
				groups_written(item->u.overflow.queue, item->u.overflow.group,
							   -item->u.overflow.n);
			break;
		case PENDING_RECOUNT:
			queue_state_recount(item->u.overflow.queue);
			break;
		case PENDING_HELD:
			look_behind(item);
			break;
		case PENDING_LOOKED:
			look_at_held(item);
			break;
		case PENDING_GROUP_SET:
			groups_settle_limit(item->u.group_set.queue, item->u.group_set.limit, NULL);
			break;
		case PENDING_DEFAULTS_SET:
			pg_atomic_fetch_sub_u32(&item->u.group_set.queue->limits.entries, 1);
			break;
		case PENDING_OFFER_AT_COMMIT:
		case PENDING_LOWER_AT_COMMIT:
		case PENDING_REMOVED:
		case PENDING_READY_REMOVED:
		case PENDING_OVERFLOW_REMOVED:
		case PENDING_NOT_COUNTED:
		case PENDING_DUE_ADDED:
		case PENDING_DUE_DONE:
		case PENDING_DUE_READ:
		case PENDING_DUE_HELD:
		case PENDING_NOTHING:
		case PENDING_CANCELLED:
		case PENDING_PURGED:
		case PENDING_READ_AGAIN:
		case PENDING_LOOK:
		case PENDING_SESSION_CLOSED:
		case PENDING_SETTINGS:
		case PENDING_PROBE:
		case PENDING_MAINTAINED:
		case PENDING_RELEASE_QUEUE:
			break;
	}
}

/*
 * Refuse what nobody could carry out when a prepared transaction ends.
 */
void
pending_action_check_prepare(const PendingAction *item)
{
	if (item->kind == PENDING_CLAIMED || item->kind == PENDING_SETTLED ||
		item->kind == PENDING_RELEASED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has claimed or settled tasks"),
				 errhint("Claim and settle tasks in a transaction of their own, and prepare one that enqueues only.")));
	if (item->kind == PENDING_MAINTAINED)
	{
		/* Unless it was dropped since. */
		const char *table = get_rel_name(item->u.release.relation);

		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has maintained a queue"),
				 table ? errdetail("Nobody else could maintain that of table \"%s\" until the prepared transaction has ended.",
								   table) : 0,
				 errhint("Call fairq.maintain() in a transaction of its own; so do with claims, which maintain a queue where there is no background worker.")));
	}
	if (item->kind == PENDING_RELEASE_QUEUE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has dropped a queue"),
				 errhint("Drop queues in a transaction that is not prepared.")));
}

/*
 * Nobody will be told when a prepared transaction commits that changes what groups
 * may have: but everybody is when settings have changed, and looks at them then.
 */
void
pending_action_before_prepare(const PendingAction *item)
{
	if (item->kind != PENDING_GROUP_SET)
		return;
	item->u.group_set.queue->limits.prepared = true;
	CacheInvalidateRelcacheByRelid(item->u.group_set.queue->relation);
}

/*
 * The transaction is prepared.  Nobody tells us when it ends and how, so its
 * rows are in doubt; claims look after the doubts of a lane.  Counted is what
 * will have happened if it commits, as most do.
 */
void
pending_action_prepare(PendingAction *item, TransactionId xid)
{
	LaneEntry	place;

	switch ((PendingKind) item->kind)
	{
		case PENDING_ENQUEUED:
		case PENDING_OFFER_AT_COMMIT:
		case PENDING_OFFER_AT_ABORT:
		case PENDING_LOWER_AT_COMMIT:
		case PENDING_LOWER_AT_ABORT:
			place_of(item, &place);
			lane_doubts_add(item->lane, xid, &place, true);
			break;
		case PENDING_DUE_ADDED:
		case PENDING_CANCELLED:
		case PENDING_PURGED:
		case PENDING_REMOVED:
		case PENDING_READY_REMOVED:
		case PENDING_OVERFLOW_REMOVED:
		case PENDING_WRITTEN:
		case PENDING_OVERFLOWED:
		case PENDING_READ_AGAIN:
		case PENDING_SESSION_CLOSED:
		case PENDING_SETTINGS:
		case PENDING_PROBE:
			pending_action_commit(item);
			break;
		case PENDING_NOT_COUNTED:
			/* A count that is made before it has ended does not see its rows. */
			queue_state_recount(item->u.overflow.queue);
			break;
		case PENDING_HELD:
		case PENDING_LOOK:
		case PENDING_LOOKED:
			/* Passes look again and again while it is in doubt. */
			look_at_held(item);
			break;
		case PENDING_GROUP_SET:	/* pending_action_before_prepare */
		case PENDING_DEFAULTS_SET:
		case PENDING_FED:
		case PENDING_ROOM:
			pending_action_abort(item);
			break;
		case PENDING_TAGGED:
		case PENDING_RECOUNT:
		case PENDING_DUE_DONE:
		case PENDING_DUE_READ:
		case PENDING_DUE_HELD:
		case PENDING_NOTHING:
		case PENDING_CLAIMED:
		case PENDING_SETTLED:
		case PENDING_RELEASED:
		case PENDING_MAINTAINED:
		case PENDING_RELEASE_QUEUE:
			break;
	}
}

/*
 * Invalidations are sent after the callback at commit, and locks released after
 * that: now.  A worker that were woken before might still go by the old settings.
 */
void
pending_settings_seen(void)
{
	if (!wake_when_seen)
		return;
	wake_when_seen = false;
	wakeup_at(MyDatabaseId, 0);
}
