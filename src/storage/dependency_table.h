/*-------------------------------------------------------------------------
 *
 * dependency_table.h
 *	  The table of which tasks wait for which others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DEPENDENCY_TABLE_H
#define FAIRQ_DEPENDENCY_TABLE_H

#include "storage/itemptr.h"

#include "storage/queue_catalog.h"

/* What the end of a predecessor means that has failed: column on_dead. */
#define ON_DEAD_HOLD	'h'
#define ON_DEAD_CANCEL	'c'
#define ON_DEAD_RUN		'r'

/* A row of the table. */
typedef struct Dependency
{
	int64		task;
	int64		predecessor;
	char		on_dead;
	bool		failed;			/* the predecessor */
	bool		busy;			/* another transaction writes or deletes it */
	TransactionId writer;		/* valid: that one, which writes it */
	ItemPointerData tid;
} Dependency;

/* Rows to write: what a task waits for. */
typedef struct NewDependencies
{
	int64		task;
	char		on_dead;
	bool		failed;			/* the predecessors */
	int			n;
	int64	   *predecessors;
} NewDependencies;

extern int	dependency_table_of_predecessor(QueueInfo *info, int64 predecessor,
											int64 from, int max, Dependency *rows);
extern int	dependency_table_of_task(QueueInfo *info, int64 task, int64 from,
									 int max, Dependency *rows);
extern int	dependency_table_all(QueueInfo *info, int64 task, int64 from,
								 int max, Dependency *rows);
extern bool dependency_table_last(QueueInfo *info, int64 task, bool *busy);
extern bool dependency_table_waited_for(QueueInfo *info, int64 task);
extern bool dependency_table_delete(QueueInfo *info, const Dependency *row, bool wait);
extern void dependency_table_insert(QueueInfo *info, const NewDependencies *rows);

#endif							/* FAIRQ_DEPENDENCY_TABLE_H */
