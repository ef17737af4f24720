/*-------------------------------------------------------------------------
 *
 * limit_entry.c
 *	  One limit that is known by its number: its settings and its counts.
 *
 * limit_table.c finds and makes the entries, and frees them.  Here is what is
 * done to one that stays meanwhile: for a group that knows it, as it has a
 * reference; for a transaction that has announced settings; or, where only a
 * look is taken, for no reason at all, since the memory of an entry is always
 * there: then the answer may be that of another group's limit.
 *
 * Settings go through three steps, so that what a transaction changes is in
 * force when it has committed and not before (race 15), and so that nothing can
 * fail by then.  It is announced (limit_table_make), which makes the entry.  At
 * the commit it is settling: groups are told of the limit, and have nothing
 * meanwhile, as what they have in flight is yet to be counted.  Then it is
 * changed, and the groups go on (group_limits_change).
 *
 * Locking: each function takes the lock of the entry and releases it, but for
 * those that read one word without.  limit_table.h says what a caller may hold.
 * No function fails.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "shmem/limit_private.h"

/*
 * A transaction has committed that gave a group settings: the groups of that
 * key, which is returned without its text, are going to be told, and nothing
 * is taken until these are in force (group_limits_change).  Never fails.
 */
void
limit_entry_settling(uint32 number, GroupName *name)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);

	limit->announced = false;	/* groups that are made now have it, too */
	limit->joining++;
	*name = limit_name(limit);
	limit_unlock(number);
}

/*
 * The settings of a group that has one are in force.  The caller holds the
 * entry's lock exclusively, and has the group go on when it releases that
 * (group_limits_change).  limit_entry_settling was called before.
 */
void
limit_entry_change(uint32 number, const LimitSettings *settings)
{
	GroupLimit *limit = &limit_entries[number];
	LimitSettings before;
	LimitSettings after;

	AssertLimitLockedExclusively(limit);
	limit->given = settings->paused || settings->weight >= 0 || settings->max_leased >= 0 ||
		settings->rate >= 0 || settings->burst >= 0;
	Assert(limit->joining > 0 && !limit->announced);
	limit->joining--;
	limit_table_in_force(limit, &before);
	limit->settings = *settings;
	limit_table_in_force(limit, &after);
	/* A bucket that is new is full. */
	if (after.rate > 0 && (before.rate != after.rate || before.burst != after.burst))
	{
		limit->tokens = after.burst;
		limit->token_time = GetCurrentTimestamp();
	}
}

/*
 * What groups have that know a limit: so many more of these, of tasks in
 * flight, and of tasks that are parked in their lines; below zero, fewer.
 * NO_LIMIT: there is nothing to count at.
 *
 * The caller has the group's partition locked, or for what is parked alone the
 * home lane; both, where a group comes to know the limit: so that the group's
 * own counts and these change at once.  The limit is not asked whether it has
 * room.  While anything is parked a task that was not taken out of the line is
 * refused (group_limits_take).
 */
void
limit_entry_count(uint32 number, int references, int leased, int parked)
{
	GroupLimit *limit;

	if (number == NO_LIMIT)
		return;
	limit = limit_lock(number, LW_EXCLUSIVE);
	Assert(limit->in_use);
	limit->references += references;
	limit->leased += leased;
	limit->parked += parked;
	limit_unlock(number);
}

/*
 * A group, with leased tasks in flight, does without its limit if it has one
 * for nothing: no settings, nothing that waits, and no transaction is about to
 * give it any, nor is another class about to be told.  Its queue's defaults do
 * not limit; or, where limits are scarce, it has nothing in flight, and gets
 * one anew with its next task.
 *
 * Returns whether it does; then what it has in flight is not counted here any
 * more, and the caller, which has its partition locked, sets its limit to
 * NO_LIMIT and gives up the reference (limit_table_detach).
 */
bool
limit_entry_leave(uint32 number, int leased, bool scarce)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	bool		leaves = !limit->given && !limit_waits(limit) &&
		((limit->joining == 0 && !limit_settings_limit(limit_defaults(limit))) ||
		 (scarce && leased == 0 && limit->pending == 0));

	if (leaves)
		limit->leased -= leased;
	limit_unlock(number);
	return leaves;
}

/*
 * Has the group tasks that wait until it may have them, in any class?  Takes
 * the entry's lock in shared mode; out of date at once, but for what waits in a
 * line that the caller has locked, or has found to have ended.
 */
bool
limit_entry_waits(uint32 number)
{
	bool		result = limit_waits(limit_lock(number, LW_SHARED));

	limit_unlock(number);
	return result;
}

/*
 * Has a group nothing for now, because of that?  Without its lock: as it was a
 * moment ago.  NO_LIMIT: it has not.
 */
bool
limit_entry_is_crowded(uint32 number)
{
	TimestampTz until;

	if (number == NO_LIMIT)
		return false;
	until = ((volatile GroupLimit *) &limit_entries[number])->crowded_until;
	return unlikely(until != 0) && until > GetCurrentTimestamp();
}

/*
 * The weight of a group, > 0.  Without its lock: as it was a moment ago.
 */
double
limit_entry_weight(uint32 number)
{
	float4		weight = ((volatile GroupLimit *) &limit_entries[number])->settings.weight;

	return weight > 0 ? weight : limit_defaults(&limit_entries[number])->weight;
}

/*
 * What is in force of a limit, and its counts, for those who look.  Tokens are
 * counted up to now, for which the lock is exclusive.
 */
void
limit_entry_copy(uint32 number, LimitInfo *info)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);

	limit_table_in_force(limit, &info->settings);
	if (info->settings.rate > 0)
		limit_table_count_tokens(limit, &info->settings, GetCurrentTimestamp());
	info->leased = limit->leased;
	info->tokens = limit->tokens;
	limit_unlock(number);
}

/*
 * How many tasks more a group may have in flight now, for those who look: what
 * is in claimers' hands counts as if it were.
 */
int
limit_entry_available(uint32 number)
{
	TimestampTz token;
	bool		limited;
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	int			result = limit_table_room(limit, limit->reserved, &token, &limited);

	limit_unlock(number);
	return result;
}
