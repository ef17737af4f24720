/*-------------------------------------------------------------------------
 *
 * parked_look.c
 *	  What is parked of a group, for those who only look.
 *
 * Locking: as in parking.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/limit_private.h"
#include "shmem/parking.h"

/*
 * How many tasks of the group that come before an address are parked, up to
 * max.  *all is set to false if there may be more.
 */
int
parking_before_address(uint32 number, const FairqAddress *address, int max, bool *all)
{
	GroupLimit *limit = limit_lock(number, LW_SHARED);
	int			result = parked_tree_before(limit, address, max);

	if (result >= max || limit->dropped)
		*all = false;
	limit_unlock(number);
	return result;
}

/*
 * Is the task of the group that has this address parked?
 */
bool
parking_has(uint32 number, const FairqAddress *address)
{
	bool		result = parked_tree_has(limit_lock(number, LW_SHARED), address);

	limit_unlock(number);
	return result;
}
