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
 * Locking: the lock guards all fields but next_wake, next_errand and
 * next_schedule, which are atomic.  Only worker_slots_wake_at and its like
 * read slots without the lock: in the worst case they set the latch of a
 * process that is not concerned.
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

#define MAX_PROBES		16
#define MAX_FENCED		16

/* A fence that no backend lifts (its process crashed) is over after this. */
#define FENCE_USECS		(INT64CONST(60) * USECS_PER_SEC)

/* How long to wait for a worker to stop. */
#define STOP_MSECS		10000

/*
 * A worker, or one that is to be.  A slot with a database that is not running
 * is of a worker that has not begun yet, or of one that has ended and that the
 * launcher has not seen to.  A running one has a latch.  The times are when its
 * worker is to come at the latest, by the wall clock; PG_INT64_MAX: not before
 * it is told.
 */
typedef struct WorkerSlot
{
	Oid			database;		/* InvalidOid: free */
	uint32		reservation;	/* which one of the slot it is */
	bool		running;
	bool		stop;			/* it is asked to stop */
	WorkerEnd	end;
	Latch	   *latch;			/* in the proc array */
	pg_atomic_uint64 next_wake; /* a TimestampTz */
	pg_atomic_uint64 next_errand;	/* another */
	pg_atomic_uint64 next_schedule; /* and another */
} WorkerSlot;

/* One for each command that has a database fenced: they may be several. */
typedef struct FencedDatabase
{
	Oid			database;
	TimestampTz until;
} FencedDatabase;

typedef struct WorkerSlotsState
{
	LWLock		lock;
	ConditionVariable stopped;	/* a worker is not running any more */
	Latch	   *launcher;		/* in the proc array; NULL: there is none */
	int			probe_count;	/* -1: all databases */
	Oid			probes[MAX_PROBES];
	uint32		reservations;	/* so far */
	int			fenced_count;
	FencedDatabase fenced[MAX_FENCED];
	WorkerSlot	slots[FLEXIBLE_ARRAY_MEMBER];
} WorkerSlotsState;

static WorkerSlotsState *state = NULL;

/*
 * The clock was set: whoever sleeps until a time has to look at it.  Called in
 * the process that has seen it, which has no lock of ours.
 */
static void
wake_all(const ClockStep *step)
{
	LWLockAcquire(&state->lock, LW_SHARED);
	for (int i = 0; i < settings_max_workers; i++)
	{
		WorkerSlot *slot = &state->slots[i];

		pg_atomic_write_u64(&slot->next_wake, 0);
		pg_atomic_write_u64(&slot->next_errand, 0);
		pg_atomic_write_u64(&slot->next_schedule, 0);
		if (slot->latch != NULL)
			SetLatch(slot->latch);
	}
	if (state->launcher != NULL)
		SetLatch(state->launcher);
	LWLockRelease(&state->lock);
}

Size
worker_slots_shmem_size(void)
{
	return add_size(offsetof(WorkerSlotsState, slots),
					mul_size(settings_max_workers, sizeof(WorkerSlot)));
}

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
		pg_atomic_init_u64(&state->slots[i].next_wake, PG_INT64_MAX);
		pg_atomic_init_u64(&state->slots[i].next_errand, PG_INT64_MAX);
		pg_atomic_init_u64(&state->slots[i].next_schedule, PG_INT64_MAX);
	}
}

/* ----------------------------------------------------------------
 * For everybody
 * ----------------------------------------------------------------
 */

/*
 * The slot of a database, or NULL.  Without the lock: it may be given to
 * another database at once.
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
 * Have a worker come at a time, if that is before its next.  The caller has
 * entered what is due before this.  So a worker that begins to look after it
 * finds that, and one that has begun finds the time when it is done: time was
 * PG_INT64_MAX since it began.  The latch is set after the time, for the worker
 * resets it before it looks at the time.
 */
static void
come_at(WorkerSlot *slot, pg_atomic_uint64 *time, TimestampTz when)
{
	uint64		next = pg_atomic_read_u64(time);

	while ((int64) next > when)
	{
		if (pg_atomic_compare_exchange_u64(time, &next, when))
		{
			Latch	   *latch = slot->latch;

			if (latch != NULL)
				SetLatch(latch);
			break;
		}
	}
}

/*
 * Something is due in a database at a time, which is 0 if that is at once.
 * Never fails: called at the end of transactions, under any lock, for it takes
 * none.  Without a worker nothing happens: a claim that finds no task does the
 * work then.
 */
void
worker_slots_wake_at(Oid database, TimestampTz when)
{
	WorkerSlot *slot = slot_of(database);

	if (slot != NULL)
		come_at(slot, &slot->next_wake, when);
}

/*
 * There is something to do for those who wait or listen, at a time.  Never
 * fails, and takes no lock.  The worker does not look at the queues for it.
 */
void
worker_slots_errand_at(Oid database, TimestampTz when)
{
	WorkerSlot *slot = slot_of(database);

	if (slot != NULL)
		come_at(slot, &slot->next_errand, when);
}

/*
 * Schedules of a database have come or changed.  Never fails, and takes no
 * lock.  Called at commit, when the worker can see them.
 */
void
worker_slots_schedules(Oid database)
{
	WorkerSlot *slot = slot_of(database);

	if (slot != NULL)
		come_at(slot, &slot->next_schedule, 0);
}

/*
 * Is a worker at work in this database?  Without the lock: it may begin or end
 * at any moment.  Whoever does a worker's work takes the locks that it does, so
 * that both may do it.
 */
bool
worker_slots_alive(Oid database)
{
	for (int i = 0; i < settings_max_workers; i++)
	{
		if (state->slots[i].database == database && state->slots[i].running)
			return true;
	}
	return false;
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
	bool		running = false;

	LWLockAcquire(&state->lock, LW_SHARED);
	for (int i = 0; i < settings_max_workers; i++)
		running |= (state->slots[i].database == database && state->slots[i].running);
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
	AssertLockedExclusively(&state->lock);
	Assert(OidIsValid(database));
	for (int i = 0; i < settings_max_workers; i++)
	{
		WorkerSlot *slot = &state->slots[i];

		if (slot->database == database)
		{
			slot->stop = true;
			if (slot->latch != NULL)
				SetLatch(slot->latch);
		}
	}
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
 * have a worker.  Does nothing more if it has none, for it is over.
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

/* No latch is set that may be another process's by then. */
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
		slot->running = false;
		slot->stop = false;
		slot->end = WORKER_FAILED;
		slot->latch = NULL;
		pg_atomic_write_u64(&slot->next_wake, PG_INT64_MAX);
		pg_atomic_write_u64(&slot->next_errand, PG_INT64_MAX);
		pg_atomic_write_u64(&slot->next_schedule, PG_INT64_MAX);
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
 * WORKER_FAILED if it did not come to say so.  The slot is free.
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
 * The slot of a database's worker; -1: it has none.
 */
int
worker_slots_find(Oid database)
{
	int			result = -1;

	LWLockAcquire(&state->lock, LW_SHARED);
	for (int i = 0; i < settings_max_workers; i++)
	{
		if (state->slots[i].database == database)
			result = i;
	}
	LWLockRelease(&state->lock);
	return result;
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
	state->slots[slot].running = false;
	state->slots[slot].latch = NULL;
	state->slots[slot].end = end;
	if (state->launcher != NULL)
		SetLatch(state->launcher);
	LWLockRelease(&state->lock);
	ConditionVariableBroadcast(&state->stopped);
	return database;
}

/* Is the worker to end?  Asked each time that it wakes up. */
bool
worker_slots_stop_requested(int slot)
{
	bool		stop;

	Assert(slot >= 0 && slot < settings_max_workers);
	LWLockAcquire(&state->lock, LW_SHARED);
	stop = state->slots[slot].stop;
	LWLockRelease(&state->lock);
	return stop;
}

/*
 * The worker begins to look what is due.  What becomes due from now on is
 * noted for when it has looked.  The barrier: the time is reset before it
 * looks.  Else a backend could enter something after the look, find the time as
 * it was, early enough, and tell nothing.
 */
void
worker_slots_pass_begins(int slot)
{
	Assert(slot >= 0 && slot < settings_max_workers);
	pg_atomic_write_u64(&state->slots[slot].next_wake, PG_INT64_MAX);
	pg_memory_barrier();
}

/* The worker begins to look which errands there are, as with a pass. */
void
worker_slots_errands_begin(int slot)
{
	pg_atomic_write_u64(&state->slots[slot].next_errand, PG_INT64_MAX);
	pg_memory_barrier();
}

/* The worker begins to look which schedules are due, as with a pass. */
void
worker_slots_schedules_begin(int slot)
{
	pg_atomic_write_u64(&state->slots[slot].next_schedule, PG_INT64_MAX);
	pg_memory_barrier();
}

/*
 * Set a time to when unless it is earlier already.  Returns what it is then.
 */
static TimestampTz
earlier(pg_atomic_uint64 *time, TimestampTz when)
{
	uint64		next = pg_atomic_read_u64(time);

	while ((int64) next > when)
	{
		if (pg_atomic_compare_exchange_u64(time, &next, when))
			return when;
	}
	return (TimestampTz) next;
}

/*
 * The worker has looked, and something is due at a time.  Returns when to
 * look again: then, or earlier if a backend has said so meanwhile.  Called
 * again each time that the worker wakes up, before it looks at the clock.
 */
TimestampTz
worker_slots_next(int slot, TimestampTz when)
{
	Assert(slot >= 0 && slot < settings_max_workers);
	return earlier(&state->slots[slot].next_wake, when);
}

/* When to look for errands again, as with a pass. */
TimestampTz
worker_slots_next_errand(int slot, TimestampTz when)
{
	return earlier(&state->slots[slot].next_errand, when);
}

/* When to look for schedules again, as with a pass. */
TimestampTz
worker_slots_next_schedule(int slot, TimestampTz when)
{
	return earlier(&state->slots[slot].next_schedule, when);
}
