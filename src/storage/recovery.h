/*-------------------------------------------------------------------------
 *
 * recovery.h
 *	  Reading from the rows what shared memory does not know.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_RECOVERY_H
#define FAIRQ_RECOVERY_H

#include "storage/queue_catalog.h"

/*
 * How many tasks there are: by QueueCounter, those from QUEUE_FIRST_DEPTH on.
 */
typedef int64 QueueDepths[QUEUE_COUNTERS];

extern void recovery_classes(Relation rel, QueueInfo *info);
extern void recovery_tags(Relation rel, QueueInfo *info);
extern bool recovery_is_long(Relation rel, QueueInfo *info);
extern bool recovery_is_under_way(QueueInfo *info);
extern void recovery_try_tags(Relation rel, QueueInfo *info);
extern void recovery_recount(Relation rel, QueueInfo *info);
extern void recovery_depths(Relation rel, QueueInfo *info, QueueDepths depths);

#endif							/* FAIRQ_RECOVERY_H */
