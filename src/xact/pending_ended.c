/*-------------------------------------------------------------------------
 *
 * pending_ended.c
 *	  Pending actions about tasks that end: who awaits them is told.
 *
 * Most tasks end with their lease, and then the action that ends the lease
 * tells the task's awaiters, too (pending_leases.c).  Here are the others:
 * tasks that are cancelled, purged or removed with SQL.  A statement that ends
 * a million of them notes their ids in one action.
 *
 * Whether anybody awaits a task is asked after the commit only: whoever joins
 * before it sees the task as it was.
 *
 * No action tells when a prepared transaction ends.  So the awaiters are told
 * to look when it is prepared: who finds the row in the hands of a prepared
 * transaction looks again from time to time (sql_await.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "shmem/awaiters.h"
#include "xact/pending.h"
#include "xact/pending_ended.h"
#include "xact/pending_leases.h"

/* How many tasks the first list of ids has room for. */
#define FIRST_IDS	64

typedef struct PendingEnded
{
	int			queue;
	int			outcome;
	int64		n;
	int64		size;			/* of ids; 0: there is the first one only */
	int64		first;
	int64	   *ids;
} PendingEnded;

/* The action that was noted last, if it is still there. */
static int	last_ended = -1;

static int64
ended_id(const PendingEnded *ended, int64 i)
{
	return ended->size > 0 ? ended->ids[i] : ended->first;
}

static void
forget_ids(PendingAction *action)
{
	PendingEnded *ended = pending_data(action, PendingEnded);

	if (ended->size > 0)
		pfree(ended->ids);
	ended->size = ended->n = 0;
}

static void
tell(PendingAction *action, bool look)
{
	PendingEnded *ended = pending_data(action, PendingEnded);

	pg_memory_barrier();
	for (int64 i = 0; i < ended->n; i++)
	{
		int64		task = ended_id(ended, i);

		if (awaiters_any(ended->queue, task))
			awaiters_tell(ended->queue, task, look ? AWAITERS_LOOK : ended->outcome);
	}
	forget_ids(action);
}

static void
tell_outcome(PendingAction *action)
{
	tell(action, false);
}

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

/* The ids of one action become more. */
static void
add_id(PendingEnded *ended, int64 task)
{
	if (ended->n < ended->size)
		 /* there is room */ ;
	else if (ended->size == 0)
	{
		ended->ids = MemoryContextAlloc(TopMemoryContext, FIRST_IDS * sizeof(int64));
		ended->ids[0] = ended->first;
		ended->size = FIRST_IDS;
	}
	else
	{
		ended->ids = repalloc_huge(ended->ids, 2 * ended->size * sizeof(int64));
		ended->size *= 2;
	}
	ended->ids[ended->n++] = task;
}

/*
 * A task ends with this transaction, as outcome says (archive.h);
 * AWAITERS_LOOK: its row changes in a way of which it is not known what it
 * means.
 */
void
pending_task_ended(QueueState *queue, int64 task, int outcome)
{
	int			number = queue_state_number(queue);
	PendingAction *last;
	PendingEnded *ended;

	if (pending_settled_ends(number, task, outcome))
		return;
	last = pending_find(last_ended, &ended_tasks);
	ended = last ? pending_data(last, PendingEnded) : NULL;
	if (ended != NULL && ended->queue == number && ended->outcome == outcome)
	{
		add_id(ended, task);
		return;
	}
	last_ended = pending_mark();
	*pending_new(ended_tasks, PendingEnded) = (PendingEnded)
	{
		.queue = number,
			.outcome = outcome,
			.n = 1,
			.first = task,
	};
}
