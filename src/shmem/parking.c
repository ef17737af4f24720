/*-------------------------------------------------------------------------
 *
 * parking.c
 *	  Entries of tasks whose group may not have another one just now.
 *
 * A claim that comes to a task of a group at its limit parks the task's entry
 * here and goes on: the entry is in the lane's window no more and is passed
 * over once, not by every claim.  As soon as the group may have another task,
 * its first parked entry is offered to its lane again.  The race: the last
 * lease may end between the claim's look and the parking.  So parking_park
 * looks again, under the lock that is held when a lease is counted off; and
 * whatever was parked, the group goes on if it may.
 *
 * Order.  A group's tasks are claimed in the order of their addresses.  So
 * while any is parked, what comes after it is parked, too, whether the group
 * may have a task or not: a lease that ends is for the first one.
 *
 * Turns (policy fair).  A group that could not be served is like one that had
 * nothing to do: it gets no credit for that.  Its tasks have the addresses
 * that they were given, some of them long passed; were all offered at once,
 * they would all come before those of all other groups.  So an entry that is
 * offered is given a start tag as if it came now: turn = max(turn, v) for the
 * first one after the group has waited for something else than its turn, and
 * from one to the next it grows by what the task is charged, cost / weight.
 * An entry is offered when it is the next by that, so by a claim that finds
 * nothing before it in the lanes, or nothing else at all; then v goes there.
 * So such a group is served as by its share, and what no other group wants is
 * its own.
 *
 * There are to be as many of a group's entries in the lanes as it may have
 * tasks, if it has so many.  What was offered and not taken yet is counted;
 * that is a hint.  An offer may lead to a row that is gone.  Who removes a
 * ready task says so (parking_removed), and the next one is offered; should
 * that have been missed, a claim that comes to such an entry, or the worker a
 * second later (parking_tick), takes all that was offered for lost, and offers
 * as much again.  What is too much comes back when it is met with the group at
 * its limit.
 *
 * Groups that wait stand in lines, by what they wait for: those whose turn has
 * not come in a heap by that, those without a token in a heap by when they
 * have one, and those with offers under way in a list.  So nothing looks
 * through all groups.
 *
 * Of the line of a group's overflow (turns.c) one turn is parked at the most:
 * the line is blocked until that is offered.
 *
 * There is room for so many entries (parked_tree.c).  When that is used up,
 * the lowest entry that was let go is remembered, and when the group may go on
 * the lanes are read again from there.  What comes then has its old address,
 * unless it has to be parked again.
 *
 * Locking: the lock of a group's limit, see limit_table.c, guards what it has
 * parked.  The lock of a queue's lines is taken after that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/wall_clock.h"
#include "shmem/limit_private.h"
#include "shmem/parking.h"
#include "shmem/queue_order.h"
#include "shmem/queue_state.h"
#include "shmem/turns.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"

/* How often claims look for groups that may go on, in microseconds. */
#define SEEK_USECS		INT64CONST(50000)

/* Entries that are offered in one go. */
#define OFFERS			32

/* Groups whose offers are taken for lost in one go. */
#define LOST_AT_ONCE	256

/* What is offered of a group in one go. */
typedef struct Offers
{
	int			n;
	ParkedEntry entries[OFFERS];
	Lane	   *turn_of;		/* where it now waits for its turn, or NULL */
	TimestampTz token;			/* it waits for a token until then */
	int			dropped_class;	/* lanes are read again from there, ... */
	LaneEntry	dropped_from;	/* ... and here in that class; -1: none */
} Offers;

/* Count a group that has begun to wait, or does so no more. */
static void
set_waiting(GroupLimit *limit, bool was)
{
	bool		is = limit_waits(limit);

	AssertLimitLockedExclusively(limit);
	if (is && !was)
		pg_atomic_fetch_add_u32(&limit->of_queue->waiting, 1);
	else if (was && !is)
		pg_atomic_fetch_sub_u32(&limit->of_queue->waiting, 1);
}

/* Let an entry go; from the first of those on the lanes will be read again. */
static void
drop_entry(GroupLimit *limit, int class, const LaneEntry *entry)
{
	AssertLimitLockedExclusively(limit);
	Assert(class >= 0 && class < FAIRQ_CLASSES);
	if (!limit->dropped || class < limit->dropped_class ||
		(class == limit->dropped_class &&
		 lanes_compare(entry, &limit->dropped_from) < 0))
	{
		limit->dropped_from = *entry;
		limit->dropped_class = class;
	}
	limit->dropped = true;
}

/* ----------------------------------------------------------------
 * Lines
 * ----------------------------------------------------------------
 */

/* The heaps have the largest first, so these are the other way round. */
static int
compare_turns(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const GroupLimit *x = pairingheap_const_container(GroupLimit, node, a);
	const GroupLimit *y = pairingheap_const_container(GroupLimit, node, b);

	if (x->line_class != y->line_class)
		return y->line_class - x->line_class;
	return virtual_time_compare(y->line_turn, x->line_turn);
}

static int
compare_tokens(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const GroupLimit *x = pairingheap_const_container(GroupLimit, node, a);
	const GroupLimit *y = pairingheap_const_container(GroupLimit, node, b);

	return (x->line_token < y->line_token) - (x->line_token > y->line_token);
}

/*
 * Add a group to a heap, or remove it.  Only the root is shared: the rest of a
 * heap is the code that compares.
 */
static void
change_heap(pairingheap_node **root, pairingheap_comparator compare, GroupLimit *limit,
			bool add)
{
	pairingheap heap = {0};

	AssertLockedExclusively(&limit->of_queue->line_lock);
	heap.ph_compare = compare;
	heap.ph_root = *root;
	if (add)
		pairingheap_add(&heap, &limit->node);
	else
		pairingheap_remove(&heap, &limit->node);
	*root = heap.ph_root;
}

/*
 * Have a group stand in a line; token: until when, in LINE_TOKEN.
 */
static void
stand_in_line(GroupLimit *limit, LimitLine line, TimestampTz token)
{
	QueueLimits *limits = limit->of_queue;
	const GroupLimit *first;

	AssertLimitLockedExclusively(limit);
	Assert(line != LINE_TOKEN || token != DT_NOEND);
	if (limit->line == line && (line == NOT_IN_LINE || line == LINE_OFFERED))
		return;
	LWLockAcquire(&limits->line_lock, LW_EXCLUSIVE);
	switch ((LimitLine) limit->line)
	{
		case LINE_TURN:
			change_heap(&limits->turns, compare_turns, limit, false);
			pg_atomic_fetch_sub_u32(&limits->in_turn, 1);
			break;
		case LINE_TOKEN:
			change_heap(&limits->tokens, compare_tokens, limit, false);
			break;
		case LINE_OFFERED:
			dlist_delete(&limit->offered_node);
			break;
		case NOT_IN_LINE:
			break;
	}
	switch (line)
	{
		case LINE_TURN:
			limit->line_class = limit->turn_class;
			limit->line_turn = limit->turn;
			change_heap(&limits->turns, compare_turns, limit, true);
			pg_atomic_fetch_add_u32(&limits->in_turn, 1);
			break;
		case LINE_TOKEN:
			limit->line_token = token;
			change_heap(&limits->tokens, compare_tokens, limit, true);
			break;
		case LINE_OFFERED:
			dlist_push_tail(&limits->offered, &limit->offered_node);
			break;
		case NOT_IN_LINE:
			break;
	}
	limit->line = line;
	first = limits->tokens == NULL ? NULL :
		pairingheap_container(GroupLimit, node, limits->tokens);
	pg_atomic_write_u64(&limits->next_token, first ? first->line_token : DT_NOEND);
	limit_check_lines(limits);
	LWLockRelease(&limits->line_lock);
}

/* ----------------------------------------------------------------
 * Offers
 * ----------------------------------------------------------------
 */

/*
 * When is it the turn of a group's first entry?  waited: the group has waited
 * for something else.  Returns whether that has come, so that it can be
 * offered; an entry that lies ahead of its turn anyway can.
 */
static bool
next_turn(GroupLimit *limit, QueueState *queue, const ParkedEntry *first, bool waited)
{
	int			class = first->lane->class;
	VirtualTime v = queue_order_virtual_time(&queue->orders[class]);
	VirtualTime start = {first->entry.block, first->entry.fraction};

	AssertLimitLockedExclusively(limit);
	if (limit->turn_class != class)
	{
		limit->turn_class = class;
		limit->turn = v;
	}
	if (waited)
		limit->turn = virtual_time_max(limit->turn, v);
	limit->turn = virtual_time_max(limit->turn, start);
	return virtual_time_compare(limit->turn, v) <= 0 ||
		virtual_time_compare(limit->turn, start) == 0;
}

/*
 * Have the group take the turn of its first entry, if it has come, or if that
 * is not waited for: of *forced ones.  Then v goes there.
 */
static bool
take_turn(GroupLimit *limit, QueueState *queue, const ParkedEntry *first, bool waited,
		  int *forced)
{
	AssertLimitLockedExclusively(limit);
	/* The other policies have one class, and no virtual time. */
	if (queue->classes == 1)
		return true;
	if (!next_turn(limit, queue, first, waited))
	{
		if (*forced <= 0)
			return false;
		(*forced)--;
		queue_order_advance(&queue->orders[limit->turn_class], limit->turn,
							virtual_time_add(limit->turn, first->charge, 1.0));
	}
	limit->turn = virtual_time_add(limit->turn, first->charge, 1.0);
	return true;
}

/*
 * Take up to max entries of a group that may be offered, in turn but for
 * *forced of them.  If no more are to be taken after them, the group stands in
 * line for what it waits for.  waited: it has waited, perhaps for something
 * else than its turn.
 */
static void
take_offers(GroupLimit *limit, QueueState *queue, int max, bool waited, int *forced,
			Offers *offers)
{
	LimitLine	line = NOT_IN_LINE;
	TimestampTz token;
	bool		limited;
	int			n = 0;
	int			may = limit_table_room(limit, &token, &limited);

	AssertLimitLockedExclusively(limit);
	if (may < INT_MAX)
		may -= Min(limit->offered, may);
	while (limit->parked > 0 && n < Min(may, max) && n < OFFERS && line == NOT_IN_LINE)
	{
		const ParkedEntry *first = parked_tree_first(limit);

		if (take_turn(limit, queue, first,
					  waited && n == 0 && limit->line != LINE_TURN, forced))
		{
			offers->entries[n++] = *first;
			parked_tree_remove_first(limit);
			limit->offered++;
		}
		else
			line = LINE_TURN;
	}
	if (line == NOT_IN_LINE && limit->parked > 0 && n < may && queue->classes > 1)
	{
		/* No more were asked for. */
		(void) next_turn(limit, queue, parked_tree_first(limit), false);
		line = LINE_TURN;
	}
	offers->n = n;
	offers->turn_of = (line == LINE_TURN && limit->line != LINE_TURN) ?
		parked_tree_first(limit)->lane : NULL;
	offers->dropped_class = -1;
	if (limit->parked == 0 && limit->dropped && may > n)
	{
		limit->dropped = false;
		offers->dropped_from = limit->dropped_from;
		offers->dropped_class = limit->dropped_class;
	}

	if (!limit_waits(limit))
	{
		set_waiting(limit, true);
		limit->offered = 0;
	}
	else if (line == NOT_IN_LINE && limit->offered > 0)
		line = LINE_OFFERED;
	else if (line == NOT_IN_LINE && token != DT_NOEND)
		line = LINE_TOKEN;
	offers->token = DT_NOEND;
	if (n < OFFERS || n == max)
	{
		stand_in_line(limit, line, token);
		if (line == LINE_TOKEN)
			offers->token = token;
	}
}

/* Have the lanes of a queue read again from an entry that was let go. */
static void
read_again(QueueState *queue, int dropped_class, const LaneEntry *from)
{
	Assert(dropped_class >= 0 && dropped_class < FAIRQ_CLASSES);
	for (int class = dropped_class; class < queue->classes; class++)
	{
		Lane	   *lane;

		/* Of the classes behind it is not known where they have to be read. */
		for (int b = 0; (lane = lanes_next(&queue->orders[class].lanes, &b)) != NULL; b++)
		{
			FairqAddress address;

			lanes_entry_address(lane, from, &address);
			lanes_lower(lane, class == dropped_class ? &address : NULL);
		}
		/* Nor where the overflow has. */
		queue_order_overflow_lost(queue, class, PG_INT64_MIN);
	}
}

/*
 * Offer entries of a group to their lanes, the first ones, as many as it may
 * have tasks and up to max, in turn but for forced of them.  Returns how many.
 * Called without locks, but for that of a group's partition.
 */
static int
offer_entries(uint32 number, int max, int forced)
{
	GroupLimit *limit = &limit_entries[number];
	int			offered = 0;
	Offers		offers;

	Assert(max > 0 && forced >= 0);
	do
	{
		QueueState *queue;

		(void) limit_lock(number, LW_EXCLUSIVE);
		if (!limit->in_use || !limit_waits(limit))
		{
			if (limit->in_use)
				stand_in_line(limit, NOT_IN_LINE, 0);
			limit_unlock(number);
			return offered;
		}
		queue = queue_state_by_number(limit->queue);
		take_offers(limit, queue, max - offered, offered == 0, &forced, &offers);
		limit_unlock(number);
		offered += offers.n;

		for (int i = 0; i < offers.n; i++)
		{
			const ParkedEntry *offer = &offers.entries[i];
			const LaneTurn turn = {.group = offer->group};

			if (lanes_entry_is_turn(&offer->entry))
				turns_return(offer->lane, &offer->entry, &turn, true, true);
			else
				lanes_offer_entry(offer->lane, &offer->entry);
		}

		/* If all claimers are asleep none comes to it: they may have it. */
		if (offers.turn_of != NULL)
			waiters_lowered(offers.turn_of->queue, offers.turn_of->bucket);
		if (offers.token != DT_NOEND)
			worker_slots_wake_at(queue->database, offers.token);
		if (offers.dropped_class >= 0)
			read_again(queue, offers.dropped_class, &offers.dropped_from);
	} while (offers.n == OFFERS && offered < max);
	return offered;
}

/*
 * A group may go on, or may not, or waits for something else: so many of its
 * entries are offered as may be, and it stands in line for the next one.
 * Returns how many.
 */
int
parking_go_on(uint32 number)
{
	return offer_entries(number, INT_MAX, 0);
}

/*
 * A task of a group that has entries parked is taken, before all of them:
 * perhaps one that was offered, or the first one (parking_park).
 */
void
parking_taken(GroupLimit *limit, const FairqAddress *address)
{
	AssertLimitLockedExclusively(limit);
	(void) parked_tree_remove(limit, address);
	set_waiting(limit, true);
	if (limit->offered > 0)
		limit->offered--;
}

/*
 * A ready task of the group was removed: its entry is let go, if it is parked.
 * If it was in a lane already the next one is offered.
 */
void
parking_removed(uint32 number, const FairqAddress *address)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	bool		waits = limit_waits(limit);

	if (waits && !parked_tree_remove(limit, address) && limit->offered > 0)
		limit->offered--;
	set_waiting(limit, waits);
	limit_unlock(number);
	if (waits)
		(void) parking_go_on(number);
}

/*
 * A claim has come to a ready task of the group whose row is in a
 * transaction's hands.  If it was offered (before all that is parked) the next
 * one is: who has the row offers it, should it be ready then.  Returns whether
 * that is so.
 */
bool
parking_passed(uint32 number, const FairqAddress *address)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);
	bool		offered = limit->offered > 0 && limit_waits(limit) &&
		!parked_tree_precedes(limit, address);

	if (offered)
		limit->offered--;
	limit_unlock(number);
	if (offered)
		(void) parking_go_on(number);
	return offered;
}

/*
 * The group's ready tasks were removed, or most of them.  What is parked is of
 * no use; should some be left, the lanes are read again from the first entry
 * on.
 */
void
parking_purged(uint32 number)
{
	GroupLimit *limit = limit_lock(number, LW_EXCLUSIVE);

	if (limit->parked > 0)
	{
		ParkedEntry first = *parked_tree_first(limit);

		while (limit->parked > 0)
			parked_tree_remove_first(limit);
		drop_entry(limit, first.lane->class, &first.entry);
	}
	limit->offered = 0;
	limit_unlock(number);
	(void) parking_go_on(number);
}

/*
 * Park an entry of the group.  Returns false if the group may have the task by
 * now: its limit may be gone, and the number another group's.
 *
 * first_only is for who reads the index and takes nothing out of lanes: the
 * entry is parked if none of the group is, so that the group goes on with an
 * offer and who waits for it is told.
 */
bool
parking_park(uint32 number, const GroupAtLimit *group, Lane *lane, const LaneEntry *entry,
			 bool first_only)
{
	GroupLimit *limit;
	FairqAddress address;
	TimestampTz token;
	bool		limited;
	bool		before;
	bool		was;

	lanes_entry_address(lane, entry, &address);
	limit = limit_lock(number, LW_EXCLUSIVE);
	before = parked_tree_precedes(limit, &address);
	if (!limit->in_use || limit->low != group->low || limit->high != group->high ||
		(!before && limit_table_room(limit, &token, &limited) > 0))
	{
		limit_unlock(number);
		return false;
	}
	was = limit_waits(limit);

	/* What was offered comes before all that is parked, and has come back. */
	if (!before && limit->offered > 0)
		limit->offered--;
	if (!(first_only && was) && !parked_tree_add(limit, lane, entry, group->group, group->charge))
		drop_entry(limit, lane->class, entry);
	set_waiting(limit, was);
	limit_unlock(number);
	(void) parking_go_on(number);
	return true;
}

/* ----------------------------------------------------------------
 * For claims and the worker
 * ----------------------------------------------------------------
 */

/*
 * Offer entries in a class whose turn comes next, up to max: those that are
 * not after upto, where the first task in the lanes is; NULL: there is none.
 * Returns how many were offered.
 *
 * Not more than the claim asks for: v goes with them, and what has had its
 * turn last may have the next one before they are claimed.
 */
int
parking_turns(QueueLimits *limits, int class, const VirtualTime *upto, int max)
{
	int			offered = 0;

	while (offered < max && pg_atomic_read_u32(&limits->in_turn) > 0)
	{
		GroupLimit *limit = NULL;
		bool		next = false;

		LWLockAcquire(&limits->line_lock, LW_SHARED);
		if (limits->turns != NULL)
		{
			limit = pairingheap_container(GroupLimit, node, limits->turns);
			next = limit->line_class < class ||
				(limit->line_class == class &&
				 (upto == NULL || virtual_time_compare(limit->line_turn, *upto) <= 0));
		}
		LWLockRelease(&limits->line_lock);
		if (!next)
			break;
		/* One after the other: the next turn may be another group's. */
		offered += offer_entries(limit_number(limit), 1, 1);
	}
	return offered;
}

/*
 * Offer a group up to max entries, in turn but for forced of them.  What it was
 * offered before is taken for lost: it may be taken or not.  Returns how many.
 */
int
parking_release(uint32 number, int max, int forced)
{
	limit_lock(number, LW_EXCLUSIVE)->offered = 0;
	limit_unlock(number);
	return offer_entries(number, max, forced);
}

/*
 * Let the groups of a queue go on that may: those with tokens again, and
 * (should an offer have gone astray) those that were offered something.
 * Returns when to look again, and sets *offers (if it is not NULL) to how many
 * entries were offered.
 */
TimestampTz
parking_tick(QueueLimits *limits, TimestampTz now, int *offers)
{
	uint32		lost[LOST_AT_ONCE];
	int			n = 0;
	int			offered = 0;

	if (offers != NULL)
		*offers = 0;
	if (pg_atomic_read_u32(&limits->waiting) == 0)
		return DT_NOEND;
	while ((TimestampTz) pg_atomic_read_u64(&limits->next_token) <= now)
	{
		GroupLimit *limit = NULL;

		LWLockAcquire(&limits->line_lock, LW_SHARED);
		if (limits->tokens != NULL)
			limit = pairingheap_container(GroupLimit, node, limits->tokens);
		LWLockRelease(&limits->line_lock);
		if (limit == NULL)
			break;
		offered += parking_go_on(limit_number(limit));
	}

	LWLockAcquire(&limits->line_lock, LW_EXCLUSIVE);
	while (n < LOST_AT_ONCE && !dlist_is_empty(&limits->offered))
	{
		GroupLimit *limit = dlist_container(GroupLimit, offered_node,
											dlist_head_node(&limits->offered));

		/* All of them in turn, if there are more. */
		if (n > 0 && limit_number(limit) == lost[0])
			break;
		dlist_delete(&limit->offered_node);
		dlist_push_tail(&limits->offered, &limit->offered_node);
		lost[n++] = limit_number(limit);
	}
	LWLockRelease(&limits->line_lock);
	for (int i = 0; i < n; i++)
		offered += parking_release(lost[i], INT_MAX, 0);
	if (offers != NULL)
		*offers = offered;
	return wall_clock_earlier((TimestampTz) pg_atomic_read_u64(&limits->next_token),
							  now + USECS_PER_SEC);
}

/*
 * Have the groups of a queue go on for a claim that has come up short, if that
 * has not been done for a while.  Returns whether it was.
 */
bool
parking_seek(QueueLimits *limits, TimestampTz now)
{
	uint64		sought;

	if (pg_atomic_read_u32(&limits->waiting) == 0)
		return false;
	sought = pg_atomic_read_u64(&limits->sought);
	if (wall_clock_ahead((TimestampTz) sought + SEEK_USECS, now, SEEK_USECS) ||
		!pg_atomic_compare_exchange_u64(&limits->sought, &sought, (uint64) now))
		return false;
	(void) parking_tick(limits, now, NULL);
	return true;
}

/*
 * The lanes of a queue are read anew: what is parked will be found again.
 */
void
parking_forget_queue(int queue)
{
	for (uint32 i = 0; i < limit_table_high_water(); i++)
	{
		GroupLimit *limit = &limit_entries[i];

		if (!limit->in_use || limit->queue != queue)
			continue;
		(void) limit_lock(i, LW_EXCLUSIVE);
		if (limit->in_use && limit->queue == queue)
		{
			bool		was = limit_waits(limit);

			while (limit->parked > 0)
				parked_tree_remove_first(limit);
			limit->dropped = false;
			limit->offered = 0;
			set_waiting(limit, was);
			stand_in_line(limit, NOT_IN_LINE, 0);
		}
		limit_unlock(i);
	}
}
