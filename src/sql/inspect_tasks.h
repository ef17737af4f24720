/*-------------------------------------------------------------------------
 *
 * inspect_tasks.h
 *	  What those who look at queues share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_INSPECT_TASKS_H
#define FAIRQ_INSPECT_TASKS_H

#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "shmem/queue_state.h"
#include "storage/queue_catalog.h"

extern bool inspect_tasks_oldest_ready(Relation rel, QueueInfo *info,
								 TimestampTz *oldest);
extern List *visible_queues_list(void);
extern QueueInfo *visible_queues_open(Oid relation, Relation *rel);

#endif							/* FAIRQ_INSPECT_TASKS_H */
