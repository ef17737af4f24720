/*-------------------------------------------------------------------------
 *
 * inspect_tasks.h
 *	  Looking at tasks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_INSPECT_TASKS_H
#define FAIRQ_INSPECT_TASKS_H

#include "utils/relcache.h"

#include "shmem/queue_state.h"
#include "storage/queue_catalog.h"

extern bool inspect_tasks_oldest_ready(Relation rel, QueueInfo *info,
									   TimestampTz *oldest);

#endif							/* FAIRQ_INSPECT_TASKS_H */
