/*-------------------------------------------------------------------------
 *
 * limit_table.h
 *	  What a group may have: its weight, and how much of it may be in flight.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_LIMITS_H
#define FAIRQ_GROUP_LIMITS_H

#include "datatype/timestamp.h"
#include "lib/ilist.h"
#include "port/atomics.h"
#include "storage/lwlock.h"

#include "common/virtual_time.h"
#include "shmem/lanes.h"

#define NO_LIMIT	PG_UINT32_MAX

/* The settings of a group; those below zero are the queue's defaults. */
typedef struct LimitSettings
{
	float4		weight;			/* > 0 */
	int			max_leased;		/* 0: no limit */
	float4		rate;			/* tasks a second; 0: no limit */
	int			burst;			/* 0: the rate, 1 at least */
	bool		paused;
} LimitSettings;

/* A queue's part, in its state. */
typedef struct QueueLimits
{
	/* Written by who opens or changes the queue; read without a lock. */
	LimitSettings defaults;		/* none below zero */
	bool		known;			/* the groups' settings have been read */
	bool		prepared;		/* some were changed by a prepared transaction, and
								 * may change whenever the settings are read */
	pg_atomic_uint32 changes;	/* of groups' settings */

	pg_atomic_uint32 entries;	/* limits that there are, and defaults that are about
								 * to change */
	pg_atomic_uint32 strangers; /* tasks may be in flight whose groups are not
								 * known */

	/* The lines in which groups wait that have tasks set aside: parking.c. */
	LWLock		line_lock;		/* guards the next three */
	struct pairingheap_node *turns;
	struct pairingheap_node *tokens;
	dlist_head	offered;
	pg_atomic_uint32 waiting;	/* how many there are */
	pg_atomic_uint32 in_turn;	/* those that wait for their turn only */
	pg_atomic_uint64 next_token;	/* when the first one has a token; or never */
	pg_atomic_uint64 sought;	/* when claims looked for groups that may go on */
} QueueLimits;

/* A copy for those who look. */
typedef struct LimitInfo
{
	LimitSettings settings;		/* in force */
	int			leased;
	int			parked;
	double		tokens;
} LimitInfo;

extern Size limits_shmem_size(void);
extern void limits_shmem_init(void *area, bool found);

extern uint32 limits_find(int queue, uint64 low, uint64 high);
extern uint32 limits_find_attach(int queue, uint64 low, uint64 high);
extern uint32 limits_announce(int queue, QueueLimits *limits, uint64 low,
							  uint64 high);
extern void limits_settling(uint32 number, uint64 *low, uint64 *high);
extern void limits_settle(uint32 number, const LimitSettings *settings);
extern uint32 limits_join(int queue, QueueLimits *limits, uint64 low, uint64 high);
extern void limits_joined(uint32 number);
extern void limits_attach(uint32 number, int leased);
extern void limits_detach(uint32 number);
extern bool limits_needed(uint32 number);
extern void limits_adopt(uint32 number);
extern void limits_defaults_changed(int queue);
extern double limits_weight(uint32 number);
extern void limits_look(uint32 number, LimitInfo *info);
extern int	limits_free(uint32 number);

extern bool limits_take(uint32 number, const FairqAddress *address);
extern void limits_give(uint32 number, bool unused);
extern bool limits_waits(uint32 number);
extern int	limits_before(uint32 number, const FairqAddress *address, int max,
						  bool *all);
extern bool limits_is_set_aside(uint32 number, OfferedTasks *aside, int64 task);
extern bool limits_set_aside(uint32 number, const FairqAddress *address);
extern void limits_removed(uint32 number, const FairqAddress *address);
extern void limits_purged(uint32 number);
extern bool limits_park(uint32 number, Lane *lane, const LaneEntry *entry,
						double charge);
extern bool limits_note(uint32 number, Lane *lane, const LaneEntry *entry,
						double charge);
extern int	limits_turns(QueueLimits *limits, int class,
						 const VirtualTime *upto, int max);
extern int	limits_release(uint32 number, int n);
extern TimestampTz limits_tick(QueueLimits *limits, TimestampTz now, int *offers);
extern bool limits_seek(QueueLimits *limits, TimestampTz now);
extern void limits_forget_parked(int queue);
extern void limits_forget_queue(int queue);

/* Are places of any group set aside? */
static inline bool
limits_waiting(QueueLimits *limits)
{
	return pg_atomic_read_u32(&limits->waiting) > 0;
}

static inline bool
limits_same(const LimitSettings *a, const LimitSettings *b)
{
	return a->weight == b->weight && a->max_leased == b->max_leased &&
		a->rate == b->rate && a->burst == b->burst && a->paused == b->paused;
}

/* Are there any that only wait for their turn, or for claims without others? */
static inline bool
limits_in_turn(QueueLimits *limits)
{
	return pg_atomic_read_u32(&limits->in_turn) > 0;
}

/* Does a queue have a default that limits, so that every group has a limit? */
static inline bool
limits_by_default(const QueueLimits *limits)
{
	return limits->defaults.max_leased > 0 || limits->defaults.rate > 0;
}

#endif							/* FAIRQ_GROUP_LIMITS_H */
