/*-------------------------------------------------------------------------
 *
 * unique_keys.c
 *	  Unique keys: at most one task of a key waits, and at most one is in flight.
 *
 * Of a key there is at most one task that is first: ready, leased, scheduled
 * or in the overflow; and at most one that is held behind it.  A held task has
 * no address, so no claim comes to it.  Dead tasks do not count.
 *
 * A producer whose key is free enqueues a task as always.  If the first task
 * waits, it is the one: it is kept, or replaced by what the producer gives.
 * If the first task is in flight, the producer's is held behind it; if a task
 * is held already, that is kept or replaced.
 *
 * Producers.  The row is the lock.  A producer that keeps or replaces a task
 * writes its row, even if nothing in it changes; other producers of the key
 * wait for the end of its transaction, as they do for that of one who has
 * enqueued the first task of a key.  Between the look at the index and the
 * write there is a lock on the key; it is not held longer, so that a
 * transaction with a hundred thousand keys does not fill the lock table.
 *
 * Workers.  That a row is being written also keeps claims, and passes that
 * would make it ready, from it; they get it when the producer's transaction
 * ends (pending.c).  So no worker starts a task that was kept or replaced
 * before the producer has committed: whoever writes data and then enqueues is
 * sure that a worker reads the data.  A claim may come just before the row is
 * written.  It looks at the row and enters the lease under the row's page
 * lock, so once we have written the row we see such a lease, and none can come
 * after.  Then the task is in flight: its row gets its old values back, and
 * ours is held.  The worker may wait for us in that case, in no other.
 *
 * Producers do not wait for workers: the row of a task that is leased may be in
 * the hands of a long transaction (a pop), but the lease says that the task is
 * in flight, and that is all they need to know.
 *
 * What is held becomes ready in held_tasks.c.
 *
 * A task may also be held because it waits for others (dependencies.c).  Then
 * it is the one that waits, though none of its key may be in flight.
 *
 * A key may be remembered for a time (unique_for, remembered_keys.c).  If no
 * task of it waits, the task that it was remembered with is the one until
 * then, be it in flight or ended.
 *
 * Locking: the lock of a key, for the hash of it, is a heavyweight lock, held
 * while the index is read and rows are written.  Under it nothing is waited
 * for but row locks of users.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "common/compat.h"
#include "shmem/leases.h"
#include "shmem/stats.h"
#include "storage/durable_leases.h"
#include "storage/queue_index.h"
#include "storage/remembered_keys.h"
#include "storage/row_reader.h"
#include "verbs/ended_tasks.h"
#include "verbs/held_tasks.h"
#include "verbs/unique_keys.h"
#include "xact/pending.h"
#include "xact/pending_ended.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/* Has a task that waits, or is held, expired?  Then it is not the one. */
static bool
has_expired(RowReader *row, const KeyRow *found)
{
	RowStatus	status = row_reader_read(row, &found->tid);

	return (status == ROW_LIVE || status == ROW_OWN) && row_reader_has_expired(row);
}

/*
 * What a producer is going to find, if nothing changes until it takes the
 * key.
 */
KeyFound
unique_keys_guess(RowReader *row, const text *key)
{
	KeyTasks	tasks;
	RememberedKey remembered;

	key_tasks_read(row->rel, row->info, key, &tasks);
	if ((tasks.has_held && !has_expired(row, &tasks.held)) ||
		(tasks.has_first && !tasks.in_flight && !has_expired(row, &tasks.first)))
		return KEY_WAITING;
	remembered_keys_find(row->info, key, &remembered);
	if (remembered.found)
		return KEY_WAITING;
	return tasks.in_flight ? KEY_IN_FLIGHT : KEY_FREE;
}

/* ----------------------------------------------------------------
 * Writing
 * ----------------------------------------------------------------
 */

/* Does the task that was read count for what a producer's does? */
static bool
same_group(RowReader *row, const NewTask *task)
{
	bool		none = row_is_null(row, COLUMN_SUBGROUP_KEY);

	return row_reader_same_text(task->group_key,
								DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY))) &&
		none == (task->subgroup_key == NULL) &&
		(none || row_reader_same_text(task->subgroup_key,
									  DatumGetTextPP(row_value(row, COLUMN_SUBGROUP_KEY))));
}

/*
 * Does a task that waits keep its place if it becomes what a producer gives?
 */
static bool
keeps_place(RowReader *row, const NewTask *task)
{
	switch (DatumGetChar(row_value(row, COLUMN_STATE)))
	{
		case TASK_HELD:
			return true;		/* it has none */
		case TASK_SCHEDULED:
			return false;
	}
	if (task->waits->n > 0)
		return false;
	if (row->info->policy == QUEUE_TIME)
		return task->run_at == DT_NOBEGIN;
	return task->run_at <= GetCurrentTimestamp() &&
		task->priority == DatumGetInt64(row_value(row, COLUMN_PRIORITY)) &&
		(row->info->policy != QUEUE_FAIR ||
		 (task->cost == DatumGetFloat4(row_value(row, COLUMN_COST)) &&
		  same_group(row, task)));
}

/*
 * What a producer gives, into the row that was read: all of it, as if it were a
 * new task, with all its attempts.  Only its id and its age are what they were.
 */
static void
take_values(RowReader *row, const NewTask *task, bool same_place)
{
	enqueue_set_values(row->info, task, GetCurrentTimestamp(), row->values, row->nulls);
	row_is_null(row, COLUMN_LAST_ERROR) = true;
	row_is_null(row, COLUMN_LOST) = true;
	row_is_null(row, COLUMN_HISTORY) = true;
	if (task->run_at != DT_NOBEGIN)
		placement_set_due(row, task->run_at);
	else if (row->info->policy != QUEUE_TIME)
		row_is_null(row, COLUMN_RUN_AT) = true;
	else if (!same_place || DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_HELD)
		placement_set_due(row, GetCurrentTimestamp());
}

/*
 * Write a row that was replaced as it was.
 */
static void
write_back(RowReader *row, const KeyRow *found, HeapTuple old)
{
	QueueInfo  *info = row->info;
	QueueCounter became = row_reader_depth(row);

	CommandCounterIncrement();
	heap_deform_tuple(old, RelationGetDescr(row->rel), row->values, row->nulls);
	if (!row_writer_update(row, true))
		elog(ERROR, "could not find the row of task " INT64_FORMAT " of queue \"%s\"",
			 found->id, info->name);
	stats_tally(info->state, became, -1);
	stats_tally(info->state, row_reader_depth(row), 1);
}

/*
 * A task was replaced: what it waits for is, too, if it was or is to be held.
 */
static void
replace_waits(RowReader *row, const KeyRow *found, const NewDependencies *waits)
{
	QueueInfo  *info = row->info;
	ReplacedDependencies replaced;
	NewDependencies now = *waits;

	if (waits->n == 0 &&
		(found->state != TASK_HELD ||
		 (!pending_predecessors_any() &&
		  dependencies_blocked(info, found->id) == DEPENDENCIES_NONE)))
		return;
	now.task = found->id;
	dependencies_no_circle(info, &now);
	replaced = (ReplacedDependencies)
	{
		.queue = info->state,
			.relation = info->relation,
			.on_dead = now.on_dead,
			.task = now.task,
			.n = now.n,
			.predecessors = now.predecessors,
	};
	pending_dependencies_replaced(&replaced);
}

/*
 * Write the row of a task that keeps its place, which is at an address in a
 * lane (NULL: it has none).
 */
static bool
write_in_place(RowReader *row, const KeyRow *found, Lane *lane,
			   const FairqAddress *address, bool wait)
{
	if (!row_writer_update(row, wait))
		return false;
	if (lane != NULL)
		pending_offer_at_commit(lane, address, &row->tuple.t_self);
	if (found->state == TASK_SCHEDULED)
		pending_scheduled(row->info->state,
						  DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)));
	return true;
}

/*
 * A task was moved that was ready, or in the overflow, of a group.  It was not
 * leased when its row was written: a lease that there is when this is committed
 * began since, and has counted off where the task is now (race 30).
 */
static void
leave_group(QueueInfo *info, uint32 group, bool addressed, char state)
{
	if (group == FAIRQ_NO_GROUP)
		return;
	if (addressed)
		pending_ready_removed(info->state, group, 1);
	else if (state == TASK_OVERFLOW)
		pending_overflow_removed(info->state, group, 1);
}

/*
 * Write the row of a task that waits: as it is, or as task gives it.  Returns
 * false if it is not there any more, or being written by another transaction
 * and wait is false.
 *
 * *lost: a worker has just claimed it, and it is as it was.
 */
static bool
write_waiting(Placement *placement, RowReader *row, const KeyRow *found,
			  const NewTask *task, bool wait, bool *lost)
{
	QueueInfo  *info = row->info;
	RowStatus	status = row_reader_read(row, &found->tid);
	FairqAddress address;
	Lane	   *lane;
	HeapTuple	old = NULL;
	bool		addressed;
	bool		same_place = true;
	uint32		left = FAIRQ_NO_GROUP;
	int			mark;

	*lost = false;
	if ((status != ROW_LIVE && status != ROW_OWN) ||
		DatumGetInt64(row_value(row, COLUMN_ID)) != found->id ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != found->state)
		return false;

	/* To keep it takes nothing: others do not see it before we commit. */
	if (status == ROW_OWN && !task->replace)
		return true;
	if (status == ROW_OWN)
		CommandCounterIncrement();

	pending_reserve(8);
	mark = pending_mark();
	lane = placement_lane_of(row, &address);
	addressed = (lane != NULL);
	if (addressed && status == ROW_LIVE)
		pending_offer_at_abort(lane, &address, &row->tuple.t_self);
	if (task->replace)
	{
		old = heap_copytuple(&row->tuple);
		same_place = keeps_place(row, task);
		if (addressed && !same_place)
			placement_uncharge(row, &address);
		if (!same_place && info->policy == QUEUE_FAIR)
			left = placement_group(row);
		take_values(row, task, same_place);
	}

	if (!(same_place ? write_in_place(row, found, lane, &address, wait) :
		  task->waits->n > 0 ? placement_unplace(row, TASK_HELD, wait) :
		  placement_by_run_at(placement, row, wait)))
	{
		pending_not_moved(mark);
		return false;
	}

	*lost = ((addressed || found->state == TASK_OVERFLOW) && status == ROW_LIVE &&
			 key_tasks_is_leased(info, found->id));
	if (*lost && old != NULL)
	{
		if (!same_place &&
			DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW)
			pending_not_overflowed(info->state, placement_group(row));
		pending_not_moved(mark);
		write_back(row, found, old);
		if (addressed)
			pending_offer_at_commit(lane, &address, &row->tuple.t_self);
	}
	else if (task->replace)
	{
		leave_group(info, left, addressed, found->state);
		replace_waits(row, found, task->waits);
	}
	return true;
}

/*
 * If the task that waits has expired it is not the one: end it.  Returns
 * whether it has expired; then the caller looks again.
 */
static bool
end_expired(RowReader *row, const KeyRow *found, bool wait)
{
	ExpireEntry entry = {.tid = found->tid,.id = found->id};
	ErrorData  *error;
	int			ended = 0;

	if (!has_expired(row, found))
		return false;
	error = expire_tasks(row->rel, row->info, 1, &entry, wait, &ended);
	if (error != NULL)
		ReThrowError(error);
	return true;
}

/*
 * Take the key of a task that is being enqueued, with the lock of the key,
 * which is held until unique_keys_let_go.  If a task of it waits, it is kept
 * or replaced; else the caller inserts the task.  Or (NULL) take the key of the
 * dead task that row has read, which is being revived.
 *
 * Waits for transactions that have a task of the key in hand, without the lock.
 */
void
unique_keys_take(Placement *placement, RowReader *row, const NewTask *task,
				 UniqueKey *key)
{
	Relation	rel = row->rel;
	QueueInfo  *info = row->info;
	const text *name = task != NULL ? task->unique_key :
		DatumGetTextPP(row_value(row, COLUMN_UNIQUE_KEY));
	RememberedKey remembered = {0};
	int			failures = 0;
	bool		lost = false;

	durable_leases_require(rel, info);
	key_tasks_lock_tag(rel, name, &key->lock);
	for (;;)
	{
		KeyTasks	tasks;
		KeyRow	   *waiting;
		TransactionId busy;

		(void) LockAcquire(&key->lock, ExclusiveLock, false, false);
		key_tasks_find(rel, info, name, &tasks);
		/* What is held is the one, whatever becomes of the first. */
		busy = tasks.has_held && task != NULL ? InvalidTransactionId : tasks.busy;

		/*
		 * After the tasks: a transaction that has ended one since has
		 * remembered it.
		 */
		if (!TransactionIdIsValid(busy) && task != NULL)
		{
			remembered_keys_find(info, name, &remembered);
			busy = remembered.busy;
		}
		if (TransactionIdIsValid(busy))
		{
			unique_keys_let_go(key);
			XactLockTableWait(busy, NULL, NULL, XLTW_None);
			failures = 0;
			continue;
		}
		key->remembered = remembered.found;

		waiting = tasks.has_held ? &tasks.held :
			tasks.has_first && !tasks.in_flight ? &tasks.first : NULL;
		key->id = tasks.has_first ? tasks.first.id : 0;
		if (waiting == NULL && remembered.found)
		{
			key->found = KEY_WAITING;
			key->id = remembered.task;
			return;
		}
		if (waiting == NULL)
		{
			key->found = tasks.has_first ? KEY_IN_FLIGHT : KEY_FREE;
			return;
		}
		if (task == NULL)
		{
			key->found = KEY_WAITING;
			return;
		}
		if (!end_expired(row, waiting, failures > 1) &&
			write_waiting(placement, row, waiting, task, failures > 1, &lost))
		{
			key->found = lost && !remembered.found ? KEY_IN_FLIGHT : KEY_WAITING;
			if (tasks.has_held)
				pending_task_held(info->state, waiting->id, key->id);
			key->id = lost && remembered.found ? remembered.task : waiting->id;
			return;
		}

		/*
		 * It was moved, has expired, or a claim has it in hand.  If it is
		 * there and free still and cannot be written, a user has locked it.
		 */
		unique_keys_let_go(key);
		failures++;
	}
}

void
unique_keys_let_go(const UniqueKey *key)
{
	Assert(fairq_lock_held_by_me(&key->lock, ExclusiveLock));
	(void) LockRelease(&key->lock, ExclusiveLock, false);
}
