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

/*
 * Who awaits them is told.  May fail for want of memory, and
 * then the transaction rolls back: so it is called while that may still fail.
 */
extern void pending_task_ended(QueueState *queue, int64 task, int outcome);

/*
 * How tasks have ended that others may wait for: whether these run then, or go
 * by what their producers have said of failures (on_dead).
 */
typedef enum PredecessorEnd
{
	PREDECESSOR_DONE,
	PREDECESSOR_FAILED,			/* dead, cancelled or expired */
	PREDECESSOR_REMOVED			/* its row, with SQL */
} PredecessorEnd;

/*
 * Tasks of a queue that have ended in this transaction in one way, as an
 * action has them: a copy.  The n ids stay in the action
 * (pending_predecessors_get).
 */
typedef struct EndedPredecessors
{
	QueueState *queue;
	Oid			relation;
	PredecessorEnd end;
	int64		n;				/* ids that the action has, at least 1 */
} EndedPredecessors;

/*
 * What a task that was replaced in this transaction waits for from now on.
 * predecessors has n ids, and is NULL if n is 0; it is the caller's for
 * pending_dependencies_replaced, and the action's when pending_replaced_next
 * gives it.
 */
typedef struct ReplacedDependencies
{
	QueueState *queue;
	Oid			relation;
	char		on_dead;		/* what becomes of it if one of those fails */
	int64		task;
	int			n;				/* of these, which it waits for: */
	int64	   *predecessors;
} ReplacedDependencies;

/*
 * Tasks that wait for others.  Nothing here is shared,
 * and none takes a lock.  pending_predecessor_ended,
 * pending_dependencies_replaced and pending_recount_dependencies may fail for
 * want of memory; the others never fail.  What is found is what this
 * transaction has done up to then, without what was rolled back to a
 * savepoint.
 */
extern void pending_predecessor_ended(QueueState *queue, int64 task, PredecessorEnd end);
extern bool pending_predecessors_any(void);
extern bool pending_predecessors_has(const QueueState *queue, int64 task);
extern int	pending_predecessors_next(int from, EndedPredecessors *result);
extern int64 pending_predecessors_get(int number, int64 i);
extern void pending_dependencies_replaced(const ReplacedDependencies *replaced);
extern int	pending_replaced_next(int from, ReplacedDependencies *result);
extern void pending_recount_dependencies(QueueState *queue);
extern void pending_successors_end(void);

#endif							/* FAIRQ_PENDING_ENDED_H */
