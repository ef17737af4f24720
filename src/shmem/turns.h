/*-------------------------------------------------------------------------
 *
 * turns.h
 *	  Turns: where a group stands that has tasks which are in no window.
 *
 * The head of turns.c says what a line and a turn are, and which lock guards
 * them.  A group is given by its number, and a lane where its line is at home.
 *
 * turns.c has the heaps, and where a line stands in them; turn_takes.c takes
 * the task of a turn, and gives it back; turn_reads.c reads on in a line, and
 * copies it for those who look.  What producers do to a line is in
 * turn_lines.c, under the lock of the group's partition (group_private.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TURNS_H
#define FAIRQ_TURNS_H

#include "shmem/groups.h"
#include "shmem/lanes.h"

/*
 * A task of a line that is in memory.  The lock of the line's home lane guards
 * it while it is in a line, a spinlock of the pool while it is free; its chain
 * has locks of its own (turn_candidates.c).  One that is parked is in its
 * chain, and comes before all others of its line.
 */
typedef struct TurnCandidate
{
	int64		task;			/* its id; of one that is parked the slot of
								 * its address */
	PackedTime	tag;			/* of one that was charged; of one that is
								 * parked that of its address */
	ItemPointerData tid;
	bool		charged;
	bool		parked;
	float4		cost;			/* of one that was not charged */
	int			lane;			/* of one that is parked: the lane's number */
	uint32		prev;			/* in the line */
	uint32		next;			/* in the line, or the free list */
	uint32		chain;			/* of one that is parked: in its chain */
} TurnCandidate;

/* At most so many are read at a time. */
#define TURNS_READ		512

/*
 * A line, for those who only look: its first candidates, and what is behind. It
 * is copied under the home lane's lock, so that all of it is of one moment, and
 * is the caller's.  lane stays a lane for as long as the queue's relation is
 * locked.
 *
 * Of a candidate the links mean nothing here.  Before frontier are only tasks
 * that are among these, or were in claimers' hands.
 */
typedef struct LineCopy
{
	Lane	   *lane;
	GroupKey	key;			/* of the group */
	uint64		slot;
	double		weight;
	double		seconds;		/* what each task is charged; < 0: its cost */
	VirtualTime next;			/* the tag of the first of the overflow that
								 * was not charged */
	int64		frontier;
	int			n;
	TurnCandidate tasks[TURNS_READ];	/* but for their links */
} LineCopy;

/*
 * What the turn of a group is of, likewise copied: from its tags the turns of
 * its next tasks can be worked out one after the other, as those who take them
 * do.  With no line only number and weight are set.
 */
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
	uint32		group;			/* its number, and its key: */
	GroupKey	key;
	int64		from;			/* the first id */
	int			max;
} TurnRead;

extern Size turns_shmem_size(void);
extern void turns_shmem_init(void *area, bool found);

/*
 * For lanes.c, which holds the lane's lock exclusively.  Takes those of limits.
 * On true the task is in the caller's hands: charged, and with room kept for
 * it.
 */
extern bool turns_take_first(Lane *lane, LaneEntry *entry, LaneTurn *turn);

/*
 * For group_limits.c, which has no limit locked: a lane's lock goes before.
 * Takes that of the home lane, and then tells those who wait.  Never fails.
 */
extern void turns_resume(uint32 group);

/*
 * For claims, which hold no lock of ours.  These take the home lane's lock, and
 * under it those of limits, of candidates and of virtual time.  None fails but
 * turns_read_wait, which sleeps and may be interrupted.
 *
 * A group's number may be of a moment ago, and its entry another group's by
 * now: turns_take_of and turns_look compare the key under the lock, the others
 * see whether the line is at home in the lane.
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
extern int	turns_read_end(const OverflowTask *tasks, int n, int64 next, LaneEntry *entry,
						   LaneTurn *turn);
extern void turns_at_abort(void);

/*
 * For those who look.  These take the home lane's lock, and change nothing.
 * What they return may be out of date at once, and the entry of the number may
 * be another group's.
 */
extern bool turns_have(uint32 group, int64 task);
extern bool turns_copy(uint32 group, LineCopy *copy);
extern void turns_copy_group(uint32 group, GroupCopy *copy);
extern uint32 turns_first_group(Lane *lane);
extern bool turns_parked_before(uint32 group, const FairqAddress *address, int max,
								int *before, LaneEntry *last, bool *exact);

#endif							/* FAIRQ_TURNS_H */
