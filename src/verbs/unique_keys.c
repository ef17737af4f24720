/*-------------------------------------------------------------------------
 *
 * unique_keys.c
 *	  Unique keys: at most one task of a key waits, and at most one is in flight.
 *
 * Of a key there is at most one task that is first: ready, leased, scheduled or in the overflow;
 * and at most one that is held behind it.  What is held has no
 * address, so nobody can claim it.  Dead tasks do not count.
 *
 * A producer whose key is free enqueues a task as always.  If the first task
 * waits, it is the one: it is kept, or replaced by what the producer gives.  If it is in flight, the producer's task is held
 * behind it, and if one is held already, that is kept or replaced.
 *
 * Producers.  The row is the lock.  Whoever keeps or replaces a task writes its
 * row, even if nothing in it changes; other producers of the key wait for the
 * end of his transaction, as they do for that of one who has enqueued the first
 * task of a key.  Between the look at the index and the write there is a
 * lock on the key; it is not held longer, so that a transaction with a hundred
 * thousand keys does not fill the lock table.
 *
 * Workers.  That a row is being written also keeps claims, and passes that would
 * make it ready, from it; they get it when the producer's transaction ends
 * (pending.c).  So no worker starts a task that was kept or replaced before the
 * producer has committed: whoever writes data and then enqueues is sure that a
 * worker reads the data.  A claim may come just before the row is written.  It
 * looks at the row and enters the lease under the row's page lock, so once we
 * have written the row we see such a lease, and none can come after.  Then the task is in
 * flight: its row gets its old values back, and ours is held.  The worker may
 * wait for us in that case, in no other.
 *
 * Producers do not wait for workers: the row of a task that is leased may be in
 * the hands of a long transaction (a pop), but the lease says that the task is
 * in flight, and that is all they need to know.
 *
 * The end of the first task.  Whoever removes it, or finds it dead, looks just
 * before his transaction commits whether a task is held behind it, and makes
 * that ready.  Not earlier: a producer would have to wait for him.  The one that is
 * held may be committed just too late to be seen.  So before he looks he says
 * on the lease that he has (leases_closing); and the producer looks for the lease when
 * he has committed (pending_task_held).  If it has gone, or says so, a pass
 * of maintain.c looks at the task; else it was there before the look.
 * The same pass looks at all that are held after a start, and after rows were
 * written with SQL, purged, or come from a prepared transaction.
 *
 * Rows that move.  An index scan that sees uncommitted rows may miss one that
 * is moved meanwhile: its old version is gone when it is read, and its new entry
 * came behind.  A snapshot taken after that sees one of them.  So "there
 * is none" is said after a look with each.
 *
 * Locking: the lock of a key, for the hash of it, is a heavyweight lock, held
 * while the index is read and rows are written.  Under it nothing is waited for but
 * row locks of users.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "shmem/leases.h"
#include "shmem/stats.h"
#include "storage/durable_leases.h"
#include "storage/queue_keys.h"
#include "storage/queue_open.h"
#include "storage/row_reader.h"
#include "storage/row_writer.h"
#include "verbs/unique_keys.h"
#include "xact/pending.h"
#include "xact/pending_groups.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/* Versions of rows of one key that may be there at once: two of two tasks. */
#define MAX_VERSIONS	16

/* How soon to look again at what is in somebody's hands, in microseconds. */
#define LOOK_USECS		INT64CONST(250000)

/* The tasks of a key. */
typedef struct KeyTasks
{
	bool		has_first;
	bool		in_flight;		/* the first is leased */
	KeyRow		first;
	bool		has_held;
	KeyRow		held;
	TransactionId busy;			/* valid: this one has some in hand */
	bool		busy_held;		/* ... among them one that is held */
	int64		busy_id;
	int			n;
	KeyRow		rows[MAX_VERSIONS]; /* all of them */
} KeyTasks;

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

/* ----------------------------------------------------------------
 * Looking
 * ----------------------------------------------------------------
 */

static void
lock_tag(Relation rel, const text *key, LOCKTAG *tag)
{
	/* An object of a catalog that has this queue's oid: there is none. */
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationGetRelid(rel),
					   hash_bytes((const unsigned char *) VARDATA_ANY(key),
								  VARSIZE_ANY_EXHDR(key)), 0);
}

static inline bool
is_leased(QueueInfo *info, int64 id)
{
	LeaseInfo	lease;

	return leases_find(queue_state_number(info->state), id, &lease);
}

static bool
is_there(const KeyTasks *tasks, int64 id)
{
	for (int i = 0; i < tasks->n; i++)
	{
		if (tasks->rows[i].id == id)
			return true;
	}
	/* More than we keep to: they were written with SQL. */
	return tasks->n == MAX_VERSIONS;
}

static void
read_tasks(Relation rel, QueueInfo *info, const text *key, KeyTasks *tasks)
{
	memset(tasks, 0, offsetof(KeyTasks, rows));
	tasks->n = queue_keys_read(rel, info, key, NULL, MAX_VERSIONS, tasks->rows);
	for (int i = 0; i < tasks->n; i++)
	{
		const KeyRow *row = &tasks->rows[i];
		bool		held = (row->state == TASK_HELD);
		bool		leased = !held && is_leased(info, row->id);

		if (TransactionIdIsValid(row->busy) && !leased)
		{
			tasks->busy = row->busy;
			if (held)
			{
				tasks->busy_held = true;
				tasks->busy_id = row->id;
			}
		}
		else if (held)
		{
			tasks->has_held = true;
			tasks->held = *row;
		}
		else if (!tasks->has_first || leased)
		{
			tasks->has_first = true;
			tasks->in_flight = leased;
			tasks->first = *row;
		}
	}
}

/*
 * What tasks a key has, now.
 */
static void
find_tasks(Relation rel, QueueInfo *info, const text *key, KeyTasks *tasks)
{
	for (;;)
	{
		KeyRow		rows[MAX_VERSIONS];
		Snapshot	latest;
		int			n;
		bool		missed = false;

		CHECK_FOR_INTERRUPTS();
		read_tasks(rel, info, key, tasks);
		if (tasks->has_first || TransactionIdIsValid(tasks->busy))
			return;

		/* One may have moved. */
		latest = RegisterSnapshot(GetLatestSnapshot());
		/* What this very command has deleted is gone, too. */
		latest->curcid = InvalidCommandId;
		n = queue_keys_read(rel, info, key, latest, MAX_VERSIONS, rows);
		UnregisterSnapshot(latest);
		for (int i = 0; i < n; i++)
			missed |= !is_there(tasks, rows[i].id);
		if (!missed)
			return;
	}
}

/*
 * What a producer is going to find, if nothing changes until he takes the key.
 */
KeyFound
unique_keys_guess(Relation rel, QueueInfo *info, const text *key)
{
	KeyTasks	tasks;

	read_tasks(rel, info, key, &tasks);
	if (tasks.has_held || (tasks.has_first && !tasks.in_flight))
		return KEY_WAITING;
	return tasks.in_flight ? KEY_IN_FLIGHT : KEY_FREE;
}

/* ----------------------------------------------------------------
 * Writing
 * ----------------------------------------------------------------
 */

/*
 * Write the row that was read, as it is now, and give its task a place by its
 * run_at: it is ready, in the overflow, or scheduled.  from is the state that it
 * had.
 */
static bool
place_row(Placement *placement, RowReader *row, char from, bool wait)
{
	QueueInfo  *info = row->info;
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz run_at = row_is_null(row, COLUMN_RUN_AT) ? now :
		DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT));

	if (run_at <= now)
		return placement_move(placement, row, from, run_at, true, wait);
	row_is_null(row, COLUMN_ADDRESS) = true;
	row_value(row, COLUMN_STATE) = CharGetDatum(TASK_SCHEDULED);
	if (!row_writer_update(row->rel, info, &row->tuple.t_self,
							   row->values, row->nulls, wait))
		return false;
	pending_scheduled(info->state, run_at);
	stats_tally(info->state, task_state_depth(from), -1);
	stats_tally(info->state, QUEUE_SCHEDULED, 1);
	return true;
}

static bool
same_text(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
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
	if (row->info->policy == QUEUE_TIME)
		return task->run_at == DT_NOBEGIN;
	return task->run_at <= GetCurrentTimestamp() &&
		task->priority == DatumGetInt64(row_value(row, COLUMN_PRIORITY)) &&
		(row->info->policy != QUEUE_FAIR ||
		 (task->cost == DatumGetFloat4(row_value(row, COLUMN_COST)) &&
		  same_text(task->group_key,
					DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY)))));
}

/*
 * What a producer gives, into the row that was read: all of it, as if it were a
 * new task, with all its attempts.  Only its id and its age are what they were.
 */
static void
take_values(RowReader *row, const NewTask *task, bool same_place)
{
#define SET(column, is_given, value) \
	do { \
		row_is_null(row, column) = !(is_given); \
		if (is_given) \
			row_value(row, column) = (value); \
	} while (0)
	SET(COLUMN_PAYLOAD, true, task->payload);
	SET(COLUMN_HEADERS, task->has_headers, task->headers);
	SET(COLUMN_GROUP_KEY, true, PointerGetDatum(task->group_key));
	SET(COLUMN_PRIORITY, true, Int64GetDatum(task->priority));
	SET(COLUMN_COST, true, Float4GetDatum(task->cost));
	SET(COLUMN_MAX_ATTEMPTS, task->max_attempts >= 0, Int32GetDatum(task->max_attempts));
	SET(COLUMN_LEASE, task->lease != NULL, IntervalPGetDatum(task->lease));
	SET(COLUMN_ATTEMPTS, true, Int32GetDatum(0));
	SET(COLUMN_LAST_ERROR, false, (Datum) 0);
	if (task->run_at != DT_NOBEGIN || row->info->policy != QUEUE_TIME)
		SET(COLUMN_RUN_AT, task->run_at != DT_NOBEGIN, TimestampTzGetDatum(task->run_at));
	else if (!same_place || DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_HELD)
		SET(COLUMN_RUN_AT, true, TimestampTzGetDatum(GetCurrentTimestamp()));
#undef SET
}

/*
 * Write the row of a task that waits: as it is, or as task gives it.  Returns
 * false if it is not there any more, or in somebody's hands and wait is false.
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
	Lane	   *lane = NULL;
	HeapTuple	old = NULL;
	bool		addressed;
	bool		same_place = true;
	int			mark;

	*lost = false;
	if ((status != ROW_LIVE && status != ROW_OWN) ||
		DatumGetInt64(row_value(row, COLUMN_ID)) != found->id ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != found->state)
		return false;

	/* Nobody else sees it before we commit: to keep it there is nothing to do. */
	if (status == ROW_OWN && !task->replace)
		return true;
	if (status == ROW_OWN)
		CommandCounterIncrement();

	addressed = !row_is_null(row, COLUMN_ADDRESS);
	pending_reserve(8);
	mark = pending_mark();
	if (addressed)
	{
		address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
		lane = placement_lane(info, &address);
		if (status == ROW_LIVE)
			pending_offer_at_abort(lane, &address, &row->tuple.t_self);
	}
	if (task->replace)
	{
		old = heap_copytuple(&row->tuple);
		same_place = keeps_place(row, task);
		if (addressed && !same_place)
			placement_uncharge(row, &address);
		if (!same_place)
			placement_leaves(row);
		take_values(row, task, same_place);
	}

	if (!same_place)
	{
		if (!place_row(placement, row, found->state, wait))
			return false;
	}
	else
	{
		if (!row_writer_update(row->rel, info, &row->tuple.t_self,
								   row->values, row->nulls, wait))
			return false;
		if (addressed)
			pending_offer_at_commit(lane, &address, &row->tuple.t_self);
		if (found->state == TASK_SCHEDULED)
			pending_scheduled(info->state,
							   DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)));
	}

	*lost = ((addressed || found->state == TASK_OVERFLOW) && status == ROW_LIVE &&
			 is_leased(info, found->id));
	if (*lost && old != NULL)
	{
		QueueCounter became = task_state_depth(DatumGetChar(row_value(row, COLUMN_STATE)));

		if (!same_place && became == QUEUE_OVERFLOW)
			pending_not_overflowed(info->state, placement_group(row));
		pending_not_moved(mark);
		CommandCounterIncrement();
		heap_deform_tuple(old, RelationGetDescr(row->rel), row->values, row->nulls);
		if (!row_writer_update(row->rel, info, &row->tuple.t_self,
								   row->values, row->nulls, true))
			elog(ERROR, "the row of task " INT64_FORMAT " of queue \"%s\" has gone",
				 found->id, info->name);
		if (addressed)
			pending_offer_at_commit(lane, &address, &row->tuple.t_self);
		stats_tally(info->state, became, -1);
		stats_tally(info->state, task_state_depth(found->state), 1);
	}
	return true;
}

/*
 * Take the key of a task that is being enqueued, with the lock of the key, which is
 * held until unique_keys_let_go.  If a task of it waits, it is kept or
 * replaced; else the caller inserts the task.
 *
 * Waits for transactions that have a task of the key in hand, without the lock.
 */
void
unique_keys_take(Placement *placement, RowReader *row, const NewTask *task,
				 UniqueKey *key)
{
	Relation	rel = row->rel;
	QueueInfo  *info = row->info;
	int			failures = 0;
	bool		lost = false;

	durable_leases_require(rel, info);
	lock_tag(rel, task->unique_key, &key->lock);
	for (;;)
	{
		KeyTasks	tasks;
		KeyRow	   *waiting;

		(void) LockAcquire(&key->lock, ExclusiveLock, false, false);
		find_tasks(rel, info, task->unique_key, &tasks);
		/* What is held is the one, whatever becomes of the first. */
		if (TransactionIdIsValid(tasks.busy) && !tasks.has_held)
		{
			unique_keys_let_go(key);
			XactLockTableWait(tasks.busy, NULL, NULL, XLTW_None);
			failures = 0;
			continue;
		}

		waiting = tasks.has_held ? &tasks.held :
			tasks.has_first && !tasks.in_flight ? &tasks.first : NULL;
		key->id = tasks.has_first ? tasks.first.id : 0;
		if (waiting == NULL)
		{
			key->found = tasks.has_first ? KEY_IN_FLIGHT : KEY_FREE;
			return;
		}
		if (write_waiting(placement, row, waiting, task, failures > 1, &lost))
		{
			key->found = lost ? KEY_IN_FLIGHT : KEY_WAITING;
			if (tasks.has_held)
				pending_task_held(info->state, waiting->id, key->id);
			key->id = waiting->id;
			return;
		}

		/*
		 * It was moved, or somebody has it in hand.  If it is there and free
		 * still and cannot be written, a user has locked it.
		 */
		unique_keys_let_go(key);
		failures++;
	}
}

/*
 * Take the key of a dead task that is being revived.
 */
void
unique_keys_take_for_revival(Relation rel, QueueInfo *info, const text *name,
							 UniqueKey *key)
{
	durable_leases_require(rel, info);
	lock_tag(rel, name, &key->lock);
	for (;;)
	{
		KeyTasks	tasks;

		(void) LockAcquire(&key->lock, ExclusiveLock, false, false);
		find_tasks(rel, info, name, &tasks);
		if (!TransactionIdIsValid(tasks.busy))
		{
			key->found = tasks.has_held || (tasks.has_first && !tasks.in_flight) ?
				KEY_WAITING : tasks.has_first ? KEY_IN_FLIGHT : KEY_FREE;
			key->id = tasks.has_first ? tasks.first.id : 0;
			return;
		}
		unique_keys_let_go(key);
		XactLockTableWait(tasks.busy, NULL, NULL, XLTW_None);
	}
}

void
unique_keys_let_go(const UniqueKey *key)
{
	(void) LockRelease(&key->lock, ExclusiveLock, false);
}

/* ----------------------------------------------------------------
 * What is held becomes ready
 * ----------------------------------------------------------------
 */

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

	/* It waits from now on; under policy time it has its place by what was given. */
	if (row_is_null(row, COLUMN_RUN_AT) ||
		(row->info->policy != QUEUE_TIME &&
		 DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)) < now))
	{
		row_value(row, COLUMN_RUN_AT) = TimestampTzGetDatum(now);
		row_is_null(row, COLUMN_RUN_AT) = false;
	}
	return place_row(placement, row, TASK_HELD, false);
}

/*
 * The task that row has read goes, or is dead, if this transaction commits: what
 * is held behind it, if it has a key, becomes ready then.
 */
void
unique_keys_gone(RowReader *row)
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
	read_tasks(row->rel, info, gone->key, &tasks);
	if (tasks.has_first)
		return;
	if (tasks.has_held && let_run(placement, row, &tasks.held.tid))
		return;

	/* In somebody's hands: it is not waited for, but looked at later. */
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
		RunAs owner;

		if (info != NULL)
		{
			/*
			 * Also where he is us: in a restricted context his code cannot leave a
			 * deferred trigger behind, which nobody would fire any more.
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
	LOOK_AGAIN					/* it, or what is before it, is in somebody's hands */
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
	lock_tag(row->rel, key, &lock);
	if (LockAcquire(&lock, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return LOOK_AGAIN;
	find_tasks(row->rel, info, key, &tasks);
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
 * Look at held tasks that may have nothing before them, up to pass->max beside those
 * that are named.  Returns how many are ready.
 */
int
unique_keys_look(Pass *pass)
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
		n += queue_keys_held(rel, info, from, pass->max, ids + n, &after);
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
unique_keys_register(void)
{
	RegisterXactCallback(xact_callback, NULL);
}
