/*-------------------------------------------------------------------------
 *
 * lane_run.h
 *	  Sorted runs of a lane's entries.
 *
 * A lane has one, its window.  The caller has the lane locked, exclusively if
 * the run is changed.  Nothing in here allocates or fails.
 *
 * The run is somewhere in its array: what is taken leaves room in front of it,
 * what is entered moves the shorter side.  So neither costs more than a copy
 * within the array.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LANE_RUN_H
#define FAIRQ_LANE_RUN_H

#include "shmem/lanes.h"

/*
 * The index in entries[] of a run's first entry not before place; if there is
 * none, that behind its last.
 */
static pg_attribute_always_inline int
lane_run_find(const LaneRun *run, const LaneEntry *entries, const LaneEntry *place)
{
	int			low = run->head;
	int			high = run->head + run->count;

	Assert(run->count >= 0 && run->head >= 0);
	/* What comes to a busy queue mostly belongs at its end. */
	if (low == high || lanes_compare(&entries[high - 1], place) < 0)
		return high;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lanes_compare(&entries[middle], place) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Is there an entry at a place, where lane_run_find() says it would be?
 */
static inline bool
lane_run_has(const LaneRun *run, const LaneEntry *entries, int at, const LaneEntry *place)
{
	return at < run->head + run->count && lanes_compare(&entries[at], place) == 0;
}

/*
 * Enter a place into a run that has room in its array of size entries, unless
 * it is there: a task may be offered twice, and read in the index besides.
 */
static inline void
lane_run_enter(LaneRun *run, LaneEntry *entries, int size, const LaneEntry *place)
{
	int			at;
	int			end;

	Assert(run->count >= 0 && run->count < size);
	Assert(run->head >= 0 && run->head + run->count <= size);
	/* What was taken leaves room in front: move it to the end in one go. */
	if (run->head > 0 && run->head + run->count == size)
	{
		memmove(entries, &entries[run->head], run->count * sizeof(LaneEntry));
		run->head = 0;
	}

	/* There is room at its end now, or it ends before the array does. */
	at = lane_run_find(run, entries, place);
	end = run->head + run->count;
	if (lane_run_has(run, entries, at, place))
		return;
	if (run->head > 0 && at - run->head < end - at)
	{
		memmove(&entries[run->head - 1], &entries[run->head],
				(at - run->head) * sizeof(LaneEntry));
		run->head--;
		at--;
	}
	else
		memmove(&entries[at + 1], &entries[at], (end - at) * sizeof(LaneEntry));
	entries[at] = *place;
	run->count++;
}

/*
 * n entries were taken from the front of a run.  Copy them before: what is
 * entered next may take their room.
 */
static inline void
lane_run_taken(LaneRun *run, int n)
{
	Assert(n >= 0 && n <= run->count);
	run->count -= n;
	run->head = (run->count == 0) ? 0 : run->head + n;
}

#endif							/* FAIRQ_LANE_RUN_H */
