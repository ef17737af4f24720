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
 * whoever made them so, at the end of the transaction (handover.c): offered.
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
 * The overflow.  A task that waits for room has no address, so no index has its
 * place; it gets one here, when it is about to be its turn (promote.c), and its
 * entry says which task it is.  Such an entry stays in the window until it is
 * taken, also from the frontier on; there it is not yet to be taken.  A window gets
 * them up to half of its size, so that there is room for others, and three quarters
 * where a claim gives them that has used up a group's.  More may come back from claimers.  When it is full of them one is dropped, and the overflow is
 * read again from that task on (queue_state_overflow_lost).  Who has taken one gives
 * it back, leases the task, or knows that there is no such task any more: for want
 * of an index, it would not be found again.
 *
 * Who waits for tasks (waiting.c) is told here, of each offer and of each frontier
 * that is lowered, so whatever makes tasks claimable comes by.
 *
 * Locking: lane->lock guards a lane and is held for a copy within memory at
 * most.  The directory lock guards which lanes are in use.  Which are whose is in
 * sets (LaneSet), which their owner guards and everybody reads without a lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "lanes.h"
#include "queue_state.h"
#include "settings.h"
#include "shared_state.h"
#include "waiting.h"
#include "wakeup.h"

typedef struct LaneDirectory
{
	LWLock		lock;
	int			high_water;		/* lanes at and beyond were never used */
	int			in_use;			/* lanes that are */
} LaneDirectory;

static LaneDirectory *directory = NULL;
static Lane *lanes = NULL;

/* The lane that this backend is refilling, to be let go if that fails. */
static Lane *refilling = NULL;

#define LANES_OFFSET	CACHELINEALIGN(sizeof(LaneDirectory))

Size
lanes_shmem_size(void)
{
	return add_size(LANES_OFFSET, mul_size(settings_max_lanes, sizeof(Lane)));
}

void
lanes_shmem_init(void *area, bool found)
{
	directory = area;
	lanes = (Lane *) ((char *) area + LANES_OFFSET);
	if (found)
		return;
	LWLockInitialize(&directory->lock,
					 shared_state_tranche(FAIRQ_TRANCHE_LANE));
	directory->high_water = 0;
	directory->in_use = 0;
}

/*
 * The smallest place of all: the frontier of a lane of which nothing is known.
 */
static void
set_to_start(LaneEntry *entry)
{
	entry->block = PG_INT64_MIN;
	entry->fraction = 0;
	entry->slot = 0;
	ItemPointerSet(&entry->tid, 0, 0);
}

/* And one after all others: no index has to be read from there on. */
static void
set_to_end(LaneEntry *entry)
{
	entry->block = PG_INT64_MAX;
	entry->fraction = PG_UINT32_MAX;
	entry->slot = PG_UINT64_MAX;
	ItemPointerSet(&entry->tid, 0, 0);
}

/* Give bucket its lane, the first free one from *at on.  Directory locked. */
static void
set_up_lane(LaneSet *set, int bucket, int *at)
{
	Lane	   *lane;

	while (*at < directory->high_water && lanes[*at].in_use)
		(*at)++;
	lane = &lanes[*at];
	memset(lane, 0, offsetof(Lane, entries));
	LWLockInitialize(&lane->lock, shared_state_tranche(FAIRQ_TRANCHE_LANE));
	ConditionVariableInit(&lane->refilled);
	lane->queue = set->queue;
	lane->bucket = bucket;
	lane->class = set->class;
	set_to_start(&lane->frontier);
	lane->in_use = true;
	directory->in_use++;
	directory->high_water = Max(directory->high_water, *at + 1);

	/* Others find it as soon as this is written, without a lock. */
	pg_write_barrier();
	((volatile LaneSet *) set)->lanes[bucket] = *at + 1;
	pg_write_barrier();
	if (set->high <= bucket)
		((volatile LaneSet *) set)->high = bucket + 1;
}

/*
 * See that in n sets the buckets 0 .. buckets - 1, and other (-1: none), have
 * lanes: all of them or, if there are too few left, none that has not one yet.
 * Returns false then; *missing is how many it would have taken.  The caller has
 * a lock that lets nobody else change the sets.
 *
 * A new lane knows nothing: its frontier is at the start, and whatever is there
 * already is found by reading the index.  So lanes can be added at any time.
 */
bool
lanes_set_up(LaneSet *const *sets, int n, int buckets, int other, int *missing)
{
	bool		room;
	int			at = 0;

	*missing = 0;
	for (int i = 0; i < n; i++)
	{
		for (int b = 0; b < buckets; b++)
			*missing += (sets[i]->lanes[b] == 0);
		*missing += (other >= buckets && sets[i]->lanes[other] == 0);
	}

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	room = (*missing <= settings_max_lanes - directory->in_use);
	for (int i = 0; room && i < n; i++)
	{
		for (int b = 0; b < buckets; b++)
		{
			if (sets[i]->lanes[b] == 0)
				set_up_lane(sets[i], b, &at);
		}
		if (other >= buckets && sets[i]->lanes[other] == 0)
			set_up_lane(sets[i], other, &at);
	}
	LWLockRelease(&directory->lock);
	return room;
}

/*
 * Give the lanes of a set back.  Nobody uses them any more.
 */
void
lanes_give_back(LaneSet *set)
{
	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	for (int b = 0; b < set->high; b++)
	{
		if (set->lanes[b] == 0)
			continue;
		lanes[set->lanes[b] - 1].in_use = false;
		directory->in_use--;
	}
	LWLockRelease(&directory->lock);
	memset(set->lanes, 0, sizeof(set->lanes));
	set->high = 0;
}

Lane *
lanes_get(int number)
{
	Assert(number >= 0 && number < settings_max_lanes);
	return &lanes[number];
}

/*
 * The index in entries[] of the first entry not before place.  Lane locked.
 */
static int
lower_bound(const Lane *lane, const LaneEntry *place)
{
	int			low = lane->head;
	int			high = lane->head + lane->count;

	/* What comes to a busy queue mostly belongs at its end. */
	if (low == high || lanes_compare(&lane->entries[high - 1], place) < 0)
		return high;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (lanes_compare(&lane->entries[middle], place) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A task of the overflow has lost its place.  Lane locked. */
static void
lose(Lane *lane, int64 task)
{
	queue_state_overflow_lost(queue_state_by_number(lane->queue), lane->class, task);
}

/*
 * Let the window end before place, but for tasks of the overflow.  Lane locked
 * exclusively.
 */
static void
drop_from(Lane *lane, const LaneEntry *place)
{
	int			from = lower_bound(lane, place);
	int			kept = from;

	for (int i = from; lane->offered > 0 && i < lane->head + lane->count; i++)
	{
		if (lanes_entry_task(&lane->entries[i]) != 0)
			lane->entries[kept++] = lane->entries[i];
	}
	lane->count = kept - lane->head;
}

/*
 * The same, and the frontier be there at the most.  Lane locked exclusively.
 */
static void
cut(Lane *lane, const LaneEntry *place)
{
	drop_from(lane, place);
	if (lane->complete || lanes_compare(place, &lane->frontier) < 0)
	{
		lane->complete = false;
		lane->frontier = *place;
	}
	if (lane->refilling &&
		(!lane->limited || lanes_compare(place, &lane->limit) < 0))
	{
		lane->limited = true;
		lane->limit = *place;
	}
}

/*
 * A window is full: make room in it for a place.  Returns false if that is the one
 * to be dropped.  Lane locked exclusively.
 */
static bool
make_room(Lane *lane, const LaneEntry *place)
{
	int			at = lane->head + lane->count - 1;
	bool		overflow = (lanes_entry_task(place) != 0);
	LaneEntry	last = lane->entries[at];

	if (lane->offered == lane->count)
	{
		if (overflow && lanes_compare(place, &last) > 0)
		{
			lose(lane, lanes_entry_task(place));
			return false;
		}
		lose(lane, lanes_entry_task(&last));
		lane->offered--;
		lane->count--;
		return true;
	}

	while (lanes_entry_task(&lane->entries[at]) != 0)
		at--;
	last = lane->entries[at];
	if (!overflow && lanes_compare(place, &last) > 0)
		last = *place;

	/*
	 * All of its address, for an offer may name a heap-only tuple, whose TID is
	 * not the one in the index.
	 */
	ItemPointerSet(&last.tid, 0, 0);
	cut(lane, &last);
	return overflow || lanes_compare(place, &last) < 0;
}

/*
 * Enter a place into the window.  Lane locked exclusively.
 */
static void
enter(Lane *lane, const LaneEntry *place)
{
	int			at;
	int			end;

	if (lane->count == LANE_WINDOW && !make_room(lane, place))
		return;

	/* Taking from the front makes room there: move it to the end, all at once. */
	if (lane->head > 0 && lane->head + lane->count == LANE_WINDOW)
	{
		memmove(lane->entries, &lane->entries[lane->head],
				lane->count * sizeof(LaneEntry));
		lane->head = 0;
	}

	at = lower_bound(lane, place);
	end = lane->head + lane->count;
	if (at < end && lanes_compare(&lane->entries[at], place) == 0)
	{
		int64		task = lanes_entry_task(&lane->entries[at]);

		/* TIDs are used again: of two tasks at most one can be there. */
		if (task != lanes_entry_task(place) && task != 0)
			lose(lane, task);
		if (task != lanes_entry_task(place) && lanes_entry_task(place) != 0)
			lose(lane, lanes_entry_task(place));
		if (task != 0 && lanes_entry_task(place) == 0)
		{
			lane->entries[at] = *place;
			lane->offered--;
		}
		return;
	}
	if (lane->head > 0 && at - lane->head < end - at)
	{
		memmove(&lane->entries[lane->head - 1], &lane->entries[lane->head],
				(at - lane->head) * sizeof(LaneEntry));
		lane->head--;
		at--;
	}
	else
		memmove(&lane->entries[at + 1], &lane->entries[at],
				(end - at) * sizeof(LaneEntry));
	lane->entries[at] = *place;
	lane->count++;
	lane->offered += (lanes_entry_task(place) != 0);
}

/* Does a place belong into the window, by the frontier?  Lane locked. */
static bool
belongs(const Lane *lane, const LaneEntry *place)
{
	LaneEntry	first_of_address = *place;

	ItemPointerSet(&first_of_address.tid, 0, 0);
	return lane->complete || lanes_compare(&first_of_address, &lane->frontier) < 0;
}

/*
 * A row that may be claimed: its inserter has committed, or its claimer or
 * deleter has given it back.  group: whose task it is (waiting_group), if that is
 * known.  Never fails: called at the end of transactions.
 *
 * Who waits for one is told when the lane's lock was taken and let go, so that
 * the row is seen by whoever joined those who wait too late to be told.
 */
void
lanes_offer_of_group(Lane *lane, const LaneEntry *place, uint16 group)
{
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	if (lane->refilling || lanes_entry_task(place) != 0 || belongs(lane, place))
		enter(lane, place);
	LWLockRelease(&lane->lock);
	waiting_offered(lane->queue, lane->bucket, group);
}

/*
 * The same if it is not.
 */
void
lanes_offer(Lane *lane, const FairqAddress *address, const ItemPointerData *tid)
{
	LaneEntry	place;

	lanes_entry(&place, address, tid);
	lanes_offer_entry(lane, &place);
}

/*
 * The same by its place, which may be of a task of the overflow.
 */
void
lanes_offer_entry(Lane *lane, const LaneEntry *place)
{
	lanes_offer_of_group(lane, place, WAITING_ANY_GROUP);
}

/*
 * A task of the overflow gets a place, or one that is claimed next (urgent).  Returns
 * false if there is no room for it here.
 */
bool
lanes_offer_overflow(Lane *lane, const LaneEntry *place, uint16 group, bool urgent)
{
	bool		room;

	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	room = (lane->offered < (urgent ? LANE_WINDOW * 3 / 4 : LANE_WINDOW / 2));
	if (room)
		enter(lane, place);
	LWLockRelease(&lane->lock);
	if (room)
		waiting_offered(lane->queue, lane->bucket, group);
	return room;
}

/*
 * Which of two tasks has the lower id: for qsort.
 */
int
lanes_compare_tasks(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

static void
read_offered(const LaneSet *set, OfferedTasks *offered)
{
	Lane	   *lane;
	int			size = 0;

	for (int b = 0; (lane = lanes_next(set, &b)) != NULL; b++)
	{
		if (((volatile Lane *) lane)->offered == 0)
			continue;
		if (offered->n + LANE_WINDOW > size)
		{
			size = 2 * size + LANE_WINDOW;
			offered->tasks = (offered->tasks == NULL) ? palloc(size * sizeof(int64)) :
				repalloc(offered->tasks, size * sizeof(int64));
		}
		LWLockAcquire(&lane->lock, LW_SHARED);
		for (int i = lane->head; i < lane->head + lane->count; i++)
		{
			int64		task = lanes_entry_task(&lane->entries[i]);

			if (task != 0)
				offered->tasks[offered->n++] = task;
		}
		LWLockRelease(&lane->lock);
	}
	if (offered->n > 1)
		qsort(offered->tasks, offered->n, sizeof(int64), lanes_compare_tasks);
	offered->known = true;
}

/*
 * Has a task of the overflow a place in one of the lanes?  They are read once.
 */
bool
lanes_is_offered(const LaneSet *set, OfferedTasks *offered, int64 task)
{
	if (!offered->known)
		read_offered(set, offered);
	return offered->n > 0 &&
		bsearch(&task, offered->tasks, offered->n, sizeof(int64), lanes_compare_tasks) != NULL;
}

/*
 * A task of the overflow is no more: who leaves a lane as it is takes its place out.
 */
void
lanes_forget(Lane *lane, const LaneEntry *place)
{
	int			at;
	int			end;

	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	at = lower_bound(lane, place);
	end = lane->head + lane->count;
	if (at < end && lanes_compare(&lane->entries[at], place) == 0 &&
		lanes_entry_task(&lane->entries[at]) == lanes_entry_task(place))
	{
		memmove(&lane->entries[at], &lane->entries[at + 1],
				(end - at - 1) * sizeof(LaneEntry));
		lane->count--;
		lane->offered--;
	}
	LWLockRelease(&lane->lock);
}

/*
 * There may be claimable rows from address on that nobody can name (NULL:
 * anywhere): have the index read again from there.
 */
void
lanes_lower(Lane *lane, const FairqAddress *address)
{
	LaneEntry	place;

	set_to_start(&place);
	if (address != NULL)
		lanes_entry(&place, address, &place.tid);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	cut(lane, &place);
	LWLockRelease(&lane->lock);
	waiting_lowered(lane->queue, lane->bucket);
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
	at = lower_bound(lane, &first_of_address);
	if (at < lane->head + lane->count)
	{
		LaneEntry	found = lane->entries[at];

		found.tid = first_of_address.tid;
		result |= (lanes_compare(&found, &first_of_address) == 0);
	}
	LWLockRelease(&lane->lock);
	return result;
}

static void
look(const Lane *lane, LaneTop *top)
{
	top->low = !lane->complete && !lane->refilling &&
		lane->count - lane->offered < LANE_LOW_WATER;
	if (lane->count > 0 &&
		((!lane->refilling && lane->offered == 0) || lane->complete ||
		 lanes_compare(&lane->entries[lane->head], &lane->frontier) < 0))
	{
		top->view = LANE_READY;
		top->first = lane->entries[lane->head];
	}
	else if (lane->complete)
		top->view = LANE_EMPTY;
	else
	{
		top->view = lane->refilling ? LANE_REFILLING : LANE_UNREAD;
		top->first = lane->frontier;
	}
}

/*
 * What is next in a lane.  Without the lock, as a claimer looks at all lanes before it
 * takes from one.  For claimers only; who acts on what he sees looks with the lock.
 *
 * Races: entries move while one is copied, so that first may be a mixture of two, or an
 * entry that somebody has taken; and lanes_refill_end() says that a lane is complete
 * before it has entered what was read, so that one with tasks may look empty.  Both are
 * harmless to a claimer:
 *
 *	 What it takes, and up to where, lanes_take() compares with the lock.  A first that
 *	 is too far along, or a lane that looks empty, has it take later entries of other
 *	 lanes before: take_overtaken() looks again, and what that does not see either is
 *	 in the order of a claimer that came just before.
 *	 A first that is not far enough along costs a turn: what comes back with the lock
 *	 (lanes_take, lanes_refill_begin) takes its place.
 *	 Before it says that there is nothing it looks at all with the lock (looked_twice).
 *	 With all that it wants in hand it may think that no lane has more, and end the
 *	 busy period (queue_state_idle): then whoever comes next starts at the finish of
 *	 the task served last, and not at its start.
 *	 turns_before() may let a group have its turn too early, or not yet: then it has it
 *	 when nothing else is taken.
 */
void
lanes_look(const Lane *lane, LaneTop *top)
{
	int			head = ((volatile const Lane *) lane)->head;

	if (head >= LANE_WINDOW)
		head = LANE_WINDOW - 1;
	top->low = false;
	if (((volatile const Lane *) lane)->count > 0 &&
		(likely(lane->offered == 0) || lane->complete ||
		 lanes_compare(&lane->entries[head], &lane->frontier) < 0))
	{
		top->view = LANE_READY;
		top->first = lane->entries[head];
	}
	else if (((volatile const Lane *) lane)->complete)
		top->view = LANE_EMPTY;
	else
	{
		top->view = lane->refilling ? LANE_REFILLING : LANE_UNREAD;
		top->first = lane->frontier;
	}
}

/*
 * The same with the lock, for who is about to say that there is nothing.
 */
void
lanes_look_locked(Lane *lane, LaneTop *top)
{
	LWLockAcquire(&lane->lock, LW_SHARED);
	look(lane, top);
	LWLockRelease(&lane->lock);
}

/*
 * Take up to max entries from the front of the window, but none that comes after
 * upto (NULL: any), and say what is next.  Returns how many; -1 if nowait and
 * another claimer has the lane locked.  (Somebody else is waited for: he has an
 * entry to make, or to take out, and who passes by finds later ones.)
 */
int
lanes_take(Lane *lane, int max, const LaneEntry *upto, LaneEntry *entries,
		   LaneTop *top, bool nowait)
{
	int			n;

	if (!nowait)
		LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	else if (!LWLockConditionalAcquire(&lane->lock, LW_EXCLUSIVE))
	{
		if (((volatile Lane *) lane)->taking)
			return -1;
		LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	}
	lane->taking = true;
	n = Min(max, lane->count);
	if ((lane->refilling || lane->offered > 0) && !lane->complete)
		n = Min(n, lower_bound(lane, &lane->frontier) - lane->head);
	for (int i = 0; upto != NULL && i < n; i++)
	{
		if (lanes_compare(&lane->entries[lane->head + i], upto) > 0)
			n = i;
	}
	memcpy(entries, &lane->entries[lane->head], n * sizeof(LaneEntry));
	for (int i = 0; lane->offered > 0 && i < n; i++)
		lane->offered -= (lanes_entry_task(&entries[i]) != 0);
	lane->count -= n;
	lane->head = (lane->count == 0) ? 0 : lane->head + n;
	look(lane, top);
	lane->taking = false;
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * Copy the window up to the frontier, for those who only look.  Returns the number
 * of entries; entries has room for LANE_WINDOW.
 */
int
lanes_copy_window(Lane *lane, LaneEntry *entries, FairqAddress *frontier,
				  bool *complete)
{
	int			n;

	LWLockAcquire(&lane->lock, LW_SHARED);
	n = lane->complete ? lane->count : lower_bound(lane, &lane->frontier) - lane->head;
	memcpy(entries, &lane->entries[lane->head], n * sizeof(LaneEntry));
	lanes_entry_address(lane, &lane->frontier, frontier);
	*complete = lane->complete;
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * The place of a task of the overflow.  Returns false if it has none in the lanes.
 */
bool
lanes_find_offered(const LaneSet *set, int64 task, FairqAddress *address)
{
	Lane	   *lane;
	bool		found = false;

	for (int b = 0; !found && (lane = lanes_next(set, &b)) != NULL; b++)
	{
		if (((volatile Lane *) lane)->offered == 0)
			continue;
		LWLockAcquire(&lane->lock, LW_SHARED);
		for (int i = lane->head; i < lane->head + lane->count && !found; i++)
		{
			found = (lanes_entry_task(&lane->entries[i]) == task);
			if (found)
				lanes_entry_address(lane, &lane->entries[i], address);
		}
		LWLockRelease(&lane->lock);
	}
	return found;
}

/*
 * Copy what is of the overflow in the window, from a place on (NULL: from the start)
 * and before another (NULL: to the end).  Returns the number of entries; entries has
 * room for LANE_WINDOW.
 */
int
lanes_copy_offered(Lane *lane, const LaneEntry *from, const LaneEntry *before,
				   LaneEntry *entries)
{
	int			n = 0;

	if (((volatile Lane *) lane)->offered == 0)
		return 0;
	LWLockAcquire(&lane->lock, LW_SHARED);
	for (int i = from ? lower_bound(lane, from) : lane->head;
		 i < lane->head + lane->count; i++)
	{
		if (lanes_entry_task(&lane->entries[i]) != 0 &&
			(before == NULL || lanes_compare(&lane->entries[i], before) < 0))
			entries[n++] = lane->entries[i];
	}
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * Begin to read the index of a lane.  Returns false if there is nothing to
 * read or somebody else is reading.  Else the caller reads up to *room + 1
 * entries from *from on, and calls lanes_refill_end.
 */
bool
lanes_refill_begin(Lane *lane, LaneEntry *from, int *room)
{
	bool		begun = false;

	Assert(refilling == NULL);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	if (!lane->complete && !lane->refilling && lane->count == LANE_WINDOW &&
		lanes_compare(&lane->entries[lane->head], &lane->frontier) >= 0)
	{
		/* There is no room for what comes first: the last one goes. */
		LaneEntry	last = lane->entries[lane->head + lane->count - 1];

		if (lanes_entry_task(&last) != 0)
		{
			lose(lane, lanes_entry_task(&last));
			lane->offered--;
			lane->count--;
		}
		else
		{
			/* As in make_room. */
			ItemPointerSet(&last.tid, 0, 0);
			cut(lane, &last);
		}
	}
	if (!lane->complete && !lane->refilling && lane->count < LANE_WINDOW)
	{
		lane->refilling = true;
		lane->limited = false;
		*from = lane->frontier;
		*room = LANE_WINDOW - lane->count;
		begun = true;
		refilling = lane;
	}
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
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	lane->refilling = false;
	lane->complete = (next == NULL);
	if (next != NULL)
	{
		LaneEntry	last_of_address = *next;

		/* Prune what was entered meanwhile beyond it; an address stays whole. */
		ItemPointerSet(&last_of_address.tid, MaxBlockNumber, PG_UINT16_MAX);
		lane->frontier = *next;
		drop_from(lane, &last_of_address);
	}
	if (lane->limited)
		cut(lane, &lane->limit);
	for (int i = 0; i < n; i++)
	{
		/* A full window moves the frontier, and there is no need to go on. */
		if (!lane->complete &&
			lanes_compare(&entries[i], &lane->frontier) >= 0)
			break;
		enter(lane, &entries[i]);
	}
	LWLockRelease(&lane->lock);
	refilling = NULL;
	ConditionVariableBroadcast(&lane->refilled);
}

/*
 * Wait until the refill under way has ended.
 */
void
lanes_refill_wait(Lane *lane)
{
	ConditionVariablePrepareToSleep(&lane->refilled);
	for (;;)
	{
		bool		under_way;

		LWLockAcquire(&lane->lock, LW_SHARED);
		under_way = lane->refilling;
		LWLockRelease(&lane->lock);
		if (!under_way)
			break;
		ConditionVariableSleep(&lane->refilled, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/*
 * The transaction failed: if it did so in a refill, nothing was read.
 */
void
lanes_at_abort(void)
{
	Lane	   *lane = refilling;

	if (lane == NULL)
		return;
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	lane->refilling = false;
	/* What was entered from the frontier on is in the index anyway. */
	if (!lane->complete)
		cut(lane, &lane->frontier);
	LWLockRelease(&lane->lock);
	refilling = NULL;
	ConditionVariableBroadcast(&lane->refilled);
}

/*
 * A row in a place is in doubt: it is in the hands of a transaction (invalid:
 * of some) that will not say so when it ends.  Of several rows of one
 * transaction the first is remembered.  counted: it is prepared, and what it does was
 * counted, so that somebody has to count anew if it is rolled back.
 */
void
lanes_doubt(Lane *lane, TransactionId xid, const LaneEntry *place, bool counted)
{
	LaneEntry	first = *place;
	LaneDoubt  *doubt = NULL;
	int64		task = lanes_entry_task(place);

	/* No index has the place of a task of the overflow. */
	if (task != 0)
		set_to_end(&first);
	ItemPointerSet(&first.tid, 0, 0);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	for (int i = 0; i < lane->doubt_count && doubt == NULL; i++)
	{
		if (lane->doubts[i].xid == xid)
			doubt = &lane->doubts[i];
	}
	if (doubt == NULL && lane->doubt_count < LANE_DOUBTS)
	{
		doubt = &lane->doubts[lane->doubt_count++];
		doubt->xid = xid;
		doubt->place = first;
		doubt->task = 0;
		doubt->counted = false;
	}
	else if (doubt == NULL)
	{
		/*
		 * One too many: from now on it is looked at again each time.  Whether either
		 * is rolled back nobody will know, so what was counted is counted anew: when
		 * both have ended, for until then they keep their locks on the table
		 * (recovery_recount).
		 */
		doubt = &lane->doubts[LANE_DOUBTS - 1];
		if (counted || doubt->counted)
			queue_state_recount(queue_state_by_number(lane->queue));
		doubt->xid = InvalidTransactionId;
	}
	doubt->counted = TransactionIdIsValid(doubt->xid) && (counted || doubt->counted);
	if (lanes_compare(&first, &doubt->place) < 0)
		doubt->place = first;
	if (task != 0 && (doubt->task == 0 || task < doubt->task))
		doubt->task = task;
	LWLockRelease(&lane->lock);

	/* Claims look after it, but perhaps all claimers are asleep. */
	wakeup_at(queue_state_by_number(lane->queue)->database,
			  GetCurrentTimestamp() + LANE_DOUBT_USECS);
}

/*
 * The same of a transaction that has changed what is counted, and perhaps no row with
 * a place: in the first lane.  Returns false if there is none.
 */
bool
lanes_doubt_transaction(const LaneSet *set, TransactionId xid)
{
	int			bucket = 0;
	Lane	   *lane = lanes_next(set, &bucket);
	LaneEntry	end = {0};

	set_to_end(&end);
	if (lane != NULL)
		lanes_doubt(lane, xid, &end, true);
	return lane != NULL;
}

/*
 * Copy the doubts of a lane.  Returns how many.
 */
int
lanes_doubts(Lane *lane, LaneDoubt *doubts)
{
	int			n;

	/* Without the lock: hardly ever is there any. */
	if (((volatile Lane *) lane)->doubt_count == 0)
		return 0;
	LWLockAcquire(&lane->lock, LW_SHARED);
	n = lane->doubt_count;
	memcpy(doubts, lane->doubts, n * sizeof(LaneDoubt));
	LWLockRelease(&lane->lock);
	return n;
}

/*
 * The transaction of a doubt has ended, or may have: look at the row again.
 */
void
lanes_resolve(Lane *lane, const LaneDoubt *doubt)
{
	LaneEntry	end;

	set_to_end(&end);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	for (int i = 0; i < lane->doubt_count; i++)
	{
		LaneDoubt  *other = &lane->doubts[i];

		if (other->xid == doubt->xid &&
			lanes_compare(&other->place, &doubt->place) == 0)
		{
			if (other->task != 0)
				lose(lane, other->task);
			lane->doubts[i] = lane->doubts[--lane->doubt_count];
			if (lanes_compare(&doubt->place, &end) < 0)
				cut(lane, &doubt->place);
			break;
		}
	}
	LWLockRelease(&lane->lock);
	waiting_lowered(lane->queue, lane->bucket);
}
