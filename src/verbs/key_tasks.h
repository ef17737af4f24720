/*-------------------------------------------------------------------------
 *
 * key_tasks.h
 *	  The tasks of a unique key.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_KEY_TASKS_H
#define FAIRQ_KEY_TASKS_H

#include "storage/lock.h"

#include "storage/key_index.h"

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

#endif							/* FAIRQ_KEY_TASKS_H */
