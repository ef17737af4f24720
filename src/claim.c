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
 * be claimed then.  Between lane and lease entries are held by handover.c,
 * which gives them back if we fail.
 *
 * Nothing here waits, but in two cases, where the alternative is to say that a
 * queue is empty that is not.  When there is nothing to claim and another claimer
 * is reading the index of a lane, its refill is waited for: a few dozen
 * microseconds.  And when there is nothing to claim but the worker is about to
 * move tasks out of the overflow: some milliseconds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "archive.h"
#include "claim.h"
#include "durable_leases.h"
#include "handover.h"
#include "in_transit.h"
#include "lanes.h"
#include "group_limits.h"
#include "placement.h"
#include "recovery.h"
#include "settings.h"
#include "stats.h"
#include "unique_keys.h"
#include "wakeup.h"

/* How long to wait for tasks of the overflow that are about to be moved. */
#define FEED_WAIT_USECS	USECS_PER_SEC

/* How often to wait, a millisecond, for others to lease what they have taken. */
#define WAITS_FOR_OTHERS	3

/* A claim in progress. */
typedef struct Claim
{
	Relation	rel;
	QueueInfo  *info;
	int			queue;			/* number of its state */
	const ClaimRequest *request;
	int			buckets;		/* of the queue, and ... */
	bool	   *wanted;			/* those asked for; NULL: all */
	ClaimSink	sink;
	void	   *arg;
	RowReader	row;
	TimestampTz now;
	int			got;
	Lane	   *refilling;		/* a lane that somebody else is reading */
	bool		drained;		/* the class has nothing left */
	bool		stray;			/* an entry led nowhere: perhaps one that was
								 * offered for a group at its limit */
	double		charge;			/* of a task whose group is at its limit */
	TimestampTz first_deadline; /* of the leases granted */
	StatsBatch	waits;			/* how long the tasks have waited */
	ArchiveBatch archive;		/* of tasks popped */
	LeaseInfo  *durable;		/* leases to be written, but for a pop */
	int			durable_count;
	int			durable_size;
	TimestampTz give_up;		/* waiting for tasks of the overflow */
	int			waits_for_others;	/* to lease what they have taken */
} Claim;

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

/*
 * Is a lane of a bucket that the caller asked for?  Buckets from when the queue
 * had more of them go with those there are, in turn, so that who owns one of
 * these (sessions.c) owns those, too.
 */
static inline bool
bucket_wanted(const Claim *claim, const Lane *lane)
{
	return claim->wanted == NULL || claim->wanted[lane->bucket % claim->buckets];
}

static bool
group_wanted(Claim *claim)
{
	const ClaimRequest *request = claim->request;
	text	   *key;

	if (request->group_count < 0)
		return true;
	key = DatumGetTextPP(row_value(&claim->row, COLUMN_GROUP_KEY));
	for (int i = 0; i < request->group_count; i++)
	{
		if (queue_relation_same_group(key, request->groups[i]))
			return true;
	}
	return false;
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
 * Returns whether it is ours, and its finish tag.  If it is not, because its group
 * is at its limit, *limit is that; else NO_LIMIT.
 */
static bool
grant(Claim *claim, Lane *lane, const LaneEntry *entry, VirtualTime *finish,
	  uint32 *limit)
{
	RowReader  *row = &claim->row;
	const FairqAddress *address;
	int64		usecs = claim->request->lease;
	text	   *key = DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY));
	double		cost = DatumGetFloat4(row_value(row, COLUMN_COST));
	double		charge;
	uint32		group;
	VirtualTime start;
	TimestampTz deadline;
	LeaseInfo	lease;
	LeaseGrant	result;

	address = DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	/* A pop lasts as long as its transaction: it must not run out before. */
	deadline = claim->request->pop ||
		(usecs < 0 && claim->request->session.number != NO_SESSION) ? DT_NOEND :
		claim->now + (usecs < 0 ? claim_lease_of(row) : usecs);
	if (!groups_lease_begins(claim->info->state, address,
							 VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), cost,
							 DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT)),
							 &group, &charge, limit))
	{
		claim->charge = charge;
		row_reader_unlock(row);
		return false;
	}
	*limit = NO_LIMIT;
	start.whole = address->block;
	start.fraction = address->fraction;
	*finish = virtual_time_add(start, charge, 1.0);
	result = leases_grant(claim->queue, DatumGetInt64(row_value(row, COLUMN_ID)),
						  &row->tuple.t_self,
						  DatumGetInt32(row_value(row, COLUMN_ATTEMPTS)) + 1,
						  claim->now, deadline, &claim->request->session, group,
						  lanes_entry_task(entry) != 0, &lease);
	row_reader_unlock(row);
	if (result != LEASE_GRANTED)
	{
		groups_lease_refused(group);
		if (result == LEASE_SESSION_OVER)
			session_over(claim);
		return false;
	}

	handover_claimed(&lease, lane, entry);
	if (unlikely(group == FAIRQ_NO_GROUP))
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
			lanes_doubt(lane, InvalidTransactionId, entry);
			return false;
		}
		leases_settle(&lease.ref, &lease);
		handover_settled(&lease);
		archive_add(&claim->archive, row, ARCHIVE_ACKED, lease.attempt, lease.started);
		unique_keys_gone(row);
		handover_count(claim->info->state, QUEUE_ACKED, 1);
		handover_count(claim->info->state, row_reader_depth(row), -1);
	}
	else if (claim->info->durable_leases)
		note_durable(claim, &lease);
	stats_batch_add(&claim->waits, claim->info->state, STATS_WAIT,
					claim->now - ready_since(row));
	claim->sink(row, &lease, claim->arg);
	claim->got++;
	return true;
}

/* ----------------------------------------------------------------
 * From the lanes
 * ----------------------------------------------------------------
 */

/*
 * There is no lease to be had for want of entries.
 */
static void
no_leases(Claim *claim)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("cannot lease a task of queue \"%s\": there are %d leases already",
					claim->info->name, settings_max_leases),
			 errhint("Raise the setting \"%s\" and restart the server, or acknowledge tasks in flight.",
					 "pgfairq.max_leases")));
}

/* A lane that a claim may take from. */
typedef struct Source
{
	Lane	   *lane;
	LaneTop		top;
} Source;

/*
 * Look at the lanes of a class of buckets below high: those that have anything
 * to take, as far as can be seen (locked: for certain).  Returns how many.
 */
static int
find_sources(Claim *claim, int class, int high, bool locked, Source *sources,
			 bool *others_empty)
{
	const LaneSet *set = &claim->info->state->orders[class].lanes;
	Lane	   *lane;
	int			n = 0;

	*others_empty = true;
	for (int b = 0; (lane = lanes_next(set, &b)) != NULL && b < high; b++)
	{
		Source	   *source = &sources[n];

		source->lane = lane;
		if (locked)
			lanes_look_locked(lane, &source->top);
		else
			lanes_look(lane, &source->top);
		if (source->top.view == LANE_EMPTY)
			continue;
		if (bucket_wanted(claim, lane))
			n++;
		else
			*others_empty = false;
	}
	return n;
}

/*
 * Let a source take its place in the line of those that have something, the one
 * least far along at its end.
 */
static inline void
line_up(Source **line, int *n, Source *source)
{
	int			low = 0;
	int			high = *n;

	if (source->top.view != LANE_READY && source->top.view != LANE_UNREAD)
		return;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lanes_compare(&line[middle]->top.first, &source->top.first) > 0)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&line[low + 1], &line[low], (*n - low) * sizeof(Source *));
	line[low] = source;
	(*n)++;
}

/*
 * While lanes were looked at, one after the other, tasks may have been offered: the
 * earlier one of two in a lane that was seen before, the later one where we have
 * found it.  So look again; what is in our hands was offered before that, and so
 * was all that comes before it and was offered first.  Returns how many entries are
 * held then.
 *
 * Not in a lane that another claimer was at: what he takes and what we do is at the
 * same time.
 */
static int
take_overtaken(Claim *claim, int class, int high, const Source *sources,
			   int n_sources, int max)
{
	const LaneSet *set = &claim->info->state->orders[class].lanes;
	LaneEntry  *held;
	Lane	  **lanes;
	int			total = handover_held(&held, &lanes);
	bool		again = (total > 0);
	Lane	   *all = lanes_get(0);

	while (again)
	{
		again = false;

		/* Every claim does this: it is kept short. */
		for (int b = 0; b < high; b++)
		{
			int			number = ((volatile const LaneSet *) set)->lanes[b];
			Lane	   *lane;
			LaneTop		top;
			LaneEntry	entries[LANE_WINDOW];
			bool		skip;
			int			n;

			if (number <= 0)
				continue;
			lane = &all[number - 1];
			if (likely(!lanes_may_precede(lane, &held[total - 1])))
				continue;
			lanes_look(lane, &top);
			if (top.view != LANE_READY ||
				lanes_compare(&top.first, &held[total - 1]) >= 0)
				continue;
			skip = !bucket_wanted(claim, lane);
			for (int i = 0; i < n_sources && !skip; i++)
				skip = (sources[i].lane == lane && sources[i].top.view == LANE_LOCKED);
			if (skip)
				continue;
			n = lanes_take(lane, max, &held[total - 1], entries, &top, true);
			if (n <= 0)
				continue;
			handover_hold(lane, entries, n, max);
			total = handover_held(&held, &lanes);
			again = true;
		}
	}
	return total;
}

/*
 * The one least far along of those that have something; NULL if none has.
 */
static Source *
first_source(Source *sources, int n)
{
	Source	   *first = NULL;

	for (Source *source = sources; source < sources + n; source++)
	{
		if ((source->top.view == LANE_READY || source->top.view == LANE_UNREAD) &&
			(first == NULL ||
			 lanes_compare(&source->top.first, &first->top.first) < 0))
			first = source;
	}
	return first;
}

/*
 * Take up to max entries from the front of a source's lane, but none that comes
 * after upto (NULL: any), into the hands of handover.c.  Returns how many; -1 if
 * nowait and the lane is locked.
 */
static int
take_from(Claim *claim, Source *source, int max, const LaneEntry *upto, bool nowait)
{
	LaneEntry	entries[LANE_WINDOW];
	int			n = lanes_take(source->lane, max, upto, entries, &source->top, nowait);

	if (n < 0)
		return n;
	handover_hold(source->lane, entries, n, LANE_WINDOW);
	if (source->top.low && claim_refill(claim->rel, claim->info, source->lane))
		lanes_look(source->lane, &source->top);
	return n;
}

/*
 * Take up to max entries from the lanes of a class, the lowest address first,
 * into the hands of handover.c.  Returns how many.
 *
 * A merge of the lanes: from the lane least far along, up to where the next
 * one is.  Only a lane that another claimer has locked at that moment is left
 * for later.
 */
static int
take_from_class(Claim *claim, int class, int max)
{
	int			high = claim->info->state->orders[class].lanes.high;
	int			n_sources;
	int			n_line = 0;
	Source		few_sources[64];
	Source	   *few_line[64];
	Source	   *sources = few_sources;
	Source	  **line = few_line;
	Source	   *best;
	int			total = 0;
	bool		nowait = true;
	bool		others_empty = true;
	bool		looked_twice = false;

	if (high > (int) lengthof(few_sources))
	{
		sources = palloc(high * sizeof(Source));
		line = palloc(high * sizeof(Source *));
	}
	n_sources = find_sources(claim, class, high, false, sources, &others_empty);

	/* A claim of one needs no line, unless it finds the first lane locked. */
	best = (max == 1) ? first_source(sources, n_sources) : NULL;
	if (best != NULL && best->top.view == LANE_READY &&
		take_from(claim, best, 1, NULL, nowait) > 0)
		total = 1;
	for (int i = 0; i < n_sources && total < max; i++)
		line_up(line, &n_line, &sources[i]);

	while (total < max)
	{
		int			n;

		CHECK_FOR_INTERRUPTS();
		if (n_line == 0)
		{
			/* What is left was locked when we came: now insist on it. */
			for (int i = 0; i < n_sources; i++)
			{
				if (sources[i].top.view != LANE_LOCKED)
					continue;
				sources[i].top.view = LANE_READY;
				line_up(line, &n_line, &sources[i]);
				nowait = false;
			}
		}
		if (n_line == 0 && total == 0 && !looked_twice)
		{
			/*
			 * A look without the lock may be wrong.  Not when something is in hand
			 * that may come after what is seen now: that is for take_overtaken, and
			 * for the next round.
			 */
			n_sources = find_sources(claim, class, high, true, sources, &others_empty);
			for (int i = 0; i < n_sources; i++)
				line_up(line, &n_line, &sources[i]);
			looked_twice = true;
		}
		if (n_line == 0)
			break;
		best = line[--n_line];

		if (best->top.view == LANE_UNREAD)
		{
			claim_refill(claim->rel, claim->info, best->lane);
			lanes_look(best->lane, &best->top);
			line_up(line, &n_line, best);
			continue;
		}

		n = take_from(claim, best, max - total,
					  n_line == 0 ? NULL : &line[n_line - 1]->top.first, nowait);
		if (n < 0)
		{
			best->top.view = LANE_LOCKED;	/* try the others first */
			continue;
		}
		total += n;
		line_up(line, &n_line, best);
	}
	for (int i = 0; i < n_sources; i++)
	{
		if (sources[i].top.view == LANE_REFILLING)
			claim->refilling = sources[i].lane;
	}
	if (high > 1)
		total = take_overtaken(claim, class, high, sources, n_sources, max);
	claim->drained = others_empty && (looked_twice || total == max);
	for (int i = 0; i < n_sources; i++)
		claim->drained &= (sources[i].top.view == LANE_EMPTY);
	if (sources != few_sources)
	{
		pfree(sources);
		pfree(line);
	}
	return total;
}

/*
 * An entry led to a row with another address than its own.  Enter it where it
 * belongs, should nobody else have.
 */
static void
offer_row(Claim *claim)
{
	QueueState *state = claim->info->state;
	RowReader  *row = &claim->row;
	const FairqAddress *address;
	Lane	   *lane = NULL;

	if (row_is_null(row, COLUMN_ADDRESS))
		return;
	address = DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	if (address->class < state->classes)
		lane = lanes_of(&state->orders[address->class].lanes, address->bucket);
	if (lane != NULL)
		lanes_offer(lane, address, &row->tuple.t_self);
}

/*
 * Can the task whose row is read be leased, as far as the row says?  If not,
 * somebody hands it over, or it is noted to be in doubt.
 *
 * A task of the overflow is found by nobody else, if its place is not kept until it
 * is known what becomes of its row: also if it is this transaction that has changed
 * or removed it.
 */
static bool
can_be_leased(Claim *claim, Lane *lane, RowStatus status, const LaneEntry *entry)
{
	RowReader  *row = &claim->row;
	int64		task = lanes_entry_task(entry);
	LeaseInfo	lease;

	switch (status)
	{
		case ROW_GONE:
			claim->stray = true;
			if (task != 0 && TransactionIdIsValid(GetTopTransactionIdIfAny()))
				handover_passed(lane, entry, false);
			return false;
		case ROW_OWN:			/* handed over when we commit */
			if (task != 0)
				handover_passed(lane, entry, true);
			return false;
		case ROW_IN_PROGRESS:

			/*
			 * Who inserts it hands it over.  So does who deletes it, if he is
			 * one of us; a user's statement may fail before its triggers are
			 * fired, and nobody would know.
			 */
			if ((row->deleting || task != 0) &&
				!leases_find(claim->queue,
							 task != 0 ? task : DatumGetInt64(row_value(row, COLUMN_ID)),
							 &lease))
				lanes_doubt(lane, row->in_progress, entry);
			return false;
		case ROW_IN_DOUBT:
			lanes_doubt(lane, row->in_progress, entry);
			return false;
		case ROW_LIVE:
			break;
	}
	return true;
}

/*
 * Lease what is in hand, but not more than max; the rest goes back.
 */
static void
lease_held(Claim *claim, int class, int max)
{
	QueueInfo  *info = claim->info;
	QueueOrder *order = &info->state->orders[class];
	VirtualTime start = {PG_INT64_MIN, 0};
	VirtualTime finish = start;
	LaneEntry  *entries;
	Lane	  **lanes;
	int			n = Min(handover_held(&entries, &lanes), max);

	if (n > 1)
	{
		for (int i = 0; i < n; i++)
			row_reader_fetch_page(&claim->row, &entries[i].tid);
		for (int i = 0; i < n; i++)
			row_reader_fetch_row(&claim->row, &entries[i].tid);
	}
	for (int i = 0; i < n; i++)
	{
		Lane	   *lane = lanes[i];
		RowReader  *row = &claim->row;
		VirtualTime task_finish;
		uint32		limit;
		LeaseInfo	lease;

		/* What is before the rest may not be in a lane yet: they go back. */
		if (unlikely(claim->stray) && limits_waiting(&info->state->limits))
		{
			n = i;
			break;
		}

		if (!can_be_leased(claim, lane, row_reader_entry(row, &entries[i]), &entries[i]))
			continue;

		/* Another row may be there by now, or the same with another address. */
		if (!row_reader_is_at(row, lane, &entries[i]))
		{
			row_reader_unlock(row);
			claim->stray = true;
			offer_row(claim);
			if (lanes_entry_task(&entries[i]) != 0)
				queue_state_overflow_lost(info->state, class, lanes_entry_task(&entries[i]));
			continue;
		}
		if (!grant(claim, lane, &entries[i], &task_finish, &limit))
		{
			/*
			 * A task that somebody has is his to offer again.  By now the
			 * group may have it: then whoever comes next may.
			 */
			if (limit != NO_LIMIT &&
				!leases_find(claim->queue, DatumGetInt64(row_value(row, COLUMN_ID)), &lease) &&
				!limits_park(limit, lane, &entries[i], claim->charge))
				lanes_offer_entry(lane, &entries[i]);
			continue;
		}

		if (info->policy == QUEUE_FAIR)
		{
			VirtualTime s = {entries[i].block, entries[i].fraction};

			start = virtual_time_max(start, s);
			finish = virtual_time_max(finish, task_finish);
		}
	}
	handover_let_go(n);
	if (start.whole != PG_INT64_MIN)
		queue_state_advance(order, start, finish);
	if (claim->drained && !limits_in_turn(&info->state->limits))
		queue_state_idle(order);
}

/*
 * Groups wait for their turn: have those in the lanes that are before the first task
 * there.
 */
static void
turns_before(Claim *claim, int class, int want)
{
	QueueState *state = claim->info->state;
	VirtualTime upto = {PG_INT64_MAX, 0};
	Lane	   *lane;

	for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
	{
		LaneTop		top;
		VirtualTime start;

		lanes_look(lane, &top);
		if (top.view == LANE_EMPTY || !bucket_wanted(claim, lane))
			continue;
		start.whole = top.first.block;
		start.fraction = top.first.fraction;
		if (virtual_time_compare(start, upto) < 0)
			upto = start;
	}
	if (upto.whole != PG_INT64_MAX)
		(void) limits_turns(&state->limits, class, &upto, want);
}

static void
claim_from_lanes(Claim *claim)
{
	QueueState *state = claim->info->state;
	int			max = claim->request->max_tasks;

	for (int class = 0; class < state->classes && claim->got < max; class++)
	{
		while (claim->got < max)
		{
			int			want = Min(max - claim->got, LANE_WINDOW);
			int			reserved;
			int			taken;

			CHECK_FOR_INTERRUPTS();
			if (!lanes_any(&state->orders[class].lanes))
				break;
			handover_reserve(want * 2 + 8);
			if (unlikely(limits_in_turn(&state->limits)))
				turns_before(claim, class, want);
			in_transit_begins(claim->now);
			taken = take_from_class(claim, class, want);

			/* Only what it takes: the free list is one for everybody. */
			reserved = taken > 0 ? leases_reserve(taken) : 0;
			if (reserved == 0 && taken > 0 && claim->got == 0)
				no_leases(claim);
			claim->drained &= (reserved == taken);
			lease_held(claim, class, reserved);

			/* Then the group may have the next one, of whatever class. */
			if (claim->stray && limits_waiting(&state->limits))
			{
				(void) limits_tick(&state->limits, claim->now, NULL);
				class = -1;
			}
			claim->stray = false;
			if (reserved < taken)
				return;

			/* What waits for its turn need not wait where there is nothing else. */
			if (taken == 0 && class >= 0 && limits_in_turn(&state->limits) &&
				limits_turns(&state->limits, class, NULL, want) > 0)
				continue;
			if (taken == 0 || class < 0)
				break;
		}
	}
}

/* ----------------------------------------------------------------
 * Other sources
 * ----------------------------------------------------------------
 */

/* A lane that tasks of some groups are looked for in. */
typedef struct GroupSource
{
	Lane	   *lane;
	LaneEntry  *entries;		/* room for a window */
	int			at;				/* the next one */
	int			n;
	bool		more;			/* the index has more, from next on */
	LaneEntry	next;
} GroupSource;

/*
 * Begin with what is in the lane's window: all that may be claimed before the
 * frontier is there.  The index is read from there on, so not what has been
 * finished long ago.
 */
static void
source_begin(GroupSource *source, Lane *lane)
{
	FairqAddress frontier;
	bool		complete;

	source->lane = lane;
	source->entries = palloc(LANE_WINDOW * sizeof(LaneEntry));
	source->at = 0;
	source->n = lanes_copy_window(lane, source->entries, &frontier, &complete);
	source->more = !complete;
	ItemPointerSet(&source->next.tid, 0, 0);
	lanes_entry(&source->next, &frontier, &source->next.tid);

	/* While it is refilled there may be some beyond. */
	while (source->more && source->n > 0 &&
		   lanes_compare(&source->entries[source->n - 1], &source->next) >= 0)
		source->n--;
}

static bool
source_has(Claim *claim, GroupSource *source)
{
	while (source->at == source->n && source->more)
	{
		CHECK_FOR_INTERRUPTS();
		source->at = 0;
		source->n = queue_relation_look(claim->rel, claim->info, source->lane,
										&source->next, LANE_WINDOW / 8,
										source->entries, &source->next,
										&source->more);
	}
	return source->at < source->n;
}

/*
 * Claim the task at a place if it is of the groups wanted.  *finish is raised to
 * its finish tag, or *left lowered to its start tag if it is passed over.
 */
static void
claim_wanted(Claim *claim, Lane *lane, const LaneEntry *place,
			 VirtualTime *finish, VirtualTime *left)
{
	RowReader  *row = &claim->row;
	LaneEntry	entry = *place;
	RowStatus	status = row_reader_entry(row, &entry);
	VirtualTime start = {place->block, place->fraction};
	VirtualTime task_finish;
	LeaseInfo	lease;
	uint32		limit;

	/* The key is looked at without the page's lock: it may be toasted. */
	if (status == ROW_LIVE)
		row_reader_unlock(row);
	if (!can_be_leased(claim, lane, status, &entry) ||
		!row_reader_is_at(row, lane, &entry))
	{
		claim->stray = true;
		if (status == ROW_GONE && lanes_entry_task(place) != 0)
			lanes_forget(lane, place);
		return;
	}
	if (!group_wanted(claim))
	{
		if (virtual_time_compare(start, *left) < 0 &&
			!leases_find(claim->queue, DatumGetInt64(row_value(row, COLUMN_ID)), &lease))
			*left = start;
		return;
	}
	if (!can_be_leased(claim, lane, row_reader_entry(row, &entry), &entry))
		return;
	if (!row_reader_is_at(row, lane, &entry))
	{
		row_reader_unlock(row);
		return;
	}
	if (grant(claim, lane, &entry, &task_finish, &limit))
		*finish = virtual_time_max(*finish, task_finish);
	else if (limit != NO_LIMIT)
	{
		if (virtual_time_compare(start, *left) < 0)
			*left = start;
		if (!leases_find(claim->queue, DatumGetInt64(row_value(row, COLUMN_ID)), &lease) &&
			!limits_note(limit, lane, &entry, claim->charge))
			lanes_offer_entry(lane, &entry);
	}
}

/*
 * Claim tasks of some groups only: walk through the lanes, in the order of the
 * addresses across them, and pass over the others.  Lanes are left as they are:
 * whoever comes to an entry of a task that we leased passes over it.
 */
static void
claim_of_groups(Claim *claim)
{
	QueueInfo  *info = claim->info;
	QueueState *state = info->state;
	int			max = claim->request->max_tasks;
	GroupSource *sources = palloc(FAIRQ_MAX_BUCKETS * sizeof(GroupSource));

	for (int class = 0; class < state->classes && claim->got < max; class++)
	{
		LaneSet    *set = &state->orders[class].lanes;
		VirtualTime finish = {PG_INT64_MIN, 0};
		VirtualTime left = {PG_INT64_MAX, 0};	/* the first that we pass over */
		Lane	   *lane;
		int			n_sources = 0;

		for (int b = 0; b < FAIRQ_MAX_BUCKETS && (lane = lanes_next(set, &b)) != NULL; b++)
		{
			if (bucket_wanted(claim, lane))
				source_begin(&sources[n_sources++], lane);
			else
				left.whole = PG_INT64_MIN;
		}

		while (claim->got < max)
		{
			GroupSource *best = NULL;

			CHECK_FOR_INTERRUPTS();
			for (int i = 0; i < n_sources; i++)
			{
				GroupSource *source = &sources[i];

				if (source_has(claim, source) &&
					(best == NULL ||
					 lanes_compare(&source->entries[source->at],
								   &best->entries[best->at]) < 0))
					best = source;
			}
			if (best == NULL)
				break;
			if (leases_reserve(1) == 0)
			{
				if (claim->got == 0)
					no_leases(claim);
				return;
			}
			handover_reserve(8);
			claim_wanted(claim, best->lane, &best->entries[best->at++], &finish, &left);
		}

		/*
		 * Virtual time goes on to the first task that is left: of those passed
		 * over, or of those that the walk did not come to.
		 */
		for (int i = 0; i < n_sources; i++)
		{
			GroupSource *source = &sources[i];

			if (source->at < source->n || source->more)
			{
				const LaneEntry *entry = source->at < source->n ?
					&source->entries[source->at] : &source->next;
				VirtualTime next = {entry->block, entry->fraction};

				if (virtual_time_compare(next, left) < 0)
					left = next;
			}
			pfree(source->entries);
		}
		if (info->policy == QUEUE_FAIR && finish.whole != PG_INT64_MIN)
			queue_state_advance(&state->orders[class],
								left.whole == PG_INT64_MAX ? finish : left, finish);
	}
	pfree(sources);
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
			int			n = lanes_doubts(lane, doubts);

			for (int i = 0; i < n; i++)
			{
				if (TransactionIdIsValid(doubts[i].xid) &&
					TransactionIdIsInProgress(doubts[i].xid))
					left = true;
				else
					lanes_resolve(lane, &doubts[i]);
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

	if (likely(pg_atomic_read_u32(&state->overflowing) == 0) ||
		queue_state_ready(state) <= 0 || limits_waiting(&state->limits) ||
		claim->wanted != NULL || claim->request->group_count >= 0 ||
		claim->waits_for_others++ == WAITS_FOR_OTHERS ||
		handover_feeds() || !wakeup_worker_alive(MyDatabaseId))
		return false;
	leases_return_reserved();
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
	if (likely(!queue_state_feeds(state, feeds)))
		return wait_for_others(claim);
	if (handover_feeds() || !wakeup_worker_alive(MyDatabaseId))
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
	leases_return_reserved();
	wakeup_at(MyDatabaseId, 0);
	if (!queue_state_wait_fed(state, feeds, claim->give_up))
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
	if (limits_waiting(&info->state->limits) &&
		((TimestampTz) pg_atomic_read_u64(&info->state->limits.next_token) <= claim.now ||
		 (TimestampTz) pg_atomic_read_u64(&info->state->limits.sought) <= claim.now - USECS_PER_SEC))
		(void) limits_seek(&info->state->limits, claim.now);
	while (claim.got < request->max_tasks)
	{
		uint32		feeds = ((volatile QueueState *) info->state)->feeds;

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
				for (int i = 0; i < request->group_count && limits_waiting(&info->state->limits); i++)
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
		if (!sought && limits_seek(&info->state->limits, claim.now))
		{
			sought = true;
			continue;
		}

		/* Or it is in buckets that are not ours, and the next may be in ours. */
		if (claim.wanted != NULL && request->group_count < 0)
		{
			int			offers;

			(void) limits_tick(&info->state->limits, claim.now, &offers);
			if (offers > 0)
				continue;
		}
		if (claim.got > 0 || !wait_for_overflow(&claim, feeds))
			break;
	}
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
	groups_wake_feeder(info->state);

	/* Last, for it may run code of the owner's, and fail. */
	archive_write(&claim.archive, rel, info);
	return claim.got;
}
