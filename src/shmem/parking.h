/*-------------------------------------------------------------------------
 *
 * parking.h
 *	  Entries of tasks whose group may not have another one just now.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PARKING_H
#define FAIRQ_PARKING_H

#include "common/virtual_time.h"
#include "shmem/lanes.h"
#include "shmem/limit_table.h"

/* A group that may not have another task, as its claimer has found it. */
typedef struct GroupAtLimit
{
	uint64		low;			/* its key */
	uint64		high;
	double		charge;			/* of the task */
	uint32		group;			/* of a turn: its number */
} GroupAtLimit;

extern Size parked_tree_shmem_size(void);
extern void parked_tree_shmem_init(void *area, bool found);

extern bool parking_park(uint32 number, const GroupAtLimit *group, Lane *lane,
						 const LaneEntry *entry, bool first_only);
extern int	parking_before_address(uint32 number, const FairqAddress *address, int max,
								   bool *all);
extern bool parking_has(uint32 number, const FairqAddress *address);
extern void parking_removed(uint32 number, const FairqAddress *address);
extern bool parking_passed(uint32 number, const FairqAddress *address);
extern void parking_purged(uint32 number);
extern int	parking_turns(QueueLimits *limits, int class, const VirtualTime *upto,
						  int max);
extern int	parking_release(uint32 number, int max, int forced);
extern TimestampTz parking_tick(QueueLimits *limits, TimestampTz now, int *offers);
extern bool parking_seek(QueueLimits *limits, TimestampTz now);
extern void parking_forget_queue(int queue);

#endif							/* FAIRQ_PARKING_H */
