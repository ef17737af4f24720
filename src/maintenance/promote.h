/*-------------------------------------------------------------------------
 *
 * promote.h
 *	  Making waiting tasks ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PROMOTE_H
#define FAIRQ_PROMOTE_H

#include "shmem/group_overflow.h"
#include "storage/queue_catalog.h"

extern int	promote_due(Relation rel, QueueInfo *info, TimestampTz now, int max,
						DuePlace *from, TimestampTz *next, bool *more);
extern void promote_dry_group(Relation rel, QueueInfo *info, const HungryGroup *hungry,
							  int feeding);
extern int	promote_overflow(Relation rel, QueueInfo *info, TimestampTz now,
							 int max, bool in_memory, TimestampTz *next,
							 bool *more);

#endif							/* FAIRQ_PROMOTE_H */
