/*-------------------------------------------------------------------------
 *
 * held_pass.c
 *	  The pass that looks at held tasks.
 *
 * A task is held behind another one of its unique key, because it waits for
 * other tasks (dependencies.c), or both.  Whoever ends the last of these makes
 * it ready, if that is known by then (held_tasks.c, successors.c).  What is not
 * known is left to this pass, which looks when all have committed: at tasks
 * that are named to it (held_looks.c), and at all that are held after a
 * start, and after rows were written with SQL, purged, or come from a prepared
 * transaction.
 *
 * It also ends those that are to be cancelled because one that they wait for
 * has failed, and forgets what a held task has waited for that has ended.
 *
 * Locking: the maintenance lock.  Nothing is waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "common/run_as.h"
#include "shmem/leases.h"
#include "shmem/stats.h"
#include "storage/row_reader.h"
#include "verbs/ended_tasks.h"
#include "verbs/held_tasks.h"
#include "verbs/pass.h"
#include "verbs/placement.h"
#include "verbs/unique_keys.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"

/* Predecessors that a pass looks at, or a few more. */
#define MAX_LOOKED		20000

/* What became of a look at a held task. */
typedef enum LookResult
{
	LOOK_DONE,					/* there is nothing to do, or others will */
	LOOK_RAN,					/* it is ready now, or has ended */
	LOOK_AGAIN,					/* it, or one before it, is in others' hands */
	LOOK_FAILED					/* it could not be ended */
} LookResult;

/* A look at held tasks. */
typedef struct HeldLook
{
	Pass	   *pass;
	Placement	placement;
	RowReader	row;
	int			looked;			/* predecessors */

	/* of a look at one task by itself */
	int64		id;
	LookResult	result;
} HeldLook;

static void
begin_look(HeldLook *look)
{
	placement_begin(&look->placement, look->pass->rel, look->pass->info);
	row_reader_begin(&look->row, look->pass->rel, look->pass->info);
}

/*
 * One of the key of the task that row has read may be before it.
 */
static LookResult
look_at_key(HeldLook *look)
{
	RowReader  *row = &look->row;
	QueueInfo  *info = row->info;
	LookResult	result = LOOK_AGAIN;
	ItemPointerData tid = row->tuple.t_self;
	KeyTasks	tasks;
	LOCKTAG		lock;
	text	   *key;

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
	else if (!TransactionIdIsValid(tasks.busy) &&
			 held_tasks_let_run(&look->placement, row, &tid))
		result = LOOK_RAN;
	LockRelease(&lock, ExclusiveLock, false);
	pfree(key);
	return result;
}

/*
 * Cancel a held task.
 */
static void
cancel_alone(void *arg)
{
	HeldLook   *look = arg;
	RowReader  *row = &look->row;
	QueueInfo  *info = look->pass->info;
	EndedTasks	ended = {0};
	RowStatus	status;

	row_reader_begin(row, look->pass->rel, info);
	status = row_reader_task(row, look->id, NULL);
	look->result = LOOK_AGAIN;
	if ((status == ROW_LIVE || status == ROW_OWN) &&
		DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_HELD &&
		row_writer_delete(row, false))
	{
		ended_tasks_add(&ended, row, ARCHIVE_CANCELLED, DT_NOBEGIN);
		stats_tally(info->state, QUEUE_CANCELLED, 1);
		dependencies_clear(info, look->id);
		look->result = LOOK_RAN;
	}
	row_reader_end(row);
	ended_tasks_write(&ended, look->pass->rel, info);
}

/*
 * End the task whose row was read: it is not to run, for one that it waits for
 * has failed.  An error, which only code of the owner's can raise, is no reason
 * for the rest of a pass to fail.
 */
static LookResult
end_task(HeldLook *look, int64 id)
{
	HeldLook	alone = {.pass = look->pass,.id = id};
	ErrorData  *error = run_as_try(cancel_alone, &alone);

	if (error == NULL)
		return alone.result;
	ereport(LOG,
			(errcode(error->sqlerrcode),
			 row_is_null(&look->row, COLUMN_NAME) ?
			 errmsg("could not cancel task " INT64_FORMAT " of queue \"%s\" after its predecessor failed: %s",
					id, look->pass->info->name, error->message) :
			 errmsg("could not cancel task " INT64_FORMAT " (\"%s\") of queue \"%s\" after its predecessor failed: %s",
					id, TextDatumGetCString(row_value(&look->row, COLUMN_NAME)),
					look->pass->info->name, error->message),
			 errhint("It stays held, and it is tried again from time to time.")));
	FreeErrorData(error);
	return LOOK_FAILED;
}

static LookResult
look_at(HeldLook *look, int64 id)
{
	RowReader  *row = &look->row;
	QueueInfo  *info = row->info;
	RowStatus	status = row_reader_task(row, id, NULL);
	ItemPointerData tid;

	if (status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT)
		return LOOK_AGAIN;
	if (status == ROW_GONE)
		dependencies_clear(info, id);
	if (status != ROW_LIVE || DatumGetInt64(row_value(row, COLUMN_ID)) != id ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_HELD)
		return LOOK_DONE;
	tid = row->tuple.t_self;
	switch (dependencies_look(row->rel, info, id, &look->looked))
	{
		case DEPENDENCIES_NONE:
			break;
		case DEPENDENCIES_OPEN:
			return LOOK_DONE;
		case DEPENDENCIES_BUSY:
			return LOOK_AGAIN;
		case DEPENDENCIES_CANCEL:
			return end_task(look, id);
	}
	if (!row_is_null(row, COLUMN_UNIQUE_KEY))
		return look_at_key(look);
	return held_tasks_let_run(&look->placement, row, &tid) ? LOOK_RAN : LOOK_AGAIN;
}

/*
 * A look with readers of its own.
 */
static void
look_alone(void *arg)
{
	HeldLook   *look = arg;

	begin_look(look);
	look->result = look_at(look, look->id);
	row_reader_end(&look->row);
}

static LookResult
look_with_care(HeldLook *look, int64 id)
{
	HeldLook	alone = {.pass = look->pass,.id = id};

	if (likely(!look->pass->care))
		return look_at(look, id);
	if (!pass_try(look->pass, "make held tasks ready", look_alone, &alone))
		return LOOK_FAILED;
	look->looked += alone.looked;
	return alone.result;
}

/*
 * What is to be looked at: ids has room for it.  Returns how many tasks, the
 * first *named of which are by name.
 */
static int
take_looks(Pass *pass, int64 *ids, int *named)
{
	QueueState *state = pass->info->state;
	int64		from;
	int64		after;
	int			n;

	/* Nothing may fail before it is noted what was taken. */
	pending_reserve(HELD_LOOKS + 1);
	n = held_looks_take(&state->held, pass->now, ids, &from);
	for (int i = 0; i < n; i++)
		pending_looked(state, ids[i], false);
	*named = n;
	if (from == PG_INT64_MAX)
		return n;
	pending_looked(state, from, true);
	n += queue_index_held(pass->rel, pass->info, from, pass->max, ids + n, &after);
	held_looks_walked(&state->held, after);
	pass->more |= (after != PG_INT64_MAX);
	return n;
}

/*
 * Look at held tasks that may have nothing before them, up to pass->max beside
 * those that are named.  Returns how many are ready, or have ended.
 */
int
held_pass(Pass *pass)
{
	HeldLooks  *held = &pass->info->state->held;
	HeldLook	look = {.pass = pass};
	TimestampTz next;
	int64	   *ids;
	int			named;
	int			n;
	int			ran = 0;

	AssertMaintenanceLocked(pass->rel);
	next = held_looks_next(held);
	if (next > pass->now)
	{
		pass_again(pass, next);
		return 0;
	}
	ids = palloc((pass->max + HELD_LOOKS) * sizeof(int64));
	n = take_looks(pass, ids, &named);
	begin_look(&look);
	for (int i = 0; i < n; i++)
	{
		LookResult	result;

		CHECK_FOR_INTERRUPTS();
		if (i == named)
			look.looked = 0;	/* those by name do not stop the walk */
		if (look.looked > MAX_LOOKED)
		{
			held_looks_put_back(held, ids[i], false);
			pass->more = true;
			continue;
		}
		result = look_with_care(&look, ids[i]);
		if (result == LOOK_AGAIN || result == LOOK_FAILED)
			held_looks_put_off(held, ids[i], i < named,
							   result == LOOK_AGAIN ? HELD_BUSY : HELD_FAILED, pass->now);
		ran += (result == LOOK_RAN);
	}
	held_looks_rest(held, GetCurrentTimestamp());
	pass_again(pass, held_looks_next(held));
	row_reader_end(&look.row);
	pfree(ids);
	return ran;
}
