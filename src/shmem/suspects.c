/*-------------------------------------------------------------------------
 *
 * suspects.c
 *	  Tasks that may be what kills their workers.
 *
 * A suspect is a task that was lost SUSPECT_LOSSES times; its row says so.  It
 * is leased alone (quarantine.c), so most claims that come to one pass it over.
 * What is passed over stays at the front of its lane, and is read again by the
 * next claim.  So only SUSPECT_TASKS of a queue have a place in the order at a
 * time: the pass that makes scheduled tasks ready has the others wait
 * (promote_due.c).
 *
 * Which have one is noted here, by id.  That is a hint: before the pass has
 * another one wait it looks whether those that are noted have a place still,
 * and forgets those that have not.  After a restart none is noted, and a claim
 * that comes to one notes it.
 *
 * Locking: the mutex, under which nothing is called.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/leases.h"

/*
 * A suspect has a place, or is to have one.  Returns false if there is no room
 * for it.
 */
bool
suspects_note(QueueState *queue, int64 task)
{
	SuspectTasks *suspects = &queue->suspects;
	bool		there = false;

	SpinLockAcquire(&suspects->mutex);
	for (int i = 0; i < suspects->count; i++)
		there |= (suspects->tasks[i] == task);
	if (!there && suspects->count < SUSPECT_TASKS)
	{
		suspects->tasks[suspects->count++] = task;
		there = true;
	}
	SpinLockRelease(&suspects->mutex);
	return there;
}

/*
 * It has none any more.
 */
void
suspects_forget(QueueState *queue, int64 task)
{
	SuspectTasks *suspects = &queue->suspects;

	SpinLockAcquire(&suspects->mutex);
	for (int i = 0; i < suspects->count; i++)
	{
		if (suspects->tasks[i] == task)
		{
			suspects->tasks[i] = suspects->tasks[--suspects->count];
			break;
		}
	}
	SpinLockRelease(&suspects->mutex);
}

/*
 * Copy those that are noted; tasks has room for SUSPECT_TASKS.  Returns how
 * many.
 */
int
suspects_copy(QueueState *queue, int64 *tasks)
{
	SuspectTasks *suspects = &queue->suspects;
	int			n;

	SpinLockAcquire(&suspects->mutex);
	n = suspects->count;
	Assert(n >= 0 && n <= SUSPECT_TASKS);
	memcpy(tasks, suspects->tasks, n * sizeof(int64));
	SpinLockRelease(&suspects->mutex);
	return n;
}

/*
 * Is any noted?  A look without the lock, for claims that wait.
 */
bool
suspects_any(QueueState *queue)
{
	return ((volatile SuspectTasks *) &queue->suspects)->count > 0;
}

/*
 * Is there one that is not leased, as far as is known?
 */
bool
suspects_wait(QueueState *queue)
{
	int64		tasks[SUSPECT_TASKS];
	int			n = suspects_copy(queue, tasks);
	LeaseInfo	lease;

	for (int i = 0; i < n; i++)
	{
		if (!leases_find(queue_state_number(queue), tasks[i], &lease))
			return true;
	}
	return false;
}

/*
 * A claim for many tasks without a session comes to a suspect first.  Is it the
 * turn of that?  Each second time, so that half of such claims are full.
 */
bool
suspects_turn(QueueState *queue)
{
	return pg_atomic_fetch_add_u32(&queue->suspects.turns, 1) % 2 == 0;
}
