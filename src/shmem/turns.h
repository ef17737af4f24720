/*-------------------------------------------------------------------------
 *
 * turns.h
 *	  Turns: where a group stands that has tasks which are in no window.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TURNS_H
#define FAIRQ_TURNS_H

#include "shmem/groups.h"
#include "shmem/lanes.h"

/* A task of the overflow that was read, for the line of its group. */
typedef struct TurnTask
{
	int64		task;
	ItemPointerData tid;
	float4		cost;
} TurnTask;

/* At most so many are read at a time. */
#define TURNS_READ		512

/*
 * A line, for those who only look: its first candidates, and what is behind.
 * It is copied under the home lane's lock.
 */
typedef struct LineCopy
{
	Lane	   *lane;
	int			class;
	uint64		slot;
	uint64		low;			/* the key of the group */
	uint64		high;
	double		weight;
	double		seconds;		/* what each task is charged; < 0: its cost */
	VirtualTime next;			/* the tag of the first of the overflow that
								 * was not charged */
	int64		frontier;
	int			n;
	struct
	{
		int64		task;			/* or the slot of the address of one that
									 * is parked */
		ItemPointerData tid;
		bool		parked;			/* with the tag of its address, */
		bool		charged;		/* or it has this one */
		int			lane;			/* of one that is parked */
		float4		cost;
		VirtualTime tag;
	}			tasks[TURNS_READ];
} LineCopy;

/* What the turn of a group is of, for the same. */
typedef struct GroupCopy
{
	uint32		number;
	double		weight;
	bool		tags;			/* the queue's policy has tags */
	VirtualTime resumed;		/* no parked task has its turn before */
	VirtualTime next;
} GroupCopy;

/*
 * The reading of a line: what of it, and for whom.  The reader looks in the
 * index for tasks of the overflow of this key and class, from the first id on
 * in their order, until it has max.
 */
typedef struct TurnRead
{
	uint32		group;
	int			class;
	uint64		low;			/* the key of the group, see group_name.h */
	uint64		high;
	int64		from;			/* the first id */
	int			max;
} TurnRead;

extern Size turns_shmem_size(void);
extern void turns_shmem_init(void *area, bool found);

/* For lanes.c, which has the lane locked exclusively. */
extern bool turns_take_first(Lane *lane, LaneEntry *entry, LaneTurn *turn);

/* For group_limits.c, which has no limit locked: a lane's lock goes before. */
extern void turns_resume(uint32 group);

/*
 * For claims, which hold no lock of ours: these take what it takes.  None fails
 * but turns_read_wait, which sleeps and may be interrupted.
 */
extern bool turns_take_of(const GroupKey *key, uint32 group, LaneEntry *entry, LaneTurn *turn,
						  Lane **lane);
extern LaneView turns_look(const GroupKey *key, uint32 group, Lane **lane, LaneEntry *first);
extern void turns_return(Lane *lane, const LaneEntry *entry, const LaneTurn *turn, bool tell);
extern void turns_refund(const LaneTurn *turn);
extern bool turns_is_of(const LaneTurn *turn, int class, const GroupName *name);
extern bool turns_read_dropped(Lane *lane, uint32 group);
extern int	turns_not_parked(const Lane *lane, LaneEntry *entries, int n);
extern bool turns_block_unread(Lane *lane, uint32 group);
extern bool turns_read_begin(Lane *lane, uint32 group, TurnRead *read);
extern uint32 turns_unread_behind(Lane *lane);
extern bool turns_read_wait(Lane *lane, uint32 group);
extern int	turns_read_end(const TurnTask *tasks, int n, int64 next, LaneEntry *entry,
						   LaneTurn *turn);
extern void turns_at_abort(void);

/* For those who look; these lock the home lane, and change nothing. */
extern bool turns_have(uint32 group, int64 task);
extern bool turns_copy(uint32 group, LineCopy *copy);
extern void turns_copy_group(uint32 group, GroupCopy *copy);
extern uint32 turns_first_group(Lane *lane);
extern bool turns_parked_before(uint32 group, const FairqAddress *address, int max,
								int *before, LaneEntry *last, bool *exact);

#endif							/* FAIRQ_TURNS_H */
