/*-------------------------------------------------------------------------
 *
 * waiter_errands.h
 *	  What the background worker does for those who wait and listen.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_WAITER_ERRANDS_H
#define FAIRQ_WAITER_ERRANDS_H

#include "datatype/timestamp.h"

#include "shmem/waiters.h"

extern void waiter_errands_note(int queue);
extern void waiter_errands_set_notify(QueueState *queue, bool notify);
extern int	waiter_errands_due(Oid database, TimestampTz now, WaitersReady ready,
							   int max, int *queues, TimestampTz *next);
extern void waiter_errands_notify_again(int queue, TimestampTz when);

#endif							/* FAIRQ_WAITER_ERRANDS_H */
