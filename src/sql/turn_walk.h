/*-------------------------------------------------------------------------
 *
 * turn_walk.h
 *	  The tasks of a group's line, in order, for those who look.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TURN_WALK_H
#define FAIRQ_TURN_WALK_H

#include "shmem/turns.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"

/* A walk along a line, which nothing is taken out of. */
typedef struct TurnWalk
{
	RowReader  *row;
	LineCopy   *line;
	int			at;				/* candidate */
	OverflowRead read;			/* behind the candidates */
	int			read_at;
	int			read_n;
	VirtualTime tag;			/* of the task that was found */
} TurnWalk;

extern void turn_walk_begin(TurnWalk *walk, RowReader *row, uint32 group);
extern bool turn_walk_next(TurnWalk *walk, Lane **lane, LaneEntry *entry);
extern void turn_walk_end(TurnWalk *walk);

#endif							/* FAIRQ_TURN_WALK_H */
