/*-------------------------------------------------------------------------
 *
 * limit_table.h
 *	  Groups that have a limit: their settings, tokens and tasks in flight.
 *
 * A limit is known by its number.  It stays for a group that knows it (the
 * entry has a reference), for a transaction that has announced settings, and
 * while anything is counted at it.  A number that is found otherwise is a
 * hint.
 *
 * A group has its limit for all classes, so that what it may have in flight is
 * one number: here are the entries (limit_table.c, limit_entry.c), how room is
 * kept for tasks that are taken (limit_room.c), and how groups go on that had
 * to wait (group_limits.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LIMIT_TABLE_H
#define FAIRQ_LIMIT_TABLE_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

#include "common/group_name.h"
#include "common/virtual_time.h"

#define NO_LIMIT	PG_UINT32_MAX

/*
 * A task has a limit at each level: its group's; or its subgroup's, and then
 * that of the group.  NO_LIMIT: there is no such level, or no limit of it.
 */
#define LIMIT_LEVELS	2
#define NO_LIMITS		{NO_LIMIT, NO_LIMIT}

/*
 * The settings of a group; what is below zero is the queue's default.  A
 * queue's defaults have none below zero.  weight is how much a group is served
 * beside others, the rest what it may have at all; paused is as a limit of
 * none, but tasks in flight go on.
 */
typedef struct LimitSettings
{
	float4		weight;			/* > 0 */
	int			max_leased;		/* 0: no limit */
	float4		rate;			/* tasks a second; 0: no limit */
	int			burst;			/* 0: the rate, 1 at least */
	bool		paused;
} LimitSettings;

#define LIMIT_SETTINGS_NONE	((LimitSettings) {-1, -1, -1, -1, false})

/*
 * A queue's part, in its state.  Each field says what guards it.
 *
 * entries is at least the number of limits of the queue that are in use.  While
 * it is 0, and the defaults do not limit, no backend looks for a limit: so it
 * is counted up when one is made, before any group is told of it, and down when
 * it has gone.
 *
 * While the lock of the tokens is free next_token is that of the first in the
 * heap, or DT_NOEND if that is empty.
 */
typedef struct QueueLimits
{
	/*
	 * Written by who opens or changes the queue; read without a lock.  The
	 * defaults are written with the queue's lock, and then all limits are
	 * looked at once more (group_limits_defaults_changed).
	 */
	LimitSettings defaults;		/* none below zero */
	LimitSettings subgroup_defaults;
	bool		known;			/* the groups' settings have been read; until
								 * then each who opens the queue reads them */
	bool		prepared;		/* some were changed by a prepared
								 * transaction, and may change whenever the
								 * settings are read */
	pg_atomic_uint32 changes;	/* of groups' settings, that have committed:
								 * who reads the rows meanwhile does so again */

	pg_atomic_uint32 entries;	/* limits that there are, and defaults that
								 * are about to change; 0: none is looked for.
								 * Changed under the table lock of limits, if
								 * it is for one of these */
	pg_atomic_uint32 strangers; /* tasks may be in flight whose groups are not
								 * known: set before entries is looked at, see
								 * groups_check_unknown */

	/* limit_room.c: groups that wait for a token */
	LWLock		token_lock;		/* guards the next, and node and token_due of
								 * each limit in it; taken after a limit's */
	struct pairingheap_node *tokens;	/* of GroupLimit */
	pg_atomic_uint64 next_token;	/* when the first of them has one;
									 * DT_NOEND: none waits.  Written with the
									 * lock */
} QueueLimits;

/* A copy for those who look: all of it is of one moment. */
typedef struct LimitInfo
{
	LimitSettings settings;		/* in force */
	int			leased;			/* in all classes */
	double		tokens;			/* of a rate; may be below zero */
} LimitInfo;

extern Size limit_table_shmem_size(void);
extern void limit_table_shmem_init(void *area, bool found);

/*
 * limit_table.c.  Each takes the table lock, or that and the entry's in this
 * order, and releases them; none fails but limit_table_given, which allocates.
 * The caller holds no limit's lock, and no lock that is taken after one.  It
 * may hold the lock of a group's partition, but for limit_table_make; for
 * limit_table_find with attach it does.
 */
extern uint32 limit_table_find(int queue, const GroupName *name, bool attach);
extern uint32 limit_table_make(int queue, QueueLimits *limits,
							   const GroupName *name, bool announced);
extern void limit_table_settled(uint32 number);
extern int	limit_table_given(int queue, GroupName **names);
extern void limit_table_detach(uint32 number);
extern bool limit_table_is_full_of(int queue, const GroupName *name);
extern void limit_table_forget_queue(int queue);

/*
 * limit_entry.c.  Each takes the entry's lock and releases it; none fails.  The
 * caller holds no limit's lock, and no lock that is taken after one.  It may
 * hold the lock of a group's partition, and that of a lane; it does for
 * limit_entry_count and limit_entry_leave, which count what the group has.
 *
 * limit_entry_weight and limit_entry_is_crowded read one word without a lock.
 */
extern void limit_entry_settling(uint32 number, GroupName *name);
extern void limit_entry_count(uint32 number, int references, int leased, int parked);
extern bool limit_entry_leave(uint32 number, int leased, bool scarce);
extern bool limit_entry_waits(uint32 number);
extern bool limit_entry_is_crowded(uint32 number);
extern double limit_entry_weight(uint32 number);
extern void limit_entry_copy(uint32 number, LimitInfo *info);
extern int	limit_entry_available(uint32 number);

/*
 * Do the settings of a group say nothing that its queue's defaults do not?
 */
static inline bool
limit_settings_are_void(const LimitSettings *settings, const LimitSettings *defaults)
{
	return !settings->paused &&
		(settings->weight < 0 || settings->weight == defaults->weight) &&
		(settings->max_leased < 0 || settings->max_leased == defaults->max_leased) &&
		(settings->rate < 0 || settings->rate == defaults->rate) &&
		(settings->burst < 0 || settings->burst == defaults->burst);
}

/* Are settings of two times the same? */
static inline bool
limit_table_same(const LimitSettings *a, const LimitSettings *b)
{
	return a->weight == b->weight && a->max_leased == b->max_leased &&
		a->rate == b->rate && a->burst == b->burst && a->paused == b->paused;
}

/* Do defaults limit, so that every group has a limit? */
static inline bool
limit_settings_limit(const LimitSettings *defaults)
{
	return defaults->max_leased > 0 || defaults->rate > 0;
}

/* Does a queue have some that do, of groups or of subgroups? */
static inline bool
limit_table_by_default(const QueueLimits *limits)
{
	return limit_settings_limit(&limits->defaults) ||
		limit_settings_limit(&limits->subgroup_defaults);
}

/* limit_room.c */
/*
 * A group, or a subgroup, a task of which is taken; or nothing.  What this
 * points to is the caller's, which has the line locked: so blocked is set under
 * the locks of the home lane and of the limit (T3 in turns.c).  It is for one
 * call, and says of a level what limit_room.c, which knows no lines, needs to
 * know.
 */
typedef struct RoomLevel
{
	const GroupKey *key;		/* NULL: there is no such level */
	uint32		group;			/* its number */
	bool		more;			/* it has others that wait */
	bool	   *blocked;		/* set to true if it has to wait */
} RoomLevel;

/*
 * For lines, whose home lane the caller holds exclusively: turns.c.  These take
 * the locks of limits, and then that of the queue's tokens; they never fail.
 */
extern bool limit_room_reserve(uint32 limits[LIMIT_LEVELS],
							   const RoomLevel levels[LIMIT_LEVELS], bool parked);
extern void limit_room_block(uint32 number, const RoomLevel *level);

/* For group_limits.c, and queue_lifecycle.c when a queue is gone. */
extern uint32 limit_room_first_due(QueueLimits *limits, TimestampTz now);
extern void limit_room_forget_queue(int queue);

/*
 * When the first of a queue's groups that waits for a token has one; DT_NOEND:
 * none does.  Without a lock; a claim that has a group wait wakes the worker
 * by then.
 */
static inline TimestampTz
limit_room_next_token(QueueLimits *limits)
{
	return (TimestampTz) pg_atomic_read_u64(&limits->next_token);
}

/*
 * group_limits.c.  group_limits_take is called with the partition of the group
 * locked exclusively.  The others let groups go on, for which they take the
 * locks of lanes when they have released the limit's: the caller holds no lock
 * of a group, a lane or a limit.  None fails.
 */
extern bool group_limits_take(const uint32 limits[LIMIT_LEVELS],
							  const uint32 reserved[LIMIT_LEVELS]);
extern void group_limits_give_up(uint32 number);
extern void group_limits_give(uint32 number, bool unused);
extern void group_limits_joined(uint32 number, TimestampTz crowded_until);
extern void group_limits_change(uint32 number, const LimitSettings *settings);
extern void group_limits_defaults_changed(int queue);
extern TimestampTz group_limits_tick(QueueLimits *limits, TimestampTz now);

#endif							/* FAIRQ_LIMIT_TABLE_H */
