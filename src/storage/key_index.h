/*-------------------------------------------------------------------------
 *
 * key_index.h
 *	  The rows of a queue by unique key.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_KEY_INDEX_H
#define FAIRQ_KEY_INDEX_H

#include "storage/itemptr.h"
#include "utils/snapshot.h"

#include "storage/queue_catalog.h"

/* A version of the row of a task with the key. */
typedef struct KeyRow
{
	int64		id;
	ItemPointerData tid;
	char		state;
	bool		own;			/* written by this transaction */
	TransactionId busy;			/* valid: this one is writing or removing it */
} KeyRow;

extern int	key_index_read(Relation rel, QueueInfo *info, const text *key,
						   Snapshot snapshot, int max, KeyRow *rows);
extern int	key_index_held(Relation rel, QueueInfo *info, int64 from, int max,
						   int64 *ids, int64 *next);

#endif							/* FAIRQ_KEY_INDEX_H */
