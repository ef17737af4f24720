/*-------------------------------------------------------------------------
 *
 * pending_ended.c
 *	  Pending actions about tasks that end: who awaits them is told, and tasks
 *	  that wait for them.
 *
 * Most tasks end with their lease, and then the action that ends the lease
 * tells the task's awaiters, too (pending_leases.c).  Here are the others:
 * tasks that are cancelled, purged or removed with SQL.  A statement that ends
 * a million of them notes their ids in one action.
 *
 * Whether a task is awaited is asked after the commit only: a session that
 * joins before the commit sees the task as it was.
 *
 * No action tells when a prepared transaction ends.  So the awaiters are told
 * to look when it is prepared: one that finds the row in the hands of a
 * prepared transaction looks again from time to time (sql_await.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "shmem/waiters.h"
#include "shmem/worker_slots.h"
#include "xact/pending.h"
#include "xact/pending_ended.h"
#include "xact/pending_rows.h"

/* How many ids the first array has room for. */
#define ID_LIST_FIRST	64

/*
 * n ids, in the order in which they were added: in first if size is 0, else in
 * ids, which is of TopMemoryContext and has room for size.  0 <= n, and n <= 1
 * if size is 0, else n <= size.
 */
typedef struct IdList
{
	int64		n;
	int64		size;			/* of ids; 0: there is the first one only */
	int64		first;
	int64	   *ids;
} IdList;

/* The id at an index, from 0 on, which is below list->n.  Never fails. */
static int64
id_list_get(const IdList *list, int64 i)
{
	Assert(i >= 0 && i < list->n);
	return list->size > 0 ? list->ids[i] : list->first;
}

/*
 * Add an id, as the last.  May fail for want of memory, and then the list is as
 * it was: so it is called before the transaction ends, not in a callback of its
 * end.
 */
static void
id_list_add(IdList *list, int64 id)
{
	if (list->n == 0)
	{
		list->first = id;
		list->n = 1;
		return;
	}
	if (list->size == 0)
	{
		list->ids = MemoryContextAlloc(TopMemoryContext, ID_LIST_FIRST * sizeof(int64));
		list->ids[0] = list->first;
		list->size = ID_LIST_FIRST;
	}
	else if (list->n == list->size)
	{
		list->ids = repalloc_huge(list->ids, 2 * list->size * sizeof(int64));
		list->size *= 2;
	}
	list->ids[list->n++] = id;
}

/*
 * Free the memory of a list, which is empty then.  Never fails: it is called
 * when the transaction has ended.
 */
static void
id_list_free(IdList *list)
{
	if (list->size > 0)
		pfree(list->ids);
	list->size = list->n = 0;
}

/*
 * Tasks of a queue that end in one way, in this subtransaction.  The ids that
 * are beyond the first are in memory of their own, which each callback frees.
 */
typedef struct PendingEnded
{
	QueueState *queue;
	int			how;			/* their outcome, or AWAITERS_LOOK; or a
								 * PredecessorEnd */
	IdList		tasks;
} PendingEnded;

/* The transaction, or this part of it, rolls back: no task has ended. */
static void
forget_ids(PendingAction *action)
{
	id_list_free(&pending_data(action, PendingEnded)->tasks);
}

/*
 * A task of a queue ends: note its id, in the action of the kind that was noted
 * last if that is of the same, else in one more.  *last is the number of that
 * action.  It may be out of date, after a rollback or in the next transaction:
 * pending_find looks whether it is.
 */
static void
note_id(const PendingKind *kind, int *last, QueueState *queue, int how, int64 task)
{
	PendingAction *action = pending_find(*last, kind);
	PendingEnded *ended = action ? pending_data(action, PendingEnded) : NULL;

	if (ended == NULL || ended->queue != queue || ended->how != how)
	{
		*last = pending_mark();
		ended = pending_new(*kind, PendingEnded);
		*ended = (PendingEnded) {.queue = queue,.how = how};
	}
	id_list_add(&ended->tasks, task);
}

/* ----------------------------------------------------------------
 * Who awaits them is told
 * ----------------------------------------------------------------
 */

/*
 * The transaction has ended: tell those who await its tasks.  look: that they
 * are to look for themselves.  The barrier is between the commit, which other
 * processes see by now, and the look for awaiters (race 20).
 */
static void
tell(PendingAction *action, bool look)
{
	PendingEnded *ended = pending_data(action, PendingEnded);
	int			queue = queue_state_number(ended->queue);

	pg_memory_barrier();
	for (int64 i = 0; i < ended->tasks.n; i++)
	{
		int64		task = id_list_get(&ended->tasks, i);

		if (awaiters_any(queue, task))
			awaiters_tell(queue, task, look ? AWAITERS_LOOK : ended->how);
	}
	forget_ids(action);
}

/* The tasks have ended, as the commit makes true. */
static void
tell_outcome(PendingAction *action)
{
	tell(action, false);
}

/*
 * When the prepared transaction ends no callback tells so: see the head of
 * this file.
 */
static void
tell_to_look(PendingAction *action)
{
	tell(action, true);
}

static const PendingKind ended_tasks = {
	.name = "ended tasks",
	.commit = tell_outcome,
	.abort = forget_ids,
	.prepare = tell_to_look,
};

/*
 * A task ends with this transaction, as outcome says (archive.h);
 * AWAITERS_LOOK: its row changes in a way of which it is not known what it
 * means.  Called when the row has been deleted or changed, once for a task.
 *
 * If it ends with its lease, which this transaction has just settled, the
 * action for that tells of it too: an ack notes one action and not two.
 */
void
pending_task_ended(QueueState *queue, int64 task, int outcome)
{
	static int	last = -1;

	Assert(task != 0);
	if (!pending_settled_ends(queue_state_number(queue), task, outcome))
		note_id(&ended_tasks, &last, queue, outcome, task);
}

/* ----------------------------------------------------------------
 * Those that wait for them
 *
 * What a transaction has ended, and which tasks it has replaced, is noted here
 * for the moment before its commit, when successors.c looks after those that
 * wait: so what was rolled back to a savepoint is not among it.
 *
 * What a prepared transaction has replaced would lock rows that others wait for
 * until it ends, so that is refused.
 * ----------------------------------------------------------------
 */

/* So many ended tasks are compared with one, at most. */
#define MAX_LOOKED		1000

/*
 * Has this transaction anything to look after before its commit?  Cleared when
 * it ends, and not when a savepoint is rolled back: a hint, which saves most
 * transactions a walk over the list.
 */
static bool any = false;

/*
 * By now they have been looked after, just before the commit, or have not
 * ended.
 */
static const PendingKind ended_predecessors = {
	.name = "ended predecessors",
	.commit = forget_ids,
	.abort = forget_ids,
	.prepare = forget_ids,
};

/*
 * A task ends that may have successors, or may yet get them.  The caller has
 * asked successor_filter.c that, and has the queue's relation locked.
 */
void
pending_predecessor_ended(QueueState *queue, int64 task, PredecessorEnd end)
{
	static int	last = -1;

	any = true;
	note_id(&ended_predecessors, &last, queue, end, task);
}

/*
 * Is there anything to look after?  A hint: it may have been rolled back.
 * False is true for sure.
 */
bool
pending_predecessors_any(void)
{
	return any;
}

/*
 * The first action of ended tasks from a number on; -1: none.  *result tells
 * of it, and the number is good until the transaction notes or drops
 * something.  The caller goes on from the next number.
 */
int
pending_predecessors_next(int from, EndedPredecessors *result)
{
	for (; from < pending_mark(); from++)
	{
		PendingAction *action = pending_action(from);
		PendingEnded *ended = pending_data(action, PendingEnded);

		if (action->kind != &ended_predecessors)
			continue;
		*result = (EndedPredecessors)
		{
			ended->queue, ended->queue->relation, ended->how, ended->tasks.n
		};
		return from;
	}
	return -1;
}

/*
 * Has this transaction ended a task that others may wait for?  Of more than
 * MAX_LOOKED not all are looked through: then it is said of each.  So a true
 * answer costs its caller a look at the row, and false is sure.
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
 * Task i of an action, whose number pending_predecessors_next has given; i is
 * from 0 to n - 1 of that.
 */
int64
pending_predecessors_get(int number, int64 i)
{
	return id_list_get(&pending_data(pending_action(number), PendingEnded)->tasks, i);
}

/*
 * The array goes with the action.  The caller of pending_replaced_next must
 * not use it after this.
 */
static void
forget_replaced(PendingAction *action)
{
	ReplacedDependencies *replaced = pending_data(action, ReplacedDependencies);

	if (replaced->predecessors != NULL)
		pfree(replaced->predecessors);
	replaced->predecessors = NULL;
}

static const PendingKind replaced_dependencies = {
	.name = "replaced dependencies",
	.commit = forget_replaced,
	.abort = forget_replaced,
	.refused = "cannot PREPARE a transaction that has replaced a task that waits for others",
	.refused_hint = "Replace it in a transaction that is not prepared.",
};

/*
 * A task is replaced, and waits for other tasks than before; the array is
 * copied.  It is written just before the commit, when rows are locked in one
 * order (race 23).  Fails before anything is noted, or not at all; an array
 * that was copied then is lost until the process ends.
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

/* The worker counts what waits in the queue: it is woken for that. */
static void
recount(PendingAction *action)
{
	QueueState *queue = *pending_data(action, QueueState *);

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
 * looked through, in a pass after the commit.  A run of them is one action.
 */
void
pending_recount_dependencies(QueueState *queue)
{
	if (pending_recent(&unknown_dependencies, queue) == NULL)
		*pending_new(unknown_dependencies, QueueState *) = queue;
}

/* The transaction has ended.  A hook at PENDING_AT_END: never fails. */
void
pending_successors_end(void)
{
	any = false;
}
