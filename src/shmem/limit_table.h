/*-------------------------------------------------------------------------
 *
 * limit_table.h
 *	  Groups that have a limit: their settings, tokens and tasks in flight.
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

/* A task has a limit at each level: its group's, or its subgroup's and that. */
#define LIMIT_LEVELS	2
#define NO_LIMITS		{NO_LIMIT, NO_LIMIT}

/* The settings of a group; what is below zero is the queue's default. */
typedef struct LimitSettings
{
	float4		weight;			/* > 0 */
	int			max_leased;		/* 0: no limit */
	float4		rate;			/* tasks a second; 0: no limit */
	int			burst;			/* 0: the rate, 1 at least */
	bool		paused;
} LimitSettings;

#define LIMIT_SETTINGS_NONE	((LimitSettings) {-1, -1, -1, -1, false})

/* A queue's part, in its state. */
typedef struct QueueLimits
{
	/* Written by who opens or changes the queue; read without a lock. */
	LimitSettings defaults;		/* none below zero */
	LimitSettings subgroup_defaults;
	bool		known;			/* the groups' settings have been read */
	bool		prepared;		/* some were changed by a prepared
								 * transaction, and may change whenever the
								 * settings are read */
	pg_atomic_uint32 changes;	/* of groups' settings */

	pg_atomic_uint32 entries;	/* limits that there are, and defaults that
								 * are about to change */
	pg_atomic_uint32 strangers; /* tasks may be in flight whose groups are not
								 * known */

	/* limit_room.c: groups that wait for a token */
	LWLock		token_lock;		/* guards the next */
	struct pairingheap_node *tokens;
	pg_atomic_uint64 next_token;	/* when the first of them has one */
} QueueLimits;

/* A copy for those who look. */
typedef struct LimitInfo
{
	LimitSettings settings;		/* in force */
	int			leased;
	double		tokens;
} LimitInfo;

extern Size limit_table_shmem_size(void);
extern void limit_table_shmem_init(void *area, bool found);

extern uint32 limit_table_find(int queue, const GroupName *name, bool attach);
extern uint32 limit_table_make(int queue, QueueLimits *limits,
							   const GroupName *name, bool announced);
extern void limit_table_settling(uint32 number, GroupName *name);
extern void limit_table_settled(uint32 number);
extern int	limit_table_given(int queue, GroupName **names);
extern void limit_table_attach(uint32 number, int leased, int parked);
extern void limit_table_detach(uint32 number);
extern bool limit_table_leave(uint32 number, int leased);
extern bool limit_table_needed(uint32 number);
extern bool limit_table_waits(uint32 number);
extern void limit_table_adopt(uint32 number);
extern double limit_table_weight(uint32 number);
extern void limit_table_copy(uint32 number, LimitInfo *info);
extern bool limit_table_is_full_of(int queue, const GroupName *name);
extern bool limit_table_is_crowded(uint32 number);
extern int	limit_table_available(uint32 number);
extern void limit_table_forget_queue(int queue);

/* Do the settings of a group say nothing that its queue's defaults do not? */
static inline bool
limit_settings_are_void(const LimitSettings *settings, const LimitSettings *defaults)
{
	return !settings->paused &&
		(settings->weight < 0 || settings->weight == defaults->weight) &&
		(settings->max_leased < 0 || settings->max_leased == defaults->max_leased) &&
		(settings->rate < 0 || settings->rate == defaults->rate) &&
		(settings->burst < 0 || settings->burst == defaults->burst);
}

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

#endif							/* FAIRQ_LIMIT_TABLE_H */
