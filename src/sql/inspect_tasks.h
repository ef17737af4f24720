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
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "storage/queue_catalog.h"
#include "storage/row_reader.h"

/* Which tasks are asked for; NULL: any. */
typedef struct TaskFilter
{
	const char *state;
	const text *group;
	const text *name;
} TaskFilter;

/* inspect_tasks.c */
extern const TaskFilter inspect_tasks_any;

extern void inspect_tasks_wanted(FunctionCallInfo fcinfo, int number, TaskFilter *wanted);
extern const char *inspect_tasks_look(RowReader *row, const TaskFilter *wanted,
									  LeaseInfo *lease, bool *leased);
extern bool inspect_tasks_oldest_ready(Relation rel, QueueInfo *info,
									   TimestampTz *oldest);

/* visible_queues.c: which queues the caller may see, opened for a look */
/* A queue for a view: without rel and info if it is locked, unfit or gone. */
typedef struct VisibleQueue
{
	const char *name;
	QueueState *state;			/* may be NULL then */
	Relation	rel;
	QueueInfo  *info;
} VisibleQueue;

typedef void (*VisibleQueueRows) (ReturnSetInfo *rsinfo, const VisibleQueue *queue);

extern bool visible_queues_may_see(Oid relation);
extern List *visible_queues_list(void);
extern QueueInfo *visible_queues_open(Oid relation, Relation *rel);
extern Datum visible_queues_rows(FunctionCallInfo fcinfo, VisibleQueueRows rows);

#endif							/* FAIRQ_INSPECT_TASKS_H */
