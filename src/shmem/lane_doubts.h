/*-------------------------------------------------------------------------
 *
 * lane_doubts.h
 *	  Rows in the hands of transactions that do not offer them when they end.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LANE_DOUBTS_H
#define FAIRQ_LANE_DOUBTS_H

#include "shmem/lanes.h"

extern void lane_doubts_add(Lane *lane, TransactionId xid, const LaneEntry *place,
							bool counted);
extern bool lane_doubts_add_transaction(const LaneSet *set, TransactionId xid);
extern int	lane_doubts_copy(Lane *lane, LaneDoubt *doubts);
extern void lane_doubts_resolve(Lane *lane, const LaneDoubt *doubt);

#endif							/* FAIRQ_LANE_DOUBTS_H */
