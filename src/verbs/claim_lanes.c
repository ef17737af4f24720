/*-------------------------------------------------------------------------
 *
 * claim_lanes.c
 *	  Claims of whatever comes first: from the fronts of the lanes.
 *
 * A class's lanes are taken from in the order of addresses across lanes, and
 * what is taken is in hand (claim_hand.c) until its row has been read and it is
 * leased.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/queue_state.h"
#include "shmem/turns.h"
#include "shmem/waiters.h"
#include "storage/row_reader.h"
#include "verbs/claim_private.h"
#include "xact/pending.h"

/* At most so many lines are read while another claimer reads the first one. */
#define READS_BEHIND	4

/* A lane that a claim may take from. */
typedef struct Source
{
	Lane	   *lane;
	LaneTop		top;
	bool		turns_only;		/* its bucket was not asked for: but whoever
								 * comes first has a turn, or those of a group
								 * would hang on who has the bucket of its
								 * home lane */
} Source;

/* What is next in a source's lane; locked: for certain. */
static inline void
look_at(Source *source, bool locked)
{
	if (unlikely(source->turns_only))
		lanes_look_turns(source->lane, &source->top);
	else if (locked)
		lanes_look_locked(source->lane, &source->top);
	else
		lanes_look(source->lane, &source->top);
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
		source->turns_only = !claim_wants_bucket(claim, lane);
		look_at(source, locked);
		if (unlikely(source->turns_only))
		{
			LaneTop		all;

			lanes_look(lane, &all);
			*others_empty &= all.view == LANE_EMPTY;
		}
		if (source->top.view != LANE_EMPTY)
			n++;
	}
	return n;
}

/*
 * Is there anything to take, or to read, in a source's lane? If another
 * claimer reads the line whose turn it is that is waited for.
 */
static inline bool
has_next(const Source *source)
{
	return source->top.view == LANE_READY || source->top.view == LANE_UNREAD ||
		(unlikely(source->top.turn) && source->top.view == LANE_REFILLING);
}

/*
 * Let a source take its place in the line of those that have something, the one
 * least far along at its end.
 */
static pg_attribute_always_inline void
line_up(Source **line, int *n, Source *source)
{
	int			low = 0;
	int			high = *n;

	if (!has_next(source))
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
	bool		again = (claim_in_hand > 0);
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
			const LaneEntry *last = &claim_hand[claim_in_hand - 1];
			const LaneRoom room = {&claim_hand[claim_in_hand], &claim_hand_turns[claim_in_hand]};
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
			n = lanes_take(lane, max, last, &room, &top, true);
			if (n <= 0)
				continue;
			claim_hand_hold(lane, n, max);
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
		if (has_next(source) &&
			(first == NULL ||
			 lanes_compare(&source->top.first, &first->top.first) < 0))
			first = source;
	}
	return first;
}

/*
 * The turn that is first in a source's lane is of a line that is not read so
 * far: read on, or wait until another claimer has, and read others meanwhile.
 * Returns false if that takes too long.
 */
static bool
take_unread(Claim *claim, Source *source, int max)
{
	int			taken;

	if (claim_read_line(&claim->row, source->lane, FAIRQ_NO_GROUP, &claim_hand[claim_in_hand],
						&claim_hand_turns[claim_in_hand], &taken))
	{
		claim_hand_hold(source->lane, taken, max);
		return true;
	}
	for (int i = 0; i < READS_BEHIND; i++)
	{
		uint32		group = turns_unread_behind(source->lane);

		if (group == FAIRQ_NO_GROUP)
			break;
		(void) claim_read_line(&claim->row, source->lane, group, NULL, NULL, &taken);
	}
	return turns_read_wait(source->lane, FAIRQ_NO_GROUP);
}

/*
 * Take entries from the front of a source's lane, until max are in hand, but
 * none that comes after upto (NULL: any); or read on in the index if the
 * lane's window is empty.  With nowait a lane that is locked is left for
 * later.  Returns false if its first turn is passed by.
 */
static bool
take_from(Claim *claim, Source *source, int max, const LaneEntry *upto, bool nowait)
{
	bool		waited = true;

	Assert(max > claim_in_hand);
	if (source->top.view == LANE_READY)
	{
		const LaneRoom room = {&claim_hand[claim_in_hand], &claim_hand_turns[claim_in_hand]};
		int			n;

		if (unlikely(source->turns_only))
			n = lanes_take_turns(source->lane, max - claim_in_hand, upto, &room, &source->top);
		else
			n = lanes_take(source->lane, max - claim_in_hand, upto, &room, &source->top, nowait);
		if (n < 0)
		{
			source->top.view = LANE_LOCKED;
			return true;
		}
		claim_hand_hold(source->lane, n, max);
		if (!source->top.low)
			return true;
	}
	if (source->top.turn && source->top.view != LANE_READY)
		waited = take_unread(claim, source, max);
	else
		(void) claim_refill(claim->rel, claim->info, source->lane);
	look_at(source, false);
	return waited;
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

	Assert(max > 0 && claim_in_hand == 0);
	if (high > (int) lengthof(few_sources))
	{
		sources = palloc(high * sizeof(Source));
		line = palloc(high * sizeof(Source *));
	}
	n_sources = find_sources(claim, class, high, false, sources, &others_empty);

	/* A claim of one needs no line, unless it finds the first lane locked. */
	best = (max == 1) ? first_source(sources, n_sources) : NULL;
	if (best != NULL && best->top.view == LANE_READY)
		(void) take_from(claim, best, max, NULL, nowait);
	for (int i = 0; i < n_sources && claim_in_hand < max; i++)
		line_up(line, &n_line, &sources[i]);

	while (claim_in_hand < max)
	{
		CHECK_FOR_INTERRUPTS();
		if (n_line == 0)
		{
			n_line = line_up_locked(line, sources, n_sources);
			nowait &= (n_line == 0);
		}
		if (n_line == 0 && claim_in_hand == 0 && !looked_twice)
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

		/* A line that is read for long is passed by. */
		if (likely(take_from(claim, best, max, n_line == 0 ? NULL : &line[n_line - 1]->top.first,
							 nowait)))
			line_up(line, &n_line, best);
	}
	if (high > 1)
		take_overtaken(claim, class, high, sources, n_sources, max);
	claim->drained = others_empty && (looked_twice || claim_in_hand == max);
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
	LaneEntry	place;

	if (row_is_null(row, COLUMN_ADDRESS))
		return;
	address = DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	if (address->class < state->classes)
		lane = lanes_of(&state->orders[address->class].lanes, address->bucket);
	if (lane == NULL)
		return;
	lanes_entry(&place, address, &row->tuple.t_self);
	lanes_offer_of_group(lane, &place, WAITERS_ANY_GROUP);
}

/*
 * An entry in hand was not leased: its group may not have it now (at_limit), or
 * it is another claim's.
 */
static void
not_granted(Claim *claim, Lane *lane, const LaneEntry *entry, bool at_limit)
{
	const LaneTurn *turn = claim->turn;

	if (unlikely(claim->alone))
		claim_alone_not(claim);
	if (!at_limit || lanes_entry_task(entry) == 0)
	{
		if (turn != NULL)
			turns_refund(turn);
		if (at_limit)
			claim_park(claim, lane, entry, true);
		return;
	}
	/* Whoever comes next finds that there is no room. */
	turns_return(lane, entry, turn, false);
}

/* An entry in hand leads nowhere: if it is from a line its charge goes back. */
static void
led_nowhere(Claim *claim)
{
	if (claim->turn != NULL)
		claim_hand_led_nowhere(claim->turn);
}

/* An entry in hand leads to a row which is not its own, and is locked. */
static void
is_elsewhere(Claim *claim, int class, const LaneEntry *entry)
{
	row_reader_unlock(&claim->row);
	offer_row(claim);
	if (lanes_entry_task(entry) != 0)
		queue_order_overflow_lost(claim->info->state, class, lanes_entry_task(entry));
	led_nowhere(claim);
}

/* How far the tasks reach that a claim has leased: the highest tags. */
typedef struct ClaimEnd
{
	VirtualTime start;
	VirtualTime finish;
} ClaimEnd;

/*
 * Lease what is in hand, but not more than max; the rest goes back.
 */
static void
lease_held(Claim *claim, int class, int max, ClaimEnd *end)
{
	QueueInfo  *info = claim->info;
	int			n = Min(claim_in_hand, max);

	Assert(max >= 0);
	end->start.whole = end->finish.whole = PG_INT64_MIN;
	end->start.fraction = end->finish.fraction = 0;
	row_reader_fetch(&claim->row, &claim_hand[0].tid, sizeof(LaneEntry), n);
	for (int i = 0; i < n; i++)
	{
		Lane	   *lane = claim_hand_lanes[i];
		LaneEntry  *entry = &claim_hand[i];
		LaneEntry	place;
		RowReader  *row = &claim->row;
		VirtualTime task_start;
		VirtualTime task_finish;
		bool		at_limit;

		if (unlikely(claim->full))
		{
			n = i;
			break;
		}
		claim->turn = NULL;
		if (lanes_entry_is_turn(entry))
			claim->turn = &claim_hand_turns[i];
		if (lanes_entry_is_parked(entry))
		{
			lane = lanes_get(claim->turn->lane);
			place = *entry;
			place.turn_high = 0;
			entry = &place;
		}
		if (!claim_can_lease(claim, lane, row_reader_entry(row, entry), entry))
		{
			led_nowhere(claim);
			continue;
		}

		/* Another row may be there by now, or the same with another address. */
		if (!row_reader_is_at(row, lane, entry))
		{
			is_elsewhere(claim, class, entry);
			continue;
		}
		if (unlikely(claim_asks(claim)) && !claim_admits(claim))
		{
			claim_hand_set_aside(claim, i);
			continue;
		}
		if (!claim_grant(claim, lane, entry, &task_start, &task_finish, &at_limit))
		{
			not_granted(claim, lane, entry, at_limit);
			continue;
		}

		if (info->policy == QUEUE_FAIR)
		{
			end->start = virtual_time_max(end->start, task_start);
			end->finish = virtual_time_max(end->finish, task_finish);
		}
		claim->full |= claim->alone;
	}
	claim->turn = NULL;
	claim_hand_give_back(n);
	claim_in_hand = 0;
	if (likely(!claim_hand_any_aside()))
		transit_horizon_ends();
	else
		claim->drained = false;
}

/*
 * Claim the first task of the line of a group, for claims of some groups.
 * *finish is raised to its finish tag if it was leased.
 */
void
claim_turn_of(Claim *claim, const GroupKey *key, uint32 group, VirtualTime *finish)
{
	ClaimEnd	end;

	Assert(claim_in_hand == 0);
	pending_reserve(8);
	transit_horizon_begins(claim->now);
	if (!turns_take_of(key, group, &claim_hand[0], &claim_hand_turns[0], &claim_hand_lanes[0]))
	{
		transit_horizon_ends();
		return;
	}
	claim_in_hand = 1;
	lease_held(claim, claim_hand_lanes[0]->class, 1, &end);
	*finish = virtual_time_max(*finish, end.finish);
}

/*
 * Claim up to most tasks of a class that has lanes.  Returns false if there are
 * no more leases to be had.
 */
bool
claim_from_lanes(Claim *claim, int class, int most)
{
	QueueState *state = claim->info->state;
	QueueOrder *order = &state->orders[class];
	ClaimEnd	reached;
	int			end = claim->got + most;

	while (claim->got < end && !claim->full)
	{
		int			want = Min(end - claim->got, LANE_WINDOW);
		int			got = claim->got;
		int			reserved;
		int			taken;

		CHECK_FOR_INTERRUPTS();
		pending_reserve(want * 2 + 8);
		transit_horizon_begins(claim->now);
		take_from_class(claim, class, want);
		taken = claim_in_hand;

		/* Only what it takes: the free list is one for everybody. */
		reserved = taken > 0 ? leases_reserve(taken) : 0;
		if (reserved == 0 && taken > 0 && claim->got == 0)
			claim_no_leases(claim);
		claim->drained &= (reserved == taken);
		lease_held(claim, class, reserved, &reached);
		if (reached.start.whole != PG_INT64_MIN)
			queue_order_advance(order, reached.start, reached.finish);
		claim_tell_served(claim, order);
		if (claim->drained)
			queue_order_idle(order);
		/* What led nowhere has left some of them. */
		if (reserved < taken && claim->got - got == reserved)
			return false;
		if (taken == 0)
			break;
	}
	return true;
}
