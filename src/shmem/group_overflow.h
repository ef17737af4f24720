/*-------------------------------------------------------------------------
 *
 * group_overflow.h
 *	  The overflow of groups: which of them have any, and whose turn it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_OVERFLOW_H
#define FAIRQ_GROUP_OVERFLOW_H

#include "shmem/fed_tasks.h"
#include "shmem/groups.h"

/* A group that has room for tasks of its overflow. */
typedef struct HungryGroup
{
	uint32		group;
	int			class;
	int64		hash;			/* of the key, as SQL has it */
	int64		from;			/* the first id that may be there */
	int64		lost;			/* those below may have lost their places */
	uint32		limit;			/* its limit, or NO_LIMIT */
	int			room;			/* how many may be moved now; 0: look whether there
								 * are any */
} HungryGroup;

/* What a group was given out of its overflow. */
typedef struct GroupFed
{
	bool		moved;			/* some tasks were given places */
	int			written;		/* tasks that have addresses now */
	int64		next;			/* the next ones are from this id on; PG_INT64_MAX:
								 * there are no more ... */
	int64		held;			/* ... but for some from here on, whose rows were
								 * locked by others, */
	int64		lost;			/* and some below this that may have lost their places */
} GroupFed;

/* Whether a group has run out of places. */
typedef enum GroupDry
{
	GROUP_NOT_DRY,
	GROUP_IS_DRY,
	GROUP_IS_BEING_FED
} GroupDry;

extern void group_overflow_begins(QueueState *queue, int class, const char *key,
								  int keylen, GroupTag *tag);
extern void group_overflow_ends(QueueState *queue, uint32 group, int n,
								int64 id, bool committed);
extern void group_overflow_removed(QueueState *queue, uint32 group, int n);
extern bool group_overflow_unfeed(QueueState *queue, uint32 group, int64 task);
extern FedTask group_overflow_feed(QueueState *queue, uint32 group, int64 task);
extern void group_overflow_found(QueueState *queue, int class, const char *key,
								 int keylen, int64 id, bool again);
extern void group_overflow_wake_feeder(QueueState *queue);
extern bool group_overflow_next_hungry(QueueState *queue, HungryGroup *hungry);
extern GroupDry group_overflow_is_dry(QueueState *queue, uint32 group, HungryGroup *hungry);
extern void group_overflow_fed(QueueState *queue, uint32 group, const GroupFed *fed);
extern void group_overflow_not_fed(QueueState *queue, uint32 group, int64 lost);
extern void group_overflow_seek_hungry(QueueState *queue, bool held);

#endif							/* FAIRQ_GROUP_OVERFLOW_H */
