/*-------------------------------------------------------------------------
 *
 * replenish_overflow.c
 *	  Making tasks of the overflow ready.
 *
 * A task in the overflow has no address: it is in the way of none, however
 * many there are.  It gets one when its group has room again, and only then is
 * charged for: a weight that was changed meanwhile holds for it.  Groups are
 * fed in turn, each up to what there is room for (group_overflow.c).
 *
 * The address is not written to the row as long as its lane has room for it:
 * it is in the lane's entry only, and so in memory, as all that is needed to
 * claim the task.  Written it would be another row, with other entries in all
 * indexes, and cost more than all the rest of its life.  What the row says
 * goes for all else: the task counts in the overflow until its row is removed
 * or changed, claimed or not.
 *
 * A place is its task's, wherever its row is by the time it is claimed.  It
 * may get lost: when its lane drops it, or when a claim that came to it found
 * the row written by another transaction.  The process that is the cause of
 * that says from which task on the overflow has to be read again
 * (queue_order_overflow_lost), and by that its group learns so; a task with a
 * lease, or a place, is passed over.  Should anything get lost unsaid, the
 * sweep finds it.
 *
 * A place in memory is there at once.  So the worker gives them, and a claim,
 * which may as little be undone (refill_dry_group); what else is done in a
 * user's transaction is done when that commits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "shmem/group_overflow.h"
#include "shmem/lane_unwritten.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/parking.h"
#include "shmem/queue_order.h"
#include "shmem/replenished_tasks.h"
#include "shmem/worker_slots.h"
#include "storage/queue_index.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"
#include "verbs/replenish_overflow.h"
#include "xact/pending.h"
#include "xact/pending_groups.h"

/*
 * How long to wait before looking for groups with room for their overflow
 * that went unnoticed, and how many times before all look at the tasks again
 * that were being written.
 */
#define SEEK_USECS		(USECS_PER_SEC / 2)
#define SEEKS_HELD		4

/* Entries of the overflow that a pass looks at, and at least at a time. */
#define PASS_LOOKS		10000
#define FEED_LOOKS		32

/*
 * See to it that groups that have room are in the starved list, though that
 * went unnoticed.  Done now and then while there is any overflow, and the
 * less often the longer it takes.  Returns when to do it again.
 */
static TimestampTz
seek_starved(QueueState *state, TimestampTz now)
{
	TimestampTz begun = GetCurrentTimestamp();

	if (pg_atomic_read_u32(&state->counts.overflowing) == 0)
		return DT_NOEND;
	if (now < state->replenish.seek_at)
		return state->replenish.seek_at;
	group_overflow_seek_starved(state, state->replenish.seeks++ % SEEKS_HELD == 0);
	state->replenish.seek_at = now + SEEK_USECS + 20 * (GetCurrentTimestamp() - begun);
	return state->replenish.seek_at;
}

/*
 * Some tasks of the overflow of a class may have lost their places, from an id
 * on.  See to it that their groups know that they have overflow: one group
 * after the other, as their rows say, for shared memory may have forgotten
 * them.
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
		OverflowRead read = {hash, class, ids, tids, FEED_LOOKS, {.id = lost}};
		bool		found = false;

		CHECK_FOR_INTERRUPTS();
		while (of_class == class && !found && read.next.id != PG_INT64_MAX)
		{
			int			n = queue_index_overflow(rel, info, &read);

			CHECK_FOR_INTERRUPTS();
			for (int i = 0; i < n && !found; i++)
			{
				RowStatus	status = row_reader_read(&row, &tids[i]);

				/* A transaction that inserts one says so itself. */
				found = (status == ROW_LIVE || status == ROW_OWN ||
						 ((status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT) &&
						  row.deleting)) &&
					DatumGetInt64(row_value(&row, COLUMN_ID)) == ids[i] &&
					DatumGetChar(row_value(&row, COLUMN_STATE)) == TASK_OVERFLOW;
				if (found)
				{
					GroupName	name =
						group_name(DatumGetTextPP(row_value(&row, COLUMN_GROUP_KEY)));

					group_overflow_found(info->state, class, &name, ids[i], true);
				}
			}
		}
	}
	row_reader_end(&row);
}

/*
 * See to the tasks of a class that have lost their places, if any have.
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

/* A replenish under way. */
typedef struct Replenish
{
	Placement	placement;
	RowReader	row;
	FeedHow		how;
	UnwrittenTasks offered[FAIRQ_CLASSES];
	OverflowRead read;
	int			looked;			/* entries */
} Replenish;

/* What becomes of a group. */
typedef struct GroupRefill
{
	const StarvedGroup *starved;
	FeedHow		how;
	UnwrittenTasks parked;		/* tasks of its that are */
	int			moved;			/* tasks that got places */
	int			fed;			/* those of them that had none before */
	bool		written;		/* some of them have addresses now */
	int64		left;			/* the first that there was no room for */
	int64		held;			/* the first that others are writing */
} GroupRefill;

static void
refill_begin(Replenish *replenish, Relation rel, QueueInfo *info, FeedHow how, int room)
{
	memset(replenish, 0, sizeof(Replenish));
	replenish->how = how;
	placement_begin(&replenish->placement, rel, info);
	row_reader_begin(&replenish->row, rel, info);
	replenish->read.ids = palloc((room + FEED_LOOKS) * sizeof(int64));
	replenish->read.tids = palloc((room + FEED_LOOKS) * sizeof(ItemPointerData));
}

static void
refill_end(Replenish *replenish)
{
	for (int class = 0; class < FAIRQ_CLASSES; class++)
	{
		if (replenish->offered[class].tasks != NULL)
			pfree(replenish->offered[class].tasks);
	}
	pfree(replenish->read.ids);
	pfree(replenish->read.tids);
	row_reader_end(&replenish->row);
}

/*
 * Has a task of the overflow a place in a lane?  What is known of that is of
 * no use any more when groups have been fed since.
 */
static bool
is_offered(QueueState *state, int class, UnwrittenTasks *offered, int64 task)
{
	uint32		feeds = ((volatile QueueState *) state)->replenish.times;

	if (offered->known && offered->times != feeds)
	{
		if (offered->tasks != NULL)
			pfree(offered->tasks);
		memset(offered, 0, sizeof(UnwrittenTasks));
	}
	offered->times = feeds;
	return lane_unwritten_has(&state->orders[class].lanes, offered, task);
}

/*
 * Give a task of the overflow, whose row was read and is alive, a place,
 * unless it has one or there is no room.  Returns false if another transaction
 * writes the row.
 */
static bool
give_place(Replenish *replenish, GroupRefill *group, int64 id)
{
	const StarvedGroup *starved = group->starved;
	QueueState *state = replenish->placement.info->state;
	bool		known = replenished_tasks_has(queue_state_number(state), id);

	if (is_offered(state, starved->class, &replenish->offered[starved->class], id) ||
		(starved->limit != NO_LIMIT &&
		 parking_has_task(starved->limit, &group->parked, id)))
	{
		/* Counted anew since it got its place. */
		if (!known)
			placement_is_fed(&replenish->row, starved->group);
		return true;
	}
	if (!known && group->fed == starved->room)
	{
		group->left = Min(group->left, id);
		return true;
	}
	switch (placement_feed(&replenish->placement, &replenish->row, starved->group, &group->how))
	{
		case FEED_DONE:
			group->moved++;
			group->fed += !known;
			group->written |= (group->how == FEED_WRITTEN);
			break;
		case FEED_NO_ROOM:
			group->left = Min(group->left, id);
			break;
		case FEED_IN_HANDS:
			return false;
	}
	return true;
}

/*
 * Look at an entry of the overflow.
 */
static void
refill_entry(Replenish *replenish, GroupRefill *group, int64 id, const ItemPointerData *tid)
{
	RowReader  *row = &replenish->row;
	RowStatus	status = row_reader_read(row, tid);

	/* Also in our own: it may be one that we have kept or replaced. */
	bool		in_hands = (status == ROW_IN_DOUBT || status == ROW_OWN ||
							(status == ROW_IN_PROGRESS && row->deleting));
	LeaseInfo	lease;

	CHECK_FOR_INTERRUPTS();

	/* Whoever has a lease hands the task over. */
	if ((status == ROW_LIVE || in_hands) &&
		leases_find(queue_state_number(row->info->state), id, &lease))
		return;
	if (status == ROW_LIVE &&
		DatumGetInt64(row_value(row, COLUMN_ID)) == id &&
		DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW)
	{
		/* One that has expired is for a pass to end. */
		if (row_reader_has_expired(row))
			row->info->state->expiry.passed_over = true;
		else
			in_hands = !give_place(replenish, group, id);
	}
	if (in_hands)
		group->held = Min(group->held, id);
}

/*
 * Give places to tasks of the overflow of a group, as many as there is room
 * for, and again to those that may have lost theirs; feeding is what
 * pending_feeding said.  Returns how many.
 */
static int
refill_group(Replenish *replenish, const StarvedGroup *starved, int feeding)
{
	OverflowRead *read = &replenish->read;
	int64		lost = starved->lost;
	GroupFed	fed;
	GroupRefill group = {
		.starved = starved,
		.how = replenish->how,
		.left = PG_INT64_MAX,
		.held = PG_INT64_MAX,
	};

	read->hash = starved->hash;
	read->class = starved->class;
	read->next.id = starved->from;
	ItemPointerSet(&read->next.tid, 0, 0);

	/*
	 * Not between entries of one id: what the group keeps is the id.  When
	 * there is no more room, on to where some may have lost their places.
	 */
	while (read->next.id != PG_INT64_MAX &&
		   (group.left == PG_INT64_MAX || read->next.id < starved->lost) &&
		   (replenish->looked < PASS_LOOKS || ItemPointerIsValid(&read->next.tid)))
	{
		int			n;

		read->max = Max(starved->room - group.fed, FEED_LOOKS);
		n = queue_index_overflow(replenish->placement.rel, replenish->placement.info, read);
		replenish->looked += n + 1;
		for (int i = 0; i < n && (group.left == PG_INT64_MAX || read->ids[i] < starved->lost); i++)
			refill_entry(replenish, &group, read->ids[i], &read->tids[i]);
	}
	if (group.parked.tasks != NULL)
		pfree(group.parked.tasks);

	/* For the lost ones it comes again, and then for what had no room. */
	if (read->next.id < starved->lost)
		group.held = Min(group.held, group.left);
	else
	{
		read->next.id = Min(read->next.id, group.left);
		lost = PG_INT64_MIN;
	}
	fed.moved = (group.moved > 0);
	fed.written = group.written;
	fed.next = read->next.id;
	fed.held = group.held;
	fed.lost = lost;
	pending_fed(feeding, &fed, group.how != FEED_WRITTEN);
	return group.moved;
}

/*
 * Replenish a group in a claim, which has used up the group's places.  Nothing
 * is written; where a lane has no room the worker does it.  The other claims
 * wait, so it is done whatever the caller's transaction does with what it has
 * claimed.
 */
void
refill_dry_group(Relation rel, QueueInfo *info, const StarvedGroup *starved, int feeding)
{
	Replenish	replenish;

	/* The groups' counts are unknown, and the table would have to be read. */
	if (info->state->recovery.groups != QUEUE_KNOWN)
	{
		GroupFed	nothing = {
			.next = starved->from,
			.held = PG_INT64_MAX,
			.lost = starved->lost,
		};

		pending_fed(feeding, &nothing, true);
		return;
	}
	refill_begin(&replenish, rel, info, FEED_IN_LANE_ONLY, starved->room);
	(void) refill_group(&replenish, starved, feeding);
	refill_end(&replenish);
}

/*
 * Move tasks of the overflow to the groups that have room for them, up to
 * pass->max; in memory if that may be.  Returns how many.
 *
 * Rows that other transactions write are not waited for, and nothing else
 * waits for them: they are looked at again later, from the first of them on
 * (group_overflow_seek_starved).  An inserter in progress says so when it has
 * committed.
 */
int
replenish_overflow(Pass *pass, bool in_memory)
{
	QueueInfo  *info = pass->info;
	QueueState *state = info->state;
	Replenish	replenish;
	StarvedGroup starved;
	int			moved = 0;

	AssertMaintenanceLocked(pass->rel);
	if (info->policy != QUEUE_FAIR)
		return 0;
	if (state->recovery.groups != QUEUE_KNOWN && queue_index_has_overflow(pass->rel, info))
		recovery_tags(pass->rel, info);
	for (int class = 0; class < state->classes; class++)
		seek_lost_of_class(pass->rel, info, class);
	pass_again(pass, seek_starved(state, pass->now));
	if (state->replenish.count == 0)
		return 0;

	refill_begin(&replenish, pass->rel, info, in_memory ? FEED_IN_LANE : FEED_WRITTEN,
				 pass->max);
	for (;;)
	{
		if (moved >= pass->max || replenish.looked >= PASS_LOOKS)
		{
			pass->more = true;
			break;
		}
		pending_reserve(1);
		if (!group_overflow_next_starved(state, &starved))
			break;
		starved.room = Min(starved.room, pass->max - moved);
		moved += refill_group(&replenish, &starved,
							  pending_feeding(state, starved.group, starved.lost));
	}
	refill_end(&replenish);

	/* Those that were fed may be starved still, when this is committed. */
	pass->more |= (moved > 0);
	return moved;
}
