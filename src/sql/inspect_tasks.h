/*-------------------------------------------------------------------------
 *
 * inspect_tasks.h
 *	  Looking at tasks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_INSPECT_TASKS_H
#define FAIRQ_INSPECT_TASKS_H

#include "fmgr.h"
#include "utils/relcache.h"

#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "storage/queue_catalog.h"

extern char *inspect_tasks_wanted(FunctionCallInfo fcinfo, int number);
extern const char *inspect_tasks_state(QueueInfo *info, int64 id, char row_state,
									   bool addressed, LeaseInfo *lease, bool *leased);
extern bool inspect_tasks_oldest_ready(Relation rel, QueueInfo *info,
									   TimestampTz *oldest);

#endif							/* FAIRQ_INSPECT_TASKS_H */
