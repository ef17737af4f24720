/*-------------------------------------------------------------------------
 *
 * call_limit.c
 *	  How long a call at a node may take, and how it ends before that.
 *
 * PL/Proxy waits for a node without a limit: its own query_timeout and
 * connect_timeout are looked at only when something has come from the node.
 * But it looks for a cancel whenever a signal comes.  So while a call is under
 * way a timer looks whether its time is over, or the probe of nodes has found
 * that the server does not answer, and then cancels the call, and only that.
 *
 * PL/Proxy must not hear of a cancel, be it ours or one that is meant for the
 * statement.  It would ask the node to cancel the call, and wait for the end of
 * that connection without a limit, in a loop of libpq that no signal ends.  So
 * an error that means a cancel has another SQLSTATE on its way through
 * PL/Proxy, and gets its own back here.  After any other error PL/Proxy only
 * leaves the connection, and drops it at its next use.
 *
 * A cancel of the statement that comes when ours has been set, and has had no
 * effect yet, must not be taken for ours: we count the signals.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "cluster/engine_link.h"
#include "cluster/node_call.h"
#include "cluster/node_health.h"

/* How often to look. */
#define TICK_MSECS		100

/* A call that has taken less is left to end, whatever the probe says. */
#define SILENT_TICKS	10

static TimeoutId timer = MAX_TIMEOUTS;	/* not registered */

/* Of the call under way. */
static volatile bool watching = false;
static volatile CallEnd wanted;
static volatile int64 ticks;
static volatile int64 limit;	/* ticks; CALL_UNLIMITED */
static volatile int server_called;

/* The error under way was a cancel. */
static volatile bool hidden;

/* Cancels of statements, counted. */
static volatile sig_atomic_t cancels = 0;

static void
count_cancel(SIGNAL_ARGS)
{
	cancels++;
	StatementCancelHandler(postgres_signal_arg);
}

/*
 * The timer, in a signal handler.  Where a cancel is pending the call ends
 * anyway.
 */
static void
tick(void)
{
	CallEnd		end = CALL_ENDED;

	if (!watching || wanted != CALL_ENDED)
		return;
	ticks++;
	if (limit != CALL_UNLIMITED && ticks > limit)
		end = CALL_TOO_LONG;
	else if (ticks >= SILENT_TICKS && node_health_of(server_called) == NODE_HEALTH_SILENT)
		end = CALL_SILENT;
	if (end == CALL_ENDED || QueryCancelPending)
		return;
	wanted = end;
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

/* Called by ereport: an error of the call is not to look like a cancel. */
static void
hide_cancel(void *arg)
{
	if (geterrcode() != ERRCODE_QUERY_CANCELED)
		return;
	hidden = true;
	errcode(ERRCODE_INTERNAL_ERROR);
}

static void
begin(int server, int64 msecs)
{
	if (timer == MAX_TIMEOUTS)
	{
		timer = RegisterTimeout(USER_TIMEOUT, tick);
		if (MyBackendType == B_BACKEND)
			pqsignal(SIGINT, count_cancel);
	}
	wanted = CALL_ENDED;
	ticks = 0;
	limit = msecs == CALL_UNLIMITED ? CALL_UNLIMITED : msecs / TICK_MSECS;
	server_called = server;
	hidden = false;
	watching = true;
	enable_timeout_every(timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), TICK_MSECS),
						 TICK_MSECS);
}

/*
 * Call work(arg), which calls a node, in a subtransaction.  Returns NULL, or
 * its error, with what has ended it.  Nothing is pending afterwards but a
 * cancel of the statement.
 *
 * server: the number of node_health.c; msecs: how long it may take.
 */
ErrorData *
call_limit_run(void (*work) (void *arg), void *arg, int server, int64 msecs, CallEnd *end)
{
	ErrorContextCallback context;
	ErrorData  *error;
	bool		cancelled;
	int			before = cancels;

	context.callback = hide_cancel;
	context.arg = NULL;
	context.previous = error_context_stack;
	begin(server, msecs);
	error_context_stack = &context;
	error = engine->run_as_try_all(work, arg);
	error_context_stack = context.previous;
	watching = false;
	disable_timeout(timer, false);

	*end = CALL_ENDED;
	if (error != NULL && hidden)
		error->sqlerrcode = ERRCODE_QUERY_CANCELED;

	/* What the node itself has cancelled, or its user, is an error of it. */
	cancelled = error != NULL && hidden && strstr(error->message, "] REMOTE ") == NULL;
	if (cancelled)
		*end = wanted != CALL_ENDED && cancels == before ? wanted : CALL_CANCELLED;
	else if (wanted != CALL_ENDED && cancels == before)
		QueryCancelPending = false;
	return error;
}
