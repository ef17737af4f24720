/*-------------------------------------------------------------------------
 *
 * dependencies.h
 *	  What a held task waits for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DEPENDENCIES_H
#define FAIRQ_DEPENDENCIES_H

#include "storage/dependency_table.h"
#include "storage/row_reader.h"

/* What a look at the predecessors of a task has shown. */
typedef enum DependencyLook
{
	DEPENDENCIES_NONE,			/* it waits for none (any more) */
	DEPENDENCIES_OPEN,			/* for one, whose end is seen by whoever ends
								 * it */
	DEPENDENCIES_BUSY,			/* for one that is in the hands of another
								 * transaction: look again */
	DEPENDENCIES_CANCEL			/* it is to be cancelled, as one has failed */
} DependencyLook;

extern void dependencies_read(RowReader *row, NewDependencies *rows);
extern DependencyLook dependencies_blocked(QueueInfo *info, int64 task);
extern DependencyLook dependencies_look(Relation rel, QueueInfo *info, int64 task, int *looked);
extern void dependencies_clear(QueueInfo *info, int64 task);
extern void dependencies_fail(QueueInfo *info, const Dependency *row);
extern void dependencies_no_circle(QueueInfo *info, const NewDependencies *rows);

#endif							/* FAIRQ_DEPENDENCIES_H */
