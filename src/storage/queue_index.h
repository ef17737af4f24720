/*-------------------------------------------------------------------------
 *
 * queue_index.h
 *	  Reading the indexes of a queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_INDEX_H
#define FAIRQ_QUEUE_INDEX_H

#include "access/genam.h"
#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "shmem/lanes.h"
#include "storage/queue_catalog.h"

/* Entries of a lane. */
typedef struct LaneRead
{
	LaneEntry  *entries;		/* room for max */
	int			max;
	bool		more;			/* there is one more entry, and it is ... */
	LaneEntry	next;
} LaneRead;

/*
 * A walk through a lane: what is in its window, and then the index from the
 * frontier on.  The current entry is read.entries[at], if
 * queue_index_has_entry().
 */
typedef struct LaneWalk
{
	Lane	   *lane;
	LaneRead	read;			/* has room for a window */
	int			at;
	int			n;
} LaneWalk;

/* Entries of an index on times or ids. */
typedef struct PlaceRead
{
	IndexPosition *entries;		/* room for max */
	int			max;
	int64		last;			/* none beyond this */
	IndexPosition next;			/* from where on; then where to go on (due at
								 * DT_NOEND: there is no more) */
} PlaceRead;

/* Where to go on in a group's overflow. */
typedef struct OverflowPlace
{
	int64		id;				/* PG_INT64_MAX: there is no more */
	ItemPointerData tid;		/* with the entry of that; invalid: with all
								 * of its entries */
} OverflowPlace;

/* Entries of a group's overflow. */
typedef struct OverflowRead
{
	int64		hash;			/* of the group's key */
	int			class;
	int64	   *ids;			/* room for max */
	ItemPointer tids;
	int			max;
	OverflowPlace next;
	IndexScanDesc *kept;		/* the scan, for the next read: NULL at first,
								 * ended by queue_index_end_kept() */
} OverflowRead;

/* queue_index.c */
extern int	queue_index_walk(Relation rel, QueueInfo *info, Lane *lane,
							 const LaneEntry *from, LaneRead *read);
extern void queue_index_walk_window(LaneWalk *walk, Lane *lane, int max);
extern bool queue_index_has_entry(Relation rel, QueueInfo *info, LaneWalk *walk);
extern bool queue_index_lane_after(Relation rel, QueueInfo *info, int *bucket,
								   int *class);
extern int	queue_index_places(Relation rel, Oid index_oid, PlaceRead *read);
extern int	queue_index_overflow(Relation rel, QueueInfo *info, OverflowRead *read);
extern void queue_index_end_kept(IndexScanDesc *kept);
extern bool queue_index_overflow_after(Relation rel, QueueInfo *info,
									   int64 *hash, int64 *class);
extern bool queue_index_has_overflow(Relation rel, QueueInfo *info);
extern bool queue_index_find(Relation rel, QueueInfo *info, int64 id,
							 Snapshot snapshot, ItemPointer tid);

/* A version of the row of a task with a unique key. */
typedef struct KeyRow
{
	int64		id;
	ItemPointerData tid;
	char		state;
	bool		own;			/* written by this transaction */
	TransactionId busy;			/* valid: this one is writing or removing it */
} KeyRow;

extern int	queue_index_key(Relation rel, QueueInfo *info, const text *key,
							Snapshot snapshot, int max, KeyRow *rows);
extern int	queue_index_held(Relation rel, QueueInfo *info, int64 from, int max,
							 int64 *ids, int64 *next);

#endif							/* FAIRQ_QUEUE_INDEX_H */
