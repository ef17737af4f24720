/*-------------------------------------------------------------------------
 *
 * inspect_tasks.h
 *	  Looking at queues and tasks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_INSPECT_TASKS_H
#define FAIRQ_INSPECT_TASKS_H

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "storage/queue_catalog.h"

/* inspect_tasks.c */
extern char *inspect_tasks_wanted(FunctionCallInfo fcinfo, int number);
extern const char *inspect_tasks_state(QueueInfo *info, int64 id, char row_state,
									   bool addressed, LeaseInfo *lease, bool *leased);
extern bool inspect_tasks_oldest_ready(Relation rel, QueueInfo *info,
									   TimestampTz *oldest);

/* visible_queues.c: which queues the caller may see, opened for a look */
extern bool visible_queues_may_see(Oid relation);
extern List *visible_queues_list(void);
extern QueueInfo *visible_queues_open(Oid relation, Relation *rel);

#endif							/* FAIRQ_INSPECT_TASKS_H */
