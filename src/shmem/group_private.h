/*-------------------------------------------------------------------------
 *
 * group_private.h
 *	  The entries of groups, for the files that work on them:
 *	  group_table.c, groups.c, limited_groups.c, group_overflow.c and turns.c.
 *
 * A group may be divided into subgroups, each of which has an entry of its own.
 * Then tasks count for a subgroup and for its group, and the line is that of
 * the subgroup.
 *
 * The head of group_table.c says which lock guards what.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_PRIVATE_H
#define FAIRQ_GROUP_PRIVATE_H

#include "common/settings.h"
#include "common/hashfn.h"
#include "lib/pairingheap.h"
#include "storage/lwlock.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/group_name.h"
#include "shmem/fixed_table.h"
#include "shmem/groups.h"
#include "shmem/limit_table.h"

#define PARTITIONS		256

/*
 * A group's tasks that are in no window, and its turn: turns.c.  Guarded by the
 * lock of the home lane; to set which that is, by the partition's besides.
 */
typedef struct GroupLine
{
	/* What is compared in a heap: with the slot before it one cache line. */
	uint16		target;			/* how many are read at a time */
	bool		standing;		/* in the lane's heap, or its group's */
	bool		kept;			/* of one that stands: its first task has a
								 * tag of its own */
	bool		reading;		/* a backend reads on from the frontier */
	bool		blocked;		/* the group may not have another task now */
	bool		dropped;		/* there was no room to park some: from
								 * dropped_from on */
	bool		overdue;		/* of a reading: it is not waited for any more */
	PackedTime	resumed;		/* no task has its turn before this tag */
	PackedTime	next;			/* the start tag of the next task of the
								 * overflow */
	pairingheap_node node;

	uint32		lane;			/* number of the home lane, plus one; 0: there
								 * is no line, and the rest is not set */
	union
	{
		uint32		last_parked;	/* NO_ENTRY: none is */
		int			parked;		/* of a group that is divided: how many of its
								 * subgroups are, as GroupLimit has it */
	};
	union
	{
		struct
		{
			uint32		head;	/* candidates: those that are parked first */
			uint32		tail;
			int64		frontier;	/* tasks of the overflow from here on are
									 * in the index; PG_INT64_MAX: there are
									 * none */
			int64		lowered;	/* of a reading: from here on it is to be
									 * repeated */
			int64		dropped_from;	/* a block */
		};
		struct					/* of a group that is divided */
		{
			pairingheap_node *subgroups;	/* those that have a turn */
			PackedTime	time;	/* virtual time between them: as that of a
								 * queue */
			PackedTime	last;	/* the highest tag they were charged to: what
								 * it is when none of them has a turn, and so
								 * none owes another anything */
		};
	};
} GroupLine;

/* Virtual time between the subgroups of a group, for who comes now. */
static inline VirtualTime
group_line_time_now(const GroupLine *line)
{
	return virtual_time_unpack(line->subgroups == NULL ? line->last : line->time);
}

/*
 * What a claim needs comes first: two cache lines, and with many groups
 * neither of them is in a cache.
 */
typedef struct FairGroup
{
	/* partition's lock; read without it: as of a moment ago */
	GroupKey	key;			/* creation lock, too, to change */
	VirtualTime finish;			/* F */
	uint32		hash_next;
	uint32		limit;			/* limit_table.c's number, or NO_LIMIT */
	int32		ready;			/* tasks that have entries and are not leased */
	int32		leased;			/* tasks in flight */
	uint64		served;			/* tasks leased */
	double		served_cost;	/* what they were charged */
	int64		run_time;		/* of tasks that were worked on, microseconds */
	double		seconds;		/* what a task takes of late; < 0: unknown */
	TimestampTz head_time;		/* the first ready task came then, or later */

	/* both to change */
	bool		in_use;
	bool		divided;		/* it has subgroups, and no tasks but theirs */
	uint16		keylen;			/* at most what there is room for */

	/* partition's lock */
	int32		pending;		/* of the overflow, not committed yet */
	int32		overflow;		/* tasks in the overflow, not leased */
	uint32		subgroups;		/* creation lock, exclusively: entries of its
								 * subgroups; with any it is not forgotten */
	float4		refund;			/* what it was charged for tasks that have
								 * expired */

	/* creation lock */
	uint32		ring_next;		/* or next in the free list */

	/* partition's lock */
	double		leased_cost;	/* as since_cost, when a task of its was
								 * leased last */

	/* both to give one; the partition's alone to take over that of a row */
	uint64		slot;

	GroupLine	line;			/* what its fields say */

	/* partition's lock */
	char		shown[GROUP_KEY_SHOWN]; /* the key, or its beginning */

	/*
	 * partition's lock: of the periods in which it had work, those without it
	 * left out
	 */
	VirtualTime since;			/* where they began; v_none: not known */
	double		since_cost;		/* its order's served_cost then */

	/* not changed: of a key of which shown is the beginning only */
	pg_uuid_t	id;
}
#if defined(pg_attribute_aligned)
			pg_attribute_aligned(64)
#endif
FairGroup;

/*
 * An entry becomes another group's under the creation lock, exclusively: a
 * backend that holds it, even shared, may go through all entries and read
 * keys.
 */
typedef struct GroupTable
{
	LWLock		creation_lock;
	FreeEntries free;			/* creation lock; high_water only grows, and
								 * is read without it */
	uint32		used;			/* creation lock: entries of groups */
	pg_atomic_uint64 reclaim_at;	/* all groups were looked at in vain: not
									 * to be done again before, unless it has
									 * to */
	LWLockPadded partitions[PARTITIONS];	/* taken after the creation lock */
} GroupTable;

/* Who wants an entry that may have to be made. */
typedef enum EntryFor
{
	ENTRY_KNOWN_TASK,			/* a task that is there, which has to have one */
	ENTRY_NEW_TASK,				/* one that comes, and may be refused: a group
								 * has as many subgroups as there are entries
								 * left */
	ENTRY_UNCOUNTED				/* a claim of a task that need not be counted */
} EntryFor;

extern FAIRQ_PRIVATE GroupTable *group_table;
extern FAIRQ_PRIVATE FairGroup *group_entries;

/*
 * Are at least half of all entries free?  Then no group has more subgroups than
 * there are entries left.  Without the lock: as it was a moment ago.
 */
static inline bool
group_table_is_half_free(void)
{
	return ((volatile GroupTable *) group_table)->used <= (uint32) settings_max_groups / 2;
}

extern FAIRQ_PRIVATE FairGroup *group_table_find(QueueState *queue, int class,
												 const GroupName *name, LWLockMode mode,
												 LWLock **lock);
extern FAIRQ_PRIVATE FairGroup *group_table_try_lock(QueueState *queue, int class,
													 const GroupName *name, VirtualTime v,
													 EntryFor what);
extern FAIRQ_PRIVATE FairGroup *group_table_lock(QueueState *queue, int class,
												 const GroupName *name, VirtualTime v,
												 EntryFor what);
extern FAIRQ_PRIVATE FairGroup *group_table_lock_number(uint32 number);
extern FAIRQ_PRIVATE void group_table_no_entry(const GroupName *name);
extern FAIRQ_PRIVATE void group_table_count_ready(QueueState *queue, FairGroup *group, int n);
extern FAIRQ_PRIVATE void group_table_count_overflow(FairGroup *group, int n);
extern FAIRQ_PRIVATE void group_had_no_work(const QueueOrder *order, FairGroup *group,
											VirtualTime v);

/* The group of a subgroup; NULL: it is none. */
static inline FairGroup *
group_above(const FairGroup *group)
{
	return likely(group->key.above == FAIRQ_NO_GROUP) ? NULL : &group_entries[group->key.above];
}

/* What shares the queue: a group, or that of a subgroup. */
static inline FairGroup *
group_whole(FairGroup *group)
{
	FairGroup  *above = group_above(group);

	return above == NULL ? group : above;
}

/*
 * A subgroup and its group; or a group alone.  Both are in one partition and
 * have one home lane, so that the lock that is held for the first is the lock
 * of both.  NULL: none.
 */
#define FOR_LEVELS(level, group) \
	for (FairGroup *level = (group); level != NULL; level = group_above(level))

/* turn_lines.c */
extern FAIRQ_PRIVATE void turn_lines_begin(QueueState *queue, FairGroup *group);
extern FAIRQ_PRIVATE bool turn_lines_lower(QueueState *queue, FairGroup *group,
										  const OverflowTask *task);
extern FAIRQ_PRIVATE void turn_lines_limited(FairGroup *group, uint32 limit);
extern FAIRQ_PRIVATE bool turn_lines_end(FairGroup *group);
extern FAIRQ_PRIVATE void turn_lines_tag(FairGroup *group, VirtualTime v, double charge,
										 double weight, GroupTag *tag);
extern FAIRQ_PRIVATE void turn_lines_untag(FairGroup *group, VirtualTime start,
										   VirtualTime finish);
extern FAIRQ_PRIVATE void turn_lines_bound(FairGroup *group, VirtualTime low,
										   const VirtualTime *high);
extern FAIRQ_PRIVATE bool turn_lines_turn(FairGroup *group, VirtualTime *tag, bool *kept);
extern FAIRQ_PRIVATE VirtualTime turn_lines_time(FairGroup *group);
extern FAIRQ_PRIVATE void turn_lines_forget(FairGroup *group, bool all);
extern FAIRQ_PRIVATE void turn_lines_park(QueueState *queue, FairGroup *group, Lane *lane,
										  const LaneEntry *entry, float4 cost);
extern FAIRQ_PRIVATE void turn_lines_unpark(FairGroup *group, bool read_again);

/* Before all tags. */
static const VirtualTime v_none = {PG_INT64_MIN, 0};

/* What a group, or a subgroup, has that was not given anything else. */
static inline const LimitSettings *
group_defaults(QueueState *queue, const FairGroup *group)
{
	return group_above(group) == NULL ? &queue->limits.defaults :
		&queue->limits.subgroup_defaults;
}

/*
 * The weight of a group.  Without its lock, and that of its limit: of a moment
 * ago, or in a race that of another group, for one tag.
 */
static inline double
group_weight(QueueState *queue, const FairGroup *group)
{
	uint32		limit = ((volatile const FairGroup *) group)->limit;

	if (likely(limit == NO_LIMIT))
		return group_defaults(queue, group)->weight;
	return limit_table_weight(limit);
}

/*
 * What a task is charged, before it is divided by a weight: its cost, or under
 * charge 'seconds' what tasks of its group have taken of late.  Those of a
 * subgroup of which nothing is known are charged as those of its group.
 * Without the group's lock: of a moment ago.
 */
static inline double
group_charge(QueueState *queue, const FairGroup *group, double cost)
{
	double		seconds = ((volatile const FairGroup *) group)->seconds;

	if (unlikely(seconds < 0) && group_above(group) != NULL)
		seconds = ((volatile const FairGroup *) group_above(group))->seconds;
	if (!queue->published.charge_seconds || seconds < 0)
		return cost;
	return Min(Max(seconds, FAIRQ_MIN_COST), FAIRQ_MAX_COST);
}

static inline uint32
group_table_mix(uint64 high, int queue, int class)
{
	return hash_combine((uint32) high, queue * FAIRQ_CLASSES + class);
}

/* What an entry is found by.  Subgroups are in the partition of their group. */
static inline uint32
group_table_hash(const GroupKey *key)
{
	return (group_table_mix(key->high, key->queue, key->class) & ~(uint32) (PARTITIONS - 1)) |
		key->partition;
}

static inline LWLock *
group_table_partition(uint32 hash)
{
	return &group_table->partitions[hash % PARTITIONS].lock;
}

#define AssertGroupLocked(group) \
	AssertLocked(group_table_partition(group_table_hash(&(group)->key)))
#define AssertGroupLockedExclusively(group) \
	AssertLockedExclusively(group_table_partition(group_table_hash(&(group)->key)))
#define AssertCreationLocked()	AssertLocked(&group_table->creation_lock)

#ifdef USE_ASSERT_CHECKING
extern FAIRQ_PRIVATE void group_check(const FairGroup *group);
#else
#define group_check(group)	((void) 0)
#endif

/* Unlock the partition of a group that is in use, and as it should be. */
static inline void
group_table_unlock(const FairGroup *group)
{
	group_check(group);
	LWLockRelease(group_table_partition(group_table_hash(&group->key)));
}

#endif							/* FAIRQ_GROUP_PRIVATE_H */
