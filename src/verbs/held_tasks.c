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

#include "shmem/leases.h"
#include "storage/queue_open.h"
#include "verbs/held_tasks.h"
#include "verbs/placement.h"
#include "verbs/unique_keys.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"

/* A task of a key that is gone or dead, once this transaction commits. */
typedef struct GoneTask
{
	Oid			relation;
	int64		id;
	text	   *key;
} GoneTask;

/* Of GoneTask, in TopTransactionContext. */
static List *gone_tasks = NIL;

/*
 * Before the commit: open a queue to make tasks of it ready.  Returns false if
 * there is none any more.
 *
 * As its owner, also where that is the caller: in a restricted context the
 * owner's code cannot leave a deferred trigger behind, which would not be fired
 * any more.
 */
bool
held_tasks_begin(HeldWork *work, Oid relation)
{
	work->info = queue_open_relation(relation, RowExclusiveLock, 0, &work->rel);
	if (work->info == NULL)
		return false;
	run_as_owner(work->rel->rd_rel->relowner, RelationGetRelid(work->rel), &work->owner);
	placement_begin(&work->placement, work->rel, work->info);
	row_reader_begin(&work->row, work->rel, work->info);
	return true;
}

void
held_tasks_end(HeldWork *work)
{
	row_reader_end(&work->row);
	run_as_end(&work->owner);
	relation_close(work->rel, NoLock);
}

/*
 * Make a held task ready, if it is there and free.  One that SQL has made held
 * while it is leased is looked at when its lease is over.
 */
bool
held_tasks_let_run(Placement *placement, RowReader *row, const ItemPointerData *tid)
{
	RowStatus	status = row_reader_read(row, tid);
	TimestampTz now = GetCurrentTimestamp();
	LeaseInfo	lease;

	if ((status != ROW_LIVE && status != ROW_OWN) ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_HELD ||
		row_reader_lease(row, &lease))
		return false;

	/* It waits from now on; policy time places it by what was given. */
	if (row_is_null(row, COLUMN_RUN_AT) ||
		(row->info->policy != QUEUE_TIME &&
		 DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)) < now))
		placement_set_due(row, now);
	return placement_by_run_at(placement, row, false);
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
	gone->relation = RelationGetRelid(row->rel);
	gone->id = DatumGetInt64(row_value(row, COLUMN_ID));
	gone->key = DatumGetTextPCopy(row_value(row, COLUMN_UNIQUE_KEY));
	gone_tasks = lappend(gone_tasks, gone);
	MemoryContextSwitchTo(old);
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
		DependencyLook look = dependencies_blocked(info, tasks.held.id);

		if (look == DEPENDENCIES_OPEN)
			return;				/* who ends the last of these looks at it */
		if (look == DEPENDENCIES_NONE && held_tasks_let_run(placement, row, &tasks.held.tid))
			return;
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
	if (gone_tasks == NIL)
		return;

	/* What the last command has deleted or enqueued is seen as such. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	/* More may come meanwhile, at the end. */
	for (int at = 0; at < list_length(gone_tasks);)
	{
		GoneTask   *gone = list_nth(gone_tasks, at);
		Oid			relation = gone->relation;
		HeldWork	work;
		bool		there = held_tasks_begin(&work, relation);

		while (gone != NULL && gone->relation == relation)
		{
			if (there)
				look_behind(&work.placement, &work.row, gone);
			gone = ++at < list_length(gone_tasks) ? list_nth(gone_tasks, at) : NULL;
		}
		if (there)
			held_tasks_end(&work);
	}
	PopActiveSnapshot();
	gone_tasks = NIL;
}

static void
forget_gone(void)
{
	gone_tasks = NIL;
}

/*
 * Register the hooks.  Called once a process, from _PG_init.
 */
void
held_tasks_register(void)
{
	pending_hook(PENDING_BEFORE_COMMIT, look_behind_all);
	pending_hook(PENDING_AT_END, forget_gone);
}
