/*-------------------------------------------------------------------------
 *
 * limited_groups.h
 *	  Which limit a group has, and how the classes of a group learn it.
 *
 * The caller has the queue's table locked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LIMITED_GROUPS_H
#define FAIRQ_LIMITED_GROUPS_H

#include "shmem/queue_state.h"

/* For those who look, and for the sweep. */
extern uint32 limited_groups_find(QueueState *queue, const GroupName *name);
extern double limited_groups_weight(QueueState *queue, const GroupName *name);

/* For claims, but for limited_groups_waits. */
extern bool limited_groups_park(QueueState *queue, int class, const GroupName *name, Lane *lane,
								const LaneEntry *entry, float4 cost);
extern bool limited_groups_waits(QueueState *queue, const GroupName *name);
extern void limited_groups_join(QueueState *queue, const GroupName *name);

/* Settings: announced before the commit, and settled when that is done. */
extern uint32 limited_groups_announce(QueueState *queue, const GroupName *name);
extern void limited_groups_settle(QueueState *queue, uint32 limit,
								  const LimitSettings *settings);

#endif							/* FAIRQ_LIMITED_GROUPS_H */
