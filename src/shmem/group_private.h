/*-------------------------------------------------------------------------
 *
 * group_private.h
 *	  The entries of groups, for the files that work on them:
 *	  group_table.c, groups.c, limited_groups.c, group_overflow.c and turns.c.
 *
 * The head of group_table.c says which lock guards what.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_PRIVATE_H
#define FAIRQ_GROUP_PRIVATE_H

#include "common/hashfn.h"
#include "lib/pairingheap.h"
#include "storage/lwlock.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/group_id.h"
#include "shmem/fixed_table.h"
#include "shmem/groups.h"
#include "shmem/limit_table.h"

#define PARTITIONS		256

typedef struct GroupKey
{
	uint64		low;
	uint64		high;
	uint16		queue;
	uint8		class;
} GroupKey;

/*
 * A group's tasks of the overflow, and its turn: turns.c.  Guarded by the lock
 * of the home lane; to set which that is, by the partition's besides.
 */
typedef struct GroupLine
{
	uint32		lane;			/* number of the home lane, plus one; 0: there
								 * is no line, and the rest is not set */
	uint32		head;			/* candidates */
	uint32		tail;
	uint16		target;			/* how many are read at a time */
	bool		standing;		/* in the lane's heap */
	bool		reading;		/* a backend reads on from the frontier */
	bool		blocked;		/* the group may not have another task now */
	int64		frontier;		/* tasks from here on are in the index;
								 * PG_INT64_MAX: there are none */
	int64		lowered;		/* of a reading: from here on it is to be
								 * repeated */
	int64		next_whole;		/* the start tag of the next task ... */
	int64		tag_whole;		/* ... and where it stands in the heap, */
	uint32		next_fraction;	/* so laid out that they take less room */
	uint32		tag_fraction;
	pairingheap_node node;
} GroupLine;

static inline VirtualTime
group_line_next(const GroupLine *line)
{
	VirtualTime next = {line->next_whole, line->next_fraction};

	return next;
}

static inline void
group_line_set_next(GroupLine *line, VirtualTime next)
{
	line->next_whole = next.whole;
	line->next_fraction = next.fraction;
}

static inline VirtualTime
group_line_tag(const GroupLine *line)
{
	VirtualTime tag = {line->tag_whole, line->tag_fraction};

	return tag;
}

/*
 * What a claim needs comes first: two cache lines, and with many groups
 * neither of them is in a cache.
 */
typedef struct FairGroup
{
	/* partition's lock */
	GroupKey	key;
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
	uint64		slot;
	bool		in_use;

	/* partition's lock */
	int32		pending;		/* of the overflow, not committed yet */
	int32		overflow;		/* tasks in the overflow, not leased */
	int			keylen;
	GroupLine	line;			/* what its fields say */
	double		refund;			/* what it was charged for tasks that have
								 * expired */
	char		shown[GROUP_KEY_SHOWN]; /* the key, or its beginning */

	/* creation lock */
	uint32		ring_next;		/* or next in the free list */

	/*
	 * partition's lock: of the periods in which it had work, those without it
	 * left out
	 */
	VirtualTime since;			/* where they began; v_none: not known */
	double		since_cost;		/* its order's served_cost then */
	double		leased_cost;	/* and when a task of its was leased last */

	/* not changed: of a key of which shown is the beginning only */
	pg_uuid_t	id;
}
#if defined(pg_attribute_aligned)
			pg_attribute_aligned(64)
#endif
FairGroup;

typedef struct GroupTable
{
	LWLock		creation_lock;
	FreeEntries free;
	pg_atomic_uint64 vain_reclaim;	/* when all groups were looked at in vain */
	LWLockPadded partitions[PARTITIONS];
} GroupTable;

extern FAIRQ_PRIVATE GroupTable *group_table;
extern FAIRQ_PRIVATE FairGroup *group_entries;

extern FAIRQ_PRIVATE FairGroup *group_table_find(QueueState *queue, int class,
												 const GroupName *name, LWLockMode mode,
												 LWLock **lock);
extern FAIRQ_PRIVATE FairGroup *group_table_try_lock(QueueState *queue, int class,
													 const GroupName *name, VirtualTime v,
													 bool hurry);
extern FAIRQ_PRIVATE FairGroup *group_table_lock(QueueState *queue, int class,
												 const GroupName *name, VirtualTime v);
extern FAIRQ_PRIVATE FairGroup *group_table_lock_number(uint32 number);
extern FAIRQ_PRIVATE void group_table_no_entry(void);
extern FAIRQ_PRIVATE void group_table_count_ready(QueueState *queue, FairGroup *group, int n);
extern FAIRQ_PRIVATE void group_had_no_work(const QueueOrder *order, FairGroup *group,
											VirtualTime v);

/* turns.c */
extern FAIRQ_PRIVATE void turns_line_begin(QueueState *queue, FairGroup *group);
extern FAIRQ_PRIVATE bool turns_line_lower(QueueState *queue, FairGroup *group, int64 id,
										   bool resumes);
extern FAIRQ_PRIVATE bool turns_line_end(FairGroup *group);
extern FAIRQ_PRIVATE void turns_line_tag(FairGroup *group, VirtualTime v, double charge,
										 double weight, GroupTag *tag);
extern FAIRQ_PRIVATE void turns_line_untag(FairGroup *group, VirtualTime start,
										   VirtualTime finish);
extern FAIRQ_PRIVATE void turns_line_bound(FairGroup *group, VirtualTime low,
										   const VirtualTime *high);
extern FAIRQ_PRIVATE void turns_line_forget(FairGroup *group);

/* Before all tags. */
static const VirtualTime v_none = {PG_INT64_MIN, 0};

/* The weight of a group.  Without its lock: of a moment ago. */
static inline double
group_weight(QueueState *queue, const FairGroup *group)
{
	uint32		limit = ((volatile const FairGroup *) group)->limit;

	return limit == NO_LIMIT ? queue->limits.defaults.weight : limit_table_weight(limit);
}

/*
 * What a task is charged: its cost, or what tasks of its group have taken of
 * late.  Without the group's lock: of a moment ago.
 */
static inline double
group_charge(QueueState *queue, const FairGroup *group, double cost)
{
	double		seconds = ((volatile const FairGroup *) group)->seconds;

	if (!queue->published.charge_seconds || seconds < 0)
		return cost;
	return Min(Max(seconds, FAIRQ_MIN_COST), FAIRQ_MAX_COST);
}

static inline uint32
group_table_hash(const GroupKey *key)
{
	return hash_combine((uint32) key->high, key->queue * FAIRQ_CLASSES + key->class);
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

/* Unlock the partition of a group, which is as it should be. */
static inline void
group_table_unlock(const FairGroup *group)
{
	group_check(group);
	LWLockRelease(group_table_partition(group_table_hash(&group->key)));
}

#endif							/* FAIRQ_GROUP_PRIVATE_H */
