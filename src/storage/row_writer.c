/*-------------------------------------------------------------------------
 *
 * row_writer.c
 *	  The rows of a queue: writing them.
 *
 * Rows are written past the executor: through heap_multi_insert, which writes
 * one WAL record a page.  What the executor would do around a write is done
 * here: constraints, defaults of a user's columns, all indexes.  What is not
 * done is refused when the queue is opened (table_check.c).
 *
 * All of these are code of the queue's owner, and run as the owner, whichever
 * role writes: in a restricted context, which does nothing to the writer's
 * session (run_as.c).  That begins before the first look at an expression,
 * since merely to plan one runs functions of it whose arguments are
 * constants.
 *
 * Locking: the caller has a lock on the relation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type_d.h"
#include "commands/sequence.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "rewrite/rewriteHandler.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/run_as.h"
#include "common/settings.h"
#include "shmem/worker_slots.h"
#include "storage/queue_catalog.h"
#include "storage/row_reader.h"
#include "xact/pending_queue.h"

/* Rows that are written in one go. */
#define INSERT_BATCH	1000

/*
 * Blocks of ids to fetch in vain, for others are quicker to use them up, or the
 * sequence is behind; and after how many of them to see to the latter.
 */
#define MAX_BLOCKS		1000
#define BEHIND_BLOCKS	10

/*
 * Get new ids for tasks: n or fewer, *got, from the result on.
 *
 * Ids come from a sequence in blocks, the sequence's increment, that are
 * shared between backends.  A backend that takes one has a transaction id:
 * so, when no old transaction is running any more, none is left that could
 * use an old id (sweep.c).
 *
 * The sequence is the owner's, who may alter it at any moment.
 */
int64
row_writer_new_ids(QueueInfo *info, int n, int *got)
{
	int64		first;
	bool		wake_sweep;

	Assert(n > 0);
	(void) GetTopTransactionId();
	id_sequence_follow(info);
	*got = queue_state_take_ids(info->state, n, &first, &wake_sweep);
	for (int blocks = 1; *got == 0; blocks++)
	{
		int64		block;

		CHECK_FOR_INTERRUPTS();
		if (blocks > MAX_BLOCKS)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("could not allocate ids for queue \"%s\": the next one is " INT64_FORMAT,
							info->name, first),
					 errhint("Set its sequence to that with setval(); its increment must be %d.",
							 QUEUE_ID_BLOCK)));
		block = nextval_internal(info->id_sequence, false);
		queue_state_give_ids(info->state, block, block + QUEUE_ID_BLOCK);
		*got = queue_state_take_ids(info->state, n, &first, &wake_sweep);
		if (*got == 0 && blocks % BEHIND_BLOCKS == 0)
			id_sequence_advance(info, first);
	}
	if (wake_sweep && settings_sweep_interval > 0)
		worker_slots_wake_at(MyDatabaseId, GetCurrentTimestamp() +
							 settings_sweep_interval * INT64CONST(1000));
	return first;
}

/* What writing rows needs beyond the rows. */
typedef struct WriteState
{
	Relation	rel;
	QueueInfo  *info;
	EState	   *estate;
	ResultRelInfo *result;
	TupleTableSlot *slot;
	bool		as_owner;		/* we are the owner until write_end */
	RunAs		writer;			/* and were this before */
} WriteState;

/*
 * The owner's code is going to run: from now on as the owner.  A caller that
 * is the owner runs it as with an INSERT of its own.
 */
static void
write_as_owner(WriteState *state)
{
	if (state->as_owner || state->rel->rd_rel->relowner == GetUserId())
		return;
	run_as_owner(state->rel->rd_rel->relowner, RelationGetRelid(state->rel), &state->writer);
	state->as_owner = true;
}

static void
write_begin(WriteState *state)
{
	if (state->estate != NULL)
		return;
	state->estate = CreateExecutorState();
	state->result = makeNode(ResultRelInfo);
	/* No range table, so no index into one. */
	InitResultRelInfo(state->result, state->rel, 0, NULL, 0);
	state->slot = MakeSingleTupleTableSlot(RelationGetDescr(state->rel), &TTSOpsHeapTuple);
}

static void
write_end(WriteState *state)
{
	if (state->estate != NULL)
	{
		ExecDropSingleTupleTableSlot(state->slot);
		FreeExecutorState(state->estate);
		state->estate = NULL;
	}
	if (state->as_owner)
		run_as_end(&state->writer);
	state->as_owner = false;
}

/*
 * A user's columns get their defaults.
 */
static void
fill_defaults(WriteState *state, Datum *values, bool *nulls)
{
	Relation	rel = state->rel;
	TupleDesc	tupdesc = RelationGetDescr(rel);

	write_as_owner(state);
	write_begin(state);
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		Expr	   *expr;
		bool		ours = false;

		for (int c = 0; c < QUEUE_COLUMNS; c++)
			ours |= (state->info->columns[c] == att->attnum);
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
check_constraints(WriteState *state, HeapTuple tuple)
{
	write_as_owner(state);
	write_begin(state);
	ExecStoreHeapTuple(tuple, state->slot, false);
	if (state->rel->rd_att->constr != NULL)
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
	if (index == info->expiry_index)
		return info->columns[COLUMN_EXPIRES_AT] - 1;
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
	if (index == info->expiry_index)
		return state != TASK_DEAD && !nulls[info->columns[COLUMN_EXPIRES_AT] - 1];
	return true;
}

/*
 * Does an index of a user's have expressions, or a predicate?
 */
static bool
has_code(Relation index)
{
	return !heap_attisnull(index->rd_indextuple, Anum_pg_index_indexprs, NULL) ||
		table_check_index_is_partial(index);
}

/*
 * Enter rows into all indexes of the table, or those that sum up.
 */
static void
insert_index_entries(WriteState *state, IndexEntries entries, int n,
					 HeapTuple *tuples, Datum **values, bool **nulls)
{
	Relation	rel = state->rel;
	QueueInfo  *info = state->info;
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
		if (column < 0 && oid != info->overflow_index && has_code(index))
			write_as_owner(state);
		index_info = BuildIndexInfo(index);
		unique = index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO;

		if (!index_info->ii_ReadyForInserts ||
			(entries == ENTRIES_OF_SUMS && !fairq_index_sums_up(index_info)))
		{
			index_close(index, RowExclusiveLock);
			continue;
		}

		/* Our own need no executor, but for the overflow's. */
		if (column < 0)
		{
			write_begin(state);
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
 * A row is going to be written: if its task expires, the pass over what has
 * expired is to find it where it is then.
 */
static void
note_expiry(QueueInfo *info, const Datum *values, const bool *nulls)
{
	if (likely(nulls[info->columns[COLUMN_EXPIRES_AT] - 1]) ||
		DatumGetChar(values[info->columns[COLUMN_STATE] - 1]) == TASK_DEAD)
		return;
	pending_expiry(info->state,
				   DatumGetTimestampTz(values[info->columns[COLUMN_EXPIRES_AT] - 1]));
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
insert_batch(WriteState *state, int n, Datum **values, bool **nulls, ItemPointer tids)
{
	Relation	rel = state->rel;
	QueueInfo  *info = state->info;
	HeapTuple  *tuples = palloc(n * sizeof(HeapTuple));
	TupleDesc	tupdesc = RelationGetDescr(rel);
	TupleDesc	stored = CreateTupleDescCopy(tupdesc);
	CommandId	cid = GetCurrentCommandId(true);

	Assert(n > 0);
	/* Of no type: it is not one whose values could be told apart by version. */
	stored->tdtypeid = RECORDOID;
	for (int i = 0; i < n; i++)
	{
		if (!info->plain)
			fill_defaults(state, values[i], nulls[i]);
		note_expiry(info, values[i], nulls[i]);
		stored->natts = stored_attributes(tupdesc, values[i], nulls[i]);
		tuples[i] = heap_form_tuple(stored, values[i], nulls[i]);
		tuples[i]->t_tableOid = RelationGetRelid(rel);
		if (!info->plain)
			check_constraints(state, tuples[i]);
	}

	if (n == 1)
		heap_insert(rel, tuples[0], cid, 0, NULL);
	else
	{
		TupleTableSlot **slots = palloc(n * sizeof(TupleTableSlot *));

		/*
		 * The tuples are the slots' own, which saves a copy of each.  All of
		 * it goes with the memory context.
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
	insert_index_entries(state, ENTRIES_ALL, n, tuples, values, nulls);
	for (int i = 0; i < n; i++)
		tids[i] = tuples[i]->t_self;
}

/*
 * Insert n rows, given by attribute number - 1, and say where they are.
 */
void
row_writer_insert(Relation rel, QueueInfo *info, int n,
				  Datum **values, bool **nulls, ItemPointer tids)
{
	MemoryContext batch_context;
	MemoryContext old;
	WriteState	state = {
		.rel = rel,
		.info = info,
	};

	AssertRelationLocked(rel, RowExclusiveLock);
	Assert(n > 0);
	if (n == 1)
	{
		insert_batch(&state, 1, values, nulls, tids);
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
		insert_batch(&state, Min(INSERT_BATCH, n - done),
					 values + done, nulls + done, tids + done);
		write_end(&state);
		MemoryContextSwitchTo(old);
		MemoryContextReset(batch_context);
	}
	MemoryContextDelete(batch_context);
}

/*
 * Delete the row that was read.  Returns false if another transaction did, or
 * moved it, or has it locked and wait is false.
 */
bool
row_writer_delete(RowReader *row, bool wait)
{
	TM_FailureData tmfd;

	AssertRelationLocked(row->rel, RowExclusiveLock);
	Assert(ItemPointerIsValid(&row->tuple.t_self));
	return heap_delete(row->rel, &row->tuple.t_self, GetCurrentCommandId(true),
					   InvalidSnapshot, wait, &tmfd, false) == TM_Ok;
}

/*
 * Replace the row that was read by one with its values and nulls as they are
 * now, and set row->tuple.t_self to where it is.  Returns false if another
 * transaction changed it, or has it locked and wait is false.
 */
bool
row_writer_update(RowReader *row, bool wait)
{
	Relation	rel = row->rel;
	WriteState	state = {
		.rel = rel,
		.info = row->info,
	};
	HeapTuple	tuple = heap_form_tuple(RelationGetDescr(rel), row->values, row->nulls);
	TM_FailureData tmfd;
	IndexEntries entries;
	bool		done;

	AssertRelationLocked(rel, RowExclusiveLock);
	Assert(ItemPointerIsValid(&row->tuple.t_self));
	tuple->t_tableOid = RelationGetRelid(rel);
	if (!row->info->plain)
		check_constraints(&state, tuple);
	note_expiry(row->info, row->values, row->nulls);
	done = fairq_heap_update(rel, &row->tuple.t_self, tuple, GetCurrentCommandId(true), wait,
							 &tmfd, &entries) == TM_Ok;
	if (done && entries != ENTRIES_NONE)
		insert_index_entries(&state, entries, 1, &tuple, &row->values, &row->nulls);
	if (done)
		row->tuple.t_self = tuple->t_self;
	write_end(&state);
	return done;
}
