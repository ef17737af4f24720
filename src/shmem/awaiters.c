/*-------------------------------------------------------------------------
 *
 * awaiters.c
 *	  Who waits for the end of a task, and how they are told.
 *
 * Each backend has a seat here, so there is always room.  Who awaits a task
 * sits in the list of a place, which the hash of queue and task leads to.  Who
 * has ended a task looks, after the commit, whether anybody sits in its place.
 * While no backend does, that is one read of a counter.
 *
 * No end is missed.  An awaiter first joins the list, then looks for the task,
 * then sleeps.  An end is first visible to all, then the counter is read.  So
 * either the awaiter sees the end, or who has ended the task sees the awaiter.
 * Between the two steps each of them needs a full memory barrier: the awaiter
 * has it in the atomic addition of its joining, awaiters_any() says who has the
 * other.
 *
 * Who is told leaves the list, with how the task has ended in its seat: a queue
 * without an archive remembers that nowhere else.  Told is everybody who awaits
 * the task, and nothing has to be passed on, for all of them may have the
 * answer.
 *
 * Locking: the lock of a place guards its list and the seats in it.  It is the
 * last one taken.  A seat is written by others only while it is in a list; that
 * it was told is read by its owner without the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "common/contracts.h"
#include "common/shared_memory.h"
#include "shmem/waiters.h"

#define PLACES			1024
#define NO_SEAT			(-1)

typedef struct Seat
{
	int			next;			/* in the list of its place */
	int			previous;
	int			queue;
	int64		task;
	int			outcome;		/* when it was told */
	volatile bool told;			/* it was taken out of the list */
} Seat;

typedef struct Place
{
	LWLock		lock;
	int			first;			/* number of a seat; NO_SEAT: none */
	pg_atomic_uint32 count;		/* of those in the list; changed under the
								 * lock, and read without it */
} Place;

static Place *places = NULL;
static Seat *seats = NULL;

/* Where this backend sits, or has sat until it was told. */
static Place *my_place = NULL;

#define PLACES_SIZE		CACHELINEALIGN(PLACES * sizeof(Place))

Size
awaiters_shmem_size(void)
{
	return add_size(PLACES_SIZE, mul_size(MaxBackends, sizeof(Seat)));
}

void
awaiters_shmem_init(void *area, bool found)
{
	places = area;
	seats = (Seat *) ((char *) area + PLACES_SIZE);
	if (found)
		return;
	for (int i = 0; i < PLACES; i++)
	{
		LWLockInitialize(&places[i].lock, shared_memory_tranche(FAIRQ_TRANCHE_WAITER));
		places[i].first = NO_SEAT;
		pg_atomic_init_u32(&places[i].count, 0);
	}
}

/* The number of our seat. */
static int
me(void)
{
	int			number = (int) (MyProc - ProcGlobal->allProcs);

	Assert(number >= 0 && number < MaxBackends);
	return number;
}

/* Ids of a queue are consecutive: those of a thousand tasks spread evenly. */
static inline Place *
place_of(int queue, int64 task)
{
	return &places[((uint64) task + (uint64) queue * 389) % PLACES];
}

#ifdef USE_ASSERT_CHECKING

/* So many seats are looked at; if there are no more, they are counted, too. */
#define CHECK_SEATS		64

/* The list of a place is linked both ways, and has who await its tasks. */
static void
check_place(Place *place)
{
	uint32		n = 0;
	int			previous = NO_SEAT;
	int			i = place->first;

	AssertLocked(&place->lock);
	for (; i != NO_SEAT && n < CHECK_SEATS; i = seats[i].next)
	{
		Assert(i >= 0 && i < MaxBackends);
		Assert(seats[i].previous == previous);
		Assert(place_of(seats[i].queue, seats[i].task) == place);
		Assert(!seats[i].told);
		previous = i;
		n++;
	}
	Assert(i != NO_SEAT || pg_atomic_read_u32(&place->count) == n);
}

#else
#define check_place(place)	((void) 0)
#endif

/* A seat leaves the list of its place. */
static void
leave(Place *place, int number)
{
	Seat	   *seat = &seats[number];

	AssertLockedExclusively(&place->lock);
	Assert(pg_atomic_read_u32(&place->count) > 0);
	if (seat->previous == NO_SEAT)
		place->first = seat->next;
	else
		seats[seat->previous].next = seat->next;
	if (seat->next != NO_SEAT)
		seats[seat->next].previous = seat->previous;
	pg_atomic_fetch_sub_u32(&place->count, 1);
}

/*
 * Tell those of a place who await a task, or (of_queue) any task of a queue.
 */
static void
tell(Place *place, int queue, bool of_queue, int64 task, int outcome)
{
	int			next;

	LWLockAcquire(&place->lock, LW_EXCLUSIVE);
	for (int i = place->first; i != NO_SEAT; i = next)
	{
		Seat	   *seat = &seats[i];

		next = seat->next;
		if (seat->queue != queue || (!of_queue && seat->task != task))
			continue;
		leave(place, i);
		seat->outcome = outcome;
		pg_write_barrier();
		seat->told = true;
		SetLatch(&ProcGlobal->allProcs[i].procLatch);
	}
	check_place(place);
	LWLockRelease(&place->lock);
}

/* ----------------------------------------------------------------
 * For those who end tasks
 * ----------------------------------------------------------------
 */

/*
 * Does perhaps anybody await a task?  The caller has made its end visible, and
 * has had a full memory barrier since: an atomic operation, or a lock.
 */
bool
awaiters_any(int queue, int64 task)
{
	return pg_atomic_read_u32(&place_of(queue, task)->count) > 0;
}

/*
 * A task has ended, as outcome says; or its awaiters are to look
 * (AWAITERS_LOOK).  Called when that is visible to all.
 */
void
awaiters_tell(int queue, int64 task, int outcome)
{
	tell(place_of(queue, task), queue, false, task, outcome);
}

/*
 * A queue is no more, or its table has other rows: all look again.
 */
void
awaiters_look_again(int queue)
{
	pg_memory_barrier();
	for (int i = 0; i < PLACES; i++)
	{
		if (pg_atomic_read_u32(&places[i].count) > 0)
			tell(&places[i], queue, true, 0, AWAITERS_LOOK);
	}
}

/* ----------------------------------------------------------------
 * For those who wait
 * ----------------------------------------------------------------
 */

/*
 * Join those who await a task, before looking for it.  The caller has the
 * queue's relation locked, and may let it go before it sleeps until
 * awaiters_told().  To be called again before each look.  Returns what we were
 * told meanwhile, as awaiters_outcome().
 */
int
awaiters_begin(int queue, int64 task)
{
	int			number = me();
	Seat	   *seat = &seats[number];
	Place	   *place = place_of(queue, task);

	int			outcome = AWAITERS_LOOK;

	if (my_place != NULL)
	{
		/* Woken by something else: the seat is kept. */
		if (!seat->told && seat->queue == queue && seat->task == task)
			return AWAITERS_LOOK;
		awaiters_end();
		if (seat->told && seat->task == task)
			outcome = seat->outcome;
	}
	seat->queue = queue;
	seat->task = task;
	seat->told = false;
	seat->outcome = AWAITERS_LOOK;
	seat->previous = NO_SEAT;

	LWLockAcquire(&place->lock, LW_EXCLUSIVE);
	seat->next = place->first;
	if (place->first != NO_SEAT)
		seats[place->first].previous = number;
	place->first = number;
	pg_atomic_fetch_add_u32(&place->count, 1);
	check_place(place);
	LWLockRelease(&place->lock);
	my_place = place;
	return outcome;
}

/*
 * Is there reason to look again?  Also if an abort has ended our wait.
 */
bool
awaiters_told(void)
{
	return my_place == NULL || seats[me()].told;
}

/*
 * How the task has ended, if we were told that; else AWAITERS_LOOK.
 */
int
awaiters_outcome(void)
{
	Seat	   *seat = &seats[me()];

	if (my_place == NULL || !seat->told)
		return AWAITERS_LOOK;
	pg_read_barrier();
	return seat->outcome;
}

/*
 * We do not wait any more.  Also when the transaction, or a part of it, fails.
 * Never fails.
 */
void
awaiters_end(void)
{
	if (my_place == NULL)
		return;
	LWLockAcquire(&my_place->lock, LW_EXCLUSIVE);
	if (!seats[me()].told)
		leave(my_place, me());
	check_place(my_place);
	LWLockRelease(&my_place->lock);
	my_place = NULL;
}
