/*-------------------------------------------------------------------------
 *
 * database_worker.c
 *	  The process that maintains the queues of a database.
 *
 * It only makes tasks claimable and is never in the way: its transactions are
 * short, and it has none while it sleeps, which is until the next thing is
 * due or a backend makes something due earlier (worker_slots.c).  It ends
 * when the extension is dropped or is of another version than the library, or
 * a command needs the database without connections.
 *
 * It also runs errands for those who wait or listen (waiters.c): it sends
 * what is to NOTIFY, in a transaction of its own, so that producers do not,
 * for whom it would mean to commit one after the other.
 *
 * And it runs schedules (schedule_worker.c), between the queues.
 *
 * An error in a queue's maintenance is logged once; the queue is left alone for
 * a while, longer each time, and the others go on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "commands/async.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/shared_memory.h"
#include "common/run_as.h"
#include "common/wall_clock.h"
#include "maintenance/maintain.h"
#include "shmem/gone_queues.h"
#include "shmem/queue_ready.h"
#include "shmem/waiter_errands.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"
#include "storage/extension_version.h"
#include "storage/queue_catalog.h"
#include "storage/queue_open.h"
#include "worker/database_worker.h"
#include "worker/lease_handover.h"
#include "worker/schedule_worker.h"

#define FIRST_RETRY_SECS	1
#define LAST_RETRY_SECS		300

/* Queues to NOTIFY of in one transaction. */
#define MAX_NOTIFIED		64

/* A queue whose maintenance failed. */
typedef struct FailingQueue
{
	Oid			relation;		/* hash key */
	int			failures;
	int			sqlerrcode;		/* of the error that was logged */
	TimestampTz retry_at;
	bool		expiry_fails;	/* even to put back what has run out */
} FailingQueue;

static int	my_slot = -1;
static TimestampTz next_schedule = 0;
static WorkerEnd my_end = WORKER_FAILED;
static HTAB *failing = NULL;
static bool notify_failed = false;

static void
worker_exit(int code, Datum arg)
{
	waiters_worker_gone(worker_slots_end(my_slot, my_end));
}

/*
 * Note that a queue failed (InvalidOid: to look which there are; expiring:
 * already when leases were to be ended), and log the error unless it is the
 * one that was logged last.  Called where PG_CATCH is; returns when to try
 * again.
 */
static TimestampTz
queue_failed(Oid relation, bool expiring)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	ErrorData  *error = CopyErrorData();
	FailingQueue *entry;
	bool		found;

	entry = hash_search(failing, &relation, HASH_ENTER, &found);
	if (!found)
		entry->failures = 0;
	if (!found || entry->sqlerrcode != error->sqlerrcode)
		EmitErrorReport();
	entry->sqlerrcode = error->sqlerrcode;
	entry->expiry_fails = expiring;
	entry->retry_at = GetCurrentTimestamp() +
		Min(FIRST_RETRY_SECS << Min(entry->failures, 10), LAST_RETRY_SECS) * USECS_PER_SEC;

	/*
	 * A table that is not fit may be one that is being restored: its indexes
	 * and its trigger come last, after minutes perhaps, and then what is due
	 * in it must not wait as long again.  To look at it costs little.
	 */
	if (error->sqlerrcode != ERRCODE_INVALID_TABLE_DEFINITION)
		entry->failures++;
	FreeErrorData(error);
	MemoryContextSwitchTo(old);
	return entry->retry_at;
}

/* Try again what failed: the clock was set, and when to do so means nothing. */
static void
retry_failures(void)
{
	HASH_SEQ_STATUS status;
	FailingQueue *entry;

	hash_seq_init(&status, failing);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->retry_at = 0;
}

/* It worked: the next failure is the first. */
static void
forget_failures(Oid relation)
{
	hash_search(failing, &relation, HASH_REMOVE, NULL);
}

/*
 * A pass in a transaction of its own.  Returns whether there is
 * more to do now; *next is when to come again.
 *
 * Nothing is waited for: behind a lock on one queue's table all others would
 * wait, too, and whoever drops the extension or wants the database would meet
 * us with one lock in hand, waiting for another.
 */
static bool
one_pass(Oid relation, bool expire_only, TimestampTz *next)
{
	Maintenance maintenance = {.expire_only = expire_only};
	bool		more = false;

	maintenance.next = PG_INT64_MAX;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (queue_catalog_lock_settings() &&
		ConditionalLockRelationOid(relation, RowExclusiveLock))
	{
		Oid			owner = run_as_owner_of(relation);
		RunAs		context;
		Relation	rel;
		QueueInfo  *info;

		/* Nothing of the owner's is looked at with our own privileges. */
		if (OidIsValid(owner))
		{
			run_as_owner(owner, &context);
			info = queue_open_relation(relation, NoLock, 0, &rel);
			if (info != NULL)
			{
				more = maintain_pass(rel, info, &maintenance);
				relation_close(rel, NoLock);
			}
			run_as_end(&context);
		}
	}
	else
		maintenance.next = GetCurrentTimestamp() + USECS_PER_SEC;
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(false);
	*next = maintenance.next;
	return more;
}

/*
 * One pass on a queue.  Returns when it wants the next: at once if there is
 * more to do, but the other queues have theirs first.
 *
 * If it is failing it is left alone for a while.  But it may be a task that
 * cannot be made ready, and leases have to end all the same: that is tried
 * first, and for as long as it works it goes on.
 */
static TimestampTz
maintain_one(Oid relation)
{
	FailingQueue *entry = hash_search(failing, &relation, HASH_FIND, NULL);
	TimestampTz retry_at = entry == NULL ? PG_INT64_MIN : entry->retry_at;
	bool		wait = retry_at > GetCurrentTimestamp();
	volatile bool expiring = (entry != NULL);
	TimestampTz next = PG_INT64_MAX;

	if (wait && entry->expiry_fails)
		return retry_at;

	PG_TRY();
	{
		bool		more = expiring && one_pass(relation, true, &next);

		expiring = false;
		if (!wait)
		{
			next = PG_INT64_MAX;
			more |= one_pass(relation, false, &next);
			forget_failures(relation);
		}
		else
			next = Min(next, retry_at);
		if (more)
			next = GetCurrentTimestamp();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		next = queue_failed(relation, expiring);
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();

	/*
	 * What the owner's code could leave in our session in spite of its
	 * restricted context: we go on for ever, and with others' queues.
	 */
	LockReleaseSession(USER_LOCKMETHOD);
	return next;
}

/*
 * The queues of the database.  *exists: the extension is there, in the
 * library's version; when it is altered there will be another worker.  *next
 * is when to look again should the queues not be seen now.
 */
static List *
list_queues(bool *exists, TimestampTz *next)
{
	List	   *volatile result = NIL;

	*exists = true;
	PG_TRY();
	{
		bool		listed = false;

		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		*exists = OidIsValid(get_extension_oid("pgfairq", true)) &&
			extension_version_matches(LOG);
		if (*exists && queue_catalog_lock_settings())
		{
			List	   *queues = queue_catalog_list(NULL);

			/*
			 * Only the list itself is to outlive the transaction: what
			 * reading the catalog leaves behind would pile up, at each pass.
			 */
			MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

			result = list_copy(queues);
			MemoryContextSwitchTo(old);
			listed = true;
		}
		else
			*next = GetCurrentTimestamp() + USECS_PER_SEC;
		PopActiveSnapshot();
		CommitTransactionCommand();
		if (listed)
			forget_failures(InvalidOid);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		*next = queue_failed(InvalidOid, false);
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	return result;
}

/*
 * Release what went without a call of ours, when this server was a standby.
 */
static void
release_gone_queues(void)
{
	StartTransactionCommand();
	(void) gone_queues_release();
	CommitTransactionCommand();
}

/*
 * NOTIFY of queues: channel fairq_<queue>, without payload.
 */
static void
send_notifications(int n, const int *queues)
{
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		for (int i = 0; i < n; i++)
		{
			char	   *queue = queue_catalog_name_of(queue_state_by_number(queues[i])->relation);
			char		channel[NAMEDATALEN];

			/* Unless it is just being dropped. */
			if (queue == NULL)
				continue;
			snprintf(channel, sizeof(channel), "fairq_%s", queue);
			Async_Notify(channel, NULL);
		}
		CommitTransactionCommand();
		pgstat_report_stat(false);
		notify_failed = false;
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		if (!notify_failed)
			EmitErrorReport();
		notify_failed = true;
		AbortCurrentTransaction();
		FlushErrorState();
		for (int i = 0; i < n; i++)
			waiter_errands_notify_again(queues[i], GetCurrentTimestamp() +
										FIRST_RETRY_SECS * USECS_PER_SEC);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/*
 * Do what is to be done now for those who wait and listen.  Returns when to
 * come again.
 */
static TimestampTz
run_errands(Oid database)
{
	int			queues[MAX_NOTIFIED];
	TimestampTz next;
	int			n;

	worker_slots_errands_begin(my_slot);
	n = waiter_errands_due(database, GetCurrentTimestamp(), queue_ready_bucket,
						   MAX_NOTIFIED, queues, &next);
	if (n > 0)
	{
		send_notifications(n, queues);
		if (notify_failed)
			next = Min(next, GetCurrentTimestamp() + FIRST_RETRY_SECS * USECS_PER_SEC);
	}
	return worker_slots_next_errand(my_slot, next);
}

/*
 * What databases and roles are set to is not meant for the worker.
 */
static void
override_settings(void)
{
	/* If there has to be a loser, let it be us, and soon. */
	SetConfigOption("deadlock_timeout", "100ms", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", "1s", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("statement_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("idle_in_transaction_session_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);

	/*
	 * Nothing that we write has to be on disk, or on a standby, before others
	 * may see it: after a crash it is done again.
	 */
	SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * Run schedules if one is due.  That has to be in time, so it is asked for
 * between the queues.
 */
static void
run_schedules(void)
{
	next_schedule = worker_slots_next_schedule(my_slot, next_schedule);
	if (next_schedule <= GetCurrentTimestamp())
		next_schedule = schedule_worker_run(my_slot);
}

/*
 * Maintain all queues once.  Returns when to come again; ends the worker if the
 * extension is not in the database any more, or of another version.
 */
static TimestampTz
maintain_all(void)
{
	TimestampTz next = PG_INT64_MAX;
	List	   *queues;
	ListCell   *lc;
	bool		exists;

	/* Before: what this wakes us for is seen in this round. */
	maintain_tick(GetCurrentTimestamp());
	worker_slots_pass_begins(my_slot);
	queues = list_queues(&exists, &next);
	if (!exists)
	{
		my_end = WORKER_NOT_NEEDED;
		proc_exit(0);
	}
	foreach(lc, queues)
	{
		next = wall_clock_earlier(next, maintain_one(lfirst_oid(lc)));
		run_schedules();
	}
	list_free(queues);
	return worker_slots_next(my_slot, wall_clock_earlier(next, maintain_next_lease()));
}

/*
 * The worker of a database.  arg: its slot.
 */
void
database_worker_main(Datum arg)
{
	HASHCTL		ctl = {0};
	Oid			database;
	uint32		reservation;
	TimestampTz next = 0;
	uint32		clock_steps = wall_clock_steps();

	my_slot = DatumGetInt32(arg);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, SIG_IGN);	/* there is no query to cancel */
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(Oid));
	memcpy(&reservation, MyBgworkerEntry->bgw_extra + sizeof(Oid), sizeof(uint32));
	if (!worker_slots_begin(my_slot, reservation))
		proc_exit(0);
	before_shmem_exit(worker_exit, (Datum) 0);
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);

	override_settings();
	lease_handover_begin();

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(FailingQueue);
	failing = hash_create("pgfairq failing queues", 16, &ctl, HASH_ELEM | HASH_BLOBS);

	schedule_worker_begin();
	release_gone_queues();
	while (!worker_slots_stop_requested(my_slot))
	{
		TimestampTz until;
		long		timeout;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);

			/* What is set otherwise may be due at once. */
			next = 0;
		}

		/* If the clock was set, what we come for may be due, or later. */
		(void) wall_clock_check();
		if (clock_steps != wall_clock_steps())
		{
			clock_steps = wall_clock_steps();
			retry_failures();
			next = next_schedule = 0;
		}

		next = worker_slots_next(my_slot, next);
		if (next <= GetCurrentTimestamp())
			next = maintain_all();
		run_schedules();

		until = wall_clock_earlier(next, run_errands(database));
		until = wall_clock_earlier(until, next_schedule);
		timeout = (until == PG_INT64_MAX) ? -1 :
			TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);
		if (timeout > WALL_CLOCK_LOOK_MSECS)
			timeout = WALL_CLOCK_LOOK_MSECS;
		pgstat_report_stat(true);
		if (timeout != 0)
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
							 (timeout > 0 ? WL_TIMEOUT : 0),
							 timeout, shared_memory_wait_event(FAIRQ_WAIT_WORKER));
		ResetLatch(MyLatch);
	}
	my_end = WORKER_STOPPED;
	proc_exit(0);
}
