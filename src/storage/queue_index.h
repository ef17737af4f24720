/*-------------------------------------------------------------------------
 *
 * queue_index.h
 *	  Reading the indexes of a queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_INDEX_H
#define FAIRQ_QUEUE_INDEX_H

#include "utils/snapshot.h"

#include "shmem/lanes.h"
#include "storage/queue_catalog.h"

/* Where to go on in a group's overflow. */
typedef struct OverflowPlace
{
	int64		id;				/* PG_INT64_MAX: there is no more */
	ItemPointerData tid;		/* with the entry of that; invalid: with all of its
								 * entries */
} OverflowPlace;

extern int	queue_index_walk(Relation rel, QueueInfo *info, Lane *lane,
								const LaneEntry *from, int max,
								LaneEntry *entries, LaneEntry *next,
								bool *more);
extern int	queue_index_look(Relation rel, QueueInfo *info, Lane *lane,
								const LaneEntry *from, int max,
								LaneEntry *entries, LaneEntry *next,
								bool *more);
extern bool queue_index_lane_after(Relation rel, QueueInfo *info, int *bucket,
									  int *class);
extern int	queue_index_due(Relation rel, QueueInfo *info,
							   const DuePlace *from, TimestampTz now, int max,
							   DuePlace *entries, DuePlace *next);
extern int	queue_index_overflow(Relation rel, QueueInfo *info, int64 hash,
									int class, const OverflowPlace *from, int max,
									int64 *ids, ItemPointer tids, OverflowPlace *next);
extern bool queue_index_overflow_after(Relation rel, QueueInfo *info,
										  int64 *hash, int64 *class);
extern bool queue_index_has_overflow(Relation rel, QueueInfo *info);
extern int	queue_index_ids(Relation rel, QueueInfo *info, const DuePlace *from,
							   int64 upto, int max, DuePlace *entries,
							   DuePlace *next);
extern bool queue_index_find(Relation rel, QueueInfo *info, int64 id,
								Snapshot snapshot, ItemPointer tid);

#endif							/* FAIRQ_QUEUE_INDEX_H */
