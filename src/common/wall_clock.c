/*-------------------------------------------------------------------------
 *
 * wall_clock.c
 *	  The clock on the wall, and that it may be set.
 *
 * Times that users see and give are by the wall clock.  But that clock is set,
 * by hand or by NTP, an hour perhaps, and then nothing is to stay, or to end,
 * for the length of the step.  So leases and sessions go by the steady clock,
 * which cannot be set, and also goes on while the machine is suspended, where
 * there is such a one.  It shows what the wall clock would have shown if it had
 * never been set since the server was started: shift is by how much the two
 * have drifted apart, and what users see of steady times is shifted by it.
 *
 * Tasks that wait for a time (run_at, a retry) have it in their rows; it stays
 * as it is written, and they are ready when the wall clock says so.  Who sleeps
 * until such a time looks every few seconds whether the clock was set, and
 * claims look, too; whoever sees it first wakes the others.
 *
 * Locking: the lock is for who changes the shift, which is atomic, as the count
 * of steps is; offset is set before there are other processes.  The function
 * that was registered is called with the lock, so it comes before the lock of
 * workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "common/shared_memory.h"
#include "common/wall_clock.h"

#ifdef CLOCK_BOOTTIME
#define REAL_CLOCK	CLOCK_BOOTTIME
#else
#define REAL_CLOCK	CLOCK_MONOTONIC
#endif

/* A drift from which on what is shown is shifted. */
#define DRIFT_USECS		1000

/* A drift from which on the wall clock was set, for those who sleep. */
#define STEP_USECS		USECS_PER_SEC

/* The drift is read so often, of which the quickest time counts. */
#define TRIES			5

typedef struct WallClock
{
	LWLock		lock;
	int64		offset;			/* of the steady clock from the real one */
	pg_atomic_uint64 shift;		/* of the wall clock from the steady one */
	pg_atomic_uint32 steps;
} WallClock;

static WallClock *wall_clock = NULL;
static void (*wake_sleepers) (void) = NULL;

/*
 * Microseconds by a clock that cannot be set.
 */
int64
wall_clock_real(void)
{
	struct timespec now;

	if (clock_gettime(REAL_CLOCK, &now) != 0)
		elog(ERROR, "could not read the clock: %m");
	return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

/*
 * Sleep until the latch is set, or until a time by wall_clock_real.  Returns
 * false if that has come.
 */
bool
wall_clock_sleep(int64 until, int event)
{
	int64		now = wall_clock_real();

	if (now >= until)
		return false;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 Min((until - now + 999) / 1000, INT_MAX), shared_memory_wait_event(event));
	ResetLatch(MyLatch);
	return true;
}

/* By how much the wall clock differs from the real one. */
static int64
read_offset(void)
{
	int64		best = PG_INT64_MAX;
	int64		offset = 0;

	for (int i = 0; i < TRIES; i++)
	{
		int64		real = wall_clock_real();
		TimestampTz now = GetCurrentTimestamp();
		int64		took = wall_clock_real() - real;

		if (took >= best)
			continue;
		best = took;
		offset = now - real;
	}
	return offset;
}

Size
wall_clock_shmem_size(void)
{
	return sizeof(WallClock);
}

void
wall_clock_shmem_init(void *area, bool found)
{
	wall_clock = area;
	if (found)
		return;
	LWLockInitialize(&wall_clock->lock, shared_memory_tranche(FAIRQ_TRANCHE_WORKER));
	wall_clock->offset = read_offset();
	pg_atomic_init_u64(&wall_clock->shift, 0);
	pg_atomic_init_u32(&wall_clock->steps, 0);
}

/*
 * Have a function called in the process that sees that the clock was set.
 */
void
wall_clock_register(void (*function) (void))
{
	wake_sleepers = function;
}

/*
 * The steady clock.
 */
TimestampTz
wall_clock_steady(void)
{
	return wall_clock_real() + wall_clock->offset;
}

/*
 * What a time by the steady clock is by the wall clock, and the other way
 * round.  What is not a time stays as it is: an infinite one, and from 0 down.
 */
TimestampTz
wall_clock_shown(TimestampTz steady)
{
	return steady <= 0 || steady == DT_NOEND ? steady :
		steady + (int64) pg_atomic_read_u64(&wall_clock->shift);
}

TimestampTz
wall_clock_unshown(TimestampTz shown)
{
	return shown <= 0 || shown == DT_NOEND ? shown :
		shown - (int64) pg_atomic_read_u64(&wall_clock->shift);
}

/* How often the clock was set. */
uint32
wall_clock_steps(void)
{
	return pg_atomic_read_u32(&wall_clock->steps);
}

/*
 * Look whether the clock was set, and then shift what is shown, and wake those
 * who sleep.  The caller holds no lock of ours.
 */
void
wall_clock_check(void)
{
	int64		by;

	LWLockAcquire(&wall_clock->lock, LW_EXCLUSIVE);
	by = read_offset() - wall_clock->offset - (int64) pg_atomic_read_u64(&wall_clock->shift);
	if (by <= -DRIFT_USECS || by >= DRIFT_USECS)
		pg_atomic_fetch_add_u64(&wall_clock->shift, by);
	if (by <= -STEP_USECS || by >= STEP_USECS)
	{
		wake_sleepers();
		pg_atomic_fetch_add_u32(&wall_clock->steps, 1);
	}
	LWLockRelease(&wall_clock->lock);
}

/*
 * The time by both clocks, at which what is shown is right.  The caller holds
 * no lock of ours.
 */
TimestampTz
wall_clock_both(TimestampTz *steady)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		drift;

	*steady = wall_clock_steady();
	drift = now - wall_clock_shown(*steady);
	if (unlikely(drift <= -DRIFT_USECS || drift >= DRIFT_USECS))
		wall_clock_check();
	return now;
}

/* The length of an interval in microseconds, a month counted as 30 days. */
int64
wall_clock_usecs(const Interval *interval)
{
	double		usecs = (double) interval->time +
		(interval->day + interval->month * 30.0) * USECS_PER_DAY;

	/* Rows written with SQL may have anything: nothing is beyond a century. */
	if (usecs < 0)
		return 0;
	if (usecs > 36525.0 * USECS_PER_DAY)
		return INT64CONST(36525) * USECS_PER_DAY;
	return interval->time +
		(interval->day + interval->month * INT64CONST(30)) * USECS_PER_DAY;
}
