/*-------------------------------------------------------------------------
 *
 * promote.c
 *	  Making waiting tasks ready.
 *
 * A scheduled task has no address: it is not in the way of anybody, however
 * many there are.  When it is due it gets one, as if it were enqueued then.
 *
 * Nor has a task in the overflow.  It gets one when its group has room again, and
 * only then is charged for: a weight that was changed meanwhile holds for it.
 * Groups are fed in turn, each up to what there is room for (groups.c).
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
#include "recovery.h"

/*
 * How long to wait before looking for groups with room for their overflow that
 * nobody noticed, and how many times before all look at the tasks again that were
 * in somebody's hands.
 */
#define SEEK_USECS		(USECS_PER_SEC / 2)
#define SEEKS_HELD		4

/* Entries of the overflow that a pass looks at, and at least at a time. */
#define PASS_LOOKS		10000
#define FEED_LOOKS		32

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
			handover_due_done(&state->due, &skipped[i]);
		promoted += (result == PROMOTED);
	}

	if (from->due <= now)
	{
		bool		held_back = false;
		DuePlace	after;

		entries = palloc(max * sizeof(DuePlace));
		n = queue_relation_due(rel, info, from, now, max, entries, &after);
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
				handover_due_held(&state->due, &entries[i]);
				held_back = true;
			}
		}
		pfree(entries);
		handover_due_read(&state->due, from);
		if (held_back)
			retry = now + USECS_PER_SEC;
	}
	row_reader_end(&row);
	if (due_cursor_holds(&state->due, now))
		retry = now + USECS_PER_SEC;
	*next = Min(*next, retry);
	return promoted;
}

/*
 * See to it that groups that have room are in the list of the hungry, though
 * nobody noticed that they have.  Done now and then while there is any overflow,
 * and the less often the longer it takes.  Returns when to do it again.
 */
static TimestampTz
seek_hungry(QueueState *state, TimestampTz now)
{
	TimestampTz begun = GetCurrentTimestamp();

	if (pg_atomic_read_u32(&state->overflowing) == 0)
		return DT_NOEND;
	if (now < state->hungry_seek_at)
		return state->hungry_seek_at;
	queue_state_seek_hungry(state, state->hungry_seeks++ % SEEKS_HELD == 0);
	state->hungry_seek_at = now + SEEK_USECS + 20 * (GetCurrentTimestamp() - begun);
	return state->hungry_seek_at;
}

/*
 * Move tasks of the overflow to a group, as many as there is room for.  Returns
 * how many; *looked is raised by how many entries were looked at.
 */
static int
feed_group(Placement *placement, RowReader *row, const HungryGroup *hungry,
		   int64 *ids, ItemPointer tids, int *looked)
{
	QueueInfo  *info = placement->info;
	int			feeding = handover_feeding(info->state, hungry->group);
	int			fed = 0;
	int64		next = hungry->from;
	int64		held = PG_INT64_MAX;
	bool		full = false;

	while (!full && next != PG_INT64_MAX && *looked < PASS_LOOKS)
	{
		int			n = queue_relation_overflow(placement->rel, info, hungry->hash,
												hungry->class, next,
												Max(hungry->room - fed, FEED_LOOKS),
												ids, tids, &next);

		*looked += n + 1;
		for (int i = 0; i < n && !full; i++)
		{
			RowStatus	status = row_reader_read(row, &tids[i]);
			/* Also in our own: it may be one that we have kept or replaced. */
			bool		in_hands = (status == ROW_IN_DOUBT || status == ROW_OWN ||
									(status == ROW_IN_PROGRESS && row->deleting));

			CHECK_FOR_INTERRUPTS();
			if (status == ROW_LIVE &&
				DatumGetInt64(row_value(row, COLUMN_ID)) == ids[i] &&
				DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW)
			{
				if (fed == hungry->room)
				{
					next = ids[i];
					full = true;
				}
				else if (placement_replace(placement, row, false))
					fed++;
				else
					in_hands = true;
			}
			if (in_hands)
				held = Min(held, ids[i]);
		}
	}
	handover_fed(feeding, fed, next, held);
	return fed;
}

/*
 * Move tasks of the overflow to the groups that have room for them, up to max.
 * Returns how many.  *more: there are more of them; else *next is lowered to when
 * to look again.
 *
 * Rows in somebody's hands are not waited for, and nobody else waits for them:
 * they are looked at again later, from the first of them on (groups_seek_hungry).
 * An inserter in progress says so himself when he has committed.
 */
int
promote_overflow(Relation rel, QueueInfo *info, TimestampTz now, int max,
				 TimestampTz *next, bool *more)
{
	QueueState *state = info->state;
	Placement	placement;
	RowReader	row;
	HungryGroup hungry;
	int64	   *ids;
	ItemPointer tids;
	int			moved = 0;
	int			looked = 0;

	*more = false;
	if (info->policy != QUEUE_FAIR)
		return 0;
	if (state->recovery != QUEUE_KNOWN && queue_relation_has_overflow(rel, info))
		recovery_tags(rel, info);
	*next = Min(*next, seek_hungry(state, now));
	if (state->hungry_count == 0)
		return 0;

	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	ids = palloc((max + FEED_LOOKS) * sizeof(int64));
	tids = palloc((max + FEED_LOOKS) * sizeof(ItemPointerData));
	for (;;)
	{
		*more = (moved >= max || looked >= PASS_LOOKS);
		if (*more)
			break;
		handover_reserve(1);
		if (!groups_next_hungry(state, &hungry))
			break;
		hungry.room = Min(hungry.room, max - moved);
		moved += feed_group(&placement, &row, &hungry, ids, tids, &looked);
	}

	/* Those that were fed may be hungry still, when this is committed. */
	*more |= (moved > 0);
	pfree(ids);
	pfree(tids);
	row_reader_end(&row);
	return moved;
}
