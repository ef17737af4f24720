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
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
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

/* A round: batches of a list of DueSchedule, from one on. */
typedef struct Round
{
	MemoryContext context;		/* of the list */
	List	   *due;
	int			at;
	int			max;			/* of a batch */
	int			end;			/* where to go on, if the batch commits */
	const ErrorData *error;		/* with which a tick alone has failed */
	TimestampTz next;			/* when one of these is due again, or another */
} Round;

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

/* Is the schedules' table there, of this version, and locked? */
static bool
open_schedules(void)
{
	return queue_catalog_lock_extension() && extension_version_matches(0) &&
		OidIsValid(schedule_table_open());
}

/*
 * What is due now, and when the next will be.  arg: the Round.
 */
static void
list_due(void *arg)
{
	Round	   *round = arg;
	TimestampTz now = GetCurrentTimestamp();
	MemoryContext old;
	List	   *due;

	if (!open_schedules())
		return;
	old = MemoryContextSwitchTo(round->context);
	due = schedule_table_due(NULL, now);
	MemoryContextSwitchTo(old);
	round->next = schedule_table_next(now);
	round->due = due;
}

/*
 * Run a batch.  arg: the Round.
 */
static void
run_batch(void *arg)
{
	Round	   *round = arg;
	TimestampTz begun = GetCurrentTimestamp();
	TimestampTz now = begun;
	int			end = Min(list_length(round->due), round->at + round->max);

	round->end = round->at;
	if (!open_schedules())
	{
		round->next = wall_clock_earlier(round->next, now + BUSY_USECS);
		round->end = list_length(round->due);
		return;
	}
	while (round->end < end && now - begun >= 0 && now - begun < BATCH_USECS)
	{
		DueSchedule *due = list_nth(round->due, round->end);
		TimestampTz next = rests_until(due->queue, now);

		if (next == 0)
		{
			TimestampTz tick_begun = now;

			if (!run_schedules_tick(due->name, &next))
				next = now + BUSY_USECS;
			now = GetCurrentTimestamp();
			charge_queue(due->queue, tick_begun, now);
		}
		round->next = wall_clock_earlier(round->next, next);
		round->end++;
	}
	ForceSyncCommit();
}

/*
 * A tick alone has failed, outside of what is its own: it is passed over.  arg:
 * the Round.
 */
static void
pass_over(void *arg)
{
	Round	   *round = arg;
	DueSchedule *due = list_nth(round->due, round->at);

	if (open_schedules())
		run_schedules_failed(due->name, round->error);
}

/*
 * Run a batch, and if it fails the next ticks one by one.
 */
static void
try_batch(Round *round)
{
	round->error = run_as_transaction(run_batch, round, false);
	if (round->error == NULL)
		round->at = round->end;
	else if (round->max > 1)
		round->max = 1;
	else
	{
		(void) run_as_transaction(pass_over, round, true);
		round->next = wall_clock_earlier(round->next, GetCurrentTimestamp() + BUSY_USECS);
		round->at++;
	}
}

/*
 * Run what is due of the schedules of the database, for a while.  Returns when
 * to come again.
 */
TimestampTz
schedule_worker_run(int slot)
{
	Round		round = {.max = BATCH_MAX};
	TimestampTz begun = GetCurrentTimestamp();
	TimestampTz next;
	MemoryContext old;

	round.context = AllocSetContextCreate(TopMemoryContext, "pgfairq schedules",
										  ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(round.context);
	worker_slots_begin_look(slot, WORKER_SCHEDULES);
	close_accounts(begun);
	round.next = begun + BUSY_USECS;
	list_failed = run_as_transaction(list_due, &round, !list_failed) != NULL;
	while (round.at < list_length(round.due) &&
		   GetCurrentTimestamp() - begun < ROUND_USECS)
		try_batch(&round);

	next = round.at < list_length(round.due) ? GetCurrentTimestamp() : round.next;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(round.context);
	next = wall_clock_earlier(next, GetCurrentTimestamp() + LOOK_USECS);
	return worker_slots_next_look(slot, WORKER_SCHEDULES, next);
}
