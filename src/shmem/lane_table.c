/*-------------------------------------------------------------------------
 *
 * lane_table.c
 *	  The lanes in shared memory, and which of them a fair order has.
 *
 * Locking: the directory lock guards which lanes are in use, and is taken after
 * the lock of a queue.  Which of them an order has is in its set (LaneSet),
 * which its owner guards and all others read without a lock: a claim looks at
 * every lane of its class.  A lane is set up before its number is in the set,
 * and two write barriers order that (set_up_lane, lanes_next).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/shmem.h"

#include "common/settings.h"
#include "common/shared_memory.h"
#include "shmem/lanes.h"
#include "shmem/queue_state.h"

/*
 * The lock guards both counts and the field in_use of each lane.  When it is
 * free, in_use lanes have in_use set, all of them below high_water.  What is
 * beyond that was never written.
 */
typedef struct LaneDirectory
{
	LWLock		lock;
	int			high_water;		/* lanes at and beyond were never used */
	int			in_use;			/* lanes that are */
} LaneDirectory;

static LaneDirectory *directory = NULL;
static Lane *lanes = NULL;

#define LANES_OFFSET	CACHELINEALIGN(sizeof(LaneDirectory))

/*
 * The memory for all lanes that there may be, pgfairq.max_lanes, whether or not
 * queues come to use them (invariant I10).
 */
Size
lane_table_shmem_size(void)
{
	return add_size(LANES_OFFSET, mul_size(settings_max_lanes, sizeof(Lane)));
}

/*
 * Set up the directory in area, or find it there (found).  No lane is written:
 * whoever takes one sets it up.
 */
void
lane_table_shmem_init(void *area, bool found)
{
	directory = area;
	lanes = (Lane *) ((char *) area + LANES_OFFSET);
	if (found)
		return;
	LWLockInitialize(&directory->lock,
					 shared_memory_tranche(FAIRQ_TRANCHE_LANE));
	directory->high_water = 0;
	directory->in_use = 0;
}

/*
 * Give bucket its lane, the first free one from *at on; *at is where to look
 * for the next.  The caller has found that there is one, and holds the
 * directory lock and the queue's exclusively.
 *
 * No backend uses a lane that is not in use, nor its lock: so it is set up anew
 * whatever was left in it.  But for the entries, of which none is in the
 * window: they are most of its memory.
 */
static void
set_up_lane(LaneSet *set, int bucket, int *at)
{
	Lane	   *lane;

	AssertLockedExclusively(&directory->lock);
	Assert(bucket >= 0 && bucket < FAIRQ_MAX_BUCKETS);
	Assert(set->lanes[bucket] == 0);
	while (*at < directory->high_water && lanes[*at].in_use)
		(*at)++;
	Assert(*at < settings_max_lanes);
	lane = &lanes[*at];
	memset(lane, 0, offsetof(Lane, entries));
	LWLockInitialize(&lane->lock, shared_memory_tranche(FAIRQ_TRANCHE_LANE));
	ConditionVariableInit(&lane->refilled);
	lane->queue = set->queue;
	lane->bucket = bucket;
	lane->class = set->class;
	lane->frontier = lane_entry_first;
	lane->in_use = true;
	directory->in_use++;
	directory->high_water = Max(directory->high_water, *at + 1);

	/*
	 * Others find it as soon as this is written, without a lock: so the lane
	 * is complete before.  One that sees high before the number finds no lane
	 * there yet, as a moment ago.
	 */
	pg_write_barrier();
	((volatile LaneSet *) set)->lanes[bucket] = *at + 1;
	pg_write_barrier();
	if (set->high <= bucket)
		((volatile LaneSet *) set)->high = bucket + 1;
}

/*
 * Is a bucket to have a lane, being one of the first buckets or the other, and
 * has none?  The queue's lock is held, under which sets change.
 */
static inline bool
lacks_lane(const LaneSet *set, int bucket, int buckets, int other)
{
	return (bucket < buckets || bucket == other) && set->lanes[bucket] == 0;
}

/*
 * See that in n sets of one queue the buckets 0 ..  buckets - 1, and other
 * (-1: none), have lanes: all of them or, if there are too few left, none that
 * has not one yet.  Returns false then; *missing is how many it would have
 * taken.
 *
 * The caller holds the lock of the queue's state exclusively, under which no
 * other backend changes the sets.  Takes and releases the directory lock.
 * Never fails: it is the caller that reports an error, when it has let go its
 * lock.
 *
 * A new lane knows nothing: its frontier is at the start, and whatever is
 * there already is found by reading the index.  So lanes can be added at any
 * time.
 */
bool
lane_table_set_up(LaneSet *const *sets, int n, int buckets, int other, int *missing)
{
	bool		room;
	int			high = Max(buckets, other + 1);
	int			at = 0;

	Assert(n > 0 && buckets > 0 && high <= FAIRQ_MAX_BUCKETS);
	AssertLockedExclusively(&queue_state_by_number(sets[0]->queue)->lock);
	*missing = 0;

	/* Without the directory lock: the sets do not change. */
	for (int i = 0; i < n; i++)
	{
		for (int b = 0; b < high; b++)
			*missing += lacks_lane(sets[i], b, buckets, other);
	}

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	room = (*missing <= settings_max_lanes - directory->in_use);
	for (int i = 0; room && i < n; i++)
	{
		for (int b = 0; b < high; b++)
		{
			if (lacks_lane(sets[i], b, buckets, other))
				set_up_lane(sets[i], b, &at);
		}
	}
	LWLockRelease(&directory->lock);
	return room;
}

/*
 * Give the lanes of a set back.  No backend uses them any more: the queue is
 * gone, and the caller holds the directory lock of queues exclusively, which
 * who looks without a lock on the relation has, too (queue_ready_bucket).
 * Never fails.
 */
void
lane_table_give_back(LaneSet *set)
{
	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	for (int b = 0; b < set->high; b++)
	{
		if (set->lanes[b] == 0)
			continue;
		Assert(lanes[set->lanes[b] - 1].in_use && lanes[set->lanes[b] - 1].queue == set->queue);
		lanes[set->lanes[b] - 1].in_use = false;
		directory->in_use--;
	}
	Assert(directory->in_use >= 0);
	LWLockRelease(&directory->lock);
	memset(set->lanes, 0, sizeof(set->lanes));
	set->high = 0;
}

/*
 * The lane of a number, in use or not.  Lanes lie one after the other, so that
 * the number of a lane is its distance from lane 0.  A lane that is another
 * queue's by now can be locked all the same: who comes by a number of before
 * looks there whether it is what was asked for (turns_lock_home).
 */
Lane *
lanes_get(int number)
{
	Assert(number >= 0 && number < settings_max_lanes);
	return &lanes[number];
}
