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

#include "access/htup_details.h"
#include "access/xact.h"
#include "miscadmin.h"
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
	scan->index = NULL;
	scan->scan = systable_beginscan(rel, InvalidOid, false, scan->snapshot, 0, NULL);
}

/*
 * A scan of the tasks with ids above one, in their order: no more is read than
 * the caller asks for.
 */
void
row_scan_begin_after(RowScan *scan, Relation rel, QueueInfo *info, int64 id)
{
	ScanKeyData key;

	scan->rel = rel;
	scan->info = info;
	scan->snapshot = register_snapshot();
	scan->index = index_open(info->id_index, AccessShareLock);
	ScanKeyInit(&key, info->columns[COLUMN_ID], BTGreaterStrategyNumber, F_INT8GT,
				Int64GetDatum(id));
	scan->scan = systable_beginscan_ordered(rel, scan->index, scan->snapshot, 1, &key);
}

/*
 * The next row; NULL: there is none.
 */
HeapTuple
row_scan_next(RowScan *scan)
{
	CHECK_FOR_INTERRUPTS();
	return scan->index == NULL ? systable_getnext(scan->scan) :
		systable_getnext_ordered(scan->scan, ForwardScanDirection);
}

void
row_scan_end(RowScan *scan)
{
	if (scan->index == NULL)
		systable_endscan(scan->scan);
	else
	{
		systable_endscan_ordered(scan->scan);
		index_close(scan->index, AccessShareLock);
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
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, info->columns[COLUMN_ID], BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(id));
	scan = systable_beginscan(rel, info->id_index, true, snapshot, 1, &key);
	tuple = heap_copytuple(systable_getnext(scan));
	systable_endscan(scan);
	return tuple;
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
	int			n = queue_index_key(rel, info, key, snapshot, max, rows);

	UnregisterSnapshot(snapshot);
	return n;
}
