/*-------------------------------------------------------------------------
 *
 * claim.c
 *	  The verb claim.
 *
 * A claim takes entries from the fronts of the queue's lanes, in the order of
 * their addresses across lanes, reads each entry's row by TID and puts a lease
 * on the task.  It writes nothing: no row, no WAL, no transaction id (invariant
 * I4), unless the queue has durable leases, which are written when all are
 * granted (durable_leases.c).
 *
 * The look at the row and the lease happen under one share lock on the row's
 * page.  Whoever deletes or changes a row needs that lock exclusively.  So if
 * the row was alive when we looked, it is when we have the lease; without the
 * lock an ack could come in between: the row deleted, its lease dropped, and we
 * would grant a lease on a finished task (invariant I2).
 *
 * An entry that leads nowhere is dropped: whoever has the row in hand (inserts
 * it, deletes it, or has a lease) offers it again when he is done, if it is to
 * be claimed then.  Between lane and lease entries are in hand (in_hand.c),
 * and go back if we fail.
 *
 * Nothing here waits, but in three cases.  In two the alternative is to say that a
 * queue is empty that is not.  When there is nothing to claim and another claimer
 * is reading the index of a lane, its refill is waited for: a few dozen
 * microseconds.  And when there is nothing to claim but the worker is about to
 * move tasks out of the overflow: some milliseconds.  And a third (claim_feed.c), where
 * it is another group's turn that somebody is just giving places.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "shmem/stats.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "shmem/group_overflow.h"
#include "shmem/lane_doubts.h"
#include "shmem/limit_table.h"
#include "shmem/parking.h"
#include "shmem/refill.h"
#include "shmem/wakeup.h"
#include "storage/durable_leases.h"
#include "storage/recovery.h"
#include "verbs/claim_private.h"
#include "verbs/unique_keys.h"
#include "xact/pending.h"

/* How long to wait for tasks of the overflow that are about to be moved. */
#define FEED_WAIT_USECS	USECS_PER_SEC

/* How often to wait, a millisecond, for others to lease what they have taken. */
#define WAITS_FOR_OTHERS	3

/* How long a claim of the row's task lasts, in microseconds. */
int64
claim_lease_of(RowReader *row)
{
	if (!row_is_null(row, COLUMN_LEASE))
		return queue_catalog_usecs(DatumGetIntervalP(row_value(row, COLUMN_LEASE)));
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
 * or somebody else is reading.
 */
bool
claim_refill(Relation rel, QueueInfo *info, Lane *lane)
{
	LaneEntry	from;
	LaneEntry	next;
	LaneEntry  *entries;
	int			room;
	int			n;
	bool		more;

	if (!lanes_refill_begin(lane, &from, &room))
		return false;
	entries = palloc(room * sizeof(LaneEntry));
	n = queue_relation_walk(rel, info, lane, &from, room, entries, &next, &more);
	lanes_refill_end(lane, entries, n, more ? &next : NULL);
	pfree(entries);
	return true;
}

/* Leases that were granted are written together, at the end. */
static void
note_durable(Claim *claim, const LeaseInfo *lease)
{
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
 * The session was alive when the claim began.  Since then it may have waited, for
 * the queue's table or for a row that it acknowledged.
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

/*
 * Put a lease on the task whose row is read and locked, and unlock the row.
 * Returns whether it is ours, and its finish tag.  If it is nobody's, because its group
 * is at its limit, *limit is that; else NO_LIMIT.
 */
bool
claim_grant(Claim *claim, Lane *lane, const LaneEntry *entry, VirtualTime *finish,
			uint32 *limit)
{
	RowReader  *row = &claim->row;
	const FairqAddress *address;
	int64		usecs = claim->request->lease;
	text	   *key = DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY));
	double		cost = DatumGetFloat4(row_value(row, COLUMN_COST));
	GroupLease	group;
	VirtualTime start;
	TimestampTz deadline;
	LeaseInfo	lease;
	LeaseGrant	result;

	address = DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	/* A pop lasts as long as its transaction: it must not run out before. */
	deadline = claim->request->pop ||
		(usecs < 0 && claim->request->session.number != NO_SESSION) ? DT_NOEND :
		claim->now + (usecs < 0 ? claim_lease_of(row) : usecs);
	if (!groups_lease_begins(claim->info->state, address, &row->tuple.t_self,
							 lanes_entry_task(entry) != 0,
							 VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), cost,
							 DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT)),
							 &group))
	{
		claim->charge = group.charge;

		/* A task that somebody has is his to offer again, from here. */
		*limit = leases_seen(claim->queue, DatumGetInt64(row_value(row, COLUMN_ID)),
							 &row->tuple.t_self) ? NO_LIMIT : group.limit;
		row_reader_unlock(row);
		return false;
	}
	*limit = NO_LIMIT;
	start.whole = address->block;
	start.fraction = address->fraction;
	*finish = virtual_time_add(start, group.charge, 1.0);
	lease.queue = claim->queue;
	lease.task = DatumGetInt64(row_value(row, COLUMN_ID));
	lease.tid = row->tuple.t_self;
	lease.attempt = Min(DatumGetInt32(row_value(row, COLUMN_ATTEMPTS)), PG_INT32_MAX - 1) + 1;
	lease.started = claim->now;
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

	pending_claimed(&lease, lane, entry);
	if (unlikely(group.may_be_last))
		claim_note_dry(claim, &group);
	if (unlikely(group.group == FAIRQ_NO_GROUP))
		groups_check_unknown(claim->info->state);
	claim->first_deadline = Min(claim->first_deadline, lease.deadline);
	if (claim->request->pop)
	{
		if (!queue_relation_delete(claim->rel, &row->tuple.t_self, false))
		{
			/*
			 * Somebody has the row locked, or has just changed it: a claim does
			 * not wait.  Look at it again soon.
			 */
			(void) leases_drop(&lease.ref, false, NULL);
			lane_doubts_add(lane, InvalidTransactionId, entry, false);
			return false;
		}
		leases_settle(&lease.ref, &lease);
		pending_settled(&lease);
		archive_add(&claim->archive, row, ARCHIVE_ACKED, lease.attempt, lease.started);
		unique_keys_gone(row);
		stats_tally(claim->info->state, QUEUE_ACKED, 1);
		stats_tally(claim->info->state, row_reader_depth(row), -1);
	}
	else if (claim->info->durable_leases)
		note_durable(claim, &lease);
	stats_batch_add(&claim->waits, claim->info->state, STATS_WAIT,
					claim->now - ready_since(row));
	claim->sink(row, &lease, claim->arg);
	claim->got++;
	return true;
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
 * somebody hands it over, or it is noted to be in doubt.
 *
 * A task of the overflow is found by nobody else, if its place is not kept until it
 * is known what becomes of its row: also if it is this transaction that has changed
 * or removed it.
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
			claim->stray = true;

			/*
			 * It may be this transaction that has removed it, and its lease may
			 * have seen the row elsewhere.
			 */
			if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
				return false;
			if (task != 0)
				pending_passed(lane, entry, false);
			else
			{
				FairqAddress address;

				lanes_entry_address(lane, entry, &address);
				pending_lower_at_abort(lane, &address);
			}
			return false;
		case ROW_OWN:			/* handed over when we commit */
			if (task != 0)
				pending_passed(lane, entry, true);
			return false;
		case ROW_IN_PROGRESS:

			/*
			 * Who inserts it hands it over.  So does who deletes it, if he is
			 * one of us; a user's statement may fail before its triggers are
			 * fired, and nobody would know.  And a lease that has seen the row
			 * elsewhere, before it moved, would give it back there.
			 */
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

/*
 * Prepared transactions hand nothing over when they end.  Look whether any has
 * that we know to have written rows.  Returns whether others have not.
 */
bool
claim_resolve_doubts(QueueState *state)
{
	bool		left = false;

	for (int class = 0; class < state->classes; class++)
	{
		Lane	   *lane;

		for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
		{
			LaneDoubt	doubts[LANE_DOUBTS];
			int			n = lane_doubts_copy(lane, doubts);

			for (int i = 0; i < n; i++)
			{
				if (TransactionIdIsValid(doubts[i].xid) &&
					TransactionIdIsInProgress(doubts[i].xid))
					left = true;
				else
				{
					if (doubts[i].counted && TransactionIdDidAbort(doubts[i].xid))
						queue_state_recount(state);
					lane_doubts_resolve(lane, &doubts[i]);
				}
			}
		}
	}
	return left;
}

/*
 * There is nothing to claim, and nothing is about to be moved out of the overflow.
 * But if some tasks are said to be ready, others have taken them and are about to
 * lease them, and then more will be moved.  That is a matter of microseconds; and
 * should they be said to be by mistake, of a few short waits.
 */
static bool
wait_for_others(Claim *claim)
{
	QueueState *state = claim->info->state;

	if (likely(pg_atomic_read_u32(&state->counts.overflowing) == 0) ||
		queue_state_ready(state) <= 0 || limit_table_any_parked(&state->limits) ||
		claim->wanted != NULL || claim->request->group_count >= 0 ||
		claim->waits_for_others++ == WAITS_FOR_OTHERS ||
		pending_feeds() || !wakeup_worker_alive(MyDatabaseId))
		return false;
	CHECK_FOR_INTERRUPTS();
	pg_usleep(1000L);
	claim->now = GetCurrentTimestamp();
	return true;
}

/*
 * There is nothing to claim.  If tasks of the overflow that we may claim are about
 * to be moved, wait for that; or if some have been moved since the lanes were
 * looked at, when feeds was read.  Returns whether to look again.
 */
static bool
wait_for_overflow(Claim *claim, uint32 feeds)
{
	const ClaimRequest *request = claim->request;
	QueueState *state = claim->info->state;
	bool		wanted = (request->group_count < 0);

	/* Not for ourselves, nor for what only the next claim without a worker does. */
	if (likely(!refill_expected(state, feeds)))
		return wait_for_others(claim);
	if (pending_feeds() || !wakeup_worker_alive(MyDatabaseId))
		return false;
	for (int i = 0; i < request->group_count && !wanted; i++)
	{
		for (int class = 0; class < state->classes && !wanted; class++)
		{
			GroupTag	tag;

			wanted = groups_look(state, class, VARDATA_ANY(request->groups[i]),
								 VARSIZE_ANY_EXHDR(request->groups[i]), &tag) &&
				tag.hungry;
		}
	}
	if (!wanted)
		return false;
	wakeup_at(MyDatabaseId, 0);
	if (!refill_wait(state, feeds, claim->give_up))
		return false;
	claim->now = GetCurrentTimestamp();
	return true;
}

/*
 * Claim up to request->max_tasks tasks, and give each to sink.  Returns how
 * many: fewer than asked for only if there are no more that may be claimed.
 *
 * rel is locked in RowShareLock mode (pop: RowExclusiveLock) or stronger, and
 * stays so until the end of the transaction.
 */
int
claim_tasks(Relation rel, QueueInfo *info, const ClaimRequest *request,
			ClaimSink sink, void *arg)
{
	Claim		claim = {0};
	bool		sought = false;

	if (info->paused)
		return 0;

	claim.rel = rel;
	claim.info = info;
	claim.queue = queue_state_number(info->state);
	claim.request = request;
	claim.sink = sink;
	claim.arg = arg;
	claim.now = GetCurrentTimestamp();
	claim.first_deadline = DT_NOEND;
	claim.give_up = claim.now + FEED_WAIT_USECS;
	claim.buckets = info->buckets;
	if (request->bucket_count >= 0)
	{
		claim.wanted = palloc0(claim.buckets * sizeof(bool));
		for (int i = 0; i < request->bucket_count; i++)
		{
			/* There may be fewer than when they were checked. */
			if (request->buckets[i] < claim.buckets)
				claim.wanted[request->buckets[i]] = true;
		}
	}
	durable_leases_require(rel, info);
	recovery_classes(rel, info);
	row_reader_begin(&claim.row, rel, info);

	if (queue_state_tick(info->state, claim.now))
		(void) claim_resolve_doubts(info->state);
	/* Tokens that have come, whether there is a worker or not. */
	if (limit_table_any_parked(&info->state->limits) &&
		((TimestampTz) pg_atomic_read_u64(&info->state->limits.next_token) <= claim.now ||
		 (TimestampTz) pg_atomic_read_u64(&info->state->limits.sought) <= claim.now - USECS_PER_SEC))
		(void) parking_seek(&info->state->limits, claim.now);
	while (claim.got < request->max_tasks)
	{
		uint32		feeds = ((volatile QueueState *) info->state)->refill.refills;

		claim.refilling = NULL;
		if (request->group_count >= 0)
		{
			int			offers;

			/*
			 * It looks at lanes only: all that may be claimed is to be there,
			 * and what is offered there may lead nowhere.
			 */
			do
			{
				offers = 0;
				for (int i = 0; i < request->group_count && limit_table_any_parked(&info->state->limits); i++)
					offers += groups_release(info->state, VARDATA_ANY(request->groups[i]),
											 VARSIZE_ANY_EXHDR(request->groups[i]),
											 request->max_tasks - claim.got);
				claim_of_groups(&claim);
			} while (offers > 0 && claim.got < request->max_tasks);
		}
		else
			claim_from_lanes(&claim);
		if (claim.got >= request->max_tasks)
			break;
		if (claim.refilling != NULL)
		{
			lanes_refill_wait(claim.refilling);
			continue;
		}

		/* Should what was offered of a group at its limit have gone astray. */
		if (!sought && parking_seek(&info->state->limits, claim.now))
		{
			sought = true;
			continue;
		}

		/* Or it is in buckets that are not ours, and the next may be in ours. */
		if (claim.wanted != NULL && request->group_count < 0)
		{
			int			offers;

			(void) parking_tick(&info->state->limits, claim.now, &offers);
			if (offers > 0)
				continue;
		}
		if (claim.got > 0)
			break;

		/* While we wait others may need what is reserved for us. */
		leases_return_reserved();
		if (!wait_for_overflow(&claim, feeds))
			break;
	}
	if (claim.dry_met)
		claim_feed_dry(&claim);
	leases_return_reserved();
	row_reader_end(&claim.row);
	if (claim.durable_count > 0)
	{
		durable_leases_write(info, claim.durable, claim.durable_count);
		pfree(claim.durable);
	}
	if (!request->pop)
		wakeup_at(MyDatabaseId, claim.first_deadline);
	if (claim.got > 0)
	{
		stats_count(info->state, QUEUE_CLAIMED, claim.got, claim.now);
		stats_flush(info->state, STATS_WAIT, &claim.waits);
	}
	group_overflow_wake_feeder(info->state);

	/* Last, for it may run code of the owner's, and fail. */
	archive_write(&claim.archive, rel, info);
	return claim.got;
}
