/*-------------------------------------------------------------------------
 *
 * count_dependencies.c
 *	  Counting which tasks others wait for.
 *
 * After a start, and now and then, all rows of a queue in fairq.dependency are
 * read, some at a time, and successor_filter.c is told of them.  Those of tasks
 * that are not held any more are deleted: the tasks were purged, or removed by
 * TRUNCATE.
 *
 * What a transaction has itself deleted it does not see, and a rollback would
 * bring it back.  So only one reads that has written nothing yet.
 *
 * Locking: the maintenance lock.  Nothing is waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "maintenance/maintain.h"
#include "storage/dependency_table.h"
#include "storage/row_reader.h"

/* How often to read them again, if there are any: few, or more than that. */
#define RECOUNT_USECS	USECS_PER_MINUTE
#define RECOUNT_MANY_USECS	USECS_PER_HOUR

/* Rows that are read at a time. */
#define READ_ROWS		10000

/*
 * Is a task held, or perhaps?
 */
static bool
is_held(RowReader *row, int64 task)
{
	RowStatus	status = row_reader_task(row, task, NULL);

	if (status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT)
		return true;
	return status != ROW_GONE && DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_HELD;
}

void
count_dependencies(Pass *pass)
{
	QueueInfo  *info = pass->info;
	QueueSuccessors *successors = &info->state->successors;
	Dependency *rows;
	RowReader	row;
	int64		task = 0;
	bool		held = false;
	int			n;

	AssertMaintenanceLocked(pass->rel);
	if (likely(!successors->counting && !successor_filter_is_stale(successors) &&
			   (successors->recount_at > pass->now || !successor_filter_any(successors))))
		return;
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
	{
		pass_again(pass, pass->now + USECS_PER_SEC);
		return;
	}
	if (!successors->counting)
	{
		successor_filter_count_begins(successors);
		successors->counting = true;
		successors->recount_at = pass->now + RECOUNT_USECS;
		successors->next_task = successors->next_predecessor = PG_INT64_MIN;
	}
	rows = palloc(READ_ROWS * sizeof(Dependency));
	n = dependency_table_all(info, successors->next_task, successors->next_predecessor,
							 READ_ROWS, rows);
	row_reader_begin(&row, pass->rel, info);
	row.brief = true;
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i == 0 || rows[i].task != task)
			held = is_held(&row, rows[i].task);
		task = rows[i].task;
		successor_filter_add(successors, rows[i].predecessor);
		/* Once more after that, which may be rolled back. */
		if (!held && !rows[i].busy && dependency_table_delete(info, &rows[i], false))
			successor_filter_recount(successors);
		successors->next_task = task;
		successors->next_predecessor = rows[i].predecessor + 1;
	}
	row_reader_end(&row);
	pfree(rows);
	if (n == READ_ROWS)
	{
		successors->recount_at = pass->now + RECOUNT_MANY_USECS;
		pass->more = true;
		return;
	}
	successors->counting = false;
	successor_filter_count_ends(successors);
	if (successor_filter_is_stale(successors))
		pass_again(pass, pass->now + USECS_PER_SEC);
	else if (successor_filter_any(successors))
		pass_again(pass, successors->recount_at);
}
