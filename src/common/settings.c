/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The settings pgfairq.*, and those of the server that its worker overrides.
 *
 * Those that size shared memory are fixed at server start.  What they reserve
 * is address space: a page of it takes memory when it is first used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "common/settings.h"

int			settings_max_queues = 256;
int			settings_max_lanes = 4096;
int			settings_max_groups = 1024 * 1024;
int			settings_max_limits = 64 * 1024;
int			settings_max_leases = 1024 * 1024;
int			settings_max_sessions = 1024;
int			settings_max_workers = 8;
int			settings_max_names = 1024;
int			settings_sweep_interval = 10000;
int			settings_max_schedules = 10000;

/*
 * Define the settings.  Called once, from _PG_init.
 *
 * Without preload there is no shared memory to size: they are not defined
 * then, because a PGC_POSTMASTER setting cannot be added to a running server.
 */
void
settings_define(void)
{
	DefineCustomIntVariable("pgfairq.max_queues",
							"Maximum number of queues in use at a time, over all databases.",
							NULL,
							&settings_max_queues,
							256, 1, 16384,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.max_lanes",
							"Maximum number of lanes, over all databases.",
							"A queue has one lane for each bucket and priority class in use. A lane takes 20 kB once used.",
							&settings_max_lanes,
							4096, 1, 1024 * 1024,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.max_groups",
							"Maximum number of groups with work at a time, over all databases.",
							"A group takes about 260 bytes for each priority class it has work in.",
							&settings_max_groups,
							1024 * 1024, 16, 256 * 1024 * 1024,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.max_limits",
							"Maximum number of groups with settings of their own, or in flight in queues whose defaults limit them, over all databases.",
							"Each takes about 340 bytes.",
							&settings_max_limits,
							64 * 1024, 16, 64 * 1024 * 1024,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.max_leases",
							"Maximum number of tasks in flight at a time, over all databases.",
							"A lease takes about 100 bytes.",
							&settings_max_leases,
							1024 * 1024, 16, 128 * 1024 * 1024,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.max_sessions",
							"Maximum number of sessions open at a time, over all databases.",
							NULL,
							&settings_max_sessions,
							1024, 1, 65535,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.max_workers",
							"Maximum number of databases that have a background worker.",
							"They count against max_worker_processes, with one more for the launcher. 0: none, and no launcher; maintain queues with fairq.maintain() then.",
							&settings_max_workers,
							8, 0, 1024,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.max_names",
							"Maximum number of names of tasks with figures of their own, over all databases.",
							"Each queue with a name takes one. A name takes about 730 bytes.",
							&settings_max_names,
							1024, 16, 1024 * 1024,
							PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.sweep_interval",
							"Time between looks for new tasks that were not handed over.",
							"0: never, but for fairq.maintain().",
							&settings_sweep_interval,
							10000, 0, 24 * 60 * 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.max_schedules",
							"Maximum number of schedules in a database.",
							NULL,
							&settings_max_schedules,
							10000, 0, 1000000,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);
	MarkGUCPrefixReserved("pgfairq");
}

/*
 * What databases and roles are set to is not meant for the worker, nor for its
 * reader (queue_reader.c).
 */
void
settings_of_worker(void)
{
	/* If there has to be a loser, let it be us, and soon. */
	SetConfigOption("deadlock_timeout", "100ms", PGC_SUSET, PGC_S_OVERRIDE);
	/* How long it waits says patience.c. */
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
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
