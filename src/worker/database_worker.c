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
 * What a queue has to wait for is no other queue's matter: queue_passes.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/async.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "maintenance/maintain.h"
#include "shmem/queue_state.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"
#include "storage/queue_catalog.h"
#include "storage/queue_open.h"
#include "worker/worker.h"

#define FIRST_RETRY_SECS	1

/* Queues to NOTIFY of in one transaction. */
#define MAX_NOTIFIED		64

static int	my_slot = -1;
static TimestampTz next_schedule = 0;
static WorkerEnd my_end = WORKER_FAILED;
static List *known_queues = NIL;
static bool list_failed = false;
static bool notify_failed = false;

/* Queues to NOTIFY of. */
typedef struct Notified
{
	int			n;
	int			queues[MAX_NOTIFIED];
} Notified;

static void
worker_exit(int code, Datum arg)
{
	queue_reader_end();
	waiters_worker_gone(worker_slots_end(my_slot, patience_gave_up() ? WORKER_STOPPED : my_end));
}

/*
 * Do work(arg) in a transaction.  Returns whether it has failed, which is
 * logged unless that had failed before.
 */
static bool
try_work(void (*work) (void *arg), void *arg, bool failed_before)
{
	ErrorData  *error = run_as_transaction(work, arg, !failed_before);

	if (error != NULL)
		FreeErrorData(error);
	return error != NULL;
}

/*
 * Read which queues there are.  Only the list itself is to outlive the
 * transaction: what reading the catalog leaves behind would pile up, at each
 * pass.
 */
static void
read_queues(void)
{
	List	   *queues = queue_catalog_list(NULL);
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	list_free(known_queues);
	known_queues = list_copy(queues);
	MemoryContextSwitchTo(old);
}

/*
 * See which queues the database has: known_queues, as they were when they were
 * seen last, should they not be seen now; arg: when to look again then.  The
 * worker is not needed if the extension is not there, or not in the library's
 * version; when it is altered there will be another worker.
 */
static void
list_queues(void *arg)
{
	TimestampTz *next = arg;

	if (!OidIsValid(get_extension_oid("pgfairq", true)) || !extension_version_matches(LOG))
		my_end = WORKER_NOT_NEEDED;
	else if (queue_catalog_lock_settings())
		read_queues();
	else
		*next = GetCurrentTimestamp() + USECS_PER_SEC;
}

/*
 * NOTIFY of queues: channel fairq_<queue>, without payload.  arg: the Notified.
 */
static void
send_notifications(void *arg)
{
	Notified   *notified = arg;

	for (int i = 0; i < notified->n; i++)
	{
		QueueState *state = queue_state_by_number(notified->queues[i]);
		char	   *queue = queue_catalog_name_of(state->relation);

		/* Unless it is just being dropped. */
		if (queue != NULL)
			Async_Notify(psprintf("fairq_%.*s", NAMEDATALEN - 7, queue), NULL);
	}
}

/*
 * Do what is to be done now for those who wait and listen.  Returns when to
 * come again.
 */
static TimestampTz
run_errands(Oid database)
{
	Notified	notified;
	TimestampTz next;

	worker_slots_begin_look(my_slot, WORKER_ERRANDS);
	notified.n = waiter_errands_due(database, GetCurrentTimestamp(), queue_ready_bucket,
									MAX_NOTIFIED, notified.queues, &next);
	if (notified.n == 0)
		return worker_slots_next_look(my_slot, WORKER_ERRANDS, next);
	notify_failed = try_work(send_notifications, &notified, notify_failed);
	if (notify_failed)
	{
		TimestampTz again = GetCurrentTimestamp() + FIRST_RETRY_SECS * USECS_PER_SEC;

		for (int i = 0; i < notified.n; i++)
			waiter_errands_notify_again(notified.queues[i], again);
		next = Min(next, again);
	}
	return worker_slots_next_look(my_slot, WORKER_ERRANDS, next);
}

/*
 * Run schedules if one is due.  That has to be in time, so it is asked for
 * between the queues, too; but then, however many are due, they get no more
 * time than the queues have had since.
 */
static void
run_schedules(bool between)
{
	static TimestampTz rest_until = 0;
	TimestampTz began = GetCurrentTimestamp();

	next_schedule = worker_slots_next_look(my_slot, WORKER_SCHEDULES, next_schedule);
	if (next_schedule > began || (between && wall_clock_ahead(rest_until, began, USECS_PER_SEC)))
		return;
	next_schedule = schedule_worker_run(my_slot);
	rest_until = 2 * GetCurrentTimestamp() - began;
}

/*
 * Maintain all queues once.  Returns when to come again; ends the worker if the
 * extension is not in the database any more, or of another version.
 */
static TimestampTz
maintain_all(void)
{
	TimestampTz next = PG_INT64_MAX;
	ListCell   *lc;

	/* Before: what this wakes us for is seen in this round. */
	maintain_tick();
	worker_slots_begin_look(my_slot, WORKER_QUEUES);
	list_failed = try_work(list_queues, &next, list_failed);
	if (list_failed)
		next = GetCurrentTimestamp() + FIRST_RETRY_SECS * USECS_PER_SEC;
	if (my_end == WORKER_NOT_NEEDED)
		proc_exit(0);
	foreach(lc, known_queues)
	{
		next = wall_clock_earlier(next, queue_passes_run(lfirst_oid(lc)));
		run_schedules(true);
	}
	return worker_slots_next_look(my_slot, WORKER_QUEUES,
								  wall_clock_earlier(next, maintain_next_lease()));
}

/*
 * The worker of a database.  arg: its slot.
 */
void
database_worker_main(Datum arg)
{
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

	settings_of_worker();
	lease_handover_begin();

	patience_register();
	queue_passes_begin();
	schedule_worker_begin();

	/* What went without a call of ours, when this server was a standby. */
	StartTransactionCommand();
	(void) gone_queues_release();
	CommitTransactionCommand();

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
		wall_clock_check();
		if (clock_steps != wall_clock_steps())
		{
			clock_steps = wall_clock_steps();
			queue_passes_retry();
			next = next_schedule = 0;
		}

		next = worker_slots_next_look(my_slot, WORKER_QUEUES, next);
		if (next <= GetCurrentTimestamp())
			next = maintain_all();
		run_schedules(false);

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
