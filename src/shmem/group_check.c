/*-------------------------------------------------------------------------
 *
 * group_check.c
 *	  Whether groups are as they should be, in builds with assertions.
 *
 * Locking: as in group_table.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/settings.h"
#include "shmem/group_private.h"

#ifdef USE_ASSERT_CHECKING

/*
 * A group whose partition is locked is as it should be.  How many tasks it has
 * ready, or in the overflow, may be off until a queue is counted anew, so that
 * these counts are not looked at.
 */
void
group_check(const FairGroup *group)
{
	AssertGroupLocked(group);
	Assert(group->in_use);
	Assert(group->key.queue < settings_max_queues && group->key.class < FAIRQ_CLASSES);
	Assert(group->leased >= 0);
	Assert(group->pending >= 0);
	Assert(group->run_time >= 0);
	Assert(group->refund >= 0);
	Assert(group->limit == NO_LIMIT || group->limit < (uint32) settings_max_limits);
}

#endif							/* USE_ASSERT_CHECKING */
