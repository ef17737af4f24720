/*-------------------------------------------------------------------------
 *
 * dependencies.c
 *	  What a held task waits for.
 *
 * A task is enqueued after others: it is held until all of them have ended.
 * Of those that have ended by then nothing is kept; for each of the others, its
 * predecessors, there is a row (dependency_table.c).  These rows say whether
 * the task may run, and not whether the rows of the predecessors are there.
 * There is one exception.
 *
 * Race: a predecessor ends before the enqueue has committed.  Whoever ends it
 * does not see the new rows as its own to delete, for they may yet be rolled
 * back.  So a pass looks at the task after the commit (held_pass.c): a
 * predecessor whose row is gone has ended (dependencies_look).  If it is there,
 * whoever ends it after that look sees the rows, and learns that there are some
 * (successor_filter.c), for they were before it.
 *
 * A row is locked for a moment before a commit only, or by a pass, and nothing
 * else is waited for then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/held_looks.h"
#include "verbs/held_tasks.h"
#include "xact/pending_ended.h"

/* Rows that are read at a time. */
#define READ_ROWS	1000

/* Is the task dead whose row was read, with this result? */
static bool
is_dead(RowReader *row, RowStatus status)
{
	return (status == ROW_LIVE || status == ROW_OWN) &&
		DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_DEAD;
}

/*
 * A task is going to be enqueued after others, whose ids rows->predecessors
 * has: leave those that it has to wait for.  What it means that one of them is
 * dead is seen to after the commit: it may be revived before, and end.
 */
void
dependencies_read(RowReader *row, NewDependencies *rows)
{
	int			n = 0;

	for (int i = 0; i < rows->n; i++)
	{
		int64		id = rows->predecessors[i];
		RowStatus	status = row_reader_task(row, id, NULL);

		CHECK_FOR_INTERRUPTS();
		if (status != ROW_GONE && !(rows->on_dead == ON_DEAD_RUN && is_dead(row, status)))
			rows->predecessors[n++] = id;
	}
	rows->n = n;
}

/*
 * Does a task wait for others, as far as the rows say?
 */
DependencyLook
dependencies_blocked(QueueInfo *info, int64 task)
{
	bool		busy;

	if (likely(!successor_filter_any(&info->state->successors)))
		return DEPENDENCIES_NONE;
	if (dependency_table_last(info, task, &busy))
		return DEPENDENCIES_OPEN;
	return busy ? DEPENDENCIES_BUSY : DEPENDENCIES_NONE;
}

/*
 * A predecessor has failed: have a row say so, which no other transaction is
 * writing.  One that is about to delete it is waited for, for a moment.
 */
void
dependencies_fail(QueueInfo *info, const Dependency *row)
{
	int64		predecessor = row->predecessor;
	NewDependencies rows = {
		.task = row->task,
		.on_dead = row->on_dead,
		.failed = true,
		.n = 1,
		.predecessors = &predecessor,
	};

	if (!row->failed && dependency_table_delete(info, row, true))
		dependency_table_insert(info, &rows);
}

/* A task does not wait any more, if no other transaction has the row. */
static DependencyLook
waits_not(QueueInfo *info, const Dependency *dependency)
{
	return dependency_table_delete(info, dependency, false) ?
		DEPENDENCIES_NONE : DEPENDENCIES_BUSY;
}

/*
 * Look at one predecessor.  What the row says of it may be out of date.
 */
static DependencyLook
look_at(RowReader *row, const Dependency *dependency)
{
	QueueInfo  *info = row->info;
	RowStatus	status;

	if (dependency->busy)
		return DEPENDENCIES_BUSY;
	if (dependency->failed)
		return dependency->on_dead == ON_DEAD_CANCEL ? DEPENDENCIES_CANCEL : DEPENDENCIES_OPEN;
	status = row_reader_task(row, dependency->predecessor, NULL);
	/* Ended by this transaction: its commit says how (successors.c). */
	if (status == ROW_GONE && pending_predecessors_has(info->state, dependency->predecessor))
		return DEPENDENCIES_BUSY;
	if (status == ROW_GONE)
		return waits_not(info, dependency);
	if (status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT)
		return DEPENDENCIES_BUSY;
	if (!is_dead(row, status))
		return DEPENDENCIES_OPEN;
	switch (dependency->on_dead)
	{
		case ON_DEAD_CANCEL:
			return DEPENDENCIES_CANCEL;
		case ON_DEAD_RUN:
			return waits_not(info, dependency);
	}
	dependencies_fail(info, dependency);
	return DEPENDENCIES_OPEN;
}

/*
 * Look at all predecessors of a task with row, and raise *result to what is
 * found; or (NULL) let it wait for none of them.  Returns how many there are.
 */
static int
look_at_all(QueueInfo *info, int64 task, RowReader *row, DependencyLook *result)
{
	Dependency *rows = palloc(READ_ROWS * sizeof(Dependency));
	int64		from = PG_INT64_MIN;
	int			looked = 0;
	int			n;

	do
	{
		n = dependency_table_of_task(info, task, from, READ_ROWS, rows);
		for (int i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (row != NULL)
			{
				DependencyLook look = look_at(row, &rows[i]);

				*result = Max(*result, look);
			}
			else if (!rows[i].busy)
				(void) waits_not(info, &rows[i]);
			from = rows[i].predecessor + 1;
		}
		looked += n;
	} while (n == READ_ROWS);
	pfree(rows);
	return looked;
}

/*
 * Look at all predecessors of a task, which may have ended unseen.  For a pass.
 * *looked is raised by how many were.
 */
DependencyLook
dependencies_look(Relation rel, QueueInfo *info, int64 task, int *looked)
{
	RowReader	row;
	DependencyLook result = DEPENDENCIES_NONE;

	Assert(task != 0);
	if (likely(!successor_filter_any(&info->state->successors)))
		return DEPENDENCIES_NONE;
	row_reader_begin(&row, rel, info);
	row.brief = true;
	*looked += look_at_all(info, task, &row, &result);
	row_reader_end(&row);
	return result;
}

/*
 * A task waits for nothing any more: it has ended.  What is in the hands of
 * other transactions stays for the next count (count_dependencies.c).
 */
void
dependencies_clear(QueueInfo *info, int64 task)
{
	if (unlikely(successor_filter_any(&info->state->successors)))
		(void) look_at_all(info, task, NULL, NULL);
}

/*
 * A new task waits for earlier ones only, so tasks cannot wait for each other
 * in a circle.  One that is replaced keeps its id, and may come to wait for
 * later ones: then no task may wait for it.
 */
void
dependencies_no_circle(QueueInfo *info, const NewDependencies *rows)
{
	int64		last = PG_INT64_MIN;

	for (int i = 0; i < rows->n; i++)
	{
		last = Max(last, rows->predecessors[i]);
		if (rows->predecessors[i] == rows->task)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("task " INT64_FORMAT " of queue \"%s\" cannot be replaced by one that waits for itself",
							rows->task, info->name),
					 errhint("Leave it out of \"after\".")));
	}
	if (last > rows->task && dependency_table_waited_for(info, rows->task))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("task " INT64_FORMAT " of queue \"%s\", for which others wait, cannot be replaced by one that waits for the later task " INT64_FORMAT,
						rows->task, info->name, last),
				 errhint("They might wait for each other. Wait for earlier tasks only, or cancel the task first.")));
}
