/*-------------------------------------------------------------------------
 *
 * held_looks.c
 *	  Held tasks of a queue at which a pass is to look, and when.
 *
 * A held task may have nothing before it any more, and whoever has ended the
 * last of what it waits for could not know.  Then a pass looks (held_pass.c).
 * A few tasks are remembered by name.  Where there are more, the pass walks
 * over all that are held, from the lowest of these on, some at a time.
 *
 * A walk always comes to its end.  What it finds in the hands of other
 * transactions, and what cannot be ended, is put off, and who comes during a
 * walk is seen by the next one.  If it began anew for these, thousands of tasks
 * that wait for one whose end is not committed would keep the worker at them
 * until it is, and those behind would not be looked at.
 *
 * After a walk none begins for what was put off for four times as long, or a
 * minute: they take up to a fifth of a worker's time.  The few that are named
 * are looked at meanwhile.
 *
 * Locking: a spinlock guards all of HeldLooks, so that all may be told at the
 * end of a transaction.  What a pass does to a walk it does under the
 * maintenance lock of its queue: there is one walk at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/wall_clock.h"
#include "shmem/held_looks.h"

/* When to look again at what was put off, in microseconds. */
static const int64 put_off_for[HELD_AGAIN_COUNT] = {
	[HELD_BUSY] = USECS_PER_SEC / 4,
	[HELD_FAILED] = 10 * USECS_PER_SEC,
};

/* A walk rests this many times as long as it took, or so long. */
#define WALK_REST		4
#define WALK_REST_MAX	USECS_PER_MINUTE

/*
 * Remember a task by name, unless it is.  Returns false if there is no room.
 * The mutex is held.
 */
static bool
remember(int64 *tasks, int *count, int64 task)
{
	Assert(*count >= 0 && *count <= HELD_LOOKS);
	for (int i = 0; i < *count; i++)
	{
		if (tasks[i] == task)
			return true;
	}
	if (*count == HELD_LOOKS)
		return false;
	tasks[(*count)++] = task;
	return true;
}

/*
 * Note a task by name, if it is that one alone (not all) and there is room; or
 * else in *from that a walk begins, or goes on, there or before.
 */
static void
note(HeldLooks *looks, int64 task, bool all, int64 *from)
{
	SpinLockAcquire(&looks->mutex);
	if (all || !remember(looks->tasks, &looks->count, task))
		*from = Min(*from, task);
	SpinLockRelease(&looks->mutex);
}

/*
 * Set it up.  Nothing is known of the queue's rows then: all that is held is to
 * be looked at.
 */
void
held_looks_init(HeldLooks *looks)
{
	SpinLockInit(&looks->mutex);
	looks->count = 0;
	looks->walk_from = PG_INT64_MAX;
	looks->walk_began = looks->rests_until = 0;
	looks->next_from = PG_INT64_MIN;
	for (int why = 0; why < HELD_AGAIN_COUNT; why++)
		looks->put_off[why] = (HeldPutOff)
	{
		.at = DT_NOEND,.walk_at = DT_NOEND,.from = PG_INT64_MAX
	};
}

/*
 * A held task may have nothing before it any more: have a pass look at it, by
 * name or in its next walk; or at all held tasks from that id on.  Never fails.
 * The caller has the worker come.
 */
void
held_looks_add(HeldLooks *looks, int64 task, bool all)
{
	note(looks, task, all, &looks->next_from);
}

/*
 * A pass has looked at a task, and is to do so once more, some time after now.
 * One that was named is so again, instead of the oldest such if there is no
 * room: the thousand of one transaction do not keep away the one of another.
 */
void
held_looks_put_off(HeldLooks *looks, int64 task, bool named, HeldAgain why, TimestampTz now)
{
	HeldPutOff *put_off = &looks->put_off[why];
	TimestampTz at = now + put_off_for[why];
	int64		walked = task;

	SpinLockAcquire(&looks->mutex);
	if (named)
	{
		walked = PG_INT64_MAX;
		if (!remember(put_off->tasks, &put_off->count, task))
		{
			walked = put_off->tasks[put_off->oldest];
			put_off->tasks[put_off->oldest] = task;
			put_off->oldest = (put_off->oldest + 1) % HELD_LOOKS;
		}
		put_off->at = Min(put_off->at, at);
	}
	if (walked != PG_INT64_MAX)
	{
		put_off->from = Min(put_off->from, walked);
		put_off->walk_at = Min(put_off->walk_at, at);
	}
	SpinLockRelease(&looks->mutex);
}

/*
 * Take up what was put off until now: names as far as there is room, and the
 * others with a walk, unless one is under way or rests.  The mutex is held.
 */
static void
take_up(HeldLooks *looks, HeldPutOff *put_off, TimestampTz now)
{
	if (put_off->at <= now)
	{
		while (put_off->count > 0 &&
			   remember(looks->tasks, &looks->count, put_off->tasks[put_off->count - 1]))
			put_off->count--;
		if (put_off->count == 0)
			put_off->at = DT_NOEND;
	}
	if (put_off->walk_at <= now && looks->rests_until <= now &&
		looks->walk_from == PG_INT64_MAX)
	{
		looks->next_from = Min(looks->next_from, put_off->from);
		put_off->from = PG_INT64_MAX;
		put_off->walk_at = DT_NOEND;
	}
}

/*
 * Take what is to be looked at now: the result says how many tasks there are by
 * name, for which tasks has room for HELD_LOOKS, and *from from where on the
 * walk goes on (PG_INT64_MAX: there is none).  The caller notes both for a
 * rollback, and has the maintenance lock.
 */
int
held_looks_take(HeldLooks *looks, TimestampTz now, int64 *tasks, int64 *from)
{
	int			n;

	SpinLockAcquire(&looks->mutex);
	for (int why = 0; why < HELD_AGAIN_COUNT; why++)
		take_up(looks, &looks->put_off[why], now);
	if (looks->walk_from == PG_INT64_MAX)
	{
		looks->walk_from = looks->next_from;
		looks->next_from = PG_INT64_MAX;
	}
	if (looks->walk_from != PG_INT64_MAX && looks->walk_began == 0)
		looks->walk_began = now;
	n = looks->count;
	memcpy(tasks, looks->tasks, n * sizeof(int64));
	looks->count = 0;
	*from = looks->walk_from;
	SpinLockRelease(&looks->mutex);
	return n;
}

/*
 * The walk goes on from an id; PG_INT64_MAX: what was taken is the rest of it.
 * The caller has the maintenance lock, and looks at what it has taken after
 * this, for it may put some of that back.
 */
void
held_looks_walked(HeldLooks *looks, int64 from)
{
	SpinLockAcquire(&looks->mutex);
	looks->walk_from = from;
	SpinLockRelease(&looks->mutex);
}

/*
 * All that was taken has been looked at.  If that was the end of a walk, the
 * next one for what was put off rests.  The caller has the maintenance lock.
 */
void
held_looks_rest(HeldLooks *looks, TimestampTz now)
{
	SpinLockAcquire(&looks->mutex);
	if (looks->walk_from == PG_INT64_MAX && looks->walk_began != 0)
	{
		looks->rests_until = wall_clock_rest(looks->walk_began, now, WALK_REST, WALK_REST_MAX);
		looks->walk_began = 0;
	}
	SpinLockRelease(&looks->mutex);
}

/*
 * A pass has taken a task, and has not looked at it after all: it is looked at
 * the next time, by name or in the walk that goes on.  Or (all) what the walk
 * has come to since that id was rolled back: the walk goes on from there, or a
 * new one begins.  Also called when the pass has rolled back, and then without
 * the maintenance lock.
 */
void
held_looks_put_back(HeldLooks *looks, int64 task, bool all)
{
	note(looks, task, all, &looks->walk_from);
}

/*
 * What was put off is looked at with the next pass: a user wishes that, or the
 * clock was set.
 */
void
held_looks_hurry(HeldLooks *looks)
{
	SpinLockAcquire(&looks->mutex);
	looks->rests_until = 0;
	for (int why = 0; why < HELD_AGAIN_COUNT; why++)
	{
		if (looks->put_off[why].at != DT_NOEND)
			looks->put_off[why].at = 0;
		if (looks->put_off[why].walk_at != DT_NOEND)
			looks->put_off[why].walk_at = 0;
	}
	SpinLockRelease(&looks->mutex);
}

/*
 * When a pass is to look (DT_NOBEGIN: now; DT_NOEND: there is nothing).
 * Without the lock, so this may be a moment late.
 */
TimestampTz
held_looks_next(const HeldLooks *looks)
{
	const volatile HeldLooks *now = looks;
	TimestampTz next = DT_NOEND;

	if (now->count > 0 || now->walk_from != PG_INT64_MAX || now->next_from != PG_INT64_MAX)
		return DT_NOBEGIN;
	for (int why = 0; why < HELD_AGAIN_COUNT; why++)
	{
		next = wall_clock_earlier(next, now->put_off[why].at);
		if (now->put_off[why].walk_at != DT_NOEND)
			next = wall_clock_earlier(next, Max(now->put_off[why].walk_at, now->rests_until));
	}
	return next;
}
