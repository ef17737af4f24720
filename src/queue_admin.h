/*-------------------------------------------------------------------------
 *
 * queue_admin.h
 *	  Creating, altering and dropping queues.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_ADMIN_H
#define FAIRQ_QUEUE_ADMIN_H

#include "queue_catalog.h"

/* Settings as given; NULL: not given. */
typedef struct QueueSettings
{
	const char *policy;
	const int  *buckets;
	const Interval *lease;
	const int  *max_attempts;
	const Interval *backoff_base;
	const Interval *backoff_max;
} QueueSettings;

extern void queue_admin_create(const text *name, const QueueSettings *settings);
extern void queue_admin_alter(const text *name, const QueueSettings *settings);
extern bool queue_admin_drop(const text *name);
extern void queue_admin_pause(const text *name, bool paused);

#endif							/* FAIRQ_QUEUE_ADMIN_H */
