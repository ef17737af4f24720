/*-------------------------------------------------------------------------
 *
 * promote_due.c
 *	  Making scheduled tasks ready.
 *
 * A scheduled task has no address: it is in the way of none, however many there
 * are.  When it is due it gets one, as if it were enqueued then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "maintenance/promote_due.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"
#include "xact/pending.h"

/* What became of an entry of a scheduled task. */
typedef enum Promotion
{
	PROMOTED,
	NOT_DUE,					/* moved or gone; whoever did that has said so */
	IN_HANDS					/* of somebody who will not say when he is done */
} Promotion;

static Promotion
promote_entry(Placement *placement, RowReader *row, const DuePlace *entry,
			  TimestampTz now)
{
	switch (row_reader_read(row, &entry->tid))
	{
		case ROW_GONE:
		case ROW_OWN:
			return NOT_DUE;
		case ROW_IN_PROGRESS:
			if (!row->deleting)
				return NOT_DUE;
			return IN_HANDS;
		case ROW_IN_DOUBT:
			return IN_HANDS;
		case ROW_LIVE:
			break;
	}
	if (DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_SCHEDULED ||
		DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)) > now)
		return NOT_DUE;
	return placement_replace(placement, row, false) ? PROMOTED : IN_HANDS;
}

/*
 * Make tasks ready that are due at now; up to max entries of the index are
 * looked at, from *from on, which is moved.  Returns how many are ready.  *more:
 * there are more of them; else *next is when the next one is due.
 *
 * Rows in somebody's hands are not waited for, and nobody else waits for them:
 * the queue remembers them apart, and they are looked at again each second.  If
 * there are too many to remember, all is read again from the first of those on,
 * once everything that is due has been read.
 */
int
promote_due(Relation rel, QueueInfo *info, TimestampTz now, int max,
			DuePlace *from, TimestampTz *next, bool *more)
{
	QueueState *state = info->state;
	DuePlace	skipped[DUE_SKIPPED];
	int			skipped_count = due_cursor_skipped(&state->due, skipped);
	TimestampTz retry = DT_NOEND;
	DuePlace   *entries;
	Placement	placement;
	RowReader	row;
	int			n;
	int			promoted = 0;

	*more = false;
	*next = from->due;
	if (from->due > now && skipped_count == 0)
		return 0;

	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	for (int i = 0; i < skipped_count; i++)
	{
		Promotion	result = promote_entry(&placement, &row, &skipped[i], now);

		if (result != IN_HANDS)
			pending_due_done(&state->due, &skipped[i]);
		promoted += (result == PROMOTED);
	}

	if (from->due <= now)
	{
		bool		held_back = false;
		DuePlace	after;

		entries = palloc(max * sizeof(DuePlace));
		n = queue_index_due(rel, info, from, now, max, entries, &after);
		*from = after;
		*next = from->due;
		*more = (from->due <= now);
		for (int i = 0; i < n; i++)
		{
			Promotion	result;

			CHECK_FOR_INTERRUPTS();
			result = promote_entry(&placement, &row, &entries[i], now);
			promoted += (result == PROMOTED);
			if (result == IN_HANDS && !held_back &&
				!due_cursor_skip(&state->due, &entries[i]))
			{
				pending_due_held(&state->due, &entries[i]);
				held_back = true;
			}
		}
		pfree(entries);
		pending_due_read(&state->due, from);
		if (held_back)
			retry = now + USECS_PER_SEC;
	}
	row_reader_end(&row);
	if (due_cursor_holds(&state->due, now))
		retry = now + USECS_PER_SEC;
	*next = Min(*next, retry);
	return promoted;
}
