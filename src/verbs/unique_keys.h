/*-------------------------------------------------------------------------
 *
 * unique_keys.h
 *	  Unique keys: at most one task of a key waits, and at most one is in flight.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_UNIQUE_KEYS_H
#define FAIRQ_UNIQUE_KEYS_H

#include "storage/lock.h"

#include "storage/queue_catalog.h"
#include "storage/row_reader.h"
#include "verbs/enqueue.h"
#include "verbs/placement.h"

/* What a producer finds of a key. */
typedef enum KeyFound
{
	KEY_FREE,					/* nothing: a new task is ready */
	KEY_WAITING,				/* a task waits, or is remembered: it is the
								 * one */
	KEY_IN_FLIGHT				/* one is in flight: a new one is held */
} KeyFound;

/* A key in the hands of whoever writes a task of it. */
typedef struct UniqueKey
{
	KeyFound	found;
	int64		id;				/* of the task that waits, is remembered or in
								 * flight */
	bool		remembered;		/* for a time that is not over */
	LOCKTAG		lock;
} UniqueKey;

extern KeyFound unique_keys_guess(RowReader *row, const text *key);
extern void unique_keys_take(Placement *placement, RowReader *row,
							 const NewTask *task, UniqueKey *key);
extern void unique_keys_take_for_revival(Relation rel, QueueInfo *info,
										 const text *name, UniqueKey *key);
extern void unique_keys_let_go(const UniqueKey *key);

#endif							/* FAIRQ_UNIQUE_KEYS_H */
