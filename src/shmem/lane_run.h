/*-------------------------------------------------------------------------
 *
 * lane_run.h
 *	  Sorted runs of a lane's entries.
 *
 * A lane has one, its window, in an array of LANE_WINDOW entries.  The caller
 * holds the lane's lock, exclusively if the run is changed; LaneRun says what
 * holds of a run before and after each of these.  Nothing in here allocates or
 * fails.
 *
 * An array will do: a window is short, what comes mostly belongs at its end,
 * and what goes is at its front.  What comes in between costs a copy of half a
 * window at most, which is eight kilobytes.
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
 * The index in entries[] of the window's first entry not before place; if there
 * is none, that behind its last.
 */
static pg_attribute_always_inline int
lane_run_find(const Lane *lane, const LaneEntry *place)
{
	const LaneRun *run = &lane->window;
	const LaneEntry *entries = lane->entries;
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
 * Enter a place into the window, which has room in its array, unless it is
 * there: a task may be offered twice, and read in the index besides.
 */
static inline void
lane_run_enter(Lane *lane, const LaneEntry *place)
{
	LaneRun    *run = &lane->window;
	LaneEntry  *entries = lane->entries;
	int			at;
	int			end;

	Assert(run->count >= 0 && run->count < LANE_WINDOW);
	Assert(run->head >= 0 && run->head + run->count <= LANE_WINDOW);
	/* What was taken leaves room in front: move it to the end in one go. */
	if (run->head > 0 && run->head + run->count == LANE_WINDOW)
	{
		memmove(entries, &entries[run->head], run->count * sizeof(LaneEntry));
		run->head = 0;
	}

	/* There is room at its end now, or it ends before the array does. */
	at = lane_run_find(lane, place);
	end = run->head + run->count;
	if (at < end && lanes_compare(&entries[at], place) == 0)
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
 * n entries were taken from the front of the window.  Copy them before: what is
 * entered next may take their room.  A window that is empty begins at the front
 * of its array again, so that it has room for as many as there may be without
 * being moved.
 */
static inline void
lane_run_taken(Lane *lane, int n)
{
	LaneRun    *run = &lane->window;

	Assert(n >= 0 && n <= run->count);
	run->count -= n;
	run->head = (run->count == 0) ? 0 : run->head + n;
}

#endif							/* FAIRQ_LANE_RUN_H */
