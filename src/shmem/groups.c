/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Groups: the tags that share a queue fairly between them.
 *
 * Start-time fair queueing (see virtual_time.h) needs one number a group: F,
 * the finish tag of its last task.  It is kept here, for each group, queue and
 * priority class, together with the group's slot, the tie-break between groups
 * of one start tag.  So a producer gets a task's address without a row lock
 * and without waiting for any other transaction (invariant I6).
 *
 * group_table.c finds and makes the entries, and says which lock guards what;
 * group_overflow.c counts what has no address, and turns.c says when that is
 * claimed; group_leases.c counts what is in flight.
 *
 * Locking: the lock of a group's partition guards its entry.  Each function
 * takes it exclusively (groups_look: shared) and releases it on return.  That
 * of the home lane is taken under it.  groups.h says what a caller may hold.
 * Virtual time is read before, so it may have moved on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "shmem/group_private.h"
#include "shmem/groups.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"

/* A task that a refund pays for is charged so much of it still: F goes on. */
#define REFUND_LEFT		(1.0 / 64)

/*
 * A group has been charged for tasks that expired, and none was served for
 * it.  Its next tasks are charged the less, until that is made up for; or it
 * has come to virtual time v, where nothing is owed to it.  Returns what of a
 * charge is left, which is above zero: no two tasks of it have one start tag.
 */
static double
refunded(FairGroup *group, double charge, VirtualTime v)
{
	double		taken = Min(group->refund, charge * (1 - REFUND_LEFT));

	AssertGroupLockedExclusively(group);
	Assert(group->refund >= 0 && charge >= 0);
	if (virtual_time_compare(v, group->finish) >= 0)
		taken = group->refund = 0;
	group->refund -= taken;
	return charge - taken;
}

/*
 * A group (not a subgroup) gets a task at v, at or beyond the finish tag of
 * its last one: in between it had nothing to be served, which is left out of
 * the periods of which the view of groups shows its share.  For views only:
 * what the order has served is read without its lock.
 */
void
group_had_no_work(const QueueOrder *order, FairGroup *group, VirtualTime v)
{
	double		served = ((volatile const QueueOrder *) order)->served_cost;

	AssertGroupLockedExclusively(group);
	if (group->since.whole == v_none.whole)
	{
		group->since = v;
		group->since_cost = group->leased_cost = served;
	}
	else
	{
		group->since = virtual_time_moved(group->since, group->finish, v);
		group->since_cost += Max(served - group->leased_cost, 0);
	}
	group->leased_cost = served;
}

/*
 * A group has a task ready that it had not, at v: if it has its tag from there
 * on it had nothing to be served before.  It counts for each level, and once
 * for the queue.
 */
static void
one_more_ready(QueueState *queue, int class, FairGroup *group, VirtualTime v)
{
	FairGroup  *whole = group_whole(group);

	if (whole->since.whole == v_none.whole || virtual_time_compare(v, whole->finish) > 0)
		group_had_no_work(&queue->orders[class], whole, virtual_time_max(v, whole->finish));
	FOR_LEVELS(level, group)
	{
		if (level->ready == 0)
			level->head_time = GetCurrentTimestamp();
	}
	group_table_count_ready(queue, group, 1);
}

/*
 * Is there an entry for a group, or could there be one?  Then there is, and it
 * stays for as long as no other group takes it over: a hint, for a task that
 * can stay scheduled while there is none (placement_has_room).  Never fails; if
 * all are taken it looks through all groups for some to forget.
 *
 * The caller holds no lock of ours, and has the queue's relation locked.
 */
bool
groups_enter(QueueState *queue, int class, const GroupName *name)
{
	FairGroup  *group = group_table_try_lock(queue, class, name, NULL, ENTRY_NEW_TASK);

	if (group != NULL)
		group_table_unlock(group);
	return group != NULL;
}

/*
 * Give a task of a group its tags: S = max(v, F), F = S + cost / weight, where
 * v is in tag->start, as the caller has read it.  While the group has overflow
 * its tags go on in its line (turns.c).
 *
 * From now on the task counts as ready, though its row has yet to be written:
 * the caller notes at once what undoes that (pending_placed), has reserved
 * room for it, and must not fail in between.  The class has lanes, and the
 * tags of the rows have been read (recovery_tags).
 *
 * Returns false if the task has to wait in the overflow, if it may; then
 * tag->group is its group, which is not forgotten until group_overflow_ends,
 * and the rest of *tag is as it was.  Whose turn it is between the subgroups
 * of a group is known only when that comes to its turn: so all their tasks are
 * of the overflow, whether they may be or not.
 *
 * Fails, with nothing changed, if there is no entry for the group.
 */
bool
groups_tag(QueueState *queue, int class, const GroupName *name, double cost,
		   bool may_overflow, GroupTag *tag)
{
	VirtualTime v = tag->start;
	FairGroup  *group = group_table_lock(queue, class, name, &v, ENTRY_NEW_TASK);
	bool		in_line = false;
	bool		overflow;

	Assert(class >= 0 && class < queue->classes);
	tag->group = group - group_entries;
	/* Its counts say that it has no overflow; the line knows better. */
	if (unlikely(group->line.lane != 0) && group->overflow <= 0 && group->pending == 0)
		in_line = !turn_lines_end(group);

	/*
	 * In order: whatever has room would overtake what waits.  Tasks that are
	 * pending are of transactions that have not ended, whose tasks come
	 * first if they commit.
	 */
	overflow = name->subgroup || (may_overflow &&
		(in_line || group->overflow > 0 || group->pending > 0 ||
		 group->ready >= queue->published.max_ready_per_group ||
		 queue_state_ready(queue) >= queue->published.max_ready));
	if (overflow)
		group->pending++;
	else
	{
		double		charge = group_charge(queue, group, cost);

		if (unlikely(group->refund > 0))
			charge = refunded(group, charge, v);
		one_more_ready(queue, class, group, v);
		if (unlikely(group->line.lane != 0))
			turn_lines_tag(group, v, charge, group_weight(queue, group), tag);
		else
		{
			tag->start = virtual_time_max(v, group->finish);
			tag->finish = virtual_time_add(tag->start, charge, group_weight(queue, group));
		}
		tag->slot = group->slot;
		group->finish = tag->finish;
	}
	group_table_unlock(group);
	return !overflow;
}

/*
 * Give a task of a group the first place instead, beside others by their
 * order.  The group is not charged for it, and its finish tag stays: the tag
 * given here is none that it ever has, so groups_untag does not give it back
 * either.  What groups_tag says of its caller and of failure holds here, too;
 * there is no overflow for such a task.
 */
void
groups_tag_first(QueueState *queue, int class, const GroupName *name, uint32 order,
				 GroupTag *tag)
{
	VirtualTime v = tag->start;
	FairGroup  *group = group_table_lock(queue, class, name, &v, ENTRY_KNOWN_TASK);

	Assert(class >= 0 && class < queue->classes);
	tag->group = group - group_entries;
	tag->slot = group->slot;
	tag->start = tag->finish = (VirtualTime) {-1, order};
	one_more_ready(queue, class, group, v);
	group_table_unlock(group);
}

/*
 * A row of a group was written with SQL.  With an address it counts as ready
 * from now on; its tag is the row's own, and F stays.  Of the overflow it is
 * pending, for which the group is not forgotten.  The caller notes at once what
 * ends either (pending_row_written, group_overflow_ends).  Returns the group;
 * fails, with nothing changed, if there is no entry.
 */
uint32
groups_begin_row(QueueState *queue, int class, const GroupName *name, bool of_overflow)
{
	FairGroup  *group = group_table_lock(queue, class, name, NULL, ENTRY_KNOWN_TASK);

	if (of_overflow)
		group->pending++;
	else
	{
		group_head_came(group, GetCurrentTimestamp(), false);
		group_table_count_ready(queue, group, 1);
	}
	group_table_unlock(group);
	return group - group_entries;
}

/*
 * The task, or several in a row, was not enqueued after all.  If the group has
 * had no task since, it has its tag back; else there is a gap, which costs the
 * group as much as the task would have.  ready: how many were counted as ready;
 * 0 of a task that is removed, which is counted off apart.
 *
 * slot is that of the group when it gave the tag, by which it is known to be
 * still that group: the entry may be another's by now, and then nothing was
 * left to give back.  Takes the creation lock in shared mode, then the
 * partition's, and the home lane's under that.  Never fails: called at the end
 * of transactions.
 */
void
groups_untag(uint64 slot, uint32 number, VirtualTime start, VirtualTime finish,
			 int ready)
{
	FairGroup  *group = group_table_lock_hint(number);

	if (group == NULL)
		return;
	/* A slot is one group's at a time: another group here has another one. */
	if (group->slot == slot)
	{
		if (virtual_time_compare(group->finish, finish) == 0)
		{
			group->finish = start;
			if (unlikely(group->line.lane != 0))
				turn_lines_untag(group, start, finish);
		}
		group_table_count_ready(queue_state_by_number(group->key.queue), group, -ready);
	}
	group_table_unlock(group);
}

/*
 * How far a group has got: all of *tag but start.  Returns false if there is no
 * such group, or it was forgotten; then *tag is as it was.  Takes the
 * partition's lock in shared mode, and under it none: the weight is of a moment
 * ago.  No lock is held on return: what is done by the number then has to allow
 * for the entry being another group's (group_table_lock_hint).
 */
bool
groups_look(QueueState *queue, int class, const GroupName *name,
			GroupTag *tag)
{
	LWLock	   *lock;
	FairGroup  *group = group_table_find(queue, class, name, LW_SHARED, &lock);

	if (group != NULL)
	{
		tag->weight = group_weight(queue, group);
		tag->finish = group->finish;
		tag->slot = group->slot;
		tag->group = group - group_entries;
	}
	LWLockRelease(lock);
	return group != NULL;
}

/*
 * A task of a group that has tags, of this cost, has expired and is about to
 * be counted off: the group gets back what it was charged.  Its place is not
 * given to another, for tasks of a group are served in their order.  Were
 * nothing given back, a group whose tasks expire as they wait would be charged
 * more than the others are served, and never come to its turn.
 *
 * If it was the last one, the group starts one task behind virtual time, as if
 * they had been purged.  Called before the task is counted off, for which the
 * group is not forgotten.  Never fails: called at the end of transactions.
 */
void
groups_refund(QueueState *queue, int class, uint32 number, double cost)
{
	VirtualTime level = virtual_time_add(queue_order_virtual_time(&queue->orders[class]),
										 1.0, 1.0);
	FairGroup  *group = group_whole(group_table_lock_number(number));

	Assert(cost > 0);
	if (group->ready > 1)
		group->refund += group_charge(queue, group, cost);
	else
	{
		if (virtual_time_compare(group->finish, level) > 0)
			group->finish = level;
		group->refund = 0;
	}
	group_table_unlock(group);
}

/*
 * A row says that a group has a task of this address and cost, which came
 * then.  leased: it is leased.  A slot that none of us gave out, because the
 * row was written with SQL, is not taken over: it breaks ties, and needs to be
 * no more.  Nor is such a tag, see virtual_time.h.
 *
 * For the backend that reads a queue's rows (recovery.c), which producers wait
 * for, not claims.  A group that is new begins before all tags, and so with
 * what its rows say.  Fails if there is no entry.
 */
void
groups_restore(QueueState *queue, const FairqAddress *address, const GroupName *name,
			   double cost, TimestampTz enqueued_at, bool leased)
{
	int			class = address->class;
	uint64		slot = address->slot;
	VirtualTime start = {address->block, address->fraction};
	FairGroup  *group = group_table_lock(queue, class, name, &v_none, ENTRY_KNOWN_TASK);
	FairGroup  *whole = group_whole(group);
	VirtualTime finish;

	finish = virtual_time_add(start, cost, group_weight(queue, whole));
	/* Of several rows the last counts: F is where the next task begins. */
	if (start.whole < FAIRQ_TAGS_GROUPS &&
		virtual_time_compare(whole->finish, finish) < 0)
	{
		whole->finish = finish;
		if (slot < FAIRQ_SLOTS)
			whole->slot = slot;
		if (whole->line.lane != 0)
			turn_lines_bound(whole, finish, NULL);
	}
	group_head_came(group, enqueued_at, !leased);
	if (!leased)
		group_table_count_ready(queue, group, 1);
	group_table_unlock(group);

	/* Slots that are given out from now on are beyond. */
	if (queue->orders[class].next_slot <= slot && slot < FAIRQ_SLOTS)
	{
		LWLockAcquire(&group_table->creation_lock, LW_EXCLUSIVE);
		queue->orders[class].next_slot =
			Max(queue->orders[class].next_slot, slot + 1);
		LWLockRelease(&group_table->creation_lock);
	}
}
