/*-------------------------------------------------------------------------
 *
 * row_scan.c
 *	  Reading all rows of a queue, or those from an id on, as a snapshot has them.
 *
 * They are read without the executor and the planner: no code runs that the
 * owner has put into an index or a constraint.
 *
 * Locking: the caller has a lock on the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "common/contracts.h"
#include "storage/queue_index.h"
#include "storage/row_scan.h"

/*
 * What to look for tasks with: the caller's snapshot, but that of a
 * transaction which keeps its own (REPEATABLE READ) is too old.  Claims, acks
 * and passes write what is there now; a task that was moved since would be
 * seen twice once the transaction has written it, or would still be there when
 * it has removed it.
 */
static Snapshot
register_snapshot(void)
{
	return RegisterSnapshot(IsolationUsesXactSnapshot() ? GetLatestSnapshot() :
							GetActiveSnapshot());
}

void
row_scan_begin(RowScan *scan, Relation rel, QueueInfo *info)
{
	AssertRelationLocked(rel, AccessShareLock);
	scan->rel = rel;
	scan->info = info;
	scan->snapshot = register_snapshot();
	scan->scan = table_beginscan(rel, scan->snapshot, 0, NULL);
}

/*
 * A scan of the tasks with ids above one, in their order: no more is read than
 * the caller asks for.
 */
void
row_scan_begin_after(RowScan *scan, Relation rel, QueueInfo *info, int64 id)
{
	Relation	index = index_open(info->id_index, AccessShareLock);
	ScanKeyData key;

	scan->rel = rel;
	scan->info = info;
	scan->snapshot = register_snapshot();
	scan->scan = NULL;
	scan->slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsBufferHeapTuple);
	ScanKeyInit(&key, 1, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(id));
	scan->by_id = fairq_index_beginscan(rel, index, scan->snapshot, 1);
	index_rescan(scan->by_id, &key, 1, NULL, 0);
}

/*
 * The next row; NULL: there is none.
 */
HeapTuple
row_scan_next(RowScan *scan)
{
	CHECK_FOR_INTERRUPTS();
	if (scan->scan != NULL)
		return heap_getnext(scan->scan, ForwardScanDirection);
	if (!index_getnext_slot(scan->by_id, ForwardScanDirection, scan->slot))
		return NULL;
	return ExecFetchSlotHeapTuple(scan->slot, false, NULL);
}

void
row_scan_end(RowScan *scan)
{
	if (scan->scan != NULL)
		table_endscan(scan->scan);
	else
	{
		Relation	index = scan->by_id->indexRelation;

		index_endscan(scan->by_id);
		ExecDropSingleTupleTableSlot(scan->slot);
		index_close(index, AccessShareLock);
	}
	UnregisterSnapshot(scan->snapshot);
}

/*
 * The id of the task of a row that was read.
 */
int64
row_scan_id(RowScan *scan, HeapTuple tuple)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(tuple, scan->info->columns[COLUMN_ID],
									  RelationGetDescr(scan->rel), &isnull));
}

/*
 * A copy of the row of one task, as a snapshot has it; NULL: there is none.
 */
HeapTuple
row_scan_task_at(Relation rel, QueueInfo *info, int64 id, Snapshot snapshot)
{
	HeapTupleData tuple;
	HeapTuple	result = NULL;
	Buffer		buffer;

	if (queue_index_find(rel, info, id, snapshot, &tuple.t_self) &&
		heap_fetch(rel, snapshot, &tuple, &buffer, false))
	{
		result = heap_copytuple(&tuple);
		ReleaseBuffer(buffer);
	}
	return result;
}

/*
 * The row of a task as a scan that begins now would read it; NULL: none.
 */
HeapTuple
row_scan_task(Relation rel, QueueInfo *info, int64 id)
{
	Snapshot	snapshot = register_snapshot();
	HeapTuple	result = row_scan_task_at(rel, info, id, snapshot);

	UnregisterSnapshot(snapshot);
	return result;
}

/*
 * The rows of a unique key, of tasks that are not dead, up to max.  Returns how
 * many.
 */
int
row_scan_of_key(Relation rel, QueueInfo *info, const text *key, int max, KeyRow *rows)
{
	Snapshot	snapshot = register_snapshot();
	int			n = key_index_read(rel, info, key, snapshot, max, rows);

	UnregisterSnapshot(snapshot);
	return n;
}
