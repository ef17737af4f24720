/*-------------------------------------------------------------------------
 *
 * pending_groups.c
 *	  Pending actions about groups: what they have, and what they may have.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/inval.h"

#include "shmem/groups.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "xact/pending.h"
#include "xact/pending_rows.h"

/* A group's tasks, or all of a queue's, are removed. */
typedef struct PendingPurge
{
	QueueState *queue;
	VirtualTime finish;			/* the group's finish tag before the purge; not
								 * set if all are */
	uint32		group;			/* FAIRQ_NO_GROUP: all */
} PendingPurge;

/*
 * What a group may have.  Its limit was announced (limited_groups_make),
 * so that to put it in force cannot fail.
 */
typedef struct PendingLimit
{
	QueueState *queue;
	uint32		limit;			/* number of the group's limit */
	LimitSettings settings;		/* in force from the commit on */
} PendingLimit;

/*
 * What all groups of a queue may have that were not told apart, and all
 * subgroups.  While it is owed the queue has one entry more among its limits,
 * which is no limit's: see pending_defaults_set.
 */
typedef struct PendingDefaults
{
	QueueState *queue;
	LimitSettings groups;
	LimitSettings subgroups;
} PendingDefaults;

/*
 * n tasks that this subtransaction has put into the overflow of a group, which
 * has them pending: so it is not forgotten before the action is carried out.
 * n is at least 1.  first has the lowest id of them, and where its row is if n
 * is 1.
 */
typedef struct PendingTasks
{
	QueueState *queue;
	uint32		group;
	int			n;
	OverflowTask first;
} PendingTasks;

/*
 * Where the list has the overflow of a group, by the group's number: a hint,
 * out of date in the next transaction, and two groups may share one.  So there
 * is one action for each group, or for each run of its tasks, not for each
 * task.
 */
#define OVERFLOW_HINTS	1024
static int	overflow_hints[OVERFLOW_HINTS];

/*
 * The tasks are gone, for all to see: their groups are not charged for them.
 */
static void
level_groups(PendingAction *action)
{
	PendingPurge *purge = pending_data(action, PendingPurge);

	groups_level(purge->queue, purge->group, purge->finish);
}

static const PendingKind purged = {
	.name = "purge",
	.commit = level_groups,
	.prepare = level_groups,
};

/*
 * The tasks of a group are being removed (tag NULL: of all groups).  The tag
 * says which group it was, and where it stood before the purge (groups_look).
 */
void
pending_purged(QueueState *queue, const GroupTag *tag)
{
	PendingPurge *purge = pending_new(purged, PendingPurge);

	purge->queue = queue;
	purge->group = tag == NULL ? FAIRQ_NO_GROUP : tag->group;
	if (tag != NULL)
		purge->finish = tag->finish;
}

/*
 * Settings are in force.  First the count of changes, so that a backend which
 * has read settings before reads them again.
 */
static void
set_limit(PendingAction *action)
{
	PendingLimit *set = pending_data(action, PendingLimit);

	pg_atomic_fetch_add_u32(&set->queue->limits.changes, 1);
	limited_groups_settle(set->queue, set->limit, &set->settings);
}

/* The settings were rolled back, or are not known to be in force as yet. */
static void
keep_limit(PendingAction *action)
{
	PendingLimit *set = pending_data(action, PendingLimit);

	limited_groups_settle(set->queue, set->limit, NULL);
}

/*
 * When a prepared transaction commits that changes what groups may have, no
 * callback tells so.  But every backend is told that settings have changed,
 * and then looks at them.
 */
static void
announce_prepared_limit(PendingAction *action)
{
	QueueState *queue = pending_data(action, PendingLimit)->queue;

	queue->limits.prepared = true;
	CacheInvalidateRelcacheByRelid(queue->relation);
}

static const PendingKind group_limit = {
	.name = "limit of a group",
	.commit = set_limit,
	.abort = keep_limit,
	.before_prepare = announce_prepared_limit,
	.prepare = keep_limit,
};

/*
 * What a group may have is being changed.  The caller has announced that, and
 * has reserved room before: so this cannot fail, and the limit is settled
 * whatever becomes of the transaction (race 15).
 */
void
pending_group_set(QueueState *queue, uint32 limit, const LimitSettings *settings)
{
	PendingLimit *set = pending_new(group_limit, PendingLimit);

	set->queue = queue;
	set->limit = limit;
	set->settings = *settings;
}

/* They are as they were: the entry that stood for the change goes. */
static void
keep_defaults(PendingAction *action)
{
	pg_atomic_fetch_sub_u32(&pending_data(action, PendingDefaults)->queue->limits.entries, 1);
}

/*
 * The defaults are in force.  Lines that were blocked by the old ones may go
 * on (group_limits_defaults_changed); then the entry that stood for the change
 * goes.
 */
static void
set_defaults(PendingAction *action)
{
	PendingDefaults *set = pending_data(action, PendingDefaults);

	queue_state_set_defaults(set->queue, &set->groups, &set->subgroups);
	group_limits_defaults_changed(queue_state_number(set->queue));
	pg_atomic_fetch_sub_u32(&set->queue->limits.entries, 1);
}

static const PendingKind default_limits = {
	.name = "default limits",
	.commit = set_defaults,
	.abort = keep_defaults,
	.prepare = keep_defaults,
};

/*
 * What those groups and subgroups of a queue may have that were not given
 * settings of their own is being changed, at the commit (race 15).  The caller
 * has the queue's relation locked.
 *
 * From now on leases of all groups of the queue are counted, so that at the
 * commit it is known how many each has.  The action ends that at commit,
 * rollback and PREPARE.
 */
void
pending_defaults_set(QueueState *queue, const LimitSettings *groups,
					 const LimitSettings *subgroups)
{
	PendingDefaults *set = pending_new(default_limits, PendingDefaults);

	set->queue = queue;
	set->groups = *groups;
	set->subgroups = *subgroups;

	/* As if one of them had a limit: every lease that is granted is counted. */
	pg_atomic_fetch_add_u32(&queue->limits.entries, 1);
}

/*
 * The groups of before have nothing in flight from now on: leases count for
 * none until those of now adopt them.
 */
static void
regroup(QueueState *queue, uint32 group, int n)
{
	queue_state_regroup(queue);
	leases_leave_groups(queue_state_number(queue));
}

/*
 * The groups of a queue, whose table is locked exclusively, are being divided
 * into subgroups, or are not any more.  No task is claimed or written until
 * this has been carried out, for the lock is held until then.
 */
void
pending_regroup(QueueState *queue)
{
	pending_call(regroup, queue, FAIRQ_NO_GROUP, 0);
}

/*
 * The tasks are there: they count, and the group's line reads on from the
 * first, if it has read beyond it (race 11).
 */
static void
overflow_comes(PendingAction *action)
{
	PendingTasks *tasks = pending_data(action, PendingTasks);

	group_overflow_ends(tasks->queue, tasks->group, tasks->n, &tasks->first, true);
}

/* A row of a transaction that is prepared is not to be claimed. */
static void
overflow_is_prepared(PendingAction *action)
{
	ItemPointerSetInvalid(&pending_data(action, PendingTasks)->first.tid);
	overflow_comes(action);
}

/* The tasks were rolled back: the group has none of them pending any more. */
static void
overflow_comes_not(PendingAction *action)
{
	PendingTasks *tasks = pending_data(action, PendingTasks);

	group_overflow_ends(tasks->queue, tasks->group, tasks->n, &tasks->first, false);
}

static const PendingKind new_overflow = {
	.name = "new overflow",
	.commit = overflow_comes,
	.abort = overflow_comes_not,
	.prepare = overflow_is_prepared,
};

/* Ready tasks of a group were removed. */
static void
count_ready_off(QueueState *queue, uint32 group, int n)
{
	groups_count(group, false, -n);
}

/* Tasks of its overflow were. */
static void
count_overflow_off(QueueState *queue, uint32 group, int n)
{
	groups_count(group, true, -n);
}

/*
 * n ready tasks of a group are being removed, which are not leased.  They
 * count until the commit.
 */
void
pending_ready_removed(QueueState *queue, uint32 group, int n)
{
	Assert(n != 0);
	pending_call(count_ready_off, queue, group, n);
}

/*
 * n tasks in the overflow of a group are being removed, which have no places.
 * They count until the commit.
 */
void
pending_overflow_removed(QueueState *queue, uint32 group, int n)
{
	Assert(n != 0);
	pending_call(count_overflow_off, queue, group, n);
}

/*
 * The action of this subtransaction for the overflow of a group, or NULL: the
 * hint may lead to another group's, or nowhere.
 */
static PendingAction *
find_overflow(QueueState *queue, uint32 group)
{
	PendingAction *action = pending_find(overflow_hints[group % OVERFLOW_HINTS],
										 &new_overflow);
	PendingTasks *tasks = action ? pending_data(action, PendingTasks) : NULL;

	return tasks && tasks->queue == queue && tasks->group == group ? action : NULL;
}

/*
 * A task is put into the overflow of its group, which has it pending already
 * (groups_begin_row, groups_tag).  The caller has reserved room, so that
 * this cannot fail.  Called before the row is written; id is its id, and cost
 * its cost.
 */
void
pending_overflowed(QueueState *queue, uint32 group, int64 id, double cost)
{
	PendingAction *action = find_overflow(queue, group);
	PendingTasks *tasks;

	Assert(id != 0);
	if (action != NULL)
	{
		tasks = pending_data(action, PendingTasks);
		tasks->n++;
		tasks->first.id = Min(tasks->first.id, id);
		ItemPointerSetInvalid(&tasks->first.tid);
		return;
	}
	overflow_hints[group % OVERFLOW_HINTS] = pending_mark();
	tasks = pending_new(new_overflow, PendingTasks);
	tasks->queue = queue;
	tasks->group = group;
	tasks->n = 1;
	tasks->first.id = id;
	tasks->first.cost = cost;
	ItemPointerSetInvalid(&tasks->first.tid);
}

/*
 * The row of a task that was put into the overflow was written there.  With
 * the row known a claim reads it without a look-up.  Nothing is kept if there
 * is more than one of the group: then the line reads the index.  Never fails.
 */
void
pending_overflowed_at(QueueState *queue, uint32 group, int64 id, const ItemPointerData *tid)
{
	PendingAction *action = find_overflow(queue, group);
	PendingTasks *tasks = action ? pending_data(action, PendingTasks) : NULL;

	if (tasks != NULL && tasks->n == 1 && tasks->first.id == id)
		tasks->first.tid = *tid;
}

/*
 * The task that was noted last was not written after all: it is not pending
 * any more.  It is of this subtransaction.  The lowest id may stay that of
 * this task: a line that is read from too early reads rows in vain.  Never
 * fails.
 */
void
pending_not_overflowed(QueueState *queue, uint32 group)
{
	PendingAction *action = find_overflow(queue, group);

	Assert(action != NULL);

	/* A group without tasks may be forgotten, so the action must be, too. */
	if (--pending_data(action, PendingTasks)->n == 0)
		pending_drop(action);
	group_overflow_ends(queue, group, 1, NULL, false);
}
