/*-------------------------------------------------------------------------
 *
 * replenish_overflow.h
 *	  Making tasks of the overflow ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_REPLENISH_OVERFLOW_H
#define FAIRQ_REPLENISH_OVERFLOW_H

#include "shmem/group_overflow.h"
#include "verbs/pass.h"

extern void refill_dry_group(Relation rel, QueueInfo *info, const StarvedGroup *starved,
							 int feeding);
extern int	replenish_overflow(Pass *pass, bool in_memory);

#endif							/* FAIRQ_REPLENISH_OVERFLOW_H */
