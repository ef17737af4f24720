/*-------------------------------------------------------------------------
 *
 * limit_private.h
 *	  A group's limit, as limit_table.c, limit_room.c and group_limits.c see
 *	  it.
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

/* No line of a class is blocked. */
#define NOT_BLOCKED		PG_UINT32_MAX

/*
 * What a group may have, and has, in all classes of its queue.  When its lock
 * is free:
 *
 *	 leased is at least what the groups that know it have in flight: a lease is
 *	 counted here first when it begins, and last when it has ended.  It is above
 *	 max_leased only if that was changed, or leases were counted later.
 *
 *	 A group's line is blocked only if blocked[] says so, or a backend that has
 *	 taken it from there is about to tell the line (T3 in turns.c).
 */
typedef struct GroupLimit
{
	/* table lock, and the entry's to change but for hash_next */
	uint64		low;			/* the group's key, see group_private.h */
	uint64		high;
	uint64		group_high;		/* of a subgroup's group: part of its name */
	bool		subgroup;
	int			queue;
	uint32		hash_next;		/* or next in the free list */
	QueueLimits *of_queue;

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
	double		tokens;			/* less those of what is reserved */
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

	/* lock of the queue's tokens */
	pairingheap_node node;
	TimestampTz token_due;		/* what orders it; entry's lock, too, to
								 * change */
} GroupLimit;

/* limit_table.c */
extern FAIRQ_PRIVATE GroupLimit *limit_entries;

extern FAIRQ_PRIVATE LWLock *limit_table_lock(uint32 number);
extern FAIRQ_PRIVATE uint32 limit_table_high_water(void);
extern FAIRQ_PRIVATE int limit_table_room(GroupLimit *limit, int reserved,
										  TimestampTz *token, bool *limited);
extern FAIRQ_PRIVATE void limit_table_change(uint32 number, const LimitSettings *settings);

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

/* What the groups of a limit have that were not given anything else. */
static inline const LimitSettings *
limit_defaults(const GroupLimit *limit)
{
	return limit->subgroup ? &limit->of_queue->subgroup_defaults : &limit->of_queue->defaults;
}

/*
 * Lock a limit's entry, which need not be in use.  The caller has no other one
 * locked: see limit_lock_levels.
 */
static inline GroupLimit *
limit_lock(uint32 number, LWLockMode mode)
{
	Assert(number != NO_LIMIT && number < limit_table_high_water());
	LWLockAcquire(limit_table_lock(number), mode);
	return &limit_entries[number];
}

/* Unlock it, when it is as it should be. */
static inline void
limit_unlock(uint32 number)
{
	limit_check(&limit_entries[number]);
	LWLockRelease(limit_table_lock(number));
}

/*
 * The locks of all levels, each once (two entries may have the same one), in
 * the order in which all take them.
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

/* Does a group wait: has it tasks parked, or a line that is blocked? */
static inline bool
limit_waits(const GroupLimit *limit)
{
	AssertLimitLocked(limit);
	return limit->parked > 0 || limit->blocked_count > 0;
}

/* limit_room.c */
extern FAIRQ_PRIVATE void limit_room_keep(GroupLimit *limit);
extern FAIRQ_PRIVATE void limit_room_give_up(GroupLimit *limit);
extern FAIRQ_PRIVATE int limit_room_unblock(GroupLimit *limit, uint32 *groups);

#endif							/* FAIRQ_LIMIT_PRIVATE_H */
