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
 * If it has gone, or says so, a pass of maintain.c looks at the task; else it
 * was there before the look.  That pass looks at all that are held after a
 * start, and after rows were written with SQL, purged, or come from a
 * prepared transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "shmem/leases.h"
#include "storage/queue_open.h"
#include "verbs/held_tasks.h"
#include "verbs/key_tasks.h"
#include "verbs/placement.h"
#include "xact/pending_queue.h"

/* How soon to look again at what is being written, in microseconds. */
#define LOOK_USECS		INT64CONST(250000)

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
static bool
let_run(Placement *placement, RowReader *row, const ItemPointerData *tid)
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
	if (tasks.has_held && let_run(placement, row, &tasks.held.tid))
		return;

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
			run_as_owner(rel->rd_rel->relowner, &owner);
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

/* What became of a look at a held task. */
typedef enum LookResult
{
	LOOK_DONE,					/* there is nothing to do, or others will */
	LOOK_RAN,					/* it is ready now */
	LOOK_AGAIN					/* it, or one before it, is in others' hands */
} LookResult;

static LookResult
look_at(Placement *placement, RowReader *row, int64 id)
{
	QueueInfo  *info = row->info;
	LookResult	result = LOOK_AGAIN;
	ItemPointerData tid;
	KeyTasks	tasks;
	LOCKTAG		lock;
	text	   *key;

	switch (row_reader_task(row, id, NULL))
	{
		case ROW_GONE:
		case ROW_OWN:
			return LOOK_DONE;
		case ROW_IN_PROGRESS:
		case ROW_IN_DOUBT:
			return LOOK_AGAIN;
		case ROW_LIVE:
			break;
	}
	if (DatumGetInt64(row_value(row, COLUMN_ID)) != id ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_HELD)
		return LOOK_DONE;
	tid = row->tuple.t_self;
	if (row_is_null(row, COLUMN_UNIQUE_KEY))	/* by SQL */
		return let_run(placement, row, &tid) ? LOOK_RAN : LOOK_AGAIN;

	/* Whoever revives another one of the key must not meet us. */
	key = DatumGetTextPCopy(row_value(row, COLUMN_UNIQUE_KEY));
	key_tasks_lock_tag(row->rel, key, &lock);
	if (LockAcquire(&lock, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return LOOK_AGAIN;
	key_tasks_find(row->rel, info, key, &tasks);
	if (tasks.has_first)
	{
		if (!TransactionIdIsValid(tasks.first.busy) ||
			leases_will_look(queue_state_number(info->state), tasks.first.id))
			result = LOOK_DONE;
	}
	else if (!TransactionIdIsValid(tasks.busy) && let_run(placement, row, &tid))
		result = LOOK_RAN;
	LockRelease(&lock, ExclusiveLock, false);
	pfree(key);
	return result;
}

/*
 * Look at held tasks that may have nothing before them, up to pass->max beside
 * those that are named.  Returns how many are ready.
 */
int
held_tasks_look(Pass *pass)
{
	Relation	rel = pass->rel;
	QueueInfo  *info = pass->info;
	QueueState *state = info->state;
	int64		named[HELD_LOOKS];
	int64		from;
	int64	   *ids;
	int			named_count;
	int			n;
	int			ran = 0;
	bool		again = false;
	Placement	placement;
	RowReader	row;

	if (!queue_state_has_looks(state))
		return 0;
	named_count = queue_state_take_looks(state, named, &from);
	for (int i = 0; i < named_count; i++)
		pending_looked(state, named[i], false);
	ids = palloc((pass->max + HELD_LOOKS) * sizeof(int64));
	memcpy(ids, named, named_count * sizeof(int64));
	n = named_count;
	if (from != PG_INT64_MAX)
	{
		int64		after;

		pending_looked(state, from, true);
		n += key_index_held(rel, info, from, pass->max, ids + n, &after);
		if (after != PG_INT64_MAX)
		{
			queue_state_look_from(state, after);
			pass->more = true;
		}
	}

	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	for (int i = 0; i < n; i++)
	{
		LookResult	result;

		CHECK_FOR_INTERRUPTS();
		result = look_at(&placement, &row, ids[i]);
		if (result == LOOK_AGAIN)
			queue_state_look(state, ids[i]);
		again |= (result == LOOK_AGAIN);
		ran += (result == LOOK_RAN);
	}
	row_reader_end(&row);
	pfree(ids);
	if (again)
		pass_again(pass, GetCurrentTimestamp() + LOOK_USECS);
	return ran;
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
