/*-------------------------------------------------------------------------
 *
 * refill.h
 *	  Waiting for refills of groups from their overflow.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_REFILL_H
#define FAIRQ_REFILL_H

#include "shmem/queue_state.h"

extern void refill_ended(QueueState *queue, bool done);
extern bool refill_expected(QueueState *queue, uint32 refills);
extern bool refill_wait(QueueState *queue, uint32 refills,
								 TimestampTz give_up);
extern void refill_wait_dry(QueueState *queue, TimestampTz give_up);

#endif							/* FAIRQ_REFILL_H */
