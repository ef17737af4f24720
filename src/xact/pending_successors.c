/*-------------------------------------------------------------------------
 *
 * pending_successors.c
 *	  Pending actions about tasks that wait for others.
 *
 * What a transaction has ended, and which tasks it has replaced, is noted here
 * for the moment before its commit, when successors.c looks after those that
 * wait: so what was rolled back to a savepoint is not among it.
 *
 * What a prepared transaction has replaced would lock rows that others wait for
 * until it ends, so that is refused.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/worker_slots.h"
#include "xact/id_list.h"
#include "xact/pending.h"
#include "xact/pending_ended.h"

/* So many ended tasks are compared with one, at most. */
#define MAX_LOOKED		1000

typedef struct PendingPredecessors
{
	QueueState *queue;
	Oid			relation;
	PredecessorEnd end;
	IdList		tasks;
} PendingPredecessors;

typedef struct PendingRecount
{
	QueueState *queue;
} PendingRecount;

/* The action that was noted last, if it is still there. */
static int	last_ended = -1;

/* Has this transaction anything to look after before its commit? */
static bool any = false;

static void
forget_tasks(PendingAction *action)
{
	id_list_free(&pending_data(action, PendingPredecessors)->tasks);
}

static const PendingKind ended_predecessors = {
	.name = "ended predecessors",
	.commit = forget_tasks,
	.abort = forget_tasks,
	.prepare = forget_tasks,
};

/*
 * A task ends that may have successors, or may yet get them.
 */
void
pending_predecessor_ended(QueueState *queue, Oid relation, int64 task, PredecessorEnd end)
{
	PendingAction *action = pending_find(last_ended, &ended_predecessors);
	PendingPredecessors *ended = action ? pending_data(action, PendingPredecessors) : NULL;

	any = true;
	if (ended == NULL || ended->queue != queue || ended->relation != relation ||
		ended->end != end)
	{
		last_ended = pending_mark();
		ended = pending_new(ended_predecessors, PendingPredecessors);
		memset(ended, 0, sizeof(PendingPredecessors));
		ended->queue = queue;
		ended->relation = relation;
		ended->end = end;
	}
	id_list_add(&ended->tasks, task);
}

/*
 * Is there anything to look after?  A hint: it may have been rolled back.
 */
bool
pending_predecessors_any(void)
{
	return any;
}

/*
 * The first action of ended tasks from a number on; -1: none.
 */
int
pending_predecessors_next(int from, EndedPredecessors *result)
{
	for (; from < pending_mark(); from++)
	{
		PendingAction *action = pending_action(from);
		PendingPredecessors *ended = pending_data(action, PendingPredecessors);

		if (action->kind != &ended_predecessors)
			continue;
		result->queue = ended->queue;
		result->relation = ended->relation;
		result->end = ended->end;
		result->n = ended->tasks.n;
		return from;
	}
	return -1;
}

/*
 * Has this transaction ended a task that others may wait for?  Of many not
 * all are looked through: then it is said of each.
 */
bool
pending_predecessors_has(const QueueState *queue, int64 task)
{
	EndedPredecessors action;
	int64		looked = 0;

	for (int at = 0; any && (at = pending_predecessors_next(at, &action)) >= 0; at++)
	{
		for (int64 i = 0; action.queue == queue && i < action.n; i++)
		{
			if (++looked > MAX_LOOKED || pending_predecessors_get(at, i) == task)
				return true;
		}
	}
	return false;
}

/*
 * Task i of an action.
 */
int64
pending_predecessors_get(int number, int64 i)
{
	return id_list_get(&pending_data(pending_action(number), PendingPredecessors)->tasks, i);
}

static void
forget_replaced(PendingAction *action)
{
	ReplacedDependencies *replaced = pending_data(action, ReplacedDependencies);

	if (replaced->predecessors != NULL)
		pfree(replaced->predecessors);
	replaced->predecessors = NULL;
}

static void
refuse_replaced(PendingAction *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has replaced a task that waits for others"),
			 errhint("Replace it in a transaction that is not prepared.")));
}

static const PendingKind replaced_dependencies = {
	.name = "replaced dependencies",
	.commit = forget_replaced,
	.abort = forget_replaced,
	.check_prepare = refuse_replaced,
};

/*
 * A task is replaced, and waits for other tasks than before; the array is
 * copied.
 */
void
pending_dependencies_replaced(const ReplacedDependencies *replaced)
{
	ReplacedDependencies copy = *replaced;

	copy.predecessors = NULL;
	if (copy.n > 0)
	{
		copy.predecessors = MemoryContextAlloc(TopMemoryContext, copy.n * sizeof(int64));
		memcpy(copy.predecessors, replaced->predecessors, copy.n * sizeof(int64));
	}
	*pending_new(replaced_dependencies, ReplacedDependencies) = copy;
	any = true;
}

/*
 * The first action of a replaced task from a number on; -1: none.  The last one
 * of a task says what it waits for.
 */
int
pending_replaced_next(int from, ReplacedDependencies *result)
{
	for (; from < pending_mark(); from++)
	{
		PendingAction *action = pending_action(from);

		if (action->kind != &replaced_dependencies)
			continue;
		*result = *pending_data(action, ReplacedDependencies);
		return from;
	}
	return -1;
}

static void
recount(PendingAction *action)
{
	QueueState *queue = pending_data(action, PendingRecount)->queue;

	successor_filter_recount(&queue->successors);
	worker_slots_wake_at(queue->database, 0);
}

static const PendingKind unknown_dependencies = {
	.name = "unknown dependencies",
	.commit = recount,
	.prepare = recount,
};

/*
 * Held tasks have ended, and it is not known which: what they waited for is
 * looked through.
 */
void
pending_recount_dependencies(QueueState *queue)
{
	for (int i = 1; i <= 8; i++)
	{
		PendingAction *action = pending_find(pending_mark() - i, &unknown_dependencies);

		if (action != NULL && pending_data(action, PendingRecount)->queue == queue)
			return;
	}
	pending_new(unknown_dependencies, PendingRecount)->queue = queue;
}

/*
 * The transaction has ended.
 */
void
pending_successors_end(void)
{
	any = false;
}
