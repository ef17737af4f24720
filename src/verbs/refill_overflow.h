/*-------------------------------------------------------------------------
 *
 * refill_overflow.h
 *	  Making tasks of the overflow ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_REFILL_OVERFLOW_H
#define FAIRQ_REFILL_OVERFLOW_H

#include "shmem/group_overflow.h"
#include "storage/queue_catalog.h"

extern void refill_dry_group(Relation rel, QueueInfo *info, const HungryGroup *hungry,
							  int feeding);
extern int	refill_overflow(Relation rel, QueueInfo *info, TimestampTz now,
							 int max, bool in_memory, TimestampTz *next,
							 bool *more);

#endif							/* FAIRQ_REFILL_OVERFLOW_H */
