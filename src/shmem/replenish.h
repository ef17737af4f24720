/*-------------------------------------------------------------------------
 *
 * replenish.h
 *	  Waiting for groups to be replenished from their overflow.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_REPLENISH_H
#define FAIRQ_REPLENISH_H

#include "shmem/queue_state.h"

extern void replenish_ended(QueueState *queue, bool done);
extern bool replenish_expected(QueueState *queue, uint32 times);
extern bool replenish_wait(QueueState *queue, uint32 times,
						   TimestampTz give_up);
extern void replenish_wait_dry(QueueState *queue, TimestampTz give_up);

#endif							/* FAIRQ_REPLENISH_H */
