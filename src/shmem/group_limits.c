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
 * may not have just now waits in its line (turns.c).  So whatever is changed
 * here lets the group go on.  No function fails: most are called at the end of
 * transactions.
 *
 * Locking: limit_table.h says what a caller may hold.
 *
 * Races: 7 (the count goes down under the lock under which a line is blocked),
 * 27 and 29 (group_limits_take).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "shmem/limit_private.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/turns.h"
#include "shmem/worker_slots.h"

/*
 * Let a group go on that may, and unlock its limit.  Called without locks but
 * that, and those that are taken before a lane's: so a line is told when the
 * limit is unlocked, and by then the entry of the limit, or of the group, may
 * be another one's (turns_resume).
 */
static void
unlock_and_go_on(uint32 number)
{
	GroupLimit *limit = &limit_entries[number];
	uint32		groups[FAIRQ_CLASSES];
	int			n = limit_room_unblock(limit, groups);
	TimestampTz token = limit->awaits_token ? limit->token_due : DT_NOEND;
	int			queue = limit->queue;

	limit_unlock(number);
	for (int i = 0; i < n; i++)
		turns_resume(groups[i]);
	if (token != DT_NOEND)
		worker_slots_wake_at(queue_state_by_number(queue)->database, token);
}

/*
 * A task of the group is going to be leased, if it may, by the limits of all
 * levels.  reserved are those that have kept room for it; NO_LIMIT: it was not
 * in the group's line, and those that are parked there come first.  The caller
 * holds the partition of the group exclusively, which counts the task as well.
 *
 * Returns whether it may: then it is counted as leased at each level, has its
 * token, and what was kept is not needed any more.  Else nothing is counted,
 * and what was kept is kept on, though there is no room for it, as what the
 * group may have is less now.  Then those that come first may have it: what is
 * kept for those behind them in hand does not count (race 27).
 *
 * All levels are locked at once, so that a task has room at each or at none
 * (race 29).
 */
bool
group_limits_take(const uint32 limits[LIMIT_LEVELS], const uint32 reserved[LIMIT_LEVELS])
{
	TimestampTz token;
	bool		limited[LIMIT_LEVELS];
	bool		may = true;

	limit_lock_levels(limits);
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		GroupLimit *limit = &limit_entries[limits[i]];
		bool		kept = reserved[i] == limits[i];

		if (limits[i] == NO_LIMIT)
			continue;
		if (kept)
			limit_room_give_up(limit);
		may &= limit_table_room(limit, kept ? 0 : limit->reserved, &token, &limited[i]) > 0 &&
			(kept || limit->parked == 0);
	}
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		if (limits[i] == NO_LIMIT)
			continue;
		if (may)
		{
			limit_entries[limits[i]].leased++;
			limit_entries[limits[i]].tokens -= limited[i];
		}
		else if (reserved[i] == limits[i])
			limit_room_keep(&limit_entries[limits[i]]);
	}
	limit_unlock_levels(limits);
	return may;
}

/*
 * The task for which room was kept is not leased: others of the group may be.
 * The group may have left the limit, which stays for what it has reserved.  The
 * caller calls this once for each limit that kept room (LaneTurn).
 */
void
group_limits_give_up(uint32 number)
{
	Assert(number != NO_LIMIT);
	limit_room_give_up(limit_lock(number, LW_EXCLUSIVE));
	unlock_and_go_on(number);
}

/*
 * A lease of the group has ended, or unused: was not granted after all, and its
 * token comes back.  The group has counted it off before.  NO_LIMIT: it has
 * none.
 */
void
group_limits_give(uint32 number, bool unused)
{
	GroupLimit *limit;

	if (number == NO_LIMIT)
		return;
	limit = limit_lock(number, LW_EXCLUSIVE);
	Assert(limit->in_use && limit->leased > 0);
	limit->leased--;
	limit->tokens += unused;
	unlock_and_go_on(number);
}

/*
 * The classes of a group have been told the limit that limit_table_make made,
 * so that what they have in flight is counted: the group may be served by it.
 * crowded_until: there are no entries for its subgroups; or 0.  The entry is
 * not the caller's any more, and goes if no group knows it.
 */
void
group_limits_joined(uint32 number, TimestampTz crowded_until)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);

	limit->joining--;
	limit->crowded_until = Max(limit->crowded_until, crowded_until);
	unlock_and_go_on(number);
	limit_table_detach(number);
}

/*
 * Settings that were announced are in force, and limit_entry_settling was
 * called: what the group may have now it can take from here on.
 * limit_table_settled follows.  Takes the limit's lock, and then those of
 * lanes.
 */
void
group_limits_change(uint32 number, const LimitSettings *settings)
{
	(void) limit_lock(number, LW_EXCLUSIVE);
	limit_entry_change(number, settings);
	unlock_and_go_on(number);
}

/*
 * What groups of a queue may have that have no settings of their own has
 * changed: each that waits looks whether it may go on.  The new defaults are
 * published by now.  A limit that is made meanwhile has them from the
 * beginning.
 */
void
group_limits_defaults_changed(int queue)
{
	for (uint32 i = 0; i < limit_table_high_water(); i++)
	{
		if (!limit_entries[i].in_use || limit_entries[i].queue != queue)
			continue;
		(void) limit_lock(i, LW_EXCLUSIVE);
		unlock_and_go_on(i);
	}
}

/*
 * Let the groups of a queue go on that have a token again.  Returns when the
 * next one has; DT_NOEND: none waits.  Each claim calls this, and each pass:
 * while no token is due it takes no lock.
 */
TimestampTz
group_limits_tick(QueueLimits *limits, TimestampTz now)
{
	uint32		number;

	/* Each once: one has no token yet if the clock is set back meanwhile. */
	for (uint32 left = limit_table_high_water();
		 left > 0 && (number = limit_room_first_due(limits, now)) != NO_LIMIT; left--)
	{
		(void) limit_lock(number, LW_EXCLUSIVE);
		unlock_and_go_on(number);
	}
	return limit_room_next_token(limits);
}
