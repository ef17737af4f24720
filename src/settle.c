/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  The verbs that end a lease or a task: ack, nack, extend, release; cancel,
 *	  purge, revive.
 *
 * Settling a lease first marks it in the lease table: from there on nobody else
 * can settle it, and it does not expire (invariant I3).  Then the row is deleted
 * or changed, by TID.  The lease itself ends when the transaction commits; when
 * it rolls back the lease goes on as if nothing had been.  A receipt whose lease
 * is over, is being settled, or was never ours answers false.
 *
 * extend is the exception: it moves the deadline at once, for it has to hold
 * while a long transaction is still running.
 *
 * Cancelling, purging and reviving go by row.  They may meet a task that is
 * leased: the row is deleted first, after which no lease can be granted on it
 * (a claim looks at the row under the page's lock), and then its lease is
 * settled, if it has one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "claim.h"
#include "handover.h"
#include "settle.h"

static const AclMode verb_privileges[] = {
	[SETTLE_ACK] = ACL_DELETE,
	[SETTLE_NACK] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_RELEASE] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_EXTEND] = ACL_SELECT | ACL_UPDATE,
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
	relation_close(settlement->rel, NoLock);
	settlement->rel = NULL;
	settlement->placing = false;
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
	settlement->info = queue_catalog_open_relation(state->relation, RowExclusiveLock,
												   verb_privileges[settlement->verb],
												   &settlement->rel);
	if (settlement->info == NULL)
		return false;
	row_reader_begin(&settlement->row, settlement->rel, settlement->info);
	return true;
}

/*
 * Read the row of a task.  If another transaction has it in hand, its end is
 * waited for.  Returns false if the task is gone.
 */
static bool
read_task(RowReader *row, int64 id, const ItemPointerData *hint)
{
	for (;;)
	{
		switch (row_reader_task(row, id, hint))
		{
			case ROW_LIVE:
				return DatumGetInt64(row_value(row, COLUMN_ID)) == id;
			case ROW_GONE:
				return false;
			case ROW_IN_PROGRESS:
			case ROW_IN_DOUBT:
				/* Our own new row: it is not there for anybody yet. */
				if (!TransactionIdIsValid(row->in_progress))
					return false;
				XactLockTableWait(row->in_progress, row->rel,
								  &row->tuple.t_self, XLTW_None);
				break;
		}
	}
}

static void
count_dead(QueueInfo *info)
{
	handover_count(info->state, QUEUE_DIED, 1);
	handover_count(info->state, QUEUE_ADDRESSED, -1);
	handover_count(info->state, QUEUE_DEAD, 1);
}

/*
 * Give the task that row has read a fresh place and write it.
 */
static bool
replace_task(RowReader *row, Placement *placement)
{
	text	   *key = DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY));
	ItemPointerData tid = row->tuple.t_self;
	Place		place;
	int			placed;
	int			got;
	int64		turn = queue_relation_new_ids(row->info, 1, &got);

	placement_assign(placement, turn, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key),
					 DatumGetInt64(row_value(row, COLUMN_PRIORITY)),
					 GetCurrentTimestamp(),
					 DatumGetFloat4(row_value(row, COLUMN_COST)), &place);
	placed = handover_placed(place.lane, &place.address,
							 place.tagged ? &place.tag : NULL);
	row_value(row, COLUMN_ADDRESS) = FairqAddressPGetDatum(&place.address);
	row_is_null(row, COLUMN_ADDRESS) = false;
	row_value(row, COLUMN_STATE) = CharGetDatum(TASK_READY);
	if (!queue_relation_update(row->rel, row->info, &tid, row->values, row->nulls))
		return false;
	handover_written(placed, &tid);
	return true;
}

/* The task's attempt failed: back with it, or to the dead. */
static bool
put_back(Settlement *settlement, const LeaseInfo *lease)
{
	RowReader  *row = &settlement->row;
	int			max_attempts = claim_max_attempts_of(row);
	ItemPointerData tid = row->tuple.t_self;

	row_value(row, COLUMN_ATTEMPTS) = Int32GetDatum(lease->attempt);
	if (settlement->error != NULL)
	{
		row_value(row, COLUMN_LAST_ERROR) = PointerGetDatum(settlement->error);
		row_is_null(row, COLUMN_LAST_ERROR) = false;
	}
	if (max_attempts == 0 || lease->attempt < max_attempts)
	{
		if (!settlement->placing)
			placement_begin(&settlement->placement, settlement->rel, settlement->info);
		settlement->placing = true;
		return replace_task(row, &settlement->placement);
	}

	row_is_null(row, COLUMN_ADDRESS) = true;
	row_value(row, COLUMN_STATE) = CharGetDatum(TASK_DEAD);
	if (!queue_relation_update(row->rel, row->info, &tid, row->values, row->nulls))
		return false;
	count_dead(settlement->info);
	return true;
}

/*
 * The attempts that expired before this lease took the task over are known to
 * the lease only.  Before it is given up without one of its own, write them
 * down.
 */
static bool
keep_attempts(RowReader *row, const LeaseInfo *lease, ItemPointer tid)
{
	if (DatumGetInt32(row_value(row, COLUMN_ATTEMPTS)) == lease->attempt - 1)
		return true;
	row_value(row, COLUMN_ATTEMPTS) = Int32GetDatum(lease->attempt - 1);
	return queue_relation_update(row->rel, row->info, tid, row->values, row->nulls);
}

static bool
extend_lease(Settlement *settlement, const LeaseInfo *lease)
{
	int64		usecs = settlement->lease;

	if (usecs < 0)
	{
		if (!read_task(&settlement->row, lease->task, &lease->tid))
			return false;
		usecs = claim_lease_of(&settlement->row);
	}
	settlement->deadline = GetCurrentTimestamp() + usecs;
	return leases_extend(&lease->ref, settlement->deadline);
}

/*
 * Settle one lease.  Returns whether it was the caller's to settle, and is.
 */
bool
settle_lease(Settlement *settlement, const pg_uuid_t *receipt)
{
	RowReader  *row = &settlement->row;
	QueueState *state;
	LeaseRef	ref;
	LeaseInfo	lease;
	bool		done = false;

	if (!leases_from_receipt(receipt, &ref) || !leases_look(&ref, &lease) ||
		!open_queue(settlement, &lease))
		return false;
	state = settlement->info->state;
	if (settlement->verb == SETTLE_EXTEND)
		return extend_lease(settlement, &lease);

	handover_reserve(8);
	if (!leases_settle(&ref, &lease))
		return false;
	handover_settled(&lease);
	if (!read_task(row, lease.task, &lease.tid))
		return false;

	switch (settlement->verb)
	{
		case SETTLE_ACK:
			done = queue_relation_delete(settlement->rel, &row->tuple.t_self);
			if (done)
			{
				handover_count(state, QUEUE_ACKED, 1);
				handover_count(state, QUEUE_ADDRESSED, -1);
			}
			break;

		case SETTLE_NACK:
			done = put_back(settlement, &lease);
			if (done)
				handover_count(state, QUEUE_NACKED, 1);
			break;

		case SETTLE_RELEASE:
			if (!row_is_null(row, COLUMN_ADDRESS))
			{
				FairqAddress address;
				ItemPointerData tid = row->tuple.t_self;

				address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
				done = keep_attempts(row, &lease, &tid);
				if (done)
				{
					handover_offer_at_commit(placement_lane(settlement->info, &address),
											 &address, &tid);
					handover_count(state, QUEUE_RELEASED, 1);
				}
			}
			break;

		case SETTLE_EXTEND:
			break;
	}

	/*
	 * Somebody changed the row with SQL of his own while we settled.  What he
	 * offered may have been passed over, for it was leased: look again.
	 */
	if (!done && !row_is_null(row, COLUMN_ADDRESS))
	{
		FairqAddress address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));

		handover_lower_at_commit(placement_lane(settlement->info, &address), &address);
	}
	return done;
}

/*
 * The row of a task was deleted: end its lease, if it has one.
 */
static void
settle_deleted(QueueInfo *info, int64 id)
{
	LeaseInfo	lease;

	handover_reserve(4);
	if (leases_find(queue_state_number(info->state), id, &lease) &&
		leases_settle(&lease.ref, &lease))
		handover_settled(&lease);
}

/*
 * Remove a task in whatever state.  Returns false if there is none.
 */
bool
settle_cancel(Relation rel, QueueInfo *info, int64 id)
{
	RowReader	row;
	ItemPointerData tid;
	bool		done = false;

	row_reader_begin(&row, rel, info);
	while (read_task(&row, id, NULL))
	{
		FairqAddress address;
		bool		addressed = !row_is_null(&row, COLUMN_ADDRESS);

		if (addressed)
			address = *DatumGetFairqAddressP(row_value(&row, COLUMN_ADDRESS));
		tid = row.tuple.t_self;
		if (addressed)
			handover_offer_at_abort(placement_lane(info, &address), &address, &tid);
		if (!queue_relation_delete(rel, &tid))
		{
			CHECK_FOR_INTERRUPTS();
			continue;			/* moved meanwhile: look again */
		}
		settle_deleted(info, id);
		handover_count(info->state, QUEUE_CANCELLED, 1);
		handover_count(info->state, addressed ? QUEUE_ADDRESSED : QUEUE_DEAD, -1);
		done = true;
		break;
	}
	row_reader_end(&row);
	return done;
}

/*
 * Remove every task that is not leased, of one group or (NULL) of all.
 * Returns how many.
 */
int64
settle_purge(Relation rel, QueueInfo *info, const text *group)
{
	int			queue = queue_state_number(info->state);
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	RowReader	row;
	HeapTuple	tuple;
	int64		purged = 0;

	row_reader_begin(&row, rel, info);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		ItemPointerData tid = tuple->t_self;
		FairqAddress address;
		LeaseInfo	lease;
		bool		addressed;
		bool		leased;
		int64		id;

		CHECK_FOR_INTERRUPTS();
		if (row_reader_lock(&row, &tid) != ROW_LIVE)
			continue;
		id = DatumGetInt64(row_value(&row, COLUMN_ID));
		leased = leases_find(queue, id, &lease);
		row_reader_unlock(&row);
		if (leased)
			continue;
		if (group != NULL)
		{
			text	   *key = DatumGetTextPP(row_value(&row, COLUMN_GROUP_KEY));

			if (VARSIZE_ANY_EXHDR(key) != VARSIZE_ANY_EXHDR(group) ||
				memcmp(VARDATA_ANY(key), VARDATA_ANY(group),
					   VARSIZE_ANY_EXHDR(group)) != 0)
				continue;
		}

		tid = row.tuple.t_self;
		addressed = !row_is_null(&row, COLUMN_ADDRESS);
		if (addressed)
		{
			address = *DatumGetFairqAddressP(row_value(&row, COLUMN_ADDRESS));
			handover_lower_at_abort(placement_lane(info, &address), &address);
		}
		if (!queue_relation_delete(rel, &tid))
			continue;
		settle_deleted(info, id);
		handover_count(info->state, addressed ? QUEUE_ADDRESSED : QUEUE_DEAD, -1);
		purged++;
	}
	row_reader_end(&row);
	table_endscan(scan);
	return purged;
}

/*
 * Make dead tasks ready again, with all their attempts: one, or all.  Returns
 * how many.
 */
int64
settle_revive(Relation rel, QueueInfo *info, bool all, int64 id)
{
	Placement	placement;
	RowReader	row;
	int64		revived = 0;
	TableScanDesc scan = NULL;
	ItemPointerData tid;

	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	if (all)
		scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (all)
		{
			HeapTuple	tuple = heap_getnext(scan, ForwardScanDirection);

			if (tuple == NULL)
				break;
			tid = tuple->t_self;
			if (row_reader_read(&row, &tid) != ROW_LIVE)
				continue;
		}
		else if (!read_task(&row, id, NULL))
			break;

		if (DatumGetChar(row_value(&row, COLUMN_STATE)) == TASK_DEAD)
		{
			row_value(&row, COLUMN_ATTEMPTS) = Int32GetDatum(0);
			if (replace_task(&row, &placement))
			{
				handover_count(info->state, QUEUE_ADDRESSED, 1);
				handover_count(info->state, QUEUE_DEAD, -1);
				revived++;
			}
		}
		if (!all)
			break;
	}
	if (scan != NULL)
		table_endscan(scan);
	row_reader_end(&row);
	return revived;
}
