/*-------------------------------------------------------------------------
 *
 * shared_memory.c
 *	  Whether there is shared memory; tranches of our LWLocks, wait events.
 *
 * This area is the first that pgfairq.c sets up: the other areas initialize
 * their locks with the tranche ids that are kept here.
 *
 * Locking: none.  All is written once, while the server starts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "common/compat.h"
#include "common/shared_memory.h"

typedef struct SharedIds
{
	uint64		seed;
	int			tranches[FAIRQ_TRANCHES];
	uint32		wait_events[FAIRQ_WAIT_EVENTS];
} SharedIds;

static const char *const tranche_names[FAIRQ_TRANCHES] = {
	"FairqQueue",
	"FairqLane",
	"FairqGroup",
	"FairqLimit",
	"FairqLease",
	"FairqLeaseFree",
	"FairqWorker",
	"FairqSession",
	"FairqWaiter",
	"FairqName"
};

static const char *const wait_event_names[FAIRQ_WAIT_EVENTS] = {
	"FairqTasks",
	"FairqWorkerMain",
	"FairqLauncherMain",
	"FairqWorkerStop",
	"FairqIndexRead",
	"FairqRecovery",
	"FairqOutcome"
};

static SharedIds *ids = NULL;

Size
shared_memory_shmem_size(void)
{
	return sizeof(SharedIds);
}

void
shared_memory_shmem_init(void *area, bool found)
{
	ids = area;
	if (!found && !pg_strong_random(&ids->seed, sizeof(ids->seed)))
		ids->seed = (uint64) GetCurrentTimestamp() * UINT64CONST(0x9E3779B97F4A7C15);
	for (int i = 0; i < FAIRQ_TRANCHES; i++)
	{
		if (!found)
			ids->tranches[i] = LWLockNewTrancheId();
		LWLockRegisterTranche(ids->tranches[i], tranche_names[i]);
	}
	for (int i = 0; i < FAIRQ_WAIT_EVENTS && !found; i++)
		ids->wait_events[i] = fairq_new_wait_event(wait_event_names[i]);
}

/*
 * Is there shared memory, that is, was the library preloaded?
 */
bool
shared_memory_ready(void)
{
	return ids != NULL;
}

/*
 * The tranche id of one of our kinds of LWLocks.
 */
int
shared_memory_tranche(FairqTranche tranche)
{
	return ids->tranches[tranche];
}

/*
 * What a process says that it waits for while it sleeps.
 */
uint32
shared_memory_wait_event(FairqWaitEvent event)
{
	return ids->wait_events[event];
}

/*
 * A seed for hashes of what users choose, new at each start of the server.
 */
uint64
shared_memory_seed(void)
{
	return ids->seed;
}
