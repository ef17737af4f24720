/*-------------------------------------------------------------------------
 *
 * lane_doubts.c
 *	  Rows in the hands of transactions that do not offer them when they end.
 *
 * A prepared transaction ends without a callback of ours, and a user's
 * statement may fail before its triggers are fired.  So the lane remembers
 * such rows, as doubts, and claims look again when the transaction has ended.
 *
 * Locking: lane->lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "utils/timestamp.h"

#include "shmem/lanes.h"
#include "shmem/queue_state.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"

/*
 * A row in a place is in doubt: it is in the hands of a transaction (invalid:
 * of some) that will not say so when it ends.  Of several rows of one
 * transaction the first is remembered.  counted: it is prepared, and what it
 * does was counted, so that the queue has to be counted anew if it is rolled
 * back.
 */
void
lane_doubts_add(Lane *lane, TransactionId xid, const LaneEntry *place, bool counted)
{
	LaneEntry	first = *place;
	LaneDoubt  *doubt = NULL;
	int64		task = lanes_entry_task(place);

	/* No index has the place of a task of the overflow. */
	if (lanes_entry_is_turn(place))
		lane_entry_set_last(&first);
	ItemPointerSet(&first.tid, 0, 0);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	for (int i = 0; i < lane->doubt_count && doubt == NULL; i++)
	{
		if (lane->doubts[i].xid == xid)
			doubt = &lane->doubts[i];
	}
	if (doubt == NULL && lane->doubt_count < LANE_DOUBTS)
	{
		doubt = &lane->doubts[lane->doubt_count++];
		doubt->xid = xid;
		doubt->place = first;
		doubt->task = 0;
		doubt->counted = false;
	}
	else if (doubt == NULL)
	{
		/*
		 * One too many: from now on it is looked at again each time.  Whether
		 * either is rolled back is not known then, so what was counted is
		 * counted anew: when both have ended, for until then they keep their
		 * locks on the table (recovery_recount).
		 */
		doubt = &lane->doubts[LANE_DOUBTS - 1];
		if (counted || doubt->counted)
			queue_state_recount(queue_state_by_number(lane->queue));
		doubt->xid = InvalidTransactionId;
	}
	doubt->counted = TransactionIdIsValid(doubt->xid) && (counted || doubt->counted);
	if (lanes_compare(&first, &doubt->place) < 0)
		doubt->place = first;
	if (task != 0 && (doubt->task == 0 || task < doubt->task))
		doubt->task = task;
	lane_check(lane);
	LWLockRelease(&lane->lock);

	/* Claims look after it, but perhaps all claimers are asleep. */
	worker_slots_wake_at(queue_state_by_number(lane->queue)->database,
						 GetCurrentTimestamp() + LANE_DOUBT_USECS);
}

/*
 * A transaction is in doubt that has changed what is counted, and perhaps no
 * row with a place: the first lane remembers it.  Returns false if there is
 * none.
 */
bool
lane_doubts_add_transaction(const LaneSet *set, TransactionId xid)
{
	int			bucket = 0;
	Lane	   *lane = lanes_next(set, &bucket);
	LaneEntry	end = {0};

	lane_entry_set_last(&end);
	if (lane != NULL)
		lane_doubts_add(lane, xid, &end, true);
	return lane != NULL;
}

/*
 * Copy the doubts of a lane.  Returns how many.
 */
int
lane_doubts_copy(Lane *lane, LaneDoubt *doubts)
{
	int			n;

	/* Without the lock: hardly ever is there any. */
	if (((volatile Lane *) lane)->doubt_count == 0)
		return 0;
	LWLockAcquire(&lane->lock, LW_SHARED);
	n = lane->doubt_count;
	Assert(n >= 0 && n <= LANE_DOUBTS);
	memcpy(doubts, lane->doubts, n * sizeof(LaneDoubt));
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * The transaction of a doubt has ended, or may have: look at the row again.
 */
void
lane_doubts_resolve(Lane *lane, const LaneDoubt *doubt)
{
	LaneEntry	end;

	lane_entry_set_last(&end);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	for (int i = 0; i < lane->doubt_count; i++)
	{
		LaneDoubt  *other = &lane->doubts[i];

		if (other->xid == doubt->xid &&
			lanes_compare(&other->place, &doubt->place) == 0)
		{
			if (other->task != 0)
				queue_order_overflow_lost(queue_state_by_number(lane->queue), lane->class,
										  other->task);
			lane->doubts[i] = lane->doubts[--lane->doubt_count];
			if (lanes_compare(&doubt->place, &end) < 0)
				lanes_cut(lane, &doubt->place);
			break;
		}
	}
	lane_check(lane);
	LWLockRelease(&lane->lock);
	waiters_lowered(lane->queue, lane->bucket);
}
