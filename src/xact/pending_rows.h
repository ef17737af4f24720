/*-------------------------------------------------------------------------
 *
 * pending_rows.h
 *	  Pending actions about rows that come, move or go.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_ROWS_H
#define FAIRQ_PENDING_ROWS_H

#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "xact/pending.h"

/* A task's place in a lane, and whose task it is for those who wait. */
typedef struct PendingPlace
{
	Lane	   *lane;
	LaneEntry	entry;
	uint16		waiting_group;
	uint32		group;			/* of a turn: its group */
} PendingPlace;

extern int	pending_placed(Lane *lane, const FairqAddress *address,
						   const GroupTag *tag);
extern void pending_placed_group(int placed, uint16 group);
extern void pending_placed_at(int placed, const ItemPointerData *tid);
extern void pending_not_placed(int placed);
extern void pending_offer_at_commit(Lane *lane, const FairqAddress *address,
									const ItemPointerData *tid);
extern void pending_offer_at_abort(Lane *lane, const FairqAddress *address,
								   const ItemPointerData *tid);
extern void pending_lower_at_abort(Lane *lane, const FairqAddress *address);
extern void pending_passed(Lane *lane, const LaneEntry *entry, uint32 group, bool written);
extern void pending_overflow_unread(QueueState *queue, int class, uint32 group, int64 task);
extern void pending_cancelled(const FairqAddress *address, const GroupTag *tag);
extern void pending_removed(QueueState *queue, uint32 group, int64 task,
							const FairqAddress *address);
extern void pending_expired(QueueState *queue, uint32 group, int64 task,
							const FairqAddress *address, int class, float4 refund);
extern void pending_row_written(QueueState *queue, uint32 group, int64 task,
								bool of_overflow);
extern void pending_not_moved(int mark);

extern void pending_offer_place(const PendingPlace *place);
extern void pending_become_offer(PendingAction *action, const PendingPlace *place);

#endif							/* FAIRQ_PENDING_ROWS_H */
