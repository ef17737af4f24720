/*-------------------------------------------------------------------------
 *
 * group_overflow.c
 *	  The overflow of groups: which of them have any, and whose turn it is.
 *
 * A group that has more than max_ready_per_group tasks ready, or one that comes
 * when max_ready are, has its next tasks put into the overflow: rows without an
 * address.  While it has any there, committed or not, all its new
 * ones go there, so that they stay in order; also while tasks of its overflow may
 * be ready whose places are in memory only: these may get lost, and must not come
 * behind new ones then.  When some of its room is free the group is hungry: it comes
 * to the end of the queue's list of hungry groups, which the background worker
 * feeds in turn (promote.c), from the lowest id on that may be there, overflow_from.
 * A group is dry when it has run out of places before: then the claim that notices
 * feeds it (claim_feed.c).
 *
 * Both counts of a group, ready and overflow, are hints: rows may be written with
 * SQL, and transactions may be prepared.  That a group has nothing in the overflow
 * is believed only of who has read to the end of it.  So as long as overflow_from
 * says that there may be something, the group is fed when there is room, or when
 * the count is at zero: what is there is found then, or overflow_from goes away.
 * And a group is taken to have nothing ready when virtual time has reached its F
 * or nothing is ready at all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "group_overflow.h"
#include "group_private.h"
#include "wakeup.h"

/*
 * A group is fed when this many of its tasks may be moved, or a quarter of what
 * it may have ready; so tasks are moved some at a time, and the group is far from
 * running dry.  Likewise the queue as a whole: but an eighth, as who waits for its
 * room may be new.
 *
 * And not before half of what the lanes have room for is gone, shared between the
 * groups with overflow, but FEED_LEAST at least: what is more has to be written.
 */
#define FEED_AT_ONCE	500
#define FEED_LEAST		16
#define FEED_QUEUE_AT_ONCE	100

/* As many a claim moves at a time of a group whose places it has used up. */
#define FEED_DRY			64

/*
 * Set how many tasks of a group are in the overflow.  Partition locked.
 *
 * With the first one the worker is woken, though there may be no room: it looks
 * now and then, from then on, whether there is and nobody noticed.
 */
void
group_overflow_set(QueueState *queue, FairGroup *group, int n)
{
	if (n > 0 && group->overflow == 0 &&
		pg_atomic_fetch_add_u32(&queue->overflowing, 1) == 0)
		wakeup_at(queue->database, 0);
	else if (n == 0 && group->overflow > 0)
		pg_atomic_fetch_sub_u32(&queue->overflowing, 1);
	group->overflow = n;
}

/*
 * How many tasks of a group are ready when it has been fed, at most.
 */
static int64
ready_when_fed(QueueState *queue, int class, int least)
{
	int64		room = queue->orders[class].lanes.high * (LANE_WINDOW / 2) * 3 / 4;

	room /= Max(pg_atomic_read_u32(&queue->overflowing), 1);
	return Min(Max(room, least), queue->max_ready_per_group);
}

/*
 * Enter a group into the list of the hungry.  Partition locked.
 */
static void
enter_hungry(QueueState *queue, FairGroup *group)
{
	uint32		number = group - group_entries;

	group->hunger = HUNGRY;
	SpinLockAcquire(&queue->hungry_mutex);
	group->listed = true;
	group->hungry_next = FAIRQ_NO_GROUP;
	group->hungry_previous = queue->hungry_last;
	if (queue->hungry_first == FAIRQ_NO_GROUP)
		queue->hungry_first = number;
	else
		group_entries[queue->hungry_last].hungry_next = number;
	queue->hungry_last = number;
	queue->hungry_count++;
	SpinLockRelease(&queue->hungry_mutex);
}

/*
 * Take a group out of that list, which it is in.  The list is locked.
 */
static void
leave_hungry(QueueState *queue, FairGroup *group)
{
	if (group->hungry_previous == FAIRQ_NO_GROUP)
		queue->hungry_first = group->hungry_next;
	else
		group_entries[group->hungry_previous].hungry_next = group->hungry_next;
	if (group->hungry_next == FAIRQ_NO_GROUP)
		queue->hungry_last = group->hungry_previous;
	else
		group_entries[group->hungry_next].hungry_previous = group->hungry_previous;
	group->listed = false;
	queue->hungry_count--;
	queue->being_fed++;
}

/*
 * If a group that may have overflow is to be fed, enter it into the list of the
 * hungry.  Partition locked.
 */
void
group_overflow_list(QueueState *queue, FairGroup *group)
{
	int64		max = queue->max_ready_per_group;
	int64		fed;

	if (group->hunger != NOT_HUNGRY)
		return;
	fed = ready_when_fed(queue, group->key.class, FEED_LEAST);
	if (group->overflow == 0 ||
		(group->ready <= max - Max(Min(max / 4, FEED_AT_ONCE), 1) &&
		 (fed == max || group->ready <= fed / 2)))
		enter_hungry(queue, group);
}

/*
 * The same, and wake the worker.  Partition locked.
 */
void
group_overflow_check(QueueState *queue, FairGroup *group)
{
	group_overflow_look(queue, group);
	group_overflow_wake_feeder(queue);
}

/*
 * Wake the worker if there are hungry groups, and room in the queue.  Never fails:
 * called at the end of transactions.
 */
void
group_overflow_wake_feeder(QueueState *queue)
{
	int64		room;

	if (likely(((volatile QueueState *) queue)->hungry_count == 0))
		return;
	room = queue->max_ready - queue_state_ready(queue);
	if (room > 0 && room >= Min(queue->max_ready / 8, FEED_QUEUE_AT_ONCE))
		wakeup_at(queue->database, 0);
}

/*
 * A task of a group was written to the overflow by somebody else.
 */
void
group_overflow_begins(QueueState *queue, int class, const char *key, int keylen,
					  GroupTag *tag)
{
	GroupKey	group_key;
	FairGroup  *group;

	group_table_key(queue, class, key, keylen, &group_key);
	group = group_table_lock(queue, &group_key, key, keylen,
							 queue_state_virtual_time(&queue->orders[class]));
	group->pending++;
	tag->group = group - group_entries;
	group_table_unlock(&group_key);
}

/*
 * Tasks of a group were put into the overflow, the lowest id is given, and the
 * transaction has ended.
 */
void
group_overflow_ends(QueueState *queue, uint32 number, int n, int64 id,
					bool committed)
{
	LWLock	   *lock = group_table_lock_number(number);
	FairGroup  *group = &group_entries[number];

	group->pending -= n;
	if (committed && n > 0)
	{
		group_overflow_set(queue, group, group->overflow + n);
		group->overflow_from = Min(group->overflow_from, id);
		group->overflow_limit = Min(group->overflow_limit, id);
		group_overflow_check(queue, group);
	}
	LWLockRelease(lock);
}

/*
 * n tasks of a group are in the overflow no more, from an id on, because they were
 * removed.  The group may have been forgotten, and its entry be another's by now.
 */
void
group_overflow_removed(QueueState *queue, uint32 number, int n, int64 id)
{
	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	if (group_entries[number].in_use &&
		group_entries[number].key.queue == queue_state_number(queue))
	{
		LWLock	   *lock = group_table_lock_number(number);

		FairGroup  *group = &group_entries[number];

		/* One that has a place counts as ready already. */
		if (id < group->overflow_from)
			group_table_count_ready(queue, group, -n);
		else
			group_overflow_set(queue, group, Max(group->overflow - n, 0));
		if (group->overflow == 0)
		{
			group->overflow_from = Min(group->overflow_from, group->overflow_held);
			group->overflow_held = PG_INT64_MAX;
		}
		group_overflow_check(queue, group);
		LWLockRelease(lock);
	}
	LWLockRelease(&group_table->creation_lock);
}

/*
 * A row says that a group has a task in the overflow.  again: one that may be counted,
 * and may have lost its place.
 */
void
group_overflow_found(QueueState *queue, int class, const char *key, int keylen,
					 int64 id, bool again)
{
	GroupKey	group_key;
	FairGroup  *group;

	group_table_key(queue, class, key, keylen, &group_key);
	group = group_table_lock(queue, &group_key, key, keylen,
							 queue_state_virtual_time(&queue->orders[class]));
	group_overflow_set(queue, group,
					   again ? Max(group->overflow, 1) : group->overflow + 1);
	group->overflow_from = Min(group->overflow_from, id);
	group->overflow_limit = Min(group->overflow_limit, id);
	group_overflow_check(queue, group);
	group_table_unlock(&group_key);
}

/*
 * A group is going to be given up to room places.  Partition locked.
 */
static void
begin_feeding(FairGroup *group, int64 room, HungryGroup *hungry)
{
	group->hunger = BEING_FED;
	group->seen_finish = group->finish;
	group->overflow_limit = PG_INT64_MAX;
	hungry->class = group->key.class;
	hungry->hash = (int64) group->key.low;
	hungry->from = group->overflow_from;
	hungry->room = (int) Min(Max(room, 0), PG_INT32_MAX);
}

/* A group was fed, or is not going to be.  Partition locked. */
static void
end_feeding(QueueState *queue, FairGroup *group)
{
	group->unseen = 0;
	if (likely(group->dry_epoch == 0))
		return;
	SpinLockAcquire(&queue->hungry_mutex);
	if (group->dry_epoch == queue->dry_epoch)
		queue->dry--;
	group->dry_epoch = 0;
	SpinLockRelease(&queue->hungry_mutex);
}

/*
 * The next group to feed, of which the caller takes care: group_overflow_fed when the
 * transaction commits, group_overflow_not_fed if it does not, and then queue_state_fed.
 * Returns false if there is
 * none, or no room in the queue.
 */
bool
group_overflow_next_hungry(QueueState *queue, HungryGroup *hungry)
{
	int64		room = queue->max_ready - queue_state_ready(queue);
	int64		room_of_group;
	FairGroup  *group;
	LWLock	   *lock;
	int			waiting;

	if (room <= 0)
		return false;
	SpinLockAcquire(&queue->hungry_mutex);
	waiting = queue->hungry_count;
	hungry->group = queue->hungry_first;
	if (waiting > 0)
		leave_hungry(queue, &group_entries[hungry->group]);
	SpinLockRelease(&queue->hungry_mutex);
	if (waiting == 0)
		return false;

	group = &group_entries[hungry->group];
	lock = group_table_lock_number(hungry->group);
	Assert(group->hunger == HUNGRY);
	/* What room there is in the queue is shared between the hungry. */
	room_of_group = Min(Max(room / waiting, 1),
						ready_when_fed(queue, group->key.class, FEED_LEAST) - group->ready);
	begin_feeding(group, room_of_group, hungry);
	LWLockRelease(lock);
	return true;
}

/*
 * A claim has used up the places of a group, which may have more in the overflow.  If
 * nobody feeds it yet it is for the caller to feed, as with group_overflow_next_hungry.
 * Nobody else goes on past the group until it is fed (queue_state_wait_dry).
 */
GroupDry
group_overflow_is_dry(QueueState *queue, uint32 number, HungryGroup *hungry)
{
	int64		room = queue->max_ready - queue_state_ready(queue);
	LWLock	   *lock = group_table_lock_number(number);
	FairGroup  *group = &group_entries[number];
	bool		ours;

	/*
	 * What room there is in the queue is shared with those that are hungry.  If it is
	 * not enough, groups take turns, and none gets what it would have had.  One with
	 * tasks set aside is not kept waiting by us.
	 */
	room /= ((volatile QueueState *) queue)->hungry_count + 1;
	if (room <= 0)
		group->backlogged = false;
	if (room <= 0 || group->ready - group->unseen > 0 || group->overflow_from == PG_INT64_MAX ||
		(group->limit != NO_LIMIT && limits_waits(group->limit)))
	{
		LWLockRelease(lock);
		return GROUP_NOT_DRY;
	}

	/* The worker has taken it out of the list before it locked it. */
	SpinLockAcquire(&queue->hungry_mutex);
	ours = (group->hunger == NOT_HUNGRY || group->listed);
	if (group->listed)
		leave_hungry(queue, group);
	else if (ours)
		queue->being_fed++;
	if (group->dry_epoch == 0)
	{
		group->dry_epoch = queue->dry_epoch;
		queue->dry++;
	}
	SpinLockRelease(&queue->hungry_mutex);
	if (ours)
	{
		hungry->group = number;
		begin_feeding(group,
					  Min(room, Min(ready_when_fed(queue, group->key.class, 1), FEED_DRY)),
					  hungry);
	}
	LWLockRelease(lock);
	return ours ? GROUP_IS_DRY : GROUP_IS_BEING_FED;
}

/*
 * A group was fed: moved tasks of its overflow are ready, and the next ones are
 * from the id next on (PG_INT64_MAX: there are no more), but for some in
 * somebody's hands from the id held on.
 */
void
group_overflow_fed(QueueState *queue, uint32 number, int moved, int64 next, int64 held)
{
	LWLock	   *lock = group_table_lock_number(number);
	FairGroup  *group = &group_entries[number];

	group->overflow_from = Min(next, group->overflow_limit);
	group->overflow_held = Min(held, group->overflow_held);
	if (moved > 0)
		group->offered_finish = group->finish;
	if (group->overflow_from == PG_INT64_MAX && group->overflow_held == PG_INT64_MAX)
		group_overflow_set(queue, group, 0);
	else
		group_overflow_set(queue, group, Max(group->overflow - moved, 1));
	group->hunger = NOT_HUNGRY;
	end_feeding(queue, group);

	/*
	 * From now on it is behind only because it is not fed in time, and begins again
	 * where it has got, wherever virtual time is by then.
	 */
	group->backlogged = (moved > 0 || group->backlogged) &&
		group->overflow_from != PG_INT64_MAX &&
		(group->limit == NO_LIMIT || !limits_waits(group->limit));

	/* The worker needs no waking: it comes again as long as anybody is hungry. */
	group_overflow_look(queue, group);
	LWLockRelease(lock);
}

/*
 * A group was not fed after all: it comes to the end of the list.
 */
void
group_overflow_not_fed(QueueState *queue, uint32 number)
{
	LWLock	   *lock = group_table_lock_number(number);

	enter_hungry(queue, &group_entries[number]);
	end_feeding(queue, &group_entries[number]);
	LWLockRelease(lock);
}

/*
 * Look for hungry groups of an order that are not in the list.  Tasks that were
 * in somebody's hands are looked at again by groups that have no others left, or
 * (held) by all.
 */
void
group_overflow_seek_hungry(QueueState *queue, int class, bool nothing_ready, bool held)
{
	VirtualTime v = queue_state_virtual_time(&queue->orders[class]);
	uint32		first;
	uint32		number;

	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	first = number = queue->orders[class].group_ring;
	while (number != FAIRQ_NO_GROUP)
	{
		FairGroup  *group = &group_entries[number];

		/*
		 * Without its lock first: most have neither.  What a group without
		 * overflow is wrongly thought to have ready takes the others' room.
		 */
		if (((volatile FairGroup *) group)->overflow > 0 ||
			((volatile FairGroup *) group)->ready > 0)
		{
			LWLock	   *lock = group_table_lock_number(number);

			if (nothing_ready || virtual_time_compare(group->finish, v) <= 0)
				group_table_count_ready(queue, group, -group->ready);
			if (group->hunger == NOT_HUNGRY &&
				(held || group->overflow_from == PG_INT64_MAX))
			{
				group->overflow_from = Min(group->overflow_from, group->overflow_held);
				group->overflow_held = PG_INT64_MAX;
			}
			group_overflow_check(queue, group);
			LWLockRelease(lock);
		}
		number = group->ring_next;
		if (number == first)
			break;
	}
	LWLockRelease(&group_table->creation_lock);
}
