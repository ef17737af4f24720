/*-------------------------------------------------------------------------
 *
 * worker_slots.c
 *	  Who works in the background, and how they are woken.
 *
 * Each database with the extension has a worker (database_worker.c), and the
 * server a launcher that starts them (launcher.c).  Here is what they share
 * with everybody else: a slot for each worker.
 *
 * A worker sleeps until something is due, and says so in its slot.  Whoever
 * makes something due earlier (a task for a certain time, a lease that ends)
 * puts the time there and sets the worker's latch, at commit.  Most leases end
 * later than what the worker waits for anyway; then it is one look.  Errands
 * for those who wait or listen (waiters.c) have a time of their own, and so
 * have schedules: they take no look at the queues.
 *
 *		reserved by the launcher -> begun by the worker -> ended by the worker
 *		or by its exit -> unreserved by the launcher
 *
 * A database whose worker is in the way (DROP DATABASE) is fenced: its worker
 * is asked to stop, and no other is started until it is let go.
 *
 * Locking: the lock guards all fields but the times, which are atomic.  Only
 * worker_slots_look_at and worker_slots_alive read slots without the lock: in
 * the worst case the latch of a process is set that is not concerned.  It is
 * taken last of ours, and nothing but latches is touched under it.
 *
 * No wake-up is lost: worker_slots_look_at() and worker_slots_begin_look() say
 * why.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/worker_slots.h"

/* So many databases are remembered; with more the launcher looks at all. */
#define MAX_PROBES		16

/* So many fences at a time; with more the launcher may start a worker. */
#define MAX_FENCED		16

/* A fence that no backend lifts (its process crashed) is over after this. */
#define FENCE_USECS		(INT64CONST(60) * USECS_PER_SEC)

/* How long to wait for a worker to stop. */
#define STOP_MSECS		10000

/*
 * A worker, or one that is to be.  A slot with a database that is not running
 * is of a worker that has not begun yet, or of one that has ended and that the
 * launcher has not seen to.  A running one has a latch, and no other has.  No
 * two slots are of one database (slot_of).  The lock guards all but the times.
 *
 * The times are when its worker is to come at the latest, by the wall clock;
 * PG_INT64_MAX: not before it is told.  A backend makes one earlier, at any
 * time; the worker alone makes one later, when it begins to look, and the
 * launcher when it gives the slot to another.
 *
 * A reservation is one use of a slot: so a worker that was started for an
 * earlier one finds that it is not its own.
 */
typedef struct WorkerSlot
{
	Oid			database;		/* InvalidOid: free */
	uint32		reservation;	/* which one of the slot it is */
	bool		running;
	bool		stop;			/* it is asked to stop */
	WorkerEnd	end;			/* WORKER_FAILED until it says otherwise */
	Latch	   *latch;			/* in the proc array */
	pg_atomic_uint64 next[WORKER_LOOKS];	/* TimestampTz, of each look */
} WorkerSlot;

/*
 * One for each command that has a database fenced: they may be several, also of
 * one database.  It is over at until, by the wall clock, if it is not lifted.
 */
typedef struct FencedDatabase
{
	Oid			database;
	TimestampTz until;
} FencedDatabase;

/*
 * The lock guards all but stopped, and what WorkerSlot says of its times.  Only
 * the launcher sets and clears databases of slots, so it reads them without.
 *
 * probes[0 .. probe_count - 1] are databases that the launcher has yet to look
 * at.  reservations does not go back while the server runs.
 */
typedef struct WorkerSlotsState
{
	LWLock		lock;
	ConditionVariable stopped;	/* a worker is not running any more; broadcast
								 * without the lock */
	Latch	   *launcher;		/* in the proc array; NULL: there is none */
	int			probe_count;	/* -1: all databases */
	Oid			probes[MAX_PROBES];
	uint32		reservations;	/* so far: no number is given twice */
	int			fenced_count;	/* MAX_FENCED at most */
	FencedDatabase fenced[MAX_FENCED];
	WorkerSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} WorkerSlotsState;

static WorkerSlotsState *state = NULL;

/*
 * When the worker of a slot is to come, for whatever it looks at.
 */
static void
set_times(WorkerSlot *slot, TimestampTz when)
{
	for (int look = 0; look < WORKER_LOOKS; look++)
		pg_atomic_write_u64(&slot->next[look], when);
}

/*
 * The clock was set: whoever sleeps until a time has to look at it.  Called in
 * the process that has seen it, which has no lock of ours.
 */
static void
wake_all(void)
{
	LWLockAcquire(&state->lock, LW_SHARED);
	for (int i = 0; i < settings_max_workers; i++)
	{
		WorkerSlot *slot = &state->slots[i];

		set_times(slot, 0);
		if (slot->latch != NULL)
			SetLatch(slot->latch);
	}
	if (state->launcher != NULL)
		SetLatch(state->launcher);
	LWLockRelease(&state->lock);
}

/*
 * The memory for pgfairq.max_workers slots (invariant I10).  A database that
 * finds none free has no worker for the time being, and its claims do the work.
 */
Size
worker_slots_shmem_size(void)
{
	return add_size(offsetof(WorkerSlotsState, slots),
					mul_size(settings_max_workers, sizeof(WorkerSlot)));
}

/*
 * Set up the slots, all of which are free, or find them (found).  In each
 * process that does either, a step of the clock wakes all workers.
 */
void
worker_slots_shmem_init(void *area, bool found)
{
	state = area;
	wall_clock_register(wake_all);
	if (found)
		return;
	memset(state, 0, worker_slots_shmem_size());
	LWLockInitialize(&state->lock, shared_memory_tranche(FAIRQ_TRANCHE_WORKER));
	ConditionVariableInit(&state->stopped);
	for (int i = 0; i < settings_max_workers; i++)
	{
		for (int look = 0; look < WORKER_LOOKS; look++)
			pg_atomic_init_u64(&state->slots[i].next[look], PG_INT64_MAX);
	}
}

/* ----------------------------------------------------------------
 * For everybody
 * ----------------------------------------------------------------
 */

/*
 * The slot of a database, or NULL.  Called with or without the lock: without
 * it, the slot may be given to another database at once, and one that is being
 * given may be missed.  For the launcher it is certain in either case.
 */
static WorkerSlot *
slot_of(Oid database)
{
	for (int i = 0; i < settings_max_workers; i++)
	{
		if (state->slots[i].database == database)
			return &state->slots[i];
	}
	return NULL;
}

/*
 * Set a time to when unless it is earlier already.  Returns whether it was not.
 * Without a lock: of several processes the one with the earliest time wins, in
 * whatever order they come.
 */
static bool
make_earlier(pg_atomic_uint64 *time, TimestampTz when)
{
	uint64		next = pg_atomic_read_u64(time);

	while ((int64) next > when)
	{
		if (pg_atomic_compare_exchange_u64(time, &next, when))
			return true;
	}
	return false;
}

/*
 * There is something to look at in a database at a time, which is 0 if that is
 * at once: have its worker come, if that is before it would by itself.  Never
 * fails: called at the end of transactions, under any lock, for it takes none.
 * Without a worker nothing happens: a claim that finds no task does the work
 * then, but for schedules.
 *
 * The caller has entered what is due before this.  So a worker that begins to
 * look after it finds that, and one that has begun finds the time when it is
 * done: that was PG_INT64_MAX since it began (worker_slots_begin_look).  The
 * latch is set after the time, for the worker resets it before it looks at the
 * time.
 */
void
worker_slots_look_at(Oid database, WorkerLook look, TimestampTz when)
{
	WorkerSlot *slot = slot_of(database);

	if (slot != NULL && make_earlier(&slot->next[look], when))
	{
		/* Read once: the worker may be ending. */
		Latch	   *latch = ((volatile WorkerSlot *) slot)->latch;

		if (latch != NULL)
			SetLatch(latch);
	}
}

/*
 * Is a worker at work in this database?  Without the lock: it may begin or end
 * at any moment.  Whoever does a worker's work takes the locks that it does, so
 * that both may do it.
 */
bool
worker_slots_alive(Oid database)
{
	WorkerSlot *slot = slot_of(database);

	return slot != NULL && slot->running;
}

/*
 * The extension was created in, or dropped from, a database.  Its worker looks
 * whether it is needed, and the launcher whether there is to be one; this also
 * reads which databases there are.  Never fails: called at commit.  Takes the
 * lock.
 */
void
worker_slots_probe(Oid database)
{
	worker_slots_wake_at(database, 0);
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	/* One too many to remember: the launcher looks at all. */
	if (state->probe_count == MAX_PROBES)
		state->probe_count = -1;
	else if (state->probe_count >= 0)
		state->probes[state->probe_count++] = database;
	if (state->launcher != NULL)
		SetLatch(state->launcher);
	LWLockRelease(&state->lock);
}

/* As worker_slots_alive(), with the lock: what has ended is seen. */
static bool
still_running(Oid database)
{
	bool		running;

	LWLockAcquire(&state->lock, LW_SHARED);
	running = worker_slots_alive(database);
	LWLockRelease(&state->lock);
	return running;
}

/*
 * Ask the worker of a database to stop: it does when it has been over all of
 * its queues.  One that has not begun yet finds it when it has.
 */
static void
ask_to_stop(Oid database)
{
	WorkerSlot *slot = slot_of(database);

	AssertLockedExclusively(&state->lock);
	Assert(OidIsValid(database));
	if (slot == NULL)
		return;
	slot->stop = true;
	if (slot->latch != NULL)
		SetLatch(slot->latch);
}

/*
 * Have no worker in a database, until worker_slots_unfence.  Returns when its
 * worker has stopped, or after some seconds if it does not.
 *
 * The caller has no lock of ours.  It may be interrupted while it sleeps, so it
 * calls worker_slots_unfence also after an error.  A fence that is not lifted
 * is over after FENCE_USECS.  If there are MAX_FENCED already the worker stops
 * all the same, but the launcher may start another.
 */
void
worker_slots_fence(Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		give_up = wall_clock_real() + STOP_MSECS * INT64CONST(1000);

	/* In one go: the launcher, which hears of the end, finds the fence. */
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	if (state->fenced_count < MAX_FENCED)
	{
		state->fenced[state->fenced_count].database = database;
		state->fenced[state->fenced_count].until = now + FENCE_USECS;
		state->fenced_count++;
	}
	ask_to_stop(database);
	LWLockRelease(&state->lock);

	ConditionVariablePrepareToSleep(&state->stopped);
	while (still_running(database) && wall_clock_real() < give_up)
		ConditionVariableTimedSleep(&state->stopped, 1000,
									shared_memory_wait_event(FAIRQ_WAIT_WORKER_STOP));
	ConditionVariableCancelSleep();
}

/*
 * Lift one fence of a database, and have the launcher look whether it is to
 * have a worker.  Does nothing more if it has none, for it is over.  Never
 * fails.
 */
void
worker_slots_unfence(Oid database)
{
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	for (int i = 0; i < state->fenced_count; i++)
	{
		if (state->fenced[i].database == database)
		{
			state->fenced[i] = state->fenced[--state->fenced_count];
			break;
		}
	}
	LWLockRelease(&state->lock);
	worker_slots_probe(database);
}

/* ----------------------------------------------------------------
 * For the launcher
 * ----------------------------------------------------------------
 */

/*
 * The launcher ends: no latch is set that may be another process's by then.
 */
static void
launcher_exit(int code, Datum arg)
{
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	state->launcher = NULL;
	LWLockRelease(&state->lock);
}

/*
 * The launcher has started, perhaps not for the first time: slots of workers
 * that do not run are free.  One that an earlier launcher has had started, and
 * that has not begun yet, finds that its reservation is gone.  Workers that run
 * go on, and are found by worker_slots_find().  All databases are looked at.
 */
void
worker_slots_launcher_begin(void)
{
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	state->launcher = &MyProc->procLatch;
	state->probe_count = -1;
	for (int i = 0; i < settings_max_workers; i++)
	{
		if (!state->slots[i].running)
			state->slots[i].database = InvalidOid;
	}
	LWLockRelease(&state->lock);
	before_shmem_exit(launcher_exit, (Datum) 0);
}

/*
 * A slot for the worker of a database; -1 if all are taken.  The worker that
 * it is reserved for has to know which reservation it is.  The launcher, which
 * alone calls this, sees to it that a database has one slot at most, and gives
 * it back with worker_slots_unreserve().
 *
 * From now on backends note in it what is due, though the worker has yet to
 * begin: it looks at everything first.
 */
int
worker_slots_reserve(Oid database, uint32 *reservation)
{
	int			result = -1;

	Assert(OidIsValid(database));
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	for (int i = 0; i < settings_max_workers && result < 0; i++)
	{
		WorkerSlot *slot = &state->slots[i];

		if (OidIsValid(slot->database))
			continue;
		Assert(!slot->running && slot->latch == NULL);
		slot->stop = false;
		slot->end = WORKER_FAILED;
		set_times(slot, PG_INT64_MAX);
		/* The times before this: from now on others find the slot. */
		slot->database = database;
		slot->reservation = *reservation = ++state->reservations;
		result = i;
	}
	LWLockRelease(&state->lock);
	return result;
}

/*
 * The worker is gone, or could not be started.  Returns how it ended:
 * WORKER_FAILED if it did not come to say so.  The slot is free, and may be
 * reserved for any database next.
 */
WorkerEnd
worker_slots_unreserve(int slot)
{
	WorkerEnd	end;

	Assert(slot >= 0 && slot < settings_max_workers);
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	end = state->slots[slot].end;
	state->slots[slot].running = false;
	state->slots[slot].latch = NULL;
	state->slots[slot].database = InvalidOid;
	LWLockRelease(&state->lock);
	return end;
}

/*
 * The slot of a database's worker, running or not; -1: it has none.  For a
 * launcher that has started anew, and finds what an earlier one has left.
 */
int
worker_slots_find(Oid database)
{
	WorkerSlot *slot = slot_of(database);

	return slot != NULL ? slot - state->slots : -1;
}

/*
 * The worker of a database is one too many: the database is to have none.  That
 * is not waited for: when it has ended the launcher's latch is set.
 */
void
worker_slots_dismiss(Oid database)
{
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	ask_to_stop(database);
	LWLockRelease(&state->lock);
}

/*
 * Is a database to have no worker?  Fences that are over, or of a time before
 * the clock was set back, are forgotten.
 *
 * The launcher asks before it starts a worker, and again after a while if there
 * is a fence: so one that is not lifted costs no more than its time.
 */
bool
worker_slots_fenced(Oid database)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		fenced = false;

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	for (int i = 0; i < state->fenced_count; i++)
	{
		if (!wall_clock_ahead(state->fenced[i].until, now, FENCE_USECS))
			state->fenced[i--] = state->fenced[--state->fenced_count];
		else if (state->fenced[i].database == database)
			fenced = true;
	}
	LWLockRelease(&state->lock);
	return fenced;
}

/*
 * Databases in which the extension may have been created since the last call,
 * up to max (at least MAX_PROBES).  *all: any may be concerned.  Returns how
 * many; they are taken, so the caller looks at each of them now.
 */
int
worker_slots_probes(Oid *databases, int max, bool *all)
{
	int			n;

	Assert(max >= MAX_PROBES);
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	*all = (state->probe_count < 0);
	Assert(state->probe_count <= MAX_PROBES);
	n = Max(state->probe_count, 0);
	memcpy(databases, state->probes, n * sizeof(Oid));
	state->probe_count = 0;
	LWLockRelease(&state->lock);
	return n;
}

/* ----------------------------------------------------------------
 * For the worker of a database
 * ----------------------------------------------------------------
 */

/*
 * The worker of a database has started.  Returns false if the slot is not its
 * own any more: the launcher that started it is gone, and the new one has given
 * the slot away, perhaps to another worker of the same database.  Then the
 * caller exits; else it calls worker_slots_end(), however it ends.
 */
bool
worker_slots_begin(int slot, uint32 reservation)
{
	bool		ours;

	Assert(slot >= 0 && slot < settings_max_workers);
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	ours = (OidIsValid(state->slots[slot].database) &&
			state->slots[slot].reservation == reservation &&
			!state->slots[slot].running);
	if (ours)
	{
		Assert(state->slots[slot].latch == NULL);
		state->slots[slot].running = true;
		state->slots[slot].latch = &MyProc->procLatch;
	}
	LWLockRelease(&state->lock);
	return ours;
}

/*
 * The worker of a database ends, which is returned: the caller tells those who
 * wait.  The launcher may not be the one that started it, which would be told
 * by the postmaster.  Such a launcher frees the slot as soon as it sees that it
 * is not running: so the database is read before.
 */
Oid
worker_slots_end(int slot, WorkerEnd end)
{
	Oid			database = state->slots[slot].database;

	Assert(slot >= 0 && slot < settings_max_workers);
	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	Assert(state->slots[slot].running);
	state->slots[slot].running = false;
	state->slots[slot].latch = NULL;
	state->slots[slot].end = end;
	if (state->launcher != NULL)
		SetLatch(state->launcher);
	LWLockRelease(&state->lock);
	ConditionVariableBroadcast(&state->stopped);
	return database;
}

/*
 * Is the worker to end?  Asked each time that it wakes up, so it ends soon
 * after ask_to_stop has set its latch.  Without the lock: the latch is set
 * after that, and reset by the worker before it asks.
 */
bool
worker_slots_stop_requested(int slot)
{
	Assert(slot >= 0 && slot < settings_max_workers);
	return ((volatile WorkerSlot *) state->slots)[slot].stop;
}

/*
 * The worker begins to look what is due.  What becomes due from now on is
 * noted for when it has looked.  The barrier: the time is reset before it
 * looks.  Else a backend could enter something after the look, find the time as
 * it was, early enough, and tell nothing.
 */
void
worker_slots_begin_look(int slot, WorkerLook look)
{
	Assert(slot >= 0 && slot < settings_max_workers);
	pg_atomic_write_u64(&state->slots[slot].next[look], PG_INT64_MAX);
	pg_memory_barrier();
}

/*
 * The worker has looked, and something is due at a time.  Returns when to
 * look again: then, or earlier if a backend has said so meanwhile.  Called
 * again each time that the worker wakes up, before it looks at the clock.
 */
TimestampTz
worker_slots_next_look(int slot, WorkerLook look, TimestampTz when)
{
	pg_atomic_uint64 *time = &state->slots[slot].next[look];

	Assert(slot >= 0 && slot < settings_max_workers);
	(void) make_earlier(time, when);
	return (TimestampTz) pg_atomic_read_u64(time);
}
