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
 * most.  All functions of this file take and release it themselves, but for
 * lanes_look, which reads without it, and lanes_cut, whose caller holds it.
 * The caller of the others holds no lock of a lane, a limit or a list of
 * waiters; it may hold those of a queue and of a group's partition.
 *
 * Races: 1 (a row commits while a refill reads its page) is told above; 6 (a
 * lane is looked at before an earlier task comes) and what else a look without
 * the lock may see at lanes_look; 8 (a sleeper looks, a task comes) at
 * lanes_offer_of_group.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/shared_memory.h"
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

/*
 * Let the window end before place.  The frontier stays: the caller sees to it
 * that what was let go is behind it.
 */
static void
drop_from(Lane *lane, const LaneEntry *place)
{
	AssertLaneLockedExclusively(lane);
	lane->window.count = lane_run_find(lane, place) - lane->window.head;
}

/*
 * Let the window end before place, and have the frontier there at the most.
 *
 * The caller holds the lane's lock exclusively, and tells those who wait when
 * it has released it (waiters_lowered).  A refill that is under way may have
 * read beyond place before: so it is told, and ends there (lanes_refill_end).
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
 *
 * A task of the overflow is never entered: no index has its place, and so none
 * would find it again when it is let go.
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
	lane_run_enter(lane, place);
}

/*
 * A row may be claimed: its inserter has committed, or its claimer or deleter
 * has given it back.  group says whose task it is (waiters_group), or is
 * WAITERS_ANY_GROUP.
 *
 * The caller has ended what kept the row from being claimed, so that whoever
 * takes the entry can have it.  On return the row is in the window, or is
 * found from the frontier on, and one who waits was told.  Takes the lane's
 * lock, then that of the queue's list of waiters.  Never fails: called at the
 * end of transactions.
 *
 * The waiter is told when the lane's lock has been taken and let go, so that
 * the row is seen by whoever joins the list too late to be told (race 8).
 */
void
lanes_offer_of_group(Lane *lane, const LaneEntry *place, uint16 group)
{
	lanes_return_entry(lane, place);
	waiters_offered(lane->queue, lane->bucket, group);
}

/*
 * As lanes_offer_of_group, but no waiter is told: of a row that was taken, and
 * that those who wait may not have either (claim_give_back_aside).
 */
void
lanes_return_entry(Lane *lane, const LaneEntry *place)
{
	LaneEntry	first_of_address = *place;

	AssertNotLocked(&lane->lock);
	Assert(lane->in_use);
	ItemPointerSet(&first_of_address.tid, 0, 0);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	/* From the frontier on the index has it; all of an address does. */
	if (lane->refilling || lane->complete ||
		lanes_compare(&first_of_address, &lane->frontier) < 0)
		enter(lane, place);
	lane_check(lane);
	LWLockRelease(&lane->lock);
}

/* ----------------------------------------------------------------
 * Reading and taking
 * ----------------------------------------------------------------
 */

/*
 * There may be claimable rows from address on that cannot be named (NULL:
 * anywhere): have the index read again from there.
 *
 * Entries of the window from there on are let go; the index has them.  Takes
 * the lane's lock, then tells those who wait.  Never fails.
 */
void
lanes_lower(Lane *lane, const FairqAddress *address)
{
	LaneEntry	place = lane_entry_first;

	AssertNotLocked(&lane->lock);
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
 *
 * For the sweep.  Takes the lane's lock in shared mode.  A row that is in a
 * claimer's hands is not in the lane, so the answer is no for it; and it may
 * be out of date on return.
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
	at = lane_run_find(lane, &first_of_address);
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
 *
 * An entry of the index that was entered during a refill may lie beyond the
 * frontier, a turn always: then it is not yet to be taken.  Without the lock
 * window and flags may change between two reads, so the head is read once and
 * compared with the array's size.
 */
void
lanes_look(const Lane *lane, LaneTop *top)
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
 * What is next in a lane, with the lock in shared mode: for who is about to
 * say that there is nothing, and must not be misled as lanes_look says.
 */
void
lanes_look_locked(Lane *lane, LaneTop *top)
{
	LWLockAcquire(&lane->lock, LW_SHARED);
	lanes_look(lane, top);
	LWLockRelease(&lane->lock);
}

/*
 * How many of the first entries of the window may be taken, up to max: those
 * before the frontier (bounded) and not after upto (NULL: any).
 */
static int
takeable(const Lane *lane, bool bounded, const LaneEntry *upto, int max)
{
	int			n = Min(max, lane->window.count);

	AssertLaneLocked(lane);
	if (bounded && !lane->complete)
		n = Min(n, lane_run_find(lane, &lane->frontier) - lane->window.head);
	for (int i = 0; upto != NULL && i < n; i++)
	{
		if (lanes_compare(&lane->entries[lane->window.head + i], upto) > 0)
			n = i;
	}
	return n;
}

/*
 * Take up to max entries of the window, none after upto (NULL: any), into room
 * that the caller has.  Returns how many.  Only while a refill is under way may
 * the window have some beyond the frontier, which are not to be taken.
 */
static int
take_window(Lane *lane, int max, const LaneEntry *upto, LaneEntry *entries)
{
	int			n = takeable(lane, lane->refilling, upto, max);

	AssertLaneLockedExclusively(lane);
	memcpy(entries, &lane->entries[lane->window.head], n * sizeof(LaneEntry));
	lane_run_taken(lane, n);
	return n;
}

/* Turns that are blocked while a lane is locked. */
#define BLOCK_AT_ONCE	64

/*
 * Take entries of the window and turns in order, up to max and none that comes
 * after upto (NULL: any), as far as the lines of the turns are read.  Turns of
 * groups that may not have a task now are blocked on the way, so many at once.
 * alone: turns only, wherever the frontier of the window is.
 */
static int
take_turns(Lane *lane, int max, const LaneEntry *upto, const LaneRoom *room, bool alone)
{
	int			n = 0;
	int			blocked = 0;

	AssertLaneLockedExclusively(lane);
	while (n < max && blocked < BLOCK_AT_ONCE)
	{
		const LaneEntry *turn = NULL;
		int			window = 0;

		if (lane->turn_view != LANE_EMPTY &&
			(alone || lane->complete || lanes_compare(&lane->turn, &lane->frontier) < 0) &&
			(upto == NULL || lanes_compare(&lane->turn, upto) <= 0))
			turn = &lane->turn;
		if (!alone)
			window = take_window(lane, max - n, turn ? turn : upto, &room->entries[n]);
		n += window;
		if (n == max || turn == NULL || lane->turn_view != LANE_READY)
			break;
		if (turns_take_first(lane, &room->entries[n], &room->turns[n]))
			n++;
		else
			blocked++;
	}
	return n;
}

/* What is next of a lane's turns alone.  The caller holds the lane's lock. */
static void
look_at_turns(const Lane *lane, LaneTop *top)
{
	top->view = ((volatile const Lane *) lane)->turn_view;
	top->turn = true;
	top->low = false;
	top->first = lane->turn;
}

/*
 * As lanes_look, of a lane of which the turns alone are taken.  Takes the
 * lane's lock in shared mode: the first turn is a copy of several words.
 */
void
lanes_look_turns(Lane *lane, LaneTop *top)
{
	LWLockAcquire(&lane->lock, LW_SHARED);
	look_at_turns(lane, top);
	LWLockRelease(&lane->lock);
}

/*
 * As lanes_take, of a lane of which the turns alone are taken, wherever the
 * frontier of its window is.  It waits for the lane's lock.
 */
int
lanes_take_turns(Lane *lane, int max, const LaneEntry *upto, const LaneRoom *room, LaneTop *top)
{
	int			n;

	AssertNotLocked(&lane->lock);
	Assert(max > 0);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	n = take_turns(lane, max, upto, room, true);
	look_at_turns(lane, top);
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * Take up to max entries from the front of a lane, but none that comes after
 * upto (NULL: any), and say in *top what is next.  Returns how many, which are
 * in *room; -1 if nowait and another claimer has the lane locked.  (Other
 * backends are waited for: they have an entry to make, or to take out, and a
 * claimer that passes by finds later ones.)
 *
 * What is taken is in the caller's hands: no other claimer comes to it until
 * the caller leases it or gives it back (claim_hand.c).  Of a turn the group
 * was charged, and room is kept at its limits.  Fewer than max may be taken
 * although there are more: *top says so.
 *
 * Takes the lane's lock exclusively and, for turns, those of limits.  Never
 * fails.
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
		n = take_window(lane, max, upto, room->entries);
	else
		n = take_turns(lane, max, upto, room, false);
	lanes_look(lane, top);
	top->low = !lane->complete && !lane->refilling && lane->window.count < LANE_LOW_WATER;
	lane->taking = false;
	Assert(n >= 0 && n <= max);
	lane_check(lane);
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * Copy a lane's entries up to the frontier, for those who only look.  Returns
 * how many; entries has room for LANE_WINDOW.  *frontier is set also if
 * *complete: then it says nothing.  Takes the lane's lock in shared mode.
 */
int
lanes_copy_window(Lane *lane, LaneEntry *entries, FairqAddress *frontier,
				  bool *complete)
{
	int			n;

	LWLockAcquire(&lane->lock, LW_SHARED);
	n = takeable(lane, true, NULL, LANE_WINDOW);
	memcpy(entries, &lane->entries[lane->window.head], n * sizeof(LaneEntry));
	lanes_entry_address(lane, &lane->frontier, frontier);
	*complete = lane->complete;
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * Begin to read the index of a lane.  Returns false if there is nothing to
 * read, no room, or another backend is reading.  Else the caller reads up to
 * *room + 1 entries from *from on, without a lock of ours, and calls
 * lanes_refill_end.
 *
 * A backend refills one lane at a time.  If it fails in between its abort ends
 * the refill (lanes_at_abort).  From now on all offers are entered (race 1),
 * so the index is read after this, not before.
 */
bool
lanes_refill_begin(Lane *lane, LaneEntry *from, int *room)
{
	AssertNotLocked(&lane->lock);
	Assert(refilling == NULL);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	if (!lane->complete && !lane->refilling && lane->window.count < LANE_WINDOW)
	{
		lane->refilling = true;
		lane->was_cut = false;
		*from = lane->frontier;
		*room = LANE_WINDOW - lane->window.count;
		refilling = lane;
	}
	lane_check(lane);
	LWLockRelease(&lane->lock);
	return refilling != NULL;
}

/*
 * End a refill: n entries were read, in order, and next is the one after them
 * (NULL: there is none, the lane was read to its end).
 *
 * The caller has begun it.  On return the frontier is at next, or before, if
 * the window was cut meanwhile or is full.  Those who wait for the refill are
 * woken.  Never fails.
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
 *
 * The caller holds no lock of ours.  It may be interrupted while it sleeps,
 * and fail.  As it prepares to sleep before it looks, an end after the look
 * wakes it.
 */
void
lanes_refill_wait(Lane *lane)
{
	bool		under_way;

	AssertNotLocked(&lane->lock);
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
 * was read, and the next claimer reads.  A hook of pending_hook, also called
 * when there is no refill.  Never fails.
 *
 * So the frontier stays where it is, or where it is lowered to after this look,
 * which the refill is told (lanes_cut).  What was entered from there on
 * meanwhile is in the index anyway.
 */
void
lanes_at_abort(void)
{
	LaneEntry	frontier;

	if (refilling == NULL)
		return;
	LWLockAcquire(&refilling->lock, LW_SHARED);
	frontier = refilling->frontier;
	LWLockRelease(&refilling->lock);
	lanes_refill_end(refilling, NULL, 0, &frontier);
}
