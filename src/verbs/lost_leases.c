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
#include "xact/pending_rows.h"

/* What an error of ours has in it, by which it is known again. */
#define LAST_TIME	", the last time by "
#define IT_FAILED	"\nbefore that it failed: "

/* A pass over leases of a queue that have run out. */
typedef struct LostLeases
{
	Relation	rel;
	QueueInfo  *info;
	RowReader	row;
	PutBack		back;
} LostLeases;

/* A lease by itself. */
typedef struct EndOne
{
	Pass	   *pass;
	const LeaseInfo *lease;
	int			settled;
	bool		ended;
} EndOne;

/*
 * Is it neither the worker nor the task that has ended a lease?
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

/*
 * The lease on the task that row has read ends, and was another's of the same
 * id: claims that met the lease have passed it by.
 */
static void
offer_again(RowReader *row)
{
	QueueInfo  *info = row->info;

	if (row_is_null(row, COLUMN_ADDRESS))
		queue_order_overflow_lost(info->state, row_reader_class(row),
								  DatumGetInt64(row_value(row, COLUMN_ID)));
	else
	{
		FairqAddress *address = DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));

		pending_offer_at_commit(placement_lane(info, address), address, &row->tuple.t_self);
	}
}

/* How many lost leases a task has; 0: no limit. */
static int
max_lost_of(RowReader *row)
{
	if (!row_is_null(row, COLUMN_MAX_LOST))
		return DatumGetInt32(row_value(row, COLUMN_MAX_LOST));
	return row->info->max_lost;
}

/*
 * How a lease was lost.
 */
static const char *
reason(const LeaseInfo *lease)
{
	return (lease->session != NO_SESSION && sessions_alive_until(lease->session) == 0) ?
		"session over" : "lease expired";
}

/*
 * What is said of a task that was lost for the n-th time.
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
 * last error tells; NULL: none.
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
	return put_back_again(&leases->back, row, put_back_backoff(row->info, lost), false);
}

/*
 * End a lease that has run out, and is settling.  Returns false if the row is
 * being written by another transaction, with SQL or by a cancel: it is not
 * waited for, and the lease stays as it is, for the next pass.  So does that
 * of a durable lease whose claim has not ended.
 */
static bool
end_lease(LostLeases *leases, const LeaseInfo *lease, int settled)
{
	RowReader  *row = &leases->row;
	RowStatus	status;

	if (durable_leases_busy(leases->rel, leases->info, lease))
		return false;
	status = row_reader_task(row, lease->task, &lease->tid);
	if (status == ROW_LIVE && row_reader_is_placed(row))
	{
		if (lease->deadline == LEASE_VAIN_UNTIL)
			offer_again(row);
		else if (is_excused(lease))
			put_back_at_place(row, lease->task, settled);
		else if (lose(leases, lease))
		{
			stats_tally(leases->info->state, QUEUE_EXPIRED, 1);
			put_back_count_name(row, NAME_LOST);
		}
		else
			return false;
	}
	else if (status != ROW_GONE && status != ROW_LIVE)
		return false;
	/* Else nothing is put back: the row is gone, or was moved with SQL. */
	durable_leases_delete(leases->rel, leases->info, lease);
	return true;
}

/*
 * End a lease with a reader of its own.
 */
static void
end_alone(void *arg)
{
	EndOne	   *one = arg;
	LostLeases	leases = {.rel = one->pass->rel,.info = one->pass->info};

	row_reader_begin(&leases.row, leases.rel, leases.info);
	one->ended = end_lease(&leases, one->lease, one->settled);
	row_reader_end(&leases.row);
}

static bool
end_with_care(Pass *pass, LostLeases *leases, const LeaseInfo *lease, int settled)
{
	EndOne		one = {.pass = pass,.lease = lease,.settled = settled};

	if (likely(!pass->care))
		return end_lease(leases, lease, settled);
	return pass_try(pass, "put back lost tasks", end_alone, &one) && one.ended;
}

/*
 * Put back the tasks of up to pass->max leases that have run out.  Returns how
 * many were.
 */
int
lost_leases_end(Pass *pass)
{
	Relation	rel = pass->rel;
	QueueInfo  *info = pass->info;
	int			max = pass->max;
	LostLeases	leases = {.rel = rel,.info = info};
	LeaseInfo  *expired;
	int			put = 0;
	int			n;

	AssertMaintenanceLocked(rel);
	Assert(max > 0);
	if (pg_atomic_read_u32(&info->state->expired) == 0)
		return 0;
	recovery_try_tags(rel, info);
	expired = palloc(max * sizeof(LeaseInfo));
	n = leases_expired(queue_state_number(info->state), max, expired);
	row_reader_begin(&leases.row, rel, info);
	for (int i = 0; i < n; i++)
	{
		LeaseInfo  *lease = &expired[i];
		int			settled;

		CHECK_FOR_INTERRUPTS();
		pending_reserve(8);
		if (!leases_settle_expired(&lease->ref, lease))
			continue;			/* acked, extended or given up just now */

		settled = pending_settled(lease);
		if (end_with_care(pass, &leases, lease, settled))
			put++;
		else
			pending_not_settled(settled);
	}
	row_reader_end(&leases.row);
	pfree(expired);
	return put;
}
