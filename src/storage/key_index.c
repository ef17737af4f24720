/*-------------------------------------------------------------------------
 *
 * key_index.c
 *	  The rows of a queue by unique key.
 *
 * Two partial indexes, in which a task without a key has no entry:
 *
 *	 key_of_<queue>, on unique_key, of all that are not dead;
 *	 held_of_<queue>, on id, of those that are held.
 *
 * Like the rest of queue_index.c, of which this is a part, these look at the
 * present: at rows that are committed, and at those that are being written.
 *
 * Locking: the caller has a lock on the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "common/contracts.h"
#include "storage/queue_index.h"

/* What a dirty snapshot has just said of a row. */
static void
key_row(QueueInfo *info, TupleTableSlot *slot, const SnapshotData *dirty, KeyRow *row)
{
	HeapTupleHeader header = ((BufferHeapTupleTableSlot *) slot)->base.tuple->t_data;
	bool		isnull;

	row->id = DatumGetInt64(slot_getattr(slot, info->columns[COLUMN_ID], &isnull));
	row->state = DatumGetChar(slot_getattr(slot, info->columns[COLUMN_STATE], &isnull));
	row->tid = slot->tts_tid;
	row->busy = TransactionIdIsValid(dirty->xmin) ? dirty->xmin : dirty->xmax;
	row->own = !TransactionIdIsValid(row->busy) &&
		!HeapTupleHeaderXminCommitted(header) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header));
}

/*
 * The rows of a key, up to max: as snapshot (MVCC) sees them, or if that is
 * NULL all versions that are there now or may be soon.  Returns how many.
 *
 * Without a snapshot a row may be missed that another transaction moves
 * meanwhile; see unique_keys.c.
 */
int
key_index_read(Relation rel, QueueInfo *info, const text *key, Snapshot snapshot,
			   int max, KeyRow *rows)
{
	Relation	index = index_open(info->key_index, AccessShareLock);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel),
													&TTSOpsBufferHeapTuple);
	SnapshotData dirty;
	IndexScanDesc scan;
	ScanKeyData scan_key;
	int			n = 0;

	AssertRelationLocked(rel, AccessShareLock);
	Assert(max > 0);
	InitDirtySnapshot(dirty);
	dirty.xmin = dirty.xmax = InvalidTransactionId;
	ScanKeyEntryInitialize(&scan_key, 0, 1, BTEqualStrategyNumber, InvalidOid,
						   index->rd_indcollation[0], F_TEXTEQ,
						   PointerGetDatum(key));
	scan = fairq_index_beginscan(rel, index, snapshot ? snapshot : &dirty, 1);
	index_rescan(scan, &scan_key, 1, NULL, 0);
	while (n < max && index_getnext_slot(scan, ForwardScanDirection, slot))
		key_row(info, slot, &dirty, &rows[n++]);
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	return n;
}

/*
 * The ids of held tasks from an id on, up to max, in order.  Returns how many;
 * *next is where to read on, PG_INT64_MAX if that was all.
 */
int
key_index_held(Relation rel, QueueInfo *info, int64 from, int max,
			   int64 *ids, int64 *next)
{
	Relation	index = index_open(info->held_index, AccessShareLock);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel),
													&TTSOpsBufferHeapTuple);
	SnapshotData dirty;
	IndexScanDesc scan;
	ScanKeyData scan_key;
	int			n = 0;

	AssertRelationLocked(rel, AccessShareLock);
	Assert(max > 0);
	*next = PG_INT64_MAX;
	InitDirtySnapshot(dirty);
	ScanKeyInit(&scan_key, 1, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from));
	scan = fairq_index_beginscan(rel, index, &dirty, 1);
	index_rescan(scan, &scan_key, 1, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		KeyRow		row;

		CHECK_FOR_INTERRUPTS();
		key_row(info, slot, &dirty, &row);
		if (n > 0 && ids[n - 1] == row.id)
			continue;
		if (n == max)
		{
			*next = row.id;
			break;
		}
		ids[n++] = row.id;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	return n;
}
