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
	VirtualTime finish;
	uint32		group;			/* FAIRQ_NO_GROUP: all */
} PendingPurge;

/* What a group may have. */
typedef struct PendingLimit
{
	QueueState *queue;
	uint32		limit;
	LimitSettings settings;
} PendingLimit;

/* What all groups of a queue may have that were not told apart. */
typedef struct PendingDefaults
{
	QueueState *queue;
	LimitSettings groups;
	LimitSettings subgroups;
} PendingDefaults;

/* The groups of a queue are divided, or are not any more. */
typedef struct PendingRegroup
{
	QueueState *queue;
} PendingRegroup;

typedef void (*CountChange) (QueueState *queue, uint32 group, int n);

/* n tasks of a group. */
typedef struct PendingTasks
{
	QueueState *queue;
	uint32		group;
	int			n;
	OverflowTask first;			/* of those that were put into the overflow */

	/* Of another count, at commit. */
	CountChange change;
} PendingTasks;

/*
 * Where the list has the overflow of a group: a hint, by group.  So there is
 * one action for each group, not for each task.
 */
#define OVERFLOW_HINTS	1024
static int	overflow_hints[OVERFLOW_HINTS];

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
 * The tasks of a group are being removed (tag NULL: of all groups).
 */
void
pending_purged(QueueState *queue, const GroupTag *tag)
{
	PendingPurge purge = {
		.queue = queue,
		.group = FAIRQ_NO_GROUP,
	};

	if (tag != NULL)
	{
		purge.finish = tag->finish;
		purge.group = tag->group;
	}
	*pending_new(purged, PendingPurge) = purge;
}

static void
set_limit(PendingAction *action)
{
	PendingLimit *set = pending_data(action, PendingLimit);

	pg_atomic_fetch_add_u32(&set->queue->limits.changes, 1);
	limited_groups_settle(set->queue, set->limit, &set->settings);
}

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
 * has reserved room before.
 */
void
pending_group_set(QueueState *queue, uint32 limit, const LimitSettings *settings)
{
	PendingLimit *set = pending_new(group_limit, PendingLimit);

	set->queue = queue;
	set->limit = limit;
	set->settings = *settings;
}

static void
keep_defaults(PendingAction *action)
{
	pg_atomic_fetch_sub_u32(&pending_data(action, PendingDefaults)->queue->limits.entries, 1);
}

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
 * settings of their own is being changed.
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

static void
regroup(PendingAction *action)
{
	QueueState *queue = pending_data(action, PendingRegroup)->queue;

	queue_state_regroup(queue);
	leases_leave_groups(queue_state_number(queue));
}

static const PendingKind regrouped = {
	.name = "groups divided or not",
	.commit = regroup,
	.prepare = regroup,
};

/*
 * The groups of a queue, whose table is locked exclusively, are being divided
 * into subgroups, or are not any more.
 */
void
pending_regroup(QueueState *queue)
{
	pending_new(regrouped, PendingRegroup)->queue = queue;
}

static void
change_count(PendingAction *action)
{
	PendingTasks *tasks = pending_data(action, PendingTasks);

	tasks->change(tasks->queue, tasks->group, tasks->n);
}

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

static void
overflow_comes_not(PendingAction *action)
{
	PendingTasks *tasks = pending_data(action, PendingTasks);

	group_overflow_ends(tasks->queue, tasks->group, tasks->n, &tasks->first, false);
}

static const PendingKind changed_count = {
	.name = "change of a count",
	.commit = change_count,
	.prepare = change_count,
};

static const PendingKind new_overflow = {
	.name = "new overflow",
	.commit = overflow_comes,
	.abort = overflow_comes_not,
	.prepare = overflow_is_prepared,
};

static void
note_count(QueueState *queue, uint32 group, int n, CountChange change)
{
	PendingTasks *tasks = pending_new(changed_count, PendingTasks);

	Assert(n != 0);
	tasks->queue = queue;
	tasks->group = group;
	tasks->n = n;
	tasks->change = change;
}

/*
 * n ready tasks of a group are being removed, which are not leased.
 */
void
pending_ready_removed(QueueState *queue, uint32 group, int n)
{
	note_count(queue, group, -n, groups_written);
}

/*
 * n tasks in the overflow of a group are being removed, which have no places.
 */
void
pending_overflow_removed(QueueState *queue, uint32 group, int n)
{
	note_count(queue, group, n, group_overflow_removed);
}

/* The action of this subtransaction for the overflow of a group, or NULL. */
static PendingAction *
find_overflow(QueueState *queue, uint32 group)
{
	PendingAction *action = pending_find(overflow_hints[group % OVERFLOW_HINTS],
										 &new_overflow);
	PendingTasks *tasks = action ? pending_data(action, PendingTasks) : NULL;

	return tasks && tasks->queue == queue && tasks->group == group ? action : NULL;
}

/*
 * A task is put into the overflow of its group.  The caller has reserved room.
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
 * The row of a task that was put into the overflow was written there.
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
 * The task that was noted last was not written after all.
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
