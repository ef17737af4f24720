/*-------------------------------------------------------------------------
 *
 * queue_index.c
 *	  The indexes of a queue: with row_reader.c and row_writer.c the only reader and
 *	  writer of queue tables.
 *
 * Indexes are read here, without looking at rows.
 *
 * Locking: the caller has a lock on the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "shmem/lane_unwritten.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "storage/queue_index.h"

/* Strategy number and procedure of >= of fairq.address. */
static FmgrInfo address_ge;
static Oid	address_opfamily = InvalidOid;

/* The scan key of all addresses from one on. */
static void
begin_lane_scan(Relation index, const FairqAddress *from, ScanKey key)
{
	if (address_opfamily != index->rd_opfamily[0])
	{
		Oid			type = index->rd_opcintype[0];
		Oid			op = get_opfamily_member(index->rd_opfamily[0], type, type,
											 BTGreaterEqualStrategyNumber);

		fmgr_info_cxt(get_opcode(op), &address_ge, TopMemoryContext);
		address_opfamily = index->rd_opfamily[0];
	}
	ScanKeyEntryInitializeWithInfo(key, 0, 1, BTGreaterEqualStrategyNumber,
								   InvalidOid, InvalidOid, &address_ge,
								   FairqAddressPGetDatum(from));
}

/*
 * Read the index of a lane from a place on, up to max entries in order, into
 * entries.  Rows are not looked at.  Returns how many; *more: there is one more
 * entry, and it is *next.
 */
int
queue_index_walk(Relation rel, QueueInfo *info, Lane *lane,
					const LaneEntry *from, int max,
					LaneEntry *entries, LaneEntry *next, bool *more)
{
	Relation	index = index_open(info->address_index, AccessShareLock);
	IndexScanDesc scan;
	ScanKeyData key;
	FairqAddress start;
	ItemPointer tid;
	int			n = 0;

	*more = false;
	lanes_entry_address(lane, from, &start);
	begin_lane_scan(index, &start, &key);
	scan = fairq_index_beginscan(rel, index, SnapshotAny, 1);
	/* Before index_rescan: B-tree decides there whether to keep the tuples. */
	scan->xs_want_itup = true;
	index_rescan(scan, &key, 1, NULL, 0);

	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		FairqAddress *address;
		LaneEntry	entry;

		address = DatumGetFairqAddressP(index_getattr(scan->xs_itup, 1,
													  scan->xs_itupdesc, &isnull));
		if (isnull || address->bucket != start.bucket || address->class != start.class)
			break;
		lanes_entry(&entry, address, tid);
		if (lanes_compare(&entry, from) < 0)
			continue;			/* the same address, seen before */
		if (n == max)
		{
			*next = entry;
			*more = true;
			break;
		}
		entries[n++] = entry;
	}
	index_endscan(scan);
	index_close(index, AccessShareLock);
	return n;
}

static int
compare_entries(const void *a, const void *b)
{
	return lanes_compare(a, b);
}

/*
 * The same for those who only look, with the tasks of the overflow that have places
 * there, which no index has.
 */
int
queue_index_look(Relation rel, QueueInfo *info, Lane *lane,
					const LaneEntry *from, int max,
					LaneEntry *entries, LaneEntry *next, bool *more)
{
	LaneEntry	start = *from;
	LaneEntry  *all;
	int			n = queue_index_walk(rel, info, lane, &start, max, entries, next, more);
	int			unwritten;

	if (likely(lane->unwritten.count == 0))
		return n;
	all = palloc((n + LANE_UNWRITTEN) * sizeof(LaneEntry));
	memcpy(all, entries, n * sizeof(LaneEntry));
	unwritten = lane_unwritten_copy(lane, &start, *more ? next : NULL, all + n);
	qsort(all, n + unwritten, sizeof(LaneEntry), compare_entries);
	n += unwritten;
	if (n > max)
	{
		*next = all[max];
		*more = true;
		n = max;
	}
	memcpy(entries, all, n * sizeof(LaneEntry));
	pfree(all);
	return n;
}

/*
 * The first lane after that of *bucket and *class (0 and -1 to begin) that has
 * entries in the index.  False: there is none.
 */
bool
queue_index_lane_after(Relation rel, QueueInfo *info, int *bucket, int *class)
{
	Relation	index = index_open(info->address_index, AccessShareLock);
	IndexScanDesc scan;
	ScanKeyData key;
	FairqAddress start;
	bool		found = false;

	if (*class + 1 < FAIRQ_CLASSES)
		address_lane_start(&start, *bucket, *class + 1);
	else if (*bucket + 1 < FAIRQ_MAX_BUCKETS)
		address_lane_start(&start, *bucket + 1, 0);
	else
	{
		index_close(index, AccessShareLock);
		return false;
	}
	begin_lane_scan(index, &start, &key);
	scan = fairq_index_beginscan(rel, index, SnapshotAny, 1);
	scan->xs_want_itup = true;
	index_rescan(scan, &key, 1, NULL, 0);
	if (index_getnext_tid(scan, ForwardScanDirection) != NULL)
	{
		bool		isnull;
		FairqAddress *address;

		address = DatumGetFairqAddressP(index_getattr(scan->xs_itup, 1,
													  scan->xs_itupdesc, &isnull));
		if (!isnull)
		{
			*bucket = address->bucket;
			*class = address->class;
			found = true;
		}
	}
	index_endscan(scan);
	index_close(index, AccessShareLock);
	return found;
}

/*
 * The entries of an index on times or ids, from a place on, up to a value and at
 * most max.  Returns how many, and which is the next one after them (due at
 * DT_NOEND: none).  Rows are not looked at.
 */
static int
read_places(Relation rel, Oid index_oid, RegProcedure ge, const DuePlace *from,
			int64 last, int max, DuePlace *entries, DuePlace *next)
{
	Relation	index = index_open(index_oid, AccessShareLock);
	IndexScanDesc scan;
	ScanKeyData key;
	ItemPointer tid;
	int			n = 0;

	next->due = DT_NOEND;
	next->id = 0;
	ItemPointerSet(&next->tid, 0, 0);
	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, ge, Int64GetDatum(from->due));
	scan = fairq_index_beginscan(rel, index, SnapshotAny, 1);
	scan->xs_want_itup = true;
	index_rescan(scan, &key, 1, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		DuePlace	place;
		bool		isnull;

		place.due = DatumGetInt64(index_getattr(scan->xs_itup, 1,
												scan->xs_itupdesc, &isnull));
		place.id = 0;
		place.tid = *tid;
		if (isnull)
			break;
		if (due_compare(&place, from) < 0)
			continue;
		if (place.due > last || n == max)
		{
			*next = place;
			break;
		}
		entries[n++] = place;
	}
	index_endscan(scan);
	index_close(index, AccessShareLock);
	return n;
}

/*
 * The entries of scheduled tasks that are due now.
 */
int
queue_index_due(Relation rel, QueueInfo *info, const DuePlace *from,
				   TimestampTz now, int max, DuePlace *entries, DuePlace *next)
{
	return read_places(rel, info->due_index, F_TIMESTAMPTZ_GE, from, now, max,
					   entries, next);
}

/*
 * The entries of tasks with ids below upto.
 */
int
queue_index_ids(Relation rel, QueueInfo *info, const DuePlace *from,
				   int64 upto, int max, DuePlace *entries, DuePlace *next)
{
	return read_places(rel, info->id_index, F_INT8GE, from, upto - 1, max,
					   entries, next);
}

/*
 * The entries of a group's overflow from a place on: up to max.  Returns how many,
 * and the place of the next one after them (id PG_INT64_MAX: none).  Rows are not
 * looked at.
 *
 * A task that was written often has as many entries, which vacuum may not be able
 * to remove.  So an id is not enough to go on from: if the next entry is of the same
 * id as the last one its TID is given, too; else that is invalid.
 */
int
queue_index_overflow(Relation rel, QueueInfo *info, int64 hash, int class,
						const OverflowPlace *from, int max, int64 *ids,
						ItemPointer tids, OverflowPlace *next)
{
	OverflowPlace begin = *from;	/* may be where next is */
	Relation	index = index_open(info->overflow_index, AccessShareLock);
	IndexScanDesc scan;
	ScanKeyData keys[3];
	ItemPointer tid;
	int			n = 0;

	next->id = PG_INT64_MAX;
	ItemPointerSetInvalid(&next->tid);
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(hash));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum((int64) class));
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(begin.id));
	scan = fairq_index_beginscan(rel, index, SnapshotAny, 3);
	scan->xs_want_itup = true;
	index_rescan(scan, keys, 3, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		int64		id = DatumGetInt64(index_getattr(scan->xs_itup, 3,
													 scan->xs_itupdesc, &isnull));

		if (id == begin.id && ItemPointerIsValid(&begin.tid) &&
			ItemPointerCompare(tid, &begin.tid) < 0)
			continue;
		if (n == max)
		{
			next->id = id;
			if (id == ids[n - 1])
				next->tid = *tid;
			break;
		}
		ids[n] = id;
		tids[n++] = *tid;
	}
	index_endscan(scan);
	index_close(index, AccessShareLock);
	return n;
}

/*
 * The first group after that of *hash and *class that has entries of overflow, of
 * that class or a later one of the same key.  To begin: the lowest hash, class -1.
 * False: there is none.  A class may be any number, as somebody wrote it with SQL.
 */
bool
queue_index_overflow_after(Relation rel, QueueInfo *info, int64 *hash, int64 *class)
{
	Relation	index = index_open(info->overflow_index, AccessShareLock);
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
		scan = fairq_index_beginscan(rel, index, SnapshotAny, 2 - attempt);
		scan->xs_want_itup = true;
		index_rescan(scan, keys, 2 - attempt, NULL, 0);
		if (index_getnext_tid(scan, ForwardScanDirection) != NULL)
		{
			bool		isnull;

			*hash = DatumGetInt64(index_getattr(scan->xs_itup, 1,
												scan->xs_itupdesc, &isnull));
			*class = DatumGetInt64(index_getattr(scan->xs_itup, 2,
												 scan->xs_itupdesc, &isnull));
			found = true;
		}
		index_endscan(scan);
	}
	index_close(index, AccessShareLock);
	return found;
}

/*
 * Is there anything in the overflow of any group, or was there a while ago?
 */
bool
queue_index_has_overflow(Relation rel, QueueInfo *info)
{
	Relation	index = index_open(info->overflow_index, AccessShareLock);
	IndexScanDesc scan = fairq_index_beginscan(rel, index, SnapshotAny, 0);
	bool		found;

	index_rescan(scan, NULL, 0, NULL, 0);
	found = (index_getnext_tid(scan, ForwardScanDirection) != NULL);
	index_endscan(scan);
	index_close(index, AccessShareLock);
	return found;
}

/*
 * Find the row of a task by id, through the index.
 */
bool
queue_index_find(Relation rel, QueueInfo *info, int64 id, Snapshot snapshot,
					ItemPointer tid)
{
	Relation	index = index_open(info->id_index, AccessShareLock);
	IndexScanDesc scan;
	ScanKeyData key;
	TupleTableSlot *slot;
	bool		found;

	slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsBufferHeapTuple);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	scan = fairq_index_beginscan(rel, index, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, slot);
	if (found)
		*tid = slot->tts_tid;
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	return found;
}
