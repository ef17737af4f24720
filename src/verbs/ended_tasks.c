/*-------------------------------------------------------------------------
 *
 * ended_tasks.c
 *	  What the end of a task means to others.
 *
 * A task ends by ack, pop, cancel, purge or its deadline, or it dies.
 * Whatever the verb, all that has to learn of it does so here: who awaits it,
 * the archive, the tasks that wait for its end, and the task that is held
 * behind its unique key.  The verb itself deletes or writes the row, ends the
 * lease, and counts what else is its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/contracts.h"
#include "shmem/stats.h"
#include "verbs/ended_tasks.h"
#include "verbs/held_tasks.h"
#include "xact/pending_ended.h"
#include "xact/pending_queue.h"

/*
 * A held task has ended.  What it has waited for, if it has, is forgotten.
 */
static void
held_task_ended(EndedTasks *ended, RowReader *row)
{
	QueueState *state = row->info->state;

	if (!successor_filter_any(&state->successors))
		return;
	if (ended->many)
		pending_recount_dependencies(state);
	else
		pending_task_held(state, DatumGetInt64(row_value(row, COLUMN_ID)), 0);
}

/*
 * The task that row has read has ended, and its row is deleted.  claimed_at is
 * DT_NOBEGIN if it was not leased.
 */
void
ended_tasks_add(EndedTasks *ended, RowReader *row, ArchiveOutcome outcome,
				TimestampTz claimed_at)
{
	/* First: its lease, if it has one, is what was noted last. */
	pending_task_ended(row->info->state, DatumGetInt64(row_value(row, COLUMN_ID)), outcome);
	archive_add(&ended->archive, row, outcome, claimed_at);

	if (likely(outcome == ARCHIVE_ACKED))
	{
		ended->acked++;
		successors_ended(row->info, DatumGetInt64(row_value(row, COLUMN_ID)), PREDECESSOR_DONE);
	}
	else
		successors_removed(row->info, DatumGetInt64(row_value(row, COLUMN_ID)));
	if (unlikely(outcome == ARCHIVE_EXPIRED))
		stats_tally(row->info->state, QUEUE_EXPIRED_TASKS, 1);
	if (likely(row_reader_depth(row) == QUEUE_ADDRESSED))
		ended->addressed++;
	else
		stats_tally(row->info->state, row_reader_depth(row), -1);
	if (unlikely(DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_HELD))
		held_task_ended(ended, row);

	/* Nothing is held behind a task that is held itself. */
	if (likely(row_is_null(row, COLUMN_UNIQUE_KEY)) ||
		DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_HELD)
		return;
	if (ended->many)
		ended->look = true;
	else
		held_tasks_gone(row);
}

/*
 * The task that row has read is dead, and its row says so.
 */
void
ended_tasks_died(RowReader *row)
{
	pending_task_ended(row->info->state, DatumGetInt64(row_value(row, COLUMN_ID)),
					   ARCHIVE_DEAD);
	successors_ended(row->info, DatumGetInt64(row_value(row, COLUMN_ID)), PREDECESSOR_FAILED);
	held_tasks_gone(row);
}

/*
 * The end of the statement.  Last, for it may run code of the owner's, and
 * fail.  What most tasks are counted in is counted once: an ack of many takes
 * no atomic for each.
 */
void
ended_tasks_write(EndedTasks *ended, Relation rel, QueueInfo *info)
{
	AssertRelationLocked(rel, RowShareLock);
	if (ended->look)
		pending_look(info->state);
	ended->look = false;
	if (ended->acked > 0)
		stats_tally(info->state, QUEUE_ACKED, ended->acked);
	if (ended->addressed > 0)
		stats_tally(info->state, QUEUE_ADDRESSED, -ended->addressed);
	ended->acked = ended->addressed = 0;
	archive_write(&ended->archive, rel, info);
}
