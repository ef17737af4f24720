/*-------------------------------------------------------------------------
 *
 * limit_private.h
 *	  A group's limit, as limit_table.c, limit_room.c and group_limits.c see
 *	  it.
 *
 * The head of limit_table.c says which lock guards what.  "The entry's lock" is
 * one of a few that entries share by their numbers: so two limits are locked by
 * limit_lock_levels only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LIMIT_PRIVATE_H
#define FAIRQ_LIMIT_PRIVATE_H

#include "lib/pairingheap.h"
#include "storage/lwlock.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/address.h"
#include "shmem/limit_table.h"

/*
 * No line of a class is blocked: no group has this number (FAIRQ_NO_GROUP).
 */
#define NOT_BLOCKED		PG_UINT32_MAX

/*
 * What a group may have, and has, in all classes of its queue.  When its lock
 * is free:
 *
 *	 leased is at least what the groups that know it have in flight: a lease
 *	 is counted here first when it begins, and last when it has ended.  It is
 *	 above max_leased only if that was changed, or leases were counted later.
 *
 *	 reserved tasks are in claimers' hands.  Each has taken a token, which
 *	 comes back with the room.
 *
 *	 An entry in use that is given, known to a group (references), announced
 *	 or changed by an open transaction (pending), or that has anything
 *	 counted, stays; any other is freed when one looks (free_unneeded).
 *
 *	 references counts the groups that know it, each class and level for
 *	 itself, and each backend that makes it for groups until these have been
 *	 told; joining counts the latter, and those that settle it.  While joining
 *	 is above zero there is no room (limit_table_room).
 *
 *	 A group's line is blocked only if blocked[] says so, or a backend that
 *	 has taken it from there is about to tell the line (T3 in turns.c).
 *	 blocked_count is how many classes are.
 *
 *	 It stands in its queue's heap if awaits_token is set, and only while a
 *	 line is blocked: so who finds it there has a line to let go on.
 */
typedef struct GroupLimit
{
	/*
	 * Table lock, and the entry's to change but for hash_next: so either is
	 * enough to read the others.
	 */
	uint64		low;			/* the group's key, see group_name.h */
	uint64		high;
	uint64		group_high;		/* of a subgroup's group: part of its name */
	bool		subgroup;
	int			queue;
	uint32		hash_next;		/* or next in the free list */
	QueueLimits *of_queue;		/* of that queue, for defaults and tokens */

	/* the entry's lock */
	bool		in_use;			/* table lock, too, to change */
	bool		given;			/* has settings of its own */
	bool		announced;		/* is there for settings only that have not
								 * been committed: no group knows it */
	int			pending;		/* settings of open transactions; table lock,
								 * too, to change */
	int			joining;		/* groups are about to be told: nothing is
								 * taken until what they have in flight is
								 * counted */
	int			references;		/* groups that know it: its classes; and who
								 * makes it for them */
	int			leased;			/* tasks in flight, of all classes */
	int			reserved;		/* tasks in claimers' hands, for which room is
								 * kept, and tokens were taken */
	LimitSettings settings;		/* as given; weight is read without the lock */
	double		tokens;			/* less those of what is reserved; may be
								 * below zero */
	TimestampTz token_time;		/* tokens are counted up to then */
	TimestampTz crowded_until;	/* its subgroups have all the entries that
								 * they may have: it has nothing until then;
								 * or 0 */

	/* the entry's lock: the lines of the group's classes, see turns.c */
	int			parked;			/* tasks that are parked, and lines that had
								 * no room for some */
	int			blocked_count;
	uint32		blocked[FAIRQ_CLASSES]; /* the group's number in each class
										 * whose line is blocked; or
										 * NOT_BLOCKED */
	bool		awaits_token;	/* it stands in its queue's heap; then a line
								 * of its is blocked */

	/* lock of the queue's tokens (QueueLimits), while awaits_token is set */
	pairingheap_node node;
	TimestampTz token_due;		/* what orders it; entry's lock, too, to
								 * change */
} GroupLimit;

/*
 * limit_table.c.  limit_table_lock only says which lock it is.
 * limit_table_in_force and limit_table_room are called with that held, for the
 * latter exclusively if there may be a rate; limit_table_count_tokens and
 * limit_entry_change (limit_entry.c) with it held exclusively.
 */
extern FAIRQ_PRIVATE GroupLimit *limit_entries;

extern FAIRQ_PRIVATE LWLock *limit_table_lock(uint32 number);
extern FAIRQ_PRIVATE uint32 limit_table_high_water(void);
extern FAIRQ_PRIVATE int limit_table_room(GroupLimit *limit, int reserved,
										  TimestampTz *token, bool *limited);
extern FAIRQ_PRIVATE void limit_table_in_force(const GroupLimit *limit, LimitSettings *settings);
extern FAIRQ_PRIVATE void limit_table_count_tokens(GroupLimit *limit,
												   const LimitSettings *settings,
												   TimestampTz now);
extern FAIRQ_PRIVATE void limit_entry_change(uint32 number, const LimitSettings *settings);

/*
 * The number of a limit: its index among the entries, by which groups, claims
 * and the lock know it.
 */
static inline uint32
limit_number(const GroupLimit *limit)
{
	return limit - limit_entries;
}

#define AssertLimitLocked(limit) \
	AssertLocked(limit_table_lock(limit_number(limit)))
#define AssertLimitLockedExclusively(limit) \
	AssertLockedExclusively(limit_table_lock(limit_number(limit)))

#ifdef USE_ASSERT_CHECKING
extern FAIRQ_PRIVATE void limit_check(const GroupLimit *limit);
#else
#define limit_check(limit)	((void) 0)
#endif

/*
 * What the groups of a limit have that were not given anything else.  of_queue
 * leads to a queue's state, whose memory stays: also of an entry that was freed
 * meanwhile, where this is read without a lock (limit_entry_weight).
 */
static inline const LimitSettings *
limit_defaults(const GroupLimit *limit)
{
	return limit->subgroup ? &limit->of_queue->subgroup_defaults : &limit->of_queue->defaults;
}

/*
 * The key of the groups of a limit, without its text.  The entry is in use, and
 * stays; or its lock is held, or the table's.
 */
static inline GroupName
limit_name(const GroupLimit *limit)
{
	return (GroupName) {
		.low = limit->low,
		.high = limit->high,
		.subgroup = limit->subgroup,
		.group_high = limit->group_high,
	};
}

/*
 * Lock a limit's entry, which need not be in use: who has a hint looks what it
 * is then.  The caller has no other one locked, as two may have one lock: see
 * limit_lock_levels.  Locks of queues, groups and lanes are taken before.
 */
static inline GroupLimit *
limit_lock(uint32 number, LWLockMode mode)
{
	Assert(number != NO_LIMIT && number < limit_table_high_water());
	AssertNotLocked(limit_table_lock(number));
	LWLockAcquire(limit_table_lock(number), mode);
	return &limit_entries[number];
}

/*
 * Release the lock of an entry, when it is as it should be.  number is that by
 * which it was locked, whatever the entry is by now.
 */
static inline void
limit_unlock(uint32 number)
{
	limit_check(&limit_entries[number]);
	LWLockRelease(limit_table_lock(number));
}

/*
 * The locks of all levels, each once (two entries may have the same one), in
 * the order in which all take them: by address.  NULL comes first, and is
 * passed over.  Worked out from the numbers alone, so that it is the same to
 * lock and to unlock, whatever the entries are by then.
 */
static inline void
limit_locks_of(const uint32 limits[LIMIT_LEVELS], LWLock *locks[LIMIT_LEVELS])
{
	LWLock	   *a = limits[0] == NO_LIMIT ? NULL : limit_table_lock(limits[0]);
	LWLock	   *b = limits[1] == NO_LIMIT ? NULL : limit_table_lock(limits[1]);

	StaticAssertStmt(LIMIT_LEVELS == 2, "one lock for each level");
	locks[0] = Min(a, b);
	locks[1] = a == b ? NULL : Max(a, b);
}

/*
 * Lock a task's limits, exclusively, so that it has room at each of them or at
 * none (race 29).  The caller unlocks by the numbers that it has locked by.
 */
static inline void
limit_lock_levels(const uint32 limits[LIMIT_LEVELS])
{
	LWLock	   *locks[LIMIT_LEVELS];

	limit_locks_of(limits, locks);
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		if (locks[i] != NULL)
			LWLockAcquire(locks[i], LW_EXCLUSIVE);
	}
}

/*
 * Release what limit_lock_levels has taken.  limits are those that it was
 * called with, even if the caller has found one not to be the group's.
 */
static inline void
limit_unlock_levels(const uint32 limits[LIMIT_LEVELS])
{
	LWLock	   *locks[LIMIT_LEVELS];

	limit_locks_of(limits, locks);
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		if (limits[i] != NO_LIMIT)
			limit_check(&limit_entries[limits[i]]);
	}
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		if (locks[i] != NULL)
			LWLockRelease(locks[i]);
	}
}

/*
 * Does a group wait: has it tasks parked, or a line that is blocked?  Then it
 * keeps its entry, and groups that know it are not forgotten.  The entry's lock
 * is held, in either mode.
 */
static inline bool
limit_waits(const GroupLimit *limit)
{
	AssertLimitLocked(limit);
	return limit->parked > 0 || limit->blocked_count > 0;
}

/*
 * limit_room.c: with the entry's lock held exclusively.  None fails.  They
 * count, and say which lines go on; that is done by group_limits.c, without the
 * lock.
 */
extern FAIRQ_PRIVATE void limit_room_keep(GroupLimit *limit);
extern FAIRQ_PRIVATE void limit_room_give_up(GroupLimit *limit);
extern FAIRQ_PRIVATE int limit_room_unblock(GroupLimit *limit, uint32 *groups);

#endif							/* FAIRQ_LIMIT_PRIVATE_H */
