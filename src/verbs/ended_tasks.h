/*-------------------------------------------------------------------------
 *
 * ended_tasks.h
 *	  What the end of a task means to others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ENDED_TASKS_H
#define FAIRQ_ENDED_TASKS_H

#include "storage/archive.h"
#include "storage/row_reader.h"

/* Tasks of a queue that a statement ends; zero: none yet. */
typedef struct EndedTasks
{
	bool		many;			/* a pass looks behind them: the caller's to
								 * set */
	bool		look;			/* there is something to look behind */
	ArchiveBatch archive;
} EndedTasks;

extern void ended_tasks_add(EndedTasks *ended, RowReader *row, ArchiveOutcome outcome,
							TimestampTz claimed_at);
extern void ended_tasks_died(RowReader *row);
extern void ended_tasks_write(EndedTasks *ended, Relation rel, QueueInfo *info);

#endif							/* FAIRQ_ENDED_TASKS_H */
