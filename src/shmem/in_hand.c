/*-------------------------------------------------------------------------
 *
 * in_hand.c
 *	  Entries that a claim has taken from lanes, and not leased yet.
 *
 * They are in no window any more, so if the claim fails they go back:
 * in_hand_at_abort is called when a transaction or subtransaction rolls back.
 * While there are any, other processes see that in in_transit.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/in_hand.h"
#include "shmem/in_transit.h"

#define MAX_IN_HAND		LANE_WINDOW

static LaneEntry entries_in_hand[MAX_IN_HAND];
static Lane *lanes_in_hand[MAX_IN_HAND];
static int	count_in_hand = 0;

/*
 * Hold n entries that were taken from a lane, in their order, until they are
 * leased or let go.  All that is held is in order, also when some came late;
 * what is then more than max goes back, from the end.
 */
void
in_hand_add(Lane *lane, const LaneEntry *entries, int n, int max)
{
	Assert(max <= MAX_IN_HAND);
	for (int i = 0; i < n; i++)
	{
		int			at = count_in_hand;

		/* Mostly at the end: lanes are taken from in order. */
		while (at > 0 && lanes_compare(&entries[i], &entries_in_hand[at - 1]) < 0)
			at--;
		if (count_in_hand == max)
		{
			int			last = max - 1;

			if (at == max)
			{
				lanes_offer_entry(lane, &entries[i]);
				continue;
			}
			lanes_offer_entry(lanes_in_hand[last], &entries_in_hand[last]);
			count_in_hand--;
		}
		if (unlikely(at < count_in_hand))
		{
			memmove(&entries_in_hand[at + 1], &entries_in_hand[at],
					(count_in_hand - at) * sizeof(LaneEntry));
			memmove(&lanes_in_hand[at + 1], &lanes_in_hand[at],
					(count_in_hand - at) * sizeof(Lane *));
		}
		entries_in_hand[at] = entries[i];
		lanes_in_hand[at] = lane;
		count_in_hand++;
	}
}

int
in_hand_entries(LaneEntry **entries, Lane ***lanes)
{
	*entries = entries_in_hand;
	*lanes = lanes_in_hand;
	return count_in_hand;
}

/*
 * Give back what is held but for the first done entries.
 */
void
in_hand_let_go(int done)
{
	for (int i = done; i < count_in_hand; i++)
		lanes_offer_entry(lanes_in_hand[i], &entries_in_hand[i]);
	count_in_hand = 0;
	in_transit_ends();
}

/*
 * The claim failed: nothing that is held was leased.  Never fails.
 */
void
in_hand_at_abort(void)
{
	in_hand_let_go(0);
}
