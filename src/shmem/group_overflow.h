/*-------------------------------------------------------------------------
 *
 * group_overflow.h
 *	  The overflow of groups: how many of their tasks have no address.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_OVERFLOW_H
#define FAIRQ_GROUP_OVERFLOW_H

#include "shmem/groups.h"

extern void group_overflow_begins(QueueState *queue, int class, const GroupName *name,
								  GroupTag *tag);
extern void group_overflow_ends(QueueState *queue, uint32 group, int n,
								const OverflowTask *first, bool committed);
extern void group_overflow_removed(QueueState *queue, uint32 group, int n);
extern void group_overflow_again(QueueState *queue, int class, uint32 group, int64 id);
extern void group_overflow_found(QueueState *queue, int class, const GroupName *name,
								 int64 id, bool again);

#endif							/* FAIRQ_GROUP_OVERFLOW_H */
