/*-------------------------------------------------------------------------
 *
 * group_overflow.c
 *	  The overflow of groups: which of them have any, and whose turn it is.
 *
 * A group that has more than max_ready_per_group tasks ready, or one that
 * comes when max_ready are, has its next tasks put into the overflow: rows
 * without an address.  While it has any there, committed or not, all its new
 * ones go there, so that they stay in order; also while tasks of its overflow
 * may be ready whose places are in memory only: these may get lost, and must
 * not come behind new ones then.  When some of its room is free the group is
 * starved: it comes to the end of the queue's starved list, whose groups the
 * background worker replenishes in turn (replenish_overflow.c), from the
 * lowest id on that may be there, overflow_from.  A group is dry when it has
 * run out of places before: then the claim that notices replenishes it
 * (claim_feed.c).
 *
 * A group's two counts, ready and overflow, are what was added less what was
 * taken: a task is in one of them, or leased.  One with an address is ready
 * from when it gets that, committed or not; one of the overflow from when its
 * group is replenished with it, of which replenished_tasks.c keeps note.
 * There is no guessing: who takes a task away finds out where it was counted,
 * and a lease knows whether its task goes back (groups_given_back).  Rows
 * that were written before anybody counted are counted in one go
 * (recovery.c).
 *
 * Only a pass that has read a group's overflow to its end may say that nothing
 * is there.  Until then overflow_from says that there may be something, and the
 * group is replenished when there is room, or when the count is at zero: what
 * is there is found then, or overflow_from goes away.  Two kinds
 * of groups are replenished without room: those of which some tasks may have
 * lost their places (overflow_lost), for these tasks only; and those that
 * starve, when there is nothing to claim, because what they have ready is in
 * the hands of open transactions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/group_overflow.h"
#include "shmem/group_private.h"
#include "shmem/queue_order.h"
#include "shmem/queue_ready.h"
#include "shmem/transit_horizon.h"
#include "shmem/worker_slots.h"

/*
 * A group is replenished when this many of its tasks may be moved, or a quarter
 * of what it may have ready; so tasks are moved some at a time, and the group
 * is far from running dry.  Likewise the queue as a whole: but an eighth, as
 * who waits for its room may be new.
 *
 * And not before half of what the lanes have room for is gone, shared between
 * the groups with overflow, but REFILL_LEAST at least: what is more has to be
 * written.
 */
#define REFILL_AT_ONCE	500
#define REFILL_LEAST		16
#define REFILL_QUEUE_AT_ONCE	100

/* The tasks that a claim moves at a time for a group without places left. */
#define REFILL_DRY			64

/*
 * What is known of a group's overflow has changed: may it have any?
 *
 * With the first one the worker is woken, though there may be no room: it looks
 * now and then, from then on, whether there is some that was not noticed.
 */
static void
note_overflow(QueueState *queue, FairGroup *group)
{
	bool		overflows = group->overflow > 0 ||
		group->overflow_from != PG_INT64_MAX || group->overflow_held != PG_INT64_MAX;

	AssertGroupLockedExclusively(group);
	if (overflows == group->overflows)
		return;
	group->overflows = overflows;
	if (!overflows)
		pg_atomic_fetch_sub_u32(&queue->counts.overflowing, 1);
	else if (pg_atomic_fetch_add_u32(&queue->counts.overflowing, 1) == 0)
		worker_slots_wake_at(queue->database, 0);
}

/*
 * Count n tasks of a group in the overflow.
 */
void
group_overflow_count(QueueState *queue, FairGroup *group, int n)
{
	AssertGroupLockedExclusively(group);
	group->overflow += n;
	note_overflow(queue, group);
}

/*
 * How many tasks of a group are ready when it has been replenished, at most.
 */
static int64
ready_when_refilled(QueueState *queue, int class, int least)
{
	int64		room = queue->orders[class].lanes.high * LANE_UNWRITTEN_USUAL * 3 / 4;

	room /= Max(pg_atomic_read_u32(&queue->counts.overflowing), 1);
	return Min(Max(room, least), queue->published.max_ready_per_group);
}

/*
 * Enter a group into the starved list: behind all others, or behind those that
 * are urgent if it is.
 */
static void
list_starved(QueueState *queue, FairGroup *group, RefillState replenish)
{
	AssertGroupLockedExclusively(group);
	Assert(replenish == REFILL_LISTED || replenish == REFILL_URGENT);
	Assert(!group->listed);
	group->replenish = replenish;
	SpinLockAcquire(&queue->replenish.mutex);
	group->listed = true;
	if (replenish == REFILL_URGENT)
		dlist_push_tail(&queue->replenish.urgent, &group->starved_node);
	else
		dlist_push_tail(&queue->replenish.starved, &group->starved_node);
	queue->replenish.count++;
	group_check_starved(queue);
	SpinLockRelease(&queue->replenish.mutex);
}

/*
 * A group is urgent from now on, if it is in the starved list still.  It must
 * not stay behind others: one that is stopped, and may have more ready, is not
 * replenished as long as the queue has no room.
 */
static void
list_urgent(QueueState *queue, FairGroup *group)
{
	AssertGroupLockedExclusively(group);
	SpinLockAcquire(&queue->replenish.mutex);
	if (group->listed)
	{
		group->replenish = REFILL_URGENT;
		dlist_delete(&group->starved_node);
		dlist_push_tail(&queue->replenish.urgent, &group->starved_node);
	}
	group_check_starved(queue);
	SpinLockRelease(&queue->replenish.mutex);
}

/*
 * Take a group out of the starved list, which it is in.
 */
static void
unlist_starved(QueueState *queue, FairGroup *group)
{
	AssertSpinLocked(&queue->replenish.mutex);
	Assert(group->listed && queue->replenish.count > 0);
	group_check_starved(queue);
	dlist_delete(&group->starved_node);
	group->listed = false;
	queue->replenish.count--;
	queue->replenish.under_way++;
}

/*
 * If a group that may have overflow is to be replenished, enter it into the
 * starved list.
 */
void
group_overflow_list(QueueState *queue, FairGroup *group)
{
	int64		max = queue->published.max_ready_per_group;
	int64		full;

	AssertGroupLockedExclusively(group);
	if (group->replenish != REFILL_NONE)
		return;
	full = ready_when_refilled(queue, group->key.class, REFILL_LEAST);
	if (group->overflow <= 0 || group->overflow_lost != PG_INT64_MIN ||
		(group->ready <= max - Max(Min(max / 4, REFILL_AT_ONCE), 1) &&
		 (full == max || group->ready <= full / 2)))
		list_starved(queue, group, REFILL_LISTED);
}

/*
 * What a group has has changed: note whether it has overflow, enter it into
 * the starved list if it is to be replenished, and wake the worker.
 */
void
group_overflow_check(QueueState *queue, FairGroup *group)
{
	AssertGroupLockedExclusively(group);
	note_overflow(queue, group);
	group_overflow_look(queue, group);
	group_overflow_wake_worker(queue);
}

/*
 * Count n tasks more of a group in the overflow, and have it look from id on.
 */
void
group_overflow_add(QueueState *queue, FairGroup *group, int n, int64 id)
{
	AssertGroupLockedExclusively(group);
	Assert(n >= 0);
	group->overflow += n;
	group->overflow_from = Min(group->overflow_from, id);
	group->overflow_limit = Min(group->overflow_limit, id);
	group_overflow_check(queue, group);
}

/*
 * Tasks of a group have been counted off, as with group_overflow_check: a
 * group that has none left in the overflow comes to those that other
 * transactions had in hand.
 */
void
group_overflow_settle(QueueState *queue, FairGroup *group)
{
	AssertGroupLockedExclusively(group);
	if (group->overflow <= 0)
	{
		group->overflow_from = Min(group->overflow_from, group->overflow_held);
		group->overflow_held = PG_INT64_MAX;
	}
	group_overflow_check(queue, group);
}

/*
 * Wake the worker if there are starved groups, and room in the queue.  Never
 * fails: called at the end of transactions.
 */
void
group_overflow_wake_worker(QueueState *queue)
{
	int64		room;

	if (likely(((volatile QueueState *) queue)->replenish.count == 0))
		return;
	room = queue->published.max_ready - queue_state_ready(queue);
	if (room > 0 && room >= Min(queue->published.max_ready / 8, REFILL_QUEUE_AT_ONCE))
		worker_slots_wake_at(queue->database, 0);
}

/*
 * A task of a group was written to the overflow with SQL.
 */
void
group_overflow_begins(QueueState *queue, int class, const GroupName *name,
					  GroupTag *tag)
{
	FairGroup  *group = group_table_lock(queue, class, name,
										 queue_order_virtual_time(&queue->orders[class]));

	group->pending++;
	tag->group = group - group_entries;
	group_table_unlock(group);
}

/*
 * Tasks of a group were put into the overflow, the lowest id is given, and the
 * transaction has ended.
 */
void
group_overflow_ends(QueueState *queue, uint32 number, int n, int64 id,
					bool committed)
{
	FairGroup  *group = group_table_lock_number(number);

	Assert(n >= 0 && n <= group->pending);
	group->pending -= n;
	if (committed && n > 0)
		group_overflow_add(queue, group, n, id);
	group_table_unlock(group);
}

/*
 * A task of the overflow that counted as ready has no place after all, and
 * counts in the overflow.  Returns false if it counts as ready no more.
 */
bool
group_overflow_return(QueueState *queue, uint32 number, int64 task)
{
	FairGroup  *group = group_table_lock_number(number);
	bool		ready = replenished_tasks_take(queue_state_number(queue), task);

	if (ready)
	{
		group_table_count_ready(queue, group, -1);
		group_overflow_count(queue, group, 1);
	}
	group_table_unlock(group);
	return ready;
}

/*
 * A task of the overflow that is not leased, and is counted as ready because
 * of its tag, is going to be offered: then it is in the overflow no more.  See
 * groups_leased for the lock of leases.
 */
ReplenishedTask
group_overflow_leave(QueueState *queue, uint32 number, int64 task)
{
	FairGroup  *group = group_table_lock_number(number);
	ReplenishedTask result = replenished_tasks_add(queue_state_number(queue), task);

	/* One that has lost its place is ready already. */
	if (result == REPLENISHED_KNOWN)
		group_table_count_ready(queue, group, -1);
	else if (result == REPLENISHED_NEW)
		group_overflow_count(queue, group, -1);
	if (result != REPLENISHED_NO_ROOM)
		group->offered_finish = group->finish;
	group_table_unlock(group);
	return result;
}

/*
 * n tasks of a group were removed from the overflow.
 */
void
group_overflow_removed(QueueState *queue, uint32 number, int n)
{
	FairGroup  *group = group_table_lock_number(number);

	group_overflow_count(queue, group, -n);
	group_overflow_settle(queue, group);
	group_table_unlock(group);
}

/*
 * A row says that a group has a task in the overflow.  again: one that is
 * counted, and may have lost its place, as may those after it.
 */
void
group_overflow_found(QueueState *queue, int class, const GroupName *name,
					 int64 id, bool again)
{
	FairGroup  *group = group_table_lock(queue, class, name,
										 queue_order_virtual_time(&queue->orders[class]));

	if (again)
	{
		int64		first;
		int64		end;

		/* Not to the end of what comes from now on. */
		queue_state_ids(queue, &first, &end);
		if (end == 0 || group->overflow_from < end)
			end = group->overflow_from;
		group->overflow_lost = Max(group->overflow_lost, end);
	}
	group_overflow_add(queue, group, again ? 0 : 1, id);
	group_table_unlock(group);
}

/*
 * A group is going to be given up to room places.
 */
static void
begin_refill(FairGroup *group, int64 room, StarvedGroup *starved)
{
	AssertGroupLockedExclusively(group);
	group->replenish = REFILL_UNDER_WAY;
	group->seen_finish = group->finish;
	group->overflow_limit = PG_INT64_MAX;
	starved->class = group->key.class;
	starved->hash = (int64) group->key.low;
	starved->from = group->overflow_from;
	starved->lost = group->overflow_lost;
	starved->limit = group->limit;
	group->overflow_lost = PG_INT64_MIN;
	starved->room = (int) Min(Max(room, 0), PG_INT32_MAX);
}

/* A group was replenished, or is not going to be. */
static void
end_refill(QueueState *queue, FairGroup *group)
{
	AssertGroupLockedExclusively(group);
	group->unseen = 0;
	if (likely(group->dry_epoch == 0))
		return;
	SpinLockAcquire(&queue->replenish.mutex);
	if (group->dry_epoch == queue->replenish.dry_epoch)
	{
		Assert(queue->replenish.dry > 0);
		queue->replenish.dry--;
	}
	group->dry_epoch = 0;
	SpinLockRelease(&queue->replenish.mutex);
}

/*
 * The next group to replenish, of which the caller takes care:
 * group_overflow_replenished when the transaction commits,
 * group_overflow_not_replenished if it does not, and then replenish_ended.
 * Returns false if there is none, or no room in the queue.
 */
bool
group_overflow_next_starved(QueueState *queue, StarvedGroup *starved)
{
	int64		room = queue->published.max_ready - queue_state_ready(queue);
	int64		room_of_group;
	FairGroup  *group = NULL;
	int			waiting;

	SpinLockAcquire(&queue->replenish.mutex);
	waiting = queue->replenish.count;
	if (!dlist_is_empty(&queue->replenish.urgent))
		group = dlist_container(FairGroup, starved_node,
								dlist_head_node(&queue->replenish.urgent));
	else if (room > 0 && waiting > 0)
		group = dlist_container(FairGroup, starved_node,
								dlist_head_node(&queue->replenish.starved));
	if (group != NULL)
		unlist_starved(queue, group);
	SpinLockRelease(&queue->replenish.mutex);
	if (group == NULL)
		return false;

	starved->group = group - group_entries;
	(void) group_table_lock_number(starved->group);
	/* What room there is in the queue is shared between starved groups. */
	room_of_group = ready_when_refilled(queue, group->key.class, REFILL_LEAST);
	if (group->replenish == REFILL_URGENT)
		room_of_group = Min(Max(queue->published.max_ready / waiting, 1), room_of_group);
	else
		room_of_group = Min(Max(room / waiting, 1), room_of_group - group->ready);
	begin_refill(group, room_of_group, starved);
	group_table_unlock(group);
	return true;
}

/*
 * A claim has used up the places of a group, which may have more in the
 * overflow.  If it is not being replenished yet the caller does that, as with
 * group_overflow_next_starved.  No other claim goes on past the group until
 * then (replenish_wait_dry).
 */
GroupDry
group_overflow_is_dry(QueueState *queue, uint32 number, StarvedGroup *starved)
{
	int64		room = queue->published.max_ready - queue_state_ready(queue);
	FairGroup  *group = group_table_lock_number(number);
	bool		ours;

	/*
	 * What room there is in the queue is shared with starved groups.  If it
	 * is not enough, groups take turns, and none gets what it would have had.
	 * One with tasks parked is not kept waiting by us.
	 */
	room /= ((volatile QueueState *) queue)->replenish.count + 1;
	if (room <= 0)
		group->backlogged = false;
	if (room <= 0 || group->ready - group->unseen > 0 || group->overflow_from == PG_INT64_MAX ||
		(group->limit != NO_LIMIT && limit_table_waits(group->limit)))
	{
		group_table_unlock(group);
		return GROUP_NOT_DRY;
	}

	/* The worker has taken it out of the list before it locked it. */
	SpinLockAcquire(&queue->replenish.mutex);
	ours = (group->replenish == REFILL_NONE || group->listed);
	if (group->listed)
		unlist_starved(queue, group);
	else if (ours)
		queue->replenish.under_way++;
	if (group->dry_epoch == 0)
	{
		group->dry_epoch = queue->replenish.dry_epoch;
		queue->replenish.dry++;
	}
	SpinLockRelease(&queue->replenish.mutex);
	if (ours)
	{
		starved->group = number;
		begin_refill(group,
					 Min(room, Min(ready_when_refilled(queue, group->key.class, 1), REFILL_DRY)),
					 starved);
	}
	group_table_unlock(group);
	return ours ? GROUP_IS_DRY : GROUP_IS_BEING_REFILLED;
}

/*
 * A group was fed.
 */
void
group_overflow_replenished(QueueState *queue, uint32 number, const GroupFed *fed)
{
	FairGroup  *group = group_table_lock_number(number);

	Assert(group->replenish == REFILL_UNDER_WAY);
	group->overflow_from = Min(fed->next, group->overflow_limit);
	group->overflow_held = Min(fed->held, group->overflow_held);
	group->overflow_lost = Max(group->overflow_lost, fed->lost);
	note_overflow(queue, group);
	if (fed->written)
		group->offered_finish = group->finish;
	group->replenish = REFILL_NONE;
	end_refill(queue, group);

	/*
	 * From now on it is behind only because it is not replenished in time,
	 * and begins again where it has got, wherever virtual time is by then.
	 */
	group->backlogged = (fed->moved || group->backlogged) &&
		group->overflow_from != PG_INT64_MAX &&
		(group->limit == NO_LIMIT || !limit_table_waits(group->limit));

	/*
	 * The worker needs no waking: it comes again as long as any group is
	 * starved.
	 */
	group_overflow_look(queue, group);
	group_table_unlock(group);
}

/*
 * A group was not replenished after all: it comes to the end of the list.  So
 * far from where it was to be replenished, and to look for lost places as far
 * as it was to.
 */
void
group_overflow_not_replenished(QueueState *queue, uint32 number, int64 lost)
{
	FairGroup  *group = group_table_lock_number(number);

	Assert(group->replenish == REFILL_UNDER_WAY);
	group->overflow_lost = Max(group->overflow_lost, lost);
	list_starved(queue, group, REFILL_LISTED);
	end_refill(queue, group);
	group_table_unlock(group);
}

/*
 * Look for starved groups of an order that are not in the list.  Tasks that
 * were in other transactions' hands are looked at again by groups that have no
 * others left, or (held) by all.  starving: there is nothing to claim in the
 * order; what a group has ready whose tasks are not parked is in the hands of
 * open transactions, and the others do not wait for these.
 */
static void
seek_starved(QueueState *queue, int class, bool starving, bool held)
{
	uint32		first;
	uint32		number;

	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	first = number = queue->orders[class].group_ring;
	while (number != FAIRQ_NO_GROUP)
	{
		FairGroup  *group = &group_entries[number];

		/* Without its lock first: most have none. */
		if (((volatile FairGroup *) group)->overflows)
		{
			bool		starves;

			(void) group_table_lock_number(number);
			starves = starving && group->overflow > 0 &&
				(group->limit == NO_LIMIT || !limit_table_waits(group->limit));
			if (group->replenish == REFILL_NONE &&
				(held || group->overflow_from == PG_INT64_MAX))
			{
				group->overflow_from = Min(group->overflow_from, group->overflow_held);
				group->overflow_held = PG_INT64_MAX;
			}
			if (starves && group->replenish == REFILL_NONE)
				list_starved(queue, group, REFILL_URGENT);
			else if (starves && group->replenish == REFILL_LISTED)
				list_urgent(queue, group);
			group_overflow_check(queue, group);
			group_table_unlock(group);
		}
		number = group->ring_next;
		if (number == first)
			break;
	}
	LWLockRelease(&group_table->creation_lock);
}

/*
 * Look for groups that have room for tasks of their overflow and that were not
 * noticed.  A class starves if there is nothing to claim in its lanes, and no
 * claim is about to lease what was there: what its groups have ready, some
 * open transaction has in hand.
 */
void
group_overflow_seek_starved(QueueState *queue, bool held)
{
	for (int class = 0; class < queue->classes; class++)
		seek_starved(queue, class,
					 queue_ready_nothing(queue, class) && transit_horizon_oldest() == DT_NOEND,
					 held);
}
