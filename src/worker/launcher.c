/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  The process that starts a worker for each database with the extension.
 *
 * It is connected to no database and sees the shared catalogs only.  To find
 * out whether a database has the extension it starts a worker there, which
 * looks, and ends if not.  So each database is, for the launcher,
 *
 *		unknown		it has to be probed: start a worker
 *		served		it has a worker
 *		unserved	a worker looked, and there is no extension, or one of another
 *					version
 *		failed		its worker died; to be started again at a time, later each
 *					time
 *
 * CREATE and ALTER EXTENSION make a database unknown again (database_hooks.c).
 * A new database is unknown.  Fenced databases (a command drops or copies them)
 * are left alone.  Otherwise the launcher sleeps.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/worker_slots.h"
#include "worker/worker.h"

#define FIRST_RETRY_SECS	1
#define LAST_RETRY_SECS		300

/* A worker that has run so long before it failed starts with a clean slate. */
#define GOOD_RUN_SECS		60

/* How long databases may wait for a slot before the log says so. */
#define SLOT_WAIT_SECS		30

typedef struct LaunchedDatabase
{
	Oid			database;		/* hash key */
	bool		seen;			/* it is in pg_database */
	bool		unserved;
	int			slot;			/* -1: no worker */
	BackgroundWorkerHandle *handle;
	bool		probe_again;	/* a backend asked while it had a worker */
	TimestampTz started_at;
	TimestampTz waiting_since;	/* 0: not for a slot */
	bool		told;			/* the log says that it waits */
	int			failures;
	TimestampTz retry_at;		/* 0: not failed */
} LaunchedDatabase;

static HTAB *databases = NULL;
static uint32 clock_steps = 0;

/*
 * Have the postmaster start the launcher.  Called from _PG_init.
 */
void
launcher_register(void)
{
	BackgroundWorker worker = {0};

	if (settings_max_workers == 0)
		return;
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = FIRST_RETRY_SECS;
	strlcpy(worker.bgw_library_name, "pgfairq", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "pgfairq launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "pgfairq launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

static LaunchedDatabase *
database_entry(Oid oid)
{
	bool		found;
	LaunchedDatabase *entry = hash_search(databases, &oid, HASH_ENTER, &found);

	if (!found)
	{
		*entry = (LaunchedDatabase)
		{
			.database = oid,
			.slot = worker_slots_find(oid), /* of an earlier launcher */
			.started_at = GetCurrentTimestamp(),
		};
	}
	return entry;
}

/*
 * Read pg_database.  Databases that do not allow connections, and templates,
 * which others want to copy, have no worker.
 */
static void
read_databases(void)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;
	HASH_SEQ_STATUS status;
	LaunchedDatabase *entry;

	hash_seq_init(&status, databases);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->seen = false;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		if (form->datallowconn && !form->datistemplate && form->datconnlimit != -2)
			database_entry(form->oid)->seen = true;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();

	hash_seq_init(&status, databases);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (!entry->seen && entry->slot < 0)
			hash_search(databases, &entry->database, HASH_REMOVE, NULL);
	}
}

/*
 * Look whether the worker of a database has ended, and how.  Returns whether it
 * has, and its slot is free.
 */
static bool
check_worker(LaunchedDatabase *entry)
{
	pid_t		pid;

	if (entry->slot < 0)
		return false;
	if (entry->handle == NULL)
	{
		/* Started by an earlier launcher: its slot is all we know of it. */
		if (worker_slots_alive(entry->database))
			return false;
	}
	else if (GetBackgroundWorkerPid(entry->handle, &pid) != BGWH_STOPPED)
		return false;

	if (entry->handle != NULL)
		pfree(entry->handle);
	entry->handle = NULL;
	switch (worker_slots_unreserve(entry->slot))
	{
		case WORKER_NOT_NEEDED:
			/* Unless the extension came while the worker was on its way out. */
			entry->unserved = !entry->probe_again;
			entry->failures = 0;
			break;
		case WORKER_STOPPED:
			break;
		case WORKER_FAILED:
			if (GetCurrentTimestamp() - entry->started_at > GOOD_RUN_SECS * USECS_PER_SEC)
				entry->failures = 0;
			entry->retry_at = wall_clock_retry(GetCurrentTimestamp(), entry->failures++,
											   LAST_RETRY_SECS * USECS_PER_SEC);
			break;
	}
	entry->slot = -1;
	entry->probe_again = false;
	return true;
}

static void
start_worker(LaunchedDatabase *entry)
{
	BackgroundWorker worker = {0};
	uint32		reservation;
	int			slot = worker_slots_reserve(entry->database, &reservation);
	MemoryContext old;
	bool		started = false;

	if (slot >= 0)
	{
		worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
		worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
		worker.bgw_restart_time = BGW_NEVER_RESTART;	/* we do that */
		strlcpy(worker.bgw_library_name, "pgfairq", sizeof(worker.bgw_library_name));
		strlcpy(worker.bgw_function_name, "database_worker_main",
				sizeof(worker.bgw_function_name));
		snprintf(worker.bgw_name, BGW_MAXLEN, "pgfairq worker for database %u",
				 entry->database);
		strlcpy(worker.bgw_type, "pgfairq worker", BGW_MAXLEN);
		worker.bgw_main_arg = Int32GetDatum(slot);
		memcpy(worker.bgw_extra, &entry->database, sizeof(Oid));
		memcpy(worker.bgw_extra + sizeof(Oid), &reservation, sizeof(uint32));
		worker.bgw_notify_pid = MyProcPid;
		old = MemoryContextSwitchTo(TopMemoryContext);
		started = RegisterDynamicBackgroundWorker(&worker, &entry->handle);
		MemoryContextSwitchTo(old);
	}

	if (started)
	{
		entry->slot = slot;
		entry->retry_at = 0;
		entry->started_at = GetCurrentTimestamp();
		entry->waiting_since = 0;
		entry->told = false;
		return;
	}

	/* Slots are short while many databases are probed; only for a while. */
	entry->handle = NULL;
	entry->retry_at = GetCurrentTimestamp() + USECS_PER_SEC;
	if (entry->waiting_since == 0)
		entry->waiting_since = GetCurrentTimestamp();
	if (!entry->told &&
		GetCurrentTimestamp() - entry->waiting_since > SLOT_WAIT_SECS * USECS_PER_SEC)
	{
		entry->told = true;
		ereport(WARNING,
				(errmsg("could not start a pgfairq worker for the database with OID %u", entry->database),
				 errhint("Raise the setting \"%s\" and restart the server, or call fairq.maintain() for the queues there.",
						 slot < 0 ? "pgfairq.max_workers" : "max_worker_processes")));
	}
	if (slot >= 0)
		(void) worker_slots_unreserve(slot);
}

/*
 * Start what has to be started.  Returns in how many milliseconds to look
 * again; -1: when something happens.
 */
static long
launch(void)
{
	HASH_SEQ_STATUS status;
	LaunchedDatabase *entry;
	Oid			probes[64];
	bool		all;
	bool		freed = false;
	int			n;
	TimestampTz now;
	TimestampTz next = PG_INT64_MAX;

	wall_clock_check();
	if (clock_steps != wall_clock_steps())
	{
		/* The clock was set: the times until when things wait mean nothing. */
		clock_steps = wall_clock_steps();
		hash_seq_init(&status, databases);
		while ((entry = hash_seq_search(&status)) != NULL)
		{
			entry->retry_at = 0;
			entry->started_at = GetCurrentTimestamp();
			entry->waiting_since = entry->waiting_since > 0 ? entry->started_at : 0;
		}
	}
	n = worker_slots_probes(probes, lengthof(probes), &all);
	read_databases();
	now = GetCurrentTimestamp();
	for (int i = 0; i < n; i++)
	{
		entry = hash_search(databases, &probes[i], HASH_FIND, NULL);
		if (entry != NULL)
		{
			entry->unserved = false;
			entry->retry_at = 0;
			entry->probe_again = (entry->slot >= 0);
		}
	}

	hash_seq_init(&status, databases);
	while ((entry = hash_seq_search(&status)) != NULL)
		freed |= check_worker(entry);

	hash_seq_init(&status, databases);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (all)
			entry->unserved = false;
		/* Who waits for a slot may have one. */
		if (all || (freed && entry->waiting_since > 0))
			entry->retry_at = 0;
		/* A template by now, or not to be connected to. */
		if (entry->slot >= 0 && !entry->seen)
			worker_slots_dismiss(entry->database);
		if (entry->slot >= 0 || entry->unserved || !entry->seen)
			continue;
		if (worker_slots_fenced(entry->database))
			next = Min(next, now + 10 * USECS_PER_SEC);
		else if (entry->retry_at > now)
			next = Min(next, entry->retry_at);
		else
		{
			start_worker(entry);
			if (entry->retry_at > 0)
				next = Min(next, entry->retry_at);
		}
	}
	return next == PG_INT64_MAX ? -1 :
		Min(TimestampDifferenceMilliseconds(now, next) + 1, WALL_CLOCK_LOOK_MSECS);
}

/*
 * The launcher.
 */
void
launcher_main(Datum arg)
{
	HASHCTL		ctl = {0};

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, SIG_IGN);	/* there is no query to cancel */
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	worker_slots_launcher_begin();

	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(LaunchedDatabase);
	databases = hash_create("pgfairq databases", 32, &ctl, HASH_ELEM | HASH_BLOBS);

	for (;;)
	{
		long		timeout;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		timeout = launch();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
						 (timeout >= 0 ? WL_TIMEOUT : 0),
						 timeout, shared_memory_wait_event(FAIRQ_WAIT_LAUNCHER));
		ResetLatch(MyLatch);
	}
}
