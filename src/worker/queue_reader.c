/*-------------------------------------------------------------------------
 *
 * queue_reader.c
 *	  The process that reads the whole table of a queue for the worker.
 *
 * After a start, a rewrite of the table, or when counts were found to be off,
 * all rows of a queue are read once (recovery.c).  That takes a second for some
 * 400,000 rows, and what is due in the database's other queues would wait for
 * it.  So tables of some size are read by a process of its own, one table at a
 * time, and the worker passes their queues over until it is done.
 *
 * Where the server has no process left for that (max_worker_processes), the
 * worker reads the table itself.  So it does from then on when the reader has
 * ended without having read it, as for want of entries for groups: the pass has
 * the error, and is set aside as any other that fails, longer each time
 * (queue_passes.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "common/compat.h"
#include "common/run_as.h"
#include "common/settings.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "worker/worker.h"

/* The reader under way, and what it reads, or was to read when it ended. */
static BackgroundWorkerHandle *reader = NULL;
static Oid	table_read = InvalidOid;
static RelFileNumber file_read = InvalidRelFileNumber;	/* of it, by then */

/* Tables for which it has ended in vain. */
static List *unread = NIL;

/* Is the reader under way?  If it has ended it is forgotten. */
static bool
reader_runs(void)
{
	pid_t		pid;

	if (reader == NULL)
		return false;
	if (GetBackgroundWorkerPid(reader, &pid) != BGWH_STOPPED)
		return true;
	pfree(reader);
	reader = NULL;
	return false;
}

/* Start the reader.  Returns whether there is a process for it. */
static bool
start_reader(Oid relation)
{
	BackgroundWorker worker = {0};
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool		started;

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "pgfairq", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "queue_reader_main", sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, BGW_MAXLEN, "pgfairq reader of table %u", relation);
	strlcpy(worker.bgw_type, "pgfairq reader", BGW_MAXLEN);
	worker.bgw_main_arg = ObjectIdGetDatum(relation);
	memcpy(worker.bgw_extra, &MyDatabaseId, sizeof(Oid));
	worker.bgw_notify_pid = MyProcPid;
	Assert(reader == NULL);
	started = RegisterDynamicBackgroundWorker(&worker, &reader);
	MemoryContextSwitchTo(old);
	return started;
}

/*
 * Is a queue's table to be read as a whole, and is another process at it, or
 * will be?  Then the worker is to pass the queue over, and come again soon.
 */
bool
queue_reader_reads(Relation rel, QueueInfo *info)
{
	Oid			relation = RelationGetRelid(rel);

	recovery_recount(rel, info);
	if (likely(!recovery_is_long(rel, info)))
	{
		if (unlikely(table_read == relation))
			table_read = InvalidOid;
		unread = list_delete_oid(unread, relation);
		return false;
	}
	if (reader_runs() || recovery_is_under_way(info))
		return true;
	if (table_read == relation)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		/* It may have read a file that was replaced before we came by. */
		if (file_read == fairq_relation_file(rel))
			unread = list_append_unique_oid(unread, relation);
		MemoryContextSwitchTo(old);
		table_read = InvalidOid;
	}
	if (list_member_oid(unread, relation) || !start_reader(relation))
		return false;
	table_read = relation;
	file_read = fairq_relation_file(rel);
	return true;
}

/*
 * The worker ends: so does the reader, or it would keep the database from being
 * dropped.
 */
void
queue_reader_end(void)
{
	if (reader != NULL)
		TerminateBackgroundWorker(reader);
}

/* Open the queue and read it, unless its locks are taken. */
static void
read_queue(Oid relation)
{
	Oid			owner;
	RunAs		context;
	Relation	rel;
	QueueInfo  *info;

	if (!queue_catalog_lock_extension() || !queue_catalog_lock_settings() ||
		!ConditionalLockRelationOid(relation, AccessShareLock))
		return;
	owner = run_as_owner_of(relation);
	if (!OidIsValid(owner))
		return;
	run_as_owner(owner, InvalidOid, &context);
	info = queue_open_relation(relation, NoLock, 0, &rel);
	if (info != NULL)
	{
		recovery_tags(rel, info);
		relation_close(rel, NoLock);
	}
	run_as_end(&context);
}

/*
 * The reader.  arg: the OID of the table.
 */
void
queue_reader_main(Datum arg)
{
	Oid			database;

	pqsignal(SIGINT, SIG_IGN);	/* there is no query to cancel */
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(Oid));
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	settings_of_worker();

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, MyBgworkerEntry->bgw_name);
	read_queue(DatumGetObjectId(arg));
	PopActiveSnapshot();
	CommitTransactionCommand();
	proc_exit(0);
}
