/*-------------------------------------------------------------------------
 *
 * group_private.h
 *	  The entries of groups, for the files that work on them:
 *	  group_table.c, groups.c, limited_groups.c and group_overflow.c.
 *
 * The head of group_table.c says which lock guards what.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_PRIVATE_H
#define FAIRQ_GROUP_PRIVATE_H

#include "common/hashfn.h"
#include "lib/ilist.h"
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

typedef enum RefillState
{
	REFILL_NONE,
	REFILL_LISTED,				/* in the starved list */
	REFILL_URGENT,				/* in it, whatever there is ready */
	REFILL_UNDER_WAY
} RefillState;

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
	int64		overflow_from;	/* tasks in the overflow have this id, or a
								 * higher one; PG_INT64_MAX: there are none */

	uint64		served;			/* tasks leased */
	double		served_cost;	/* what they were charged */
	int64		run_time;		/* of tasks that were worked on, microseconds */
	double		seconds;		/* what a task takes of late; < 0: unknown */
	TimestampTz head_time;		/* the first ready task came then, or later */

	/* both to change */
	uint64		slot;
	bool		in_use;

	/* partition's lock */
	bool		overflows;		/* it has overflow, or may have some */
	uint8		replenish;		/* a RefillState */
	bool		backlogged;		/* it has had overflow since the last
								 * replenish, and nothing kept it from being
								 * served */
	int32		unseen;			/* of ready, since its replenish began: they
								 * may not be in lanes yet */
	int32		pending;		/* of the overflow, not committed yet */
	int32		overflow;		/* tasks in the overflow that have no places */
	int64		overflow_limit; /* what came in a replenish is from here on */
	int64		overflow_held;	/* from here on some were in hand elsewhere */
	int64		overflow_lost;	/* some below may have lost their places;
								 * PG_INT64_MIN: none have */
	VirtualTime seen_finish;	/* F when its replenish began */
	VirtualTime offered_finish; /* F when the last of them got it, or later */
	double		refund;			/* what it was charged for tasks that have
								 * expired */
	int			keylen;
	char		shown[GROUP_KEY_SHOWN]; /* the key, or its beginning */

	/* creation lock */
	uint32		ring_next;		/* or next in the free list */

	/*
	 * partition's lock and the queue's replenish.mutex to change, one of them
	 * to read
	 */
	uint32		dry_epoch;		/* the queue's when claims began to wait for
								 * it to be replenished; 0: they do not */

	/* the queue's replenish.mutex */
	bool		listed;			/* it is in the starved list */
	dlist_node	starved_node;

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
extern FAIRQ_PRIVATE void group_overflow_count(QueueState *queue, FairGroup *group, int n);
extern FAIRQ_PRIVATE void group_overflow_add(QueueState *queue, FairGroup *group, int n,
											 int64 id);
extern FAIRQ_PRIVATE void group_overflow_list(QueueState *queue, FairGroup *group);
extern FAIRQ_PRIVATE void group_overflow_check(QueueState *queue, FairGroup *group);
extern FAIRQ_PRIVATE void group_overflow_settle(QueueState *queue, FairGroup *group);

/* Before all tags. */
static const VirtualTime v_none = {PG_INT64_MIN, 0};

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
extern FAIRQ_PRIVATE void group_check_starved(QueueState *queue);
#else
#define group_check(group)	((void) 0)
#define group_check_starved(queue)	((void) 0)
#endif

/* Unlock the partition of a group, which is as it should be. */
static inline void
group_table_unlock(const FairGroup *group)
{
	group_check(group);
	LWLockRelease(group_table_partition(group_table_hash(&group->key)));
}

/*
 * If a group is to be replenished, enter it into the starved list.
 */
static inline void
group_overflow_look(QueueState *queue, FairGroup *group)
{
	AssertGroupLockedExclusively(group);
	if (unlikely(group->overflow_from != PG_INT64_MAX))
		group_overflow_list(queue, group);
}

#endif							/* FAIRQ_GROUP_PRIVATE_H */
