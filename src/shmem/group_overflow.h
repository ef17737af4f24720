/*-------------------------------------------------------------------------
 *
 * group_overflow.h
 *	  The overflow of groups: which of them have any, and whose turn it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_OVERFLOW_H
#define FAIRQ_GROUP_OVERFLOW_H

#include "shmem/groups.h"
#include "shmem/replenished_tasks.h"

/* A group that has room for tasks of its overflow. */
typedef struct StarvedGroup
{
	uint32		group;
	int			class;
	int64		hash;			/* of the key, as SQL has it */
	int64		from;			/* the first id that may be there */
	int64		lost;			/* those below may have lost their places */
	uint32		limit;			/* its limit, or NO_LIMIT */
	int			room;			/* how many may be moved now; 0: look whether
								 * there are any */
} StarvedGroup;

/* What came of a replenish. */
typedef struct GroupFed
{
	bool		moved;			/* tasks were moved out of the overflow */
	bool		written;		/* some of them have addresses now */
	int64		next;			/* the next tasks have this id, or a higher
								 * one; PG_INT64_MAX: there are none */
	int64		held;			/* from here on some are in hand elsewhere */
	int64		lost;			/* some below may have lost their places */
} GroupFed;

/* Whether a group has run out of places. */
typedef enum GroupDry
{
	GROUP_NOT_DRY,
	GROUP_IS_DRY,
	GROUP_IS_BEING_REFILLED
} GroupDry;

extern void group_overflow_begins(QueueState *queue, int class, const GroupName *name,
								  GroupTag *tag);
extern void group_overflow_ends(QueueState *queue, uint32 group, int n,
								int64 id, bool committed);
extern void group_overflow_removed(QueueState *queue, uint32 group, int n);
extern bool group_overflow_return(QueueState *queue, uint32 group, int64 task);
extern ReplenishedTask group_overflow_leave(QueueState *queue, uint32 group, int64 task);
extern void group_overflow_found(QueueState *queue, int class, const GroupName *name,
								 int64 id, bool again);
extern void group_overflow_wake_worker(QueueState *queue);
extern bool group_overflow_next_starved(QueueState *queue, StarvedGroup *starved);
extern GroupDry group_overflow_is_dry(QueueState *queue, uint32 group, StarvedGroup *starved);
extern void group_overflow_replenished(QueueState *queue, uint32 group, const GroupFed *fed);
extern void group_overflow_not_replenished(QueueState *queue, uint32 group, int64 lost);
extern void group_overflow_seek_starved(QueueState *queue, bool held);

#endif							/* FAIRQ_GROUP_OVERFLOW_H */
