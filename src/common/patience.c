/*-------------------------------------------------------------------------
 *
 * patience.c
 *	  How long the worker waits for others in one piece of work.
 *
 * One process does for all queues of a database what time does to them.  What
 * it does for one of them may have to wait: for a lock on a table of the
 * queue, or on one of ours; for another transaction, behind a unique index of
 * a user's; or for code that the owner has attached to a table and that
 * sleeps.  All of that is bounded here, and nowhere else.  A piece of work is
 * a pass over a queue, a tick of a schedule, or what else is done in one
 * transaction, from patience_begin() to patience_end().  While it is under way
 * a timer looks every few milliseconds what the process is at, and adds up how
 * long it has waited for locks, and how long it has run or slept.  When either
 * is too much the work is cancelled, as by pg_cancel_backend(); the caller sets
 * aside what it was for, and goes on with the next.
 *
 * lock_timeout would not do.  It is for each wait, of which a pass may have a
 * thousand; it says nothing of code that sleeps; and that code may turn it off.
 *
 * What does not count: disk and LWLocks, which no cancel would end; time in
 * which the process is ready to run and others have the processor; and work of
 * our own that takes long and runs no code of others (patience_own_work).
 *
 * Patience is shared.  What was lost in work that was cancelled is given to the
 * others: for a while there is less of it, so that a hundred queues that are
 * stuck take little more than one.
 *
 * Code can catch the cancel and go on.  It is cancelled again, and then the
 * process ends, and what it was at is noted where the next process sees it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/lsyscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "common/compat.h"
#include "common/run_as.h"

/* How often to look, in milliseconds; a look that comes late counts for no
 * more than LATE_USECS. */
#define LOOK_MSECS			20
#define LATE_USECS			(5 * LOOK_MSECS * 1000)

/* How long a piece of work may wait for locks, and take; and what is left to
 * it when others have lost as much before. */
#define LOCK_USECS			250000
#define LOCK_LEAST_USECS	20000
#define CODE_USECS			500000
#define CODE_LEAST_USECS	100000

/* Of a second that passes, so much of what was lost is forgotten. */
#define REGAIN				4

/* Cancelled work is cancelled again after this, and the process ends after
 * that. */
#define AGAIN_USECS			100000
#define END_USECS			500000

/* Time without a wait event counts for so much less, for it may be that others
 * have the processor; but what the processor was used counts in full. */
#define UNKNOWN_SHARE		2

typedef enum Loss
{
	LOST_NOTHING,
	LOST_TO_LOCK,
	LOST_TO_CODE
} Loss;

static TimeoutId timer = MAX_TIMEOUTS;	/* none: this is not the worker */
static bool watching = false;

/* Written by the timer's signal handler, too. */
static volatile Loss loss = LOST_NOTHING;
static volatile bool gave_up = false;
static volatile bool own_work = false;
static TimestampTz *volatile rest_mark = NULL;
static int64 lock_limit,
			code_limit;
static volatile int64 lock_waited,
			code_taken,
			seen_at,
			seen_cpu;

/* The lock that was waited for, if lock_known. */
static volatile bool lock_known = false;
static LOCKTAG lock_tag;
static LOCKMODE lock_mode;

/* What was lost by the time lost_at. */
static int64 lost_usecs = 0;
static int64 lost_at = 0;

static int64
clock_usecs(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64) now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

static void
cancel(void)
{
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
}

/*
 * Which lock is waited for.  Others may end the wait at any moment, so that
 * what is read may be of a lock since gone: it is only told to people.
 */
static void
note_lock(void)
{
	LOCK	   *lock = MyProc->waitLock;

	if (lock == NULL)
		return;
	lock_tag = lock->tag;
	lock_mode = MyProc->waitLockMode;
	lock_known = true;
}

/*
 * The timer: what is the process at?  Called in a signal handler.
 */
static void
look(void)
{
	uint32		class = *(volatile uint32 *) my_wait_event_info & 0xFF000000;
	int64		now = clock_usecs(CLOCK_MONOTONIC);
	int64		cpu = clock_usecs(CLOCK_PROCESS_CPUTIME_ID);
	int64		passed = Min(now - seen_at, LATE_USECS);
	int64		used = cpu - seen_cpu;

	seen_at = now;
	seen_cpu = cpu;
	if (!watching)
		return;
	if (class == PG_WAIT_LOCK)
	{
		lock_waited += passed;
		note_lock();
	}
	else if (class == 0)
		code_taken += own_work ? 0 : Max(used, passed / UNKNOWN_SHARE);
	else if (class != PG_WAIT_IO && class != PG_WAIT_LWLOCK)
		code_taken += passed;

	if (loss == LOST_NOTHING)
	{
		if (lock_waited >= lock_limit)
			loss = LOST_TO_LOCK;
		else if (code_taken >= code_limit)
			loss = LOST_TO_CODE;
		if (loss != LOST_NOTHING)
			cancel();
		return;
	}
	if (lock_waited + code_taken >= lock_limit + code_limit + END_USECS)
	{
		gave_up = true;
		if (rest_mark != NULL)
			*rest_mark = GetCurrentTimestamp() + PATIENCE_REST_USECS;
		ProcDiePending = true;
	}
	if (lock_waited + code_taken >= lock_limit + code_limit + AGAIN_USECS)
		cancel();
}

/*
 * This process has patience, to an extent; others wait as any backend does.
 * Called once.
 */
void
patience_register(void)
{
	timer = RegisterTimeout(USER_TIMEOUT, look);
}

/* Count what was lost, and say how much still is. */
static int64
reckon(int64 loses)
{
	int64		now = clock_usecs(CLOCK_MONOTONIC);

	lost_usecs = Max(lost_usecs - (now - lost_at) / REGAIN, 0) + loses;
	lost_at = now;
	return lost_usecs;
}

/*
 * What was under way is over.  It is no longer cancelled, if it was to be.
 */
static void
settle(void)
{
	if (!watching)
		return;
	watching = false;
	if (loss == LOST_NOTHING)
		return;
	QueryCancelPending = false;
	(void) reckon(lock_waited + code_taken);
}

/*
 * A piece of work begins; what was under way is over.
 */
void
patience_begin(void)
{
	int64		lost;

	if (timer == MAX_TIMEOUTS)
		return;
	settle();
	loss = LOST_NOTHING;
	lock_waited = code_taken = 0;
	lock_known = false;
	rest_mark = NULL;
	own_work = false;
	lost = reckon(0);
	lock_limit = Max(LOCK_USECS - lost, LOCK_LEAST_USECS);
	code_limit = Max(CODE_USECS - lost, CODE_LEAST_USECS);
	seen_at = lost_at;
	seen_cpu = clock_usecs(CLOCK_PROCESS_CPUTIME_ID);
	watching = true;
	if (!get_timeout_active(timer))
		enable_timeout_every(timer, GetCurrentTimestamp() + LOOK_MSECS * INT64CONST(1000),
							 LOOK_MSECS);
}

/*
 * The work is over, well or not.  Called before anything else that is done
 * after an error, or that might be cancelled; what was lost can be asked for
 * until the next begins.
 */
void
patience_end(void)
{
	if (timer == MAX_TIMEOUTS)
		return;
	disable_timeout(timer, false);
	settle();
}

/*
 * The work that is under way runs code of a queue's: should it not end when it
 * is cancelled, until when to leave it alone is noted here.  NULL: nowhere.
 */
void
patience_of(TimestampTz *rests_until)
{
	rest_mark = rests_until;
}

/* Was the work cancelled? */
bool
patience_lost(void)
{
	return loss != LOST_NOTHING;
}

/* Does the process end because it was cancelled in vain? */
bool
patience_gave_up(void)
{
	return gave_up;
}

/*
 * What follows takes its time, and runs no code of others (own); or not any
 * more, which after an error is so without a call.
 */
void
patience_own_work(bool own)
{
	own_work = own;
}

/* The process that has the lock, or stands before us; 0: it cannot be told. */
static int
holder(void)
{
	int			n;
	VirtualTransactionId *holders = GetLockConflicts(&lock_tag, lock_mode, &n);

	for (int i = 0; i < n; i++)
	{
		int			pid = fairq_process_of(holders[i]);

		if (pid != 0)
			return pid;
	}
	return 0;
}

/* What is locked. */
static const char *
locked_object(void)
{
	char	   *name = NULL;

	switch ((LockTagType) lock_tag.locktag_type)
	{
		case LOCKTAG_RELATION:
		case LOCKTAG_RELATION_EXTEND:
		case LOCKTAG_PAGE:
		case LOCKTAG_TUPLE:
			name = get_rel_name(lock_tag.locktag_field2);
			return name == NULL ? psprintf("relation %u", lock_tag.locktag_field2) :
				psprintf("relation \"%s.%s\"",
						 get_namespace_name(get_rel_namespace(lock_tag.locktag_field2)),
						 name);
		case LOCKTAG_TRANSACTION:
		case LOCKTAG_VIRTUALTRANSACTION:
		case LOCKTAG_SPECULATIVE_TOKEN:
			return psprintf("the end of transaction %u", lock_tag.locktag_field1);
		default:
			break;
	}
	return GetLockNameFromTagType(lock_tag.locktag_type);
}

/*
 * An error is that of the work.  If that was cancelled here, say why.  Called
 * in a transaction; what is said is in the memory context of the error.
 */
void
patience_explain(ErrorData *error)
{
	Loss		why = loss;
	MemoryContext old;

	if (why == LOST_NOTHING || error->sqlerrcode != ERRCODE_QUERY_CANCELED)
		return;
	old = MemoryContextSwitchTo(error->assoc_context);
	if (why == LOST_TO_LOCK)
	{
		int			pid = lock_known ? holder() : 0;

		error->sqlerrcode = ERRCODE_LOCK_NOT_AVAILABLE;
		error->message = psprintf("waited for %s for longer than %d ms",
								  lock_known ? locked_object() : "a lock",
								  (int) (lock_limit / 1000));
		error->detail = pid == 0 ? NULL : psprintf("Process %d has it.", pid);
	}
	else
		error->message = psprintf("it took longer than %d ms", (int) (code_limit / 1000));
	MemoryContextSwitchTo(old);
}
