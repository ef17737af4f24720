/*-------------------------------------------------------------------------
 *
 * turn_private.h
 *	  Lines, for the files that work on them: turns.c, turn_candidates.c and
 *	  turn_reads.c.
 *
 * The head of turns.c says which lock guards what.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TURN_PRIVATE_H
#define FAIRQ_TURN_PRIVATE_H

#include "shmem/group_private.h"
#include "shmem/turns.h"

/* Candidates that a line reads at first; twice as many each time that it was
 * found empty. */
#define TURNS_READ_LEAST	16

/* A task of a line that is in memory. */
typedef struct TurnCandidate
{
	int64		task;
	VirtualTime tag;			/* of one that was charged */
	ItemPointerData tid;
	bool		charged;
	float4		cost;			/* of one that was not */
	uint32		next;			/* in the line, or the free list */
} TurnCandidate;

static const VirtualTime turns_no_charge = {0, 0};

/* turn_candidates.c */
extern FAIRQ_PRIVATE TurnCandidate *turn_candidates;

extern FAIRQ_PRIVATE uint32 turn_candidates_new(void);
extern FAIRQ_PRIVATE void turn_candidates_free(uint32 number);
extern FAIRQ_PRIVATE bool turn_candidates_are_few(void);
extern FAIRQ_PRIVATE void turn_candidates_cut(GroupLine *line, int64 task);
extern FAIRQ_PRIVATE void turn_candidates_put_back(GroupLine *line, int64 task,
												   const LaneEntry *entry,
												   const LaneTurn *turn);

/* turns.c */
extern FAIRQ_PRIVATE Lane *turns_lock_home(FairGroup *group);
extern FAIRQ_PRIVATE void turns_take_place(FairGroup *group);
extern FAIRQ_PRIVATE void turns_show_first(Lane *lane);
extern FAIRQ_PRIVATE VirtualTime turns_charge(const FairGroup *group, VirtualTime next,
											  double cost);

/* The home lane of a group that has a line. */
static inline Lane *
turns_home(const FairGroup *group)
{
	return lanes_get(group->line.lane - 1);
}

#define AssertLineLocked(group)	AssertLaneLockedExclusively(turns_home(group))

/* Is there anything in the line, as far as is known? */
static inline bool
turns_has_any(const GroupLine *line)
{
	return line->head != NO_ENTRY || line->frontier != PG_INT64_MAX;
}

#endif							/* FAIRQ_TURN_PRIVATE_H */
