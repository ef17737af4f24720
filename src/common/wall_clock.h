/*-------------------------------------------------------------------------
 *
 * wall_clock.h
 *	  The clock on the wall, and that it may be set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_WALL_CLOCK_H
#define FAIRQ_WALL_CLOCK_H

#include "datatype/timestamp.h"

/* How soon a sleeper has to look whether the clock was set. */
#define WALL_CLOCK_LOOK_MSECS	3000

/* The clock was set. */
typedef struct ClockStep
{
	int64		by;				/* microseconds */
	TimestampTz from;			/* what was read since then is from here ... */
	TimestampTz now;			/* ... to here */
} ClockStep;

typedef void (*ClockStepFunction) (const ClockStep *step);

extern int64 wall_clock_usecs(const Interval *interval);
extern Size wall_clock_shmem_size(void);
extern void wall_clock_shmem_init(void *area, bool found);
extern void wall_clock_register(ClockStepFunction function);
extern int64 wall_clock_real(void);
extern bool wall_clock_check(void);
extern uint32 wall_clock_steps(void);

/*
 * Is a time still to come that was set for most microseconds ahead, or less?
 * If it is further ahead than that the clock has been set back since.
 */
static inline bool
wall_clock_ahead(TimestampTz when, TimestampTz now, int64 most)
{
	return when > now && when - now <= most;
}

/*
 * What a time that was set when it was begun is by the clock as it is now.
 */
static inline TimestampTz
wall_clock_shifted(TimestampTz when, TimestampTz begun, const ClockStep *step)
{
	return (begun >= step->from && begun <= step->now) ? when : when + step->by;
}

/*
 * Until when to rest from something that began and has ended then: for so many
 * times as long as it took, most microseconds at the most.
 */
static inline TimestampTz
wall_clock_rest(TimestampTz began, TimestampTz ended, int times, int64 most)
{
	return ended + Min((ended - began) * times, most);
}

/*
 * The earlier of two times.  Not Min(), which asks once more for the one that
 * it returns: what is asked for may have changed in between, or be work that
 * is then done twice.
 */
static inline TimestampTz
wall_clock_earlier(TimestampTz a, TimestampTz b)
{
	return a < b ? a : b;
}

#endif							/* FAIRQ_WALL_CLOCK_H */
