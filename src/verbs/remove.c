/*-------------------------------------------------------------------------
 *
 * remove.c
 *	  The verbs that go by row: cancel, purge, revive.
 *
 * They may meet a task that is leased: the row is deleted first, after which no
 * lease can be granted on it (a claim looks at the row under the page's lock), and
 * then its lease is settled, if it has one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "shmem/fed_tasks.h"
#include "shmem/groups.h"
#include "shmem/leases.h"
#include "shmem/stats.h"
#include "storage/archive.h"
#include "storage/durable_leases.h"
#include "storage/row_reader.h"
#include "storage/row_writer.h"
#include "verbs/placement.h"
#include "verbs/remove.h"
#include "verbs/settle.h"
#include "verbs/unique_keys.h"
#include "xact/pending.h"

/* Tasks of a group that are purged. */
typedef struct GroupCount
{
	uint32		group;			/* hash key */
	int			ready;
	int			overflow;
} GroupCount;

/*
 * The row of a task, which row has read, was deleted: end its lease.  Returns
 * whether it has one, and that is ours to end.
 */
static bool
settle_deleted(RowReader *row, ArchiveBatch *archive)
{
	QueueInfo  *info = row->info;
	TimestampTz claimed_at = DT_NOBEGIN;
	LeaseInfo	lease;
	bool		settled;

	pending_reserve(4);
	settled = leases_find(queue_state_number(info->state),
						  DatumGetInt64(row_value(row, COLUMN_ID)), &lease) &&
		leases_settle(&lease.ref, &lease);
	if (settled)
	{
		pending_settled(&lease);
		durable_leases_delete(row->rel, info, &lease);
		claimed_at = lease.started;
	}
	archive_add(archive, row,
				DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_DEAD ?
				ARCHIVE_DEAD : ARCHIVE_CANCELLED,
				DatumGetInt32(row_value(row, COLUMN_ATTEMPTS)), claimed_at);
	return settled;
}

/*
 * Count a task that was purged, in what of its group was.
 */
static void
count_purged(HTAB *counts, RowReader *row)
{
	bool		addressed = !row_is_null(row, COLUMN_ADDRESS);
	int64		id = DatumGetInt64(row_value(row, COLUMN_ID));
	int			queue = queue_state_number(row->info->state);
	uint32		number;
	LeaseInfo	lease;
	GroupCount *count;
	bool		found;

	if (row->info->policy != QUEUE_FAIR ||
		(!addressed && DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_OVERFLOW))
		return;
	if (leases_find(queue, id, &lease) || (!addressed && fed_tasks_has(queue, id)))
	{
		/* Somebody is settling it, and may yet release it; or it has a place. */
		placement_leaves(row);
		return;
	}
	number = placement_group(row);
	if (number == FAIRQ_NO_GROUP)
		return;
	count = hash_search(counts, &number, HASH_ENTER, &found);
	if (!found)
		count->ready = count->overflow = 0;
	if (addressed)
		count->ready++;
	else
		count->overflow++;
}

/*
 * Remove a task in whatever state.  Returns false if there is none.
 */
bool
remove_cancel(Relation rel, QueueInfo *info, int64 id)
{
	ArchiveBatch archive = {0};
	Placement	placement;
	RowReader	row;
	ItemPointerData tid;
	bool		done = false;

	/*
	 * After a start, groups are known from here on: were they read later in our
	 * transaction, which counts what we remove as if it were there, nobody would
	 * tell them that it is not.
	 */
	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	while (row_reader_task_wait(&row, id, NULL))
	{
		FairqAddress address;
		bool		addressed = !row_is_null(&row, COLUMN_ADDRESS);

		if (addressed)
			address = *DatumGetFairqAddressP(row_value(&row, COLUMN_ADDRESS));
		tid = row.tuple.t_self;
		if (addressed)
		{
			pending_offer_at_abort(placement_lane(info, &address), &address, &tid);
			placement_uncharge(&row, &address);
		}
		if (!row_writer_delete(rel, &tid, true))
		{
			CHECK_FOR_INTERRUPTS();
			continue;			/* moved meanwhile: look again */
		}
		if (!settle_deleted(&row, &archive))
			placement_leaves(&row);
		if (DatumGetChar(row_value(&row, COLUMN_STATE)) != TASK_HELD)
			unique_keys_gone(&row);
		stats_tally(info->state, QUEUE_CANCELLED, 1);
		stats_tally(info->state, row_reader_depth(&row), -1);
		done = true;
		break;
	}
	row_reader_end(&row);
	archive_write(&archive, rel, info);
	return done;
}

/*
 * Remove every task that is not leased, of one group or (NULL) of all.
 * Returns how many.
 */
int64
remove_purge(Relation rel, QueueInfo *info, const text *group)
{
	int			queue = queue_state_number(info->state);
	Snapshot	snapshot = row_reader_snapshot();
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	ArchiveBatch archive = {0};
	Placement	placement;
	RowReader	row;
	HeapTuple	tuple = NULL;
	int64		purged = 0;
	bool		look = false;
	bool		again = false;
	HASHCTL		ctl = {0};
	HTAB	   *counts;
	HASH_SEQ_STATUS status;
	GroupCount *count;

	ctl.keysize = sizeof(uint32);
	ctl.entrysize = sizeof(GroupCount);
	ctl.hcxt = CurrentMemoryContext;
	counts = hash_create("pgfairq purged tasks", 64, &ctl,
						 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	durable_leases_require(rel, info);
	placement_begin(&placement, rel, info);		/* as in remove_cancel */

	/* What is removed is not to be charged for. */
	if (info->policy == QUEUE_FAIR && group == NULL)
		pending_purged(info->state, NULL);
	for (int class = 0; info->policy == QUEUE_FAIR && group != NULL && class < FAIRQ_CLASSES; class++)
	{
		GroupTag	tag;

		if (groups_look(info->state, class, VARDATA_ANY(group),
						VARSIZE_ANY_EXHDR(group), &tag))
			pending_purged(info->state, &tag);
	}

	row_reader_begin(&row, rel, info);
	while (again || (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		ItemPointerData tid = tuple->t_self;
		FairqAddress address;
		LeaseInfo	lease;
		bool		addressed;
		bool		leased;
		bool		isnull;
		Datum		id = heap_getattr(tuple, info->columns[COLUMN_ID],
									  RelationGetDescr(rel), &isnull);

		CHECK_FOR_INTERRUPTS();
		again = false;

		/* Where it is now: it may have been promoted, retried, or replaced. */
		switch (row_reader_lock_task(&row, DatumGetInt64(id), &tid))
		{
			case ROW_LIVE:
				leased = leases_find(queue, DatumGetInt64(row_value(&row, COLUMN_ID)), &lease);
				row_reader_unlock(&row);
				break;
			case ROW_OWN:
				leased = leases_find(queue, DatumGetInt64(row_value(&row, COLUMN_ID)), &lease);
				break;
			default:
				continue;
		}
		if (leased)
			continue;
		if (group != NULL &&
			!row_reader_same_group(DatumGetTextPP(row_value(&row, COLUMN_GROUP_KEY)), group))
			continue;

		tid = row.tuple.t_self;
		addressed = !row_is_null(&row, COLUMN_ADDRESS);
		if (addressed)
		{
			address = *DatumGetFairqAddressP(row_value(&row, COLUMN_ADDRESS));
			pending_lower_at_abort(placement_lane(info, &address), &address);
		}
		again = !row_writer_delete(rel, &tid, true);
		if (again)
			continue;			/* moved meanwhile, or gone */
		if (!settle_deleted(&row, &archive))
			count_purged(counts, &row);
		look |= !row_is_null(&row, COLUMN_UNIQUE_KEY);
		stats_tally(info->state, row_reader_depth(&row), -1);
		purged++;
	}
	hash_seq_init(&status, counts);
	while ((count = hash_seq_search(&status)) != NULL)
	{
		if (count->ready > 0)
			pending_ready_removed(info->state, count->group, count->ready);
		if (count->overflow > 0)
			pending_overflow_removed(info->state, count->group, count->overflow);
	}
	hash_destroy(counts);
	if (look)
		pending_look(info->state);
	row_reader_end(&row);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	archive_write(&archive, rel, info);
	return purged;
}

/*
 * Make the dead task that row has read ready again, with all its attempts.  Is
 * another one of its unique key in flight, it is held behind that; does another
 * one wait, it stays dead.
 */
static bool
revive_task(Placement *placement, RowReader *row)
{
	QueueInfo  *info = row->info;
	bool		has_key = !row_is_null(row, COLUMN_UNIQUE_KEY);
	UniqueKey	key = {.found = KEY_FREE};
	bool		done = false;

	row_value(row, COLUMN_ATTEMPTS) = Int32GetDatum(0);
	settle_set_due(row, GetCurrentTimestamp());
	if (has_key)
		unique_keys_take_for_revival(row->rel, info,
									 DatumGetTextPP(row_value(row, COLUMN_UNIQUE_KEY)),
									 &key);
	switch (key.found)
	{
		case KEY_FREE:
			done = placement_replace(placement, row, true);
			break;
		case KEY_IN_FLIGHT:
			row_value(row, COLUMN_STATE) = CharGetDatum(TASK_HELD);
			pending_reserve(4);
			done = row_writer_update(row->rel, info, &row->tuple.t_self,
										 row->values, row->nulls, true);
			if (done)
			{
				pending_task_held(info->state,
								   DatumGetInt64(row_value(row, COLUMN_ID)), key.id);
				settle_count_move(info, TASK_DEAD, TASK_HELD);
			}
			break;
		case KEY_WAITING:
			break;
	}
	if (has_key)
		unique_keys_let_go(&key);
	return done;
}

/*
 * Make dead tasks ready again, with all their attempts: one, or all.  Returns
 * how many.
 */
int64
remove_revive(Relation rel, QueueInfo *info, bool all, int64 id)
{
	Placement	placement;
	RowReader	row;
	int64		revived = 0;
	TableScanDesc scan = NULL;
	Snapshot	snapshot = NULL;
	ItemPointerData tid;
	RowStatus	status;

	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	if (all)
	{
		snapshot = row_reader_snapshot();
		scan = table_beginscan(rel, snapshot, 0, NULL);
	}
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (all)
		{
			HeapTuple	tuple = heap_getnext(scan, ForwardScanDirection);

			if (tuple == NULL)
				break;
			/* Those that died in our own transaction, too. */
			tid = tuple->t_self;
			status = row_reader_read(&row, &tid);
			if (status != ROW_LIVE && status != ROW_OWN)
				continue;
		}
		else if (!row_reader_task_wait(&row, id, NULL))
			break;

		if (DatumGetChar(row_value(&row, COLUMN_STATE)) == TASK_DEAD &&
			revive_task(&placement, &row))
			revived++;
		if (!all)
			break;
	}
	if (scan != NULL)
	{
		table_endscan(scan);
		UnregisterSnapshot(snapshot);
	}
	row_reader_end(&row);
	return revived;
}
