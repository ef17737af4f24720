/*-------------------------------------------------------------------------
 *
 * pending_ended.h
 *	  Pending actions about tasks that end, and about those that wait for them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_ENDED_H
#define FAIRQ_PENDING_ENDED_H

#include "shmem/queue_state.h"

/* pending_ended.c: who awaits them is told */
extern void pending_task_ended(QueueState *queue, int64 task, int outcome);

/* pending_successors.c: tasks that wait for others */
/* How tasks have ended that others may wait for. */
typedef enum PredecessorEnd
{
	PREDECESSOR_DONE,
	PREDECESSOR_FAILED,			/* dead, cancelled or expired */
	PREDECESSOR_REMOVED			/* its row, with SQL */
} PredecessorEnd;

/* Tasks of a queue that have ended in this transaction. */
typedef struct EndedPredecessors
{
	QueueState *queue;
	Oid			relation;
	PredecessorEnd end;
	int64		n;
} EndedPredecessors;

/* What a task that was replaced in this transaction waits for from now on. */
typedef struct ReplacedDependencies
{
	QueueState *queue;
	Oid			relation;
	char		on_dead;
	int64		task;
	int			n;
	int64	   *predecessors;
} ReplacedDependencies;

extern void pending_predecessor_ended(QueueState *queue, Oid relation, int64 task,
									  PredecessorEnd end);
extern bool pending_predecessors_any(void);
extern bool pending_predecessors_has(const QueueState *queue, int64 task);
extern int	pending_predecessors_next(int from, EndedPredecessors *result);
extern int64 pending_predecessors_get(int number, int64 i);
extern void pending_dependencies_replaced(const ReplacedDependencies *replaced);
extern int	pending_replaced_next(int from, ReplacedDependencies *result);
extern void pending_recount_dependencies(QueueState *queue);
extern void pending_successors_end(void);

#endif							/* FAIRQ_PENDING_ENDED_H */
