/*-------------------------------------------------------------------------
 *
 * lane_unwritten.h
 *	  The entries of a lane that no row has: of tasks of the overflow.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LANE_UNWRITTEN_H
#define FAIRQ_LANE_UNWRITTEN_H

#include "shmem/lanes.h"

/*
 * The tasks of the overflow that have places in some lanes: a copy for those
 * who look.  All zero to begin.
 */
typedef struct UnwrittenTasks
{
	bool		known;
	uint32		times;			/* as the queue counts them, when it was made */
	int			n;
	int64	   *tasks;			/* in order; palloc'd */
} UnwrittenTasks;

extern bool lane_unwritten_offer(Lane *lane, const LaneEntry *place, uint16 group,
								 bool urgent);
extern bool lane_unwritten_find(const LaneSet *set, int64 task, FairqAddress *address);
extern int	lane_unwritten_compare_tasks(const void *a, const void *b);
extern bool lane_unwritten_has(const LaneSet *set, UnwrittenTasks *tasks, int64 task);
extern void lane_unwritten_forget(Lane *lane, const LaneEntry *place);
extern int	lane_unwritten_copy(Lane *lane, const LaneEntry *from,
								const LaneEntry *before, LaneEntry *entries);
extern void lane_unwritten_lose(Lane *lane, int64 task);
extern void lane_unwritten_enter(Lane *lane, const LaneEntry *place);

#endif							/* FAIRQ_LANE_UNWRITTEN_H */
