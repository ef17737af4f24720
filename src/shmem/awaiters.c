/*-------------------------------------------------------------------------
 *
 * awaiters.c
 *	  Who waits for the end of a task, and how they are told.
 *
 * Each backend has a seat here, so there is always room.  Who awaits a task
 * sits in one of some lists, which the hash of queue and task leads to.  Who
 * has ended a task looks, after the commit, whether anybody sits in its list.
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
 * Locking: the lock of a list guards it and the seats in it.  It is the last
 * one taken, so whoever ends a task may hold others.  A seat is written by
 * others only while it is in a list; that it was told is read by its owner
 * without the lock.
 *
 * Race 20 (a task ends while a session begins to await it) is what the second
 * paragraph is about.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "common/contracts.h"
#include "common/shared_memory.h"
#include "shmem/waiters.h"

/*
 * How many lists there are.  Where tasks share one, the end of either takes the
 * lock and looks at the seats of all.
 */
#define LISTS			1024

/*
 * A backend that awaits a task, or did.  While it is in a list the list's
 * lock guards it; after that it is its owner's.  told is set last, behind a
 * write barrier, and then the owner's latch: an owner that has read it reads
 * outcome after a read barrier.
 */
typedef struct Seat
{
	dlist_node	node;			/* in its list */
	int			queue;			/* this and task: what it awaits, written by
								 * its owner while it is in no list */
	int64		task;
	int			outcome;		/* when it was told: how the task has ended,
								 * or AWAITERS_LOOK */
	volatile bool told;			/* it was taken out of the list */
} Seat;

/*
 * Those who await tasks of one hash.  While no backend has the lock exclusively
 * (check_list) its seats await tasks of this hash and were not told, and count
 * says how many they are.
 */
typedef struct AwaiterList
{
	LWLock		lock;
	dlist_head	seats;
	pg_atomic_uint32 count;		/* of those in the list; changed under the
								 * lock, and read without it */
} AwaiterList;

static AwaiterList *lists = NULL;
static Seat *seats = NULL;

/*
 * Where this backend sits, or has sat until it was told; NULL: it awaits
 * nothing.  Only this backend sets it.
 */
static AwaiterList *my_list = NULL;

#define LISTS_SIZE		CACHELINEALIGN(LISTS * sizeof(AwaiterList))

/*
 * The memory for all lists, and for a seat for each backend: there is always
 * room for who awaits a task (invariant I10).
 */
Size
awaiters_shmem_size(void)
{
	return add_size(LISTS_SIZE, mul_size(MaxBackends, sizeof(Seat)));
}

/*
 * Set up the lists, which are empty, or find them (found).  A seat is
 * set when its backend joins.
 */
void
awaiters_shmem_init(void *area, bool found)
{
	lists = area;
	seats = (Seat *) ((char *) area + LISTS_SIZE);
	if (found)
		return;
	for (int i = 0; i < LISTS; i++)
	{
		LWLockInitialize(&lists[i].lock, shared_memory_tranche(FAIRQ_TRANCHE_WAITER));
		dlist_init(&lists[i].seats);
		pg_atomic_init_u32(&lists[i].count, 0);
	}
}

/* Ids of a queue are consecutive: those of a thousand tasks spread evenly. */
static inline AwaiterList *
list_of(int queue, int64 task)
{
	return &lists[((uint64) task + (uint64) queue * 389) % LISTS];
}

#ifdef USE_ASSERT_CHECKING

/* So many seats are looked at; if there are no more, they are counted, too. */
#define CHECK_SEATS		64

/*
 * A list has seats that await tasks of its hash and were not told, as many as
 * are counted.  It is locked, in either mode.
 */
static void
check_list(AwaiterList *list)
{
	uint32		n = 0;
	dlist_iter	iter;

	AssertLocked(&list->lock);
	dlist_foreach(iter, &list->seats)
	{
		Seat	   *seat = dlist_container(Seat, node, iter.cur);

		Assert(list_of(seat->queue, seat->task) == list);
		Assert(!seat->told);
		if (++n == CHECK_SEATS)
			return;
	}
	Assert(pg_atomic_read_u32(&list->count) == n);
}

#else
#define check_list(list)	((void) 0)
#endif

/*
 * A seat leaves its list, which is locked exclusively.  It is its
 * owner's from then on; if another backend takes it out, that says why in the
 * seat, and that it was told, before it lets the lock go.
 */
static void
leave(AwaiterList *list, Seat *seat)
{
	AssertLockedExclusively(&list->lock);
	Assert(pg_atomic_read_u32(&list->count) > 0);
	dlist_delete(&seat->node);
	pg_atomic_fetch_sub_u32(&list->count, 1);
}

/*
 * Tell those of a list who await a task, or (of_queue) any task of a queue.
 * Takes the list's lock, and sets latches under it.  A latch may be that of a
 * backend whose awaiter has ended meanwhile: no harm, for whoever sleeps looks
 * why it was woken.  Never fails.
 */
static void
tell(AwaiterList *list, int queue, bool of_queue, int64 task, int outcome)
{
	dlist_mutable_iter iter;

	AssertNotLocked(&list->lock);
	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	dlist_foreach_modify(iter, &list->seats)
	{
		Seat	   *seat = dlist_container(Seat, node, iter.cur);

		if (seat->queue != queue || (!of_queue && seat->task != task))
			continue;
		leave(list, seat);
		seat->outcome = outcome;
		pg_write_barrier();
		seat->told = true;
		SetLatch(&GetPGProcByNumber(seat - seats)->procLatch);
	}
	check_list(list);
	LWLockRelease(&list->lock);
}

/* ----------------------------------------------------------------
 * For those who end tasks
 * ----------------------------------------------------------------
 */

/*
 * Does perhaps any backend await a task?  The caller has made its end visible,
 * and has had a full memory barrier since: an atomic operation, or a lock (race
 * 20).  Takes no lock.
 */
bool
awaiters_any(int queue, int64 task)
{
	return pg_atomic_read_u32(&list_of(queue, task)->count) > 0;
}

/*
 * A task has ended, as outcome says; or its awaiters are to look
 * (AWAITERS_LOOK).  Called when that is visible to all, if awaiters_any says
 * so.  Each that awaits it has left its list then, and its latch is set.
 */
void
awaiters_tell(int queue, int64 task, int outcome)
{
	tell(list_of(queue, task), queue, false, task, outcome);
}

/*
 * A queue is no more, or its table has other rows: all who await one of its
 * tasks look again.  That is visible to all before this is called.  Takes the
 * locks of lists, one after the other.
 */
void
awaiters_look_again(int queue)
{
	pg_memory_barrier();
	for (int i = 0; i < LISTS; i++)
	{
		if (pg_atomic_read_u32(&lists[i].count) > 0)
			tell(&lists[i], queue, true, 0, AWAITERS_LOOK);
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
 *
 * On return the seat is in the list, and whatever ends the task from now on
 * finds it there.  Never fails; takes and releases locks of lists.
 */
int
awaiters_begin(int queue, int64 task)
{
	Seat	   *seat = &seats[waiters_me()];
	AwaiterList *list = list_of(queue, task);
	int			outcome = AWAITERS_LOOK;

	if (my_list != NULL)
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

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	dlist_push_head(&list->seats, &seat->node);
	pg_atomic_fetch_add_u32(&list->count, 1);
	check_list(list);
	LWLockRelease(&list->lock);
	my_list = list;
	return outcome;
}

/*
 * Is there reason to look again?  Also if an abort has ended our wait.  Without
 * a lock: the latch is set after told.
 */
bool
awaiters_told(void)
{
	return my_list == NULL || seats[waiters_me()].told;
}

/*
 * How the task has ended, if we were told that; else AWAITERS_LOOK.  Good from
 * awaiters_told() until the next awaiters_begin().
 */
int
awaiters_outcome(void)
{
	Seat	   *seat = &seats[waiters_me()];

	if (my_list == NULL || !seat->told)
		return AWAITERS_LOOK;
	pg_read_barrier();
	return seat->outcome;
}

/*
 * We do not wait any more; also when the transaction, or a part of it, fails: a
 * hook of pending_hook.  Our seat is in no list then.  Takes the list's
 * lock.  Never fails; does nothing if we do not wait.
 */
void
awaiters_end(void)
{
	if (my_list == NULL)
		return;
	LWLockAcquire(&my_list->lock, LW_EXCLUSIVE);
	if (!seats[waiters_me()].told)
		leave(my_list, &seats[waiters_me()]);
	check_list(my_list);
	LWLockRelease(&my_list->lock);
	my_list = NULL;
}
