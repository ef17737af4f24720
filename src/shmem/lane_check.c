/*-------------------------------------------------------------------------
 *
 * lane_check.c
 *	  Whether a lane is as it should be, in builds with assertions.
 *
 * Its window is in order and within its array, and has no turns.  It lies
 * before the frontier, but for the rest of the frontier's own address, and for
 * what came while a refill is under way.  A first turn is shown if there is
 * one.  Doubts are those of different transactions.
 *
 * Locking: lane->lock, which the caller holds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"

#include "common/settings.h"
#include "shmem/lanes.h"
#include "shmem/queue_state.h"

#ifdef USE_ASSERT_CHECKING

/* One look in so many is at all entries, the others are at both ends. */
#define CHECK_ALL_EVERY	16
#define CHECK_AT_ENDS	2

/* How many there were in this process. */
static uint32 looks = 0;

/*
 * The entry number i of the window comes after the one before it, and is not
 * the entry of a turn: what is taken out of a line is never put into a window.
 */
static void
check_entry(const Lane *lane, int i)
{
	const LaneEntry *entry = &lane->entries[lane->window.head + i];

	Assert(!lanes_entry_is_turn(entry));
	Assert(i == 0 || lanes_compare(entry - 1, entry) < 0);
}

/* The window is in its array; all of its entries are looked at, or its ends. */
static void
check_window(const Lane *lane, bool all)
{
	const LaneRun *run = &lane->window;
	int			ends = Min(CHECK_AT_ENDS, run->count);

	Assert(run->count >= 0 && run->head >= 0);
	Assert(run->head + run->count <= LANE_WINDOW);
	for (int i = 0; i < (all ? run->count : ends); i++)
		check_entry(lane, i);
	for (int i = run->count - ends; i < run->count; i++)
		check_entry(lane, i);
}

/*
 * Doubts are of different transactions, but for those without one, which the
 * next look at the doubts resolves.  Only what a known transaction does can
 * have been counted: of one without, the queue is counted anew at once
 * (lane_doubts_add).
 */
static void
check_doubts(const Lane *lane)
{
	Assert(lane->doubt_count >= 0 && lane->doubt_count <= LANE_DOUBTS);
	for (int i = 0; i < lane->doubt_count; i++)
	{
		Assert(TransactionIdIsValid(lane->doubts[i].xid) || !lane->doubts[i].counted);
		for (int j = 0; j < i; j++)
			Assert(!TransactionIdIsValid(lane->doubts[i].xid) ||
				   lane->doubts[i].xid != lane->doubts[j].xid);
	}
}

/*
 * A lane that is locked, in whatever mode, is as it should be.  The heap of its
 * turns is not walked along: turns.c sees to its order.  Called where the lock
 * is let go after a change, so that what is wrong is found by who has done it.
 * One look in CHECK_ALL_EVERY is at the whole window.
 */
void
lane_check(const Lane *lane)
{
	bool		all = contract_is_due(&looks, CHECK_ALL_EVERY);

	AssertLaneLocked(lane);
	Assert(lane->in_use);
	Assert(lane->queue >= 0 && lane->queue < settings_max_queues);
	Assert(lane->bucket < FAIRQ_MAX_BUCKETS && lane->class < FAIRQ_CLASSES);
	check_window(lane, all);
	Assert((lane->turns == NULL) == (lane->turn_view == LANE_EMPTY));
	check_doubts(lane);
	if (lane->window.count > 0 && !lane->complete && !lane->refilling)
	{
		LaneEntry	last = lane->entries[lane->window.head + lane->window.count - 1];

		/* An address is whole, whichever of its rows the frontier is at. */
		last.tid = lane->frontier.tid;
		Assert(lanes_compare(&last, &lane->frontier) <= 0);
	}
}

#endif							/* USE_ASSERT_CHECKING */
