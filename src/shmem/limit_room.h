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

/* A group, or a subgroup, a task of which is taken; or nothing. */
typedef struct RoomLevel
{
	const GroupKey *key;		/* NULL: there is no such level */
	uint32		group;			/* its number */
	bool		more;			/* it has others that wait */
	bool	   *blocked;		/* set to true if it has to wait */
} RoomLevel;

/* For lines, whose lane is locked: turns.c. */
extern bool limit_room_reserve(uint32 limits[LIMIT_LEVELS],
							   const RoomLevel levels[LIMIT_LEVELS], bool parked);
extern void limit_room_block(uint32 number, const RoomLevel *level);
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
