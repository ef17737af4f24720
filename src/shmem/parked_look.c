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

#include "shmem/lane_unwritten.h"
#include "shmem/limit_private.h"
#include "shmem/parking.h"

/* Tasks that may be parked between a look at how many there are and at them. */
#define COMING			32

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

/*
 * Is a task of the group's overflow parked?  All that are so are read once.
 */
bool
parking_has_task(uint32 number, UnwrittenTasks *parked, int64 task)
{
	if (!parked->known)
	{
		int			size = ((volatile GroupLimit *) &limit_entries[number])->parked + COMING;

		parked->known = true;
		parked->tasks = palloc(size * sizeof(int64));
		parked->n = parked_tree_tasks(limit_lock(number, LW_SHARED), parked->tasks, size);
		limit_unlock(number);
		qsort(parked->tasks, parked->n, sizeof(int64), lane_unwritten_compare_tasks);
	}
	return parked->n > 0 &&
		bsearch(&task, parked->tasks, parked->n, sizeof(int64),
				lane_unwritten_compare_tasks) != NULL;
}
