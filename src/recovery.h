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

extern void recovery_classes(Relation rel, QueueInfo *info);
extern void recovery_tags(Relation rel, QueueInfo *info);
extern void recovery_depths(Relation rel, QueueInfo *info,
							int64 *addressed, int64 *dead);

#endif							/* FAIRQ_RECOVERY_H */
