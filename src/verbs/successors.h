/*-------------------------------------------------------------------------
 *
 * successors.h
 *	  Tasks that wait for the end of another one learn of it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SUCCESSORS_H
#define FAIRQ_SUCCESSORS_H

#include "storage/row_reader.h"
#include "xact/pending_successors.h"

extern void successors_note(QueueInfo *info, int64 task, PredecessorEnd end);
extern void successors_register(void);

/*
 * A task ends.  Cheap, unless any task of its queue waits for another one.
 */
static inline void
successors_ended(QueueInfo *info, int64 task, PredecessorEnd end)
{
	if (unlikely(successor_filter_any(&info->state->successors)))
		successors_note(info, task, end);
}

/*
 * A task that was not done ends, and its row is deleted.  Noted of every one:
 * whoever comes to wait for it before the commit finds no row after it that
 * would say that it has failed.
 */
static inline void
successors_removed(QueueInfo *info, int64 task)
{
	pending_predecessor_ended(info->state, info->relation, task, PREDECESSOR_FAILED);
}

#endif							/* FAIRQ_SUCCESSORS_H */
