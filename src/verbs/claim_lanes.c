/*-------------------------------------------------------------------------
 *
 * claim_lanes.c
 *	  Claims of whatever comes first: from the fronts of the lanes.
 *
 * A class's lanes are taken from in the order of addresses across lanes, and
 * what is taken is in hand until its row has been read and it is leased.  It
 * is in no window any more, so if the claim fails it goes back.  While there
 * is any, other processes see that in transit_horizon.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/class_shares.h"
#include "shmem/limit_table.h"
#include "shmem/parking.h"
#include "shmem/queue_order.h"
#include "shmem/transit_horizon.h"
#include "storage/page_hints.h"
#include "storage/row_reader.h"
#include "verbs/claim_private.h"
#include "xact/pending.h"

/* A lane that a claim may take from. */
typedef struct Source
{
	Lane	   *lane;
	LaneTop		top;
} Source;

/*
 * What is in hand: entries in order, and the lane of each.  Behind them there
 * is room for what is just taken.
 */
static LaneEntry hand[2 * LANE_WINDOW];
static Lane *hand_lanes[2 * LANE_WINDOW];
static int	in_hand = 0;

/*
 * And what is set aside until the claim ends: suspects that it may not have.
 * Then they go back as they were, and no waiter is told, or claims that may not
 * have them either would wake each other for ever.
 */
#define ASIDE_MAX		64

static LaneEntry aside[ASIDE_MAX];
static Lane *aside_lanes[ASIDE_MAX];
static int	aside_count = 0;

/* Give back what is in hand, but for the first kept entries. */
static void
give_back(int kept)
{
	Assert(kept >= 0);
	while (in_hand > kept)
	{
		in_hand--;
		lanes_offer_entry(hand_lanes[in_hand], &hand[in_hand]);
	}
}

/*
 * The claim failed: nothing that is in hand was leased.  Never fails.
 */
void
claim_at_abort(void)
{
	give_back(0);
	claim_give_back_aside();
	transit_horizon_ends();
}

/*
 * The claim ends, or looks again: what was set aside goes back.  Never fails.
 */
void
claim_give_back_aside(void)
{
	while (aside_count > 0)
	{
		aside_count--;
		lanes_return_entry(aside_lanes[aside_count], &aside[aside_count]);
	}
}

/*
 * Set an entry in hand aside, whose row is locked.  If there is no room for it
 * it goes back at once, and the claim takes nothing else.
 */
static void
set_aside(Claim *claim, int number)
{
	row_reader_unlock(&claim->row);
	if (aside_count == ASIDE_MAX)
	{
		claim->full = true;
		lanes_return_entry(hand_lanes[number], &hand[number]);
		return;
	}
	aside[aside_count] = hand[number];
	aside_lanes[aside_count++] = hand_lanes[number];
}

#ifdef USE_ASSERT_CHECKING

/* What is in hand is in order, and each lane that of its entry. */
static void
check_hand(void)
{
	Assert(in_hand >= 0 && in_hand <= (int) lengthof(hand));
	for (int i = 0; i < in_hand; i++)
	{
		Assert(hand_lanes[i] != NULL && hand_lanes[i]->in_use);
		Assert(i == 0 || lanes_compare(&hand[i - 1], &hand[i]) <= 0);
	}
}

#else
#define check_hand() ((void) 0)
#endif

/*
 * Hold n entries that were taken from a lane, and are behind those in hand.
 * All that is held is in order, also when some came late; what is then more
 * than max goes back, from the end.
 */
static void
hold(Lane *lane, int n, int max)
{
	Assert(n >= 0 && max > 0);
	Assert(in_hand + n <= (int) lengthof(hand));
	for (int end = in_hand + n; in_hand < end; in_hand++)
	{
		LaneEntry	entry = hand[in_hand];
		int			at;

		/* Mostly it stays: lanes are taken from in order. */
		for (at = in_hand; at > 0 && lanes_compare(&entry, &hand[at - 1]) < 0; at--)
		{
			hand[at] = hand[at - 1];
			hand_lanes[at] = hand_lanes[at - 1];
		}
		hand[at] = entry;
		hand_lanes[at] = lane;
	}
	check_hand();
	give_back(max);
}

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
		if (claim_wants_bucket(claim, lane))
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
 * While lanes were looked at, one after the other, tasks may have been
 * offered: the earlier one of two in a lane that was seen before, the later
 * one where we have found it.  So look again; what is in our hands was offered
 * before that, and so was all that comes before it and was offered first.
 *
 * Not in a lane that another claimer was at: what that takes and what we do
 * is at the same time.
 */
static void
take_overtaken(Claim *claim, int class, int high, const Source *sources,
			   int n_sources, int max)
{
	const LaneSet *set = &claim->info->state->orders[class].lanes;
	bool		again = (in_hand > 0);
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
			const LaneEntry *last = &hand[in_hand - 1];
			bool		skip;
			int			n;

			if (number <= 0)
				continue;
			lane = &all[number - 1];
			if (likely(!lanes_may_precede(lane, last)))
				continue;
			lanes_look(lane, &top);
			if (top.view != LANE_READY || lanes_compare(&top.first, last) >= 0)
				continue;
			skip = !claim_wants_bucket(claim, lane);
			for (int i = 0; i < n_sources && !skip; i++)
				skip = (sources[i].lane == lane && sources[i].top.view == LANE_LOCKED);
			if (skip)
				continue;
			n = lanes_take(lane, max, last, &hand[in_hand], &top, true);
			if (n <= 0)
				continue;
			hold(lane, n, max);
			again = true;
		}
	}
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
 * Take entries from the front of a source's lane, until max are in hand, but
 * none that comes after upto (NULL: any); or read on in the index if the
 * lane's window is empty.  With nowait a lane that is locked is left for
 * later.
 */
static void
take_from(Claim *claim, Source *source, int max, const LaneEntry *upto, bool nowait)
{
	Assert(max > in_hand);
	if (source->top.view == LANE_READY)
	{
		int			n = lanes_take(source->lane, max - in_hand, upto, &hand[in_hand],
								   &source->top, nowait);

		if (n < 0)
		{
			source->top.view = LANE_LOCKED;
			return;
		}
		hold(source->lane, n, max);
		if (!source->top.low)
			return;
	}
	(void) claim_refill(claim->rel, claim->info, source->lane);
	lanes_look(source->lane, &source->top);
}

/*
 * What is left was locked when we came: now insist on it.  Returns how many
 * line up.
 */
static int
line_up_locked(Source **line, Source *sources, int n_sources)
{
	int			n = 0;

	for (int i = 0; i < n_sources; i++)
	{
		if (sources[i].top.view != LANE_LOCKED)
			continue;
		sources[i].top.view = LANE_READY;
		line_up(line, &n, &sources[i]);
	}
	return n;
}

/*
 * Take up to max entries from the lanes of a class, the lowest address first,
 * and hold them.
 *
 * A merge of the lanes: from the lane least far along, up to where the next
 * one is.  Only a lane that another claimer has locked at that moment is left
 * for later.
 */
static void
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
	bool		nowait = true;
	bool		others_empty = true;
	bool		looked_twice = false;

	Assert(max > 0 && in_hand == 0);
	if (high > (int) lengthof(few_sources))
	{
		sources = palloc(high * sizeof(Source));
		line = palloc(high * sizeof(Source *));
	}
	n_sources = find_sources(claim, class, high, false, sources, &others_empty);

	/* A claim of one needs no line, unless it finds the first lane locked. */
	best = (max == 1) ? first_source(sources, n_sources) : NULL;
	if (best != NULL && best->top.view == LANE_READY)
		take_from(claim, best, max, NULL, nowait);
	for (int i = 0; i < n_sources && in_hand < max; i++)
		line_up(line, &n_line, &sources[i]);

	while (in_hand < max)
	{
		CHECK_FOR_INTERRUPTS();
		if (n_line == 0)
		{
			n_line = line_up_locked(line, sources, n_sources);
			nowait &= (n_line == 0);
		}
		if (n_line == 0 && in_hand == 0 && !looked_twice)
		{
			/*
			 * A look without the lock may be wrong.  Not when something is in
			 * hand that may come after what is seen now: that is for
			 * take_overtaken, and for the next round.
			 */
			n_sources = find_sources(claim, class, high, true, sources, &others_empty);
			for (int i = 0; i < n_sources; i++)
				line_up(line, &n_line, &sources[i]);
			looked_twice = true;
		}
		if (n_line == 0)
			break;
		best = line[--n_line];

		take_from(claim, best, max, n_line == 0 ? NULL : &line[n_line - 1]->top.first, nowait);
		line_up(line, &n_line, best);
	}
	if (high > 1)
		take_overtaken(claim, class, high, sources, n_sources, max);
	claim->drained = others_empty && (looked_twice || in_hand == max);
	for (int i = 0; i < n_sources; i++)
	{
		if (sources[i].top.view == LANE_REFILLING)
			claim->refilling = sources[i].lane;
		claim->drained &= (sources[i].top.view == LANE_EMPTY);
	}
	if (sources != few_sources)
	{
		pfree(sources);
		pfree(line);
	}
}

/*
 * An entry led to a row with another address than its own.  Enter it where it
 * belongs, if no other backend has.
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
 * An entry in hand was not leased: its group is at its limit (NO_LIMIT: it is
 * not), or it is another claim's.
 */
static void
not_granted(Claim *claim, int number, uint32 limit)
{
	if (unlikely(claim->alone))
		claim_alone_not(claim);

	/* By now the group may have it: then whoever comes next may. */
	if (limit != NO_LIMIT &&
		!parking_park(limit, &claim->at_limit, hand_lanes[number], &hand[number], false))
		lanes_offer_entry(hand_lanes[number], &hand[number]);
}

/*
 * The rows of the first n entries in hand are going to be read.
 */
static void
fetch_rows(Claim *claim, int n)
{
	if (n <= 1)
		return;
	for (int i = 0; i < n; i++)
		row_reader_fetch_page(&claim->row, &hand[i].tid);
	for (int i = 0; i < n; i++)
		page_hints_fetch_row(claim->rel, &hand[i].tid);
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
	int			n = Min(in_hand, max);

	Assert(max >= 0);
	fetch_rows(claim, n);
	for (int i = 0; i < n; i++)
	{
		Lane	   *lane = hand_lanes[i];
		RowReader  *row = &claim->row;
		VirtualTime task_finish;
		uint32		limit;

		/* What is before the rest may not be in a lane yet: they go back. */
		if (unlikely(claim->full) ||
			(unlikely(claim->stray) && limit_table_any_parked(&info->state->limits)))
		{
			n = i;
			break;
		}

		/* A group is to be fed first. */
		if (unlikely(claim_passes_dry(claim, &hand[i])))
		{
			claim->drained = false;
			n = i;
			break;
		}

		if (!claim_can_lease(claim, lane, row_reader_entry(row, &hand[i]), &hand[i]))
			continue;

		/* Another row may be there by now, or the same with another address. */
		if (!row_reader_is_at(row, lane, &hand[i]))
		{
			row_reader_unlock(row);
			claim->stray = true;
			offer_row(claim);
			if (lanes_entry_task(&hand[i]) != 0)
				queue_order_overflow_lost(info->state, class, lanes_entry_task(&hand[i]));
			continue;
		}
		if (unlikely(claim_asks(claim)) && !claim_admits(claim))
		{
			set_aside(claim, i);
			continue;
		}
		if (!claim_grant(claim, lane, &hand[i], &task_finish, &limit))
		{
			not_granted(claim, i, limit);
			continue;
		}

		if (info->policy == QUEUE_FAIR)
		{
			VirtualTime s = {hand[i].block, hand[i].fraction};

			start = virtual_time_max(start, s);
			finish = virtual_time_max(finish, task_finish);
		}
		claim->full |= claim->alone;
	}
	give_back(n);
	in_hand = 0;
	if (likely(aside_count == 0))
		transit_horizon_ends();
	else
		claim->drained = false;
	if (start.whole != PG_INT64_MIN)
		queue_order_advance(order, start, finish);
	claim_tell_served(claim, order);
	if (claim->drained && !limit_table_in_turn(&info->state->limits))
		queue_order_idle(order);
}

/*
 * Groups wait for their turn: have those in the lanes that are before the
 * first task there.
 */
static void
turns_before(Claim *claim, int class, int want)
{
	QueueState *state = claim->info->state;
	VirtualTime upto = {PG_INT64_MAX, 0};
	Lane	   *lane;

	Assert(want > 0);
	for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
	{
		LaneTop		top;
		VirtualTime start;

		lanes_look(lane, &top);
		if (top.view == LANE_EMPTY || !claim_wants_bucket(claim, lane))
			continue;
		start.whole = top.first.block;
		start.fraction = top.first.fraction;
		if (virtual_time_compare(start, upto) < 0)
			upto = start;
	}
	if (upto.whole != PG_INT64_MAX)
		(void) parking_turns(&state->limits, class, &upto, want);
}

/* What has become of a class. */
typedef enum ClassEnd
{
	CLASS_ENDS,					/* it has no more, or the claim as many as it
								 * may have */
	CLASSES_AGAIN,				/* a task was offered, of whatever class */
	CLAIM_ENDS					/* there is nothing for any class */
} ClassEnd;

/*
 * Claim up to most tasks of a class.
 */
static ClassEnd
claim_from_class(Claim *claim, int class, int most)
{
	QueueState *state = claim->info->state;
	int			end = claim->got + most;

	while (claim->got < end && !claim->full)
	{
		int			want = Min(end - claim->got, LANE_WINDOW);
		int			got = claim->got;
		int			reserved;
		int			taken;
		bool		again;

		CHECK_FOR_INTERRUPTS();
		if (!lanes_any(&state->orders[class].lanes))
			break;
		if (unlikely(((volatile QueueState *) state)->replenish.dry > 0))
			claim_wait_dry(claim);
		pending_reserve(want * 2 + 8);
		if (unlikely(limit_table_in_turn(&state->limits)))
			turns_before(claim, class, want);
		transit_horizon_begins(claim->now);
		take_from_class(claim, class, want);
		taken = in_hand;

		/* Only what it takes: the free list is one for everybody. */
		reserved = taken > 0 ? leases_reserve(taken) : 0;
		if (reserved == 0 && taken > 0 && claim->got == 0)
			claim_no_leases(claim);
		claim->drained &= (reserved == taken);
		lease_held(claim, class, reserved);
		if (unlikely(claim->dry_met))
			claim_feed_dry(claim);

		/* Then the group may have the next one, of whatever class. */
		again = claim->stray && limit_table_any_parked(&state->limits);
		if (again)
			(void) parking_tick(&state->limits, claim->now, NULL);
		claim->stray = false;
		/* There are no more; but what led nowhere has left some of them. */
		if (reserved < taken && claim->got - got == reserved)
			return CLAIM_ENDS;
		if (again)
			return CLASSES_AGAIN;

		/* Where there is nothing else no task waits for its turn. */
		if (taken == 0 && limit_table_in_turn(&state->limits) &&
			parking_turns(&state->limits, class, NULL, want) > 0)
			continue;
		if (taken == 0)
			break;
	}
	return CLASS_ENDS;
}

/*
 * Claim from the classes in turn, as their weights say.
 */
static void
claim_in_shares(Claim *claim)
{
	QueueState *state = claim->info->state;
	int			max = claim->request->max_tasks;
	uint32		none = 0;		/* of these classes there are no more */
	ClassTurn	turn;

	while (claim->got < max && !claim->full &&
		   class_shares_begin(&state->shares, claim->info->class_weights,
							  claim_classes(claim) & ~none, max - claim->got, &turn))
	{
		int			got = claim->got;
		double		cost = claim->turns_cost;
		ClassEnd	end = claim_from_class(claim, turn.class, turn.most);

		class_shares_end(&state->shares, &turn, claim->got - got, claim->turns_cost - cost);
		if (end == CLAIM_ENDS)
			return;
		if (end == CLASSES_AGAIN)
			none = 0;
		else if (claim->got - got < turn.most)
			none |= 1 << turn.class;
	}
}

/*
 * Claim what comes first: of the lowest class that has anything; or, where
 * classes have weights, of that whose turn it is.
 */
void
claim_from_lanes(Claim *claim)
{
	QueueState *state = claim->info->state;
	int			max = claim->request->max_tasks;

	if (unlikely(claim_by_weights(claim)))
	{
		claim_in_shares(claim);
		return;
	}
	for (int class = 0; class < state->classes && claim->got < max; class++)
	{
		ClassEnd	end = claim_from_class(claim, class, max - claim->got);

		if (end == CLAIM_ENDS)
			return;
		if (end == CLASSES_AGAIN)
			class = -1;
	}
}
