/*-------------------------------------------------------------------------
 *
 * handover_items.c
 *	  What a transaction owes to others, carried out item by item.
 *
 * handover.c has the list, and says when and in which order.  But for what is done
 * before PREPARE nothing here may fail, or allocate memory: the transaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "group_overflow.h"
#include "handover_private.h"
#include "wakeup.h"

/* Settings were changed: the worker is woken when all can see them. */
static bool wake_when_seen = false;

/* A task, or several, is not going to be served: its group has its tag back. */
void
handover_item_untag(const HandoverItem *item)
{
	VirtualTime start = {item->address.block, item->address.fraction};

	groups_untag(item->address.slot, item->u.tag.group, start, item->u.tag.finish,
				 item->u.tag.ready);
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
 * It is to be claimed.  Not until other leases have ended, see the head of handover.c.
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
void
handover_item_end_lease(HandoverItem *item)
{
	if (item->kind == HANDOVER_SETTLED)
		(void) leases_drop(&item->u.lease, true, NULL);
	else if (item->kind == HANDOVER_RELEASED)
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
remove_task(const HandoverItem *item)
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
write_task(const HandoverItem *item)
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

void
handover_item_commit(const HandoverItem *item)
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
			handover_item_untag(item);
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
			remove_task(item);
			break;
		case HANDOVER_READY_REMOVED:
			groups_written(item->u.overflow.queue, item->u.overflow.group,
						   -item->u.overflow.n);
			break;
		case HANDOVER_OVERFLOW_REMOVED:
			group_overflow_removed(item->u.overflow.queue, item->u.overflow.group,
								   item->u.overflow.n);
			break;
		case HANDOVER_WRITTEN:
			write_task(item);
			break;
		case HANDOVER_NOT_COUNTED:
			/* If somebody counts them just now he may have come too early. */
			if (item->u.overflow.queue->recovery != QUEUE_UNKNOWN)
				queue_state_recount(item->u.overflow.queue);
			break;
		case HANDOVER_OVERFLOWED:
			group_overflow_ends(item->u.overflow.queue, item->u.overflow.group,
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
		case HANDOVER_TAGGED:
		case HANDOVER_RECOUNT:
		case HANDOVER_OFFER_AT_ABORT:
		case HANDOVER_LOWER_AT_ABORT:
		case HANDOVER_CLAIMED:
		case HANDOVER_SETTLED:
		case HANDOVER_MAINTAINED:
		case HANDOVER_ROOM:		/* later: handover_item_after_commit */
		case HANDOVER_FED:
		case HANDOVER_RELEASE_QUEUE:
		case HANDOVER_LOOKED:
		case HANDOVER_NOTHING:
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
handover_item_after_commit(const HandoverItem *item)
{
	if (item->kind == HANDOVER_ROOM)
		queue_state_unreserve(item->u.overflow.queue, item->u.overflow.n);
	else if (item->kind == HANDOVER_FED)
	{
		group_overflow_fed(item->u.overflow.queue, item->u.overflow.group,
						   item->of_overflow, item->u.overflow.n, item->u.overflow.id,
						   item->u.overflow.held, item->u.overflow.left);
		queue_state_fed(item->u.overflow.queue, true);
	}
	else if (item->kind == HANDOVER_RELEASE_QUEUE)
		queue_state_release(item->u.release.database, item->u.release.relation);
}

void
handover_item_abort(HandoverItem *item)
{
	switch ((HandoverKind) item->kind)
	{
		case HANDOVER_ENQUEUED:
		case HANDOVER_TAGGED:
			handover_item_untag(item);
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
					item->tid = lease.tid;
					offer(item);
				}
				else
					wakeup_at(MyDatabaseId, 0);
			}
			break;
		case HANDOVER_SETTLED:
		case HANDOVER_RELEASED:
			leases_unsettle(&item->u.lease, true);
			break;
		case HANDOVER_ROOM:
			queue_state_unreserve(item->u.overflow.queue, item->u.overflow.n);
			break;
		case HANDOVER_OVERFLOWED:
			group_overflow_ends(item->u.overflow.queue, item->u.overflow.group,
								item->u.overflow.n, item->u.overflow.id, false);
			break;
		case HANDOVER_FED:
			group_overflow_not_fed(item->u.overflow.queue, item->u.overflow.group,
								   item->u.overflow.lost);
			queue_state_fed(item->u.overflow.queue, false);
			break;
		case HANDOVER_WRITTEN:
			if (!item->of_overflow)
				groups_written(item->u.overflow.queue, item->u.overflow.group,
							   -item->u.overflow.n);
			break;
		case HANDOVER_RECOUNT:
			queue_state_recount(item->u.overflow.queue);
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
		case HANDOVER_READY_REMOVED:
		case HANDOVER_OVERFLOW_REMOVED:
		case HANDOVER_NOT_COUNTED:
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
		case HANDOVER_MAINTAINED:
		case HANDOVER_RELEASE_QUEUE:
			break;
	}
}

/*
 * Refuse what nobody could carry out when a prepared transaction ends.
 */
void
handover_item_check_prepare(const HandoverItem *item)
{
	if (item->kind == HANDOVER_CLAIMED || item->kind == HANDOVER_SETTLED ||
		item->kind == HANDOVER_RELEASED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has claimed or settled tasks"),
				 errhint("Claim and settle tasks in a transaction of their own, and prepare one that enqueues only.")));
	if (item->kind == HANDOVER_MAINTAINED)
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
	if (item->kind == HANDOVER_RELEASE_QUEUE)
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
handover_item_before_prepare(const HandoverItem *item)
{
	if (item->kind != HANDOVER_GROUP_SET)
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
handover_item_prepare(HandoverItem *item, TransactionId xid)
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
			lanes_doubt(item->lane, xid, &place, true);
			break;
		case HANDOVER_DUE_ADDED:
		case HANDOVER_CANCELLED:
		case HANDOVER_PURGED:
		case HANDOVER_REMOVED:
		case HANDOVER_READY_REMOVED:
		case HANDOVER_OVERFLOW_REMOVED:
		case HANDOVER_WRITTEN:
		case HANDOVER_OVERFLOWED:
		case HANDOVER_READ_AGAIN:
		case HANDOVER_SESSION_CLOSED:
		case HANDOVER_SETTINGS:
		case HANDOVER_PROBE:
			handover_item_commit(item);
			break;
		case HANDOVER_NOT_COUNTED:
			/* Whoever counts before it has ended does not see its rows. */
			queue_state_recount(item->u.overflow.queue);
			break;
		case HANDOVER_HELD:
		case HANDOVER_LOOK:
		case HANDOVER_LOOKED:
			/* Passes look again and again while it is in doubt. */
			look_at_held(item);
			break;
		case HANDOVER_GROUP_SET:	/* handover_item_before_prepare */
		case HANDOVER_DEFAULTS_SET:
		case HANDOVER_FED:
		case HANDOVER_ROOM:
			handover_item_abort(item);
			break;
		case HANDOVER_TAGGED:
		case HANDOVER_RECOUNT:
		case HANDOVER_DUE_DONE:
		case HANDOVER_DUE_READ:
		case HANDOVER_DUE_HELD:
		case HANDOVER_NOTHING:
		case HANDOVER_CLAIMED:
		case HANDOVER_SETTLED:
		case HANDOVER_RELEASED:
		case HANDOVER_MAINTAINED:
		case HANDOVER_RELEASE_QUEUE:
			break;
	}
}

/*
 * Invalidations are sent after the callback at commit, and locks released after
 * that: now.  A worker that were woken before might still go by the old settings.
 */
void
handover_items_seen(void)
{
	if (!wake_when_seen)
		return;
	wake_when_seen = false;
	wakeup_at(MyDatabaseId, 0);
}
