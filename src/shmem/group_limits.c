/*-------------------------------------------------------------------------
 *
 * group_limits.c
 *	  What a group may have in flight: taken, given back, and changed.
 *
 * max_leased is exact: a claim counts a task before it leases it, under the
 * entry's lock, and the count goes down when the lease has ended, however that
 * came about.
 *
 * limit_table.c has the entries and says which lock guards what.  What a group
 * may not have just now is parked until it may (parking.c): so whatever is
 * changed here lets the group go on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/group_limits.h"
#include "shmem/limit_private.h"

/*
 * A task of the group, at this address, is going to be leased, if it may.
 */
bool
group_limits_take(uint32 number, const FairqAddress *address)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	TimestampTz token;
	bool		limited;
	bool		waits;
	bool		may;

	waits = limit_waits(limit);
	may = limit_table_room(limit, &token, &limited) > 0 &&
		!(waits && parked_tree_precedes(limit, address));
	if (may)
	{
		limit->leased++;
		if (limited)
			limit->tokens -= 1;
		if (waits)
			parking_taken(limit, address);
	}
	limit_unlock(number);

	/* It may have been the last token, or the last that was offered. */
	if (may && waits)
		(void) parking_go_on(number);
	return may;
}

/*
 * A lease of the group has ended, or unused: was not granted after all.
 */
void
group_limits_give(uint32 number, bool unused)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	bool		waits;

	Assert(limit->in_use && limit->leased > 0);
	limit->leased--;
	if (unused)
		limit->tokens += 1;
	waits = limit_waits(limit);
	limit_unlock(number);
	if (waits)
		(void) parking_go_on(number);
}

/*
 * The classes of a group have been told the limit that limit_table_make made.
 */
void
group_limits_joined(uint32 number)
{
	limit_lock(number, LW_EXCLUSIVE)->joining--;
	limit_unlock(number);
	(void) parking_go_on(number);
	limit_table_detach(number);
}

/*
 * Settings that were announced are in force, and limit_table_settling was
 * called.  Never fails: called at the end of transactions.
 */
void
group_limits_change(uint32 number, const LimitSettings *settings)
{
	limit_table_change(number, settings);
	(void) parking_go_on(number);
}

/*
 * What groups of a queue may have that have no settings of their own has
 * changed.
 */
void
group_limits_defaults_changed(int queue)
{
	for (uint32 i = 0; i < limit_table_high_water(); i++)
	{
		if (limit_entries[i].in_use && limit_entries[i].queue == queue)
			(void) parking_go_on(i);
	}
}
