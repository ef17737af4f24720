/*-------------------------------------------------------------------------
 *
 * recovery.h
 *	  Reading from the rows what shared memory does not know.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_RECOVERY_H
#define FAIRQ_RECOVERY_H

#include "queue_catalog.h"

/* How many tasks there are. */
typedef struct QueueDepths
{
	int64		addressed;		/* ready or leased */
	int64		scheduled;
	int64		dead;
} QueueDepths;

extern void recovery_classes(Relation rel, QueueInfo *info);
extern void recovery_tags(Relation rel, QueueInfo *info);
extern void recovery_depths(Relation rel, QueueInfo *info, QueueDepths *depths);

#endif							/* FAIRQ_RECOVERY_H */
