/*-------------------------------------------------------------------------
 *
 * queue_ready.c
 *	  Whether a queue looks as if there were something to claim.
 *
 * Locking: none.  The answer may be wrong by the time the caller has it, also
 * for a queue that is being dropped; a claim finds out.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/limit_table.h"
#include "shmem/lanes.h"
#include "shmem/queue_ready.h"

/*
 * Is there nothing to claim in an order, as far as its lanes know?  They do not
 * if they are not set up: after a start, until somebody claims.
 */
bool
queue_ready_nothing(QueueState *queue, int class)
{
	Lane	   *lane;

	/* What waits for its turn may be claimed. */
	if (limit_table_in_turn(&queue->limits) || !queue->recovery.classes)
		return false;
	for (int b = 0; (lane = lanes_next(&queue->orders[class].lanes, &b)) != NULL; b++)
	{
		LaneTop		top;

		lanes_look(lane, &top);
		if (top.view != LANE_EMPTY)
			return false;
	}
	return true;
}

/*
 * Does a bucket, or with a negative number any, look as if there were something
 * to claim?
 */
bool
queue_ready_bucket(QueueState *queue, int bucket)
{
	if (bucket >= 0 && (limit_table_in_turn(&queue->limits) || !queue->recovery.classes))
		return true;
	for (int class = 0; class < queue->classes; class++)
	{
		Lane	   *lane = bucket < 0 ? NULL : lanes_of(&queue->orders[class].lanes, bucket);
		LaneTop		top;

		if (bucket < 0 && !queue_ready_nothing(queue, class))
			return true;
		if (lane == NULL)
			continue;
		lanes_look(lane, &top);
		if (top.view != LANE_EMPTY)
			return true;
	}
	return false;
}
