/*-------------------------------------------------------------------------
 *
 * schedule_worker.c
 *	  The worker's part in schedules: in which order, and in which transactions.
 *
 * A round lists what is due, the longest due first, and runs it in batches: a
 * transaction has some ticks, each in a subtransaction of its own, and is
 * short.  If the transaction fails as a whole, its ticks are run one by one.
 * A round is short as well; then others have their turn, and the next begins
 * with a new list.
 *
 * What the owner of a queue has attached to its table may take long, and all
 * others wait meanwhile.  So each queue has an account: what its ticks have
 * taken, of which half of the time that has passed since is taken off.  While
 * a queue is in debt its schedules are left alone, and stay due.  A slow tick
 * costs its queue many times what it has taken: of several queues with slow
 * ticks each would have a large part of the worker's time otherwise.
 *
 * The commit waits for the disk, unlike those of other work that the worker
 * does: the task may be done before the next checkpoint, and is not to come
 * again after a crash.  It does not wait for standbys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "common/wall_clock.h"
#include "maintenance/run_schedules.h"
#include "shmem/worker_slots.h"
#include "storage/queue_catalog.h"
#include "storage/queue_open.h"
#include "worker/worker.h"

/* A transaction has at most so many ticks, as many as a server keeps
 * subtransactions of a process at hand, and begins none after so long. */
#define BATCH_MAX		50
#define BATCH_USECS		20000

/* After this a round ends. */
#define ROUND_USECS		200000

/* A queue that has taken more than this is left alone. */
#define DEBT_USECS		500000

/* A tick that takes longer than this is slow, and is charged so many times; but
 * no queue owes more than the last. */
#define SLOW_USECS		100000
#define SLOW_CHARGE		20
#define DEBT_MAX_USECS	(60 * USECS_PER_SEC)

/* When to look again: for what could not be had, and in any case. */
#define BUSY_USECS		USECS_PER_SEC
#define LOOK_USECS		(60 * USECS_PER_SEC)

/* What the ticks of a queue have taken. */
typedef struct Account
{
	char		queue[NAMEDATALEN]; /* hash key */
	int64		debt;			/* microseconds ... */
	TimestampTz at;				/* ... at this time */
} Account;

/* A batch: of a list of DueSchedule, from one on. */
typedef struct Batch
{
	List	   *due;
	int			at;
	int			max;
	TimestampTz next;			/* when one of those that it was about is due
								 * again */
} Batch;

static HTAB *accounts = NULL;
static bool list_failed = false;

/*
 * Called once, when the worker begins.
 */
void
schedule_worker_begin(void)
{
	HASHCTL		ctl = {.keysize = NAMEDATALEN,.entrysize = sizeof(Account)};

	accounts = hash_create("pgfairq schedules of queues", 16, &ctl, HASH_ELEM | HASH_STRINGS);
}

/* What is left of a debt. */
static int64
debt_now(Account *account, TimestampTz now)
{
	/* The clock may have been set back. */
	int64		passed = Max(now - account->at, 0);

	account->debt = Max(account->debt - passed / 2, 0);
	account->at = now;
	return account->debt;
}

/* Until when a queue is left alone; 0: it is not. */
static TimestampTz
rests_until(const char *queue, TimestampTz now)
{
	Account    *account = hash_search(accounts, queue, HASH_FIND, NULL);
	int64		debt = account == NULL ? 0 : debt_now(account, now);

	return debt <= DEBT_USECS ? 0 : now + (debt - DEBT_USECS) * 2;
}

static void
charge_queue(const char *queue, TimestampTz begun, TimestampTz now)
{
	bool		found;
	Account    *account = hash_search(accounts, queue, HASH_ENTER, &found);
	int64		taken = Max(now - begun, 0);

	if (!found)
	{
		account->debt = 0;
		account->at = begun;
	}
	if (taken > SLOW_USECS)
		taken *= SLOW_CHARGE;
	account->debt = Min(debt_now(account, now) + taken, DEBT_MAX_USECS);
}

/* Forget the accounts of queues that owe nothing. */
static void
close_accounts(TimestampTz now)
{
	HASH_SEQ_STATUS status;
	Account    *account;

	hash_seq_init(&status, accounts);
	while ((account = hash_seq_search(&status)) != NULL)
	{
		if (debt_now(account, now) == 0)
			hash_search(accounts, account->queue, HASH_REMOVE, NULL);
	}
}

/* Begin a transaction.  Returns whether the schedules' table is locked. */
static bool
begin_transaction(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	patience_begin();
	return queue_catalog_lock_extension() && extension_version_matches(0) &&
		OidIsValid(schedule_table_open());
}

static void
end_transaction(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	patience_end();
	pgstat_report_stat(false);
}

/*
 * After an error, where PG_CATCH is: end the transaction.  The error is
 * returned, in the context given, and perhaps logged.
 */
static ErrorData *
abort_transaction(MemoryContext context, bool log)
{
	ErrorData  *error;

	HOLD_INTERRUPTS();
	patience_end();
	if (log)
		EmitErrorReport();
	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	AbortCurrentTransaction();
	FlushErrorState();
	RESUME_INTERRUPTS();
	MemoryContextSwitchTo(context);
	return error;
}

/*
 * What is due now, in a list of the context given.  *next is when the next
 * will be, or when to look again.
 */
static List *
list_due(MemoryContext context, TimestampTz *next)
{
	List	   *volatile due = NIL;
	TimestampTz now = GetCurrentTimestamp();

	*next = now + BUSY_USECS;
	PG_TRY();
	{
		if (begin_transaction())
		{
			MemoryContext old = MemoryContextSwitchTo(context);

			due = schedule_table_due(NULL, now);
			MemoryContextSwitchTo(old);
			*next = schedule_table_next(now);
		}
		end_transaction();
		list_failed = false;
	}
	PG_CATCH();
	{
		(void) abort_transaction(context, !list_failed);
		list_failed = true;
		due = NIL;
	}
	PG_END_TRY();
	return due;
}

/*
 * Run a batch, in a transaction.  Returns where to go on.
 */
static int
run_batch(Batch *batch)
{
	TimestampTz begun = GetCurrentTimestamp();
	TimestampTz now = begun;
	int			end = Min(list_length(batch->due), batch->at + batch->max);
	int			at = batch->at;

	if (!begin_transaction())
	{
		batch->next = now + BUSY_USECS;
		end_transaction();
		return list_length(batch->due);
	}
	while (at < end && now - begun >= 0 && now - begun < BATCH_USECS)
	{
		DueSchedule *due = list_nth(batch->due, at);
		TimestampTz next = rests_until(due->queue, now);

		if (next == 0)
		{
			TimestampTz tick_begun = now;

			if (!run_schedules_tick(due->name, &next))
				next = now + BUSY_USECS;
			now = GetCurrentTimestamp();
			charge_queue(due->queue, tick_begun, now);
		}
		batch->next = wall_clock_earlier(batch->next, next);
		at++;
	}
	ForceSyncCommit();
	end_transaction();
	return at;
}

/*
 * A tick alone has failed, outside of what is its own: it is passed over.
 */
static void
pass_over(DueSchedule *due, const ErrorData *error, MemoryContext context)
{
	PG_TRY();
	{
		if (begin_transaction())
			run_schedules_failed(due->name, error);
		end_transaction();
	}
	PG_CATCH();
	{
		(void) abort_transaction(context, true);
	}
	PG_END_TRY();
}

/*
 * Run a batch, and if it fails the next ticks one by one.  Returns where to go
 * on.
 */
static int
try_batch(Batch *batch, MemoryContext context)
{
	volatile int next = batch->at + 1;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		next = run_batch(batch);
	}
	PG_CATCH();
	{
		error = abort_transaction(context, false);
	}
	PG_END_TRY();

	/*
	 * What owners' code could leave in our session in spite of its restricted
	 * context.
	 */
	LockReleaseSession(USER_LOCKMETHOD);
	if (error == NULL)
		return next;
	if (batch->max > 1)
	{
		batch->max = 1;
		return batch->at;
	}
	pass_over(list_nth(batch->due, batch->at), error, context);
	batch->next = wall_clock_earlier(batch->next, GetCurrentTimestamp() + BUSY_USECS);
	return next;
}

/*
 * Run what is due of the schedules of the database, for a while.  Returns when
 * to come again.
 */
TimestampTz
schedule_worker_run(int slot)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "pgfairq schedules",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	TimestampTz begun = GetCurrentTimestamp();
	Batch		batch = {.max = BATCH_MAX,.next = PG_INT64_MAX};
	TimestampTz next;

	worker_slots_schedules_begin(slot);
	close_accounts(begun);
	batch.due = list_due(context, &next);
	while (batch.at < list_length(batch.due) &&
		   GetCurrentTimestamp() - begun < ROUND_USECS)
		batch.at = try_batch(&batch, context);

	if (batch.at < list_length(batch.due))
		next = GetCurrentTimestamp();
	next = wall_clock_earlier(next, batch.next);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	next = wall_clock_earlier(next, GetCurrentTimestamp() + LOOK_USECS);
	return worker_slots_next_schedule(slot, next);
}
