/*-------------------------------------------------------------------------
 *
 * promote.c
 *	  Making waiting tasks ready.
 *
 * A scheduled task has no address: it is not in the way of anybody, however
 * many there are.  When it is due it gets one, as if it were enqueued then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "handover.h"
#include "placement.h"
#include "promote.h"
#include "queue_relation.h"

/*
 * Make up to max tasks ready that are due at now.  Returns how many.  *more:
 * there are more of them; else *next is when the next one is due.
 */
int
promote_due(Relation rel, QueueInfo *info, TimestampTz now, int max,
			TimestampTz *next, bool *more)
{
	QueueState *state = info->state;
	DuePlace   *entries;
	Placement	placement;
	RowReader	row;
	DuePlace	from;
	DuePlace	after;
	DuePlace	skipped = {DT_NOEND, {{0, 0}, 0}};
	int			n;
	int			promoted = 0;

	queue_state_due_begin(state, &from);
	*more = false;
	*next = from.due;
	if (from.due > now)
		return 0;
	entries = palloc(max * sizeof(DuePlace));
	n = queue_relation_due(rel, info, &from, now, max, entries, &after);
	*next = after.due;
	*more = (after.due <= now);
	if (n > 0)
		placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	for (int i = 0; i < n; i++)
	{
		RowStatus	status;

		CHECK_FOR_INTERRUPTS();
		status = row_reader_read(&row, &entries[i].tid);

		/* Who inserts or moves it says so when he commits. */
		if (status == ROW_GONE || status == ROW_OWN ||
			(status == ROW_IN_PROGRESS && !row.deleting))
			continue;
		if (status == ROW_LIVE &&
			(DatumGetChar(row_value(&row, COLUMN_STATE)) != TASK_SCHEDULED ||
			 DatumGetTimestampTz(row_value(&row, COLUMN_RUN_AT)) > now))
			continue;

		/* In somebody's hands: come again, and do not wait. */
		if (status != ROW_LIVE || !placement_replace(&placement, &row, false))
		{
			if (skipped.due == DT_NOEND)
				skipped = entries[i];
			continue;
		}
		handover_count(state, QUEUE_SCHEDULED, -1);
		handover_count(state, QUEUE_ADDRESSED, 1);
		promoted++;
	}
	row_reader_end(&row);
	pfree(entries);
	handover_due_read(state, skipped.due == DT_NOEND ? &after : &skipped);
	if (skipped.due != DT_NOEND)
	{
		/* Those after it were looked at, and will be again. */
		*more = false;
		*next = Min(*next, now + USECS_PER_SEC);
	}
	return promoted;
}
