/*-------------------------------------------------------------------------
 *
 * limit_room.h
 *	  Room for tasks that are taken, and groups that wait for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LIMIT_ROOM_H
#define FAIRQ_LIMIT_ROOM_H

#include "common/group_name.h"
#include "shmem/limit_table.h"

/* For lines, whose lane is locked: turns.c. */
extern bool limit_room_reserve(uint32 *number, const GroupKey *key, uint32 group, bool parked,
							   bool more, bool *blocked);
extern void limit_room_block(uint32 number, const GroupKey *key, uint32 group, bool *blocked);
extern void limit_room_parked(uint32 number, int n);

/* For group_limits.c. */
extern uint32 limit_room_first_due(QueueLimits *limits, TimestampTz now);
extern void limit_room_forget_queue(int queue);

/* When the first of a queue's groups that waits for a token has one. */
static inline TimestampTz
limit_room_next_token(QueueLimits *limits)
{
	return (TimestampTz) pg_atomic_read_u64(&limits->next_token);
}

#endif							/* FAIRQ_LIMIT_ROOM_H */
