/*-------------------------------------------------------------------------
 *
 * waiter_seats.c
 *	  The lists of those who wait for tasks: a list for each queue.
 *
 * A backend has a seat for each queue that it waits for: one, or, if it waits
 * for any of several, up to WAITERS_SEATS.  A seat is in the list of one
 * queue.  What the backend wants is said once for all of its seats; who wants
 * only some buckets or groups has one seat.
 *
 * Who gives a word tells one seat, which leaves its list.  The other seats of
 * that backend stay in theirs.  So it may be told in several before it has
 * looked, and then perhaps takes one task and passes the other words on.  That
 * is a detour, so a backend that is not awake already goes first.  Whether it
 * is awake is a hint, read without a lock.
 *
 * Locking: the lock of a list guards the list and the seats in it.  It is the
 * last one taken: whoever offers may hold others.  attention, pending and the
 * times are atomic.  A seat is written by others only while it is in a list;
 * that it was told is read by its owner without the lock.  What a backend
 * wants is written by the backend, while none of its seats is in a list.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "shmem/waiter_seats.h"
#include "shmem/worker_slots.h"

#define NO_SEAT			(-1)

/*
 * A backend, and what it wants.  That is written without a lock, but only while
 * none of the backend's seats is in a list: list->choosy goes by it.  awake is
 * set by who tells it, and cleared by the backend itself.
 */
typedef struct Waiter
{
	volatile bool awake;		/* it was told, and has not looked since */
	bool		claims;
	bool		all_buckets;
	int			queue_buckets;	/* others go with these in turn
								 * (claim_private.h) */
	int			group_count;	/* -1: all; above MAX_GROUPS: all may be */
	uint16		groups[MAX_GROUPS];
	uint32		buckets[FAIRQ_MAX_BUCKETS / 32];
} Waiter;

static WaiterList *lists = NULL;
static Waiter *waiters = NULL;
static WaiterSeat *seats = NULL;	/* of each backend, WAITERS_SEATS */

#define LISTS_SIZE		CACHELINEALIGN(mul_size(settings_max_queues, sizeof(WaiterList)))
#define WAITERS_SIZE	CACHELINEALIGN(mul_size(MaxBackends, sizeof(Waiter)))
#define SEATS			mul_size(MaxBackends, WAITERS_SEATS)

/*
 * The memory for a list for each queue that there may be, and for all seats of
 * each backend: so there is always room for who waits (invariant I10).
 */
Size
waiters_shmem_size(void)
{
	return add_size(add_size(LISTS_SIZE, WAITERS_SIZE),
					mul_size(SEATS, sizeof(WaiterSeat)));
}

void
waiters_shmem_init(void *area, bool found)
{
	lists = area;
	waiters = (Waiter *) ((char *) area + LISTS_SIZE);
	seats = (WaiterSeat *) ((char *) waiters + WAITERS_SIZE);
	if (found)
		return;
	for (int i = 0; i < settings_max_queues; i++)
	{
		WaiterList *list = &lists[i];

		LWLockInitialize(&list->lock, shared_memory_tranche(FAIRQ_TRANCHE_WAITER));
		list->first = list->last = NO_SEAT;
		list->turn = 1;
		list->choosy = 0;
		list->database = InvalidOid;
		pg_atomic_init_u32(&list->attention, 0);
		pg_atomic_init_u32(&list->pending, 0);
		pg_atomic_init_u64(&list->notify_after, 0);
		pg_atomic_init_u64(&list->claimed_by, 0);
	}
	for (int i = 0; i < MaxBackends; i++)
		waiters[i].awake = false;
	for (Size i = 0; i < SEATS; i++)
		seats[i].list = NULL;
}

/* The list of a queue by its number, in use or not.  No lock is needed. */
WaiterList *
waiter_seats_list(int queue)
{
	Assert(queue >= 0 && queue < settings_max_queues);
	return &lists[queue];
}

/* And the number of the queue. */
int
waiter_seats_queue(const WaiterList *list)
{
	return (int) (list - lists);
}

/*
 * The number of our backend, by which others find its latch.  Auxiliary
 * processes, which have higher ones, do not wait for tasks.
 */
static int
me(void)
{
	int			number = (int) (MyProc - ProcGlobal->allProcs);

	Assert(number >= 0 && number < MaxBackends);
	return number;
}

/* A seat of our own, by its number among ours. */
WaiterSeat *
waiter_seats_mine(int seat)
{
	Assert(seat >= 0 && seat < WAITERS_SEATS);
	return &seats[me() * WAITERS_SEATS + seat];
}

static Waiter *
owner_of(int seat)
{
	return &waiters[seat / WAITERS_SEATS];
}

/*
 * What tells a group from most others.  Two that are alike cost a look in vain.
 * Of a subgroup it is that of its group, which is what a waiter asks for.  It
 * is never WAITERS_ANY_GROUP.
 */
uint16
waiters_group(const GroupName *name)
{
	uint16		group = (name->subgroup ? name->group_low : name->low) & 0xFFFF;

	return group == WAITERS_ANY_GROUP ? 1 : group;
}

/* ----------------------------------------------------------------
 * Lists
 * ----------------------------------------------------------------
 */

/* Does a backend not want just any task? */
static bool
is_choosy(const Waiter *waiter)
{
	return !waiter->all_buckets || waiter->group_count >= 0;
}

/*
 * Say what we want, which none of our seats is in a list for.  Returns whether
 * that is not just any task.  More groups than a waiter has room for are taken
 * for all: it is told in vain then, and passes the word on.
 */
bool
waiter_seats_want(const WaiterWants *wanted)
{
	Waiter	   *waiter = &waiters[me()];

	Assert(wanted->bucket_count <= FAIRQ_MAX_BUCKETS);
	waiter->claims = wanted->claims;
	waiter->all_buckets = (wanted->bucket_count < 0);
	waiter->queue_buckets = wanted->queue_buckets;
	memset(waiter->buckets, 0, sizeof(waiter->buckets));
	for (int i = 0; i < wanted->bucket_count; i++)
		waiter->buckets[wanted->buckets[i] / 32] |= (uint32) 1 << (wanted->buckets[i] % 32);
	waiter->group_count = wanted->group_count;
	for (int i = 0; i < Min(wanted->group_count, MAX_GROUPS); i++)
	{
		GroupName	name = group_name(wanted->groups[i]);

		waiter->groups[i] = waiters_group(&name);
	}
	return is_choosy(waiter);
}

#ifdef USE_ASSERT_CHECKING

/* So many seats are looked at; if there are no more, they are counted, too. */
#define CHECK_SEATS		64

/* A list is linked both ways, in the order in which its seats have joined. */
static void
check_list(WaiterList *list)
{
	uint32		n = 0;
	int			choosy = 0;
	int			previous = NO_SEAT;
	int			i = list->first;

	AssertLocked(&list->lock);
	for (; i != NO_SEAT && n < CHECK_SEATS; i = seats[i].next)
	{
		Assert(i >= 0 && i < (int) SEATS);
		Assert(seats[i].list == list && seats[i].previous == previous);
		Assert(!seats[i].told);
		Assert(seats[i].turn < list->turn);
		Assert(previous == NO_SEAT || seats[previous].turn < seats[i].turn);
		choosy += is_choosy(owner_of(i));
		previous = i;
		n++;
	}
	if (i != NO_SEAT)
		return;
	Assert(list->last == previous);
	Assert(list->choosy == choosy);
	Assert(waiter_seats_count(list) == n);
}

#else
#define check_list(list)	((void) 0)
#endif

/*
 * A seat of ours joins a list, as the last.  The caller has said what it wants
 * (waiter_seats_want), and has read the word that was in the seat.
 *
 * From now on an offer finds the seat.  The caller looks for tasks next, with
 * the locks of the lanes: a task that was offered before is there (race 8).
 * Takes and releases the list's lock.
 */
void
waiter_seats_join(WaiterList *list, WaiterSeat *seat, Oid database)
{
	int			number = (int) (seat - seats);

	Assert(seat->list == NULL);
	/* That it was told is known by now. */
	waiter_seats_awake();
	seat->told = false;
	seat->gone = false;

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	list->database = database;
	seat->list = list;
	seat->turn = list->turn++;
	seat->next = NO_SEAT;
	seat->previous = list->last;
	if (list->last == NO_SEAT)
		list->first = number;
	else
		seats[list->last].next = number;
	list->last = number;
	list->choosy += is_choosy(owner_of(number));
	pg_atomic_fetch_add_u32(&list->attention, 1);
	check_list(list);
	LWLockRelease(&list->lock);
}

/*
 * A seat leaves its list.  The caller says then in the seat why, if it is not
 * its own.
 */
static void
remove_seat(WaiterList *list, WaiterSeat *seat)
{
	AssertLockedExclusively(&list->lock);
	Assert(seat->list == list);
	if (seat->previous == NO_SEAT)
		list->first = seat->next;
	else
		seats[seat->previous].next = seat->next;
	if (seat->next == NO_SEAT)
		list->last = seat->previous;
	else
		seats[seat->next].previous = seat->previous;
	seat->list = NULL;
	list->choosy -= is_choosy(owner_of((int) (seat - seats)));
	pg_atomic_fetch_sub_u32(&list->attention, 1);
}

/*
 * A seat of ours leaves a list, if it is still in it.  Returns whether it has
 * been told something of it: then the word is in the seat, and the caller
 * passes it on (race 9).  As this is found under the list's lock, no word comes
 * later.  Never fails: it is called at abort, too.
 */
bool
waiter_seats_leave(WaiterList *list, WaiterSeat *seat)
{
	bool		told;

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	told = seat->told && !seat->gone;
	if (seat->list == list)
		remove_seat(list, seat);
	check_list(list);
	LWLockRelease(&list->lock);
	return told;
}

/*
 * We are going to look, or do not wait any more: what we were told is known.
 * Without a lock: it is a hint to who has several to choose from (doubtful).
 */
void
waiter_seats_awake(void)
{
	waiters[me()].awake = false;
}

/* ----------------------------------------------------------------
 * Words
 * ----------------------------------------------------------------
 */

static bool
is_set(const uint32 *bits, int bit)
{
	return (bits[bit / 32] & ((uint32) 1 << (bit % 32))) != 0;
}

/*
 * Does a backend want what a word is of, as far as the word knows?  Buckets
 * from when the queue had more go with those that it has now, in turn.
 */
static bool
wants(const Waiter *waiter, const WaiterWord *word)
{
	if (word->bucket != WAITERS_ANY_BUCKET && !waiter->all_buckets &&
		!is_set(waiter->buckets, word->bucket % waiter->queue_buckets))
		return false;
	if (word->group == WAITERS_ANY_GROUP ||
		waiter->group_count < 0 || waiter->group_count > MAX_GROUPS)
		return true;
	for (int i = 0; i < waiter->group_count; i++)
	{
		if (waiter->groups[i] == word->group)
			return true;
	}
	return false;
}

/*
 * How sure it is that the task will be taken: 0 is best.  Who was told of
 * another queue, and has not looked, may take a task of that and pass this
 * word on.  Who asks for groups may find that it is of another one, if that is
 * not known, and says so at once; who has a client to tell cannot know what
 * that does.
 */
static int
doubtful(const Waiter *waiter, const WaiterWord *word)
{
	if (!waiter->claims)
		return waiter->awake ? 4 : 3;
	if (waiter->group_count >= 0 && word->group == WAITERS_ANY_GROUP)
		return 2;
	return waiter->awake ? 1 : 0;
}

/*
 * Take a seat out of its list, and say so; its owner is to be woken next.  The
 * word is in the seat by now.  told comes last, for the owner reads it without
 * the lock, and from then on the rest of the seat is the owner's.
 */
static void
take_out(WaiterList *list, int seat, bool gone)
{
	remove_seat(list, &seats[seat]);
	seats[seat].gone = gone;
	owner_of(seat)->awake = true;
	pg_write_barrier();
	seats[seat].told = true;
}

/*
 * Wake the backend of a seat.  It may have ended, and another one have its
 * latch: that is woken for nothing.
 */
static void
wake_owner_of(int seat)
{
	SetLatch(&ProcGlobal->allProcs[seat / WAITERS_SEATS].procLatch);
}

/*
 * Tell the first who wants it, of those of whom it is most sure.  Returns false
 * if there is none.  new: the word is given, to all who are in the list by now.
 * Else it is passed on, to those who were there when it was given: who has come
 * later has looked since then.
 *
 * Takes and releases the list's lock; the caller may hold others of ours.
 * Never fails: it is called at the end of transactions.  If the backend only
 * tells its client, the worker is to see whether that has claimed in time
 * (waiter_errands_due): claimed_by is when, and is set once for all that are
 * told until then.
 */
bool
waiter_seats_tell(WaiterList *list, WaiterWord *word, bool new)
{
	int			chosen = NO_SEAT;
	int			best = INT_MAX;
	Oid			database = InvalidOid;

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	if (new)
		word->turn = list->turn;
	for (int i = list->first; i != NO_SEAT && seats[i].turn < word->turn; i = seats[i].next)
	{
		int			doubt = doubtful(owner_of(i), word);

		if (doubt < best && wants(owner_of(i), word))
		{
			chosen = i;
			best = doubt;
			if (best == 0)
				break;
		}
	}
	if (chosen != NO_SEAT)
	{
		seats[chosen].word = *word;
		if (!owner_of(chosen)->claims)
			database = list->database;
		take_out(list, chosen, false);
	}
	check_list(list);
	LWLockRelease(&list->lock);
	if (chosen != NO_SEAT)
		wake_owner_of(chosen);
	if (OidIsValid(database))
	{
		TimestampTz when = GetCurrentTimestamp() + WAITERS_CLIENT_USECS;
		uint64		unclaimed = 0;

		if (pg_atomic_compare_exchange_u64(&list->claimed_by, &unclaimed, when))
			worker_slots_errand_at(database, when);
	}
	return chosen != NO_SEAT;
}

/*
 * Tell of a task whose bucket is not known, and perhaps of several.  As
 * waiter_seats_tell, of a new word.
 */
bool
waiter_seats_tell_one(WaiterList *list)
{
	WaiterWord	word = {0, WAITERS_ANY_BUCKET, WAITERS_ANY_GROUP, true};

	return waiter_seats_tell(list, &word, true);
}

/*
 * A queue is no more: all who wait for it look, and find that out.  The caller
 * has the lock of all queues, so the number is not given to another one before
 * its list is empty.  Never fails.
 */
void
waiters_queue_gone(int queue)
{
	WaiterList *list = &lists[queue];

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	while (list->first != NO_SEAT)
	{
		int			seat = list->first;

		take_out(list, seat, true);
		wake_owner_of(seat);
	}
	pg_atomic_write_u32(&list->attention, 0);
	pg_atomic_write_u32(&list->pending, 0);
	pg_atomic_write_u64(&list->notify_after, 0);
	pg_atomic_write_u64(&list->claimed_by, 0);
	LWLockRelease(&list->lock);
}

/*
 * The worker of a database has ended: those who wait have to see for themselves
 * what becomes due.  They are woken, and stay in their lists.  That it is not
 * running was said before (worker_slots_end): who joins later sees that.
 */
void
waiters_worker_gone(Oid database)
{
	for (int i = 0; i < settings_max_queues; i++)
	{
		WaiterList *list = &lists[i];

		if (waiter_seats_count(list) == 0)
			continue;
		LWLockAcquire(&list->lock, LW_SHARED);
		for (int j = list->first; j != NO_SEAT && list->database == database; j = seats[j].next)
			wake_owner_of(j);
		LWLockRelease(&list->lock);
	}
}
