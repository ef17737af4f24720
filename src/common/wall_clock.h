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

extern int64 wall_clock_usecs(const Interval *interval);
extern Size wall_clock_shmem_size(void);
extern void wall_clock_shmem_init(void *area, bool found);
extern void wall_clock_register(void (*function) (void));
extern int64 wall_clock_real(void);
extern bool wall_clock_sleep(int64 until, int event);
extern TimestampTz wall_clock_steady(void);
extern TimestampTz wall_clock_shown(TimestampTz steady);
extern TimestampTz wall_clock_unshown(TimestampTz shown);
extern TimestampTz wall_clock_both(TimestampTz *steady);
extern void wall_clock_check(void);
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
 * Until when to rest from something that began and has ended then: for so many
 * times as long as it took, most microseconds at the most.
 */
static inline TimestampTz
wall_clock_rest(TimestampTz began, TimestampTz ended, int times, int64 most)
{
	return ended + Min((ended - began) * times, most);
}

/*
 * When to try again what has failed, and had failed so often before: after a
 * second, and each time twice as long, last microseconds at the most.
 */
static inline TimestampTz
wall_clock_retry(TimestampTz now, int failures, int64 last)
{
	return now + Min(USECS_PER_SEC << Min(failures, 10), last);
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
