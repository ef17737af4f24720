/*-------------------------------------------------------------------------
 *
 * durable_leases.c
 *	  Leases that survive a crash and a failover.
 *
 * A claim from a queue with durable leases writes a row for each lease into
 * fairq.durable_lease, in its own transaction; whatever ends the lease
 * deletes it, in the transaction that does.  So the rows that a crash leaves
 * behind, or that a standby has when it is promoted, are the leases that
 * lived then.
 *
 * The lease table is still what decides.  The rows of a queue are read into
 * it before anything is done with the queue: whenever a queue is opened for
 * the first time since the server started or was promoted (queue_open.c).  So
 * no lease is granted or settled before those of the rows are there, and no
 * other backend writes rows of the queue while they are read.  Where a queue
 * does not write any more, those it had are still restored, and end like
 * others.
 *
 * The table has no index: the lease table knows where each row is.  If the
 * file of the table is another one (VACUUM FULL), the rows are read once more,
 * for where they are.
 *
 * A receipt holds the entry of its lease and is void after a crash.  That of a
 * durable lease is found by its token (lease_receipts.c).  If it is not there
 * the lease's queue may not have been opened yet, so the table is looked
 * through for it; only as long as there are such queues (settle.c).
 *
 * A clean shutdown with standbys writes rows for all leases, those of other
 * queues, too: lease_handover.c.
 *
 * A session does not survive a crash.  What was claimed under one has run out
 * then, and its receipts are void.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "storage/durable_leases.h"
#include "storage/durable_table.h"

/* Rows that are written in one go. */
#define WRITE_BATCH		1000

/* A row that was looked for. */
typedef enum DurableStatus
{
	DURABLE_LIVE,
	DURABLE_GONE,
	DURABLE_BUSY				/* another transaction has it in hand */
} DurableStatus;

typedef struct DurableRow
{
	HeapTupleData tuple;		/* DURABLE_LIVE: points into the buffer */
	Buffer		buffer;
	TransactionId busy;			/* DURABLE_BUSY: which */
} DurableRow;

/* ----------------------------------------------------------------
 * One row
 * ----------------------------------------------------------------
 */

/*
 * Look at a TID for the row of a task.  With DURABLE_LIVE its page is pinned.
 */
static DurableStatus
look_at(Relation table, const ItemPointerData *tid, Oid queue, int64 task,
		DurableRow *row)
{
	SnapshotData dirty;

	if (!ItemPointerIsValid(tid) ||
		ItemPointerGetBlockNumber(tid) >= RelationGetNumberOfBlocks(table))
		return DURABLE_GONE;
	InitDirtySnapshot(dirty);
	row->tuple.t_self = *tid;
	if (!heap_fetch(table, &dirty, &row->tuple, &row->buffer, false))
		return DURABLE_GONE;
	row->busy = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
	if (row_queue(&row->tuple, RelationGetDescr(table)) == queue &&
		row_task(&row->tuple, RelationGetDescr(table)) == task)
	{
		if (!TransactionIdIsValid(row->busy))
			return DURABLE_LIVE;
		ReleaseBuffer(row->buffer);
		return DURABLE_BUSY;
	}
	ReleaseBuffer(row->buffer);
	return DURABLE_GONE;
}

/*
 * Find the row of a lease that is durable.
 *
 * A row that is not where it was may have been moved by VACUUM FULL, and then
 * all are read again.  Or an extend was rolled back, and it is where it was
 * before; that is rare enough to look for it.  One that is nowhere was deleted
 * by hand, or the claim was rolled back whose receipt was passed on before it
 * had ended.
 */
static DurableStatus
find_row(Relation table, Relation rel, QueueInfo *info, const LeaseInfo *lease,
		 DurableRow *row)
{
	QueueState *state = info->state;
	DurableStatus status = look_at(table, &lease->durable_tid, info->relation, lease->task, row);
	LeaseInfo	now;
	TableScanDesc scan;
	HeapTuple	tuple;
	ItemPointerData tid;

	if (status != DURABLE_GONE)
		return status;
	if (state->recovery.leases_file != fairq_relation_file(table))
	{
		SpinLockAcquire(&state->recovery.mutex);
		if (state->recovery.leases == QUEUE_KNOWN)
			state->recovery.leases = QUEUE_UNKNOWN;
		SpinLockRelease(&state->recovery.mutex);
		durable_leases_restore(rel, info);
	}
	if (leases_look(&lease->ref, &now) &&
		!ItemPointerEquals(&now.durable_tid, unconstify(ItemPointerData *, &lease->durable_tid)))
	{
		status = look_at(table, &now.durable_tid, info->relation, lease->task, row);
		if (status != DURABLE_GONE)
			return status;
	}

	ItemPointerSetInvalid(&tid);
	scan = durable_table_scan(table);
	while (!ItemPointerIsValid(&tid) &&
		   (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (row_queue(tuple, RelationGetDescr(table)) == info->relation &&
			row_task(tuple, RelationGetDescr(table)) == lease->task)
			tid = tuple->t_self;
	}
	table_endscan(scan);
	return look_at(table, &tid, info->relation, lease->task, row);
}

/*
 * Find the row of a durable lease, and wait for the transaction that has it in
 * hand.
 */
static bool
wait_for_row(Relation table, Relation rel, QueueInfo *info, const LeaseInfo *lease,
			 DurableRow *row)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		switch (find_row(table, rel, info, lease, row))
		{
			case DURABLE_LIVE:
				return true;
			case DURABLE_GONE:
				return false;
			case DURABLE_BUSY:
				XactLockTableWait(row->busy, table, &row->tuple.t_self, XLTW_Delete);
				break;
		}
	}
}

/*
 * Is the row of a lease in the hands of another transaction: a claim or an
 * extend that has not ended?
 */
bool
durable_leases_busy(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	Relation	table;
	DurableRow	row;
	DurableStatus status;

	if (!lease->durable)
		return false;
	table = durable_table_require(RowExclusiveLock);
	status = find_row(table, rel, info, lease, &row);
	if (status == DURABLE_LIVE)
		ReleaseBuffer(row.buffer);
	table_close(table, NoLock);
	return status == DURABLE_BUSY;
}

/* ----------------------------------------------------------------
 * Writing
 * ----------------------------------------------------------------
 */

static HeapTuple
form_row(TupleDesc tupdesc, Oid queue, const LeaseInfo *lease)
{
	Datum		values[DURABLE_COLUMNS];
	bool		nulls[DURABLE_COLUMNS] = {false};
	pg_uuid_t	receipt;

	leases_to_receipt(lease, &receipt);
	values[DURABLE_QUEUE] = ObjectIdGetDatum(queue);
	values[DURABLE_ATTEMPT] = Int32GetDatum(lease->attempt);
	values[DURABLE_TASK] = Int64GetDatum(lease->task);
	values[DURABLE_LEASE_UNTIL] = TimestampTzGetDatum(lease->deadline);
	values[DURABLE_CLAIMED_AT] = TimestampTzGetDatum(lease->started);
	values[DURABLE_RECEIPT] = UUIDPGetDatum(&receipt);
	values[DURABLE_OF_SESSION] = BoolGetDatum(lease->session != NO_SESSION);
	return heap_form_tuple(tupdesc, values, nulls);
}

/*
 * Write rows for leases that have none: those that this transaction was just
 * granted, or that are handed over (lease_handover.c).
 */
void
durable_leases_write(Oid queue, const LeaseInfo *leases, int n)
{
	Relation	table = durable_table_require(RowExclusiveLock);
	CommandId	cid = GetCurrentCommandId(true);
	TupleTableSlot **slots = palloc(Min(n, WRITE_BATCH) * sizeof(TupleTableSlot *));
	int			slot_count = Min(n, WRITE_BATCH);

	Assert(n > 0 && OidIsValid(queue));
	for (int i = 0; i < slot_count; i++)
		slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsHeapTuple);
	for (int done = 0; done < n; done += slot_count)
	{
		int			batch = Min(slot_count, n - done);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < batch; i++)
			ExecStoreHeapTuple(form_row(RelationGetDescr(table), queue, &leases[done + i]),
							   slots[i], true);
		heap_multi_insert(table, slots, batch, cid, 0, NULL);
		for (int i = 0; i < batch; i++)
		{
			leases_set_durable(&leases[done + i].ref, &slots[i]->tts_tid);
			ExecClearTuple(slots[i]);
		}
	}
	for (int i = 0; i < slot_count; i++)
		ExecDropSingleTupleTableSlot(slots[i]);
	pfree(slots);
	table_close(table, NoLock);
	/* This command may go on to settle the leases. */
	CommandCounterIncrement();
}

/* ----------------------------------------------------------------
 * Of leases that are there
 * ----------------------------------------------------------------
 */

/*
 * Delete the row of a durable lease.  Returns false if it has none any more.
 */
static bool
delete_row(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	Relation	table = durable_table_require(RowExclusiveLock);
	TM_Result	result = TM_Deleted;
	DurableRow	row;

	while (result != TM_Ok && wait_for_row(table, rel, info, lease, &row))
	{
		ItemPointerData tid = row.tuple.t_self;
		TM_FailureData tmfd;

		ReleaseBuffer(row.buffer);
		result = heap_delete(table, &tid, GetCurrentCommandId(true), InvalidSnapshot,
							 true, &tmfd, false);
	}
	table_close(table, NoLock);
	return result == TM_Ok;
}

/*
 * A lease is settling: its row goes with it.
 */
void
durable_leases_delete(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	if (lease->durable)
		(void) delete_row(rel, info, lease);
}

/*
 * The deadline of a lease was moved: so is that in its row, which is written
 * anew.
 */
void
durable_leases_extend(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	if (lease->durable && delete_row(rel, info, lease))
		durable_leases_write(info->relation, lease, 1);
}
