/*-------------------------------------------------------------------------
 *
 * queue_ready.c
 *	  Whether a queue looks as if there were something to claim.
 *
 * Locking: the lanes' locks, in shared mode, one after the other.  A look
 * without them may find a lane empty whose refill ends just then (lanes_look);
 * the answer lets a waiter sleep, or has groups given more than they may have
 * ready.  All lanes are not looked at in one moment: a waiter has joined its
 * list before it looks (race 8).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/lanes.h"
#include "shmem/queue_state.h"

/*
 * Has a lane nothing, as far as it knows?  With its lock in shared mode: a lane
 * whose refill ends just then would look empty without (lanes_look).
 */
static bool
lane_is_empty(Lane *lane)
{
	LaneTop		top;

	lanes_look_locked(lane, &top);
	return top.view == LANE_EMPTY;
}

/*
 * Is there nothing to claim in an order, as far as its lanes know?  They do not
 * if they are not set up: after a start, until the first claim.
 *
 * The caller sees to it that the queue, and so its lanes, stay: by a lock on
 * the relation, or the directory lock.  Takes the lanes' locks in shared mode.
 */
bool
queue_ready_nothing(QueueState *queue, int class)
{
	bool		nothing = queue->recovery.classes;
	Lane	   *lane;

	for (int b = 0; nothing && (lane = lanes_next(&queue->orders[class].lanes, &b)) != NULL; b++)
		nothing = lane_is_empty(lane);
	return nothing;
}

/*
 * Does a bucket, or with a negative number any, look as if there were
 * something to claim?  False also for a queue that was dropped.
 *
 * The caller need not have the queue's relation locked.  Takes the directory
 * lock in shared mode, under which lanes are not given back, and then those of
 * lanes; so the caller holds no lock of ours.
 */
bool
queue_ready_bucket(QueueState *queue, int bucket)
{
	bool		result = false;

	AssertNotLocked(&queue->lock);
	queue_state_lock_all(LW_SHARED);
	for (int class = 0; queue->in_use && class < queue->classes && !result; class++)
	{
		if (bucket < 0 || !queue->recovery.classes)
			result = !queue_ready_nothing(queue, class);
		else
		{
			Lane	   *lane = lanes_of(&queue->orders[class].lanes, bucket);

			result = (lane != NULL && !lane_is_empty(lane));
		}
	}
	queue_state_unlock_all();
	return result;
}
