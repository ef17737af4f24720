/*-------------------------------------------------------------------------
 *
 * wall_clock.c
 *	  The clock on the wall, and that it may be set.
 *
 * Times that users see and give are by the wall clock, and so are the times
 * at which leases and sessions end.  But that clock is set, by hand or by
 * NTP, an hour perhaps, and then nothing is to stay, or to end, for the
 * length of the step.  So it is compared with a clock that cannot be set,
 * which also goes on while the machine is suspended, where there is one.  If
 * the two have drifted apart by more than a second since the last look the
 * wall clock was set, and whoever sees that first shifts the times in shared
 * memory.  Who sleeps looks every few seconds.
 *
 * Tasks that wait for a time (run_at, a retry) have it in their rows; it stays
 * as it is written, and they are ready when the wall clock says so.
 *
 * Locking: the lock guards all but the count of steps, which is atomic.
 * Functions that were registered are called with it, so it comes before the
 * locks of leases, sessions and workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "common/shared_memory.h"
#include "common/wall_clock.h"

#ifdef CLOCK_BOOTTIME
#define REAL_CLOCK	CLOCK_BOOTTIME
#else
#define REAL_CLOCK	CLOCK_MONOTONIC
#endif

/* The clocks may drift apart by this between two looks. */
#define DRIFT_USECS		USECS_PER_SEC

/* Two clocks that are read within this time are read at once. */
#define AT_ONCE_USECS	10000
#define TRIES			10

#define MAX_FUNCTIONS	4

typedef struct WallClock
{
	LWLock		lock;
	int64		offset;			/* of the wall clock */
	int64		looked_at;		/* by the real one */
	pg_atomic_uint32 steps;
} WallClock;

static WallClock *wall_clock = NULL;
static ClockStepFunction functions[MAX_FUNCTIONS];
static int	function_count = 0;

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
	wall_clock->looked_at = wall_clock_real();
	wall_clock->offset = GetCurrentTimestamp() - wall_clock->looked_at;
	pg_atomic_init_u32(&wall_clock->steps, 0);
}

/*
 * Have a function called in the process that sees that the clock was set.
 */
void
wall_clock_register(ClockStepFunction function)
{
	for (int i = 0; i < function_count; i++)
	{
		if (functions[i] == function)
			return;				/* shared memory is made anew after a crash */
	}
	Assert(function_count < MAX_FUNCTIONS);
	functions[function_count++] = function;
}

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

/* How often the clock was set. */
uint32
wall_clock_steps(void)
{
	return pg_atomic_read_u32(&wall_clock->steps);
}

/*
 * Look whether the clock was set, and then see to it that times are shifted.
 * Returns whether it was set since this process has looked last: then what it
 * has read of the clock before is void.  The caller holds no lock of ours.
 *
 * The lock is held until all is shifted.  Who would find the step noted before
 * that, and then ends what is overdue, would end leases that are not.
 */
bool
wall_clock_check(void)
{
	static uint32 seen = 0;
	int64		real = 0;
	TimestampTz now = 0;
	bool		read = false;
	uint32		steps;
	ClockStep	step;

	LWLockAcquire(&wall_clock->lock, LW_EXCLUSIVE);
	for (int i = 0; i < TRIES && !read; i++)
	{
		real = wall_clock_real();
		now = GetCurrentTimestamp();
		read = (wall_clock_real() - real < AT_ONCE_USECS);
	}
	step.by = now - real - wall_clock->offset;
	step.from = wall_clock->offset + wall_clock->looked_at + step.by;
	step.now = now;
	if (read)
	{
		wall_clock->offset += step.by;
		wall_clock->looked_at = real;
	}
	if (read && (step.by <= -DRIFT_USECS || step.by >= DRIFT_USECS))
	{
		for (int i = 0; i < function_count; i++)
			functions[i] (&step);
		/* Last: who goes by it finds the times shifted. */
		pg_atomic_fetch_add_u32(&wall_clock->steps, 1);
	}
	steps = wall_clock_steps();
	LWLockRelease(&wall_clock->lock);
	if (likely(steps == seen))
		return false;
	seen = steps;
	return true;
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
