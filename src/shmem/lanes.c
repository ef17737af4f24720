/*-------------------------------------------------------------------------
 *
 * lanes.c
 *	  Lanes: how far each part of a queue has been claimed.
 *
 * A lane is the part of a queue's fair order that has one priority class and
 * one bucket: a contiguous range of the index on address.  It is claimed from
 * front to back, and what has been claimed is not looked at again, so that a
 * claim costs the same whatever lies behind it (invariant I5).
 *
 * For that a lane has a window and a frontier.
 *
 *	 The window is a sorted array of places (address, TID), bounded.
 *	 The frontier is a place.  Every claimable row before the frontier is in
 *	 the window, or in the hands of a claimer; rows from the frontier on are
 *	 found by reading the index from there.
 *
 * Claimers take from the front of the window.  When it runs low one of them
 * reads on in the index and moves the frontier (a refill).  When a refill
 * comes to the end of the lane the frontier is infinitely far: the lane is
 * complete, and a shallow queue is then served without touching the index.
 *
 * Rows that become claimable before the frontier are handed over by name by
 * whoever made them so, at the end of the transaction (pending.c): offered.
 * An offer from the frontier on needs no entry, the index has the row.  If the
 * window is full the entry furthest back is dropped and the frontier lowered
 * to it, never the newcomer: the index still has the dropped one.
 *
 * The race that matters.  A refill reads the index without the lane's lock,
 * leaf page by leaf page.  A row that commits meanwhile may be missed, because
 * its entry came onto a page after the page was read, or because it was seen
 * while its transaction was in progress.  While a refill is under way every
 * offer is therefore entered, also from the frontier on.  An offer is made
 * after the transaction has ended for everybody; so if it comes before the
 * refill begins, the refill sees a finished row, and if it comes after, it
 * either finds the refill under way and enters the row, or finds the frontier
 * moved past the row and enters it, or not moved so far: then the row is yet
 * to be read.  Begin, end and offer each hold the lane's lock, which orders
 * them.  What was entered from the new frontier on is pruned at the end.
 *
 * An entry too many does no harm: the row and the lease table decide.
 *
 * The overflow.  A task that waits for room has no address, and no index has
 * its place in the lane.  Its group has a turn here instead (turns.c), which
 * is an entry whose task is chosen when it is taken.  A take merges the window
 * and the turns.  A turn from the frontier on is not yet to be taken.
 *
 * Who waits for tasks (waiters.c) is told here, of each offer and of each
 * frontier that is lowered, so whatever makes tasks claimable comes by.
 *
 * Locking: lane->lock guards a lane and is held for a copy within memory at
 * most.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/shared_memory.h"
#include "shmem/lane_check.h"
#include "shmem/lane_run.h"
#include "shmem/lanes.h"
#include "shmem/turns.h"
#include "shmem/waiters.h"

/* The lane that this backend is refilling, to be let go if that fails. */
static Lane *refilling = NULL;

/* ----------------------------------------------------------------
 * The window: what the index has
 * ----------------------------------------------------------------
 */

/* Let the window end before place. */
static void
drop_from(Lane *lane, const LaneEntry *place)
{
	AssertLaneLockedExclusively(lane);
	lane->window.count = lane_run_find(&lane->window, lane->entries, place) - lane->window.head;
}

/*
 * Let the window end before place, and have the frontier there at the most.
 */
void
lanes_cut(Lane *lane, const LaneEntry *place)
{
	AssertLaneLockedExclusively(lane);
	drop_from(lane, place);
	if (lane->complete || lanes_compare(place, &lane->frontier) < 0)
	{
		lane->complete = false;
		lane->frontier = *place;
	}
	if (lane->refilling &&
		(!lane->was_cut || lanes_compare(place, &lane->cut_at) < 0))
	{
		lane->was_cut = true;
		lane->cut_at = *place;
	}
}

/*
 * Enter a place into the window.  If it is full the last entry goes, or the
 * place itself, and the index is read again from there.
 */
static void
enter(Lane *lane, const LaneEntry *place)
{
	AssertLaneLockedExclusively(lane);
	Assert(!lanes_entry_is_turn(place));
	if (lane->window.count == LANE_WINDOW)
	{
		LaneEntry	last = lane->entries[lane->window.head + LANE_WINDOW - 1];

		if (lanes_compare(place, &last) > 0)
			last = *place;

		/*
		 * All of its address, for an offer may name a heap-only tuple, whose
		 * TID is not the one in the index.
		 */
		ItemPointerSet(&last.tid, 0, 0);
		lanes_cut(lane, &last);
		if (lanes_compare(place, &last) >= 0)
			return;
	}
	lane_run_enter(&lane->window, lane->entries, LANE_WINDOW, place);
}

/* Does a place belong into the window, by the frontier? */
static bool
belongs(const Lane *lane, const LaneEntry *place)
{
	LaneEntry	first_of_address = *place;

	AssertLaneLocked(lane);
	ItemPointerSet(&first_of_address.tid, 0, 0);
	return lane->complete || lanes_compare(&first_of_address, &lane->frontier) < 0;
}

/*
 * A row that may be claimed: its inserter has committed, or its claimer or
 * deleter has given it back.  group: whose task it is (waiters_group), if
 * that is known.  Never fails: called at the end of transactions.
 *
 * Who waits for one is told when the lane's lock was taken and let go, so that
 * the row is seen by whoever joined those who wait too late to be told.
 */
void
lanes_offer_of_group(Lane *lane, const LaneEntry *place, uint16 group)
{
	lanes_return_entry(lane, place);
	waiters_offered(lane->queue, lane->bucket, group);
}

/*
 * As above, of a row that was taken and is as it was: no waiter is told.
 */
void
lanes_return_entry(Lane *lane, const LaneEntry *place)
{
	Assert(lane->in_use);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	if (lane->refilling || belongs(lane, place))
		enter(lane, place);
	lane_check(lane);
	LWLockRelease(&lane->lock);
}

/*
 * A row that may be claimed, and it is not known whose task it is.
 */
void
lanes_offer(Lane *lane, const FairqAddress *address, const ItemPointerData *tid)
{
	LaneEntry	place;

	lanes_entry(&place, address, tid);
	lanes_offer_entry(lane, &place);
}

/*
 * A task that may be claimed, by its place.
 */
void
lanes_offer_entry(Lane *lane, const LaneEntry *place)
{
	lanes_offer_of_group(lane, place, WAITERS_ANY_GROUP);
}

/* ----------------------------------------------------------------
 * Reading and taking
 * ----------------------------------------------------------------
 */

/*
 * There may be claimable rows from address on that cannot be named (NULL:
 * anywhere): have the index read again from there.
 */
void
lanes_lower(Lane *lane, const FairqAddress *address)
{
	LaneEntry	place;

	lane_entry_set_first(&place);
	if (address != NULL)
		lanes_entry(&place, address, &place.tid);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	lanes_cut(lane, &place);
	lane_check(lane);
	LWLockRelease(&lane->lock);
	waiters_lowered(lane->queue, lane->bucket);
}

/*
 * Will claimers come across a row of this address, as far as the lane knows?
 */
bool
lanes_has(Lane *lane, const FairqAddress *address)
{
	ItemPointerData first_tid = {{0, 0}, 0};
	LaneEntry	first_of_address;
	LaneEntry	frontier;
	bool		result;
	int			at;

	lanes_entry(&first_of_address, address, &first_tid);
	LWLockAcquire(&lane->lock, LW_SHARED);

	/* By addresses only: the frontier may be at this very row, with its TID. */
	frontier = lane->frontier;
	frontier.tid = first_of_address.tid;
	result = !lane->complete && lanes_compare(&first_of_address, &frontier) >= 0;
	at = lane_run_find(&lane->window, lane->entries, &first_of_address);
	if (at < lane->window.head + lane->window.count)
	{
		LaneEntry	found = lane->entries[at];

		found.tid = first_of_address.tid;
		result |= (lanes_compare(&found, &first_of_address) == 0);
	}
	LWLockRelease(&lane->lock);
	return result;
}

/*
 * What is next in a lane.  An entry of the index that was entered during a
 * refill may lie beyond the frontier, a turn always: then it is not yet to be
 * taken.
 */
static inline void
look(const Lane *lane, LaneTop *top)
{
	const volatile Lane *now = lane;
	const LaneEntry *first = NULL;
	int			head = now->window.head;

	if (now->window.count > 0 && head < LANE_WINDOW &&
		(!now->refilling || now->complete ||
		 lanes_compare(&lane->entries[head], &lane->frontier) < 0))
		first = &lane->entries[head];
	top->turn = false;
	if (unlikely(now->turn_view != LANE_EMPTY) &&
		(now->complete || lanes_compare(&lane->turn, &lane->frontier) < 0) &&
		(first == NULL || lanes_compare(&lane->turn, first) < 0))
	{
		top->view = now->turn_view;
		top->turn = true;
		top->first = lane->turn;
		return;
	}

	if (first != NULL)
	{
		top->view = LANE_READY;
		top->first = *first;
	}
	else if (now->complete)
		top->view = LANE_EMPTY;
	else
	{
		top->view = now->refilling ? LANE_REFILLING : LANE_UNREAD;
		top->first = lane->frontier;
	}
}

/*
 * What is next in a lane.  Without the lock, as a claimer looks at all lanes
 * before it takes from one.  For claimers only; a claimer looks again with
 * the lock before it acts on this.
 *
 * Races: entries move while one is copied, so that first may be a mixture of
 * two, or an entry that has been taken; and lanes_refill_end() says that a
 * lane is complete before it has entered what was read, so that one with
 * tasks may look empty.  Both are harmless to a claimer:
 *
 *	 What it takes, and up to where, lanes_take() compares with the lock.  A first that
 *	 is too far along, or a lane that looks empty, has it take later entries of other
 *	 lanes before: take_overtaken() looks again, and what that does not see either is
 *	 in the order of a claimer that came just before.
 *	 A first that is not far enough along costs a turn: what comes back with the lock
 *	 (lanes_take, lanes_refill_begin) takes its place.
 *	 Before it says that there is nothing it looks at all with the lock (looked_twice).
 *	 With all that it wants in hand it may think that no lane has more, and end the
 *	 busy period (queue_order_idle): then whoever comes next starts at the finish of
 *	 the task served last, and not at its start.
 */
void
lanes_look(const Lane *lane, LaneTop *top)
{
	look(lane, top);
}

/*
 * What is next in a lane, with the lock: for who is about to say that there is
 * nothing.
 */
void
lanes_look_locked(Lane *lane, LaneTop *top)
{
	LWLockAcquire(&lane->lock, LW_SHARED);
	look(lane, top);
	LWLockRelease(&lane->lock);
}

/*
 * How many of the first entries of a run may be taken, up to max: those before
 * the frontier (bounded) and not after upto (NULL: any).
 */
static int
takeable(const Lane *lane, const LaneRun *run, const LaneEntry *entries, bool bounded,
		 const LaneEntry *upto, int max)
{
	int			n = Min(max, run->count);

	AssertLaneLocked(lane);
	if (bounded && !lane->complete)
		n = Min(n, lane_run_find(run, entries, &lane->frontier) - run->head);
	for (int i = 0; upto != NULL && i < n; i++)
	{
		if (lanes_compare(&entries[run->head + i], upto) > 0)
			n = i;
	}
	return n;
}

/* Turns that are blocked while a lane is locked. */
#define BLOCK_AT_ONCE	64

/*
 * Take entries of the window and turns in order, up to max and none that comes
 * after upto (NULL: any), as far as the lines of the turns are read.  Turns of
 * groups that may not have a task now are blocked on the way, so many at once.
 */
static int
take_turns(Lane *lane, int max, const LaneEntry *upto, LaneEntry *entries, LaneTurn *turns)
{
	int			n = 0;
	int			blocked = 0;

	AssertLaneLockedExclusively(lane);
	while (n < max && blocked < BLOCK_AT_ONCE)
	{
		const LaneEntry *turn = NULL;
		int			window;

		if (lane->turn_view != LANE_EMPTY &&
			(lane->complete || lanes_compare(&lane->turn, &lane->frontier) < 0) &&
			(upto == NULL || lanes_compare(&lane->turn, upto) <= 0))
			turn = &lane->turn;
		window = takeable(lane, &lane->window, lane->entries, lane->refilling,
						  turn ? turn : upto, max - n);
		memcpy(&entries[n], &lane->entries[lane->window.head], window * sizeof(LaneEntry));
		lane_run_taken(&lane->window, window);
		n += window;
		if (n == max || turn == NULL || lane->turn_view != LANE_READY)
			break;
		if (turns_take_first(lane, &entries[n], &turns[n]))
			n++;
		else
			blocked++;
	}
	return n;
}

/* What is next of a lane's turns alone. */
static void
look_at_turns(const Lane *lane, LaneTop *top)
{
	top->view = ((volatile const Lane *) lane)->turn_view;
	top->turn = true;
	top->low = false;
	top->first = lane->turn;
}

/*
 * As lanes_look, of a lane of which the turns alone are taken.
 */
void
lanes_look_turns(Lane *lane, LaneTop *top)
{
	LWLockAcquire(&lane->lock, LW_SHARED);
	look_at_turns(lane, top);
	LWLockRelease(&lane->lock);
}

/*
 * As lanes_take, of a lane of which the turns alone are taken.
 */
int
lanes_take_turns(Lane *lane, int max, const LaneEntry *upto, const LaneRoom *room, LaneTop *top)
{
	int			n = 0;
	int			blocked = 0;

	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	while (n < max && blocked < BLOCK_AT_ONCE && lane->turn_view == LANE_READY &&
		   (upto == NULL || lanes_compare(&lane->turn, upto) <= 0))
	{
		if (turns_take_first(lane, &room->entries[n], &room->turns[n]))
			n++;
		else
			blocked++;
	}
	look_at_turns(lane, top);
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * Take up to max entries from the front of a lane, but none that comes after
 * upto (NULL: any), and say what is next.  Returns how many; -1 if nowait and
 * another claimer has the lane locked.  (Other backends are waited for: they
 * have an entry to make, or to take out, and a claimer that passes by finds
 * later ones.)
 */
int
lanes_take(Lane *lane, int max, const LaneEntry *upto, const LaneRoom *room,
		   LaneTop *top, bool nowait)
{
	int			n;

	AssertNotLocked(&lane->lock);
	Assert(max > 0);
	if (!nowait)
		LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	else if (!LWLockConditionalAcquire(&lane->lock, LW_EXCLUSIVE))
	{
		if (((volatile Lane *) lane)->taking)
			return -1;
		LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	}
	lane->taking = true;
	if (likely(lane->turn_view == LANE_EMPTY))
	{
		n = takeable(lane, &lane->window, lane->entries, lane->refilling, upto, max);
		memcpy(room->entries, &lane->entries[lane->window.head], n * sizeof(LaneEntry));
		lane_run_taken(&lane->window, n);
	}
	else
		n = take_turns(lane, max, upto, room->entries, room->turns);
	look(lane, top);
	top->low = !lane->complete && !lane->refilling && lane->window.count < LANE_LOW_WATER;
	lane->taking = false;
	Assert(n >= 0 && n <= max);
	lane_check(lane);
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * Copy a lane's entries up to the frontier, for those who only look.  Returns
 * how many; entries has room for LANE_WINDOW.
 */
int
lanes_copy_window(Lane *lane, LaneEntry *entries, FairqAddress *frontier,
				  bool *complete)
{
	int			n;

	LWLockAcquire(&lane->lock, LW_SHARED);
	n = takeable(lane, &lane->window, lane->entries, true, NULL, LANE_WINDOW);
	memcpy(entries, &lane->entries[lane->window.head], n * sizeof(LaneEntry));
	lanes_entry_address(lane, &lane->frontier, frontier);
	*complete = lane->complete;
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * Begin to read the index of a lane.  Returns false if there is nothing to
 * read or another backend is reading.  Else the caller reads up to *room + 1
 * entries from *from on, and calls lanes_refill_end.
 */
bool
lanes_refill_begin(Lane *lane, LaneEntry *from, int *room)
{
	bool		begun = false;

	Assert(refilling == NULL);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	if (!lane->complete && !lane->refilling && lane->window.count < LANE_WINDOW)
	{
		lane->refilling = true;
		lane->was_cut = false;
		*from = lane->frontier;
		*room = LANE_WINDOW - lane->window.count;
		begun = true;
		refilling = lane;
	}
	lane_check(lane);
	LWLockRelease(&lane->lock);
	return begun;
}

/*
 * End a refill: n entries were read, in order, and next is the one after
 * them (NULL: there is none, the lane was read to its end).
 */
void
lanes_refill_end(Lane *lane, const LaneEntry *entries, int n,
				 const LaneEntry *next)
{
	Assert(refilling == lane);
	Assert(n >= 0 && n <= LANE_WINDOW);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	Assert(lane->refilling && !lane->complete);
	lane->refilling = false;
	lane->complete = (next == NULL);
	if (next != NULL)
	{
		LaneEntry	last_of_address = *next;

		/* Prune what was entered beyond it meanwhile; an address is whole. */
		ItemPointerSet(&last_of_address.tid, MaxBlockNumber, PG_UINT16_MAX);
		lane->frontier = *next;
		drop_from(lane, &last_of_address);
	}
	if (lane->was_cut)
		lanes_cut(lane, &lane->cut_at);
	for (int i = 0; i < n; i++)
	{
		/* A full window moves the frontier, and there is no need to go on. */
		if (!lane->complete &&
			lanes_compare(&entries[i], &lane->frontier) >= 0)
			break;
		enter(lane, &entries[i]);
	}
	lane_check(lane);
	LWLockRelease(&lane->lock);
	refilling = NULL;
	ConditionVariableBroadcast(&lane->refilled);
}

/*
 * Wait until no other backend is reading what comes next in a lane: its index,
 * or the line of its first turn.
 */
void
lanes_refill_wait(Lane *lane)
{
	bool		under_way;

	ConditionVariablePrepareToSleep(&lane->refilled);
	for (;;)
	{
		LWLockAcquire(&lane->lock, LW_SHARED);
		under_way = lane->refilling || lane->turn_view == LANE_REFILLING;
		LWLockRelease(&lane->lock);
		if (!under_way)
			break;
		ConditionVariableSleep(&lane->refilled, shared_memory_wait_event(FAIRQ_WAIT_INDEX));
	}
	ConditionVariableCancelSleep();
}

/*
 * A transaction or a subtransaction rolls back: if it was in a refill, nothing
 * was read.
 */
void
lanes_at_abort(void)
{
	Lane	   *lane = refilling;

	if (lane == NULL)
		return;
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	Assert(lane->refilling);
	lane->refilling = false;
	/* What was entered from the frontier on is in the index anyway. */
	if (!lane->complete)
		lanes_cut(lane, &lane->frontier);
	lane_check(lane);
	LWLockRelease(&lane->lock);
	refilling = NULL;
	ConditionVariableBroadcast(&lane->refilled);
}
