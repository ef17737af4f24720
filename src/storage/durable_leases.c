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
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "storage/durable_leases.h"
#include "storage/own_table.h"

/* Rows that are written in one go, with a slot each. */
#define WRITE_BATCH		1000

/* What was found where a row of a lease was looked for. */
typedef enum DurableStatus
{
	DURABLE_LIVE,
	DURABLE_GONE,
	DURABLE_BUSY				/* another transaction has it in hand */
} DurableStatus;

/* A row that was looked for. */
typedef struct DurableRow
{
	ItemPointerData tid;		/* where it is; not with DURABLE_GONE */
	TransactionId busy;			/* DURABLE_BUSY: the transaction that has
								 * written or deletes it */
} DurableRow;

/* ----------------------------------------------------------------
 * One row
 * ----------------------------------------------------------------
 */

static Oid
row_queue(Relation table, HeapTuple tuple)
{
	return DatumGetObjectId(own_table_column(table, tuple, DURABLE_QUEUE + 1));
}

/*
 * Look at a TID for the row of a lease.
 *
 * Anything may be there by now, or nothing, for the TID is a hint: so it is
 * not read beyond the end of the table, and queue and task are compared.
 * Looked at with a dirty snapshot, to see a row that another transaction has
 * in hand, and which that is; what our own transaction has deleted is gone.
 */
static DurableStatus
look_at(Relation table, const ItemPointerData *tid, QueueInfo *info, const LeaseInfo *lease,
		DurableRow *row)
{
	HeapTupleData tuple;
	Buffer		buffer;
	SnapshotData dirty;
	bool		found;

	if (!ItemPointerIsValid(tid) ||
		ItemPointerGetBlockNumber(tid) >= RelationGetNumberOfBlocks(table))
		return DURABLE_GONE;
	InitDirtySnapshot(dirty);
	tuple.t_self = *tid;
	if (!heap_fetch(table, &dirty, &tuple, &buffer, false))
		return DURABLE_GONE;
	found = (row_queue(table, &tuple) == info->relation &&
			 DatumGetInt64(own_table_column(table, &tuple, DURABLE_TASK + 1)) == lease->task);
	ReleaseBuffer(buffer);
	row->tid = tuple.t_self;
	row->busy = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
	return !found ? DURABLE_GONE :
		TransactionIdIsValid(row->busy) ? DURABLE_BUSY : DURABLE_LIVE;
}

/*
 * Find the row of a lease that is durable.
 *
 * A row that is not where it was may have been moved by VACUUM FULL, and then
 * all are read again.  Or an extend was rolled back, and it is where it was
 * before; that is rare enough to look for it.  One that is nowhere was deleted
 * by hand, or the claim was rolled back whose receipt was passed on before it
 * had ended.
 *
 * May read all rows again, and wait for a backend that does so.
 */
static DurableStatus
find_row(Relation table, Relation rel, QueueInfo *info, const LeaseInfo *lease,
		 DurableRow *row)
{
	QueueState *state = info->state;
	DurableStatus status = look_at(table, &lease->durable_tid, info, lease, row);
	LeaseInfo	now;
	SysScanDesc scan;
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
		status = look_at(table, &now.durable_tid, info, lease, row);
		if (status != DURABLE_GONE)
			return status;
	}

	ItemPointerSetInvalid(&tid);
	scan = durable_table_scan(table, DURABLE_TASK, F_INT8EQ, Int64GetDatum(lease->task));
	while (!ItemPointerIsValid(&tid) && (tuple = systable_getnext(scan)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (row_queue(table, tuple) == info->relation)
			tid = tuple->t_self;
	}
	systable_endscan(scan);
	return look_at(table, &tid, info, lease, row);
}

/*
 * Is the row of a lease in the hands of another transaction: a claim or an
 * extend that has not ended?
 *
 * For a pass, which does not wait for that: the lease is left to the next one.
 * A lease that is not durable has no row.
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
	table_close(table, NoLock);
	return status == DURABLE_BUSY;
}

/* ----------------------------------------------------------------
 * Writing
 * ----------------------------------------------------------------
 */

/*
 * The row of a lease, palloc'd.  Its deadline may be DT_NOEND, which the
 * column takes as infinity; with a receipt as its holder has it.
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
	/* Not before the task was enqueued, which may be while a claim is at it. */
	values[DURABLE_CLAIMED_AT] = TimestampTzGetDatum(Max(lease->started, lease->enqueued_at));
	values[DURABLE_RECEIPT] = UUIDPGetDatum(&receipt);
	values[DURABLE_OF_SESSION] = BoolGetDatum(lease->session != NO_SESSION);
	return heap_form_tuple(tupdesc, values, nulls);
}

/*
 * Write rows for leases that have none: those that this transaction was just
 * granted, or that are handed over (lease_handover.c).
 *
 * A short lease may have run out by then, and its task be put back, by a pass
 * that has found no row to delete.  Such a row goes again: after a crash it
 * would be a lease, and void the one that the task has by then.
 *
 * The caller has the queue's relation locked.  On return the rows are written,
 * in this transaction, each lease is durable and knows where its row is, and
 * this command sees them.  If a write fails so does the transaction, which
 * gives back what it has claimed.
 */
void
durable_leases_write(Oid queue, const LeaseInfo *leases, int n)
{
	Relation	table = durable_table_require(RowExclusiveLock);
	CommandId	cid = GetCurrentCommandId(true);
	TupleTableSlot **slots = palloc(Min(n, WRITE_BATCH) * sizeof(TupleTableSlot *));
	int			slot_count = Min(n, WRITE_BATCH);
	List	   *over = NIL;
	ListCell   *lc;

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
			if (!leases_set_durable(&leases[done + i].ref, &slots[i]->tts_tid))
			{
				ItemPointer tid = palloc(sizeof(ItemPointerData));

				*tid = slots[i]->tts_tid;
				over = lappend(over, tid);
			}
			ExecClearTuple(slots[i]);
		}
	}
	for (int i = 0; i < slot_count; i++)
		ExecDropSingleTupleTableSlot(slots[i]);
	pfree(slots);
	/* This command may go on to settle the leases. */
	CommandCounterIncrement();
	foreach(lc, over)
		simple_heap_delete(table, lfirst(lc));
	list_free_deep(over);
	table_close(table, NoLock);
}

/* ----------------------------------------------------------------
 * Of leases that are there
 * ----------------------------------------------------------------
 */

/*
 * A lease is settling: if it is durable its row goes with it, in the same
 * transaction, and so comes back with it at rollback.  Returns false if it has
 * none (any more).
 *
 * Waits for the transaction that has the row in hand, such as an extend; a
 * deadlock is detected, and is an error then.  It may be changed between the
 * look and the deletion: then it is looked for again.
 */
bool
durable_leases_delete(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	Relation	table;
	TM_Result	result = TM_Invisible;
	DurableStatus status = DURABLE_BUSY;
	DurableRow	row;

	if (!lease->durable)
		return false;
	table = durable_table_require(RowExclusiveLock);
	while (result != TM_Ok && status != DURABLE_GONE)
	{
		TM_FailureData tmfd;

		CHECK_FOR_INTERRUPTS();
		status = find_row(table, rel, info, lease, &row);
		if (status == DURABLE_BUSY)
			XactLockTableWait(row.busy, table, &row.tid, XLTW_Delete);
		else if (status == DURABLE_LIVE)
			result = heap_delete(table, &row.tid, GetCurrentCommandId(true), InvalidSnapshot,
								 true, &tmfd, false);
	}
	table_close(table, NoLock);
	return result == TM_Ok;
}

/*
 * The deadline of a lease was moved: so is that in its row, which is written
 * anew.
 *
 * The lease is a copy with the new deadline.  The lease table has that
 * already, and keeps it if the transaction rolls back; then the row has the
 * one of before.
 */
void
durable_leases_extend(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	if (durable_leases_delete(rel, info, lease))
		durable_leases_write(info->relation, lease, 1);
}
