/*-------------------------------------------------------------------------
 *
 * task_pages.c
 *	  Parts of a queue, and of its archive, that take as long however many tasks
 *	  there are.
 *
 * They are for pages of the dashboard, which has the privileges of an operator
 * and must not run what a queue's owner has put into indexes and constraints:
 * so it reads no table of a queue with SQL, whose planner runs that.  A page
 * names tasks; get_task and get_done_task say what they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "sql/result_rows.h"
#include "storage/archive.h"
#include "storage/queue_open.h"
#include "storage/row_reader.h"
#include "storage/row_scan.h"

PG_FUNCTION_INFO_V1(fairq_tasks_page);
PG_FUNCTION_INFO_V1(fairq_done_page);
PG_FUNCTION_INFO_V1(fairq_get_done_task);

/* Rows that are looked at, and tasks that are found, at most. */
#define PAGE_ROWS	100000
#define PAGE_TASKS	10000

/* What is asked for, and what was found. */
typedef struct TaskPage
{
	RowReader	row;
	TaskFilter	wanted;
	int			max_tasks;
	int			n;
	Datum	   *ids;
	int64		last;			/* looked at */
} TaskPage;

/* How many rows are looked at, and tasks found: arguments from number on. */
static void
page_arguments(FunctionCallInfo fcinfo, int number, int *max_rows, int *max_tasks)
{
	*max_rows = arguments_number(fcinfo, number, "max_rows", 1, PAGE_ROWS,
								 psprintf("Give a number from 1 to %d.", PAGE_ROWS));
	*max_tasks = arguments_number(fcinfo, number + 1, "max_tasks", 1, PAGE_TASKS,
								  psprintf("Give a number from 1 to %d.", PAGE_TASKS));
}

/* Look at one row. */
static void
look_at(TaskPage *page, HeapTuple tuple)
{
	LeaseInfo	lease;
	bool		leased;

	row_reader_take(&page->row, tuple);
	page->last = DatumGetInt64(row_value(&page->row, COLUMN_ID));
	if (inspect_tasks_look(&page->row, &page->wanted, &lease, &leased) != NULL)
		page->ids[page->n++] = Int64GetDatum(page->last);
}

/* The tasks behind one, by id.  Returns whether there may be more. */
static bool
look_at_rows(TaskPage *page, int64 after, int max_rows)
{
	RowScan		scan;
	HeapTuple	tuple = NULL;

	row_scan_begin_after(&scan, page->row.rel, page->row.info, after);
	for (int rows = 0; rows < max_rows && page->n < page->max_tasks; rows++)
	{
		tuple = row_scan_next(&scan);
		if (tuple == NULL)
			break;
		look_at(page, tuple);
	}
	row_scan_end(&scan);
	return tuple != NULL;
}

static int
compare_ids(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

/* As look_at_rows, of those that are leased, found by their leases. */
static bool
look_at_leased(TaskPage *page, int64 after, int max_rows)
{
	LeaseInfo  *leases;
	int			all = leases_list(&leases);
	Size		size = ((Size) all + 1) * sizeof(int64);
	int64	   *ids = MemoryContextAllocHuge(CurrentMemoryContext, size);
	int			n = 0;
	int			at = 0;

	for (int i = 0; i < all; i++)
	{
		if (leases[i].queue == queue_state_number(page->row.info->state) && leases[i].task > after)
			ids[n++] = leases[i].task;
	}
	qsort(ids, n, sizeof(int64), compare_ids);
	for (; at < n && at < max_rows && page->n < page->max_tasks; at++)
	{
		HeapTuple	tuple = row_scan_task(page->row.rel, page->row.info, ids[at]);

		CHECK_FOR_INTERRUPTS();
		page->last = ids[at];
		if (tuple != NULL)
			look_at(page, tuple);
	}
	pfree(ids);
	pfree(leases);
	return at < n;
}

/*
 * fairq_internal.tasks_page(queue, after_id, max_rows, max_tasks, state,
 * group_key): of the tasks with higher ids the first max_rows are looked at.
 * Returns the ids of those in the state and of the group asked for, up to
 * max_tasks, and the id where the next page begins; null: that was all.
 */
Datum
fairq_tasks_page(PG_FUNCTION_ARGS)
{
	TaskPage	page = {0};
	QueueInfo  *info;
	Relation	rel;
	ResultRow	row = {0};
	int64		after = PG_ARGISNULL(1) ? PG_INT64_MIN : PG_GETARG_INT64(1);
	int			max_rows;
	bool		more;

	arguments_require_preload(fcinfo);
	(void) arguments_queue(fcinfo);
	page_arguments(fcinfo, 2, &max_rows, &page.max_tasks);
	inspect_tasks_wanted(fcinfo, 4, &page.wanted);
	info = queue_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
	row_reader_begin(&page.row, rel, info);
	page.ids = palloc_array(Datum, page.max_tasks);
	more = page.wanted.state != NULL && strcmp(page.wanted.state, "leased") == 0 ?
		look_at_leased(&page, after, max_rows) : look_at_rows(&page, after, max_rows);
	row_reader_end(&page.row);
	relation_close(rel, NoLock);

	result_rows_add(&row, PointerGetDatum(result_rows_array(page.ids, page.n, INT8OID)));
	result_rows_add_if(&row, more, Int64GetDatum(page.last));
	return result_rows_composite(&row, fcinfo);
}

/* The name of the queue in argument 0. */
static void
queue_name(FunctionCallInfo fcinfo, char *name)
{
	queue_catalog_check_name(arguments_queue(fcinfo), name);
}

/*
 * fairq_internal.done_page(queue, before, before_id, max_rows, max_tasks,
 * outcome, group_key): as tasks_page, of done tasks, the latest first, from
 * before a time and an id on; null: from the latest.
 */
Datum
fairq_done_page(PG_FUNCTION_ARGS)
{
	ArchivePage page = {0};
	ResultRow	row = {0};
	char		name[NAMEDATALEN];

	arguments_require_preload(fcinfo);
	queue_name(fcinfo, name);
	page.before = PG_ARGISNULL(1) ? DT_NOEND : PG_GETARG_TIMESTAMPTZ(1);
	page.before_id = PG_ARGISNULL(2) ? PG_INT64_MIN : PG_GETARG_INT64(2);
	page_arguments(fcinfo, 3, &page.max_rows, &page.max_tasks);
	page.outcome = PG_ARGISNULL(5) ? NULL : PG_GETARG_TEXT_PP(5);
	page.group = PG_ARGISNULL(6) ? NULL : PG_GETARG_TEXT_PP(6);
	page.times = palloc_array(Datum, page.max_tasks);
	page.ids = palloc_array(Datum, page.max_tasks);
	archive_page(name, &page);

	result_rows_add(&row, PointerGetDatum(result_rows_array(page.ids, page.n, INT8OID)));
	result_rows_add(&row, PointerGetDatum(result_rows_array(page.times, page.n, TIMESTAMPTZOID)));
	result_rows_add_if(&row, page.more, TimestampTzGetDatum(page.last_time));
	result_rows_add_if(&row, page.more, Int64GetDatum(page.last_id));
	return result_rows_composite(&row, fcinfo);
}

/*
 * fairq.get_done_task(queue, id, done_at): what the archive has of a task.
 */
Datum
fairq_get_done_task(PG_FUNCTION_ARGS)
{
	char		name[NAMEDATALEN];

	arguments_require_preload(fcinfo);
	queue_name(fcinfo, name);
	(void) arguments_id(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	archive_put_task((ReturnSetInfo *) fcinfo->resultinfo, name, PG_GETARG_INT64(1),
					 PG_ARGISNULL(2) ? DT_NOEND : PG_GETARG_TIMESTAMPTZ(2));
	return (Datum) 0;
}
