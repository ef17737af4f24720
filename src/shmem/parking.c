/*-------------------------------------------------------------------------
 *
 * parking.c
 *	  Places of tasks whose group may not have another one just now.
 *
 * A claim that comes to a task of a group at its limit sets the place aside here
 * and goes on: the task is in the lane's window no more and is passed over once,
 * not by every claim.  As soon as the group may have another task, the first place
 * set aside is offered to its lane again.  The race: the last lease may end between
 * the claim's look and the setting aside.  So that looks again, under the lock that
 * is held when a lease is counted off; and whatever was set aside, if the group may
 * go on it does.
 *
 * Order.  A group's tasks are claimed in the order of their places.  So while any
 * is set aside, what comes after it is, too, whether the group may have a task or
 * not: a lease that ends is for the first one.
 *
 * Turns (policy fair).  A group that could not be served is like one that had
 * nothing to do: it gets no credit for that.  Its tasks have the places that they
 * were given, some of them long passed; were all offered at once, they would all
 * come before everybody else's.  So a place that is offered is given a start tag as
 * if it came now: turn = max(turn, v) for the first one after the group has waited
 * for something else than its turn, and from one to the next it grows by what the
 * task is charged, cost / weight.  A place is offered when it is the next by that, so
 * by a claim that finds nothing before it in the lanes, or nothing else at all; then
 * v goes there.  So such a group is served as by its share, and what nobody else
 * wants is its own.
 *
 * There are to be as many of a group's places in the lanes as it may have tasks, if
 * it has so many.  What was offered and not taken yet is counted; that is a hint.
 * An offer may lead to a row that is gone.  Who removes a ready task says so
 * (limits_removed), and the next one is offered; should nobody have said so, a
 * claim that comes to such a place, or the worker a second later (limits_tick), has
 * all that was offered taken for lost, and as much offered again.  What is too much
 * comes back when it is met with the group at its limit.
 *
 * Groups that wait stand in lines, by what they wait for: those whose turn has not
 * come in a heap by that, those without a token in a heap by when they have one, and
 * those with offers under way in a list.  So nobody looks through all groups.
 *
 * There is room for so many places (parked_tree.c).  When that is used up, the
 * lowest place that was let go is remembered, and when the group may go on the lanes
 * are read again from there.  What comes then comes at its old place, unless it has
 * to be set aside again.
 *
 * Locking: the lock of an entry, see limit_table.c, guards its places.  The lock of
 * a queue's lines is taken after that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/limit_private.h"
#include "shmem/queue_order.h"
#include "shmem/waiting.h"
#include "shmem/wakeup.h"

/* How often claims look for groups that may go on, in microseconds. */
#define SEEK_USECS		INT64CONST(50000)

/* Places that are offered in one go. */
#define OFFERS			32

/* Groups whose offers are taken for lost in one go. */
#define LOST_AT_ONCE	256

void
set_aside_init(GroupLimit *limit)
{
	parked_places_init(limit);
	limit->offered = 0;
	limit->dropped = false;
	limit->line = NOT_IN_LINE;
	limit->turn_class = 0;
	limit->turn.whole = PG_INT64_MIN;
	limit->turn.fraction = 0;
}

static void
set_waiting(GroupLimit *limit, bool was)
{
	bool		is = limit_waits(limit);

	if (is && !was)
		pg_atomic_fetch_add_u32(&limits_of(limit)->waiting, 1);
	else if (was && !is)
		pg_atomic_fetch_sub_u32(&limits_of(limit)->waiting, 1);
}

/* A place is let go; from the first of those on the lanes will be read again. */
static void
drop_place(GroupLimit *limit, int class, const LaneEntry *entry)
{
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

/* Only the root is shared: the rest of a heap is the code to compare. */
static void
add_to_heap(pairingheap_node **root, pairingheap_comparator compare, GroupLimit *limit)
{
	pairingheap heap = {0};

	heap.ph_compare = compare;
	heap.ph_root = *root;
	pairingheap_add(&heap, &limit->node);
	*root = heap.ph_root;
}

static void
remove_from_heap(pairingheap_node **root, pairingheap_comparator compare, GroupLimit *limit)
{
	pairingheap heap = {0};

	heap.ph_compare = compare;
	heap.ph_root = *root;
	pairingheap_remove(&heap, &limit->node);
	*root = heap.ph_root;
}

/*
 * Have a group stand in a line; token: until when, in LINE_TOKEN.  Entry locked.
 */
static void
stand_in_line(GroupLimit *limit, LimitLine line, TimestampTz token)
{
	QueueLimits *limits = limits_of(limit);

	if (limit->line == line && (line == NOT_IN_LINE || line == LINE_OFFERED))
		return;
	LWLockAcquire(&limits->line_lock, LW_EXCLUSIVE);
	switch ((LimitLine) limit->line)
	{
		case LINE_TURN:
			remove_from_heap(&limits->turns, compare_turns, limit);
			pg_atomic_fetch_sub_u32(&limits->in_turn, 1);
			break;
		case LINE_TOKEN:
			remove_from_heap(&limits->tokens, compare_tokens, limit);
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
			add_to_heap(&limits->turns, compare_turns, limit);
			pg_atomic_fetch_add_u32(&limits->in_turn, 1);
			break;
		case LINE_TOKEN:
			limit->line_token = token;
			add_to_heap(&limits->tokens, compare_tokens, limit);
			break;
		case LINE_OFFERED:
			dlist_push_tail(&limits->offered, &limit->offered_node);
			break;
		case NOT_IN_LINE:
			break;
	}
	limit->line = line;
	pg_atomic_write_u64(&limits->next_token,
						limits->tokens == NULL ? (uint64) DT_NOEND :
						(uint64) pairingheap_container(GroupLimit, node, limits->tokens)->line_token);
	LWLockRelease(&limits->line_lock);
}

/* ----------------------------------------------------------------
 * Offers
 * ----------------------------------------------------------------
 */

/*
 * When is it the turn of a group's first place?  waited: the group has waited for
 * something else.  Returns whether that has come, so that it can be offered; a place
 * that lies ahead of its turn anyway can.  Entry locked.
 */
static bool
next_turn(GroupLimit *limit, QueueState *queue, const ParkedPlace *place, bool waited)
{
	int			class = place->lane->class;
	VirtualTime v = queue_order_virtual_time(&queue->orders[class]);
	VirtualTime start = {place->entry.block, place->entry.fraction};

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
 * The same, and the group takes its turn if it has come, or if that is not waited
 * for: of *forced ones.  Then v goes there.
 */
static bool
take_turn(GroupLimit *limit, QueueState *queue, const ParkedPlace *place,
		  bool waited, int *forced)
{
	/* The other policies have one class, and no virtual time. */
	if (queue->classes == 1)
		return true;
	if (!next_turn(limit, queue, place, waited))
	{
		if (*forced <= 0)
			return false;
		(*forced)--;
		queue_order_advance(&queue->orders[limit->turn_class], limit->turn,
							virtual_time_add(limit->turn, place->charge, 1.0));
	}
	limit->turn = virtual_time_add(limit->turn, place->charge, 1.0);
	return true;
}

/*
 * Offer places of a group to their lanes, the first ones, as many as it may have
 * tasks and up to max, in turn but for forced of them.  Returns how many.  Called
 * without locks, but for that of a group's partition.
 */
static int
offer_places(uint32 number, int max, int forced)
{
	GroupLimit *limit = limits_get(number);
	LWLock	   *lock = limits_lock(number);
	int			offered = 0;
	bool		more = true;

	while (more)
	{
		ParkedPlace offers[OFFERS];
		QueueState *queue;
		LimitLine	line = NOT_IN_LINE;
		TimestampTz token;
		LaneEntry	dropped_from = {0};
		int			dropped_class = -1;
		Lane	   *turn_of = NULL;
		int			n = 0;
		int			may;

		LWLockAcquire(lock, LW_EXCLUSIVE);
		if (!limit->in_use || !limit_waits(limit))
		{
			if (limit->in_use)
				stand_in_line(limit, NOT_IN_LINE, 0);
			LWLockRelease(lock);
			return offered;
		}
		queue = queue_state_by_number(limit->queue);
		may = limits_room(limit, &token);
		if (may < INT_MAX)
			may -= Min(limit->offered, may);
		while (limit->parked > 0 && n < Min(may, max) && n < OFFERS)
		{
			const ParkedPlace *first = parked_places_first(limit);

			if (!take_turn(limit, queue, first,
						   n == 0 && offered == 0 && limit->line != LINE_TURN, &forced))
			{
				line = LINE_TURN;
				if (limit->line != LINE_TURN)
					turn_of = first->lane;
				break;
			}
			offers[n++] = *first;
			parked_places_remove_first(limit);
			limit->offered++;
		}
		max -= n;
		offered += n;
		more = (n == OFFERS && max > 0);
		if (line == NOT_IN_LINE && limit->parked > 0 && n < may && queue->classes > 1)
		{
			/* No more were asked for. */
			(void) next_turn(limit, queue, parked_places_first(limit), false);
			line = LINE_TURN;
			if (limit->line != LINE_TURN)
				turn_of = parked_places_first(limit)->lane;
		}
		if (limit->parked == 0 && limit->dropped && may > n)
		{
			limit->dropped = false;
			dropped_from = limit->dropped_from;
			dropped_class = limit->dropped_class;
		}
		if (!limit_waits(limit))
		{
			pg_atomic_fetch_sub_u32(&queue->limits.waiting, 1);
			limit->offered = 0;
		}
		else if (line == NOT_IN_LINE && limit->offered > 0)
			line = LINE_OFFERED;
		else if (line == NOT_IN_LINE && token != DT_NOEND)
			line = LINE_TOKEN;
		if (!more)
			stand_in_line(limit, line, token);
		LWLockRelease(lock);

		for (int i = 0; i < n; i++)
			lanes_offer_entry(offers[i].lane, &offers[i].entry);

		/* Nobody will come to it if all claimers are asleep: they may have it. */
		if (turn_of != NULL)
			waiting_lowered(turn_of->queue, turn_of->bucket);
		if (line == LINE_TOKEN && !more)
			wakeup_at(queue->database, token);

		/* Of the classes behind it is not known where they have to be read. */
		for (int class = dropped_class; class >= 0 && class < queue->classes; class++)
		{
			Lane	   *lane;

			for (int b = 0; (lane = lanes_next(&queue->orders[class].lanes, &b)) != NULL; b++)
			{
				FairqAddress address;

				lanes_entry_address(lane, &dropped_from, &address);
				lanes_lower(lane, class == dropped_class ? &address : NULL);
			}
			/* Nor where the overflow has. */
			queue_order_overflow_lost(queue, class, PG_INT64_MIN);
		}
	}
	return offered;
}

/*
 * A group may go on, or may not, or waits for something else: so many of its places
 * are offered as may be, and it stands in line for the next one.  Returns how many.
 */
int
set_aside_go_on(uint32 number)
{
	return offer_places(number, INT_MAX, 0);
}

/*
 * Let go of all places.  Entry locked.
 */
void
set_aside_clear(GroupLimit *limit)
{
	bool		was = limit_waits(limit);

	while (limit->parked > 0)
		parked_places_remove_first(limit);
	limit->dropped = false;
	limit->offered = 0;
	set_waiting(limit, was);
	stand_in_line(limit, NOT_IN_LINE, 0);
}

/*
 * Is a place set aside that comes before this one?  Entry locked.
 */
bool
set_aside_before(const GroupLimit *limit, const FairqAddress *address)
{
	const ParkedPlace *first = parked_places_first(limit);

	return first != NULL && parked_places_compare(address, first) > 0;
}

/*
 * A task of a group that has places set aside is taken, before all of them: perhaps
 * one that was offered, or the first one (limits_note).  Entry locked.
 */
void
set_aside_taken(GroupLimit *limit, const FairqAddress *address)
{
	(void) parked_places_remove(limit, address);
	set_waiting(limit, true);
	if (limit->offered > 0)
		limit->offered--;
}

/*
 * A ready task of the group was removed: its place is let go, if it is set aside.
 * If it was in a lane already the next one is offered.
 */
void
limits_removed(uint32 number, const FairqAddress *address)
{
	GroupLimit *limit = limits_get(number);
	bool		waits;

	LWLockAcquire(limits_lock(number), LW_EXCLUSIVE);
	waits = limit_waits(limit);
	if (waits && !parked_places_remove(limit, address) && limit->offered > 0)
		limit->offered--;
	set_waiting(limit, waits);
	LWLockRelease(limits_lock(number));
	if (waits)
		(void) set_aside_go_on(number);
}

/*
 * The group's ready tasks were removed, or most of them.  What is set aside is of
 * no use; should some be left, the lanes are read again from the first place on.
 */
void
limits_purged(uint32 number)
{
	GroupLimit *limit = limits_get(number);

	LWLockAcquire(limits_lock(number), LW_EXCLUSIVE);
	if (limit->parked > 0)
	{
		ParkedPlace first = *parked_places_first(limit);

		while (limit->parked > 0)
			parked_places_remove_first(limit);
		drop_place(limit, first.lane->class, &first.entry);
	}
	limit->offered = 0;
	LWLockRelease(limits_lock(number));
	(void) set_aside_go_on(number);
}

static bool
set_aside(uint32 number, Lane *lane, const LaneEntry *entry, double charge, bool if_none)
{
	GroupLimit *limit = limits_get(number);
	FairqAddress address;
	TimestampTz token;
	bool		before;
	bool		was;

	lanes_entry_address(lane, entry, &address);
	LWLockAcquire(limits_lock(number), LW_EXCLUSIVE);
	before = set_aside_before(limit, &address);
	if (!before && limits_room(limit, &token) > 0)
	{
		LWLockRelease(limits_lock(number));
		return false;
	}
	was = limit_waits(limit);

	/* What was offered comes before all that is set aside, and has come back. */
	if (!before && limit->offered > 0)
		limit->offered--;
	if (!(if_none && was) && !parked_places_add(limit, lane, entry, charge))
		drop_place(limit, lane->class, entry);
	set_waiting(limit, was);
	LWLockRelease(limits_lock(number));
	(void) set_aside_go_on(number);
	return true;
}

/*
 * Set a place of the group aside, of a task that is charged so much.  Returns false
 * if the group may have the task by now.
 */
bool
limits_park(uint32 number, Lane *lane, const LaneEntry *entry, double charge)
{
	return set_aside(number, lane, entry, charge, false);
}

/*
 * The same for who reads the index and takes nothing out of lanes: a place is set
 * aside if none of the group is, so that the group goes on with an offer and who
 * waits for it is told.
 */
bool
limits_note(uint32 number, Lane *lane, const LaneEntry *entry, double charge)
{
	return set_aside(number, lane, entry, charge, true);
}

/*
 * Is anything of the group set aside?
 */
bool
limits_waits(uint32 number)
{
	bool		result;

	LWLockAcquire(limits_lock(number), LW_SHARED);
	result = limit_waits(limits_get(number));
	LWLockRelease(limits_lock(number));
	return result;
}

/*
 * How many tasks of the group that come before an address are set aside, up to
 * max.  *all is set to false if there may be more.
 */
int
limits_before(uint32 number, const FairqAddress *address, int max, bool *all)
{
	GroupLimit *limit = limits_get(number);
	int			result;

	LWLockAcquire(limits_lock(number), LW_SHARED);
	result = parked_places_before(limit, address, max);
	if (result >= max || limit->dropped)
		*all = false;
	LWLockRelease(limits_lock(number));
	return result;
}

/*
 * Is the task of the group that has this address set aside?
 */
bool
limits_set_aside(uint32 number, const FairqAddress *address)
{
	bool		result;

	LWLockAcquire(limits_lock(number), LW_SHARED);
	result = parked_places_there(limits_get(number), address);
	LWLockRelease(limits_lock(number));
	return result;
}

/*
 * Is a task of the overflow of the group set aside?  Its places are read once.
 */
bool
limits_is_set_aside(uint32 number, OfferedTasks *aside, int64 task)
{
	GroupLimit *limit = limits_get(number);

	if (!aside->known)
	{
		int			size = ((volatile GroupLimit *) limit)->parked + OFFERS;

		aside->known = true;
		aside->tasks = palloc(size * sizeof(int64));
		LWLockAcquire(limits_lock(number), LW_SHARED);
		aside->n = parked_places_tasks(limit, aside->tasks, size);
		LWLockRelease(limits_lock(number));
		qsort(aside->tasks, aside->n, sizeof(int64), lanes_compare_tasks);
	}
	return aside->n > 0 &&
		bsearch(&task, aside->tasks, aside->n, sizeof(int64), lanes_compare_tasks) != NULL;
}

/* ----------------------------------------------------------------
 * For claims and the worker
 * ----------------------------------------------------------------
 */

/*
 * Offer places in a class whose turn comes next, up to max: those that are not after
 * upto, where the first task in the lanes is; NULL: there is none.  Returns how many
 * were offered.
 *
 * Not more than the claim asks for: v goes with them, and what has had its turn last
 * may have the next one before they are claimed.
 */
int
limits_turns(QueueLimits *limits, int class, const VirtualTime *upto, int max)
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
		offered += offer_places(limits_number(limit), 1, 1);
	}
	return offered;
}

/*
 * What a group was offered before is taken for lost, and it is offered up to max
 * places, in turn but for forced of them.  Returns how many.
 */
static int
offer_anew(uint32 number, int max, int forced)
{
	LWLockAcquire(limits_lock(number), LW_EXCLUSIVE);
	limits_get(number)->offered = 0;
	LWLockRelease(limits_lock(number));
	return offer_places(number, max, forced);
}

/*
 * Offer up to n places of a group whether its turn has come or not: to who asks for
 * this group.  What was offered before may be taken or not.  Returns how many.
 */
int
limits_release(uint32 number, int n)
{
	return offer_anew(number, n, n);
}

/*
 * Let the groups of a queue go on that may: those with tokens again, and (should an
 * offer have gone astray) those that were offered something.  Returns when to look
 * again, and sets *offers (if it is not NULL) to how many places were offered.
 */
TimestampTz
limits_tick(QueueLimits *limits, TimestampTz now, int *offers)
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
		offered += set_aside_go_on(limits_number(limit));
	}

	LWLockAcquire(&limits->line_lock, LW_EXCLUSIVE);
	while (n < LOST_AT_ONCE && !dlist_is_empty(&limits->offered))
	{
		GroupLimit *limit = dlist_container(GroupLimit, offered_node,
											dlist_head_node(&limits->offered));

		/* All of them in turn, if there are more. */
		if (n > 0 && limits_number(limit) == lost[0])
			break;
		dlist_delete(&limit->offered_node);
		dlist_push_tail(&limits->offered, &limit->offered_node);
		lost[n++] = limits_number(limit);
	}
	LWLockRelease(&limits->line_lock);
	for (int i = 0; i < n; i++)
		offered += offer_anew(lost[i], INT_MAX, 0);
	if (offers != NULL)
		*offers = offered;
	return wakeup_earlier((TimestampTz) pg_atomic_read_u64(&limits->next_token),
						  now + USECS_PER_SEC);
}

/*
 * The same for a claim that has come up short, if that has not been done for a
 * while.  Returns whether it was.
 */
bool
limits_seek(QueueLimits *limits, TimestampTz now)
{
	uint64		sought;

	if (pg_atomic_read_u32(&limits->waiting) == 0)
		return false;
	sought = pg_atomic_read_u64(&limits->sought);
	if (wall_clock_ahead((TimestampTz) sought + SEEK_USECS, now, SEEK_USECS) ||
		!pg_atomic_compare_exchange_u64(&limits->sought, &sought, (uint64) now))
		return false;
	(void) limits_tick(limits, now, NULL);
	return true;
}

/*
 * The lanes of a queue are read anew: what is set aside will be found again.
 */
void
limits_forget_parked(int queue)
{
	uint32		n = limits_high_water();

	for (uint32 i = 0; i < n; i++)
	{
		GroupLimit *limit = limits_get(i);

		if (!limit->in_use || limit->queue != queue)
			continue;
		LWLockAcquire(limits_lock(i), LW_EXCLUSIVE);
		if (limit->in_use && limit->queue == queue)
			set_aside_clear(limit);
		LWLockRelease(limits_lock(i));
	}
}
