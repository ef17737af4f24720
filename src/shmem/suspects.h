/*-------------------------------------------------------------------------
 *
 * suspects.h
 *	  Tasks that may be what kills their workers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SUSPECTS_H
#define FAIRQ_SUSPECTS_H

#include "shmem/queue_state.h"

/* A task that was lost so often is a suspect. */
#define SUSPECT_LOSSES	2

extern bool suspects_note(QueueState *queue, int64 task);
extern void suspects_forget(QueueState *queue, int64 task);
extern int	suspects_copy(QueueState *queue, int64 *tasks);
extern bool suspects_any(QueueState *queue);
extern bool suspects_wait(QueueState *queue);
extern bool suspects_turn(QueueState *queue);

#endif							/* FAIRQ_SUSPECTS_H */
