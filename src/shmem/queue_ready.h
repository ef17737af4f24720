/*-------------------------------------------------------------------------
 *
 * queue_ready.h
 *	  Whether a queue looks as if there were something to claim.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_READY_H
#define FAIRQ_QUEUE_READY_H

#include "shmem/queue_state.h"

extern bool queue_ready_nothing(QueueState *queue, int class);
extern bool queue_ready_bucket(QueueState *queue, int bucket);

#endif							/* FAIRQ_QUEUE_READY_H */
