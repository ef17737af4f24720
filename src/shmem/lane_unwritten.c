/*-------------------------------------------------------------------------
 *
 * lane_unwritten.c
 *	  The entries of a lane that no row has: of tasks of the overflow.
 *
 * The head of lanes.c says what they are for.
 *
 * Locking: lane->lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/lane_check.h"
#include "shmem/lane_run.h"
#include "shmem/lane_unwritten.h"
#include "shmem/queue_order.h"
#include "shmem/queue_state.h"
#include "shmem/waiters.h"

/* A task of the overflow has lost its place. */
void
lane_unwritten_lose(Lane *lane, int64 task)
{
	AssertLaneLocked(lane);
	Assert(task != 0);
	queue_order_overflow_lost(queue_state_by_number(lane->queue), lane->class, task);
}

/*
 * Enter a place of a task of the overflow.  If there is no room the last one is
 * lost.
 */
void
lane_unwritten_enter(Lane *lane, const LaneEntry *place)
{
	LaneRun    *run = &lane->unwritten;
	LaneEntry  *entries = lane->unwritten_entries;
	int			at = lane_run_find(run, entries, place);

	AssertLaneLockedExclusively(lane);
	Assert(lanes_entry_task(place) != 0);
	if (lane_run_has(run, entries, at, place))
	{
		/* TIDs are used again: of two tasks at most one can be there. */
		if (lanes_entry_task(&entries[at]) != lanes_entry_task(place))
		{
			lane_unwritten_lose(lane, lanes_entry_task(&entries[at]));
			lane_unwritten_lose(lane, lanes_entry_task(place));
		}
		return;
	}
	if (run->count == LANE_UNWRITTEN)
	{
		const LaneEntry *last = &entries[run->head + run->count - 1];

		if (lanes_compare(place, last) > 0)
			last = place;
		lane_unwritten_lose(lane, lanes_entry_task(last));
		if (last == place)
			return;
		run->count--;
	}
	lane_run_enter(run, entries, LANE_UNWRITTEN, place);
}

/*
 * A task of the overflow gets an unwritten entry, or one that is claimed next
 * (urgent).  Returns false if there is no room for it here.
 */
bool
lane_unwritten_offer(Lane *lane, const LaneEntry *place, uint16 group, bool urgent)
{
	bool		room;

	Assert(lanes_entry_task(place) != 0);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	room = (lane->unwritten.count < (urgent ? LANE_UNWRITTEN : LANE_UNWRITTEN_USUAL));
	if (room)
		lane_unwritten_enter(lane, place);
	lane_check(lane);
	LWLockRelease(&lane->lock);
	if (room)
		waiters_offered(lane->queue, lane->bucket, group);
	return room;
}

/*
 * Which of two tasks has the lower id: for qsort.
 */
int
lane_unwritten_compare_tasks(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

static void
read_unwritten(const LaneSet *set, UnwrittenTasks *tasks)
{
	Lane	   *lane;
	int			size = 0;

	for (int b = 0; (lane = lanes_next(set, &b)) != NULL; b++)
	{
		if (((volatile Lane *) lane)->unwritten.count == 0)
			continue;
		if (tasks->n + LANE_UNWRITTEN > size)
		{
			size = 2 * size + LANE_UNWRITTEN;
			tasks->tasks = (tasks->tasks == NULL) ? palloc(size * sizeof(int64)) :
				repalloc(tasks->tasks, size * sizeof(int64));
		}
		LWLockAcquire(&lane->lock, LW_SHARED);
		for (int i = 0; i < lane->unwritten.count; i++)
			tasks->tasks[tasks->n++] =
				lanes_entry_task(&lane->unwritten_entries[lane->unwritten.head + i]);
		LWLockRelease(&lane->lock);
	}
	if (tasks->n > 1)
		qsort(tasks->tasks, tasks->n, sizeof(int64), lane_unwritten_compare_tasks);
	tasks->known = true;
}

/*
 * Has a task of the overflow a place in one of the lanes?  They are read once.
 */
bool
lane_unwritten_has(const LaneSet *set, UnwrittenTasks *tasks, int64 task)
{
	if (!tasks->known)
		read_unwritten(set, tasks);
	return tasks->n > 0 &&
		bsearch(&task, tasks->tasks, tasks->n, sizeof(int64), lane_unwritten_compare_tasks) != NULL;
}

/*
 * A task of the overflow is no more: its unwritten entry is taken out by
 * whoever reads a lane and takes nothing.
 */
void
lane_unwritten_forget(Lane *lane, const LaneEntry *place)
{
	LaneRun    *run = &lane->unwritten;
	LaneEntry  *entries = lane->unwritten_entries;
	int			at;

	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	at = lane_run_find(run, entries, place);
	if (lane_run_has(run, entries, at, place) &&
		lanes_entry_task(&entries[at]) == lanes_entry_task(place))
	{
		memmove(&entries[at], &entries[at + 1],
				(run->head + run->count - at - 1) * sizeof(LaneEntry));
		run->count--;
	}
	lane_check(lane);
	LWLockRelease(&lane->lock);
}

/*
 * The place of a task of the overflow.  Returns false if it has none in the
 * lanes.
 */
bool
lane_unwritten_find(const LaneSet *set, int64 task, FairqAddress *address)
{
	Lane	   *lane;
	bool		found = false;

	Assert(task != 0);
	for (int b = 0; !found && (lane = lanes_next(set, &b)) != NULL; b++)
	{
		if (((volatile Lane *) lane)->unwritten.count == 0)
			continue;
		LWLockAcquire(&lane->lock, LW_SHARED);
		for (int i = 0; i < lane->unwritten.count && !found; i++)
		{
			const LaneEntry *entry = &lane->unwritten_entries[lane->unwritten.head + i];

			found = (lanes_entry_task(entry) == task);
			if (found)
				lanes_entry_address(lane, entry, address);
		}
		LWLockRelease(&lane->lock);
	}
	return found;
}

/*
 * Copy the unwritten entries from a place on (NULL: from the start) and before
 * another (NULL: to the end).  Returns how many; entries has room for
 * LANE_UNWRITTEN.
 */
int
lane_unwritten_copy(Lane *lane, const LaneEntry *from, const LaneEntry *before,
					LaneEntry *entries)
{
	const LaneRun *run = &lane->unwritten;
	int			first;
	int			n;

	if (((volatile Lane *) lane)->unwritten.count == 0)
		return 0;
	LWLockAcquire(&lane->lock, LW_SHARED);
	first = from ? lane_run_find(run, lane->unwritten_entries, from) : run->head;
	n = (before ? lane_run_find(run, lane->unwritten_entries, before) :
		 run->head + run->count) - first;
	n = Max(n, 0);
	memcpy(entries, &lane->unwritten_entries[first], n * sizeof(LaneEntry));
	LWLockRelease(&lane->lock);
	return n;
}
