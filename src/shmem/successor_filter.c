/*-------------------------------------------------------------------------
 *
 * successor_filter.c
 *	  Whether any task waits for the end of another one.
 *
 * Few tasks have successors.  Whoever ends a task asks here first, which costs
 * one read while no task of the queue waits for another one, and one more else.
 * Each queue has counters, which its tasks share by their ids: a row of
 * fairq.dependency raises that of its predecessor before it is committed, and
 * lowers it when its deletion is.  So a counter may say "perhaps" in vain, but
 * never "no" of a task that another one waits for.
 *
 * After a start nothing is known, and the answer is "perhaps", until a pass has
 * read all rows (count_dependencies.c).  It does so again now and then, for
 * what is counted may be too much: a transaction that deletes a row while that
 * is read does not know whether it was counted, and leaves it.  Therefore each
 * count has a number, an epoch, and what was noted in one is not taken from
 * another.
 *
 * A backend asks after it has deleted the row of the task.  A new task with
 * predecessors looks for their rows after its commit.  One of them sees the
 * other: there is the page's lock between.
 *
 * Locking: a spinlock for changes, the last that is taken.  Reads take none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/successor_filter.h"

static inline pg_atomic_uint32 *
place_of(QueueSuccessors *successors, int64 task)
{
	Assert(task != 0);
	return &successors->places[(uint64) task % SUCCESSOR_PLACES];
}

void
successor_filter_init(QueueSuccessors *successors)
{
	SpinLockInit(&successors->mutex);
	successors->epoch = 1;
	successors->known = false;
	successors->stale = true;
	pg_atomic_init_u64(&successors->any, 1);
	for (int i = 0; i < SUCCESSOR_PLACES; i++)
		pg_atomic_init_u32(&successors->places[i], 0);
}

/*
 * May a task have successors?
 */
bool
successor_filter_perhaps(QueueSuccessors *successors, int64 task)
{
	return pg_atomic_read_u32(place_of(successors, task)) > 0 ||
		successor_filter_is_unknown(successors);
}

/*
 * A task has one successor more.  Returns the epoch in which that is counted.
 */
uint32
successor_filter_raise(QueueSuccessors *successors, int64 task)
{
	uint32		epoch;

	SpinLockAcquire(&successors->mutex);
	pg_atomic_fetch_add_u32(place_of(successors, task), 1);
	pg_atomic_fetch_add_u64(&successors->any, 1);
	epoch = successors->epoch;
	SpinLockRelease(&successors->mutex);
	return epoch;
}

/*
 * In which epoch everything is counted that is there now; 0: it is not.
 */
uint32
successor_filter_epoch(QueueSuccessors *successors)
{
	uint32		epoch;

	SpinLockAcquire(&successors->mutex);
	epoch = successors->known ? successors->epoch : 0;
	SpinLockRelease(&successors->mutex);
	return epoch;
}

/*
 * A task has one successor less, which was counted in an epoch.
 */
void
successor_filter_lower(QueueSuccessors *successors, int64 task, uint32 epoch)
{
	pg_atomic_uint32 *place = place_of(successors, task);

	SpinLockAcquire(&successors->mutex);
	Assert(pg_atomic_read_u64(&successors->any) >= pg_atomic_read_u32(place));
	if (successors->epoch == epoch && pg_atomic_read_u32(place) > 0)
	{
		pg_atomic_fetch_sub_u32(place, 1);
		pg_atomic_fetch_sub_u64(&successors->any, 1);
	}
	SpinLockRelease(&successors->mutex);
}

/*
 * What is counted may be wrong: it is counted anew.
 */
void
successor_filter_forget(QueueSuccessors *successors)
{
	SpinLockAcquire(&successors->mutex);
	if (successors->known)
		pg_atomic_fetch_add_u64(&successors->any, 1);
	successors->known = false;
	successors->stale = true;
	SpinLockRelease(&successors->mutex);
}

bool
successor_filter_is_unknown(QueueSuccessors *successors)
{
	return !((volatile QueueSuccessors *) successors)->known;
}

/*
 * All rows are going to be counted, if need be, or (anew) in any case.  Returns
 * whether the caller reads from the first row on; else it goes on.
 */
bool
successor_filter_count_begins(QueueSuccessors *successors, bool anew)
{
	bool		begins;

	SpinLockAcquire(&successors->mutex);
	begins = successors->stale || (anew && successors->known);
	if (begins)
	{
		successors->epoch = Max(successors->epoch + 1, 1);
		successors->known = false;
		successors->stale = false;
		for (int i = 0; i < SUCCESSOR_PLACES; i++)
			pg_atomic_write_u32(&successors->places[i], 0);
		pg_atomic_write_u64(&successors->any, 1);
	}
	SpinLockRelease(&successors->mutex);
	return begins;
}

/*
 * All rows are counted.
 */
void
successor_filter_count_ends(QueueSuccessors *successors)
{
	SpinLockAcquire(&successors->mutex);
	if (!successors->stale && !successors->known)
	{
		successors->known = true;
		Assert(pg_atomic_read_u64(&successors->any) > 0);
		pg_atomic_fetch_sub_u64(&successors->any, 1);
	}
	SpinLockRelease(&successors->mutex);
}
