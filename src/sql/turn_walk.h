/*-------------------------------------------------------------------------
 *
 * turn_walk.h
 *	  The tasks of a group's line, in order, for those who look.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TURN_WALK_H
#define FAIRQ_TURN_WALK_H

#include "lib/binaryheap.h"

#include "shmem/turns.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"

/* The groups of a queue, and their subgroups, as they were listed. */
typedef struct TurnGroups
{
	GroupInfo  *infos;
	int			n;				/* groups; behind them are their subgroups, */
	int			all;			/* by the number of their group */
} TurnGroups;

/* A walk along a line, which nothing is taken out of. */
typedef struct LineWalk
{
	const GroupInfo *info;		/* of a subgroup, as it was listed */
	LineCopy   *line;			/* NULL: it has not begun */
	int			at;				/* candidate */
	OverflowRead read;			/* behind the candidates */
	int			read_at;
	int			read_n;
	int64		last;			/* the task of the overflow that was found
								 * last */
} LineWalk;

/* A walk along that of a group, or those of its subgroups. */
typedef struct TurnWalk
{
	RowReader  *row;
	GroupCopy	group;
	LineWalk   *lines;			/* one, or those of subgroups */
	int			n;
	binaryheap *heap;			/* of those of subgroups; NULL: one line */
	GroupCopy	before;			/* the task that was found */
	LineWalk   *current;		/* its line */
	VirtualTime tag;
} TurnWalk;

extern bool turn_walk_may_claim(RowReader *row, const Lane *lane, LaneEntry *entry);
extern void turn_walk_groups(QueueState *queue, TurnGroups *groups);
extern void turn_walk_begin(TurnWalk *walk, RowReader *row, uint32 group,
							const TurnGroups *groups);
extern bool turn_walk_next(TurnWalk *walk, Lane **lane, LaneEntry *entry);
extern void turn_walk_pass_line(TurnWalk *walk);
extern void turn_walk_end(TurnWalk *walk);

#endif							/* FAIRQ_TURN_WALK_H */
