/*-------------------------------------------------------------------------
 *
 * row_scan.c
 *	  Reading all rows of a queue, as a snapshot has them.
 *
 * Locking: the caller has a lock on the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

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
	scan->rel = rel;
	scan->info = info;
	scan->snapshot = register_snapshot();
	scan->scan = table_beginscan(rel, scan->snapshot, 0, NULL);
}

/*
 * The next row; NULL: there is none.
 */
HeapTuple
row_scan_next(RowScan *scan)
{
	CHECK_FOR_INTERRUPTS();
	return heap_getnext(scan->scan, ForwardScanDirection);
}

void
row_scan_end(RowScan *scan)
{
	table_endscan(scan->scan);
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
 * A copy of the row of one task, as such a scan would read it; NULL: there is
 * none.
 */
HeapTuple
row_scan_task(Relation rel, QueueInfo *info, int64 id)
{
	Snapshot	snapshot = register_snapshot();
	HeapTupleData tuple;
	HeapTuple	result = NULL;
	Buffer		buffer;

	if (queue_index_find(rel, info, id, snapshot, &tuple.t_self) &&
		heap_fetch(rel, snapshot, &tuple, &buffer, false))
	{
		result = heap_copytuple(&tuple);
		ReleaseBuffer(buffer);
	}
	UnregisterSnapshot(snapshot);
	return result;
}
