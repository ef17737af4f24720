/*-------------------------------------------------------------------------
 *
 * pgfairq.c
 *	  A fair task queue: what happens when the library is loaded, and its
 *	  areas of shared memory.
 *
 * Each module of shmem/ says how much memory it needs and sets up its area.
 * Every area is of fixed size, sized by settings.c (invariant I10), for two
 * reasons: a commit callback must not fail, so it cannot allocate, and an
 * array index is a reference that holds in every process.  The areas are
 * reserved, not touched: the kernel hands out a page when it is first written.
 *
 * Locking: the order in which a process may take our locks is
 *
 *		queue -> group -> limit
 *		queue -> group -> lane
 *		lease partition -> lease free list, or moved leases
 *		queues -> names
 *		any of them -> list of waiters, or of awaiters
 *
 * and a buffer content lock may be held while a group, a limit or a lease
 * partition is locked (claim), never the other way round.  No lock of ours is
 * held while anything is called that can error, sleep or do I/O.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "common/backend_end.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "engine.h"
#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"
#include "shmem/stats.h"
#include "shmem/turns.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"
#include "sql/arguments.h"
#include "storage/archive.h"
#include "storage/queue_catalog.h"
#include "storage/queue_open.h"
#include "storage/row_reader.h"
#include "verbs/claim.h"
#include "verbs/held_tasks.h"
#include "worker/worker.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

/* The areas of shared memory, in the order of their set-up. */
static const struct
{
	const char *name;
	Size		(*size) (void);
	void		(*init) (void *area, bool found);
}			areas[] = {
	{"pgfairq", shared_memory_shmem_size, shared_memory_shmem_init},
	{"pgfairq clock", wall_clock_shmem_size, wall_clock_shmem_init},
	{"pgfairq queues", queue_state_shmem_size, queue_state_shmem_init},
	{"pgfairq stats", stats_shmem_size, stats_shmem_init},
	{"pgfairq names", name_stats_shmem_size, name_stats_shmem_init},
	{"pgfairq lanes", lane_table_shmem_size, lane_table_shmem_init},
	{"pgfairq groups", group_table_shmem_size, group_table_shmem_init},
	{"pgfairq turns", turns_shmem_size, turns_shmem_init},
	{"pgfairq limits", limit_table_shmem_size, limit_table_shmem_init},
	{"pgfairq leases", leases_shmem_size, leases_shmem_init},
	{"pgfairq sessions", sessions_shmem_size, sessions_shmem_init},
	{"pgfairq workers", worker_slots_shmem_size, worker_slots_shmem_init},
	{"pgfairq awaiters", awaiters_shmem_size, awaiters_shmem_init},
	{"pgfairq waiters", waiters_shmem_size, waiters_shmem_init},
	{"pgfairq in transit", transit_horizon_shmem_size, transit_horizon_shmem_init},
	{"pgfairq pages seen", page_hints_shmem_size, page_hints_shmem_init},
};

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < (int) lengthof(areas); i++)
		RequestAddinShmemSpace(add_size(areas[i].size(), PG_CACHE_LINE_SIZE));
}

static void
shmem_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < (int) lengthof(areas); i++)
	{
		bool		found;
		void	   *area = ShmemInitStruct(areas[i].name, areas[i].size(), &found);

		areas[i].init(area, found);
	}
	LWLockRelease(AddinShmemInitLock);

	if (!IsUnderPostmaster)
		lease_file_startup();
}

/*
 * Without preload there is no shared memory, so there is nothing to set up.
 * The library loads all the same: pg_upgrade and CREATE EXTENSION need it to.
 * Each function refuses by itself, with a hint.
 */
void
_PG_init(void)
{
	*find_rendezvous_variable(FAIRQ_ENGINE) = unconstify(FairqEngine *, &fairq_engine);
	if (!process_shared_preload_libraries_in_progress)
		return;

	/* Its settings are among ours, which no others may be afterwards. */
	(void) load_external_function("$libdir/pgfairq_cluster", "_PG_init", false, NULL);
	settings_define();
	backend_end_init();
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
	extension_version_register();
	queue_open_register();
	archive_register();
	pending_register();
	pending_queue_register();

	/* A refill ends before what is in hand goes back to its lane. */
	pending_hook(PENDING_AT_ABORT, lanes_at_abort);
	pending_hook(PENDING_AT_ABORT, turns_at_abort);
	pending_hook(PENDING_AT_ABORT, leases_return_reserved);
	pending_hook(PENDING_AT_ABORT, claim_at_abort);
	pending_hook(PENDING_AT_ABORT, waiters_end);
	pending_hook(PENDING_AT_ABORT, awaiters_end);
	successors_register();
	held_tasks_register();
	sql_schedules_register();
	database_hooks_install();
	launcher_register();
}
