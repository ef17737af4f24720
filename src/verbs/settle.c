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
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "shmem/sessions.h"
#include "shmem/stats.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/durable_table.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "verbs/claim.h"
#include "verbs/ended_tasks.h"
#include "verbs/settle.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/* Has this backend seen that the leases of all queues are known? */
static bool all_known = false;

static const AclMode verb_privileges[] = {
	[SETTLE_ACK] = ACL_DELETE,
	[SETTLE_NACK] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_RELEASE] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_EXTEND] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_PROGRESS] = ACL_SELECT | ACL_UPDATE,
};

void
settle_begin(Settlement *settlement, SettleVerb verb)
{
	memset(settlement, 0, sizeof(Settlement));
	settlement->verb = verb;
	settlement->lease = -1;
}

static void
close_queue(Settlement *settlement)
{
	if (settlement->rel == NULL)
		return;
	row_reader_end(&settlement->row);
	if (settlement->acked > 0)
	{
		stats_tally(settlement->info->state, QUEUE_ACKED, settlement->acked);
		stats_tally(settlement->info->state, QUEUE_ADDRESSED, -settlement->addressed);
		settlement->acked = 0;
		settlement->addressed = 0;
	}
	ended_tasks_write(&settlement->ended, settlement->rel, settlement->info);
	relation_close(settlement->rel, NoLock);
	settlement->rel = NULL;
	settlement->back.placing = false;
}

void
settle_end(Settlement *settlement)
{
	close_queue(settlement);
}

/*
 * Open the queue of a lease, if it is not the one that is open.  Returns false
 * if it is not one of this database.
 */
static bool
open_queue(Settlement *settlement, const LeaseInfo *lease)
{
	QueueState *state = queue_state_by_number(lease->queue);

	if (settlement->rel != NULL && settlement->info->state == state)
		return true;
	close_queue(settlement);
	if (state->database != MyDatabaseId)
		return false;
	settlement->info = queue_open_relation(state->relation, RowExclusiveLock,
										   verb_privileges[settlement->verb],
										   &settlement->rel);
	if (settlement->info == NULL)
		return false;
	recovery_try_tags(settlement->rel, settlement->info);
	row_reader_begin(&settlement->row, settlement->rel, settlement->info);
	settlement->row.brief = (settlement->verb == SETTLE_ACK);
	return true;
}

/*
 * The task that row has read has expired since it was claimed: it ends instead
 * of coming back.  Returns false if the row has moved.
 */
static bool
end_expired(Settlement *settlement, const LeaseInfo *lease)
{
	RowReader  *row = &settlement->row;

	if (!row_writer_delete(row->rel, &row->tuple.t_self, true))
		return false;
	expire_settled(row, &settlement->ended, lease->started);
	return true;
}

/*
 * The task whose row was read has had an attempt that failed: it is ready
 * again after a wait, or dead if that was the last one.  If it has expired it
 * ends.  Returns false if the row has moved.
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
	if (settlement->final || (max_attempts > 0 && attempts >= max_attempts))
		return put_back_dead(row, true);
	if (row_reader_has_expired(row))
		return end_expired(settlement, lease);
	return put_back_again(&settlement->back, row,
						  delay < 0 ? put_back_backoff(row->info, attempts) : delay, true);
}

static bool
move_deadline(Settlement *settlement, const LeaseInfo *lease, TimestampTz deadline)
{
	LeaseInfo	moved;

	if (!leases_extend(&lease->ref, deadline, &moved))
		return false;
	durable_leases_extend(settlement->rel, settlement->info, &moved);
	return leases_until(&moved, &settlement->until);
}

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
	deadline = GetCurrentTimestamp() + usecs;
	if (!move_deadline(settlement, lease, deadline))
		return false;
	worker_slots_wake_at(MyDatabaseId, deadline);
	return true;
}

/*
 * Headers, an object, with the member "progress".
 */
static Datum
with_progress(Datum headers, Jsonb *progress)
{
	JsonbParseState *state = NULL;
	JsonbValue	value;
	JsonbValue *object;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	value.type = jbvString;
	value.val.string.val = "progress";
	value.val.string.len = strlen(value.val.string.val);
	pushJsonbValue(&state, WJB_KEY, &value);
	JsonbToJsonbValue(progress, &value);
	pushJsonbValue(&state, WJB_VALUE, &value);
	object = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return DirectFunctionCall2(jsonb_concat, headers,
							   JsonbPGetDatum(JsonbValueToJsonb(object)));
}

/*
 * Write into a task's headers how far it is.  Headers that are no object are
 * left alone.
 *
 * The row moves, and claims may have passed it where it was: so it is offered
 * where it is, as one that was written with SQL.
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
		bool		addressed = !row_is_null(row, COLUMN_ADDRESS);
		FairqAddress address = {0};
		Lane	   *lane = NULL;

		CHECK_FOR_INTERRUPTS();
		if (!row_reader_is_placed(row) || !JB_ROOT_IS_OBJECT(DatumGetJsonbP(headers)))
			return false;
		if (addressed)
		{
			address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
			lane = placement_lane(settlement->info, &address);
			pending_offer_at_abort(lane, &address, &row->tuple.t_self);
		}
		row_value(row, COLUMN_HEADERS) = with_progress(headers, settlement->progress);
		row_is_null(row, COLUMN_HEADERS) = false;
		done = row_writer_update(row->rel, row->info, &row->tuple.t_self,
								 row->values, row->nulls, true);
		if (done && addressed)
			pending_offer_at_commit(lane, &address, &row->tuple.t_self);
	}
	return done;
}

/*
 * Give a task back to its place, or end it if it has expired.  The lease is
 * settling.
 */
static bool
release_task(Settlement *settlement, const LeaseInfo *lease, int settled)
{
	RowReader  *row = &settlement->row;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (!row_reader_task_wait(row, lease->task, &lease->tid))
			return false;
		if (!row_reader_is_placed(row) || !row_reader_has_expired(row))
			break;
		if (end_expired(settlement, lease))
		{
			stats_tally(settlement->info->state, QUEUE_RELEASED, 1);
			return true;
		}
	}
	if (!row_reader_is_placed(row))
		return false;			/* moved with SQL */
	put_back_at_place(row, lease->task, settled);
	return true;
}

/*
 * A result is given with an acknowledgement: it is kept with the archive.
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

/* A task with a name is done, and has run for so long. */
static void
count_done_name(RowReader *row, int64 run)
{
	Datum		name = row_value(row, COLUMN_NAME);

	stats_tally_name(row->info->state, name, NAME_DONE);
	stats_tally_name_value(row->info->state, name, STATS_RUN, run);
}

/*
 * Do with the task of a lease what the verb says.  The lease is settling since
 * just now, and there is room for what is owed for it.
 */
static bool
settle_task(Settlement *settlement, const LeaseInfo *lease)
{
	RowReader  *row = &settlement->row;
	QueueState *state = settlement->info->state;
	int			settled = pending_settled(lease);
	bool		done = false;

	durable_leases_delete(settlement->rel, settlement->info, lease);
	if (settlement->verb == SETTLE_RELEASE && settlement->delay == 0)
		return release_task(settlement, lease, settled);

	if (settlement->result != NULL)
		take_result(settlement);

	/* Again if the row was changed, by SQL, between the look and the write. */
	while (!done && row_reader_task_wait(row, lease->task, &lease->tid))
	{
		CHECK_FOR_INTERRUPTS();
		if (settlement->verb == SETTLE_RELEASE && !row_reader_is_placed(row))
			return false;		/* moved with SQL, as in release_task */
		if (settlement->verb == SETTLE_ACK)
			done = row_writer_delete(settlement->rel, &row->tuple.t_self, true);
		else if (settlement->verb == SETTLE_RELEASE && row_reader_has_expired(row))
			done = end_expired(settlement, lease);
		else if (settlement->verb == SETTLE_RELEASE)
			done = put_back_later(row, settlement->delay, true);
		else
			done = fail_task(settlement, lease);
	}
	if (!done)
		return false;
	if (settlement->verb == SETTLE_ACK)
	{
		if (settlement->now == 0)
			settlement->now = GetCurrentTimestamp();
		if (unlikely(!row_is_null(row, COLUMN_NAME)))
			count_done_name(row, settlement->now - lease->started);
		ended_tasks_add(&settlement->ended, row, ARCHIVE_ACKED, lease->started);
		settlement->acked++;
		if (row_reader_depth(row) == QUEUE_ADDRESSED)
			settlement->addressed++;
		else
			stats_tally(state, row_reader_depth(row), -1);
		stats_tally_value(state, STATS_RUN, settlement->now - lease->started);
		if (unlikely(leases_near_end(lease, settlement->info->lease, settlement->now)))
			stats_tally(state, QUEUE_NEAR_END, 1);
	}
	else if (settlement->verb == SETTLE_RELEASE)
	{
		stats_tally(state, QUEUE_RELEASED, 1);
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
 * Settle a lease that was just looked at.
 */
static bool
settle(Settlement *settlement, LeaseInfo *lease)
{
	if ((lease->session != NO_SESSION && sessions_alive_until(lease->session) == 0) ||
		!open_queue(settlement, lease))
		return false;
	if (settlement->verb == SETTLE_EXTEND)
		return extend_lease(settlement, lease);

	pending_reserve(8);
	if (settlement->verb == SETTLE_PROGRESS)
		return note_progress(settlement, lease);
	return leases_settle(&lease->ref, lease) && settle_task(settlement, lease);
}

/*
 * Settle one lease.
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
 * to settle, and is.
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
