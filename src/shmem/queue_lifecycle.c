/*-------------------------------------------------------------------------
 *
 * queue_lifecycle.c
 *	  What happens to all parts of a queue's shared state at once.
 *
 * queue_state.c makes the state of a queue; each module of this folder keeps
 * its own part.  Here they are told that the queue is gone, or that its
 * settings have changed.
 *
 * Locking: a queue is made and released with the directory locked exclusively,
 * and each module takes its own locks under that: so this is the outermost lock
 * of ours.  Who uses a queue has its relation locked, and who releases it knows
 * that no other process has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "common/contracts.h"
#include "common/settings.h"
#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"
#include "shmem/stats.h"
#include "shmem/waiters.h"

/*
 * The shared state of a queue of this database, made if there is none.  The
 * caller has the relation locked, in any mode: the result is good until that is
 * unlocked.  classes is 1, or FAIRQ_CLASSES under policy fair.  Raises an error
 * if there is no room; the caller has tried gone_queues_release() before.
 */
QueueState *
queue_lifecycle_attach(Oid relation, int classes)
{
	QueueState *queue = queue_state_find(relation);

	AssertOidLocked(relation);
	if (queue != NULL)
		return queue;

	queue_state_lock_all(LW_EXCLUSIVE);
	queue = queue_state_search(MyDatabaseId, relation);
	if (queue == NULL)
	{
		queue = queue_state_make(MyDatabaseId, relation, classes);
		if (queue != NULL)
			stats_init_queue(queue_state_number(queue));
	}
	queue_state_unlock_all();

	if (queue == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot use more than %d queues at a time",
						settings_max_queues),
				 errhint("Raise the setting \"%s\" and restart the server, or drop queues that are not needed.",
						 "pgfairq.max_queues")));
	return queue;
}

/*
 * Forget a queue whose relation is gone (or all of a database's, when
 * relation is InvalidOid): its leases, its lanes, its groups.  No other process
 * uses it: its relation is gone or locked exclusively, or its database is gone.
 * Never fails: called when a transaction commits that has dropped a queue, and
 * when one aborts that has made it.
 */
void
queue_lifecycle_release(Oid database, Oid relation)
{
	QueueState *queue;

	queue_state_lock_all(LW_EXCLUSIVE);
	for (int n = 0; (queue = queue_state_next(&n)) != NULL;)
	{
		int			number = queue_state_number(queue);

		if (queue->database != database ||
			(OidIsValid(relation) && queue->relation != relation))
			continue;

		/*
		 * Leases go first: one that ends counts its task again in its group,
		 * and may begin the group's line in a lane.
		 */
		leases_forget_queue(number);
		limit_room_forget_queue(number);
		group_forget_queue(number);
		limit_table_forget_queue(number);
		name_stats_forget_queue(number);
		sessions_forget_queue(queue);
		for (int class = 0; class < queue->classes; class++)
			lane_table_give_back(&queue->orders[class].lanes);
		queue->in_use = false;

		/* Those that sleep for the queue wake up, and find that it is gone. */
		waiters_queue_gone(number);
		awaiters_look_again(number);
	}
	queue_state_unlock_all();
}

/*
 * Settings of a queue of this database have changed, and that has committed.
 * Other backends are sent invalidations a moment later, when those who waited
 * for the change may have looked already: so it is counted, too, and all that
 * sleep for tasks of the queue look anew.  Never fails: called at commit, and
 * when a transaction is prepared.
 */
void
queue_lifecycle_settings_changed(Oid relation)
{
	QueueState *queue = queue_state_find(relation);

	if (queue != NULL)
	{
		pg_atomic_fetch_add_u32(&queue->published.changes, 1);
		waiters_look_anew(queue);
	}
}
