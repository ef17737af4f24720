/*-------------------------------------------------------------------------
 *
 * remembered_keys.h
 *	  Unique keys that are remembered for a time, also when their tasks have ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_REMEMBERED_KEYS_H
#define FAIRQ_REMEMBERED_KEYS_H

#include "storage/queue_catalog.h"

/* What is remembered of a key. */
typedef struct RememberedKey
{
	TransactionId busy;			/* valid: this one is about to remember it */
	bool		found;
	int64		task;			/* found: of which task it is the key */
} RememberedKey;

extern bool remembered_keys_any(QueueInfo *info);
extern void remembered_keys_find(QueueInfo *info, const text *key, RememberedKey *result);
extern void remembered_keys_add(QueueInfo *info, text *key, int64 task, TimestampTz until);
extern int64 remembered_keys_withdraw(QueueInfo *info, const text *key);
extern int	remembered_keys_forget(QueueInfo *info, TimestampTz now, int max,
								   IndexPosition *from, bool *left);
extern void remembered_keys_look_none(QueueInfo *info);

#endif							/* FAIRQ_REMEMBERED_KEYS_H */
