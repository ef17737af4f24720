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

#include "shmem/waiters.h"
#include "xact/id_list.h"
#include "xact/pending.h"
#include "xact/pending_ended.h"
#include "xact/pending_rows.h"

typedef struct PendingEnded
{
	int			queue;
	int			outcome;
	IdList		tasks;
} PendingEnded;

/* The action that was noted last, if it is still there. */
static int	last_ended = -1;

static void
forget_ids(PendingAction *action)
{
	id_list_free(&pending_data(action, PendingEnded)->tasks);
}

static void
tell(PendingAction *action, bool look)
{
	PendingEnded *ended = pending_data(action, PendingEnded);

	pg_memory_barrier();
	for (int64 i = 0; i < ended->tasks.n; i++)
	{
		int64		task = id_list_get(&ended->tasks, i);

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

	Assert(task != 0);
	if (pending_settled_ends(number, task, outcome))
		return;
	last = pending_find(last_ended, &ended_tasks);
	ended = last ? pending_data(last, PendingEnded) : NULL;
	if (ended != NULL && ended->queue == number && ended->outcome == outcome)
	{
		id_list_add(&ended->tasks, task);
		return;
	}
	last_ended = pending_mark();
	ended = pending_new(ended_tasks, PendingEnded);
	memset(ended, 0, sizeof(PendingEnded));
	ended->queue = number;
	ended->outcome = outcome;
	id_list_add(&ended->tasks, task);
}
