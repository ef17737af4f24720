/*-------------------------------------------------------------------------
 *
 * queue_ready.c
 *	  Whether a queue looks as if there were something to claim.
 *
 * Locking: the lanes' locks.  A look without them may find a lane empty whose
 * refill ends just then (lanes_look); the answer lets a waiter sleep, or has
 * groups given more than they may have ready.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/lanes.h"
#include "shmem/queue_state.h"

/*
 * Is there nothing to claim in an order, as far as its lanes know?  They do not
 * if they are not set up: after a start, until the first claim.
 *
 * The caller sees to it that the queue, and so its lanes, stay.
 */
bool
queue_ready_nothing(QueueState *queue, int class)
{
	Lane	   *lane;

	if (!queue->recovery.classes)
		return false;
	for (int b = 0; (lane = lanes_next(&queue->orders[class].lanes, &b)) != NULL; b++)
	{
		LaneTop		top;

		lanes_look_locked(lane, &top);
		if (top.view != LANE_EMPTY)
			return false;
	}
	return true;
}

static bool
bucket_has_ready(QueueState *queue, int bucket)
{
	if (!queue->recovery.classes)
		return true;
	for (int class = 0; class < queue->classes; class++)
	{
		Lane	   *lane = lanes_of(&queue->orders[class].lanes, bucket);
		LaneTop		top;

		if (lane == NULL)
			continue;
		lanes_look_locked(lane, &top);
		if (top.view != LANE_EMPTY)
			return true;
	}
	return false;
}

/*
 * Does a bucket, or with a negative number any, look as if there were something
 * to claim?  False also for a queue that was dropped.
 *
 * With the directory lock, under which lanes are not given back.
 */
bool
queue_ready_bucket(QueueState *queue, int bucket)
{
	bool		result = false;

	queue_state_lock_all(LW_SHARED);
	if (queue->in_use && bucket >= 0)
		result = bucket_has_ready(queue, bucket);
	else if (queue->in_use)
	{
		for (int class = 0; class < queue->classes && !result; class++)
			result = !queue_ready_nothing(queue, class);
	}
	queue_state_unlock_all();
	return result;
}
