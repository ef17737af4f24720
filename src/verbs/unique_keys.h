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
#include "storage/queue_index.h"
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

/* unique_keys.c */
extern KeyFound unique_keys_guess(RowReader *row, const text *key);
extern void unique_keys_take(Placement *placement, RowReader *row,
							 const NewTask *task, UniqueKey *key);
extern void unique_keys_let_go(const UniqueKey *key);

/* key_tasks.c */
/* Versions of rows of one key that may be there at once: two of two tasks. */
#define KEY_VERSIONS	16

/* The tasks of a key. */
typedef struct KeyTasks
{
	bool		has_first;
	bool		in_flight;		/* the first is leased */
	KeyRow		first;
	bool		has_held;
	KeyRow		held;
	TransactionId busy;			/* valid: this one has some in hand */
	bool		busy_held;		/* ... among them one that is held */
	int64		busy_id;
	int			n;
	KeyRow		rows[KEY_VERSIONS]; /* all of them */
} KeyTasks;

extern void key_tasks_lock_tag(Relation rel, const text *key, LOCKTAG *tag);
extern bool key_tasks_is_leased(QueueInfo *info, int64 id);
extern void key_tasks_read(Relation rel, QueueInfo *info, const text *key, KeyTasks *tasks);
extern void key_tasks_find(Relation rel, QueueInfo *info, const text *key, KeyTasks *tasks);

#endif							/* FAIRQ_UNIQUE_KEYS_H */
