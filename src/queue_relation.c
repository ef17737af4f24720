/*-------------------------------------------------------------------------
 *
 * queue_relation.c
 *	  The rows of a queue: with row_reader.c the only reader and writer of queue
 *	  tables.
 *
 * Indexes are read here, without looking at rows, and rows are written, past the
 * executor: through heap_multi_insert, which writes one WAL record a page.  What
 * the executor would do around a write is done here: constraints, defaults of a
 * user's columns, all indexes.  What is not done is refused when the queue is
 * opened (queue_table.c).
 *
 * Locking: the caller has a lock on the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_type_d.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "rewrite/rewriteHandler.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "queue_relation.h"
#include "settings.h"
#include "wakeup.h"

/* Rows that are written in one go. */
#define INSERT_BATCH	1000

/* Strategy number and procedure of >= of fairq.address. */
static FmgrInfo address_ge;
static Oid	address_opfamily = InvalidOid;

/* ----------------------------------------------------------------
 * Reading indexes
 * ----------------------------------------------------------------
 */

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
queue_relation_walk(Relation rel, QueueInfo *info, Lane *lane,
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
queue_relation_look(Relation rel, QueueInfo *info, Lane *lane,
					const LaneEntry *from, int max,
					LaneEntry *entries, LaneEntry *next, bool *more)
{
	LaneEntry	start = *from;
	LaneEntry  *all;
	int			n = queue_relation_walk(rel, info, lane, &start, max, entries, next, more);
	int			offered;

	if (likely(lane->offered == 0))
		return n;
	all = palloc((n + LANE_WINDOW) * sizeof(LaneEntry));
	memcpy(all, entries, n * sizeof(LaneEntry));
	offered = lanes_copy_offered(lane, &start, *more ? next : NULL, all + n);
	qsort(all, n + offered, sizeof(LaneEntry), compare_entries);
	n += offered;
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
queue_relation_lane_after(Relation rel, QueueInfo *info, int *bucket, int *class)
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
queue_relation_due(Relation rel, QueueInfo *info, const DuePlace *from,
				   TimestampTz now, int max, DuePlace *entries, DuePlace *next)
{
	return read_places(rel, info->due_index, F_TIMESTAMPTZ_GE, from, now, max,
					   entries, next);
}

/*
 * The entries of tasks with ids below upto.
 */
int
queue_relation_ids(Relation rel, QueueInfo *info, const DuePlace *from,
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
queue_relation_overflow(Relation rel, QueueInfo *info, int64 hash, int class,
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
 * What to look for tasks with: the caller's snapshot, but that of a transaction
 * which keeps its own (REPEATABLE READ) is too old.  Claims, acks and passes
 * write what is there now; a task that was moved since would be seen twice once the
 * transaction has written it, or would still be there when it has removed it.
 *
 * The caller unregisters it.
 */
Snapshot
queue_relation_snapshot(void)
{
	return RegisterSnapshot(IsolationUsesXactSnapshot() ? GetLatestSnapshot() :
							GetActiveSnapshot());
}

/*
 * The first group after that of *hash and *class that has entries of overflow, of
 * that class or a later one of the same key.  To begin: the lowest hash, class -1.
 * False: there is none.
 */
bool
queue_relation_overflow_after(Relation rel, QueueInfo *info, int64 *hash, int *class)
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
					Int64GetDatum((int64) *class));
		scan = fairq_index_beginscan(rel, index, SnapshotAny, 2 - attempt);
		scan->xs_want_itup = true;
		index_rescan(scan, keys, 2 - attempt, NULL, 0);
		if (index_getnext_tid(scan, ForwardScanDirection) != NULL)
		{
			bool		isnull;

			*hash = DatumGetInt64(index_getattr(scan->xs_itup, 1,
												scan->xs_itupdesc, &isnull));
			*class = (int) DatumGetInt64(index_getattr(scan->xs_itup, 2,
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
queue_relation_has_overflow(Relation rel, QueueInfo *info)
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
queue_relation_find(Relation rel, QueueInfo *info, int64 id, Snapshot snapshot,
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

/* ----------------------------------------------------------------
 * Writing
 * ----------------------------------------------------------------
 */

/*
 * Get new ids for tasks: n or fewer, *got, from the result on.
 *
 * Ids come from a sequence in blocks, the sequence's increment, that are shared
 * between backends.  Whoever takes one has a transaction id: so, when no old
 * transaction is running any more, nobody is left who could use an old id
 * (sweep.c).
 */
int64
queue_relation_new_ids(QueueInfo *info, int n, int *got)
{
	int64		first;
	bool		wake_sweep;

	(void) GetTopTransactionId();
	*got = queue_state_take_ids(info->state, n, &first, &wake_sweep);
	while (*got == 0)
	{
		int64		block = nextval_internal(info->id_sequence, false);

		queue_state_give_ids(info->state, block, block + QUEUE_ID_BLOCK);
		*got = queue_state_take_ids(info->state, n, &first, &wake_sweep);
	}
	if (wake_sweep && settings_sweep_interval > 0)
		wakeup_at(MyDatabaseId, GetCurrentTimestamp() +
				  settings_sweep_interval * INT64CONST(1000));
	return first;
}

/* What writing rows needs beyond the rows. */
typedef struct WriteState
{
	EState	   *estate;
	ResultRelInfo *result;
	TupleTableSlot *slot;
} WriteState;

static void
write_begin(WriteState *state, Relation rel)
{
	if (state->estate != NULL)
		return;
	state->estate = CreateExecutorState();
	state->result = makeNode(ResultRelInfo);
	/* No range table, so no index into one. */
	InitResultRelInfo(state->result, rel, 0, NULL, 0);
	state->slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsHeapTuple);
}

static void
write_end(WriteState *state)
{
	if (state->estate == NULL)
		return;
	ExecDropSingleTupleTableSlot(state->slot);
	FreeExecutorState(state->estate);
	state->estate = NULL;
}

/*
 * A user's columns get their defaults.
 */
static void
fill_defaults(WriteState *state, Relation rel, QueueInfo *info,
			  Datum *values, bool *nulls)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);

	write_begin(state, rel);
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		Expr	   *expr;
		bool		ours = false;

		for (int c = 0; c < QUEUE_COLUMNS; c++)
			ours |= (info->columns[c] == att->attnum);
		if (ours || att->attisdropped)
			continue;
		expr = (Expr *) build_column_default(rel, att->attnum);
		if (expr != NULL)
			values[i] = ExecEvalExpr(ExecPrepareExpr(expr, state->estate),
									 GetPerTupleExprContext(state->estate),
									 &nulls[i]);
	}
}

static void
check_constraints(WriteState *state, Relation rel, HeapTuple tuple)
{
	write_begin(state, rel);
	ExecStoreHeapTuple(tuple, state->slot, false);
	if (rel->rd_att->constr != NULL)
		ExecConstraints(state->result, state->slot, state->estate);
	ExecClearTuple(state->slot);
}

/*
 * The column, by attribute number - 1, that an index of ours is on; -1: it is a
 * user's, or on more than that.
 */
static int
index_column(QueueInfo *info, Oid index)
{
	if (index == info->id_index || index == info->held_index)
		return info->columns[COLUMN_ID] - 1;
	if (index == info->address_index)
		return info->columns[COLUMN_ADDRESS] - 1;
	if (index == info->due_index)
		return info->columns[COLUMN_RUN_AT] - 1;
	if (index == info->key_index)
		return info->columns[COLUMN_UNIQUE_KEY] - 1;
	return -1;
}

/*
 * Has a row an entry in an index?  The predicates of ours, in C; those of a
 * user's are looked at later.
 */
static bool
has_entry(QueueInfo *info, Oid index, const Datum *values, const bool *nulls)
{
	char		state = DatumGetChar(values[info->columns[COLUMN_STATE] - 1]);

	if (index == info->address_index)
		return !nulls[info->columns[COLUMN_ADDRESS] - 1];
	if (index == info->due_index)
		return state == TASK_SCHEDULED;
	if (index == info->overflow_index)
		return state == TASK_OVERFLOW;
	if (index == info->held_index)
		return state == TASK_HELD;
	if (index == info->key_index)
		return state != TASK_DEAD && !nulls[info->columns[COLUMN_UNIQUE_KEY] - 1];
	return true;
}

/*
 * Enter rows into all indexes of the table.
 */
static void
insert_index_entries(WriteState *state, Relation rel, QueueInfo *info, int n,
					 HeapTuple *tuples, Datum **values, bool **nulls)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Oid			oid = lfirst_oid(lc);
		Relation	index;
		IndexInfo  *index_info;
		IndexUniqueCheck unique;
		int			column = index_column(info, oid);
		ExprState  *predicate = NULL;
		bool		any = false;

		/* Most rows are in few of them. */
		for (int i = 0; i < n && !any; i++)
			any = has_entry(info, oid, values[i], nulls[i]);
		if (!any)
			continue;

		index = index_open(oid, RowExclusiveLock);
		index_info = BuildIndexInfo(index);
		unique = index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO;

		if (!index_info->ii_ReadyForInserts)
		{
			index_close(index, RowExclusiveLock);
			continue;
		}

		/* Our own need no executor, but for the overflow's. */
		if (column < 0)
		{
			write_begin(state, rel);
			GetPerTupleExprContext(state->estate)->ecxt_scantuple = state->slot;
			predicate = ExecPrepareQual(index_info->ii_Predicate, state->estate);
		}

		for (int i = 0; i < n; i++)
		{
			Datum		index_values[INDEX_MAX_KEYS];
			bool		index_nulls[INDEX_MAX_KEYS];

			if (!has_entry(info, oid, values[i], nulls[i]) ||
				(column >= 0 && nulls[i][column]))
				continue;
			if (column >= 0)
			{
				index_values[0] = values[i][column];
				index_nulls[0] = false;
			}
			else
			{
				ExecStoreHeapTuple(tuples[i], state->slot, false);
				ResetPerTupleExprContext(state->estate);
				if (predicate != NULL &&
					!ExecQual(predicate, GetPerTupleExprContext(state->estate)))
					continue;
				FormIndexDatum(index_info, state->slot, state->estate,
							   index_values, index_nulls);
			}
			index_insert(index, index_values, index_nulls, &tuples[i]->t_self,
						 rel, unique, false, index_info);
		}
		if (column < 0)
			ExecClearTuple(state->slot);
		fairq_index_insert_cleanup(index, index_info);
		index_close(index, RowExclusiveLock);
	}
	list_free(indexes);
}

/*
 * How many attributes of a row have to be stored.  Those at its end that are
 * null, or what their columns were added with, are left out: a row that ends
 * early reads like one from before there were these columns.  Most rows then
 * have no nulls, either, and their headers are shorter.
 */
static int
stored_attributes(TupleDesc tupdesc, const Datum *values, const bool *nulls)
{
	int			n = tupdesc->natts;

	while (n > 1)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, n - 1);
		bool		missing_null = true;
		Datum		missing = 0;

		if (att->atthasmissing)
			missing = getmissingattr(tupdesc, n, &missing_null);
		if (nulls[n - 1] != missing_null ||
			(!missing_null && (!att->attbyval || values[n - 1] != missing)))
			break;
		n--;
	}
	return n;
}

static void
insert_batch(WriteState *state, Relation rel, QueueInfo *info, int n,
			 Datum **values, bool **nulls, ItemPointer tids)
{
	HeapTuple  *tuples = palloc(n * sizeof(HeapTuple));
	TupleDesc	tupdesc = RelationGetDescr(rel);
	TupleDesc	stored = CreateTupleDescCopy(tupdesc);
	CommandId	cid = GetCurrentCommandId(true);

	/* Of no type: it is not one whose values could be told apart by version. */
	stored->tdtypeid = RECORDOID;
	for (int i = 0; i < n; i++)
	{
		if (!info->plain)
			fill_defaults(state, rel, info, values[i], nulls[i]);
		stored->natts = stored_attributes(tupdesc, values[i], nulls[i]);
		tuples[i] = heap_form_tuple(stored, values[i], nulls[i]);
		tuples[i]->t_tableOid = RelationGetRelid(rel);
		if (!info->plain)
			check_constraints(state, rel, tuples[i]);
	}

	if (n == 1)
		heap_insert(rel, tuples[0], cid, 0, NULL);
	else
	{
		TupleTableSlot **slots = palloc(n * sizeof(TupleTableSlot *));

		/*
		 * The tuples are the slots' own, which saves a copy of each.  All of it
		 * goes with the memory context.
		 */
		for (int i = 0; i < n; i++)
		{
			slots[i] = MakeSingleTupleTableSlot(stored, &TTSOpsHeapTuple);
			ExecStoreHeapTuple(tuples[i], slots[i], true);
		}
		heap_multi_insert(rel, slots, n, cid, 0, NULL);
		for (int i = 0; i < n; i++)
			tuples[i]->t_self = slots[i]->tts_tid;
	}
	insert_index_entries(state, rel, info, n, tuples, values, nulls);
	for (int i = 0; i < n; i++)
		tids[i] = tuples[i]->t_self;
}

/*
 * Insert n rows, given by attribute number - 1, and say where they are.
 */
void
queue_relation_insert(Relation rel, QueueInfo *info, int n,
					  Datum **values, bool **nulls, ItemPointer tids)
{
	MemoryContext batch_context;
	MemoryContext old;
	WriteState	state = {0};

	if (n == 1)
	{
		insert_batch(&state, rel, info, 1, values, nulls, tids);
		write_end(&state);
		return;
	}

	batch_context = AllocSetContextCreate(CurrentMemoryContext,
										  "pgfairq insert",
										  ALLOCSET_DEFAULT_SIZES);
	for (int done = 0; done < n; done += INSERT_BATCH)
	{
		CHECK_FOR_INTERRUPTS();
		old = MemoryContextSwitchTo(batch_context);
		insert_batch(&state, rel, info, Min(INSERT_BATCH, n - done),
					 values + done, nulls + done, tids + done);
		write_end(&state);
		MemoryContextSwitchTo(old);
		MemoryContextReset(batch_context);
	}
	MemoryContextDelete(batch_context);
}

/*
 * What became of a write to a row that only its lease's holder, an owner or a
 * user with SQL of his own may touch.  Returns whether it was done.
 */
static bool
written(TM_Result result)
{
	switch (result)
	{
		case TM_Ok:
			return true;
		case TM_SelfModified:
		case TM_Updated:
		case TM_Deleted:
		case TM_Invisible:
			return false;
		case TM_BeingModified:
		case TM_WouldBlock:
			return false;		/* and we were not to wait */
	}
	return false;
}

/*
 * Delete the row at a TID.  Returns false if somebody else did, or moved it, or
 * has it locked and wait is false.
 */
bool
queue_relation_delete(Relation rel, const ItemPointerData *tid, bool wait)
{
	TM_FailureData tmfd;
	ItemPointerData at = *tid;

	return written(heap_delete(rel, &at, GetCurrentCommandId(true),
							   InvalidSnapshot, wait, &tmfd, false));
}

/*
 * Replace the row at *tid by one with these values, and set *tid to where it
 * is.  Returns false if somebody else changed it, or has it locked and wait is
 * false.
 */
bool
queue_relation_update(Relation rel, QueueInfo *info, ItemPointer tid,
					  Datum *values, bool *nulls, bool wait)
{
	WriteState	state = {0};
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	TM_FailureData tmfd;
	bool		needs_entries;
	bool		done;

	tuple->t_tableOid = RelationGetRelid(rel);
	if (!info->plain)
		check_constraints(&state, rel, tuple);
	done = written(fairq_heap_update(rel, tid, tuple, GetCurrentCommandId(true),
									 wait, &tmfd, &needs_entries));
	if (done && needs_entries)
		insert_index_entries(&state, rel, info, 1, &tuple, &values, &nulls);
	*tid = tuple->t_self;
	write_end(&state);
	return done;
}
