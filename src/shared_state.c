/*-------------------------------------------------------------------------
 *
 * shared_state.c
 *	  The shared memory of pgfairq: its size, its start, its guards.
 *
 * Each module of layer 2 says how much it needs and sets up its part; here
 * they are put into one named area each.  Everything is of fixed size, sized
 * by settings.c (invariant I10), for two reasons: a commit callback must not
 * fail, so it cannot allocate, and an array index is a reference that holds
 * in every process.  The areas are reserved, not touched: the kernel hands
 * out a page of them when it is first written.
 *
 * Locking: the order in which a process may take our locks is
 *
 *		queue -> group -> limit
 *		queue -> group -> lane
 *		lease partition -> lease free list, or moved leases
 *		any of them -> list of waiters
 *
 * and a buffer content lock may be held while a group, a limit or a lease partition
 * is locked (claim), never the other way round.  Nothing here is held while anything
 * that can error, sleep or do I/O is called.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "common/wall_clock.h"
#include "shared_state.h"
#include "shmem/fed_tasks.h"
#include "shmem/group_limits.h"
#include "shmem/group_table.h"
#include "shmem/in_transit.h"
#include "shmem/lanes.h"
#include "shmem/lease_file.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"
#include "shmem/stats.h"
#include "shmem/waiting.h"
#include "shmem/wakeup.h"
#include "storage/queue_relation.h"

typedef struct SharedHeader
{
	int			tranches[FAIRQ_TRANCHES];
} SharedHeader;

static const char *const tranche_names[FAIRQ_TRANCHES] = {
	"FairqQueue",
	"FairqLane",
	"FairqGroup",
	"FairqLimit",
	"FairqLease",
	"FairqLeaseFree",
	"FairqWorker",
	"FairqSession",
	"FairqWaiter"
};

/* The parts, in the order of their set-up. */
static const struct
{
	const char *name;
	Size		(*size) (void);
	void		(*init) (void *area, bool found);
}			parts[] = {
	{"pgfairq clock", wall_clock_shmem_size, wall_clock_shmem_init},
	{"pgfairq queues", queue_state_shmem_size, queue_state_shmem_init},
	{"pgfairq stats", stats_shmem_size, stats_shmem_init},
	{"pgfairq lanes", lanes_shmem_size, lanes_shmem_init},
	{"pgfairq groups", group_table_shmem_size, group_table_shmem_init},
	{"pgfairq fed tasks", fed_tasks_shmem_size, fed_tasks_shmem_init},
	{"pgfairq limits", limits_shmem_size, limits_shmem_init},
	{"pgfairq leases", leases_shmem_size, leases_shmem_init},
	{"pgfairq sessions", sessions_shmem_size, sessions_shmem_init},
	{"pgfairq workers", wakeup_shmem_size, wakeup_shmem_init},
	{"pgfairq waiters", waiting_shmem_size, waiting_shmem_init},
	{"pgfairq in transit", in_transit_shmem_size, in_transit_shmem_init},
	{"pgfairq pages seen", row_reader_shmem_size, row_reader_shmem_init},
};

static SharedHeader *header = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
shared_state_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	RequestAddinShmemSpace(MAXALIGN(sizeof(SharedHeader)));
	for (int i = 0; i < (int) lengthof(parts); i++)
		RequestAddinShmemSpace(add_size(parts[i].size(), PG_CACHE_LINE_SIZE));
}

static void
shared_state_shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	header = ShmemInitStruct("pgfairq", sizeof(SharedHeader), &found);
	if (!found)
	{
		for (int i = 0; i < FAIRQ_TRANCHES; i++)
			header->tranches[i] = LWLockNewTrancheId();
	}
	for (int i = 0; i < FAIRQ_TRANCHES; i++)
		LWLockRegisterTranche(header->tranches[i], tranche_names[i]);

	for (int i = 0; i < (int) lengthof(parts); i++)
	{
		void	   *area = ShmemInitStruct(parts[i].name, parts[i].size(), &found);

		parts[i].init(area, found);
	}
	LWLockRelease(AddinShmemInitLock);

	if (!IsUnderPostmaster)
		lease_file_startup();
}

/*
 * Ask for shared memory.  Called from _PG_init while libraries are preloaded.
 */
void
shared_state_request(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shared_state_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shared_state_shmem_startup;
}

/*
 * Is there shared memory, that is, was the library preloaded?
 */
bool
shared_state_ready(void)
{
	return header != NULL;
}

/*
 * The tranche id of one of our kinds of LWLocks.
 */
int
shared_state_tranche(FairqTranche tranche)
{
	return header->tranches[tranche];
}
