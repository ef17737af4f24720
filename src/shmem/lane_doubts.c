/*-------------------------------------------------------------------------
 *
 * lane_doubts.c
 *	  Rows in the hands of transactions that do not offer them when they end.
 *
 * A prepared transaction ends without a callback of ours, and a user's
 * statement may fail before its triggers are fired.  So the lane remembers
 * such rows, as doubts, and claims look again when the transaction has ended.
 *
 * Locking: lane->lock guards a lane's doubts.  All functions here take it
 * themselves, and under it the spinlock of an order (queue_order_overflow_lost)
 * at most; the worker and those who wait are told when it is released.
 *
 * Race 13: a prepared transaction ends, and no function of ours is called.
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
 *
 * On return the lane has a doubt of xid that begins at place or before; or, if
 * there was no room, one without a transaction, which is resolved at each
 * look.  The worker is woken to look.  The caller holds no lock of a lane.
 * Never fails: called when a transaction is prepared, after which nothing may
 * fail.
 */
void
lane_doubts_add(Lane *lane, TransactionId xid, const LaneEntry *place, bool counted)
{
	LaneEntry	first = *place;
	LaneDoubt  *doubt = NULL;
	int64		task = lanes_entry_task(place);

	AssertNotLocked(&lane->lock);
	/* No index has the place of a task of the overflow. */
	if (lanes_entry_is_turn(place))
		first = lane_entry_last;
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
		*doubt = (LaneDoubt) {.xid = xid, .place = first};
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
 * row with a place: the first lane of a set remembers it.  Returns false if
 * the set has no lane; then the caller has the queue counted anew.
 */
bool
lane_doubts_add_transaction(const LaneSet *set, TransactionId xid)
{
	int			bucket = 0;
	Lane	   *lane = lanes_next(set, &bucket);

	if (lane != NULL)
		lane_doubts_add(lane, xid, &lane_entry_last, true);
	return lane != NULL;
}

/*
 * Copy the doubts of a lane.  Returns how many; doubts has room for
 * LANE_DOUBTS.  A doubt that is added meanwhile may be missed: it is looked at
 * the next time.
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
 *
 * doubt is a copy (lane_doubts_copy).  The lane's own goes if it still begins
 * at the same place; if not, rows were added to it meanwhile, and it stays for
 * the next look.  On return the index is read again from the place on, and the
 * overflow from the task on, and those who wait were told.  Never fails.
 */
void
lane_doubts_resolve(Lane *lane, const LaneDoubt *doubt)
{
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
			if (lanes_compare(&doubt->place, &lane_entry_last) < 0)
				lanes_cut(lane, &doubt->place);
			break;
		}
	}
	lane_check(lane);
	LWLockRelease(&lane->lock);
	waiters_lowered(lane->queue, lane->bucket);
}
