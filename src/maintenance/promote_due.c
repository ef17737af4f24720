/*-------------------------------------------------------------------------
 *
 * promote_due.c
 *	  Making scheduled tasks ready.
 *
 * A scheduled task has no address: it is in the way of none, however many there
 * are.  When it is due it gets one, as if it were enqueued then.
 *
 * Of suspects only so many may have one at a time (suspects.c), and it is the
 * first.  Those for which there is no room stay scheduled, and are looked at
 * each second.  So do tasks of groups for which there are no entries.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "maintenance/maintain.h"
#include "shmem/leases.h"
#include "shmem/waiters.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"
#include "xact/pending_queue.h"

/* When to read many again of which some were refused, in microseconds. */
#define CARE_REST		(10 * USECS_PER_SEC)

/* What became of an entry of a scheduled task. */
typedef enum Promotion
{
	PROMOTED,
	NOT_DUE,					/* moved or gone, and whoever did that has
								 * said so; or expired, which is for another
								 * pass */
	IN_HANDS					/* being written, or leased: its end will not
								 * be told; or there is no room for it, or it
								 * was refused */
} Promotion;

/* An entry by itself. */
typedef struct PromoteOne
{
	Pass	   *pass;
	const IndexPosition *entry;
	Promotion	result;
} PromoteOne;

/*
 * Forget the suspects that have no place any more: they have ended, or were put
 * back, or were moved with SQL.
 */
static void
forget_suspects(Pass *pass, RowReader *row)
{
	QueueState *state = pass->info->state;
	int64		tasks[SUSPECT_TASKS];
	int			n = suspects_copy(state, tasks);
	LeaseInfo	lease;
	RowStatus	status;

	for (int i = 0; i < n; i++)
	{
		if (leases_find(queue_state_number(state), tasks[i], &lease))
			continue;
		status = row_reader_task(row, tasks[i], NULL);
		if (status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT)
			continue;
		if (status == ROW_GONE || !row_reader_is_suspect(row) ||
			DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_READY)
			suspects_forget(state, tasks[i]);
	}
	if (suspects_any(state))
		pass_again(pass, pass->now + USECS_PER_SEC);
}

/*
 * Make the suspect ready that row has read, if there is room for it.
 */
static Promotion
promote_suspect(Placement *placement, RowReader *row)
{
	QueueState *state = row->info->state;
	int64		task = DatumGetInt64(row_value(row, COLUMN_ID));

	if (!suspects_note(state, task))
		return IN_HANDS;
	if (!placement_suspect(placement, row, false))
	{
		suspects_forget(state, task);
		return IN_HANDS;
	}

	/* Those that sleep may be the only ones that may have it. */
	waiters_look_anew(state);
	return PROMOTED;
}

static Promotion
promote_entry(Placement *placement, RowReader *row, const IndexPosition *entry,
			  TimestampTz now)
{
	RowStatus	status = row_reader_read(row, &entry->tid);
	LeaseInfo	lease;

	if (status == ROW_IN_DOUBT || (status == ROW_IN_PROGRESS && row->deleting))
		return IN_HANDS;
	/* Where SQL has left its address the task is claimed there. */
	if (status != ROW_LIVE || !row_is_null(row, COLUMN_ADDRESS) ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_SCHEDULED ||
		DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)) > now ||
		row_reader_has_expired(row))
		return NOT_DUE;
	/* SQL has put it off while it was leased: it counts when that is over. */
	if (unlikely(row_reader_lease(row, &lease)))
		return IN_HANDS;
	if (unlikely(!placement_has_room(row)))
		return IN_HANDS;
	if (unlikely(row_reader_is_suspect(row)))
		return promote_suspect(placement, row);
	return placement_replace(placement, row, false) ? PROMOTED : IN_HANDS;
}

/*
 * One entry, with readers of its own.
 */
static void
promote_alone(void *arg)
{
	PromoteOne *one = arg;
	Pass	   *pass = one->pass;
	Placement	placement;
	RowReader	row;

	placement_begin(&placement, pass->rel, pass->info);
	row_reader_begin(&row, pass->rel, pass->info);
	one->result = promote_entry(&placement, &row, one->entry, pass->now);
	row_reader_end(&row);
}

static Promotion
promote(Pass *pass, Placement *placement, RowReader *row, const IndexPosition *entry)
{
	PromoteOne	one = {.pass = pass,.entry = entry};

	CHECK_FOR_INTERRUPTS();
	if (likely(!pass->care))
		return promote_entry(placement, row, entry, pass->now);
	return pass_try(pass, "make due tasks ready", promote_alone, &one) ? one.result : IN_HANDS;
}

/*
 * Make scheduled tasks ready that are due; up to pass->max entries of the
 * index are looked at, from *from on, which is moved.  Returns how many are
 * ready.
 *
 * Rows that other transactions write are not waited for, and nothing else
 * waits for them: the queue remembers them apart, and they are looked at again
 * each second.  If there are too many to remember, all is read again from the
 * first of those on, a second after everything that is due has been read.
 */
int
promote_due(Pass *pass, IndexPosition *from)
{
	IndexCursor *cursor = &pass->info->state->due;
	TimestampTz now = pass->now;
	IndexPosition skipped[INDEX_CURSOR_SKIPPED];
	int			skipped_count = index_cursor_skipped(cursor, skipped);
	bool		retry = false;
	Placement	placement;
	RowReader	row;
	int			promoted = 0;

	AssertMaintenanceLocked(pass->rel);
	if (from->due > now && skipped_count == 0 && !suspects_any(pass->info->state))
	{
		pass_again(pass, index_cursor_next(cursor));
		return 0;
	}

	placement_begin(&placement, pass->rel, pass->info);
	row_reader_begin(&row, pass->rel, pass->info);
	forget_suspects(pass, &row);
	for (int i = 0; i < skipped_count; i++)
	{
		Promotion	result = promote(pass, &placement, &row, &skipped[i]);

		if (result != IN_HANDS)
			pending_due_read(index_cursor_done, cursor, &skipped[i]);
		promoted += (result == PROMOTED);
	}

	if (from->due <= now)
	{
		PlaceRead	read = {
			.max = pass->max,
			.last = now,
			.next = *from,
		};
		int			n;

		read.entries = palloc(pass->max * sizeof(IndexPosition));
		n = queue_index_places(pass->rel, pass->info->due_index, &read);
		*from = read.next;
		for (int i = 0; i < n; i++)
		{
			Promotion	result = promote(pass, &placement, &row, &read.entries[i]);

			promoted += (result == PROMOTED);
			if (result == IN_HANDS && !retry && !index_cursor_skip(cursor, &read.entries[i]))
			{
				pending_due_read(index_cursor_hold, cursor, &read.entries[i]);
				retry = true;
			}
		}
		pfree(read.entries);
		pending_due_read(index_cursor_end, cursor, from);
	}
	row_reader_end(&row);
	pass->more |= (from->due <= now);
	pass_again(pass, from->due);
	if (retry)
		index_cursor_rest(cursor, now + (pass->care ? CARE_REST : USECS_PER_SEC));
	if (retry || index_cursor_holds(cursor, now))
		pass_again(pass, now + USECS_PER_SEC);
	return promoted;
}
