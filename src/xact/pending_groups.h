/*-------------------------------------------------------------------------
 *
 * pending_groups.h
 *	  Pending actions about groups: what they have, and what they may have.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_GROUPS_H
#define FAIRQ_PENDING_GROUPS_H

#include "shmem/groups.h"
#include "shmem/queue_state.h"

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

#endif							/* FAIRQ_PENDING_GROUPS_H */
