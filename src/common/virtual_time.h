/*-------------------------------------------------------------------------
 *
 * virtual_time.h
 *	  Virtual time, the clock of fair queueing.
 *
 * The queue is start-time fair queueing: Pawan Goyal, Harrick M. Vin and
 * Haichen Cheng, "Start-time Fair Queuing: A Scheduling Algorithm for
 * Integrated Services Packet Switching Networks", SIGCOMM 1996.  A task of
 * cost c in a group of weight w is given
 *
 *		start tag	S = max(v, F of the group)
 *		finish tag	F = S + c / w
 *
 * and tasks are served by start tag, where v, the virtual time, is the start
 * tag of the task served last.  Here are the tags and their arithmetic, and
 * nothing else.
 *
 * A tag is a fixed-point number of 96 bits: a signed whole part and a
 * fraction in units of 2^-32.  Fixed point, as in floating point a tag would
 * grow coarser the longer a queue lives, until a cheap task cost nothing.
 *
 * Capacity.  A hundred years at a million tasks a second are 3.2 * 10^15
 * tasks, and the whole part counts to 9.2 * 10^18.  So the tags last if a
 * task takes c / w = 1 on average, and still do if it takes 2900; with more
 * than one group at work virtual time passes slower than that, as only the
 * tasks of one group add up.  No task takes more than FAIRQ_MAX_CHARGE: if
 * all did, of one group alone, there would be tags for 9.2 * 10^12, which is
 * 14 years at 20,000 a second.  If it runs out all the same, tags stay at the
 * largest value: tasks of that tag are then served by slot, none is lost, and
 * no tag ever becomes smaller.
 *
 * Rows that are written with SQL can have tags that no group has been charged
 * for, and whoever may INSERT can write them.  None of them uses the tags up,
 * nor makes us write a row that would be refused where it is written with
 * SQL, by a restore:
 *
 *	 a row is refused from FAIRQ_TAGS_ROWS on;
 *	 a group that is read from the rows starts behind those before FAIRQ_TAGS_GROUPS
 *	 only, and virtual time that is read from them at FAIRQ_TAGS_START at most;
 *	 a claim advances virtual time to FAIRQ_TAGS_LEAP at once, and from there on by
 *	 FAIRQ_MAX_LEAP at most, which is more than all that one lot of tasks is charged.
 *
 * So what rows can do at once leaves 5.7 * 10^17 tags to the next bound, and
 * they do not come there in fewer than 5 * 10^8 claims.  No group does by
 * being charged.
 *
 * Resolution.  The smallest c / w, 0.001 / 1000, is 4295 units, so that
 * rounding to the nearest unit changes no task's share by more than one in
 * 8000, and that of a task of cost 1 and weight 1 not at all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_VIRTUAL_TIME_H
#define FAIRQ_VIRTUAL_TIME_H

/* What may be asked for; whoever takes values from users checks them. */
#define FAIRQ_MIN_COST		0.001
#define FAIRQ_MAX_COST		1000000
#define FAIRQ_MIN_WEIGHT	0.001
#define FAIRQ_MAX_WEIGHT	1000
#define FAIRQ_MAX_CHARGE	1000000 /* of cost / weight */

/* Bounds of what rows say, see above; each leaves room to the next. */
#define FAIRQ_TAGS_LEAP		(INT64CONST(4) << 59)
#define FAIRQ_TAGS_START	(INT64CONST(5) << 59)
#define FAIRQ_TAGS_GROUPS	(INT64CONST(6) << 59)
#define FAIRQ_TAGS_ROWS		(INT64CONST(8) << 59)
#define FAIRQ_MAX_LEAP		(INT64CONST(1000) * FAIRQ_MAX_CHARGE)

/* The value is whole + fraction / 2^32, also when whole is negative. */
typedef struct VirtualTime
{
	int64		whole;
	uint32		fraction;
} VirtualTime;

/* In 12 bytes, for structures of which there are many. */
typedef struct PackedTime
{
	uint32		whole[2];
	uint32		fraction;
} PackedTime;

static inline VirtualTime
virtual_time_unpack(PackedTime packed)
{
	VirtualTime time = {0, packed.fraction};

	memcpy(&time.whole, packed.whole, sizeof(time.whole));
	return time;
}

static inline PackedTime
virtual_time_pack(VirtualTime time)
{
	PackedTime	packed = {{0, 0}, time.fraction};

	memcpy(packed.whole, &time.whole, sizeof(time.whole));
	return packed;
}

/* Less than, equal to or greater than 0, as a is compared with b. */
static inline int
virtual_time_compare(VirtualTime a, VirtualTime b)
{
	if (a.whole != b.whole)
		return (a.whole < b.whole) ? -1 : 1;
	if (a.fraction != b.fraction)
		return (a.fraction < b.fraction) ? -1 : 1;
	return 0;
}

/* The later of the two. */
static inline VirtualTime
virtual_time_max(VirtualTime a, VirtualTime b)
{
	return (virtual_time_compare(a, b) >= 0) ? a : b;
}

/* A packed one is at least another. */
static inline void
virtual_time_raise(PackedTime *packed, VirtualTime least)
{
	*packed = virtual_time_pack(virtual_time_max(virtual_time_unpack(*packed), least));
}

/* How far it is from one tag to another; negative if that is before it. */
static inline double
virtual_time_distance(VirtualTime from, VirtualTime to)
{
	return (double) (int64) ((uint64) to.whole - (uint64) from.whole) +
		((double) to.fraction - (double) from.fraction) / 4294967296.0;
}

/* A tag, moved by as much as it is from one tag to a later one. */
static inline VirtualTime
virtual_time_moved(VirtualTime t, VirtualTime from, VirtualTime to)
{
	uint64		fraction = (uint64) t.fraction + to.fraction - from.fraction;

	t.whole = (int64) ((uint64) t.whole + (uint64) to.whole - (uint64) from.whole +
					   (uint64) ((int64) fraction >> 32));
	t.fraction = (uint32) fraction;
	return t;
}

/* The earlier of a tag and a whole number. */
static inline VirtualTime
virtual_time_at_most(VirtualTime t, int64 whole)
{
	const VirtualTime bound = {whole, 0};

	return (t.whole >= whole) ? bound : t;
}

extern VirtualTime virtual_time_add(VirtualTime t, double cost, double weight);
extern VirtualTime virtual_time_leap(VirtualTime v, VirtualTime start);

#endif							/* FAIRQ_VIRTUAL_TIME_H */
