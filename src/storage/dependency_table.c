/*-------------------------------------------------------------------------
 *
 * dependency_table.c
 *	  The table of which tasks wait for which others.
 *
 * A row of fairq.dependency says that a held task waits for the end of another
 * one, its predecessor.  It is written with the task, or when that is
 * replaced.  It is deleted when the predecessor has ended, or the task has; if
 * the predecessor has failed it may say that instead.  The table is one for all
 * queues of the database, an ordinary one: a dump has its rows, and a rollback
 * undoes them.
 *
 * Rows are read as they are at present, uncommitted ones included: whoever
 * reads decides what it means that another transaction has one in hand.  They
 * are inserted with SQL, as the owner of the table, who may have changed it;
 * that needs no privileges of producers.  They are deleted past the executor,
 * for also a transaction with an old snapshot deletes what is there now.
 *
 * A trigger tells successor_filter.c of rows, however they come.
 *
 * Locking: the caller has the queue's table locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "common/contracts.h"
#include "storage/dependency_table.h"
#include "storage/own_table.h"
#include "xact/pending_queue.h"

#define TABLE_NAME		"dependency"
#define BY_TASK			"dependency_by_task"
#define BY_PREDECESSOR	"dependency_by_predecessor"

/* The columns of the table, as sql/install makes them. */
#define DEPENDENCY_TASK			2
#define DEPENDENCY_PREDECESSOR	3
#define DEPENDENCY_ON_DEAD		4
#define DEPENDENCY_FAILED		5

PG_FUNCTION_INFO_V1(fairq_dependency_written);

/*
 * Read rows of a queue: those whose column, the second of the index, is equal
 * to value, and whose third is from or more; or (all) those whose second is
 * value or more.
 */
static void
begin_scan(OwnScan *scan, QueueInfo *info, const char *index, int64 value,
		   int64 from, bool all)
{
	bool		by_task = (strcmp(index, BY_TASK) == 0);
	ScanKeyData keys[3];

	ScanKeyInit(&keys[1], by_task ? DEPENDENCY_TASK : DEPENDENCY_PREDECESSOR,
				all ? BTGreaterEqualStrategyNumber : BTEqualStrategyNumber,
				all ? F_INT8GE : F_INT8EQ, Int64GetDatum(value));
	ScanKeyInit(&keys[2], by_task ? DEPENDENCY_PREDECESSOR : DEPENDENCY_TASK,
				BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(from));
	own_table_scan(scan, own_table_open(QUEUE_SCHEMA, TABLE_NAME, RowExclusiveLock), index,
				   info->name, keys, all ? 2 : 3);
}

static bool
next_row(OwnScan *scan, ScanDirection direction, Dependency *row)
{
	HeapTuple	tuple = systable_getnext_ordered(scan->scan, direction);

	if (tuple == NULL)
		return false;
	row->task = DatumGetInt64(own_table_column(scan->table, tuple, DEPENDENCY_TASK));
	row->predecessor = DatumGetInt64(own_table_column(scan->table, tuple, DEPENDENCY_PREDECESSOR));
	row->on_dead = DatumGetChar(own_table_column(scan->table, tuple, DEPENDENCY_ON_DEAD));
	row->failed = DatumGetBool(own_table_column(scan->table, tuple, DEPENDENCY_FAILED));
	row->writer = scan->dirty.xmin;
	row->busy = own_table_busy(scan);
	row->tid = tuple->t_self;
	return true;
}

static void
end_scan(OwnScan *scan)
{
	own_table_scan_end(scan);
	table_close(scan->table, NoLock);
}

static int
read_rows(QueueInfo *info, const char *index, int64 value, int64 from, int max,
		  Dependency *rows)
{
	OwnScan		scan;
	int			n = 0;

	AssertOidLocked(info->relation);
	Assert(max > 0);
	begin_scan(&scan, info, index, value, from, false);
	while (n < max && next_row(&scan, ForwardScanDirection, &rows[n]))
		n++;
	end_scan(&scan);
	return n;
}

/*
 * The rows of a predecessor, up to max, of tasks from an id on.  Returns how
 * many.
 */
int
dependency_table_of_predecessor(QueueInfo *info, int64 predecessor, int64 from,
								int max, Dependency *rows)
{
	return read_rows(info, BY_PREDECESSOR, predecessor, from, max, rows);
}

/*
 * The rows of a task, up to max, of predecessors from an id on.  Returns how
 * many.
 */
int
dependency_table_of_task(QueueInfo *info, int64 task, int64 from, int max, Dependency *rows)
{
	return read_rows(info, BY_TASK, task, from, max, rows);
}

/*
 * All rows of a queue by task and predecessor, from those on, up to max.
 * Returns how many.
 */
int
dependency_table_all(QueueInfo *info, int64 task, int64 from, int max, Dependency *rows)
{
	OwnScan		scan;
	int			n = 0;

	AssertOidLocked(info->relation);
	Assert(max > 0);
	begin_scan(&scan, info, BY_TASK, task, 0, true);
	while (n < max && next_row(&scan, ForwardScanDirection, &rows[n]))
	{
		CHECK_FOR_INTERRUPTS();
		if (rows[n].task > task || rows[n].predecessor >= from)
			n++;
	}
	end_scan(&scan);
	return n;
}

/*
 * Does a task wait for others, beside those that are in the hands of other
 * transactions?  If not, *busy: for these.
 *
 * From the last one on: tasks end about in the order of their ids.  So the
 * last of many is the one that is there still, and to look costs as little for
 * each of ten thousand as for one.
 */
bool
dependency_table_last(QueueInfo *info, int64 task, bool *busy)
{
	OwnScan		scan;
	Dependency	row;
	bool		found = false;

	AssertOidLocked(info->relation);
	*busy = false;
	begin_scan(&scan, info, BY_TASK, task, PG_INT64_MIN, false);
	while (!found && next_row(&scan, BackwardScanDirection, &row))
	{
		CHECK_FOR_INTERRUPTS();
		found = !row.busy;
		*busy |= row.busy;
	}
	end_scan(&scan);
	return found;
}

/*
 * Does any task wait for a task, or may do so soon?
 */
bool
dependency_table_waited_for(QueueInfo *info, int64 task)
{
	Dependency	row;

	return dependency_table_of_predecessor(info, task, PG_INT64_MIN, 1, &row) > 0;
}

/*
 * Delete a row that no other transaction is writing.  Returns false if another
 * one has deleted it, or has it in hand and wait is false.
 */
bool
dependency_table_delete(QueueInfo *info, const Dependency *row, bool wait)
{
	Relation	table = own_table_open(QUEUE_SCHEMA, TABLE_NAME, RowExclusiveLock);
	ItemPointerData tid = row->tid;
	TM_FailureData tmfd;
	bool		deleted;

	AssertOidLocked(info->relation);
	Assert(!TransactionIdIsValid(row->writer));
	deleted = (heap_delete(table, &tid, GetCurrentCommandId(true), InvalidSnapshot, wait,
						   &tmfd, false) == TM_Ok);
	table_close(table, NoLock);
	return deleted;
}

/*
 * Write rows.
 */
void
dependency_table_insert(QueueInfo *info, const NewDependencies *rows)
{
	static OwnStatement insert = {
		.text = "INSERT INTO " QUEUE_SCHEMA "." TABLE_NAME
		" (queue, task, predecessor, on_dead, failed)"
		" SELECT $1, $2, predecessor, $4, $5 FROM pg_catalog.unnest($3) AS predecessor",
		.parameters = 5,
		.types = {TEXTOID, INT8OID, INT8ARRAYOID, CHAROID, BOOLOID}
	};
	Datum	   *elements = palloc(rows->n * sizeof(Datum));
	Datum		values[5];

	AssertOidLocked(info->relation);
	Assert(rows->n > 0 && rows->task != 0);
	values[0] = CStringGetTextDatum(info->name);
	values[1] = Int64GetDatum(rows->task);
	for (int i = 0; i < rows->n; i++)
		elements[i] = Int64GetDatum(rows->predecessors[i]);
	values[2] = PointerGetDatum(construct_array(elements, rows->n, INT8OID, sizeof(int64),
												FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	values[3] = CharGetDatum(rows->on_dead);
	values[4] = BoolGetDatum(rows->failed);
	own_table_run(QUEUE_SCHEMA, TABLE_NAME, &insert, values);
	pfree(elements);
}

/*
 * fairq_internal.dependency_written(): row trigger after INSERT, UPDATE or
 * DELETE of the table.  Rows may come and go with SQL, from a dump or another
 * server; a task that waits for less is looked at.
 */
Datum
fairq_dependency_written(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = own_table_trigger(fcinfo, QUEUE_SCHEMA, TABLE_NAME,
											 TRIGGER_EVENT_AFTER | TRIGGER_EVENT_ROW);
	Relation	table = trigger->tg_relation;
	HeapTuple	old = trigger->tg_trigtuple;
	QueueState *state = queue_catalog_state_of_row(table, old);

	if (state == NULL)
		PG_RETURN_POINTER(NULL);
	if (!TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
	{
		Datum		task = own_table_column(table, old, DEPENDENCY_TASK);

		pending_task_held(state, DatumGetInt64(task), 0);
	}
	if (!TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
	{
		Datum		predecessor = own_table_column(table, own_table_new_row(trigger),
												   DEPENDENCY_PREDECESSOR);

		successor_filter_add(&state->successors, DatumGetInt64(predecessor));
	}
	PG_RETURN_POINTER(NULL);
}
