/*-------------------------------------------------------------------------
 *
 * remove.h
 *	  The verbs that go by row: cancel, purge, revive.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_REMOVE_H
#define FAIRQ_REMOVE_H

#include "storage/queue_catalog.h"

extern bool remove_cancel(Relation rel, QueueInfo *info, int64 id);
extern int64 remove_purge(Relation rel, QueueInfo *info, const text *group);
extern int64 remove_revive(Relation rel, QueueInfo *info, int64 id);
extern int64 remove_revive_all(Relation rel, QueueInfo *info, const text *group);

#endif							/* FAIRQ_REMOVE_H */
