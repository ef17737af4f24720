/*-------------------------------------------------------------------------
 *
 * sql_await.c
 *	  fairq.await: how a task has ended, or will have when it ends.
 *
 * It joins those who await the task (awaiters.c), looks for its row and into
 * the archive, and sleeps until it is told or its time is up.  While it sleeps
 * it has no lock on the queue's table, and opens the queue anew for each
 * look.  As a claim that waits, it cannot let go the snapshot of its
 * statement.
 *
 * A look has a snapshot of its own, the latest one, for the row and the
 * archive: in one of them the task is, and it ends between two looks also for
 * a transaction that keeps its snapshot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/waiters.h"
#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "sql/result_rows.h"
#include "storage/archive.h"
#include "storage/queue_open.h"
#include "storage/row_reader.h"
#include "storage/row_scan.h"

/* How long to wait if nothing else is said. */
#define AWAIT_DEFAULT	(30 * USECS_PER_SEC)

/*
 * How often to look for a task that a prepared transaction has in hand, and how
 * long to wait to be told of it: no backend does, unless it was rolled back.
 */
#define PREPARED_USECS	(USECS_PER_SEC / 4)
#define PREPARED_TELL_USECS (USECS_PER_SEC / 2)

/* How long after a commit its callbacks may come, at the most. */
#define TELL_USECS		USECS_PER_SEC

/* The columns of fairq.outcome. */
enum
{
	OUTCOME_STATE,
	OUTCOME_RESULT,
	OUTCOME_LAST_ERROR,
	OUTCOME_DONE_AT,
	OUTCOME_COLUMNS
};

typedef struct Outcome
{
	bool		known;			/* there is, or was, such a task */
	bool		ended;
	bool		in_doubt;		/* a prepared transaction has it in hand */
	bool		own;			/* this transaction has written it, and not
								 * ended */
	ResultRow	row;
} Outcome;

PG_FUNCTION_INFO_V1(fairq_await);

static void
set_column(Outcome *outcome, int column, Datum value)
{
	outcome->row.values[column] = value;
	outcome->row.nulls[column] = false;
}

/* A task is in the queue: with this row. */
static void
note_row(Outcome *outcome, Relation rel, QueueInfo *info, int64 id, HeapTuple tuple)
{
	RowReader	row;
	LeaseInfo	lease;
	bool		leased;

	row_reader_begin(&row, rel, info);
	row_reader_take(&row, tuple);
	outcome->known = true;
	outcome->ended = (DatumGetChar(row_value(&row, COLUMN_STATE)) == TASK_DEAD);
	if (!row_is_null(&row, COLUMN_LAST_ERROR))
		set_column(outcome, OUTCOME_LAST_ERROR,
				   PointerGetDatum(PG_DETOAST_DATUM_COPY(row_value(&row, COLUMN_LAST_ERROR))));
	set_column(outcome, OUTCOME_STATE,
			   CStringGetTextDatum(inspect_tasks_look(&row, &inspect_tasks_any,
													  &lease, &leased)));
	if (!outcome->ended)
	{
		outcome->own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
		/* No action will tell how it ends. */
		outcome->in_doubt = !outcome->own && row_reader_task(&row, id, NULL) == ROW_IN_DOUBT;
	}
	row_reader_end(&row);
}

/* It is done, and the archive has it. */
static void
note_archived(Outcome *outcome, const ArchivedTask *task)
{
	outcome->known = outcome->ended = true;
	set_column(outcome, OUTCOME_STATE, task->outcome);
	if (!TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(task->done_at)))
		set_column(outcome, OUTCOME_DONE_AT, task->done_at);
	if (task->has_error)
		set_column(outcome, OUTCOME_LAST_ERROR, task->last_error);
	if (task->has_result)
		set_column(outcome, OUTCOME_RESULT, task->result);
}

/*
 * See what has become of a task, of which told is what we were told.
 */
static void
look(Outcome *outcome, Relation rel, QueueInfo *info, int64 id, int told)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ArchivedTask archived;
	HeapTuple	tuple;

	/* What this very command has written is there, or gone, too. */
	snapshot->curcid = InvalidCommandId;
	memset(outcome, 0, sizeof(Outcome));
	while (outcome->row.n < OUTCOME_COLUMNS)
		result_rows_add_if(&outcome->row, false, (Datum) 0);
	tuple = row_scan_task_at(rel, info, id, snapshot);
	if (tuple != NULL)
		note_row(outcome, rel, info, id, tuple);
	else if (archive_find(rel, info, id, snapshot, &archived))
		note_archived(outcome, &archived);
	UnregisterSnapshot(snapshot);

	/* It ended after we had joined, and before the look. */
	if (told == AWAITERS_LOOK && !outcome->known)
		told = awaiters_outcome();

	/*
	 * Nothing remembers it but we; or it was dead, and has been revived
	 * since.
	 */
	if (!outcome->ended && told != AWAITERS_LOOK)
	{
		outcome->known = outcome->ended = true;
		set_column(outcome, OUTCOME_STATE, CStringGetTextDatum(archive_outcomes[told]));
	}
}

/*
 * Sleep until there is reason to look again, or until a time by
 * wall_clock_real.
 */
static void
sleep_until_told(int64 until)
{
	while (!awaiters_told() && wall_clock_sleep(until, FAIRQ_WAIT_OUTCOME))
		CHECK_FOR_INTERRUPTS();
}

/*
 * The task has not ended, and the call is to wait for it: can it end
 * meanwhile, and would the call be told?
 */
static void
check_can_wait(FunctionCallInfo fcinfo, const Outcome *outcome, const QueueInfo *info,
			   int64 id)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("%s cannot wait for task " INT64_FORMAT " of queue \"%s\" during recovery",
						arguments_function(fcinfo), id, info->name),
				 errhint("Wait on the primary, or look with timeout => '0'.")));
	if (outcome->own)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot wait for task " INT64_FORMAT " of queue \"%s\", which this transaction has written",
						arguments_function(fcinfo), id, info->name),
				 errhint("Commit first: nobody else can see what was written before.")));
}

/*
 * fairq.await(queue, id, timeout)
 */
Datum
fairq_await(PG_FUNCTION_ARGS)
{
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext context;
	Outcome		outcome;
	Datum		result = (Datum) 0;
	int64		deadline;		/* by wall_clock_real */
	int64		timeout;
	int64		id;
	bool		seen = false;
	bool		was_in_doubt = false;

	arguments_require_preload(fcinfo);
	(void) arguments_queue(fcinfo);
	id = arguments_id(fcinfo);
	timeout = arguments_duration(fcinfo, 2, "timeout", AWAIT_DEFAULT, true);
	deadline = wall_clock_real() + timeout;
	context = AllocSetContextCreate(outer, "pgfairq look", ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		QueueInfo  *info;
		Relation	rel;
		int64		now;
		int			told;

		MemoryContextReset(context);
		MemoryContextSwitchTo(context);
		info = queue_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
		told = awaiters_begin(queue_state_number(info->state), id);
		look(&outcome, rel, info, id, told);
		now = wall_clock_real();
		/* By what was asked for: how long the look took says nothing. */
		if (outcome.known && !outcome.ended && timeout > 0)
			check_can_wait(fcinfo, &outcome, info, id);
		relation_close(rel, AccessShareLock);
		MemoryContextSwitchTo(outer);

		/*
		 * It has gone while we waited: how, we are about to be told, or
		 * never.
		 */
		if (!outcome.known && seen)
		{
			seen = false;
			sleep_until_told(now + (was_in_doubt ? PREPARED_TELL_USECS : TELL_USECS));
			continue;
		}
		if (outcome.ended || !outcome.known || now >= deadline)
			break;
		seen = true;
		was_in_doubt = outcome.in_doubt;
		sleep_until_told(outcome.in_doubt ? Min(deadline, now + PREPARED_USECS) : deadline);
	}
	awaiters_end();
	if (outcome.known)
		result = result_rows_composite(&outcome.row, fcinfo);
	MemoryContextDelete(context);
	fcinfo->isnull = !outcome.known;
	return result;
}
