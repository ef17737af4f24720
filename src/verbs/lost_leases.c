/*-------------------------------------------------------------------------
 *
 * lost_leases.c
 *	  Leases that end without an answer.
 *
 * Its deadline has passed, or its session is over.  Then the task is put back
 * by a pass.  Whether that counts depends on who has ended it:
 *
 *	 The worker has not answered in time, or is gone: the lease is *lost*.  The
 *	 task may be the cause, or may have been beside it.  It counts in column
 *	 "lost", apart from attempts, which are what was answered; after max_lost
 *	 of these the task is dead.  The error of a failure is never overwritten.
 *
 *	 The server has (a shutdown, a restart, a switchover, pg_terminate_backend),
 *	 or the worker has closed its session in order: the lease is *excused*.
 *	 The task is given back as it was, and nothing is written.
 *
 * Locking: the maintenance lock.  Nothing is waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"
#include "shmem/stats.h"
#include "storage/durable_leases.h"
#include "storage/recovery.h"
#include "verbs/ended_tasks.h"
#include "verbs/pass.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/*
 * What an error of ours has in it, by which it is known again: the text of
 * column last_error is all that tells a loss from a failure.
 */
#define LAST_TIME	", the last time by "
#define IT_FAILED	"\nbefore that it failed: "

/*
 * A pass over leases of a queue that have run out, and what is read and written
 * with.
 */
typedef struct LostLeases
{
	Pass	   *pass;
	RowReader	row;			/* of the task of the lease that is being
								 * ended */
	Placement	placement;		/* for those that are put back */

	/*
	 * Of a lease that is ended by itself, in a subtransaction, where one has
	 * failed before.
	 */
	const LeaseInfo *lease;
	int			settled;		/* as pending_settled has it */
	bool		ended;			/* the result, as end_lease has it */
} LostLeases;

/*
 * Is it neither the worker nor the task that has ended a lease?
 *
 * The session of a lease keeps its slot, for the lease is settling.
 */
static bool
is_excused(const LeaseInfo *lease)
{
	SessionInfo session;

	/*
	 * It was restored, or its claim was rolled back after the receipt was
	 * passed on.
	 */
	if (lease->excused)
		return true;
	return lease->session != NO_SESSION &&
		(!sessions_look(lease->session, &session) || session.excused);
}

/* How many lost leases a task has until it is dead; 0: no limit. */
static int
max_lost_of(RowReader *row)
{
	if (!row_is_null(row, COLUMN_MAX_LOST))
		return DatumGetInt32(row_value(row, COLUMN_MAX_LOST));
	return row->info->max_lost;
}

/* How a lease was lost: for people, and in the history of the task. */
static const char *
reason(const LeaseInfo *lease)
{
	return (lease->session != NO_SESSION && sessions_alive_until(lease->session) == 0) ?
		"session over" : "lease expired";
}

/*
 * What is said of a task that was lost for the n-th time.  Palloc'd; its
 * beginning and LAST_TIME are what failure_of knows it by.
 */
static text *
lost_error(const LeaseInfo *lease, int n)
{
	TimestampTz now = GetCurrentTimestamp();

	return cstring_to_text(psprintf("lost %d %s" LAST_TIME "%s after %.1f s: %s",
									n, n == 1 ? "time" : "times",
									task_history_worker(lease),
									Max(now - lease->started, 0) / (double) USECS_PER_SEC,
									reason(lease)));
}

/*
 * The error of the last failure of the task that row has read, as far as its
 * last error tells; NULL: none.  An error that an application gave, and that
 * looks like ours, is taken for ours.
 */
static const char *
failure_of(RowReader *row)
{
	const char *error;
	const char *before;

	if (row_is_null(row, COLUMN_LAST_ERROR))
		return NULL;
	error = TextDatumGetCString(row_value(row, COLUMN_LAST_ERROR));
	if (strncmp(error, "lost ", 5) != 0 || strstr(error, LAST_TIME) == NULL)
		return error;
	before = strstr(error, IT_FAILED);
	return before == NULL ? NULL : before + strlen(IT_FAILED);
}

/*
 * The error that a task keeps that was lost: that of its last failure, if it
 * has failed; and if it dies of its losses, both.
 *
 * Column last_error of the row that was read is set; it is written by the
 * caller.
 */
static void
set_error(RowReader *row, text *error, bool dead)
{
	const char *failure = failure_of(row);

	if (failure != NULL && dead)
		error = cstring_to_text(psprintf("%s" IT_FAILED "%s", text_to_cstring(error), failure));
	else if (failure != NULL)
		error = cstring_to_text(failure);
	row_value(row, COLUMN_LAST_ERROR) = PointerGetDatum(error);
	row_is_null(row, COLUMN_LAST_ERROR) = false;
}

/*
 * The task that row has read was lost.  Returns false if another transaction
 * has the row.
 *
 * The lease is settling.  The task waits as after a failure, by how often it
 * was lost, or is dead.
 */
static bool
lose(LostLeases *leases, const LeaseInfo *lease)
{
	RowReader  *row = &leases->row;
	int			lost = Min(row_reader_lost(row), PG_INT32_MAX - 1) + 1;
	int			max_lost = max_lost_of(row);
	bool		dead = (max_lost > 0 && lost >= max_lost);
	text	   *error = lost_error(lease, lost);

	row_value(row, COLUMN_LOST) = Int32GetDatum(lost);
	row_is_null(row, COLUMN_LOST) = false;
	task_history_add(row, lease, true, cstring_to_text(reason(lease)));
	set_error(row, error, dead);
	if (dead)
		return put_back_dead(row, false);
	return put_back_again(&leases->placement, row, put_back_backoff(row->info, lost), false);
}

/*
 * End a lease that has run out, and is settling.  Returns false if the row is
 * being written by another transaction, with SQL or by a cancel, or that one
 * has yet to tell: it is not waited for, and the lease stays as it is, for the
 * next pass.  So does that of a durable lease whose claim has not ended.
 *
 * Nothing was changed if the result is false: the caller unsettles the lease.
 * With true it ends with the transaction, whatever has become of the row.
 */
static bool
end_lease(LostLeases *leases, const LeaseInfo *lease, int settled)
{
	RowReader  *row = &leases->row;
	QueueInfo  *info = row->info;
	RowStatus	status;

	if (durable_leases_busy(row->rel, info, lease))
		return false;
	status = row_reader_task(row, lease->task, &lease->tid);
	if (status == ROW_LIVE && !row_reader_is_where(row, &lease->tid) &&
		!row_reader_wait_writer(&row->tuple, false))
		return false;
	if (status == ROW_LIVE && row_reader_is_placed(row))
	{
		/*
		 * Held in vain, it was of another task of this id: claims that have met
		 * the lease have passed the task by.
		 */
		if (lease->deadline == LEASE_VAIN_UNTIL || is_excused(lease))
			put_back_at_place(row, lease->task, settled);
		else if (lose(leases, lease))
		{
			stats_tally(info->state, QUEUE_EXPIRED, 1);
			put_back_count_name(row, NAME_LOST);
		}
		else
			return false;
	}
	else if (status != ROW_GONE && status != ROW_LIVE)
		return false;
	else
	{
		/* It is gone, or SQL has moved it.  Others may be held behind it. */
		pending_settled_gone(settled, true);
		pending_look(info->state);
	}
	durable_leases_delete(row->rel, info, lease);
	return true;
}

/*
 * End a lease with a reader of its own.
 *
 * For pass_try, which rolls back if this fails.
 */
static void
end_alone(void *arg)
{
	LostLeases *leases = arg;

	row_reader_begin(&leases->row, leases->pass->rel, leases->pass->info);
	leases->ended = end_lease(leases, leases->lease, leases->settled);
	row_reader_end(&leases->row);
}

/*
 * End a lease; one by one where a pass has failed before, so that one task
 * whose row cannot be written does not keep all others.  Returns false if it
 * has not ended.
 */
static bool
end_with_care(LostLeases *leases, const LeaseInfo *lease, int settled)
{
	LostLeases	alone = {.pass = leases->pass,.lease = lease,.settled = settled};

	if (likely(!leases->pass->care))
		return end_lease(leases, lease, settled);
	return pass_try(leases->pass, "put back lost tasks", end_alone, &alone) && alone.ended;
}

/*
 * Put back the tasks of up to pass->max leases that have run out.  Returns how
 * many were.
 *
 * The caller is in a pass (maintain.c).  Each lease is marked first, and noted
 * at once with room that was reserved: whatever fails then unsettles it (race
 * 5).  What could not be put back stays in the list of the expired, and is met
 * by the next pass.  May fail.
 */
int
lost_leases_end(Pass *pass)
{
	QueueInfo  *info = pass->info;
	LostLeases	leases = {.pass = pass};
	LeaseInfo  *expired;
	int			put = 0;
	int			n;

	AssertMaintenanceLocked(pass->rel);
	Assert(pass->max > 0);
	if (pg_atomic_read_u32(&info->state->expired) == 0)
		return 0;
	recovery_try_tags(pass->rel, info);
	expired = palloc(pass->max * sizeof(LeaseInfo));
	n = leases_expired(queue_state_number(info->state), pass->max, expired);
	row_reader_begin(&leases.row, pass->rel, info);
	for (int i = 0; i < n; i++)
	{
		LeaseInfo  *lease = &expired[i];
		int			settled;

		CHECK_FOR_INTERRUPTS();
		pending_reserve(8);
		if (!leases_settle_expired(&lease->ref, lease))
			continue;			/* acked, extended or given up just now */

		settled = pending_settled(lease);
		if (end_with_care(&leases, lease, settled))
			put++;
		else
			pending_not_settled(settled);
	}
	row_reader_end(&leases.row);
	pfree(expired);
	return put;
}
