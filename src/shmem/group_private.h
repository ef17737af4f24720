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

/*
 * Locks of entries, by the hashes of the groups' keys.  A power of two, and no
 * more than there are chains (LEAST_CHAINS), so that a chain is in one of them;
 * of so many two backends seldom meet at one.
 */
#define PARTITIONS		256

/*
 * A group's tasks that are in no window, and its turn: turns.c.  Guarded by the
 * lock of the home lane; to set which that is, by the partition's besides.
 *
 * While no backend has that lock exclusively:
 *
 *	 T1 to T3 of turns.c hold.
 *	 head and tail are the ends of the list of candidates, both NO_ENTRY or
 *	 neither; those that are parked come first, up to last_parked.
 *	 lowered is PG_INT64_MAX unless reading is set.
 *	 reading is set by one backend, which ends it: in turns_read_end or
 *	 turns_at_abort.
 *
 * A group that is divided has no candidates and is not read, but has those of
 * its subgroups that have a turn.
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
	bool		overdue;		/* of a reading: it is not waited for any
								 * more; set under the shared lock, to true
								 * only */
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
 * A group in one class of one queue, or a subgroup.  Each field names the locks
 * that guard it: where there are two, both are held to change it, and either to
 * read it, unless it says otherwise.
 *
 * While no backend has the partition's lock exclusively (group_check):
 *
 *	 leased, pending, run_time and refund are not below zero.
 *	 ready, leased and overflow of a group that is divided count the tasks of
 *	 all its subgroups; pending counts its own only.
 *	 A group that has any task, a subgroup or a line is not forgotten: so its
 *	 number is good for whoever has counted a task there.
 *	 ready and overflow may be off until the queue is counted anew.
 *
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
 *
 * The groups of one order are linked in a ring, by ring_next from group_ring
 * (QueueOrder); each is in the chain of its hash as well.
 */
typedef struct GroupTable
{
	LWLock		creation_lock;
	FreeEntries free;			/* creation lock; high_water only grows, and
								 * is read without it */
	uint32		used;			/* creation lock to change: entries of groups */
	pg_atomic_uint64 reclaim_at;	/* a TimestampTz: all groups were looked
									 * at in vain, which is not to be done
									 * again before, unless it has to */
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

/*
 * A look at all groups is in vain if it frees less than one entry in so many;
 * and a group that has more subgroups than that has very many.
 */
#define GROUP_RECLAIM_PART	100

/* group_entries.c: set once, so read without a lock.  Chains: see the table. */
extern FAIRQ_PRIVATE GroupTable *group_table;
extern FAIRQ_PRIVATE FairGroup *group_entries;
extern FAIRQ_PRIVATE uint32 *group_chains;
extern FAIRQ_PRIVATE uint32 group_chain_mask;

/*
 * group_table.c.  The caller of group_table_try_lock, group_table_lock and
 * group_table_lock_hint holds no lock of ours: where no entry is free the
 * former go through all queues, under the directory lock, and all of them take
 * the creation lock.  It may hold the content lock of the row's page.
 * group_table_find takes the lock of a partition only, so the caller may hold
 * those that are taken before.  All four return with the partition locked:
 * group_table_find in the mode that is asked for, and also if there is no such
 * group, the others exclusively.
 *
 * group_table_no_entry raises an error.  The counting functions and
 * group_had_no_work (groups.c) are called with the partition locked
 * exclusively.
 */
extern FAIRQ_PRIVATE FairGroup *group_table_find(QueueState *queue, int class,
												 const GroupName *name, LWLockMode mode,
												 LWLock **lock);
extern FAIRQ_PRIVATE FairGroup *group_table_try_lock(QueueState *queue, int class,
													 const GroupName *name,
													 const VirtualTime *v, EntryFor what);
extern FAIRQ_PRIVATE FairGroup *group_table_lock(QueueState *queue, int class,
												 const GroupName *name, const VirtualTime *v,
												 EntryFor what);
extern FAIRQ_PRIVATE FairGroup *group_table_lock_hint(uint32 number);
extern FAIRQ_PRIVATE void group_table_no_entry(const GroupName *name);
extern FAIRQ_PRIVATE void group_table_count_ready(QueueState *queue, FairGroup *group, int n);
extern FAIRQ_PRIVATE void group_table_count_overflow(FairGroup *group, int n);

/*
 * group_forget.c: with the creation lock held exclusively; group_forget_idle
 * with no lock of ours.
 */
extern FAIRQ_PRIVATE bool group_forget_if_idle(FairGroup *group, const VirtualTime *v,
											   bool scarce);
extern FAIRQ_PRIVATE bool group_forget_idle(bool has_to);

/* groups.c */
extern FAIRQ_PRIVATE void group_had_no_work(const QueueOrder *order, FairGroup *group,
											VirtualTime v);

/*
 * The group of a subgroup; NULL: it is none.  A subgroup has its group's number
 * from when it is made, under both locks, until it is forgotten; and the group
 * has its entry meanwhile, for it counts its subgroups.  So this is read with
 * the lock of the partition or that of the home lane, of which both levels have
 * one.
 */
static inline FairGroup *
group_above(const FairGroup *group)
{
	return likely(group->key.above == FAIRQ_NO_GROUP) ? NULL : &group_entries[group->key.above];
}

/*
 * What shares the queue: a group, or that of a subgroup.  Its tags are those of
 * the order, by which lanes and views go.
 */
static inline FairGroup *
group_whole(FairGroup *group)
{
	FairGroup  *above = group_above(group);

	return above == NULL ? group : above;
}

/*
 * A subgroup and its group; or a group alone.  Both are in one partition and
 * have one home lane, so that the lock that is held for the first is the lock
 * of both.  NULL: none.  Whatever is charged, counted or limited is so at each
 * level, in this order, which is that of the arrays of LIMIT_LEVELS.
 */
#define FOR_LEVELS(level, group) \
	for (FairGroup *level = (group); level != NULL; level = group_above(level))

/*
 * A group has a task that came then.  It is the first if it is earlier than
 * those that are known, or if there is none.  The caller holds the lock of the
 * group's partition exclusively.
 */
static inline void
group_head_came(FairGroup *group, TimestampTz at, bool earlier)
{
	FOR_LEVELS(level, group)
	{
		if (level->head_time == 0 || (earlier && at < level->head_time))
			level->head_time = at;
	}
}

/*
 * turn_lines.c.  The caller holds the lock of the group's partition,
 * exclusively but for turn_lines_time and turn_lines_turn; these take the home
 * lane's.  All but turn_lines_begin, turn_lines_lower, turn_lines_park and
 * turn_lines_limited take a group that has a line.
 */
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
	return limit_entry_weight(limit);
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

/*
 * Mixes a key's hash with its queue and class: classes of a group are spread
 * over partitions, so that one lock is not that of all.
 */
static inline uint32
group_table_mix(uint64 high, int queue, int class)
{
	return hash_combine((uint32) high, queue * FAIRQ_CLASSES + class);
}

/*
 * What an entry is found by.  Subgroups are in the partition of their group: so
 * the low bits of the hash, which say the partition, are the key's own
 * partition, and the others are of its hash, queue and class.
 */
static inline uint32
group_table_hash(const GroupKey *key)
{
	return (group_table_mix(key->high, key->queue, key->class) & ~(uint32) (PARTITIONS - 1)) |
		key->partition;
}

/* The lock of the partition that the chain of a hash is in. */
static inline LWLock *
group_table_partition(uint32 hash)
{
	return &group_table->partitions[hash % PARTITIONS].lock;
}

/*
 * The partition of a group is locked by this backend: the key says which that
 * is, and does not change while it is.
 */
#define AssertGroupLocked(group) \
	AssertLocked(group_table_partition(group_table_hash(&(group)->key)))
#define AssertGroupLockedExclusively(group) \
	AssertLockedExclusively(group_table_partition(group_table_hash(&(group)->key)))
#define AssertCreationLocked()	AssertLocked(&group_table->creation_lock)

/*
 * Lock the partition of a group that cannot be forgotten now, exclusively: the
 * caller has counted a task of it, or holds the creation lock, or has found the
 * group's line in a lane that it has locked.
 */
static inline FairGroup *
group_table_lock_number(uint32 number)
{
	FairGroup  *group = &group_entries[number];

	Assert(number < group_table->free.high_water && group->in_use);
	LWLockAcquire(group_table_partition(group_table_hash(&group->key)), LW_EXCLUSIVE);
	return group;
}

#ifdef USE_ASSERT_CHECKING
extern FAIRQ_PRIVATE void group_check(const FairGroup *group);
#else
#define group_check(group)	((void) 0)
#endif

/*
 * Unlock the partition of a group that is in use, and as it should be.  The
 * group is not the caller's to look at any more, unless something of the
 * caller's is counted in it: then it keeps its number, but its fields may
 * change.
 */
static inline void
group_table_unlock(const FairGroup *group)
{
	group_check(group);
	LWLockRelease(group_table_partition(group_table_hash(&group->key)));
}

#endif							/* FAIRQ_GROUP_PRIVATE_H */
