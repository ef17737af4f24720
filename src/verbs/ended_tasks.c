/*-------------------------------------------------------------------------
 *
 * ended_tasks.c
 *	  What the end of a task means to others.
 *
 * A task ends by ack, pop, cancel, purge or its deadline, or it dies.  Whatever
 * the verb, all that has to learn of it does so here: the archive, and the task
 * that is held behind its unique key.  The verb itself deletes or writes the
 * row, ends the lease, and counts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "verbs/ended_tasks.h"
#include "verbs/held_tasks.h"
#include "xact/pending_queue.h"

/*
 * The task that row has read has ended, and its row is deleted.  claimed_at is
 * DT_NOBEGIN if it was not leased.
 */
void
ended_tasks_add(EndedTasks *ended, RowReader *row, ArchiveOutcome outcome,
				int attempts, TimestampTz claimed_at)
{
	archive_add(&ended->archive, row, outcome, attempts, claimed_at);

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
	held_tasks_gone(row);
}

/*
 * The end of the statement.  Last, for it may run code of the owner's, and
 * fail.
 */
void
ended_tasks_write(EndedTasks *ended, Relation rel, QueueInfo *info)
{
	if (ended->look)
		pending_look(info->state);
	ended->look = false;
	archive_write(&ended->archive, rel, info);
}
