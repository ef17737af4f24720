/*-------------------------------------------------------------------------
 *
 * limit_check.c
 *	  Whether limits are as they should be, in builds with assertions.
 *
 * Locking: as in limit_table.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/settings.h"
#include "shmem/limit_private.h"

#ifdef USE_ASSERT_CHECKING

/*
 * A limit whose entry is locked is as it should be.
 */
void
limit_check(const GroupLimit *limit)
{
	AssertLimitLocked(limit);
	if (!limit->in_use)
		return;
	Assert(limit->queue >= 0 && limit->queue < settings_max_queues);
	Assert(limit->pending >= 0);
	Assert(limit->joining >= 0);
	Assert(limit->references >= 0);
	Assert(limit->leased >= 0);
	Assert(limit->reserved >= 0);
	Assert(limit->parked >= 0);
	Assert(limit->blocked_count >= 0 && limit->blocked_count <= FAIRQ_CLASSES);
	Assert(!limit->awaits_token || limit->blocked_count > 0);
}

#endif							/* USE_ASSERT_CHECKING */
