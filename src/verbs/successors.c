/*-------------------------------------------------------------------------
 *
 * successors.c
 *	  Tasks that wait for the end of another one learn of it.
 *
 * A transaction that ends a task which others wait for (fairq.enqueue's after)
 * looks after them just before it commits; not earlier, so that the rows are
 * locked for a moment only.  It deletes the rows which say that they wait for
 * it, or notes there that it has failed.  Whichever task then has no row left
 * becomes ready in this transaction.
 *
 * A task that ends is noted if any may wait for it by then; one that was not
 * done (cancelled, purged, expired) in any case.  Nothing but this note tells
 * how that one has ended once its row is gone.  So a task that is enqueued
 * after it, and committed, while the transaction is open learns that it has
 * failed.  A dead one has its row to say so, and one that was done is done for
 * those, too, when a pass finds it gone.
 *
 * The last of several.  Of a task that waits for ten thousand others no row of
 * its own is locked or written as they end, so these do not meet.  Whoever has
 * deleted a row reads the task's other rows: if one of them is there, and no
 * other transaction has it in hand, whoever ends that predecessor will look
 * again, and there is nothing to do.  If all that are left are in the hands of
 * transactions, it is not known which of these commits last, and whether: then
 * a pass looks at the task after the commit (held_pass.c).  Each of them sees
 * the others' rows until it sees them deleted, so at least one comes to that.
 *
 * Failure of an earlier task that means the end of the later one is passed on
 * by that pass, one task at a time: a transaction that cancels one task does
 * not find itself cancelling a million.
 *
 * A task that was replaced waits for others than before.  Its rows are written
 * here, too.  Rows are locked in the order of predecessor and task, so two
 * transactions do not wait for each other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

#include "verbs/held_tasks.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"

/* Rows that are read at a time. */
#define READ_ROWS	1000

/* Tasks that have ended: room at first. */
#define ENDED_ROOM	64

/* A predecessor that has ended. */
typedef struct Ended
{
	int64		task;
	PredecessorEnd end;
} Ended;

/*
 * A task waits for one less.  If that was the last one it becomes ready.
 */
static void
waits_for_less(HeldWork *work, int64 task)
{
	QueueInfo  *info = work->info;
	RowReader  *row = &work->row;
	RowStatus	status;
	ItemPointerData tid;
	bool		later;
	bool		busy;

	if (dependency_table_last(info, task, &busy))
		return;
	status = busy ? ROW_IN_PROGRESS : row_reader_task(row, task, NULL);
	later = (status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT);
	/* With a key, others of it have a say; see held_pass.c. */
	if ((status == ROW_LIVE || status == ROW_OWN) &&
		DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_HELD)
	{
		tid = row->tuple.t_self;
		later = !row_is_null(row, COLUMN_UNIQUE_KEY) ||
			!held_tasks_let_run(&work->placement, row, &tid);
	}
	if (later)
		pending_task_held(info->state, task, 0);
}

/*
 * A predecessor of a task has ended.
 */
static void
note_end(HeldWork *work, const Dependency *row, PredecessorEnd end)
{
	QueueInfo  *info = work->info;

	/* A row that is new is looked at after its transaction's commit. */
	if (TransactionIdIsValid(row->writer))
		return;
	if (end == PREDECESSOR_FAILED && row->on_dead != ON_DEAD_RUN)
	{
		dependencies_fail(info, row);
		if (row->on_dead == ON_DEAD_CANCEL)
			pending_task_held(info->state, row->task, 0);
		return;
	}
	/* A task that had failed was removed with SQL: that is as it was. */
	if (end == PREDECESSOR_REMOVED && row->failed)
		return;
	if (!row->busy && dependency_table_delete(info, row, false))
		waits_for_less(work, row->task);
	else
		pending_task_held(info->state, row->task, 0);
}

/*
 * Has a task ended as was noted?  One that was removed may be there again, and
 * one that has failed may be revived in the same transaction.
 */
static bool
has_ended(HeldWork *work, const Ended *ended)
{
	RowReader  *row = &work->row;
	RowStatus	status;

	if (ended->end == PREDECESSOR_DONE)
		return true;
	status = row_reader_task(row, ended->task, NULL);
	if (status != ROW_LIVE && status != ROW_OWN)
		return true;
	return ended->end == PREDECESSOR_FAILED &&
		DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_DEAD;
}

/*
 * Look after those that wait for a task.
 */
static void
look_after(HeldWork *work, const Ended *ended)
{
	int64		from = PG_INT64_MIN;
	int			n;

	if (!has_ended(work, ended))
		return;
	do
	{
		TransactionId writer = InvalidTransactionId;

		n = dependency_table_of_predecessor(work->info, ended->task, from, READ_ROWS, work->rows);
		for (int i = 0; i < n && !TransactionIdIsValid(writer); i++)
		{
			CHECK_FOR_INTERRUPTS();

			/*
			 * A pass notes just now that the task is dead, which has been
			 * revived since.
			 */
			if (work->rows[i].failed && ended->end == PREDECESSOR_DONE)
				writer = work->rows[i].writer;
			if (TransactionIdIsValid(writer))
				break;
			note_end(work, &work->rows[i], ended->end);
			from = work->rows[i].task + 1;
		}
		if (TransactionIdIsValid(writer))
			XactLockTableWait(writer, NULL, NULL, XLTW_None);
		else if (n < READ_ROWS)
			break;
	} while (n > 0);
}

static int
compare_ended(const void *a, const void *b)
{
	const Ended *x = a;
	const Ended *y = b;

	return x->task != y->task ? (x->task < y->task ? -1 : 1) :
		(x->end > y->end) - (x->end < y->end);
}

/*
 * Look after all tasks of a queue that have ended.
 */
static void
settle_queue(Oid relation)
{
	EndedPredecessors action;
	int64		room = ENDED_ROOM;
	int64		n = 0;
	Ended	   *ended = palloc(room * sizeof(Ended));
	HeldWork	work;

	for (int at = 0; (at = pending_predecessors_next(at, &action)) >= 0; at++)
	{
		for (int64 i = 0; action.relation == relation && i < action.n; i++)
		{
			int64		task = pending_predecessors_get(at, i);

			/* Few of many that are purged, for example, have successors. */
			if (!successor_filter_perhaps(&action.queue->successors, task))
				continue;
			if (n == room)
				ended = repalloc_huge(ended, (room *= 2) * sizeof(Ended));
			ended[n++] = (Ended)
			{
				.task = task,.end = action.end
			};
		}
	}
	qsort(ended, n, sizeof(Ended), compare_ended);
	if (n > 0 && held_tasks_begin(&work, relation))
	{
		work.rows = palloc(READ_ROWS * sizeof(Dependency));
		for (int64 i = 0; i < n; i++)
			look_after(&work, &ended[i]);
		pfree(work.rows);
		held_tasks_end(&work);
	}
	pfree(ended);
}

/*
 * A task was replaced: from now on it waits for what the last call said.
 */
static void
write_replaced(QueueInfo *info, const ReplacedDependencies *replaced)
{
	Dependency *others = palloc(READ_ROWS * sizeof(Dependency));
	NewDependencies rows = {
		.task = replaced->task,
		.on_dead = replaced->on_dead,
		.n = replaced->n,
		.predecessors = replaced->predecessors,
	};
	int			n;

	/*
	 * Others that have a row in hand are about to commit, and may have
	 * written another one by then.
	 */
	while ((n = dependency_table_of_task(info, rows.task, PG_INT64_MIN, READ_ROWS, others)) > 0)
	{
		for (int i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (TransactionIdIsValid(others[i].writer))
				XactLockTableWait(others[i].writer, NULL, NULL, XLTW_None);
			else
				(void) dependency_table_delete(info, &others[i], true);
		}
	}
	pfree(others);
	if (rows.n > 0)
		dependency_table_insert(info, &rows);
	/* Once more: another one may have been replaced at the same time. */
	dependencies_no_circle(info, &rows);
	pending_task_held(info->state, rows.task, 0);
}

/* Is an action the last one of its task? */
static bool
is_last(int number, const ReplacedDependencies *replaced)
{
	ReplacedDependencies other;

	for (int at = number + 1; (at = pending_replaced_next(at, &other)) >= 0; at++)
	{
		if (other.relation == replaced->relation && other.task == replaced->task)
			return false;
	}
	return true;
}

static void
settle_all(void)
{
	ReplacedDependencies replaced;
	EndedPredecessors action;
	List	   *done = NIL;

	if (likely(!pending_predecessors_any()))
		return;
	/* What the last command has written is seen as such. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int at = 0; (at = pending_replaced_next(at, &replaced)) >= 0; at++)
	{
		HeldWork	work;

		if (!is_last(at, &replaced) || !held_tasks_begin(&work, replaced.relation))
			continue;
		write_replaced(work.info, &replaced);
		held_tasks_end(&work);
	}
	for (int at = 0; (at = pending_predecessors_next(at, &action)) >= 0; at++)
	{
		if (list_member_oid(done, action.relation))
			continue;
		done = lappend_oid(done, action.relation);
		settle_queue(action.relation);
	}
	list_free(done);
	PopActiveSnapshot();
}

/*
 * Register the hooks.  Called once a process, from _PG_init.
 */
void
successors_register(void)
{
	pending_hook(PENDING_BEFORE_COMMIT, settle_all);
	pending_hook(PENDING_AT_END, pending_successors_end);
}
