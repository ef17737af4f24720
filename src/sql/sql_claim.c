/*-------------------------------------------------------------------------
 *
 * sql_claim.c
 *	  The functions of schema fairq that claim, and wait for something to claim:
 *	  arguments, privileges, and the wait.
 *
 * A claim that may wait looks once; if there is nothing it joins those who
 * wait (waiters.c), looks again, and sleeps until it is told or its time is
 * up.  While it sleeps it has no lock on the queue's table, so it is not in
 * the way: the table may be altered, rewritten or dropped.  It opens the
 * queue anew when it looks again, privileges and settings included.
 *
 * A call may be about one queue or several.  Several are all opened before the
 * first is looked at, so that one that may not be claimed from, or is no more,
 * is an error before anything is leased.  A backend that was told, and wants
 * one task, looks only at those queues that it was told of: of what there may
 * be in the others, other waiters were told.
 *
 * What it cannot let go is the snapshot of its statement, which keeps vacuum
 * from removing rows for as long.  fairq.wait is a procedure so that it can:
 * it ends its transaction before each sleep.  fairq_internal.wait_ready waits
 * without that, for a short time, where only a SELECT gets through.
 *
 * Where there is no background worker, a backend that waits does its work:
 * once a second, or when something is due, it looks what is.  A claim does it
 * in its caller's transaction, so it has to come back for others to see what
 * it did.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "maintenance/maintain.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"
#include "sql/arguments.h"
#include "sql/result_rows.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "verbs/claim.h"
#include "verbs/settle.h"

/* How often to look, without a worker; and not more often than. */
#define ALONE_USECS		USECS_PER_SEC
#define PAUSE_USECS		INT64CONST(10000)

/* How long fairq.wait waits if nothing else is said. */
#define WAIT_DEFAULT	(30 * USECS_PER_SEC)

/* And how long fairq_internal.wait_ready does at most. */
#define MAX_WAIT_READY	(5 * USECS_PER_SEC)

/*
 * How soon to look again while a queue has suspects: a claim may have one that
 * it could not have before, and is not told so (claim_suspects.c).
 */
#define SUSPECTS_USECS	INT64CONST(500000)

/* And how long fairq.wait waits at least then. */
#define SUSPECTS_PAUSE_USECS	INT64CONST(100000)

/* How long not to repeat a pass of maintenance that could do nothing. */
#define PASS_USECS		INT64CONST(250000)

PG_FUNCTION_INFO_V1(fairq_claim);
PG_FUNCTION_INFO_V1(fairq_pop);
PG_FUNCTION_INFO_V1(fairq_ack_and_claim);
PG_FUNCTION_INFO_V1(fairq_wait);
PG_FUNCTION_INFO_V1(fairq_claim_any);
PG_FUNCTION_INFO_V1(fairq_wait_any);
PG_FUNCTION_INFO_V1(fairq_wait_ready);

/* A queue that a call is about, and that is open while it is looked at. */
typedef struct AskedQueue
{
	text	   *name;
	Relation	rel;
	QueueInfo  *info;
} AskedQueue;

/* A call that claims. */
typedef struct ClaimCall
{
	FunctionCallInfo fcinfo;
	int			count;
	AskedQueue *queues;
	AskedQueue	one;			/* if there is only one */
	bool		named;			/* rows begin with the name of the queue */
	int			max_tasks;		/* of all queues */
	int64		wait;			/* for something to claim, in microseconds */

	/* Numbers of arguments; -1: the function does not have it. */
	int			session;
	int			buckets;
	int			group_keys;

	/* Of the look at hand. */
	bool		alone;			/* it has a suspect, and takes nothing else */
	ClaimRequest request;
	AskedQueue *looked_at;
} ClaimCall;

/*
 * There is nothing to claim, and no worker to see to it that there is: do its
 * work, for the next claim.  Only if there is any: it takes a transaction id.
 * Returns whether that was begun: then no other backend can until we commit.
 */
static bool
maintain_without_worker(Relation rel, QueueInfo *info)
{
	pg_atomic_uint64 *pass_after = &info->state->pass_after;
	Maintenance maintenance = {.claiming = true};
	TimestampTz now = GetCurrentTimestamp();

	if (worker_slots_alive(MyDatabaseId) || info->paused ||
		wall_clock_ahead((TimestampTz) pg_atomic_read_u64(pass_after), now, PASS_USECS) ||
		!maintain_is_due(info) ||
		!ConditionalLockRelationOid(RelationGetRelid(rel), RowExclusiveLock))
		return false;

	/* Another transaction may be writing what is due for long. */
	if (!maintain_pass(rel, info, &maintenance) && maintenance.moved == 0)
		pg_atomic_write_u64(pass_after, Min(maintenance.next, now + PASS_USECS));
	return maintenance.begun;
}

/* Where the tasks go that are claimed. */
static void
take_task(RowReader *row, const LeaseInfo *lease, void *arg)
{
	ClaimCall  *call = arg;
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) call->fcinfo->resultinfo;

	call->alone |= row_reader_is_suspect(row);
	if (call->named)
		result_rows_put_queue_task(row, lease, rsinfo, call->looked_at->name);
	else
		result_rows_put_task(row, lease, rsinfo);
}

/* As take_task(), while others wait, too. */
static void
take_awaited_task(RowReader *row, const LeaseInfo *lease, void *arg)
{
	text	   *key = DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY));

	waiters_took(DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS))->bucket,
				 key);
	take_task(row, lease, arg);
}

/*
 * When a backend without a worker has to look what is due of a queue, by the
 * clock that cannot be set, which it is by now.
 */
static int64
next_look_at(QueueInfo *info, int64 real_now)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next = wall_clock_earlier(maintain_next_due(info), now + ALONE_USECS);

	/* Due already, but another backend is at it, or it has to wait. */
	if (next <= now)
		next = now + PASS_USECS;
	return real_now + Max(next - now, PAUSE_USECS);
}

/* And of several. */
static int64
next_look(const AskedQueue *queues, int count, int64 real_now)
{
	int64		next = next_look_at(queues[0].info, real_now);

	for (int i = 1; i < count; i++)
		next = Min(next, next_look_at(queues[i].info, real_now));
	return next;
}

/* Has any of the queues suspects that have a place? */
static bool
any_suspects(const AskedQueue *queues, int count)
{
	bool		result = false;

	for (int i = 0; i < count; i++)
		result |= suspects_any(queues[i].info->state);
	return result;
}

static void
open_queues(AskedQueue *queues, int count, LOCKMODE lockmode, AclMode privileges)
{
	for (int i = 0; i < count; i++)
		queues[i].info = queue_open(queues[i].name, lockmode, privileges, &queues[i].rel);
}

static void
close_queues(AskedQueue *queues, int count, LOCKMODE lockmode)
{
	for (int i = 0; i < count; i++)
		relation_close(queues[i].rel, lockmode);
}

/*
 * Is it enough to look at the queues that we were told of?  Without a worker
 * there may be something to do in any.
 */
static bool
only_where_told(void)
{
	return waiters_told() && worker_slots_alive(MyDatabaseId);
}

/*
 * Sleep until there may be something to claim, or until deadline; without a
 * worker, or if it ends, until alone.  Both are by wall_clock_real.
 */
static void
sleep_until_told(int64 deadline, int64 alone)
{
	bool		worker = worker_slots_alive(MyDatabaseId);
	int64		until = worker ? deadline : Min(deadline, alone);

	while (!waiters_told() && worker_slots_alive(MyDatabaseId) == worker &&
		   wall_clock_sleep(until, FAIRQ_WAIT_TASKS))
		CHECK_FOR_INTERRUPTS();
}

/* Open the queues, and read those arguments that depend on what others do. */
static void
begin_look(ClaimCall *call, LOCKMODE lockmode, AclMode privileges)
{
	ClaimRequest *request = &call->request;

	request->bucket_count = -1;
	request->group_count = -1;
	if (call->session >= 0)
		request->session = arguments_session(call->fcinfo, call->session);
	open_queues(call->queues, call->count, lockmode, privileges);
	if (call->buckets >= 0)
		arguments_buckets(call->fcinfo, call->buckets, call->queues[0].info, request);
	if (call->group_keys >= 0)
		arguments_groups(call->fcinfo, call->group_keys, request);
}

/*
 * Join those who wait for a queue, and claim from it.  Returns how many tasks.
 */
static int
claim_awaited(ClaimCall *call, int number)
{
	const AskedQueue *queue = &call->queues[number];
	const ClaimRequest *request = &call->request;
	WaiterWants wanted = {queue->info->state, true, queue->info->buckets,
		request->bucket_count, request->buckets,
	request->group_count, request->groups};
	int			got;

	waiters_begin(&wanted, number);
	got = claim_tasks(queue->rel, queue->info, request, take_awaited_task, call);
	waiters_looked(got, queue_ready_bucket);
	return got;
}

/*
 * Claim from the queues, one after the other.  Returns whether the call is
 * over: there was something, or the worker's work was done and is to be
 * committed.
 */
static bool
claim_from_queues(ClaimCall *call, bool waiting)
{
	ClaimRequest *request = &call->request;
	bool		told_only = waiting && call->max_tasks == 1 && only_where_told();
	bool		over = false;

	request->max_tasks = call->max_tasks;
	for (int i = 0; i < call->count && request->max_tasks > 0 && !call->alone; i++)
	{
		AskedQueue *queue = &call->queues[i];
		int			got;

		if (told_only && !waiters_told_in(i))
			continue;
		call->looked_at = queue;
		request->beside = (request->max_tasks < call->max_tasks);
		if (waiting)
			got = claim_awaited(call, i);
		else
			got = claim_tasks(queue->rel, queue->info, request, take_task, call);
		request->max_tasks -= got;
		over |= (got > 0);

		/* What has expired does not wait for a claim that finds nothing. */
		if (got == 0 || unlikely(queue->info->state->expiry.passed_over))
			over |= maintain_without_worker(queue->rel, queue->info);
	}
	return over;
}

/*
 * Claim into the result.
 */
static void
claim_into(ClaimCall *call)
{
	bool		pop = call->request.pop;
	LOCKMODE	lockmode = pop ? RowExclusiveLock : RowShareLock;
	AclMode		privileges = ACL_SELECT | (pop ? ACL_DELETE : ACL_UPDATE);
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext look = NULL;
	int64		deadline = 0;	/* by wall_clock_real */

	result_rows_begin(call->fcinfo);
	for (;;)
	{
		int64		now;
		int64		alone;
		int64		until;

		if (look != NULL)
			MemoryContextSwitchTo(look);
		begin_look(call, lockmode, privileges);
		if (claim_from_queues(call, deadline != 0) || call->wait == 0)
			break;

		now = wall_clock_real();
		if (deadline == 0)
		{
			/* Once more, from where we cannot miss anything. */
			deadline = now + call->wait;
			look = AllocSetContextCreate(outer, "pgfairq look", ALLOCSET_DEFAULT_SIZES);
			close_queues(call->queues, call->count, lockmode);
			continue;
		}
		if (now >= deadline)
			break;
		alone = next_look(call->queues, call->count, now);
		until = (any_suspects(call->queues, call->count) ||
				 quarantine_is_on(call->request.session.number)) ?
			Min(deadline, now + SUSPECTS_USECS) : deadline;
		close_queues(call->queues, call->count, lockmode);
		MemoryContextSwitchTo(outer);
		MemoryContextReset(look);
		sleep_until_told(until, alone);
	}
	waiters_end();
	close_queues(call->queues, call->count, NoLock);
	MemoryContextSwitchTo(outer);
}

/* A call about the one queue that argument 0 names. */
static void
begin_call(ClaimCall *call, FunctionCallInfo fcinfo)
{
	arguments_begin(fcinfo);
	call->fcinfo = fcinfo;
	call->one.name = arguments_queue(fcinfo);
	call->queues = &call->one;
	call->count = 1;
	call->session = call->buckets = call->group_keys = -1;
	call->request.lease = -1;
	call->request.session.number = NO_SESSION;
}

static AskedQueue *
asked_queues(text **names, int count)
{
	AskedQueue *queues = palloc0(count * sizeof(AskedQueue));

	for (int i = 0; i < count; i++)
		queues[i].name = names[i];
	return queues;
}

/* How long to wait for a task, in microseconds: argument number. */
static int64
wait_argument(FunctionCallInfo fcinfo, int number)
{
	return arguments_duration(fcinfo, number, "wait", 0, true);
}

/* Arguments from max_tasks on: max_tasks, lease, session, wait. */
static void
claim_arguments(ClaimCall *call, int first)
{
	FunctionCallInfo fcinfo = call->fcinfo;

	call->max_tasks = arguments_max_tasks(fcinfo, first, 1);
	call->request.lease = arguments_duration(fcinfo, first + 1, "lease", -1, false);
	call->session = first + 2;
	(void) arguments_session(fcinfo, call->session);
	call->wait = wait_argument(fcinfo, first + 3);
}

Datum
fairq_claim(PG_FUNCTION_ARGS)
{
	ClaimCall	call = {0};

	begin_call(&call, fcinfo);
	claim_arguments(&call, 1);
	call.buckets = 5;
	call.group_keys = 6;
	claim_into(&call);
	return (Datum) 0;
}

/*
 * From the queues in the order given, and from each in its order.
 */
Datum
fairq_claim_any(PG_FUNCTION_ARGS)
{
	ClaimCall	call = {.fcinfo = fcinfo,.named = true,.buckets = -1,.group_keys = -1};
	text	  **names;

	arguments_begin(fcinfo);
	call.count = arguments_queues(fcinfo, &names);
	call.queues = asked_queues(names, call.count);
	claim_arguments(&call, 1);
	claim_into(&call);
	return (Datum) 0;
}

Datum
fairq_pop(PG_FUNCTION_ARGS)
{
	ClaimCall	call = {0};

	begin_call(&call, fcinfo);
	call.max_tasks = arguments_max_tasks(fcinfo, 1, 1);
	call.request.pop = true;
	call.wait = wait_argument(fcinfo, 2);
	call.buckets = 3;
	call.group_keys = 4;
	claim_into(&call);
	return (Datum) 0;
}

/*
 * What was acknowledged is so when the transaction commits, and the caller does
 * not want that to wait for the next task: then it does not.
 */
Datum
fairq_ack_and_claim(PG_FUNCTION_ARGS)
{
	ClaimCall	call = {0};
	Settlement	settlement;
	Datum	   *receipts;
	int			n;

	begin_call(&call, fcinfo);
	n = arguments_receipts(fcinfo, 1, &receipts);
	claim_arguments(&call, 2);

	settle_begin(&settlement, SETTLE_ACK);
	for (int i = 0; i < n; i++)
	{
		if (settle_receipt(&settlement, DatumGetUUIDP(receipts[i])))
			call.wait = 0;
	}
	settle_end(&settlement);
	claim_into(&call);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 * fairq.wait, fairq.wait_any, fairq_internal.wait_ready
 * ----------------------------------------------------------------
 */

/*
 * Does a queue look as if there were something to claim?  Reads what of its
 * lanes has not been read.
 */
static bool
anything_ready(Relation rel, QueueInfo *info)
{
	QueueState *state = info->state;

	if (info->paused)
		return false;

	recovery_classes(rel, info);
	for (int class = 0; class < state->classes; class++)
	{
		Lane	   *lane;

		for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
		{
			LaneTop		top;

			if (claim_look(rel, info, lane, &top))
				return true;
		}
	}
	return false;
}

/*
 * Look at the queues, one after the other, having joined those who wait for
 * each.  Returns whether there seems to be something to claim in one; if not,
 * *maintained is whether the worker's work was done and is to be committed.
 */
static bool
anything_in_queues(AskedQueue *queues, int count, bool *maintained)
{
	bool		told_only = only_where_told();

	*maintained = false;
	for (int i = 0; i < count; i++)
	{
		QueueInfo  *info = queues[i].info;
		WaiterWants wanted = {.queue = info->state,.bucket_count = -1,.group_count = -1};
		bool		ready;

		if (told_only && !waiters_told_in(i))
			continue;
		waiters_begin(&wanted, i);
		ready = anything_ready(queues[i].rel, info);
		waiters_looked(ready ? 1 : 0, queue_ready_bucket);
		if (ready)
			return true;
		*maintained |= maintain_without_worker(queues[i].rel, info);
	}
	return false;
}

/*
 * Wait for something to claim, or until deadline, by wall_clock_real.  Returns
 * whether there may be something.
 *
 * In a procedure the transaction ends before each sleep.  Elsewhere it goes on,
 * so that what the worker's work makes claimable is so when the caller commits:
 * then there is nothing to wait for.
 */
static bool
wait_for_queues(text **names, int count, int64 deadline, bool procedure)
{
	MemoryContext outer;
	MemoryContext look;
	AskedQueue *queues;
	bool		ready;
	bool		maintained;
	bool		suspects;

	if (procedure)
		SPI_connect_ext(SPI_OPT_NONATOMIC);
	outer = CurrentMemoryContext;
	queues = asked_queues(names, count);
	for (int i = 0; i < count; i++)
		queues[i].name = DatumGetTextPCopy(PointerGetDatum(names[i]));
	look = AllocSetContextCreate(outer, "pgfairq look", ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		int64		now;
		int64		alone;

		MemoryContextSwitchTo(look);
		if (procedure)
			PushActiveSnapshot(GetTransactionSnapshot());
		open_queues(queues, count, AccessShareLock, ACL_SELECT);
		ready = anything_in_queues(queues, count, &maintained);
		now = wall_clock_real();
		alone = next_look(queues, count, now);
		suspects = any_suspects(queues, count);
		if (procedure)
			PopActiveSnapshot();
		close_queues(queues, count, AccessShareLock);
		MemoryContextSwitchTo(outer);
		MemoryContextReset(look);
		if (ready || (maintained && !procedure) || (now >= deadline && !maintained))
			break;

		if (procedure)
		{
			/* Lets go of snapshots, those of a calling procedure, too. */
			SPI_commit();
			InvalidateCatalogSnapshot();
		}
		if (!maintained)
			sleep_until_told(deadline, alone);
	}
	waiters_end();
	MemoryContextDelete(look);
	if (procedure)
		SPI_finish();

	/* Perhaps there are only suspects, which the caller may not have yet. */
	if (ready && suspects)
	{
		(void) WaitLatch(MyLatch, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, SUSPECTS_PAUSE_USECS / 1000,
						 shared_memory_wait_event(FAIRQ_WAIT_TASKS));
		CHECK_FOR_INTERRUPTS();
	}
	return ready || maintained;
}

/* A procedure that waits; instead of it is said what else there is. */
static Datum
wait_in_procedure(FunctionCallInfo fcinfo, text **names, int count, const char *instead)
{
	int64		deadline = wall_clock_real() +
		arguments_duration(fcinfo, 1, "timeout", WAIT_DEFAULT, true);

	arguments_outside_transaction(fcinfo, instead);
	(void) wait_for_queues(names, count, deadline, true);
	PG_RETURN_VOID();
}

/*
 * fairq.wait(queue, timeout)
 */
Datum
fairq_wait(PG_FUNCTION_ARGS)
{
	text	   *name;

	arguments_begin(fcinfo);
	name = arguments_queue(fcinfo);
	return wait_in_procedure(fcinfo, &name, 1, "fairq.claim()");
}

/*
 * fairq.wait_any(queues, timeout)
 */
Datum
fairq_wait_any(PG_FUNCTION_ARGS)
{
	text	  **names;
	int			count;

	arguments_begin(fcinfo);
	count = arguments_queues(fcinfo, &names);
	return wait_in_procedure(fcinfo, names, count, "fairq.claim_any()");
}

/*
 * fairq_internal.wait_ready(queues, timeout): as wait_any, where no procedure
 * can be called.  The statement keeps its snapshot meanwhile, which is in the
 * way of vacuum: so it waits for a second at most, and the caller comes again.
 */
Datum
fairq_wait_ready(PG_FUNCTION_ARGS)
{
	text	  **names;
	int			count;
	int64		timeout;

	arguments_begin(fcinfo);
	count = arguments_queues(fcinfo, &names);
	timeout = arguments_duration(fcinfo, 1, "timeout", MAX_WAIT_READY, true);
	PG_RETURN_BOOL(wait_for_queues(names, count,
								   wall_clock_real() + Min(timeout, MAX_WAIT_READY), false));
}
