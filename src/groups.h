/*-------------------------------------------------------------------------
 *
 * groups.h
 *	  Groups: the tags that share a queue fairly between them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUPS_H
#define FAIRQ_GROUPS_H

#include "queue_state.h"
#include "virtual_time.h"

#define FAIRQ_NO_GROUP	PG_UINT32_MAX

/* The tags that a task was given, and by which group. */
typedef struct GroupTag
{
	VirtualTime start;			/* S: the block of the task's address */
	VirtualTime finish;			/* F of the group after it */
	uint64		slot;
	uint32		group;
} GroupTag;

extern Size groups_shmem_size(void);
extern void groups_shmem_init(void *area, bool found);

extern void groups_tag(QueueState *queue, int class,
					   const char *key, int keylen, VirtualTime v,
					   double cost, double weight, GroupTag *tag);
extern uint32 groups_lease_begins(QueueState *queue, int class,
								  const char *key, int keylen);
extern void groups_lease_refused(uint32 group);
extern void groups_lease_ends(uint32 group);
extern void groups_ready(QueueState *queue, uint32 group, int n);
extern void groups_untag(uint64 slot, uint32 group, VirtualTime start,
						 VirtualTime finish);
extern bool groups_look(QueueState *queue, int class, const char *key, int keylen,
						GroupTag *tag);
extern void groups_level(QueueState *queue, uint32 group, VirtualTime finish);
extern void groups_restore(QueueState *queue, int class,
						   const char *key, int keylen,
						   VirtualTime finish, uint64 slot);
extern int	groups_reclaim(QueueState *queue, int class, bool nothing_ready);
extern void groups_forget_queue(int queue);

#endif							/* FAIRQ_GROUPS_H */
