/*-------------------------------------------------------------------------
 *
 * virtual_time.c
 *	  Arithmetic of virtual time; see virtual_time.h.
 *
 * Layer 0, no locking: every function works on its arguments alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/int.h"

#include "common/virtual_time.h"

/* Units of the fraction in one. */
#define UNITS_PER_ONE		4294967296.0

/*
 * t + cost / weight: the finish tag of a task that starts at t.
 *
 * The quotient, in double precision, is rounded to the nearest unit of 2^-32
 * (halves to even), but never below one unit, so that every task moves its
 * group on, and never more than FAIRQ_MAX_CHARGE, or tags could run out.
 * Enqueue refuses what is more; it is cut here if the weight was lowered
 * since, or a row was written with SQL.  This also holds for arguments outside
 * of the allowed ranges, and those that are not numbers; nothing here can
 * fail.  A sum beyond the largest tag is the largest tag.
 */
VirtualTime
virtual_time_add(VirtualTime t, double cost, double weight)
{
	const VirtualTime largest = {PG_INT64_MAX, PG_UINT32_MAX};
	double		quotient = cost / weight;
	int64		whole = 0;
	uint64		units = 1;
	uint64		fraction;

	if (quotient > FAIRQ_MAX_CHARGE)
		quotient = FAIRQ_MAX_CHARGE;
	if (quotient > 1.0 / UNITS_PER_ONE) /* false if it is not a number */
	{
		whole = (int64) quotient;
		units = (uint64) rint((quotient - (double) whole) * UNITS_PER_ONE);
	}

	/* At most 2^32 units and a fraction below that: the carry is 0 or 1. */
	fraction = (uint64) t.fraction + units;
	whole += (int64) (fraction >> 32);
	if (pg_add_s64_overflow(t.whole, whole, &t.whole))
		return largest;
	t.fraction = (uint32) fraction;
	return t;
}

/*
 * Virtual time v when a task that starts at start is served, so far as one
 * task may advance it.
 */
VirtualTime
virtual_time_leap(VirtualTime v, VirtualTime start)
{
	/* v is below FAIRQ_TAGS_START, or advanced in small steps: no overflow. */
	if (unlikely(start.whole >= FAIRQ_TAGS_LEAP))
		start = virtual_time_at_most(start, v.whole < FAIRQ_TAGS_LEAP ? FAIRQ_TAGS_LEAP :
									 Min(v.whole, PG_INT64_MAX - FAIRQ_MAX_LEAP) +
									 FAIRQ_MAX_LEAP);
	return virtual_time_max(v, start);
}
