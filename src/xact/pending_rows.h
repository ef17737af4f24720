/*-------------------------------------------------------------------------
 *
 * pending_rows.h
 *	  Pending actions about tasks: their rows, their leases and their groups.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_ROWS_H
#define FAIRQ_PENDING_ROWS_H

#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "xact/pending.h"

/*
 * A task's place in a lane, and whose task it is for those who wait.  The lane
 * stays while the queue's relation is locked.
 */
typedef struct PendingPlace
{
	Lane	   *lane;
	LaneEntry	entry;			/* address, and the TID: a hint, which may be
								 * invalid */
	uint16		waiting_group;	/* as waiters_group says, or WAITERS_ANY_GROUP
								 */
	uint32		group;			/* of a turn: its group */
} PendingPlace;

/*
 * All of these are called in a transaction, with the relation of the queue
 * locked until it ends, which keeps lanes, groups' numbers and the queue.  What
 * notes an action fails for want of memory only, and not if room was reserved;
 * then it is as if it had not been called.  The lock of a lane, of a group's
 * partition or of a lease's partition is taken only where something is undone
 * at once (pending_not_...); so the caller holds none of ours.
 */

/*
 * pending_rows.c: rows that come, move or go.  What pending_placed,
 * pending_removed, pending_claimed and pending_settled return names the action
 * to the functions that say what became of it, in this subtransaction.
 */
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
extern int	pending_removed(QueueState *queue, int class, uint32 group, int64 task,
							bool of_overflow, float4 refund);
extern void pending_row_written(QueueState *queue, uint32 group, int64 task,
								bool of_overflow, int removed);
extern void pending_not_moved(int mark);

/* For callbacks, when the transaction has ended; these never fail. */
extern void pending_offer_place(const PendingPlace *place);
extern void pending_become_offer(PendingAction *action, const PendingPlace *place);

/* pending_leases.c: leases that begin or end */
extern int	pending_claimed(const LeaseInfo *lease, Lane *lane, const LaneEntry *entry);
extern void pending_not_claimed(int claimed);
extern void pending_vain(const LeaseInfo *lease);
extern int	pending_settled(const LeaseInfo *lease);
extern void pending_released(int settled, Lane *lane, const FairqAddress *address,
							 int64 task);
extern bool pending_settled_ends(int queue, int64 task, int outcome);
extern void pending_settled_gone(int settled, bool gone);
extern void pending_not_settled(int settled);

/* pending_groups.c: what groups have, and what they may have */
extern void pending_purged(QueueState *queue, const GroupTag *tag);
extern void pending_group_set(QueueState *queue, uint32 limit,
							  const LimitSettings *settings);
extern void pending_defaults_set(QueueState *queue, const LimitSettings *groups,
								 const LimitSettings *subgroups);
extern void pending_regroup(QueueState *queue);
extern void pending_ready_removed(QueueState *queue, uint32 group, int n);
extern void pending_overflow_removed(QueueState *queue, uint32 group, int n);
extern void pending_overflowed(QueueState *queue, uint32 group, int64 id, double cost);
extern void pending_overflowed_at(QueueState *queue, uint32 group, int64 id,
								  const ItemPointerData *tid);
extern void pending_not_overflowed(QueueState *queue, uint32 group);

#endif							/* FAIRQ_PENDING_ROWS_H */
