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
	ItemPointerData *tids;
	Placement	placement;
	RowReader	row;
	TimestampTz from = queue_state_due_begin(state);
	int			n;
	int			promoted = 0;

	*more = false;
	if (from > now)
	{
		*next = from;
		return 0;
	}
	tids = palloc(max * sizeof(ItemPointerData));
	n = queue_relation_due(rel, info, from, now, max, tids, next);
	*more = (*next <= now);
	if (n > 0)
		placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (row_reader_read(&row, &tids[i]) != ROW_LIVE ||
			DatumGetChar(row_value(&row, COLUMN_STATE)) != TASK_SCHEDULED ||
			DatumGetTimestampTz(row_value(&row, COLUMN_RUN_AT)) > now)
			continue;
		if (!placement_replace(&placement, &row))
			continue;
		handover_count(state, QUEUE_SCHEDULED, -1);
		handover_count(state, QUEUE_ADDRESSED, 1);
		promoted++;
	}
	row_reader_end(&row);
	pfree(tids);
	handover_due_read(state, *next);
	return promoted;
}
