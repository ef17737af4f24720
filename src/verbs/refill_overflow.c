/*-------------------------------------------------------------------------
 *
 * refill_overflow.c
 *	  Making tasks of the overflow ready.
 *
 * A task in the overflow has no address: it is in the way of none, however many
 * there are.  It gets one when its group has room again, and only then is charged
 * for: a weight that was changed meanwhile holds for it.  Groups are fed in turn,
 * each up to what there is room for (group_overflow.c).
 *
 * The address is not written to the row as long as its lane has room for it: it
 * is in the lane's entry only, and so in memory, as all that is needed to claim
 * the task.  Written it would be another row, with other entries in all indexes,
 * and cost more than all the rest of its life.  What the row says goes for all else:
 * the task counts in the overflow until its row is removed or changed, claimed or not.
 *
 * A place is its task's, wherever its row is by the time it is claimed.  It may get
 * lost: when its lane drops it, or when a claim that came to it found the row written
 * by another transaction.  The process that is the cause of that says from which task
 * on the overflow has to be read again (queue_order_overflow_lost), and by that its
 * group learns so; a task with a lease, or a place, is passed over.  Should anything
 * get lost unsaid, the sweep finds it.
 *
 * A place in memory is there at once.  So the worker gives them, and a claim, which may
 * as little be undone (refill_dry_group); what else is done in a user's transaction is
 * done when that commits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "shmem/fed_tasks.h"
#include "shmem/group_overflow.h"
#include "shmem/lane_unwritten.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/parking.h"
#include "shmem/queue_order.h"
#include "shmem/wakeup.h"
#include "storage/queue_index.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"
#include "verbs/refill_overflow.h"
#include "xact/pending.h"

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

/*
 * See to it that groups that have room are in the list of the hungry, though
 * nobody noticed that they have.  Done now and then while there is any overflow,
 * and the less often the longer it takes.  Returns when to do it again.
 */
static TimestampTz
seek_hungry(QueueState *state, TimestampTz now)
{
	TimestampTz begun = GetCurrentTimestamp();

	if (pg_atomic_read_u32(&state->counts.overflowing) == 0)
		return DT_NOEND;
	if (now < state->refill.seek_at)
		return state->refill.seek_at;
	group_overflow_seek_hungry(state, state->refill.seeks++ % SEEKS_HELD == 0);
	state->refill.seek_at = now + SEEK_USECS + 20 * (GetCurrentTimestamp() - begun);
	return state->refill.seek_at;
}

/*
 * Some tasks of the overflow of a class may have lost their places, from an id on.
 * See to it that their groups know that they have overflow: one group after the
 * other, as their rows say, for shared memory may have forgotten them.
 */
static void
seek_lost(Relation rel, QueueInfo *info, int class, int64 lost)
{
	RowReader	row;
	int64		hash = PG_INT64_MIN;
	int64		of_class = -1;

	row_reader_begin(&row, rel, info);
	while (queue_index_overflow_after(rel, info, &hash, &of_class))
	{
		int64		ids[FEED_LOOKS];
		ItemPointerData tids[FEED_LOOKS];
		OverflowPlace next = {.id = lost};
		bool		found = false;

		CHECK_FOR_INTERRUPTS();
		while (of_class == class && !found && next.id != PG_INT64_MAX)
		{
			int			n = queue_index_overflow(rel, info, hash, class, &next,
													FEED_LOOKS, ids, tids, &next);

			CHECK_FOR_INTERRUPTS();
			for (int i = 0; i < n && !found; i++)
			{
				RowStatus	status = row_reader_read(&row, &tids[i]);

				/* Who inserts one says so himself. */
				found = (status == ROW_LIVE || status == ROW_OWN ||
						 ((status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT) &&
						  row.deleting)) &&
					DatumGetInt64(row_value(&row, COLUMN_ID)) == ids[i] &&
					DatumGetChar(row_value(&row, COLUMN_STATE)) == TASK_OVERFLOW;
				if (found)
				{
					text	   *key = DatumGetTextPP(row_value(&row, COLUMN_GROUP_KEY));

					group_overflow_found(info->state, class, VARDATA_ANY(key),
										 VARSIZE_ANY_EXHDR(key), ids[i], true);
				}
			}
		}
	}
	row_reader_end(&row);
}

/*
 * The same of a class, if any have.
 */
static void
seek_lost_of_class(Relation rel, QueueInfo *info, int class)
{
	QueueOrder *order = &info->state->orders[class];
	int64		lost = queue_order_take_lost(order);

	if (likely(lost == PG_INT64_MAX))
		return;
	seek_lost(rel, info, class, lost);
	queue_order_found_lost(order);
}

/*
 * Has a task of the overflow a place in a lane?  What is known of that is of no use any
 * more when groups have been fed since.
 */
static bool
is_offered(QueueState *state, int class, UnwrittenTasks *offered, int64 task)
{
	uint32		feeds = ((volatile QueueState *) state)->refill.refills;

	if (offered->known && offered->refills != feeds)
	{
		if (offered->tasks != NULL)
			pfree(offered->tasks);
		memset(offered, 0, sizeof(UnwrittenTasks));
	}
	offered->refills = feeds;
	return lane_unwritten_has(&state->orders[class].lanes, offered, task);
}

/*
 * Give places to tasks of the overflow of a group, as many as there is room for, and
 * again to those that may have lost theirs; feeding is what pending_feeding said.
 * Returns how many; *looked is raised by how many entries were looked at.
 */
static int
feed_group(Placement *placement, RowReader *row, const HungryGroup *hungry,
		   int feeding, FeedHow how, UnwrittenTasks *offered, int64 *ids,
		   ItemPointer tids, int *looked)
{
	QueueInfo  *info = placement->info;
	int			queue = queue_state_number(info->state);
	int			moved = 0;
	int			fed = 0;
	int			written = 0;
	OverflowPlace next = {.id = hungry->from};
	int64		left = PG_INT64_MAX;	/* the first that there was no room for */
	int64		held = PG_INT64_MAX;
	int64		lost = hungry->lost;
	UnwrittenTasks aside = {0};

	/*
	 * Not between entries of one id: what the group keeps is the id.  When there is no
	 * more room, on to where some may have lost their places.
	 */
	while (next.id != PG_INT64_MAX && (left == PG_INT64_MAX || next.id < hungry->lost) &&
		   (*looked < PASS_LOOKS || ItemPointerIsValid(&next.tid)))
	{
		int			n = queue_index_overflow(placement->rel, info, hungry->hash,
												hungry->class, &next,
												Max(hungry->room - fed, FEED_LOOKS),
												ids, tids, &next);

		*looked += n + 1;
		for (int i = 0; i < n && (left == PG_INT64_MAX || ids[i] < hungry->lost); i++)
		{
			RowStatus	status = row_reader_read(row, &tids[i]);
			/* Also in our own: it may be one that we have kept or replaced. */
			bool		in_hands = (status == ROW_IN_DOUBT || status == ROW_OWN ||
									(status == ROW_IN_PROGRESS && row->deleting));
			LeaseInfo	lease;

			CHECK_FOR_INTERRUPTS();

			/* Whoever has a lease hands the task over himself. */
			if ((status == ROW_LIVE || in_hands) &&
				leases_find(queue, ids[i], &lease))
				continue;
			if (status == ROW_LIVE &&
				DatumGetInt64(row_value(row, COLUMN_ID)) == ids[i] &&
				DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW)
			{
				bool		known = fed_tasks_has(queue, ids[i]);

				if (is_offered(info->state, hungry->class, offered, ids[i]) ||
					(hungry->limit != NO_LIMIT &&
					 parking_has_task(hungry->limit, &aside, ids[i])))
				{
					/* Counted anew since it got its place. */
					if (!known)
						placement_is_fed(row, hungry->group);
				}
				else if (!known && fed == hungry->room)
					left = Min(left, ids[i]);
				else
				{
					FeedResult	result = placement_feed(placement, row, hungry->group, &how);

					if (result == FEED_DONE)
					{
						moved++;
						fed += !known;
						written += (how == FEED_WRITTEN);
					}
					else if (result == FEED_NO_ROOM)
						left = Min(left, ids[i]);
					in_hands = (result == FEED_IN_HANDS);
				}
			}
			if (in_hands)
				held = Min(held, ids[i]);
		}
	}
	if (aside.tasks != NULL)
		pfree(aside.tasks);

	/* For the lost ones it comes again, and then for what there was no room for. */
	if (next.id < hungry->lost)
		held = Min(held, left);
	else
	{
		next.id = Min(next.id, left);
		lost = PG_INT64_MIN;
	}
	if (how == FEED_WRITTEN)
		pending_fed(feeding, moved, written, next.id, held, lost);
	else
		pending_fed_now(feeding, moved, next.id, held, lost);
	return moved;
}

/*
 * The same in a claim, which has used up the group's places.  Nothing is written; where
 * a lane has no room the worker does it.  The other claims wait, so it is done
 * whatever the caller's transaction does with what it has claimed.
 */
void
refill_dry_group(Relation rel, QueueInfo *info, const HungryGroup *hungry, int feeding)
{
	UnwrittenTasks offered = {0};
	Placement	placement;
	RowReader	row;
	int64	   *ids;
	ItemPointer tids;
	int			looked = 0;

	/* Or the table would have to be read, and nobody knows what the groups have. */
	if (info->state->recovery.groups != QUEUE_KNOWN)
	{
		pending_fed_now(feeding, 0, hungry->from, PG_INT64_MAX, hungry->lost);
		return;
	}
	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	ids = palloc((hungry->room + FEED_LOOKS) * sizeof(int64));
	tids = palloc((hungry->room + FEED_LOOKS) * sizeof(ItemPointerData));
	feed_group(&placement, &row, hungry, feeding, FEED_IN_LANE_ONLY, &offered, ids, tids,
			   &looked);
	if (offered.tasks != NULL)
		pfree(offered.tasks);
	pfree(ids);
	pfree(tids);
	row_reader_end(&row);
}

/*
 * Move tasks of the overflow to the groups that have room for them, up to max; in
 * memory if that may be.  Returns how many.  *more: there are more of them; else
 * *next is lowered to when to look again.
 *
 * Rows in somebody's hands are not waited for, and nobody else waits for them:
 * they are looked at again later, from the first of them on (group_overflow_seek_hungry).
 * An inserter in progress says so himself when he has committed.
 */
int
refill_overflow(Relation rel, QueueInfo *info, TimestampTz now, int max,
				 bool in_memory, TimestampTz *next, bool *more)
{
	QueueState *state = info->state;
	Placement	placement;
	RowReader	row;
	HungryGroup hungry;
	UnwrittenTasks offered[FAIRQ_CLASSES] = {0};
	int64	   *ids;
	ItemPointer tids;
	int			moved = 0;
	int			looked = 0;

	*more = false;
	if (info->policy != QUEUE_FAIR)
		return 0;
	if (state->recovery.groups != QUEUE_KNOWN && queue_index_has_overflow(rel, info))
		recovery_tags(rel, info);
	for (int class = 0; class < state->classes; class++)
		seek_lost_of_class(rel, info, class);
	*next = wakeup_earlier(*next, seek_hungry(state, now));
	if (state->refill.count == 0)
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
		pending_reserve(1);
		if (!group_overflow_next_hungry(state, &hungry))
			break;
		hungry.room = Min(hungry.room, max - moved);
		moved += feed_group(&placement, &row, &hungry,
							pending_feeding(state, hungry.group, hungry.lost),
							in_memory ? FEED_IN_LANE : FEED_WRITTEN,
							&offered[hungry.class], ids, tids, &looked);
	}

	/* Those that were fed may be hungry still, when this is committed. */
	*more |= (moved > 0);
	for (int class = 0; class < state->classes; class++)
	{
		if (offered[class].tasks != NULL)
			pfree(offered[class].tasks);
	}
	pfree(ids);
	pfree(tids);
	row_reader_end(&row);
	return moved;
}
