/*-------------------------------------------------------------------------
 *
 * held_tasks.c
 *	  Tasks that are held behind others of their unique keys become ready.
 *
 * The end of the first task.  A transaction that removes it, or finds it
 * dead, looks just before it commits whether a task is held behind it, and
 * makes that ready.  Not earlier: a producer would have to wait for it.  The
 * one that is held may be committed just too late to be seen.  So before the
 * look the transaction says on the lease that it has looked (leases_closing);
 * and the producer looks for the lease after its commit (pending_task_held).
 * If it has gone, or says so, a pass looks at the task (held_pass.c); else it
 * was there before the look.
 *
 * A task may also be held because it waits for others (dependencies.c); then
 * it stays so.  Whoever ends the last of these has it looked at after the
 * commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "shmem/leases.h"
#include "storage/queue_open.h"
#include "verbs/held_tasks.h"
#include "verbs/placement.h"
#include "verbs/unique_keys.h"
#include "xact/pending_queue.h"

/* A task of a key that is gone or dead, once this transaction commits. */
typedef struct GoneTask
{
	struct GoneTask *next;
	Oid			relation;
	int64		id;
	text	   *key;
} GoneTask;

static GoneTask *gone_first = NULL;
static GoneTask *gone_last = NULL;

/*
 * Make a held task ready, if it is there and free.
 */
bool
held_tasks_let_run(Placement *placement, RowReader *row, const ItemPointerData *tid)
{
	RowStatus	status = row_reader_read(row, tid);
	TimestampTz now = GetCurrentTimestamp();

	if ((status != ROW_LIVE && status != ROW_OWN) ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_HELD)
		return false;

	/* It waits from now on; policy time places it by what was given. */
	if (row_is_null(row, COLUMN_RUN_AT) ||
		(row->info->policy != QUEUE_TIME &&
		 DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)) < now))
	{
		row_value(row, COLUMN_RUN_AT) = TimestampTzGetDatum(now);
		row_is_null(row, COLUMN_RUN_AT) = false;
	}
	return placement_by_run_at(placement, row, TASK_HELD, false);
}

/*
 * The task that row has read goes, or is dead, if this transaction commits:
 * what is held behind it, if it has a key, becomes ready then.
 */
void
held_tasks_gone(RowReader *row)
{
	MemoryContext old;
	GoneTask   *gone;

	if (likely(row_is_null(row, COLUMN_UNIQUE_KEY)))
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	gone = palloc(sizeof(GoneTask));
	gone->next = NULL;
	gone->relation = RelationGetRelid(row->rel);
	gone->id = DatumGetInt64(row_value(row, COLUMN_ID));
	gone->key = DatumGetTextPCopy(row_value(row, COLUMN_UNIQUE_KEY));
	MemoryContextSwitchTo(old);
	if (gone_last != NULL)
		gone_last->next = gone;
	else
		gone_first = gone;
	gone_last = gone;
}

/*
 * Look behind a task that has gone.  It may be there still, if its end was
 * rolled back to a savepoint.
 */
static void
look_behind(Placement *placement, RowReader *row, const GoneTask *gone)
{
	QueueInfo  *info = row->info;
	KeyTasks	tasks;

	leases_closing(queue_state_number(info->state), gone->id);
	key_tasks_read(row->rel, info, gone->key, &tasks);
	if (tasks.has_first)
		return;
	if (tasks.has_held && !tasks.busy_held)
	{
		switch (dependencies_blocked(info, tasks.held.id))
		{
			case DEPENDENCIES_OPEN:
			case DEPENDENCIES_CANCEL:
				return;			/* who ends the last of these looks at it */
			case DEPENDENCIES_BUSY:
				break;
			case DEPENDENCIES_NONE:
				if (held_tasks_let_run(placement, row, &tasks.held.tid))
					return;
				break;
		}
	}

	/* It is being written: that is not waited for, but looked at later. */
	if (tasks.has_held || tasks.busy_held)
		pending_task_held(info->state, tasks.has_held ? tasks.held.id : tasks.busy_id,
						  gone->id);
}

/*
 * The transaction is about to commit: look behind all that has gone.
 */
static void
look_behind_all(void)
{
	if (gone_first == NULL)
		return;

	/* What the last command has deleted or enqueued is seen as such. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	while (gone_first != NULL)
	{
		Oid			relation = gone_first->relation;
		Relation	rel;
		QueueInfo  *info = queue_open_relation(relation, RowExclusiveLock, 0, &rel);
		Placement	placement;
		RowReader	row;
		RunAs		owner;

		if (info != NULL)
		{
			/*
			 * Also where the owner is the caller: in a restricted context the
			 * owner's code cannot leave a deferred trigger behind, which
			 * would not be fired any more.
			 */
			run_as_owner(rel->rd_rel->relowner, RelationGetRelid(rel), &owner);
			placement_begin(&placement, rel, info);
			row_reader_begin(&row, rel, info);
		}
		for (; gone_first != NULL && gone_first->relation == relation;
			 gone_first = gone_first->next)
		{
			if (info != NULL)
				look_behind(&placement, &row, gone_first);
		}
		if (info != NULL)
		{
			row_reader_end(&row);
			run_as_end(&owner);
			relation_close(rel, NoLock);
		}
	}
	PopActiveSnapshot();
	gone_last = NULL;
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			look_behind_all();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			gone_first = gone_last = NULL;
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			break;
	}
}

/*
 * Register the callback.  Called once a process, from _PG_init.
 */
void
held_tasks_register(void)
{
	RegisterXactCallback(xact_callback, NULL);
}
