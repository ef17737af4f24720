/*-------------------------------------------------------------------------
 *
 * arithmetic.c
 *	  Tests of arithmetic that SQL cannot reach: virtual time, the bucket of an
 *	  address, the ends of lanes, histograms and rates, ids of groups.  Prints TAP;
 *	  test/unit/run.sh builds it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/address.h"
#include "common/group_name.h"
#include "common/virtual_time.h"
#include "shmem/stats.h"

#undef printf					/* the C library's, not the server's */

typedef __int128 Wide;

static int	tests = 0;
static int	failures = 0;

static void
ok(bool result, const char *name)
{
	tests++;
	if (!result)
		failures++;
	printf("%s %d - %s\n", result ? "ok" : "not ok", tests, name);
}

/* splitmix64: the same numbers in every run. */
static uint64
next_random(void)
{
	static uint64 state = 42;
	uint64		z = (state += UINT64CONST(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static Wide
units_of(VirtualTime t)
{
	return (Wide) t.whole * ((Wide) 1 << 32) + t.fraction;
}

static bool
is(VirtualTime t, int64 whole, uint32 fraction)
{
	return t.whole == whole && t.fraction == fraction;
}

/* 10^from to 10^to, evenly in the exponent. */
static double
random_power(double from, double to)
{
	return pow(10, from + (to - from) * ((double) (next_random() >> 11) / 9007199254740992.0));
}

static void
test_virtual_time(void)
{
	const VirtualTime zero = {0, 0};
	const VirtualTime largest = {PG_INT64_MAX, PG_UINT32_MAX};
	const VirtualTime before = {-1, PG_UINT32_MAX};
	VirtualTime t;
	VirtualTime u;
	bool		exact = true;
	bool		ordered = true;
	int			i;

	ok(is(virtual_time_add(zero, 1, 1), 1, 0), "1 / 1");
	ok(is(virtual_time_add(zero, 1, 4), 0, 0x40000000), "1 / 4");
	ok(is(virtual_time_add(zero, 1, 3), 0, 0x55555555), "1 / 3");
	ok(is(virtual_time_add(zero, 5, 2), 2, 0x80000000), "5 / 2");
	ok(is(virtual_time_add(zero, FAIRQ_MAX_COST, 1), FAIRQ_MAX_CHARGE, 0), "the largest step");
	ok(is(virtual_time_add(zero, FAIRQ_MAX_COST, FAIRQ_MIN_WEIGHT), FAIRQ_MAX_CHARGE, 0) &&
	   is(virtual_time_add(zero, 1, 0), FAIRQ_MAX_CHARGE, 0) &&
	   is(virtual_time_add(zero, INFINITY, 1), FAIRQ_MAX_CHARGE, 0) &&
	   is(virtual_time_add(zero, 1e300, 1), FAIRQ_MAX_CHARGE, 0) &&
	   is(virtual_time_add(zero, 9223372036854775808.0, 1), FAIRQ_MAX_CHARGE, 0), "and none is larger");
	ok(is(virtual_time_add(zero, FAIRQ_MIN_COST, FAIRQ_MAX_WEIGHT), 0, 4295), "the smallest step");
	ok(is(virtual_time_add(before, 1.0 / 4294967296.0, 1), 0, 0), "the fraction carries, from -2^-32 to 0");
	ok(is(virtual_time_add(before, 1.75, 1), 1, 0xbfffffff), "1.75 - 2^-32");
	ok(is(virtual_time_add(zero, 0.9999999999999, 1), 1, 0), "a step that rounds up to 1");
	ok(is(virtual_time_add(zero, 1e-30, 1), 0, 1) &&
	   is(virtual_time_add(zero, 0, 1), 0, 1) &&
	   is(virtual_time_add(zero, -1, 1), 0, 1) &&
	   is(virtual_time_add(zero, NAN, 1), 0, 1) &&
	   is(virtual_time_add(zero, 1, INFINITY), 0, 1) &&
	   is(virtual_time_add(zero, 0, 0), 0, 1), "never less than one unit");
	ok(is(virtual_time_add(largest, 1, 1), largest.whole, largest.fraction) &&
	   is(virtual_time_add(largest, 1e-30, 1), largest.whole, largest.fraction),
	   "never more than the largest");
	t.whole = PG_INT64_MAX;
	t.fraction = 5;
	ok(is(virtual_time_add(t, 0.5, 1), PG_INT64_MAX, 0x80000005) &&
	   is(virtual_time_add(t, 1, 1), largest.whole, largest.fraction) &&
	   is(virtual_time_add(virtual_time_add(t, 0.75, 1), 0.75, 1), largest.whole, largest.fraction),
	   "up to the largest, and not around it");
	t.whole = PG_INT64_MAX - FAIRQ_MAX_CHARGE;
	t.fraction = 0;
	ok(is(virtual_time_add(t, FAIRQ_MAX_COST, 1), PG_INT64_MAX, 0), "the largest step that fits");
	t.whole = PG_INT64_MIN;
	ok(is(virtual_time_add(t, FAIRQ_MAX_COST, 1), PG_INT64_MIN + FAIRQ_MAX_CHARGE, 0), "from the smallest");

	/* What was made up advances it to a bound, and then a little. */
	t.whole = FAIRQ_TAGS_LEAP - 1;
	t.fraction = PG_UINT32_MAX;
	ok(virtual_time_compare(virtual_time_leap(zero, t), t) == 0 &&
	   is(virtual_time_leap(t, zero), t.whole, t.fraction) &&
	   is(virtual_time_leap(zero, largest), FAIRQ_TAGS_LEAP, 0), "a leap to the bound, and not back");
	t.whole = FAIRQ_TAGS_LEAP + 7;
	ok(is(virtual_time_leap(t, largest), t.whole + FAIRQ_MAX_LEAP, 0) &&
	   is(virtual_time_leap(largest, largest), largest.whole, largest.fraction), "a small one beyond it");
	u = virtual_time_add(t, FAIRQ_MAX_COST / 3.0, 1);
	ok(is(virtual_time_leap(t, u), u.whole, u.fraction) && u.fraction != 0 &&
	   is(virtual_time_leap(u, t), u.whole, u.fraction),
	   "which is enough for what tasks are charged");

	for (i = 0; i < 100000; i++)
	{
		double		cost = random_power(-3, 6);
		double		weight = random_power(-3, 3);
		Wide		step;

		t.whole = (int64) (next_random() >> (1 + next_random() % 62)) - 1000;
		t.fraction = (uint32) next_random();
		u = virtual_time_add(t, cost, weight);
		step = (Wide) llrintl((long double) fmin(cost / weight, FAIRQ_MAX_CHARGE) * 4294967296.0L);
		if (units_of(t) + step > units_of(largest))
			step = units_of(largest) - units_of(t);
		exact = exact && units_of(u) - units_of(t) == step;
		ordered = ordered &&
			virtual_time_compare(t, u) < 0 && virtual_time_compare(u, t) > 0 &&
			virtual_time_compare(t, t) == 0 &&
			virtual_time_compare(virtual_time_max(t, u), u) == 0 &&
			virtual_time_compare(virtual_time_max(u, t), u) == 0;
	}
	ok(exact, "steps are exact to the nearest unit");
	ok(ordered, "and times are ordered as their values");
}

/*
 * Chi-squared of the counts against an even spread, in standard deviations
 * from what chance gives.
 */
static double
unevenness(const int *counts, int buckets, int total)
{
	double		expected = (double) total / buckets;
	double		chi = 0;
	int			i;

	for (i = 0; i < buckets; i++)
		chi += (counts[i] - expected) * (counts[i] - expected) / expected;
	return (chi - (buckets - 1)) / sqrt(2.0 * (buckets - 1));
}

static void
test_bucket_of(void)
{
	static const int bucket_counts[] = {2, 3, 7, 10, 16, 64, 100, 1000, 1023, 1024};
	const int	total = 200000;
	double		worst = 0;
	bool		in_range = true;
	bool		consecutive = true;
	bool		one = true;
	int			n;

	for (n = 0; n < (int) lengthof(bucket_counts); n++)
	{
		const int	buckets = bucket_counts[n];
		int			step;
		int			i;

		/* One group: its blocks, in steps of 1, of 2^k, of fractions. */
		for (step = 0; step < 96; step++)
		{
			int			counts[FAIRQ_MAX_BUCKETS] = {0};
			Wide		by = (Wide) 1 << (step % 64);

			if (step >= 64)
				by = (Wide) (next_random() >> 24);
			for (i = 0; i < total; i++)
			{
				Wide		at = i * by;
				int			bucket = address_bucket_of((int64) (at >> 32), (uint32) at, 12345, buckets);

				if (bucket < 0 || bucket >= buckets)
					in_range = false;
				else
					counts[bucket]++;
			}
			worst = Max(worst, unevenness(counts, buckets, total));
		}

		/* One block: consecutive slots, also around 2^32 and up to 2^63. */
		for (i = 0; i < 1000; i++)
		{
			int64		block = (int64) next_random();
			uint32		fraction = (uint32) next_random();
			uint64		slot = next_random() >> (1 + next_random() % 63);

			if (i % 3 == 1)
				slot = (uint64) PG_INT64_MAX - 1 - i % 10;
			if (i % 3 == 2)
				slot = (uint64) PG_UINT32_MAX - i % 10;
			slot = Min(slot, (uint64) PG_INT64_MAX - 1);
			consecutive = consecutive &&
				(address_bucket_of(block, fraction, slot, buckets) + 1) % buckets ==
				address_bucket_of(block, fraction, slot + 1, buckets);
			one = one && address_bucket_of(block, fraction, slot, 1) == 0;
		}
	}
	ok(in_range, "buckets are from 0 to the number of buckets");
	printf("# worst of 960 spreads: %.1f standard deviations\n", worst);
	ok(worst < 6, "blocks of one group spread evenly over the buckets");
	ok(consecutive, "consecutive slots of one block fall into consecutive buckets");
	ok(one, "one bucket takes all");

	/* Rows on disk depend on these. */
	ok(address_bucket_of(0, 0, 0, 1024) == 0 &&
	   address_bucket_of(1, 0, 0, 1024) == 552 &&
	   address_bucket_of(0, 1, 0, 1024) == 492 &&
	   address_bucket_of(-1, 0x80000000, 77, 1000) == 898 &&
	   address_bucket_of(1, 0, PG_INT64_MAX, 1000) == 479 &&
	   address_bucket_of(PG_INT64_MAX, PG_UINT32_MAX, PG_INT64_MAX, 16) == 6,
	   "the bucket of an address is what it always was");
}

static void
test_lanes(void)
{
	const int	last = FAIRQ_MAX_BUCKETS - 1;
	FairqAddress start;
	FairqAddress next;
	FairqAddress a = {0};

	address_lane_start(&start, 5, 3);
	address_lane_start(&next, 5, 4);
	a.bucket = 5;
	a.class = 3;
	a.block = PG_INT64_MIN;
	ok(memcmp(&a, &start, sizeof(a)) == 0, "a lane starts with its smallest address");
	a.block = PG_INT64_MAX;
	a.fraction = PG_UINT32_MAX;
	a.slot = PG_INT64_MAX;
	ok(address_compare(&start, &a) < 0 && address_compare(&a, &next) < 0,
	   "and the next begins above its largest");
	a.class = FAIRQ_CLASSES - 1;
	address_lane_start(&next, 6, 0);
	ok(address_compare(&a, &next) < 0 && address_compare_in_lane(&a, &next) > 0,
	   "the last class of a bucket ends before the next bucket");
	address_lane_start(&start, last, FAIRQ_CLASSES - 1);
	ok(start.bucket == last && start.class == FAIRQ_CLASSES - 1,
	   "also of the last bucket and class");
}

/* The published vectors of SipHash-2-4-128, and what "openssl mac" says. */
static void
test_group_ids(void)
{
	const struct
	{
		const char *key;
		int			len;
		const char *id;
	}			known[] = {
		{"", 0, "a3817f04ba25a8e66df67214c7550293"},
		{"\0", 1, "da87c1d86b99af44347659119b22fc45"},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 64,
		"f42a58572eb57ae62ad7af0d872dc53d"},
		{"tenant \xc3\xbc 1234567", 17, "0779696e98bc088903346fde1edf80d0"}
	};
	static const char digits[] = "0123456789abcdef";
	bool		right = true;

	for (int i = 0; i < (int) lengthof(known); i++)
	{
		pg_uuid_t	id;
		char		hex[2 * UUID_LEN + 1];

		group_id(known[i].key, known[i].len, &id);
		for (int j = 0; j < UUID_LEN; j++)
		{
			hex[2 * j] = digits[id.data[j] >> 4];
			hex[2 * j + 1] = digits[id.data[j] & 15];
		}
		hex[2 * UUID_LEN] = '\0';
		right &= (strcmp(hex, known[i].id) == 0);
	}
	ok(right, "the id of a group is SipHash-2-4-128 of its key");
}

static void
test_histograms(void)
{
	bool		ascending = true;
	bool		exact = true;
	bool		held = true;
	bool		narrow = true;

	for (int i = 1; i < STATS_BUCKETS; i++)
		ascending &= (stats_bucket_top(i) > stats_bucket_top(i - 1));
	ok(ascending, "the buckets of a histogram ascend");
	for (int i = 0; i < STATS_BOUNDS; i++)
	{
		int64		bound = INT64CONST(1) << stats_bound_power(i);
		int			bucket = stats_bucket(bound);

		exact &= (stats_bucket_top(bucket - 1) == bound - 1);
		ascending &= (i == 0 || stats_bound_power(i) > stats_bound_power(i - 1));
	}
	ok(exact && ascending && stats_bound_power(0) == 10 && stats_bound_power(3) == 16 &&
	   stats_bound_power(15) == 28 && stats_bound_power(STATS_BOUNDS - 1) == 34,
	   "a bucket begins at each bound, from a millisecond to five hours");
	for (int i = 0; i < 1000000; i++)
	{
		int64		value = (int64) random_power(0, 14.75);
		int			bucket = stats_bucket(value);
		int64		top = stats_bucket_top(bucket);

		held &= (top >= value &&
				 (bucket == 0 || stats_bucket_top(bucket - 1) < value));
		narrow &= (top - value <= value / 16);
	}
	ok(held, "each value is in its bucket");
	ok(narrow, "the top of a bucket is above its values by a sixteenth at most");
	ok(stats_bucket(0) == 0 && stats_bucket(-1) == 0 && stats_bucket(PG_INT64_MIN) == 0,
	   "what is below zero counts as zero");
	ok(stats_bucket(PG_INT64_MAX) == STATS_BUCKETS - 1 &&
	   stats_bucket(STATS_MAX) == STATS_BUCKETS - 1 &&
	   stats_bucket_top(STATS_BUCKETS - 1) == (int64) STATS_MAX,
	   "what is above the last bucket counts in it");
}

/* A ring as stats.c has it, without the atomics. */
static uint64 ring[STATS_SLOTS];

static void
ring_add(uint64 number, uint64 n)
{
	ring[number % STATS_SLOTS] = stats_slot_add(ring[number % STATS_SLOTS], number, n);
}

static uint64
ring_sum(uint64 number)
{
	uint64		sum = 0;

	for (int i = 0; i < STATS_SLOTS; i++)
		sum += stats_slot_count(ring[i], number);
	return sum;
}

static void
test_rates(void)
{
	/* Numbers in 2026, and about where those in the slots begin anew. */
	uint64		starts[] = {169000000, 10 * (STATS_SLOT_NUMBER + 1) - 50};

	for (int s = 0; s < 2; s++)
	{
		uint64		number = starts[s];
		bool		exact = true;

		memset(ring, 0, sizeof(ring));
		for (int i = 0; i < 100; i++, number++)
		{
			ring_add(number, 3);
			ring_add(number, 4);
			exact &= (ring_sum(number) == 7 * (uint64) Min(i + 1, STATS_WINDOW + 1));
		}
		ok(exact, "a minute is counted, and no more");
		number--;
		ok(ring_sum(number + STATS_WINDOW) == 7 && ring_sum(number + STATS_WINDOW + 1) == 0 &&
		   ring_sum(number + 1000000) == 0, "what is older than a minute is not");
		ring_add(number - STATS_SLOTS, 1);
		ok(ring_sum(number) == 7 * (STATS_WINDOW + 1) + 1,
		   "who comes a round late does not wipe out what there is");
		ring_add(number + 5 * STATS_SLOTS, 2);
		ok(ring_sum(number + 5 * STATS_SLOTS) == 2, "a slot of rounds ago is begun anew");
	}
}

int
main(void)
{
	test_virtual_time();
	test_bucket_of();
	test_lanes();
	test_group_ids();
	test_histograms();
	test_rates();
	printf("1..%d\n", tests);
	return failures > 0;
}
