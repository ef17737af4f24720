/*-------------------------------------------------------------------------
 *
 * lane_table.h
 *	  The lanes in shared memory, and which of them a fair order has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LANE_TABLE_H
#define FAIRQ_LANE_TABLE_H

#include "shmem/lanes.h"

extern Size lane_table_shmem_size(void);
extern void lane_table_shmem_init(void *area, bool found);

extern bool lane_table_set_up(LaneSet *const *sets, int n, int buckets, int other,
							  int *missing);
extern void lane_table_give_back(LaneSet *set);

#endif							/* FAIRQ_LANE_TABLE_H */
