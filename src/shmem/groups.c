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
 * claimed.
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
 * can stay scheduled while there is none.  Never fails; if all are taken it
 * looks through all groups for some to forget.
 */
bool
groups_enter(QueueState *queue, int class, const GroupName *name)
{
	FairGroup  *group = group_table_try_lock(queue, class, name,
											 queue_order_virtual_time(&queue->orders[class]),
											 ENTRY_NEW_TASK);

	if (group != NULL)
		group_table_unlock(group);
	return group != NULL;
}

/*
 * Are there so few that no group is refused an entry for a subgroup?
 */
bool
groups_are_few(void)
{
	return group_table_is_half_free();
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
	FairGroup  *group = group_table_lock(queue, class, name, v, ENTRY_NEW_TASK);
	bool		in_line = false;
	bool		overflow;

	Assert(class >= 0 && class < queue->classes);
	tag->group = group - group_entries;
	/* Its counts say that it has no overflow; the line knows better. */
	if (unlikely(group->line.lane != 0) && group->overflow <= 0 && group->pending == 0)
		in_line = !turn_lines_end(group);
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
	FairGroup  *group = group_table_lock(queue, class, name, v, ENTRY_KNOWN_TASK);

	Assert(class >= 0 && class < queue->classes);
	tag->group = group - group_entries;
	tag->slot = group->slot;
	tag->start = tag->finish = (VirtualTime) {-1, order};
	one_more_ready(queue, class, group, v);
	group_table_unlock(group);
}

/*
 * A task is leased, or about to be, whose group has no entry.  That will not do
 * where groups have limits, for it would not be counted: fails then.  If it is
 * leased already the caller has noted that, so that the lease ends with the
 * transaction.
 *
 * Looked at again when it is leased.  Whoever gives groups limits first says
 * so (limits.entries), and then looks for such leases, if there may be any
 * (limits.strangers, group_settings_adopt): one of the two sees the other, for
 * each writes before it looks, and has a full barrier between the two.
 */
void
groups_check_unknown(QueueState *queue)
{
	pg_memory_barrier();
	if (limit_table_by_default(&queue->limits) ||
		pg_atomic_read_u32(&queue->limits.entries) > 0)
		group_table_no_entry(NULL);
}

/*
 * Note what the order has served by now, with what this claim has not told it
 * yet.  Since when a group that was read from rows has work is known only now.
 */
static inline void
note_leased(const QueueOrder *order, FairGroup *group, const FairqAddress *address,
			const GroupLease *lease, double cost)
{
	double		before = ((volatile const QueueOrder *) order)->served_cost + lease->before;

	AssertGroupLockedExclusively(group);
	if (unlikely(group->since.whole == v_none.whole))
	{
		group->since.whole = address->block;
		group->since.fraction = address->fraction;
		group->since_cost = before;
	}
	group->leased_cost = before + cost;
}

/* The limits of a group, and of that above it.  Returns whether it has any. */
static inline bool
limits_of(const FairGroup *group, uint32 limits[LIMIT_LEVELS])
{
	const FairGroup *above = group_above(group);

	limits[0] = group->limit;
	limits[1] = above == NULL ? NO_LIMIT : above->limit;
	return limits[0] != NO_LIMIT || limits[1] != NO_LIMIT;
}

/*
 * If a level of a group that is locked has no limit, though defaults say that
 * it has one, that is made.  Returns whether it was; then the group is not
 * locked any more, and is to be looked up anew.  *crowded: there is no room
 * for that of a subgroup, and its group waits.  Fails if there is no room for
 * any limit.
 */
static bool
joins(QueueState *queue, FairGroup *group, const GroupName *name, bool *crowded)
{
	FairGroup  *lacks = NULL;
	GroupName	above;

	*crowded = false;

	FOR_LEVELS(level, group)
	{
		if (level->limit == NO_LIMIT && limit_settings_limit(group_defaults(queue, level)))
			lacks = level;
	}
	if (lacks == group && group_above(group) != NULL)
		*crowded = limit_table_is_crowded(group_above(group)->limit);
	if (lacks == NULL || *crowded)
		return false;
	group_table_unlock(group);
	if (lacks != group)
	{
		above = group_name_above(name);
		name = &above;
	}
	limited_groups_join(queue, name);
	return true;
}

/*
 * A task of a group is going to be leased, of this age; its row is at tid, and
 * locked.  The caller fills in cost and of_overflow of *lease, as the row
 * says, what this claim has been charged before, and the limits that have kept
 * room for the task, or NO_LIMIT. *lease says then which group that is, which
 * is not forgotten until the lease ends, and what the task is charged, by the
 * group's weight.  What was kept by other limits, which the group had before,
 * the caller gives up; or all, if the task is not leased.
 *
 * The group counts the lease before there is one, and its limits do: so no two
 * claims take the last that it may have.  The caller undoes that with
 * groups_lease_refused if the lease is not granted.
 *
 * Returns false if the group is at its limit; then nothing is counted, and
 * lease->limits are those that it has.  Fails, with nothing counted, where
 * groups have limits and there is no entry for the group or for its limit.
 */
bool
groups_lease_begins(QueueState *queue, const FairqAddress *address,
					const ItemPointerData *tid, const GroupName *name,
					TimestampTz enqueued_at, GroupLease *lease)
{
	FairGroup  *group;
	FairGroup  *whole;
	bool		may = true;
	bool		crowded = false;
	bool		of_overflow = lease->of_overflow;
	uint32		reserved[LIMIT_LEVELS];
	double		cost = lease->cost;
	int			class = address->class;

	Assert(class < queue->classes);
	memcpy(reserved, lease->limits, sizeof(reserved));
	/* Until it has the limits that it is to have by default. */
	do
	{
		group = group_table_try_lock(queue, class, name,
									 queue_order_virtual_time(&queue->orders[class]),
									 limit_table_by_default(&queue->limits) ||
									 pg_atomic_read_u32(&queue->limits.entries) > 0 ?
									 ENTRY_KNOWN_TASK : ENTRY_UNCOUNTED);
	} while (unlikely(group != NULL && limit_table_by_default(&queue->limits) &&
					  joins(queue, group, name, &crowded)));
	lease->cost = 0;
	lease->counted = queue_state_is_counted(queue, tid);
	if (group == NULL)
	{
		/*
		 * Other groups have taken all the entries.  The task is there, and to
		 * be claimed: only where groups may have limits it has to be counted.
		 */
		pg_atomic_write_u32(&queue->limits.strangers, 1);
		groups_check_unknown(queue);
		lease->group = FAIRQ_NO_GROUP;
		lease->limits[0] = lease->limits[1] = NO_LIMIT;
		lease->counted = false;
		lease->charge = cost / queue->limits.defaults.weight;
		return true;
	}
	whole = group_whole(group);
	if (limits_of(group, lease->limits))
		may = !crowded && group_limits_take(lease->limits, reserved);
	cost = group_charge(queue, group, cost);
	if (may)
	{
		note_leased(&queue->orders[class], whole, address, lease, cost);
		FOR_LEVELS(level, group)
		{
			level->leased++;
			level->served++;
			level->served_cost += cost;
			level->head_time = Max(level->head_time, enqueued_at);
		}
		lease->cost = cost;
		if (likely(lease->counted && !of_overflow))
			group_table_count_ready(queue, group, -1);
	}
	lease->group = group - group_entries;
	lease->charge = cost / group_weight(queue, whole);
	group_table_unlock(group);
	return may;
}

/*
 * Another claim has a lease on the task, or the session is over: all counts
 * are as they were before groups_lease_begins, but for room that was kept for
 * the task, which is used up.  The limits are those that the group has now:
 * one that it was told meanwhile has counted this task, too.  Never fails.
 */
void
groups_lease_refused(const GroupLease *lease)
{
	FairGroup  *group;
	uint32		limits[LIMIT_LEVELS];

	if (lease->group == FAIRQ_NO_GROUP)
		return;
	group = group_table_lock_number(lease->group);
	(void) limits_of(group, limits);
	FOR_LEVELS(level, group)
	{
		level->leased--;
		level->served--;
		level->served_cost -= lease->cost;
	}
	if (lease->counted && !lease->of_overflow)
		group_table_count_ready(queue_state_by_number(group->key.queue), group, 1);
	group_table_unlock(group);
	for (int i = 0; i < LIMIT_LEVELS; i++)
		group_limits_give(limits[i], true);
}

/* Of what a task took, how much goes into what the next is charged. */
#define NEW_SECONDS		0.1

/*
 * A lease has ended that ran for so many microseconds; run < 0: its task was
 * not worked on.  charged is how long of that it took of its worker's time, in
 * microseconds: under charge 'seconds' what the group's next tasks are
 * charged, averaged over some.  FAIRQ_NO_GROUP: the lease counts for none.
 *
 * The lease is not the group's any more, and the caller holds no lock of
 * groups, lanes or leases: the group goes on if it has waited for this, which
 * takes its lane's.  Then the entry may be another group's.  Never fails:
 * called at the end of transactions.
 */
void
groups_lease_ends(uint32 number, int64 run, int64 charged)
{
	FairGroup  *group;
	uint32		limits[LIMIT_LEVELS];

	if (number == FAIRQ_NO_GROUP)
		return;
	group = group_table_lock_number(number);
	/* The limits first: a group with tasks in flight keeps its own. */
	(void) limits_of(group, limits);
	FOR_LEVELS(level, group)
	{
		double		seconds = charged / (double) USECS_PER_SEC;

		level->leased--;
		if (run < 0)
			continue;
		level->run_time += run;
		level->seconds = level->seconds < 0 ? seconds :
			level->seconds + NEW_SECONDS * (seconds - level->seconds);
	}
	group_table_unlock(group);
	for (int i = 0; i < LIMIT_LEVELS; i++)
		group_limits_give(limits[i], false);
}

/*
 * A lease is found whose group was not known.  Returns that, which counts it
 * from now on, and so do its limits, whether they have room or not.  The
 * caller tells the lease (leases_adopt); or takes it back, with
 * groups_lease_ends.  Fails if there is no entry.
 */
uint32
groups_adopt_lease(QueueState *queue, int class, const GroupName *name)
{
	FairGroup  *group = group_table_lock(queue, class, name,
										 queue_order_virtual_time(&queue->orders[class]),
										 ENTRY_KNOWN_TASK);

	FOR_LEVELS(level, group)
	{
		level->leased++;
		if (level->limit != NO_LIMIT)
			limit_table_adopt(level->limit);
	}
	group_table_unlock(group);
	return group - group_entries;
}

/*
 * A task of the overflow is leased.  The lock of its lease is held, here and
 * in the next two: so who looks under that lock finds the task leased or
 * counted, not both and not neither.  None of the three fails; the group has
 * the task in flight, or counted, and so is not forgotten.
 */
void
groups_leased(uint32 number)
{
	FairGroup  *group = group_table_lock_number(number);

	group_table_count_overflow(group, -1);
	group_table_unlock(group);
}

/*
 * A lease has ended, and its task is as it was before: ready, at its old place
 * or at another one, or in the overflow.  Before the group is told that it has
 * one less in flight (groups_lease_ends), so that it is not forgotten between
 * the two.  In the overflow it needs a line; the caller offers it to that.
 */
void
groups_given_back(int queue_number, uint32 number, bool of_overflow)
{
	QueueState *queue = queue_state_by_number(queue_number);
	FairGroup  *group = group_table_lock_number(number);

	if (of_overflow)
	{
		group_table_count_overflow(group, 1);
		turn_lines_begin(queue, group);
	}
	else
		group_table_count_ready(queue, group, 1);
	group_table_unlock(group);
}

/*
 * A task was removed that was not leased.
 */
void
groups_removed(int queue_number, uint32 number, bool of_overflow)
{
	QueueState *queue = queue_state_by_number(queue_number);
	FairGroup  *group = group_table_lock_number(number);

	if (of_overflow)
		group_table_count_overflow(group, -1);
	else
		group_table_count_ready(queue, group, -1);
	group_table_unlock(group);
}

/*
 * n tasks of a group are ready, or (n < 0) are not after all: rows that were
 * written with an address, or removed.  They count as ready until then, for
 * which the group is not forgotten.  Never fails: called at the end of
 * transactions.
 */
void
groups_written(QueueState *queue, uint32 number, int n)
{
	FairGroup  *group = group_table_lock_number(number);

	group_table_count_ready(queue, group, n);
	group_table_unlock(group);
}

/*
 * A row of a group was written with SQL, with an address: it counts as ready
 * from now on, and the caller notes what undoes that (pending_row_written).
 * Its tag is the row's own: F stays.  Returns its group; fails if there is no
 * entry.
 */
uint32
groups_begin_row(QueueState *queue, int class, const GroupName *name)
{
	FairGroup  *group = group_table_lock(queue, class, name,
										 queue_order_virtual_time(&queue->orders[class]),
										 ENTRY_KNOWN_TASK);

	group_table_count_ready(queue, group, 1);
	group_table_unlock(group);
	return group - group_entries;
}

/*
 * The task, or several in a row, was not enqueued after all.  If the group has
 * had no task since, it has its tag back; else there is a gap.  ready: how
 * many were counted as ready; 0 of a task that is removed, which is counted
 * off apart.  Never fails: called at the end of transactions.
 */
void
groups_untag(uint64 slot, uint32 number, VirtualTime start, VirtualTime finish,
			 int ready)
{
	FairGroup  *group = &group_entries[number];

	/*
	 * The entry may be another group's by now, and its key may change until
	 * the creation lock is held.  Shared: no entry is made or taken over.
	 */
	LWLockAcquire(&group_table->creation_lock, LW_SHARED);
	if (group->in_use && group->slot == slot)
	{
		QueueState *queue = queue_state_by_number(group->key.queue);

		(void) group_table_lock_number(number);
		if (virtual_time_compare(group->finish, finish) == 0)
		{
			group->finish = start;
			if (unlikely(group->line.lane != 0))
				turn_lines_untag(group, start, finish);
		}
		group_table_count_ready(queue, group, -ready);
		group_table_unlock(group);
	}
	LWLockRelease(&group_table->creation_lock);
}

/*
 * How far a group has got: all of *tag but start.  Returns false if there is
 * no such group, or it was forgotten.  No lock is held on return: what is done
 * by the number then has to allow for the entry being another group's.
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
 * A row says that a group has a task of this address and cost.  leased: the
 * task is leased.  A slot that none of us gave out, because the row was
 * written with SQL, is not taken over: it breaks ties, and needs to be no
 * more.  Nor is such a tag, see virtual_time.h.
 *
 * For the backend that reads a queue's rows (recovery.c), which producers wait
 * for, not claims.  A group that is new begins before all tags, and so with
 * what its rows say.  Fails if there is no entry.
 */
void
groups_restore(QueueState *queue, const FairqAddress *address, const GroupName *name,
			   double cost, bool leased)
{
	int			class = address->class;
	uint64		slot = address->slot;
	VirtualTime start = {address->block, address->fraction};
	FairGroup  *group = group_table_lock(queue, class, name, v_none, ENTRY_KNOWN_TASK);
	FairGroup  *whole = group_whole(group);
	VirtualTime finish;

	finish = virtual_time_add(start, cost, group_weight(queue, whole));
	if (start.whole < FAIRQ_TAGS_GROUPS &&
		virtual_time_compare(whole->finish, finish) < 0)
	{
		whole->finish = finish;
		if (slot < FAIRQ_SLOTS)
			whole->slot = slot;
		if (whole->line.lane != 0)
			turn_lines_bound(whole, finish, NULL);
	}
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
