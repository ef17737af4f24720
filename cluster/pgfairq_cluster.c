/*-------------------------------------------------------------------------
 *
 * pgfairq_cluster.c
 *	  The library of a proxy: what happens when it is loaded.
 *
 * A server that preloads pgfairq has this library preloaded by it, with the
 * settings of a proxy and shared memory for its probe of nodes.  Elsewhere it
 * is loaded by the first call in a session, and has no probe.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "cluster/engine_link.h"
#include "cluster/node_call.h"
#include "cluster/node_health.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(node_health_shmem_size());
	RequestNamedLWLockTranche(NODE_HEALTH_TRANCHE, 1);
}

static void
shmem_startup(void)
{
	bool		found;
	void	   *area;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	area = ShmemInitStruct("pgfairq nodes", node_health_shmem_size(), &found);
	node_health_shmem_init(area, found);
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	if (!engine_link())
		return;
	node_call_settings_define();
	if (!process_shared_preload_libraries_in_progress)
		return;

	node_probe_settings_define();
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}
