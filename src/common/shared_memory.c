/*-------------------------------------------------------------------------
 *
 * shared_memory.c
 *	  Whether there is shared memory, and the tranches of our LWLocks.
 *
 * This area is the first that pgfairq.c sets up: the other areas initialize
 * their locks with the ids that are kept here.
 *
 * Locking: none.  The ids are written once, while the server starts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/shared_memory.h"

typedef struct TrancheIds
{
	int			ids[FAIRQ_TRANCHES];
} TrancheIds;

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

static TrancheIds *tranches = NULL;

Size
shared_memory_shmem_size(void)
{
	return sizeof(TrancheIds);
}

void
shared_memory_shmem_init(void *area, bool found)
{
	tranches = area;
	for (int i = 0; i < FAIRQ_TRANCHES; i++)
	{
		if (!found)
			tranches->ids[i] = LWLockNewTrancheId();
		LWLockRegisterTranche(tranches->ids[i], tranche_names[i]);
	}
}

/*
 * Is there shared memory, that is, was the library preloaded?
 */
bool
shared_memory_ready(void)
{
	return tranches != NULL;
}

/*
 * The tranche id of one of our kinds of LWLocks.
 */
int
shared_memory_tranche(FairqTranche tranche)
{
	return tranches->ids[tranche];
}
