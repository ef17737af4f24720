/*-------------------------------------------------------------------------
 *
 * archive_removal.c
 *	  Removing old rows from an archive.
 *
 * They are found through a cursor on the primary key (index_cursor.c): what
 * was removed is not come across again while some snapshot keeps it in the
 * table.  They are deleted with ordinary SQL, as they were written.
 *
 * Locking: the caller has the table locked.  Rows that other transactions
 * write are not waited for.  The cursor has its own lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "storage/archive.h"
#include "storage/own_table.h"
#include "xact/pending_queue.h"

/* A row to remove. */
typedef struct ArchiveRow
{
	ItemPointerData tid;		/* where it is */
	IndexPosition place;		/* as the index has it */
	bool		skipped;		/* another transaction was writing it before */
	bool		removed;
} ArchiveRow;

/*
 * Another transaction writes a row: remember it.
 */
static void
leave_row(ArchiveRemoval *removal, const IndexPosition *place)
{
	removal->left = true;
	if (index_cursor_skip(removal->cursor, place))
		return;
	if (!removal->held_back || index_cursor_compare(place, &removal->held) < 0)
		removal->held = *place;
	removal->held_back = true;
}

/*
 * A row was read with a dirty snapshot: is it there for us to remove?
 */
static void
note_row(ArchiveRemoval *removal, const IndexPosition *place, bool skipped,
		 TupleTableSlot *slot, const SnapshotData *dirty)
{
	if (TransactionIdIsValid(dirty->xmin) || TransactionIdIsValid(dirty->xmax))
		leave_row(removal, place);
	else
	{
		ArchiveRow *row = &removal->rows[removal->n++];

		row->tid = slot->tts_tid;
		row->place = *place;
		row->skipped = skipped;
		row->removed = false;
	}
}

/*
 * Read the index from removal->from on, which is moved (due at DT_NOEND: there
 * is no more).
 */
static void
read_old(ArchiveRemoval *removal)
{
	Relation	index = index_open(removal->archive->shape.by_time, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(removal->relation, NULL);
	IndexPosition from = removal->from;
	SnapshotData dirty;
	IndexScanDesc scan;
	ScanKeyData key;
	ItemPointer tid;

	memset(&removal->from, 0, sizeof(IndexPosition));
	removal->from.due = DT_NOEND;
	InitDirtySnapshot(dirty);
	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
				TimestampTzGetDatum(from.due));
	scan = fairq_index_beginscan(removal->relation, index, &dirty, 1);
	scan->xs_want_itup = true;
	index_rescan(scan, &key, 1, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		IndexPosition place;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		place.due = DatumGetTimestampTz(index_getattr(scan->xs_itup, 1,
													  scan->xs_itupdesc, &isnull));
		place.id = DatumGetInt64(index_getattr(scan->xs_itup, 2,
											   scan->xs_itupdesc, &isnull));
		place.tid = *tid;
		if (index_cursor_compare(&place, &from) < 0)
			continue;
		if (place.due > removal->until || removal->looked == removal->max)
		{
			removal->from = place;
			break;
		}
		removal->looked++;
		if (index_fetch_heap(scan, slot))
			note_row(removal, &place, false, slot, &dirty);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
}

/*
 * Look again at a row that another transaction wrote.  If it is gone it may
 * have been changed, and its new version may be behind us: read on from there,
 * too.
 */
static void
read_skipped(ArchiveRemoval *removal, const IndexPosition *place)
{
	Relation	relation = removal->relation;
	const AttrNumber *columns = removal->archive->shape.columns;
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	IndexFetchTableData *fetch = table_index_fetch_begin(relation);
	ItemPointerData tid = place->tid;
	SnapshotData dirty;
	bool		call_again = false;
	bool		all_dead = false;
	bool		isnull;

	InitDirtySnapshot(dirty);
	/* Another row may be there by now. */
	if (ItemPointerGetBlockNumber(&tid) < RelationGetNumberOfBlocks(relation) &&
		table_index_fetch_tuple(fetch, &tid, &dirty, slot, &call_again, &all_dead) &&
		DatumGetTimestampTz(slot_getattr(slot, columns[DONE_DONE_AT], &isnull)) == place->due &&
		DatumGetInt64(slot_getattr(slot, columns[DONE_ID], &isnull)) == place->id)
		note_row(removal, place, true, slot, &dirty);
	else
	{
		IndexPosition start = {place->due, PG_INT64_MIN, {{0, 0}, 0}};

		pending_due_read(index_cursor_done, removal->cursor, place);
		pending_due_read(index_cursor_hold, removal->cursor, &start);
	}
	ExecClearTuple(slot);
	table_index_fetch_end(fetch);
	ExecDropSingleTupleTableSlot(slot);
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare((ItemPointer) &((const ArchiveRow *) a)->tid,
							  (ItemPointer) &((const ArchiveRow *) b)->tid);
}

/*
 * Delete rows, but for those that are locked, or were changed meanwhile.
 * With SQL, for the user's triggers and foreign keys.  Returns how many.
 */
static int
remove_rows(ArchiveRemoval *removal)
{
	Archive    *archive = removal->archive;
	const char *name = quote_qualified_identifier(QUEUE_SCHEMA, archive->name);
	Oid			type = TIDARRAYOID;
	Datum	   *tids = palloc(removal->n * sizeof(Datum));
	Datum		value;
	int			result;
	int			removed = 0;

	qsort(removal->rows, removal->n, sizeof(ArchiveRow), compare_tids);
	for (int i = 0; i < removal->n; i++)
		tids[i] = PointerGetDatum(&removal->rows[i].tid);
	value = PointerGetDatum(construct_array(tids, removal->n, TIDOID,
											sizeof(ItemPointerData), false,
											TYPALIGN_SHORT));
	SPI_connect();
	if (archive->remove == NULL)
		archive->remove =
			own_table_prepare(psprintf("DELETE FROM ONLY %s WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
									   "SELECT o.ctid FROM ONLY %s o WHERE o.ctid OPERATOR(pg_catalog.=) ANY ($1)"
									   " FOR UPDATE SKIP LOCKED)) RETURNING ctid",
									   name, name), 1, &type);
	/* As it is now, whatever the isolation level. */
	PushActiveSnapshot(GetLatestSnapshot());
	result = SPI_execute_snapshot(archive->remove, &value, NULL, GetActiveSnapshot(),
								  InvalidSnapshot, false, true, 0);
	PopActiveSnapshot();
	if (result < 0)
		elog(ERROR, "SPI_execute_snapshot failed (%s)", SPI_result_code_string(result));
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		ArchiveRow	key;
		ArchiveRow *row;

		key.tid = *(ItemPointer) DatumGetPointer(SPI_getbinval(SPI_tuptable->vals[i],
															   SPI_tuptable->tupdesc, 1, &isnull));
		row = bsearch(&key, removal->rows, removal->n, sizeof(ArchiveRow), compare_tids);
		if (row != NULL && !row->removed)
		{
			row->removed = true;
			removed++;
		}
	}
	SPI_finish();
	pfree(tids);
	return removed;
}

/*
 * Remove rows that were done until a time, as removal says.
 */
void
archive_remove_old(ArchiveRemoval *removal)
{
	IndexPosition skipped[INDEX_CURSOR_SKIPPED];
	int			skipped_count = index_cursor_skipped(removal->cursor, skipped);

	AssertRelationLocked(removal->relation, RowExclusiveLock);
	removal->rows = palloc((removal->max + INDEX_CURSOR_SKIPPED) * sizeof(ArchiveRow));
	for (int i = 0; i < skipped_count; i++)
		read_skipped(removal, &skipped[i]);
	if (removal->from.due <= removal->until)
	{
		read_old(removal);
		pending_due_read(index_cursor_end, removal->cursor, &removal->from);
	}
	if (removal->n > 0)
		removal->removed = remove_rows(removal);
	for (int i = 0; i < removal->n; i++)
	{
		ArchiveRow *row = &removal->rows[i];

		if (!row->removed)
			leave_row(removal, &row->place);
		else if (row->skipped)
			pending_due_read(index_cursor_done, removal->cursor, &row->place);
	}
	if (removal->held_back)
		pending_due_read(index_cursor_hold, removal->cursor, &removal->held);
	pfree(removal->rows);
}
