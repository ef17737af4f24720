/*-------------------------------------------------------------------------
 *
 * claim_grant.c
 *	  From an entry of a lane to a lease: what all claims do with a task.
 *
 * The look at the row and the lease happen under one share lock on the row's
 * page.  Whoever deletes or changes a row needs that lock exclusively.  So if
 * the row was alive when we looked, it is when we have the lease; without the
 * lock an ack could come in between: the row deleted, its lease dropped, and we
 * would grant a lease on a finished task (invariant I2).
 *
 * An entry that leads nowhere is dropped: whoever has the row in hand (inserts
 * it, deletes it, or has a lease) offers it again when that has ended, if it
 * is to be claimed then.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/settings.h"
#include "common/wall_clock.h"
#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/stats.h"
#include "shmem/turns.h"
#include "shmem/waiters.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"
#include "verbs/claim_private.h"
#include "xact/pending_rows.h"

/* How long a claim of the row's task lasts, in microseconds. */
int64
claim_lease_of(RowReader *row)
{
	if (!row_is_null(row, COLUMN_LEASE))
		return wall_clock_usecs(DatumGetIntervalP(row_value(row, COLUMN_LEASE)));
	return row->info->lease;
}

/* How many attempts the row's task has; 0: no limit. */
int
claim_max_attempts_of(RowReader *row)
{
	if (!row_is_null(row, COLUMN_MAX_ATTEMPTS))
		return DatumGetInt32(row_value(row, COLUMN_MAX_ATTEMPTS));
	return row->info->max_attempts;
}

/*
 * Read on in the index of a lane.  Returns false if there is nothing to read
 * or another backend is reading.
 */
bool
claim_refill(Relation rel, QueueInfo *info, Lane *lane)
{
	LaneEntry	from;
	LaneRead	read;
	int			n;

	if (!lanes_refill_begin(lane, &from, &read.max))
		return false;
	read.entries = palloc(read.max * sizeof(LaneEntry));
	n = queue_index_walk(rel, info, lane, &from, &read);
	if (unlikely(pg_atomic_read_u32(&info->state->limits.entries) > 0))
		n = turns_not_parked(lane, read.entries, n);
	lanes_refill_end(lane, read.entries, n, read.more ? &read.next : NULL);
	pfree(read.entries);
	return true;
}

/* Read on in the line of the first turn of a lane, taking nothing. */
static bool
look_at_turn(Relation rel, QueueInfo *info, Lane *lane)
{
	RowReader	row;
	int			taken;
	bool		read;

	row_reader_begin(&row, rel, info);
	read = claim_read_line(&row, lane, FAIRQ_NO_GROUP, NULL, NULL, &taken);
	row_reader_end(&row);
	return read;
}

/*
 * What is next in a lane, for certain: its index, and lines, are read as far as
 * that takes.  Returns false if there is nothing.
 */
bool
claim_look(Relation rel, QueueInfo *info, Lane *lane, LaneTop *top)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		lanes_look_locked(lane, top);
		if (top->view == LANE_READY || top->view == LANE_EMPTY)
			return top->view == LANE_READY;
		if (top->turn ? look_at_turn(rel, info, lane) : claim_refill(rel, info, lane))
			continue;
		lanes_refill_wait(lane);
	}
}

/* Leases that were granted are written together, at the end. */
static void
note_durable(Claim *claim, const LeaseInfo *lease)
{
	Assert(claim->durable_count >= 0 && claim->durable_count <= claim->durable_size);
	if (claim->durable_count == claim->durable_size)
	{
		claim->durable_size = Max(2 * claim->durable_size, Min(claim->request->max_tasks, 128));
		claim->durable = claim->durable == NULL ?
			palloc(claim->durable_size * sizeof(LeaseInfo)) :
			repalloc(claim->durable, claim->durable_size * sizeof(LeaseInfo));
	}
	claim->durable[claim->durable_count++] = *lease;
}

/*
 * The session was alive when the claim began.  Since then it may have waited,
 * for the queue's table or for a row that it acknowledged.
 */
static void
session_over(Claim *claim)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot lease a task of queue \"%s\": the session is over",
					claim->info->name),
			 errhint("Stop working on its tasks, and open another with fairq.open_session().")));
}

/*
 * Since when the row's task could have been claimed: since it was enqueued or,
 * if that is later, due.
 */
static TimestampTz
ready_since(RowReader *row)
{
	TimestampTz since = DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT));

	if (!row_is_null(row, COLUMN_RUN_AT))
		since = Max(since, DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)));
	return since;
}

/* The row's task was leased. */
static inline void
count_claimed(Claim *claim)
{
	RowReader  *row = &claim->row;
	QueueState *state = claim->info->state;
	int64		wait = claim->now - ready_since(row);

	stats_batch_add(&claim->waits, state, STATS_WAIT, wait);
	if (likely(row_is_null(row, COLUMN_NAME)))
		return;
	stats_tally_name_value(state, row_value(row, COLUMN_NAME), STATS_WAIT, wait);
	if (claim->request->pop)
		stats_tally_name(state, row_value(row, COLUMN_NAME), NAME_DONE);
}

/*
 * A task that was leased is popped: acknowledge it.  Returns false if another
 * transaction has the row locked, or has just changed it: a claim does not
 * wait, but the entry is looked at again soon.
 */
static bool
pop_task(Claim *claim, Lane *lane, const LaneEntry *entry, LeaseInfo *lease, int claimed)
{
	RowReader  *row = &claim->row;

	AssertRelationLocked(claim->rel, RowExclusiveLock);
	Assert(!row->locked);
	if (!row_writer_delete(row, false))
	{
		pending_not_claimed(claimed);
		lane_doubts_add(lane, InvalidTransactionId, entry, false);
		return false;
	}
	leases_settle(&lease->ref, lease);
	pending_settled(lease);
	ended_tasks_add(&claim->ended, row, ARCHIVE_ACKED, lease->started);
	return true;
}

/* The class of a task of the overflow: its address is that of its turn now. */
static int
class_of_overflow(RowReader *row)
{
	return queue_state_class(row->info->state,
							 DatumGetInt64(row_value(row, COLUMN_PRIORITY)));
}

/*
 * Is the task whose row is read and locked to be passed over?  Then the row is
 * unlocked, and its entry is of no use.
 *
 * One that has expired is not begun any more.  A claim writes nothing; the
 * worker is woken for it, and a claim without one does its work afterwards.
 * Its row stays for a moment.  One that was taken out of a line, and is in
 * another group or class by now, is in the line of that: who has changed it has
 * seen to that.
 */
static bool
pass_over(Claim *claim, const GroupName *name)
{
	LaneTurn   *turn = claim->turn;
	bool		expired = row_reader_has_expired(&claim->row);
	bool		elsewhere = unlikely(turn != NULL) && !turn->parked &&
		!turns_is_of(turn, class_of_overflow(&claim->row), name);

	Assert(claim->row.locked);
	if (likely(!expired && !elsewhere))
		return false;
	row_reader_unlock(&claim->row);
	claim->met_expired |= expired;
	if (turn != NULL)
		claim_hand_give_up(turn);
	return true;
}

/*
 * The lease that has begun has had the room that was kept for its task, unless
 * it was another limit that has kept it, which the group has no more.
 */
static void
had_room(LaneTurn *turn, const GroupLease *group)
{
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		if (turn->limits[i] == group->limits[i])
			turn->limits[i] = NO_LIMIT;
	}
	claim_hand_give_up(turn);
}

/*
 * A task that was refused may not go to its group, which has claim_grant said:
 * it is parked if it was taken out of its lane.  Else that is left as it is,
 * and the group is waited for.
 */
void
claim_park(Claim *claim, Lane *lane, const LaneEntry *entry, bool taken)
{
	GroupName	name = row_reader_group(&claim->row);

	if (!limited_groups_park(claim->info->state, lane->class, &name, taken ? lane : NULL, entry,
							 DatumGetFloat4(row_value(&claim->row, COLUMN_COST))) && taken)
		lanes_offer_of_group(lane, entry, WAITERS_ANY_GROUP);
}

/* What its group is told of the task whose row is read. */
static inline void
group_lease(Claim *claim, const LaneEntry *entry, const LaneTurn *turn, GroupLease *group)
{
	group->cost = DatumGetFloat4(row_value(&claim->row, COLUMN_COST));
	group->before = claim->served_cost;
	group->of_overflow = lanes_entry_task(entry) != 0;
	for (int i = 0; i < LIMIT_LEVELS; i++)
		group->limits[i] = turn == NULL ? NO_LIMIT : turn->limits[i];
}

/*
 * The group may not have the task whose row is read and locked; but room is
 * kept for one that is in hand behind it, which was taken out of its group's
 * line.  Then this one has it, and that one comes back when it is met.
 * Returns whether the lease begins.
 */
static bool
take_over(Claim *claim, const LaneEntry *entry, const FairqAddress *address,
		  const GroupName *name, GroupLease *group)
{
	RowReader  *row = &claim->row;
	LaneTurn   *other = claim_hand_reserved(group->limits);
	bool		begins;

	if (other == NULL || other == claim->turn)
		return false;
	group_lease(claim, entry, other, group);
	begins = groups_lease_begins(claim->info->state, address, &row->tuple.t_self, name,
								 DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT)), group);
	if (begins)
	{
		had_room(other, group);
		/* One lease needs one room: what was kept for its own task goes. */
		if (claim->turn != NULL)
			claim_hand_give_up(claim->turn);
	}
	return begins;
}

/*
 * Put a lease on the task whose row is read and locked, and unlock the row.
 * Returns whether it is ours, and the tags at which it is served. *at_limit:
 * it was not granted, because its group may not have it now.
 */
bool
claim_grant(Claim *claim, Lane *lane, const LaneEntry *entry, VirtualTime *start,
			VirtualTime *finish, bool *at_limit)
{
	RowReader  *row = &claim->row;
	const FairqAddress *address;
	int64		usecs = claim->request->lease;
	GroupName	name = row_reader_group(row);
	GroupLease	group;
	TimestampTz deadline;
	LeaseInfo	lease;
	LeaseGrant	result;
	int			claimed;

	*at_limit = false;
	if (unlikely(pass_over(claim, &name)))
		return false;
	address = DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	/* A pop lasts as long as its transaction: it must not run out before. */
	deadline = claim->request->pop ||
		(usecs < 0 && claim->request->session.number != NO_SESSION) ? DT_NOEND :
		claim->steady + (usecs < 0 ? claim_lease_of(row) : usecs);
	group_lease(claim, entry, claim->turn, &group);
	if (unlikely(!groups_lease_begins(claim->info->state, address, &row->tuple.t_self, &name,
									  DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT)),
									  &group)) &&
		!take_over(claim, entry, address, &name, &group))
	{
		/* A task that is leased is offered again by its holder, from here. */
		*at_limit = !leases_seen(claim->queue, DatumGetInt64(row_value(row, COLUMN_ID)),
								 &row->tuple.t_self);
		row_reader_unlock(row);
		if (claim->turn != NULL)
			claim_hand_give_up(claim->turn);
		return false;
	}
	start->whole = address->block;
	start->fraction = address->fraction;
	if (unlikely(claim->turn != NULL))
	{
		had_room(claim->turn, &group);
		*start = claim->turn->tag;
	}
	*finish = virtual_time_add(*start, group.charge, 1.0);
	lease.queue = claim->queue;
	lease.task = DatumGetInt64(row_value(row, COLUMN_ID));
	lease.tid = row->tuple.t_self;
	lease.enqueued_at = DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT));
	lease.attempt = row_reader_attempt(row);
	lease.started = claim->steady;
	lease.deadline = deadline;
	lease.group = group.group;
	lease.overflow = group.of_overflow;
	result = leases_grant(&lease, &claim->request->session, group.counted);
	row_reader_unlock(row);
	if (result != LEASE_GRANTED)
	{
		groups_lease_refused(&group);
		if (result == LEASE_SESSION_OVER)
			session_over(claim);
		return false;
	}
	claimed = pending_claimed(&lease, lane, entry);
	if (unlikely(group.group == FAIRQ_NO_GROUP))
		groups_check_unknown(claim->info->state);
	claim->first_deadline = Min(claim->first_deadline, lease.deadline);
	if (claim->request->pop)
	{
		if (!pop_task(claim, lane, entry, &lease, claimed))
			return false;
	}
	else if (claim->info->durable_leases)
		note_durable(claim, &lease);
	count_claimed(claim);
	claim->sink(row, &lease, claim->arg);
	claim->served_cost += group.cost;
	claim->got++;
	return true;
}

/*
 * The order knows of what was claimed of its tasks.
 */
void
claim_tell_served(Claim *claim, QueueOrder *order)
{
	Assert(claim->served_cost >= 0);
	if (claim->served_cost > 0)
		queue_order_served(order, claim->served_cost);
	claim->turns_cost += claim->served_cost;
	claim->served_cost = 0;
}

/*
 * There is no lease to be had for want of entries.
 */
void
claim_no_leases(Claim *claim)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("cannot lease a task of queue \"%s\": there are %d leases already",
					claim->info->name, settings_max_leases),
			 errhint("Raise the setting \"%s\" and restart the server, or acknowledge tasks in flight.",
					 "pgfairq.max_leases")));
}

/*
 * Can the task whose row is read be leased, as far as the row says?  If not,
 * it is handed over by another transaction, or noted to be in doubt.
 *
 * A turn must be kept until it is known what becomes of its row, also if it is
 * this transaction that has changed or removed it: its line comes to it no
 * more.
 */
bool
claim_can_lease(Claim *claim, Lane *lane, RowStatus status, const LaneEntry *entry)
{
	RowReader  *row = &claim->row;
	int64		task = lanes_entry_task(entry);
	LeaseInfo	lease;

	switch (status)
	{
		case ROW_GONE:
			/*
			 * It may be this transaction that has removed it, and its lease
			 * may have seen the row elsewhere.
			 */
			if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
				return false;
			if (task != 0)
				pending_passed(lane, entry, claim->turn->group, false);
			else
			{
				FairqAddress address;

				lanes_entry_address(lane, entry, &address);
				pending_lower_at_abort(lane, &address);
			}
			return false;
		case ROW_OWN:			/* handed over when we commit */
			if (task != 0)
				pending_passed(lane, entry, claim->turn->group, true);
			return false;
		case ROW_IN_PROGRESS:
			/*
			 * Who inserts it hands it over.  So does a function of ours that
			 * deletes it; a user's statement may fail before its triggers are
			 * fired, and then that is not told.  And a lease that has seen
			 * the row elsewhere, before it moved, would give it back there.
			 */
			if (row->deleting && row_reader_has_expired(row))
				return false;	/* and a pass is just ending it */
			if ((row->deleting || task != 0) &&
					 (!leases_find(claim->queue,
								   task != 0 ? task : DatumGetInt64(row_value(row, COLUMN_ID)),
								   &lease) ||
					  (task == 0 && !ItemPointerEquals(&lease.tid, &row->tuple.t_self))))
				lane_doubts_add(lane, row->in_progress, entry, false);
			return false;
		case ROW_IN_DOUBT:
			lane_doubts_add(lane, row->in_progress, entry, false);
			return false;
		case ROW_LIVE:
			break;
	}
	return true;
}
