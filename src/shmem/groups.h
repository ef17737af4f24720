/*-------------------------------------------------------------------------
 *
 * groups.h
 *	  Groups: the tags that share a queue fairly between them.
 *
 * A group is known by its number, which is good for as long as the caller has
 * counted a task of it: as ready, leased or pending.  Any other number is a
 * hint, and each function that takes one says what it does if the entry is
 * another group's by then.
 *
 * groups.c gives tasks their places; group_leases.c counts what is in flight,
 * and group_overflow.c what has no address; limited_groups.c says which limit a
 * group has.  group_walks.c and group_list.c go through all groups of a queue.
 * Beneath them are the entries: group_table.c finds and makes them,
 * group_forget.c frees them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUPS_H
#define FAIRQ_GROUPS_H

#include "common/group_name.h"
#include "common/virtual_time.h"
#include "shmem/queue_state.h"

#define FAIRQ_NO_GROUP	PG_UINT32_MAX

/*
 * Slots are numbered 0 .. FAIRQ_SLOTS - 1, so that SQL can show them all as
 * bigint, and a row that was written with SQL leaves enough.
 */
#define FAIRQ_SLOTS		(UINT64CONST(1) << 62)

/*
 * The tags that a task was given, and by which group.  Private to a backend:
 * the group may have others by now, and its entry be another group's.  With
 * slot and finish it is found out whether the tag is still the group's last
 * (groups_untag).
 */
typedef struct GroupTag
{
	VirtualTime start;			/* S: block and fraction of the address; not
								 * set by groups_look */
	VirtualTime finish;			/* F of the group after it */
	uint64		slot;
	uint32		group;			/* its number */
	double		weight;			/* of groups_look only */
} GroupTag;

/*
 * A task of the overflow, and where its row is, if that is known.  Of several
 * tasks of a group the one of the lowest id stands for all from there on.
 */
typedef struct OverflowTask
{
	int64		id;
	ItemPointerData tid;		/* invalid: not known, or not of it alone */
	float4		cost;
} OverflowTask;

/*
 * What a group knows of a task that is going to be leased: filled in by the
 * claim (cost, before, of_overflow, and the limits), and by
 * groups_lease_begins. Where the lease is granted it goes into that (group,
 * counted, of_overflow), by which the group counts the task at its end.
 */
typedef struct GroupLease
{
	uint32		group;			/* its number, or FAIRQ_NO_GROUP */
	uint32		limits[LIMIT_LEVELS];	/* that have kept room for the task;
										 * then its own; NO_LIMIT: none */
	double		charge;			/* by its weight: finish tag less start tag */
	double		cost;			/* as the row says; then what it adds to what
								 * the group was served */
	double		before;			/* what this claim's tasks before were charged */
	bool		counted;		/* the task is counted in its group, and so
								 * not as ready while it is leased */
	bool		of_overflow;	/* leases_grant counts it */
} GroupLease;

/* Bytes of a key that an entry keeps, and views can show without a row. */
#define GROUP_KEY_SHOWN	48

/*
 * What is known of a group in one class: a copy for those who look, made under
 * the lock of its partition (groups_list).  Its counts belong together; those
 * of two groups are of two moments.
 */
typedef struct GroupInfo
{
	uint32		number;
	uint32		above;			/* of a subgroup: the number of its group */
	int			class;
	uint64		hash[2];		/* of the key */
	VirtualTime finish;
	int			ready;
	int			leased;
	int			overflow;		/* below zero for a moment, or when it is off */
	bool		turns;			/* it has a turn, at this tag: */
	VirtualTime turn;
	bool		kept;			/* of a subgroup: its first task has that tag */
	uint64		slot;
	uint64		served;
	double		served_cost;
	bool		known;			/* the next three are */
	VirtualTime since;			/* where the periods with work began */
	double		since_cost;		/* what all groups had been served then */
	double		leased_cost;	/* and when it was served last */
	double		weight;			/* not set by groups_list, nor the next two:
								 * for views */
	double		due;			/* what it should have had ... */
	double		all_served;		/* ... of so much that all groups had */
	int64		run_time;		/* microseconds */
	TimestampTz head_time;		/* when its first ready task came, or later */
	uint32		limit;			/* or NO_LIMIT */
	int			keylen;
	char		key[GROUP_KEY_SHOWN];	/* or its beginning */
	pg_uuid_t	id;				/* of the whole key */
} GroupInfo;

/*
 * groups.c: for who gives tasks places, and before that.  These may make an
 * entry: the caller holds no lock of ours, and has the queue's relation locked.
 */
extern bool groups_enter(QueueState *queue, int class, const GroupName *name);
extern bool groups_tag(QueueState *queue, int class, const GroupName *name, double cost,
					   bool may_overflow, GroupTag *tag);
extern void groups_tag_first(QueueState *queue, int class, const GroupName *name,
							 uint32 order, GroupTag *tag);

/*
 * group_walks.c, as groups_level below.  The caller holds the queue's lock at
 * most, and has the queue's relation locked.
 */
extern void groups_count_anew(QueueState *queue);
extern void groups_begin_lines(QueueState *queue);
extern void groups_unpark(QueueState *queue);

/*
 * group_leases.c: for claims, and the ends of leases.  groups_lease_begins and
 * groups_adopt_lease may make an entry.  A claim calls the former with the
 * row's page locked in shared mode, so that the row cannot go before the task
 * is leased (race 2); all take locks of groups, limits and lanes, and the
 * caller holds none of these.
 */
extern bool groups_lease_begins(QueueState *queue, const FairqAddress *address,
								const ItemPointerData *tid, const GroupName *name,
								TimestampTz enqueued_at, GroupLease *lease);
extern void groups_lease_refused(const GroupLease *lease);
extern void groups_lease_ends(uint32 group, int64 run, int64 charged);
extern uint32 groups_adopt_lease(QueueState *queue, int class, const GroupName *name);
extern void groups_check_unknown(QueueState *queue);

/*
 * Of group_leases.c, too.  Where a lease is granted or ends, or may be there,
 * it is called with the lock of its partition held exclusively, so that a task
 * is counted once; else the caller holds no lock of ours.  It takes that of the
 * group's partition, and may take that of a lane.
 */
extern void groups_lease_joins(uint32 group);
extern void groups_count(uint32 group, bool of_overflow, int n);

/*
 * groups.c, groups_level in group_walks.c: for rows that are written, removed
 * or read, and how a transaction ends.  groups_begin_row and groups_restore may
 * make an entry, and fail; the others never do.  The caller holds no lock of
 * ours.
 */
extern uint32 groups_begin_row(QueueState *queue, int class, const GroupName *name,
							   bool of_overflow);
extern void groups_untag(uint64 slot, uint32 group, VirtualTime start,
						 VirtualTime finish, int ready);
extern bool groups_look(QueueState *queue, int class, const GroupName *name,
						GroupTag *tag);
extern void groups_refund(QueueState *queue, int class, uint32 group, double cost);
extern void groups_level(QueueState *queue, uint32 group, VirtualTime finish);
extern void groups_restore(QueueState *queue, const FairqAddress *address,
						   const GroupName *name, double cost,
						   TimestampTz enqueued_at, bool leased);

/* group_list.c: copies, for views */
extern int	groups_list(QueueState *queue, bool turns, GroupInfo **infos);
extern int	groups_part(GroupInfo *infos, int n);

/*
 * group_overflow.c.  group_overflow_found may make an entry, and fail; the
 * others are called at the end of transactions, and never do.  The caller holds
 * no lock of ours.
 */
extern void group_overflow_ends(QueueState *queue, uint32 group, int n,
								const OverflowTask *first, bool committed);
extern void group_overflow_again(QueueState *queue, int class, uint32 group, int64 id);
extern void group_overflow_found(QueueState *queue, int class, const GroupName *name,
								 int64 id, bool again);

/* group_table.c */
extern Size group_table_shmem_size(void);
extern void group_table_shmem_init(void *area, bool found);
extern bool group_table_is_half_free(void);

/* group_forget.c: for queue_lifecycle.c, which has the directory locked. */
extern void group_forget_queue(int queue);

/*
 * limited_groups.c: which limit a group has, and how the classes of a group
 * learn it.  The caller has the queue's table locked.
 */

/* For those who look, and for the sweep.  Hints; these never fail. */
extern double limited_groups_weight(QueueState *queue, const GroupName *name);

/*
 * For claims, but for limited_groups_waits.  The caller holds no lock of ours.
 * limited_groups_join fails where there is no room for a limit.
 */
extern bool limited_groups_park(QueueState *queue, int class, const GroupName *name, Lane *lane,
								const LaneEntry *entry, float4 cost);
extern bool limited_groups_waits(QueueState *queue, const GroupName *name);
extern void limited_groups_join(QueueState *queue, const GroupName *name);

/*
 * Settings: announced before the commit, and settled when that is done (race
 * 15).  limited_groups_make fails where there is no room for a limit;
 * limited_groups_settle never does.
 */
extern uint32 limited_groups_make(QueueState *queue, const GroupName *name, bool announced);
extern void limited_groups_settle(QueueState *queue, uint32 limit,
								  const LimitSettings *settings);

#endif							/* FAIRQ_GROUPS_H */
