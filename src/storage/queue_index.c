/*-------------------------------------------------------------------------
 *
 * queue_index.c
 *	  The indexes of a queue: with row_reader.c and row_writer.c the only reader and
 *	  writer of queue tables.
 *
 * Indexes are read here: those of what waits without looking at rows; and those
 * by id and by key as they lead to rows that are committed, and to those that
 * are being written.
 *
 * Locking: the caller has a lock on the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "common/contracts.h"
#include "storage/queue_index.h"

/* Strategy number and procedure of >= of fairq.address. */
static FmgrInfo address_ge;
static Oid	address_opfamily = InvalidOid;

/* Begin to read entries of an index of the table. */
static IndexScanDesc
begin_scan(Relation rel, Relation index, ScanKey keys, int n)
{
	IndexScanDesc scan = fairq_index_beginscan(rel, index, SnapshotAny, n);

	AssertRelationLocked(rel, AccessShareLock);
	/* Before index_rescan: B-tree decides there whether to keep the tuples. */
	scan->xs_want_itup = true;
	index_rescan(scan, keys, n, NULL, 0);
	return scan;
}

static void
end_scan(IndexScanDesc scan)
{
	Relation	index = scan->indexRelation;

	index_endscan(scan);
	index_close(index, AccessShareLock);
}

/* A column of the entry that a scan is at. */
static inline Datum
entry_value(IndexScanDesc scan, int column, bool *isnull)
{
	return index_getattr(scan->xs_itup, column, scan->xs_itupdesc, isnull);
}

/* Begin to read all addresses from one on. */
static IndexScanDesc
begin_lane_scan(Relation rel, QueueInfo *info, const FairqAddress *from)
{
	Relation	index = index_open(info->address_index, AccessShareLock);
	ScanKeyData key;

	if (address_opfamily != index->rd_opfamily[0])
	{
		Oid			type = index->rd_opcintype[0];
		Oid			op = get_opfamily_member(index->rd_opfamily[0], type, type,
											 BTGreaterEqualStrategyNumber);

		fmgr_info_cxt(get_opcode(op), &address_ge, TopMemoryContext);
		address_opfamily = index->rd_opfamily[0];
	}
	ScanKeyEntryInitializeWithInfo(&key, 0, 1, BTGreaterEqualStrategyNumber,
								   InvalidOid, InvalidOid, &address_ge,
								   FairqAddressPGetDatum(from));
	return begin_scan(rel, index, &key, 1);
}

/*
 * Read the index of a lane from a place on, in order.  Rows are not looked at.
 * Returns how many entries were read.
 */
int
queue_index_walk(Relation rel, QueueInfo *info, Lane *lane, const LaneEntry *from,
				 LaneRead *read)
{
	IndexScanDesc scan;
	FairqAddress start;
	ItemPointer tid;
	int			n = 0;

	Assert(read->max > 0);
	read->more = false;
	lanes_entry_address(lane, from, &start);
	scan = begin_lane_scan(rel, info, &start);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		FairqAddress *address = DatumGetFairqAddressP(entry_value(scan, 1, &isnull));
		LaneEntry	entry;

		if (isnull || address->bucket != start.bucket || address->class != start.class)
			break;
		lanes_entry(&entry, address, tid);
		if (lanes_compare(&entry, from) < 0)
			continue;			/* this address was seen before */
		if (n == read->max)
		{
			read->next = entry;
			read->more = true;
			break;
		}
		read->entries[n++] = entry;
	}
	end_scan(scan);
	return n;
}

/*
 * Begin with what is in the lane's window: all that may be claimed before the
 * frontier is there.  The index is read from there on, so not what has been
 * finished long ago; up to max entries at a time.
 */
void
queue_index_walk_window(LaneWalk *walk, Lane *lane, int max)
{
	FairqAddress frontier;
	bool		complete;

	Assert(max > 0);
	walk->lane = lane;
	walk->read.entries = palloc(Max(LANE_WINDOW, max) * sizeof(LaneEntry));
	walk->read.max = max;
	walk->at = 0;
	walk->n = lanes_copy_window(lane, walk->read.entries, &frontier, &complete);
	walk->read.more = !complete;
	ItemPointerSet(&walk->read.next.tid, 0, 0);
	lanes_entry(&walk->read.next, &frontier, &walk->read.next.tid);

	/* While it is refilled there may be some beyond. */
	while (walk->read.more && walk->n > 0 &&
		   lanes_compare(&walk->read.entries[walk->n - 1], &walk->read.next) >= 0)
		walk->n--;
}

/*
 * Is there an entry where the walk is?  Reads on if need be.
 */
bool
queue_index_has_entry(Relation rel, QueueInfo *info, LaneWalk *walk)
{
	while (walk->at == walk->n && walk->read.more)
	{
		LaneEntry	from = walk->read.next;

		CHECK_FOR_INTERRUPTS();
		walk->at = 0;
		walk->n = queue_index_walk(rel, info, walk->lane, &from, &walk->read);
	}
	return walk->at < walk->n;
}

/*
 * The first lane after that of *bucket and *class (0 and -1 to begin) that has
 * entries in the index.  False: there is none.
 */
bool
queue_index_lane_after(Relation rel, QueueInfo *info, int *bucket, int *class)
{
	IndexScanDesc scan;
	FairqAddress start;
	bool		isnull = true;

	if (*class + 1 < FAIRQ_CLASSES)
		address_lane_start(&start, *bucket, *class + 1);
	else if (*bucket + 1 < FAIRQ_MAX_BUCKETS)
		address_lane_start(&start, *bucket + 1, 0);
	else
		return false;
	scan = begin_lane_scan(rel, info, &start);
	if (index_getnext_tid(scan, ForwardScanDirection) != NULL)
	{
		FairqAddress *address = DatumGetFairqAddressP(entry_value(scan, 1, &isnull));

		if (!isnull)
		{
			*bucket = address->bucket;
			*class = address->class;
		}
	}
	end_scan(scan);
	return !isnull;
}

/*
 * The entries of an index on times or ids, from a place on and up to a value.
 * Returns how many.  Rows are not looked at.
 */
int
queue_index_places(Relation rel, Oid index_oid, PlaceRead *read)
{
	Relation	index = index_open(index_oid, AccessShareLock);
	RegProcedure ge = index->rd_opcintype[0] == INT8OID ? F_INT8GE : F_TIMESTAMPTZ_GE;
	IndexPosition from = read->next;
	IndexScanDesc scan;
	ScanKeyData key;
	ItemPointer tid;
	int			n = 0;

	Assert(read->max > 0);
	read->next.due = DT_NOEND;
	read->next.id = 0;
	ItemPointerSet(&read->next.tid, 0, 0);
	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, ge, Int64GetDatum(from.due));
	scan = begin_scan(rel, index, &key, 1);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		IndexPosition place;
		bool		isnull;

		place.due = DatumGetInt64(entry_value(scan, 1, &isnull));
		place.id = 0;
		place.tid = *tid;
		if (isnull)
			break;
		if (index_cursor_compare(&place, &from) < 0)
			continue;
		if (place.due > read->last || n == read->max)
		{
			read->next = place;
			break;
		}
		read->entries[n++] = place;
	}
	end_scan(scan);
	return n;
}

/*
 * The entries of a group's overflow from read->next on.  Returns how many.
 * Rows are not looked at.
 *
 * A task that was written often has as many entries, which vacuum may not be
 * able to remove.  So an id is not enough to go on from: if the next entry is
 * of the same id as the last one its TID is given, too; else that is invalid.
 *
 * A claim may read the lines of a hundred groups: to begin and end a scan takes
 * as long as what it reads of a short one, so it is kept.
 */
int
queue_index_overflow(Relation rel, QueueInfo *info, OverflowRead *read)
{
	OverflowPlace begin = read->next;
	IndexScanDesc scan = *read->kept;
	ScanKeyData keys[3];
	ItemPointer tid;
	int			n = 0;

	Assert(read->max > 0);
	read->next.id = PG_INT64_MAX;
	ItemPointerSetInvalid(&read->next.tid);
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(read->hash));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum((int64) read->class));
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(begin.id));
	if (scan == NULL)
		scan = *read->kept = begin_scan(rel, index_open(info->overflow_index, AccessShareLock),
										keys, 3);
	else
		index_rescan(scan, keys, 3, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		int64		id = DatumGetInt64(entry_value(scan, 3, &isnull));

		if (id == begin.id && ItemPointerIsValid(&begin.tid) &&
			ItemPointerCompare(tid, &begin.tid) < 0)
			continue;
		if (n == read->max)
		{
			read->next.id = id;
			if (id == read->ids[n - 1])
				read->next.tid = *tid;
			break;
		}
		read->ids[n] = id;
		read->tids[n++] = *tid;
	}
	return n;
}

/*
 * End a scan that was kept, if there is one.  Until then it has a page of the
 * index pinned, which vacuum waits for: so it is not kept over a wait.
 */
void
queue_index_end_kept(IndexScanDesc *kept)
{
	if (*kept != NULL)
		end_scan(*kept);
	*kept = NULL;
}

/*
 * The first group after that of *hash and *class that has entries of
 * overflow, of that class or a later one of the same key.  To begin: the
 * lowest hash, class -1. False: there is none.  A class may be any number, as
 * it was written with SQL.
 */
bool
queue_index_overflow_after(Relation rel, QueueInfo *info, int64 *hash, int64 *class)
{
	bool		found = false;

	/* The other classes of this key, and then other keys. */
	for (int attempt = 0; attempt < 2 && !found; attempt++)
	{
		IndexScanDesc scan;
		ScanKeyData keys[2];

		ScanKeyInit(&keys[0], 1,
					attempt == 0 ? BTEqualStrategyNumber : BTGreaterStrategyNumber,
					attempt == 0 ? F_INT8EQ : F_INT8GT, Int64GetDatum(*hash));
		ScanKeyInit(&keys[1], 2, BTGreaterStrategyNumber, F_INT8GT,
					Int64GetDatum(*class));
		scan = begin_scan(rel, index_open(info->overflow_index, AccessShareLock), keys,
						  2 - attempt);
		found = (index_getnext_tid(scan, ForwardScanDirection) != NULL);
		if (found)
		{
			bool		isnull;

			*hash = DatumGetInt64(entry_value(scan, 1, &isnull));
			*class = DatumGetInt64(entry_value(scan, 2, &isnull));
		}
		end_scan(scan);
	}
	return found;
}

/*
 * Is there anything in the overflow of any group, or was there a while ago?
 */
bool
queue_index_has_overflow(Relation rel, QueueInfo *info)
{
	IndexScanDesc scan = begin_scan(rel, index_open(info->overflow_index, AccessShareLock),
									NULL, 0);
	bool		found = (index_getnext_tid(scan, ForwardScanDirection) != NULL);

	end_scan(scan);
	return found;
}

/*
 * Find the row of a task by id, through the index.
 */
bool
queue_index_find(Relation rel, QueueInfo *info, int64 id, Snapshot snapshot,
				 ItemPointer tid)
{
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	AssertRelationLocked(rel, AccessShareLock);
	ScanKeyInit(&key, info->columns[COLUMN_ID], BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(id));
	scan = systable_beginscan(rel, info->id_index, true, snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		*tid = tuple->t_self;
	systable_endscan(scan);
	return HeapTupleIsValid(tuple);
}

/* ----------------------------------------------------------------
 * Rows by unique key
 *
 * In two partial indexes, in which a task without a key has no entry:
 *
 *	 key_of_<queue>, on unique_key, of all that are not dead;
 *	 held_of_<queue>, on id, of those that are held.
 * ----------------------------------------------------------------
 */

/* What a dirty snapshot has just said of a row. */
static void
key_row(Relation rel, QueueInfo *info, HeapTuple tuple, const SnapshotData *dirty, KeyRow *row)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		isnull;

	row->id = DatumGetInt64(heap_getattr(tuple, info->columns[COLUMN_ID], desc, &isnull));
	row->state = DatumGetChar(heap_getattr(tuple, info->columns[COLUMN_STATE], desc, &isnull));
	row->tid = tuple->t_self;
	row->busy = TransactionIdIsValid(dirty->xmin) ? dirty->xmin : dirty->xmax;
	row->own = !TransactionIdIsValid(row->busy) &&
		!HeapTupleHeaderXminCommitted(tuple->t_data) &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
}

/*
 * The rows of a key, up to max: as snapshot (MVCC) sees them, or if that is
 * NULL all versions that are there now or may be soon.  Returns how many.
 *
 * Without a snapshot a row may be missed that another transaction moves
 * meanwhile; see unique_keys.c.
 */
int
queue_index_key(Relation rel, QueueInfo *info, const text *key, Snapshot snapshot,
			   int max, KeyRow *rows)
{
	Relation	index = index_open(info->key_index, AccessShareLock);
	SnapshotData dirty;
	SysScanDesc scan;
	ScanKeyData scan_key;
	HeapTuple	tuple;
	int			n = 0;

	AssertRelationLocked(rel, AccessShareLock);
	Assert(max > 0);
	InitDirtySnapshot(dirty);
	dirty.xmin = dirty.xmax = InvalidTransactionId;
	/* With the collation that table_check wants the index to have. */
	ScanKeyInit(&scan_key, info->columns[COLUMN_UNIQUE_KEY], BTEqualStrategyNumber, F_TEXTEQ,
				PointerGetDatum(key));
	scan = systable_beginscan_ordered(rel, index, snapshot ? snapshot : &dirty, 1, &scan_key);
	while (n < max && (tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
		key_row(rel, info, tuple, &dirty, &rows[n++]);
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	return n;
}

/*
 * The ids of held tasks from an id on, up to max, in order.  Returns how many;
 * *next is where to read on, PG_INT64_MAX if that was all.
 */
int
queue_index_held(Relation rel, QueueInfo *info, int64 from, int max,
			   int64 *ids, int64 *next)
{
	Relation	index = index_open(info->held_index, AccessShareLock);
	SnapshotData dirty;
	SysScanDesc scan;
	ScanKeyData scan_key;
	HeapTuple	tuple;
	int			n = 0;

	AssertRelationLocked(rel, AccessShareLock);
	Assert(max > 0);
	*next = PG_INT64_MAX;
	InitDirtySnapshot(dirty);
	ScanKeyInit(&scan_key, info->columns[COLUMN_ID], BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(from));
	scan = systable_beginscan_ordered(rel, index, &dirty, 1, &scan_key);
	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		KeyRow		row;

		CHECK_FOR_INTERRUPTS();
		key_row(rel, info, tuple, &dirty, &row);
		if (n > 0 && ids[n - 1] == row.id)
			continue;
		if (n == max)
		{
			*next = row.id;
			break;
		}
		ids[n++] = row.id;
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	return n;
}
