/*-------------------------------------------------------------------------
 *
 * pending_ended.h
 *	  Pending actions about tasks that end: who awaits them is told.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_ENDED_H
#define FAIRQ_PENDING_ENDED_H

#include "shmem/queue_state.h"

extern void pending_task_ended(QueueState *queue, int64 task, int outcome);

#endif							/* FAIRQ_PENDING_ENDED_H */
