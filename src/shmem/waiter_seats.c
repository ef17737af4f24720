/*-------------------------------------------------------------------------
 *
 * waiter_seats.c
 *	  The lists of those who wait for tasks: a list for each queue.
 *
 * A backend has a seat for each queue that it waits for: one, or, if it waits
 * for any of several, up to WAITERS_SEATS.  A seat is in the list of one
 * queue.  What the backend wants is said once for all of its seats; a backend
 * that wants only some buckets or groups has one seat.
 *
 * A backend that gives a word tells one seat, which leaves its list.  The
 * other seats of the sleeper stay in theirs.  So the sleeper may be told in
 * several before it has looked, and then perhaps takes one task and passes the
 * other words on.  That is a detour, so a sleeper that is not awake already
 * goes first.  Whether it is awake is a hint, read without a lock.
 *
 * Locking: the lock of a list guards the list and the seats in it.  It is the
 * last one taken: a backend that offers may hold others.  attention, pending
 * and the times are atomic.  A seat is written by others only while it is in a
 * list; that it was told is read by its owner without the lock.  What a
 * backend wants is written by the backend, while none of its seats is in a
 * list.
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

/*
 * A backend, and what it wants.  That is written without a lock, but only
 * while none of the backend's seats is in a list: list->choosy goes by it, and
 * a process that has a list locked reads it for the seats in that.  awake is
 * set by the process that tells the backend, and cleared by the backend
 * itself: a hint.
 *
 * The number of a backend is that of its PGPROC, so a later backend may have
 * an entry and its seats; it finds none of these in a list (waiters_end).
 *
 * With all_buckets, neither buckets nor queue_buckets is looked at.  groups has
 * all group_count of them, or, if these are more, the first MAX_GROUPS, which
 * are not looked at.
 */
typedef struct Waiter
{
	volatile bool awake;		/* it was told, and has not looked since */
	bool		claims;			/* false: it only tells its client */
	bool		all_buckets;	/* buckets is not looked at */
	int			queue_buckets;	/* above 0 unless all; others go with these
								 * in turn (claim_private.h) */
	int			group_count;	/* -1: all; above MAX_GROUPS: all may be */
	uint16		groups[MAX_GROUPS]; /* as waiters_group says */
	bool		buckets[FAIRQ_MAX_BUCKETS];
} Waiter;

/*
 * The arrays of the area: a list of each queue, what each backend wants, and of
 * each backend its WAITERS_SEATS seats, which stand together.
 */
static WaiterList *lists = NULL;
static Waiter *waiters = NULL;
static WaiterSeat *seats = NULL;

#define LISTS_SIZE		CACHELINEALIGN(mul_size(settings_max_queues, sizeof(WaiterList)))
#define WAITERS_SIZE	CACHELINEALIGN(mul_size(MaxBackends, sizeof(Waiter)))
#define SEATS			mul_size(MaxBackends, WAITERS_SEATS)

/*
 * The memory for a list for each queue that there may be, and for all seats of
 * each backend: so there is always room for one more that waits (invariant
 * I10).
 */
Size
waiters_shmem_size(void)
{
	return add_size(add_size(LISTS_SIZE, WAITERS_SIZE),
					mul_size(SEATS, sizeof(WaiterSeat)));
}

/*
 * Set up the lists, which are empty, or find them (found).  Turns begin at 1: a
 * word of turn 0 would be for no seat.
 */
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
		dlist_init(&list->seats);
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

/*
 * The number of the queue of a list.  It is fixed, as the list is.
 */
int
waiter_seats_queue(const WaiterList *list)
{
	return (int) (list - lists);
}

/*
 * A seat of our own, by its number among ours, from 0 to WAITERS_SEATS - 1.
 * While it is in a list others may take it out, under that list's lock.
 */
WaiterSeat *
waiter_seats_mine(int seat)
{
	Assert(seat >= 0 && seat < WAITERS_SEATS);
	return &seats[waiters_me() * WAITERS_SEATS + seat];
}

/*
 * The number of the backend of a seat: seats of one backend stand together.
 */
static inline int
backend_of(const WaiterSeat *seat)
{
	return (int) ((seat - seats) / WAITERS_SEATS);
}

/*
 * The backend of a seat.  If the seat is in a list that is locked, what the
 * backend wants does not change.
 */
static inline Waiter *
owner_of(const WaiterSeat *seat)
{
	return &waiters[backend_of(seat)];
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

/*
 * Does a backend not want just any task?  Then a word may be passed on that it
 * leaves (waiters.c), and the list counts it.
 */
static bool
is_choosy(const Waiter *waiter)
{
	return !waiter->all_buckets || waiter->group_count >= 0;
}

/*
 * Say what we want, which none of our seats is in a list for.  Returns whether
 * that is not just any task.  More groups than a waiter has room for are taken
 * for all: it is told in vain then, and passes the word on.
 *
 * Takes no lock, for no other process reads this until a seat has joined a list
 * (waiter_seats_join), which is done under that list's lock.
 */
bool
waiter_seats_want(const WaiterWants *wanted)
{
	Waiter	   *waiter = &waiters[waiters_me()];

	Assert(wanted->bucket_count <= FAIRQ_MAX_BUCKETS);
	Assert(wanted->bucket_count < 0 || wanted->queue_buckets > 0);
	for (int i = 0; i < WAITERS_SEATS; i++)
		Assert(waiter_seats_mine(i)->list == NULL);
	waiter->claims = wanted->claims;
	waiter->all_buckets = (wanted->bucket_count < 0);
	waiter->queue_buckets = wanted->queue_buckets;
	memset(waiter->buckets, 0, sizeof(waiter->buckets));
	for (int i = 0; i < wanted->bucket_count; i++)
		waiter->buckets[wanted->buckets[i]] = true;
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

/*
 * Seats are in the order in which they have joined, and counted.  The list is
 * locked, in either mode.
 */
static void
check_list(WaiterList *list)
{
	uint32		n = 0;
	int			choosy = 0;
	uint64		turn = 0;
	dlist_iter	iter;

	AssertLocked(&list->lock);
	dlist_foreach(iter, &list->seats)
	{
		WaiterSeat *seat = dlist_container(WaiterSeat, node, iter.cur);

		Assert(seat->list == list && !seat->told);
		Assert(seat->turn > turn && seat->turn < list->turn);
		turn = seat->turn;
		choosy += is_choosy(owner_of(seat));
		if (++n == CHECK_SEATS)
			return;
	}
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
	AssertNotLocked(&list->lock);
	Assert(seat->list == NULL);
	/* That it was told is known by now. */
	waiter_seats_awake();
	seat->told = false;
	seat->gone = false;

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	list->database = database;
	seat->list = list;
	seat->turn = list->turn++;
	dlist_push_tail(&list->seats, &seat->node);
	list->choosy += is_choosy(owner_of(seat));
	pg_atomic_fetch_add_u32(&list->attention, 1);
	check_list(list);
	LWLockRelease(&list->lock);
}

/*
 * A seat leaves its list, whose counts are right again on return.  The caller
 * has the list locked exclusively, and says then in the seat why it has left,
 * if that is not its own.
 */
static void
remove_seat(WaiterList *list, WaiterSeat *seat)
{
	AssertLockedExclusively(&list->lock);
	Assert(seat->list == list);
	dlist_delete(&seat->node);
	seat->list = NULL;
	list->choosy -= is_choosy(owner_of(seat));
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
 * Without a lock: it is a hint to a process that has several sleepers to
 * choose from (doubtful).
 */
void
waiter_seats_awake(void)
{
	waiters[waiters_me()].awake = false;
}

/* ----------------------------------------------------------------
 * Words
 * ----------------------------------------------------------------
 */

/*
 * Does a backend want what a word is of, as far as the word knows?  Buckets
 * from when the queue had more go with those that it has now, in turn.
 *
 * The list that the word is given in is locked, and a seat of the backend is in
 * it: so what it wants stays as it is.  A "yes" may be in vain, where the word
 * does not know the group, or two groups have one number (waiters_group).
 */
static bool
wants(const Waiter *waiter, const WaiterWord *word)
{
	if (word->bucket != WAITERS_ANY_BUCKET && !waiter->all_buckets &&
		!waiter->buckets[word->bucket % waiter->queue_buckets])
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
 * How sure it is that the task will be taken: 0 is best, 4 is worst.  A
 * backend that was told of another queue, and has not looked, may take a task
 * of that and pass this word on.  One that asks for groups may find that it is
 * of another one, if that is not known, and says so at once.  One that has a
 * client to tell cannot know what that does.
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
 * word is in the seat by now, unless the queue is gone.  told comes last, for
 * the owner reads it without the lock, and from then on the rest of the seat is
 * the owner's: whoever has taken it out writes nothing there any more.
 */
static void
take_out(WaiterList *list, WaiterSeat *seat, bool gone)
{
	remove_seat(list, seat);
	seat->gone = gone;
	owner_of(seat)->awake = true;
	pg_write_barrier();
	seat->told = true;
}

/*
 * Wake the backend of a seat.  It may have ended, and another one have its
 * latch: that is woken for nothing.  Under the list's lock or not: the latch
 * is set after told, so a backend that waits for it finds that.
 */
static void
wake_owner_of(const WaiterSeat *seat)
{
	SetLatch(&GetPGProcByNumber(backend_of(seat))->procLatch);
}

/*
 * Tell the first sleeper that wants it, of those that are most sure to take
 * it.  Returns false if there is none.  new: the word is given, to all that
 * are in the list by now.  Else it is passed on, to those that were there when
 * it was given: a sleeper that has come later has looked since then.
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
	WaiterSeat *chosen = NULL;
	int			best = INT_MAX;
	dlist_iter	iter;
	Oid			database = InvalidOid;

	AssertNotLocked(&list->lock);
	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	if (new)
		word->turn = list->turn;
	dlist_foreach(iter, &list->seats)
	{
		WaiterSeat *seat = dlist_container(WaiterSeat, node, iter.cur);
		int			doubt = doubtful(owner_of(seat), word);

		if (seat->turn >= word->turn || best == 0)
			break;
		if (doubt < best && wants(owner_of(seat), word))
		{
			chosen = seat;
			best = doubt;
		}
	}
	if (chosen != NULL)
	{
		chosen->word = *word;
		if (!owner_of(chosen)->claims)
			database = list->database;
		take_out(list, chosen, false);
	}
	check_list(list);
	LWLockRelease(&list->lock);
	if (chosen != NULL)
		wake_owner_of(chosen);
	if (OidIsValid(database))
	{
		TimestampTz when = GetCurrentTimestamp() + WAITERS_CLIENT_USECS;
		uint64		unclaimed = 0;

		if (pg_atomic_compare_exchange_u64(&list->claimed_by, &unclaimed, when))
			worker_slots_look_at(database, WORKER_ERRANDS, when);
	}
	return chosen != NULL;
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
 * A queue is no more: all that wait for it look, and find that out.  The
 * caller has the lock of all queues, so the number is not given to another one
 * before its list is empty.  Takes and releases the list's lock; never fails.
 *
 * The list is as at the start then, but for its turn: that goes on, so that a
 * word of before, which a backend may still hold, is for none that joins later.
 */
void
waiters_queue_gone(int queue)
{
	WaiterList *list = &lists[queue];

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	while (!dlist_is_empty(&list->seats))
	{
		WaiterSeat *seat = dlist_head_element(WaiterSeat, node, &list->seats);

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
 * The worker of a database has ended: sleepers have to see for themselves what
 * becomes due.  They are woken, and stay in their lists.  That it is not
 * running was said before (worker_slots_end), so a sleeper that joins later
 * sees that.
 *
 * A list has seats of one database only, that of its queue.  Takes the lock of
 * one list after the other, in shared mode: nothing changes.
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
		if (list->database == database)
		{
			dlist_iter	iter;

			dlist_foreach(iter, &list->seats)
				wake_owner_of(dlist_container(WaiterSeat, node, iter.cur));
		}
		LWLockRelease(&list->lock);
	}
}
