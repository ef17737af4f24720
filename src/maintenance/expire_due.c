/*-------------------------------------------------------------------------
 *
 * expire_due.c
 *	  Ending the tasks of a queue that have expired.
 *
 * Whatever its state, a task with an expires_at has an entry in an index on
 * that, but if it is dead.  So the pass finds those that have expired wherever
 * they wait: deep in a backlog, in the overflow, held, scheduled, parked for
 * a limit, in a queue that is paused.
 *
 * The cursor goes past a task that is leased.  When the lease ends and the
 * task is as it was, the queue is told its id (queue_state_outlived).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "common/wall_clock.h"
#include "maintenance/maintain.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"
#include "verbs/ended_tasks.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"

/* How long to leave tasks alone that could not be ended, at most. */
#define LAST_RETRY		(300 * USECS_PER_SEC)

static inline bool
any_outlived(QueueState *state)
{
	return ((volatile QueueState *) state)->expiry.outlived_count > 0;
}

/*
 * Would a pass end anything now?
 */
bool
expire_is_due(QueueState *state, TimestampTz now)
{
	return index_cursor_next(&state->expiry.cursor) <= now || any_outlived(state);
}

/*
 * Some task could not be ended, perhaps for code of the owner's: report it
 * once.  What could not be ended is left alone for a while, the longer the more
 * often it was tried; other tasks are not.
 */
static void
failed(Pass *pass, ErrorData *error)
{
	QueueExpiry *expiry = &pass->info->state->expiry;

	if (error->sqlerrcode != expiry->sqlerrcode)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not end tasks of queue \"%s\" that have expired: %s",
						pass->info->name, error->message),
				 error->detail ? errdetail_internal("%s", error->detail) : 0,
				 errhint("They are not claimed, and it is tried again from time to time.")));
	expiry->sqlerrcode = error->sqlerrcode;
	if (expiry->retry_at <= pass->now)
		expiry->retry_at = wall_clock_retry(pass->now, expiry->failures++, LAST_RETRY);
	FreeErrorData(error);
}

/*
 * End the tasks at n places that have expired.  Returns how many have ended.
 * An error is no reason for the rest of a pass to fail, nor for other tasks to
 * stay: if there is one they are ended one by one.
 */
static int
end_tasks(Pass *pass, int n, ExpireEntry *entries)
{
	ErrorData  *error;
	int			ended = 0;

	if (n == 0)
		return 0;
	error = expire_tasks(pass->rel, pass->info, n, entries, false, &ended);
	if (error == NULL)
		return ended;
	failed(pass, error);
	for (int i = 0; i < n; i++)
	{
		error = expire_tasks(pass->rel, pass->info, 1, &entries[i], false, &ended);
		if (error == NULL)
			continue;
		failed(pass, error);
		entries[i].result = EXPIRE_IN_HANDS;
	}
	return ended;
}

/*
 * Remember what could not be ended, for another transaction had it, or code of
 * the owner's failed.  Returns whether there is too much of that: then all is
 * read again.
 */
static bool
note_results(IndexCursor *cursor, int n, const IndexPosition *places, const ExpireEntry *entries)
{
	for (int i = 0; i < n; i++)
	{
		if (entries[i].result == EXPIRE_IN_HANDS && !index_cursor_skip(cursor, &places[i]))
		{
			IndexPosition from = places[i];

			/* The entry of a row may be of an earlier version. */
			ItemPointerSet(&from.tid, 0, 0);
			pending_due_read(index_cursor_hold, cursor, &from);
			return true;
		}
	}
	return false;
}

/*
 * Look up the tasks whose leases have ended since they expired.  Returns how
 * many have ended.  *again is set if there is too much that could not be.
 */
static int
expire_outlived(Pass *pass, bool *again)
{
	QueueState *state = pass->info->state;
	int64		tasks[OUTLIVED_TASKS];
	ExpireEntry entries[OUTLIVED_TASKS];
	IndexPosition places[OUTLIVED_TASKS] = {0};
	RowReader	row;
	int			found = 0;
	int			n;
	int			ended;

	*again = false;
	if (likely(!any_outlived(state)))
		return 0;
	pending_reserve(1);
	n = queue_state_take_outlived(state, tasks);
	pending_outlived_taken(state);
	row_reader_begin(&row, pass->rel, pass->info);
	for (int i = 0; i < n; i++)
	{
		RowStatus	status = row_reader_task(&row, tasks[i], NULL);

		if (status == ROW_LIVE && !row_is_null(&row, COLUMN_EXPIRES_AT))
		{
			entries[found].tid = places[found].tid = row.tuple.t_self;
			places[found].due = DatumGetTimestampTz(row_value(&row, COLUMN_EXPIRES_AT));
			entries[found++].id = tasks[i];
		}
		else if (status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT)
			index_cursor_add(&state->expiry.cursor, DT_NOBEGIN);
	}
	row_reader_end(&row);
	ended = end_tasks(pass, found, entries);

	*again = note_results(&state->expiry.cursor, found, places, entries);
	/* Should the clock have been set back, they expire once more. */
	for (int i = 0; i < found; i++)
	{
		if (entries[i].result == EXPIRE_NOT)
			pending_expiry(state, places[i].due);
	}
	return ended;
}

/* When to come for what expires at a time. */
static TimestampTz
come_for(TimestampTz expires_at)
{
	return expires_at > DT_NOEND - EXPIRY_USECS ? DT_NOEND : expires_at + EXPIRY_USECS;
}

/*
 * End tasks that have expired; up to pass->max entries of the index are looked
 * at, from *from on, which is moved.  Returns how many have ended.
 *
 * Rows that other transactions write are not waited for, as in promote_due();
 * nor are those waited for whose end fails.
 */
int
expire_due(Pass *pass, IndexPosition *from)
{
	QueueExpiry *expiry = &pass->info->state->expiry;
	IndexCursor *cursor = &expiry->cursor;
	TimestampTz now = pass->now;
	IndexPosition skipped[INDEX_CURSOR_SKIPPED];
	int			skipped_count = 0;
	ExpireEntry *entries;
	TimestampTz retry_at;
	bool		again;
	int			ended;

	AssertMaintenanceLocked(pass->rel);
	if (expiry->retry_at <= now)
		skipped_count = index_cursor_skipped(cursor, skipped);
	ended = expire_outlived(pass, &again);
	entries = palloc0((pass->max + INDEX_CURSOR_SKIPPED) * sizeof(ExpireEntry));
	for (int i = 0; i < skipped_count; i++)
		entries[i].tid = skipped[i].tid;
	ended += end_tasks(pass, skipped_count, entries);
	for (int i = 0; i < skipped_count; i++)
	{
		if (entries[i].result != EXPIRE_IN_HANDS)
			pending_due_read(index_cursor_done, cursor, &skipped[i]);
	}

	if (from->due <= now)
	{
		PlaceRead	read = {.max = pass->max,.last = now,.next = *from};
		int			n;

		read.entries = palloc(pass->max * sizeof(IndexPosition));
		n = queue_index_places(pass->rel, pass->info->expiry_index, &read);
		*from = read.next;
		for (int i = 0; i < n; i++)
			entries[i] = (ExpireEntry) {.tid = read.entries[i].tid};
		ended += end_tasks(pass, n, entries);
		again |= note_results(cursor, n, read.entries, entries);
		pending_due_read(index_cursor_end, cursor, from);
		pfree(read.entries);
	}
	pfree(entries);

	pass->more |= (from->due <= now);
	retry_at = Max(now + USECS_PER_SEC, expiry->retry_at);
	if (again)
		index_cursor_rest(cursor, retry_at);
	again |= index_cursor_holds(cursor, now);
	/* What is in others' hands has been passed over, and is still there. */
	if (from->due > now && !again)
	{
		expiry->passed_over = false;
		expiry->failures = expiry->sqlerrcode = 0;
	}
	pass_again(pass, come_for(from->due));
	if (again)
		pass_again(pass, retry_at);
	return ended;
}
