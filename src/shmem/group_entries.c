/*-------------------------------------------------------------------------
 *
 * group_entries.c
 *	  Where the entries of groups are, for all files that work on them.
 *
 * Set when shared memory is (group_table.c), and never changed: so it is read
 * without a lock.  It has a file of its own as the files of turns read it, and
 * group_table.c, which sets it, calls these.  So it is with the look whether a
 * group is as it should be, in builds with assertions: group_table_unlock takes
 * one at each group that it unlocks, in whatever file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/settings.h"
#include "shmem/group_private.h"

GroupTable *group_table = NULL;
FairGroup  *group_entries = NULL;
uint32	   *group_chains = NULL;
uint32		group_chain_mask;

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
