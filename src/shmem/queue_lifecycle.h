/*-------------------------------------------------------------------------
 *
 * queue_lifecycle.h
 *	  What happens to all parts of a queue's shared state at once.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_LIFECYCLE_H
#define FAIRQ_QUEUE_LIFECYCLE_H

#include "shmem/queue_state.h"

extern QueueState *queue_lifecycle_attach(Oid relation, int classes);
extern void queue_lifecycle_release(Oid database, Oid relation);
extern void queue_lifecycle_settings_changed(Oid relation);

/* gone_queues.c */
extern int	gone_queues_release(void);

#endif							/* FAIRQ_QUEUE_LIFECYCLE_H */
