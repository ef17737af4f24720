/*-------------------------------------------------------------------------
 *
 * held_tasks.h
 *	  Held tasks: what they wait for, and how they become ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_HELD_TASKS_H
#define FAIRQ_HELD_TASKS_H

#include "common/run_as.h"
#include "storage/dependency_table.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"
#include "xact/pending_ended.h"

/* held_tasks.c: those behind others of their unique keys become ready */
/* A queue in which a transaction that is about to commit makes tasks ready. */
typedef struct HeldWork
{
	Relation	rel;
	QueueInfo  *info;
	RunAs		owner;
	Placement	placement;
	RowReader	row;
	Dependency *rows;			/* successors.c */
} HeldWork;

extern bool held_tasks_begin(HeldWork *work, Oid relation);
extern void held_tasks_end(HeldWork *work);
extern void held_tasks_gone(RowReader *row);
extern bool held_tasks_let_run(Placement *placement, RowReader *row,
							   const ItemPointerData *tid);
extern void held_tasks_register(void);

/* successors.c: those that wait for the end of another one learn of it */
extern void successors_register(void);

/*
 * A task ends, if this transaction commits; others may wait for it.  Cheap,
 * unless any task of its queue waits for another one.
 */
static inline void
successors_ended(QueueInfo *info, int64 task, PredecessorEnd end)
{
	Assert(task != 0);
	if (unlikely(successor_filter_any(&info->state->successors)) &&
		successor_filter_perhaps(&info->state->successors, task))
		pending_predecessor_ended(info->state, task, end);
}

/*
 * A task that was not done ends, and its row is deleted.  Noted of every one:
 * whoever comes to wait for it before the commit finds no row after it that
 * would say that it has failed.
 */
static inline void
successors_removed(QueueInfo *info, int64 task)
{
	pending_predecessor_ended(info->state, task, PREDECESSOR_FAILED);
}

/* dependencies.c: what a task waits for */
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

#endif							/* FAIRQ_HELD_TASKS_H */
