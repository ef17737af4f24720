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
 * How an entry becomes a lease is in claim_grant.c.  Between lane and lease
 * entries are in hand (claim_hand.c), and go back if the claim fails.
 *
 * Nothing here waits, but in two cases.  When there is nothing to claim and
 * another claimer is reading what comes next in a lane, that is waited for, a
 * few dozen microseconds: or the queue would be said to be empty.  And where it
 * is the turn of a group whose line another claimer is reading, for a
 * millisecond at most (claim_lanes.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "shmem/lanes.h"
#include "shmem/limit_table.h"
#include "shmem/stats.h"
#include "storage/procarray.h"

#include "common/contracts.h"
#include "common/wall_clock.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/queue_index.h"
#include "storage/recovery.h"
#include "verbs/claim_private.h"

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

static void
begin(Claim *claim)
{
	QueueInfo  *info = claim->info;
	const ClaimRequest *request = claim->request;

	claim->queue = queue_state_number(info->state);
	claim->now = wall_clock_both(&claim->steady);
	claim->first_deadline = DT_NOEND;
	claim->buckets = info->buckets;
	if (request->bucket_count >= 0)
	{
		claim->wanted = palloc0(claim->buckets * sizeof(bool));
		for (int i = 0; i < request->bucket_count; i++)
		{
			/* There may be fewer than when they were checked. */
			if (request->buckets[i] < claim->buckets)
				claim->wanted[request->buckets[i]] = true;
		}
	}
	durable_leases_require(claim->rel, info);
	recovery_classes(claim->rel, info);
	row_reader_begin(&claim->row, claim->rel, info);

	if (queue_state_tick(info->state, claim->now))
		(void) claim_resolve_doubts(info->state);
	/* Tokens that have come, whether there is a worker or not. */
	(void) group_limits_tick(&info->state->limits, claim->now);
}

/*
 * There is not so much to claim.  Of a queue whose rows have not been read
 * since the server was started the lines are not known.  Returns whether to
 * look again.
 */
static bool
reads_overflow(Claim *claim)
{
	QueueInfo  *info = claim->info;

	if (likely(info->state->recovery.groups == QUEUE_KNOWN) || info->policy != QUEUE_FAIR ||
		!queue_index_has_overflow(claim->rel, info))
		return false;
	/* While we read others may need what is reserved for us. */
	leases_return_reserved();
	recovery_try_tags(claim->rel, info);
	return info->state->recovery.groups == QUEUE_KNOWN;
}

/* The classes that may have anything, a bit for each. */
static uint32
classes_with_lanes(const QueueState *state)
{
	uint32		classes = 0;

	for (int class = 0; class < state->classes; class++)
		if (lanes_any(&state->orders[class].lanes))
			classes |= 1 << class;
	return classes;
}

/*
 * Claim from the classes in turn: the lowest that has anything goes first or,
 * where classes have weights, that whose turn it is.  Of some groups all that
 * is asked for at a time, as each walk passes over the other groups again.
 */
static void
claim_in_turn(Claim *claim)
{
	QueueState *state = claim->info->state;
	const ClaimRequest *request = claim->request;
	bool		of_groups = (request->group_count >= 0);
	bool		by_weights = (claim->info->class_weights[0] > 0);
	uint32		none = 0;		/* of these classes there are no more */
	uint32		left;

	/* Most claims, as quickly as can be. */
	if (likely(!of_groups && !by_weights))
	{
		for (int class = 0; class < state->classes && claim->got < request->max_tasks; class++)
		{
			if (lanes_any(&state->orders[class].lanes) &&
				!claim_from_lanes(claim, class, request->max_tasks - claim->got))
				return;
		}
		return;
	}
	while (claim->got < request->max_tasks && !claim->full &&
		   (left = classes_with_lanes(state) & ~none) != 0)
	{
		int			got = claim->got;
		int			most = request->max_tasks - got;
		double		cost = claim->turns_cost;
		ClassTurn	turn = {.class = pg_rightmost_one_pos32(left),.most = most};
		bool		more;

		if (by_weights)
			(void) class_shares_begin(&state->shares, claim->info->class_weights, left,
									  most, &turn);
		more = of_groups ? claim_of_groups(claim, turn.class) :
			claim_from_lanes(claim, turn.class, turn.most);
		if (by_weights)
			class_shares_end(&state->shares, &turn, claim->got - got, claim->turns_cost - cost);
		if (!more)
			return;
		if (of_groups || claim->got - got < turn.most)
			none |= 1 << turn.class;
	}
}

/*
 * Claim what is there.  Returns whether to look again.
 */
static bool
claim_once(Claim *claim)
{
	const ClaimRequest *request = claim->request;

	claim->refilling = NULL;
	claim_in_turn(claim);
	if (claim->got >= request->max_tasks || claim->full)
		return false;
	if (claim->refilling != NULL)
	{
		lanes_refill_wait(claim->refilling);
		return true;
	}

	return reads_overflow(claim);
}

/*
 * Suspects were passed over.  If there is nothing else the claim may have one;
 * else its session perhaps drains for one.
 */
static void
suspects_met(Claim *claim)
{
	claim_give_back_aside();
	if (claim->got == 0 && !claim->request->beside)
	{
		claim->nothing_else = true;
		claim->full = false;
		(void) claim_once(claim);
		claim_give_back_aside();
	}
	transit_horizon_ends();
	if (!claim->alone && claim->request->session.number != NO_SESSION)
		quarantine_drain(&claim->request->session, claim->info->state, claim->steady);
}

/*
 * Claim up to request->max_tasks tasks, and give each to sink.  Returns how
 * many: fewer than asked for only if there are no more that may be claimed.
 *
 * rel stays locked until the end of the transaction.
 */
int
claim_tasks(Relation rel, QueueInfo *info, const ClaimRequest *request,
			ClaimSink sink, void *arg)
{
	Claim		claim = {
		.rel = rel,
		.info = info,
		.request = request,
		.sink = sink,
		.arg = arg,
	};

	AssertRelationLocked(rel, request->pop ? RowExclusiveLock : RowShareLock);
	Assert(request->max_tasks > 0);
	if (info->paused)
		return 0;
	if (request->session.number != NO_SESSION)
		claim.quarantine = quarantine_step(&request->session, info->state,
										   wall_clock_steady());
	if (unlikely(claim.quarantine == QUARANTINE_CLOSED))
		return 0;

	begin(&claim);
	while (claim.got < request->max_tasks && claim_once(&claim))
		;
	if (unlikely(claim.met_suspect))
		suspects_met(&claim);
	leases_return_reserved();
	row_reader_end(&claim.row);
	if (claim.durable_count > 0)
	{
		durable_leases_write(info->relation, claim.durable, claim.durable_count);
		pfree(claim.durable);
	}
	if (!request->pop)
		worker_slots_wake_at(MyDatabaseId, claim.first_deadline);
	if (unlikely(limit_room_next_token(&info->state->limits) != DT_NOEND))
		worker_slots_wake_at(MyDatabaseId, limit_room_next_token(&info->state->limits));
	if (claim.got > 0)
	{
		stats_count(info->state, QUEUE_CLAIMED, claim.got, claim.now);
		stats_flush(info->state, STATS_WAIT, &claim.waits);
	}
	if (unlikely(claim.met_expired))
	{
		info->state->expiry.passed_over = true;
		worker_slots_wake_at(MyDatabaseId, 0);
	}

	ended_tasks_write(&claim.ended, rel, info);
	return claim.got;
}
