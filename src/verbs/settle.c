/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  The verbs that end a lease: ack, nack, release; and those of its holder:
 *	  extend, progress.
 *
 * Settling a lease first marks it in the lease table: from there on no other
 * transaction can settle it, and it does not expire (invariant I3).  Then the
 * row is deleted or changed, by TID.  The lease itself ends when the
 * transaction commits; when it rolls back the lease goes on as if nothing had
 * been.  A receipt whose lease is over, is being settled, or was never the
 * caller's answers false.
 *
 * extend is an exception: it moves the deadline at once, for it has to hold
 * while a long transaction is still running.  So is progress, which writes the
 * row and leaves the lease alone.
 *
 * Locking: what settles has the queue's relation locked in RowExclusiveLock,
 * until the end of the transaction.  The lock of a lease's partition is taken
 * inside the functions of leases.c, so none of ours is held while a row is
 * waited for.
 *
 * Races: 4 (two acks of one lease) and 5 (a lease runs out while its ack is
 * under way) are guarded by the mark in the lease table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "common/wall_clock.h"
#include "shmem/sessions.h"
#include "shmem/stats.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "verbs/claim.h"
#include "verbs/ended_tasks.h"
#include "verbs/settle.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/*
 * Has this backend seen that the leases of all queues are known?  A receipt
 * that leads nowhere is void then, without a look at the table of durable
 * leases.
 */
static bool all_known = false;

/* What a verb needs of the queue's table, all of it.  By SettleVerb. */
static const AclMode verb_privileges[] = {
	[SETTLE_ACK] = ACL_DELETE,
	[SETTLE_NACK] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_RELEASE] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_EXTEND] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_PROGRESS] = ACL_SELECT | ACL_UPDATE,
};

/*
 * Begin a run of settlements with one verb.  The caller sets the arguments of
 * the verb next, and calls settle_end at last.  If the transaction fails it
 * need not: what is open goes with that.  Never fails.
 */
void
settle_begin(Settlement *settlement, SettleVerb verb)
{
	Assert(verb < lengthof(verb_privileges));
	memset(settlement, 0, sizeof(Settlement));
	settlement->verb = verb;
	settlement->lease = -1;
}

/*
 * End a run: the queue that is open, if one is, is closed.  On return all is
 * written that the verb says, and commits or rolls back with the transaction.
 * The queue's lock stays until then.  May fail, for it writes rows.
 */
void
settle_end(Settlement *settlement)
{
	if (settlement->rel == NULL)
		return;
	row_reader_end(&settlement->row);
	ended_tasks_write(&settlement->ended, settlement->rel, settlement->info);
	relation_close(settlement->rel, NoLock);
	settlement->rel = NULL;
	settlement->placement.info = NULL;
}

/*
 * Open the queue of a lease, if it is not the one that is open.  Returns false
 * if it is not one of this database, or is none any more; then no queue is
 * open.  An error if the caller may not do to it what the verb does.  Waits
 * for the lock on the queue's table.
 *
 * Tags are known before the first lease of the queue is settled, so that what
 * that changes is counted once.
 */
static bool
open_queue(Settlement *settlement, const LeaseInfo *lease)
{
	QueueState *state = queue_state_by_number(lease->queue);

	if (settlement->rel != NULL && settlement->info->state == state)
		return true;
	settle_end(settlement);
	if (state->database != MyDatabaseId)
		return false;
	settlement->info = queue_open_relation(state->relation, RowExclusiveLock,
										   verb_privileges[settlement->verb],
										   &settlement->rel);
	if (settlement->info == NULL)
		return false;
	recovery_try_tags(settlement->rel, settlement->info);
	row_reader_begin(&settlement->row, settlement->rel, settlement->info);
	/* A row that is deleted is not written anew: few columns are read. */
	settlement->row.brief = (settlement->verb == SETTLE_ACK);
	return true;
}

/*
 * The task that row has read has expired since it was claimed: it ends instead
 * of coming back.  Returns false if the row has moved.
 *
 * The lease is settling.  On return with true the row is deleted, and its end
 * is noted for what waits for it.
 */
static bool
end_expired(Settlement *settlement, const LeaseInfo *lease)
{
	RowReader  *row = &settlement->row;

	if (!row_writer_delete(row, true))
		return false;
	ended_tasks_add(&settlement->ended, row, ARCHIVE_EXPIRED, lease->started);
	return true;
}

/*
 * The task whose row was read has had an attempt that failed: it is ready
 * again after a wait, or dead if that was the last one.  If it has expired it
 * ends.  Returns false if the row has moved.
 *
 * The lease is settling.  The count of attempts does not overflow: it stays at
 * the highest.
 */
static bool
fail_task(Settlement *settlement, const LeaseInfo *lease)
{
	RowReader  *row = &settlement->row;
	int64		delay = settlement->delay;
	int			max_attempts = claim_max_attempts_of(row);
	int			attempts = Min(DatumGetInt32(row_value(row, COLUMN_ATTEMPTS)),
							   PG_INT32_MAX - 1) + 1;

	row_value(row, COLUMN_ATTEMPTS) = Int32GetDatum(attempts);
	task_history_add(row, lease, false, settlement->error);
	if (settlement->error != NULL)
	{
		row_value(row, COLUMN_LAST_ERROR) = PointerGetDatum(settlement->error);
		row_is_null(row, COLUMN_LAST_ERROR) = false;
	}
	/* Asked first, for a task that is dead does not expire. */
	if (settlement->final || (max_attempts > 0 && attempts >= max_attempts))
		return put_back_dead(row, true);
	if (row_reader_has_expired(row))
		return end_expired(settlement, lease);
	return put_back_again(&settlement->placement, row,
						  delay < 0 ? put_back_backoff(row->info, attempts) : delay, true);
}

/*
 * Move the deadline of a lease, by the steady clock, and that in its row if it
 * is durable.  Sets settlement->until, by the wall clock.  Returns false if
 * the lease is over, or has no end to tell: its session is over.
 */
static bool
move_deadline(Settlement *settlement, const LeaseInfo *lease, TimestampTz deadline)
{
	LeaseInfo	moved;

	if (!leases_extend(&lease->ref, deadline, &moved))
		return false;
	durable_leases_extend(settlement->rel, settlement->info, &moved);
	return leases_until(&moved, &settlement->until);
}

/*
 * Extend a lease by what the caller asks for; below zero: by what a new lease
 * of the task would have.  In force at once, also if the transaction rolls
 * back.  The worker is told of the new deadline after it is in force.  Returns
 * false if the lease is over, or its task is gone.
 */
static bool
extend_lease(Settlement *settlement, const LeaseInfo *lease)
{
	int64		usecs = settlement->lease;
	TimestampTz deadline;

	if (usecs < 0 && lease->session != NO_SESSION)
		/* As long as its session, as it was claimed. */
		return move_deadline(settlement, lease, DT_NOEND);
	if (usecs < 0)
	{
		if (!row_reader_task_wait(&settlement->row, lease->task, &lease->tid))
			return false;
		usecs = claim_lease_of(&settlement->row);
	}
	/* From now on by the steady clock, however long the row was waited for. */
	(void) wall_clock_both(&deadline);
	if (!move_deadline(settlement, lease, deadline + usecs))
		return false;
	worker_slots_wake_at(MyDatabaseId, settlement->until);
	return true;
}

/*
 * Headers, an object, with the member "progress", which replaces one of
 * before.  Palloc'd.
 */
static Datum
with_progress(Datum headers, Jsonb *progress)
{
	Datum		key = CStringGetTextDatum("progress");
	ArrayType  *path = construct_array(&key, 1, TEXTOID, -1, false, TYPALIGN_INT);

	return DirectFunctionCall4(jsonb_set, headers, PointerGetDatum(path),
							   JsonbPGetDatum(progress), BoolGetDatum(true));
}

/*
 * Write into a task's headers how far it is.  Headers that are no object are
 * left alone.
 *
 * The row moves, and claims may have passed it where it was: so it is offered
 * where it is, as one that was written with SQL.
 *
 * The lease goes on, and its tid is a hint: so nothing of it is changed.
 * Returns false if the row is gone, or its headers take none.
 */
static bool
note_progress(Settlement *settlement, const LeaseInfo *lease)
{
	RowReader  *row = &settlement->row;
	bool		done = false;

	/* Again if the row was changed, by SQL, between the look and the write. */
	while (!done && row_reader_task_wait(row, lease->task, &lease->tid))
	{
		Datum		headers = row_is_null(row, COLUMN_HEADERS) ?
			DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")) :
			row_value(row, COLUMN_HEADERS);
		FairqAddress address;
		Lane	   *lane;

		CHECK_FOR_INTERRUPTS();
		if (!row_reader_is_placed(row) || !JB_ROOT_IS_OBJECT(DatumGetJsonbP(headers)))
			return false;
		lane = placement_lane_of(row, &address);
		if (lane != NULL)
			pending_offer_at_abort(lane, &address, &row->tuple.t_self);
		row_value(row, COLUMN_HEADERS) = with_progress(headers, settlement->progress);
		row_is_null(row, COLUMN_HEADERS) = false;
		done = row_writer_update(row, true);
		if (done && lane != NULL)
			pending_offer_at_commit(lane, &address, &row->tuple.t_self);
	}
	return done;
}

/*
 * A result is given with an acknowledgement: it is kept with the archive.  An
 * error if the queue keeps none, for else it would be lost in silence.
 */
static void
take_result(Settlement *settlement)
{
	QueueInfo  *info = settlement->info;

	if (info->keep_done == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("queue \"%s\" keeps no results", info->name),
				 errhint("Have it keep what is done, with keep_done of fairq.alter_queue(), or acknowledge without a result.")));
	settlement->ended.archive.result = settlement->result;
}

/* A task with a name is done, and has run for so many microseconds. */
static void
count_done_name(RowReader *row, int64 run)
{
	Datum		name = row_value(row, COLUMN_NAME);

	stats_tally_name(row->info->state, name, NAME_DONE);
	stats_tally_name_value(row->info->state, name, STATS_RUN, run);
}

/*
 * Do with the task of a lease what the verb says.  settled names what was
 * noted: from here on the lease is dropped at commit and unsettled at rollback.
 * Returns false if its row is gone, or was moved with SQL.  Waits for a
 * transaction that has the row, and looks at the row again then.  Counts are
 * told when the queue is closed.
 */
static bool
settle_row(Settlement *settlement, const LeaseInfo *lease, int settled)
{
	RowReader  *row = &settlement->row;
	QueueState *state = settlement->info->state;
	bool		done = false;

	/* Rows of leases go before leases do: durable_restore.c relies on that. */
	if (unlikely(lease->durable))
		durable_leases_delete(settlement->rel, settlement->info, lease);
	if (settlement->result != NULL)
		take_result(settlement);

	/* Again if the row was changed, by SQL, between the look and the write. */
	while (!done && row_reader_task_wait(row, lease->task, &lease->tid))
	{
		CHECK_FOR_INTERRUPTS();
		if (settlement->verb == SETTLE_RELEASE && !row_reader_is_placed(row))
			return false;		/* moved with SQL */
		if (settlement->verb == SETTLE_RELEASE && settlement->delay == 0 &&
			!row_reader_has_expired(row))
		{
			put_back_at_place(row, lease->task, settled);
			return true;
		}
		placement_leaves_lease(row, lease, settled);
		if (likely(settlement->verb == SETTLE_ACK))
			done = row_writer_delete(row, true);
		else if (settlement->verb == SETTLE_RELEASE && row_reader_has_expired(row))
			done = end_expired(settlement, lease);
		else if (settlement->verb == SETTLE_RELEASE)
			done = put_back_later(row, settlement->delay, true);
		else
			done = fail_task(settlement, lease);
		if (unlikely(!done))
			pending_settled_gone(settled, false);
	}
	if (!done)
		return false;

	/* Counts and figures: of what commits with this transaction. */
	if (settlement->verb == SETTLE_ACK)
	{
		if (settlement->now == 0)
			settlement->now = GetCurrentTimestamp();
		if (unlikely(!row_is_null(row, COLUMN_NAME)))
			count_done_name(row, settlement->now - lease->started);
		ended_tasks_add(&settlement->ended, row, ARCHIVE_ACKED, lease->started);
		stats_tally_value(state, STATS_RUN, settlement->now - lease->started);
		if (unlikely(leases_near_end(lease, settlement->info->lease, settlement->now)))
			stats_tally(state, QUEUE_NEAR_END, 1);
	}
	else if (settlement->verb == SETTLE_RELEASE)
	{
		stats_tally(state, QUEUE_RELEASED, 1);
		if (settlement->delay > 0)
			stats_tally(state, QUEUE_SNOOZED, 1);
	}
	else
	{
		stats_tally(state, QUEUE_NACKED, 1);
		put_back_count_name(row, NAME_FAILED);
	}
	return true;
}

/*
 * Settle a lease that is settling since just now.  There is room for what is
 * owed for it.  Returns whether the task was there to be changed.
 */
static bool
settle_task(Settlement *settlement, const LeaseInfo *lease)
{
	int			settled = pending_settled(lease);
	bool		done = settle_row(settlement, lease, settled);

	if (!done)
	{
		pending_settled_gone(settled, true);
		/* One that came when it was still leased may be held behind it. */
		pending_look(settlement->info->state);
	}
	return done;
}

/*
 * Settle a lease that was just looked at.  *lease is out of date by the time
 * that it is settled: leases_settle reads it anew.  A lease whose session is
 * over is not its holder's any more.
 */
static bool
settle(Settlement *settlement, LeaseInfo *lease)
{
	if ((lease->session != NO_SESSION && sessions_alive_until(lease->session) == 0) ||
		!open_queue(settlement, lease))
		return false;
	if (settlement->verb == SETTLE_EXTEND)
		return extend_lease(settlement, lease);

	/* Room first, for nothing may fail between the mark and its note. */
	pending_reserve(8);
	if (settlement->verb == SETTLE_PROGRESS)
		return note_progress(settlement, lease);
	return leases_settle(&lease->ref, lease) && settle_task(settlement, lease);
}

/*
 * Settle one lease by its name, as for all of a session (leases_of_session).
 * Returns whether it was settled.  May fail as settle_receipt.
 */
bool
settle_lease(Settlement *settlement, const LeaseRef *ref)
{
	LeaseInfo	lease;

	return leases_look(ref, &lease) && settle(settlement, &lease);
}

/*
 * Are the leases of all queues of the database known?  If not, *mine: nor
 * those of one whose leases the caller may settle.
 *
 * Without locks: a queue that comes meanwhile has no leases of before.
 */
static bool
look_all_known(bool *mine)
{
	List	   *queues = queue_catalog_list(NULL);
	ListCell   *lc;
	bool		known = true;

	foreach(lc, queues)
	{
		QueueState *state = queue_state_find(lfirst_oid(lc));

		if (state != NULL && state->recovery.leases == QUEUE_KNOWN)
			continue;
		known = false;
		*mine |= (pg_class_aclmask(lfirst_oid(lc), GetUserId(),
								   ACL_SELECT | ACL_UPDATE | ACL_DELETE, ACLMASK_ANY) != 0);
	}
	list_free(queues);
	return known;
}

/*
 * The lease that a receipt names that does not lead to it: one of before the
 * last crash.  For the others, which are void, this is cheap once all queues
 * have been opened.
 *
 * *ref is set if the result is true, and may be of a lease that is over by
 * then.  rights is what the verb needs of the queue's table.  May read all
 * rows of durable leases, and fail.
 */
static bool
find_restored(const pg_uuid_t *receipt, AclMode rights, LeaseRef *ref)
{
	Relation	rel;
	QueueInfo  *info;
	Oid			queue;
	bool		mine = false;

	if (leases_find_moved(receipt, ref))
		return true;
	if (all_known)
		return false;
	if (look_all_known(&mine))
		all_known = true;
	else if (!mine)
		return false;			/* and no stranger has us read all rows again
								 * and again */
	else
	{
		queue = durable_table_queue_of(receipt);
		if (!OidIsValid(queue))
			return false;
		/* To open the queue is to restore its leases. */
		info = queue_open_relation(queue, AccessShareLock, rights, &rel);
		if (info == NULL)
			return false;
		if (!leases_find_moved(receipt, ref))
			durable_leases_require(rel, info);
		relation_close(rel, NoLock);
	}
	/* It may have been restored since we looked, and where it was. */
	return leases_find_moved(receipt, ref) || leases_from_receipt(receipt, ref);
}

/*
 * Settle the lease that a receipt names.  Returns whether it was the caller's
 * to settle, and is.  False is no error: the lease is over, another
 * transaction settles it (race 4), or there never was one.
 *
 * An error if the caller lacks the privilege, or if what the verb writes
 * fails; then the lease goes on, with the rollback.  Nothing of ours is locked
 * on return.
 */
bool
settle_receipt(Settlement *settlement, const pg_uuid_t *receipt)
{
	LeaseRef	ref;
	LeaseInfo	lease;
	bool		usual = leases_from_receipt(receipt, &ref);

	/* Most are of the queue that is open, and need no look before. */
	if (usual && settlement->rel != NULL && settlement->verb < SETTLE_EXTEND)
	{
		pending_reserve(8);
		if (leases_settle_of(&ref, queue_state_number(settlement->info->state), &lease))
			return settle_task(settlement, &lease);
	}
	if (!usual || !leases_look(&ref, &lease))
	{
		if (!find_restored(receipt, verb_privileges[settlement->verb], &ref) ||
			!leases_look(&ref, &lease))
			return false;
	}
	return settle(settlement, &lease);
}
