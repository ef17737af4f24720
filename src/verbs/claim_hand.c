/*-------------------------------------------------------------------------
 *
 * claim_hand.c
 *	  What a claim has in hand: taken from lanes, and not leased yet.
 *
 * It is in no window any more, so if the claim fails it goes back.  While there
 * is any, other processes see that in transit_horizon.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/turns.h"
#include "shmem/waiters.h"
#include "verbs/claim_private.h"

/*
 * What is in hand: entries in order, and the lane of each.  Behind them there
 * is room for what is just taken.
 */
LaneEntry	claim_hand[CLAIM_HAND_SIZE];
Lane	   *claim_hand_lanes[CLAIM_HAND_SIZE];
LaneTurn	claim_hand_turns[CLAIM_HAND_SIZE];
int			claim_in_hand = 0;

/*
 * And what is set aside until the claim ends: suspects that it may not have.
 * Then they go back as they were, and no waiter is told, or claims that may not
 * have them either would wake each other for ever.
 */
#define ASIDE_MAX		64

static LaneEntry aside[ASIDE_MAX];
static Lane *aside_lanes[ASIDE_MAX];
static LaneTurn aside_turns[ASIDE_MAX];
static int	aside_count = 0;

/*
 * Room that was kept for what was taken out of a line is given up, once.
 */
void
claim_hand_give_up(LaneTurn *turn)
{
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		uint32		limit = turn->limits[i];

		turn->limits[i] = NO_LIMIT;
		if (limit != NO_LIMIT)
			group_limits_give_up(limit);
	}
}

/*
 * What was taken out of a line is not leased: what was charged and kept for it
 * is given up.
 */
void
claim_hand_led_nowhere(LaneTurn *turn)
{
	turns_refund(turn);
	claim_hand_give_up(turn);
}

/*
 * The last that is in hand for which these limits have kept room; NULL: there
 * is none.  What was leased already has none.
 */
LaneTurn *
claim_hand_reserved(const uint32 limits[LIMIT_LEVELS])
{
	for (int i = claim_in_hand - 1; i >= 0; i--)
	{
		if (lanes_entry_is_turn(&claim_hand[i]) && 
			memcmp(claim_hand_turns[i].limits, limits, LIMIT_LEVELS * sizeof(uint32)) == 0)
			return &claim_hand_turns[i];
	}
	return NULL;
}

/*
 * Give an entry back.  tell: those who wait for tasks.  What was parked goes to
 * its window: whoever meets it there parks it again, or has it.
 */
static void
return_entry(Lane *lane, const LaneEntry *entry, LaneTurn *turn, bool tell)
{
	LaneEntry	place = *entry;

	if (lanes_entry_task(entry) != 0)
	{
		turns_return(lane, entry, turn, tell);
		claim_hand_give_up(turn);
		return;
	}
	if (lanes_entry_is_parked(entry))
	{
		claim_hand_led_nowhere(turn);
		lane = lanes_get(turn->lane);
		place.turn_high = 0;
	}
	if (tell)
		lanes_offer_of_group(lane, &place, WAITERS_ANY_GROUP);
	else
		lanes_return_entry(lane, &place);
}

/* Give back what is in hand, but for the first kept entries. */
void
claim_hand_give_back(int kept)
{
	Assert(kept >= 0);
	while (claim_in_hand > kept)
	{
		claim_in_hand--;
		return_entry(claim_hand_lanes[claim_in_hand], &claim_hand[claim_in_hand],
					 &claim_hand_turns[claim_in_hand], true);
	}
}

/*
 * Was anything set aside?
 */
bool
claim_hand_any_aside(void)
{
	return aside_count > 0;
}

/*
 * The claim failed: nothing that is in hand was leased.  Never fails.
 */
void
claim_at_abort(void)
{
	claim_hand_give_back(0);
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
		return_entry(aside_lanes[aside_count], &aside[aside_count], &aside_turns[aside_count],
					 false);
	}
}

/*
 * Set an entry in hand aside, whose row is locked.  If there is no room for it
 * it goes back at once, and the claim takes nothing else.
 */
void
claim_hand_set_aside(Claim *claim, int number)
{
	row_reader_unlock(&claim->row);
	if (aside_count == ASIDE_MAX)
	{
		claim->full = true;
		return_entry(claim_hand_lanes[number], &claim_hand[number], &claim_hand_turns[number],
					 false);
		return;
	}
	aside_turns[aside_count] = claim_hand_turns[number];
	claim_hand_turns[number].limits[0] = claim_hand_turns[number].limits[1] = NO_LIMIT;
	aside[aside_count] = claim_hand[number];
	aside_lanes[aside_count++] = claim_hand_lanes[number];
}

#ifdef USE_ASSERT_CHECKING

/* What is in hand is in order, and each lane that of its entry. */
static void
check_hand(void)
{
	Assert(claim_in_hand >= 0 && claim_in_hand <= (int) lengthof(claim_hand));
	for (int i = 0; i < claim_in_hand; i++)
	{
		Assert(claim_hand_lanes[i] != NULL && claim_hand_lanes[i]->in_use);
		Assert(i == 0 || lanes_compare(&claim_hand[i - 1], &claim_hand[i]) <= 0);
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
void
claim_hand_hold(Lane *lane, int n, int max)
{
	Assert(n >= 0 && max > 0);
	Assert(claim_in_hand + n <= (int) lengthof(claim_hand));
	for (int end = claim_in_hand + n; claim_in_hand < end; claim_in_hand++)
	{
		LaneEntry	entry;
		LaneTurn	turn;
		int			at = claim_in_hand;

		/* Mostly it stays: lanes are taken from in order. */
		if (at == 0 || lanes_compare(&claim_hand[at], &claim_hand[at - 1]) >= 0)
		{
			claim_hand_lanes[at] = lane;
			continue;
		}
		entry = claim_hand[at];
		turn = claim_hand_turns[at];
		for (; at > 0 && lanes_compare(&entry, &claim_hand[at - 1]) < 0; at--)
		{
			claim_hand[at] = claim_hand[at - 1];
			claim_hand_lanes[at] = claim_hand_lanes[at - 1];
			claim_hand_turns[at] = claim_hand_turns[at - 1];
		}
		claim_hand[at] = entry;
		claim_hand_turns[at] = turn;
		claim_hand_lanes[at] = lane;
	}
	check_hand();
	if (unlikely(claim_in_hand > max))
		claim_hand_give_back(max);
}
