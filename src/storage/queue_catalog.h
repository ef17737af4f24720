/*-------------------------------------------------------------------------
 *
 * queue_catalog.h
 *	  Which queues there are, how they are set, and what belongs to each.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_CATALOG_H
#define FAIRQ_QUEUE_CATALOG_H

#include "datatype/timestamp.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "common/compat.h"
#include "common/task_state.h"
#include "shmem/queue_state.h"

#define QUEUE_NAME_MAX	48		/* bytes */
#define QUEUE_SCHEMA	"fairq"

/* Where is what is not for applications. */
#define INTERNAL_SCHEMA "fairq_internal"
#define QUEUE_ID_BLOCK	1000	/* the increment of the sequence of ids */

/*
 * What the index on the overflow begins with: the hash of group_name.h, of a
 * group or a subgroup.  zero: how 0 is written.
 */
#define QUEUE_GROUP_HASH(zero) \
	"pg_catalog.hashtextextended(group_key COLLATE pg_catalog.\"C\", " zero ")"
#define QUEUE_SUBGROUP_HASH(zero) \
	"pg_catalog.hashtextextended(coalesce(subgroup_key, '') COLLATE pg_catalog.\"C\", " \
	QUEUE_GROUP_HASH(zero) ")"

typedef enum QueuePolicy
{
	QUEUE_FAIR,
	QUEUE_PRIORITY,
	QUEUE_TIME
} QueuePolicy;

/* The columns of a queue's table that are ours; a user may add others. */
typedef enum QueueColumn
{
	COLUMN_ID,
	COLUMN_ADDRESS,
	COLUMN_ENQUEUED_AT,
	COLUMN_PRIORITY,
	COLUMN_COST,
	COLUMN_ATTEMPTS,
	COLUMN_STATE,
	COLUMN_RUN_AT,
	COLUMN_MAX_ATTEMPTS,
	COLUMN_LEASE,
	COLUMN_GROUP_KEY,
	COLUMN_PAYLOAD,
	COLUMN_HEADERS,
	COLUMN_UNIQUE_KEY,
	COLUMN_LAST_ERROR,
	COLUMN_EXPIRES_AT,
	COLUMN_NAME,
	COLUMN_LOST,				/* null: never */
	COLUMN_MAX_LOST,
	COLUMN_HISTORY,				/* null: it has never failed nor been lost */
	COLUMN_SUBGROUP_KEY			/* null: none, or that with the empty key */
} QueueColumn;

#define QUEUE_COLUMNS	(COLUMN_SUBGROUP_KEY + 1)

/*
 * What a backend knows about a queue of its database.  Good for as long as
 * the relation is open: it does not change meanwhile.
 */
typedef struct QueueInfo
{
	char		name[NAMEDATALEN];	/* of the queue */
	bool		valid;			/* nothing has changed since */
	bool		filled;			/* all of this is set */
	Oid			relation;
	Oid			id_sequence;
	Oid			id_index;
	Oid			address_index;
	Oid			due_index;
	Oid			overflow_index;
	Oid			key_index;
	Oid			held_index;
	Oid			expiry_index;
	AttrNumber	columns[QUEUE_COLUMNS];
	int			natts;
	bool		plain;			/* no column and no constraint but ours */

	QueuePolicy policy;
	int			buckets;		/* new tasks go to 0 .. buckets - 1; others
								 * may have tasks, too (see
								 * queue_catalog_lane) */
	int64		lease;			/* microseconds */
	int			max_attempts;	/* 0: no limit */
	int			max_lost;		/* 0: no limit */
	int64		backoff_base;	/* microseconds */
	int64		backoff_max;
	double		backoff_jitter; /* 0 to 1: of the wait, either way */
	int64		max_ready;
	int64		max_ready_per_group;
	int64		max_depth;		/* 0: no limit */
	int64		keep_done;		/* microseconds; 0: finished tasks are deleted */
	int64		expire_after;	/* microseconds; 0: tasks have no deadline by
								 * default */
	bool		durable_leases;
	bool		charge_seconds;
	int			node;			/* the number of this node */
	bool		notify;
	int64		default_priority;	/* of tasks that have none */
	bool		group_required;
	double		class_weights[FAIRQ_CLASSES];	/* the first is 0: a lower
												 * class goes first */
	bool		paused;
	bool		subgroups;		/* groups are divided: tasks have subgroups */
	LimitSettings group_defaults;
	LimitSettings subgroup_defaults;
	bool		own_settings;	/* written by this transaction */
	uint32		settings;		/* how often they had changed when read */

	QueueState *state;
} QueueInfo;

/* What a task counts for: its group, or its subgroup where there are some. */
static inline GroupName
queue_catalog_group(const QueueInfo *info, const text *group_key, const text *subgroup_key)
{
	return unlikely(info->subgroups) ? group_name_of_subgroup(group_key, subgroup_key) :
		group_name(group_key);
}

/* A group as a whole. */
static inline GroupName
queue_catalog_whole_group(const QueueInfo *info, const text *group_key)
{
	return unlikely(info->subgroups) ? group_name_divided(group_key) : group_name(group_key);
}

/* queue_catalog.c */
extern Oid	queue_catalog_schema(bool missing_ok);
extern Oid	queue_catalog_member(const char *name);
extern void queue_catalog_check_name(const text *name, char *result);
extern void queue_catalog_relation_name(const char *queue, char *result);
extern Oid	queue_catalog_relation(const char *queue);
extern QueueState *queue_catalog_state_of_row(Relation table, HeapTuple tuple);
extern bool queue_catalog_read_settings(QueueInfo *info);
extern char *queue_catalog_name_of(Oid relation);
extern bool queue_catalog_has_settings(const char *queue);
extern void queue_catalog_not_owner(const char *queue);
extern bool queue_catalog_lock_extension(void);
extern bool queue_catalog_lock_settings(void);
extern List *queue_catalog_list(Snapshot snapshot);
extern Lane *queue_catalog_lane(QueueInfo *info, int class, int bucket);
extern void queue_catalog_set_up_lanes(QueueInfo *info, int buckets);

/* table_check.c: what the table of a queue has to be like */
extern void table_check(QueueInfo *info, Relation rel);
extern bool table_check_index_is_partial(Relation index);

/* id_sequence.c: the sequence of ids, and where it has to go on */
extern char *id_sequence_lineage(void);
extern void id_sequence_remember(const char *queue);
extern void id_sequence_advance(QueueInfo *info, int64 next_id);
extern void id_sequence_catch_up(QueueInfo *info);

/*
 * See that no id is given out that may have been given out already.  Before
 * any is.
 */
static inline void
id_sequence_follow(QueueInfo *info)
{
	if (unlikely(info->state->recovery.ids != QUEUE_KNOWN))
		id_sequence_catch_up(info);
}

#endif							/* FAIRQ_QUEUE_CATALOG_H */
