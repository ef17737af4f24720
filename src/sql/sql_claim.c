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
 * What it cannot let go is the snapshot of its statement, which keeps vacuum
 * from removing rows for as long.  fairq.wait is a procedure so that it can:
 * it ends its transaction before each sleep.
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
#include "shmem/limit_table.h"
#include "shmem/queue_ready.h"
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

/* How long not to repeat a pass of maintenance that could do nothing. */
#define PASS_USECS		INT64CONST(250000)

PG_FUNCTION_INFO_V1(fairq_claim);
PG_FUNCTION_INFO_V1(fairq_pop);
PG_FUNCTION_INFO_V1(fairq_ack_and_claim);
PG_FUNCTION_INFO_V1(fairq_wait);

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
	text	   *key = DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY));

	waiters_took(DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS))->bucket,
				 key);
	result_rows_put_task(row, lease, arg);
}

/*
 * When a backend without a worker has to look what is due of a queue, by the
 * clock that cannot be set, which it is by now.
 */
static int64
next_look(QueueInfo *info, int64 real_now)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next = wall_clock_earlier(maintain_next_due(info), now + ALONE_USECS);

	/* Due already, but another backend is at it, or it has to wait. */
	if (next <= now)
		next = now + PASS_USECS;
	return real_now + Max(next - now, PAUSE_USECS);
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

	while (!waiters_told() && worker_slots_alive(MyDatabaseId) == worker)
	{
		int64		now = wall_clock_real();

		if (now >= until)
			break;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min((until - now + 999) / 1000, INT_MAX),
						 shared_memory_wait_event(FAIRQ_WAIT_TASKS));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Claim into the result.  wait is how long to wait for something, in
 * microseconds; the other arguments are numbers of arguments, -1 if the
 * function does not have them.
 */
static void
claim_into(FunctionCallInfo fcinfo, ClaimRequest *request,
		   int64 wait, int session, int buckets, int group_keys)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LOCKMODE	lockmode = request->pop ? RowExclusiveLock : RowShareLock;
	AclMode		privileges = ACL_SELECT | (request->pop ? ACL_DELETE : ACL_UPDATE);
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext look = NULL;
	int64		deadline = 0;	/* by wall_clock_real */
	Relation	rel;

	result_rows_begin(fcinfo);
	for (;;)
	{
		int64		now;
		int64		alone;
		QueueInfo  *info;
		int			got;

		if (look != NULL)
			MemoryContextSwitchTo(look);
		request->bucket_count = -1;
		request->group_count = -1;
		if (session >= 0)
			request->session = arguments_session(fcinfo, session);
		info = queue_open(PG_GETARG_TEXT_PP(0), lockmode, privileges, &rel);
		if (buckets >= 0)
			arguments_buckets(fcinfo, buckets, info, request);
		if (group_keys >= 0)
			arguments_groups(fcinfo, group_keys, request);
		if (deadline != 0)
		{
			WaiterWants wanted = {info->state, true, info->buckets,
				request->bucket_count, request->buckets,
			request->group_count, request->groups};

			waiters_begin(&wanted);
			got = claim_tasks(rel, info, request, take_task, rsinfo);
			waiters_looked(got, queue_ready_bucket);
		}
		else
			got = claim_tasks(rel, info, request, result_rows_put_task, rsinfo);
		if (got > 0)
		{
			/* What has expired does not wait for a claim that finds nothing. */
			if (unlikely(info->state->expiry.passed_over))
				(void) maintain_without_worker(rel, info);
			break;
		}
		if (maintain_without_worker(rel, info) || wait == 0)
			break;

		now = wall_clock_real();
		if (deadline == 0)
		{
			/* Once more, from where we cannot miss anything. */
			deadline = now + wait;
			look = AllocSetContextCreate(outer, "pgfairq look", ALLOCSET_DEFAULT_SIZES);
			relation_close(rel, lockmode);
			continue;
		}
		if (now >= deadline)
			break;
		alone = next_look(info, now);
		relation_close(rel, lockmode);
		MemoryContextSwitchTo(outer);
		MemoryContextReset(look);
		sleep_until_told(deadline, alone);
	}
	waiters_end();
	relation_close(rel, NoLock);
	MemoryContextSwitchTo(outer);
}

/* How long to wait for a task, in microseconds: argument number. */
static int64
wait_argument(FunctionCallInfo fcinfo, int number)
{
	return arguments_duration(fcinfo, number, "wait", 0, true);
}

Datum
fairq_claim(PG_FUNCTION_ARGS)
{
	ClaimRequest request = {0};
	int64		wait;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	request.max_tasks = arguments_max_tasks(fcinfo, 1, 1);
	request.lease = arguments_duration(fcinfo, 2, "lease", -1, false);
	request.session = arguments_session(fcinfo, 3);
	wait = wait_argument(fcinfo, 4);
	claim_into(fcinfo, &request, wait, 3, 5, 6);
	return (Datum) 0;
}

Datum
fairq_pop(PG_FUNCTION_ARGS)
{
	ClaimRequest request = {0};
	int64		wait;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	request.max_tasks = arguments_max_tasks(fcinfo, 1, 1);
	request.lease = -1;
	request.pop = true;
	wait = wait_argument(fcinfo, 2);
	claim_into(fcinfo, &request, wait, -1, 3, 4);
	return (Datum) 0;
}

/*
 * What was acknowledged is so when the transaction commits, and the caller does
 * not want that to wait for the next task: then it does not.
 */
Datum
fairq_ack_and_claim(PG_FUNCTION_ARGS)
{
	ClaimRequest request = {0};
	Settlement	settlement;
	Datum	   *receipts;
	int64		wait;
	int			n;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	n = arguments_receipts(fcinfo, 1, &receipts);
	request.max_tasks = arguments_max_tasks(fcinfo, 2, 1);
	request.lease = arguments_duration(fcinfo, 3, "lease", -1, false);
	request.session = arguments_session(fcinfo, 4);
	wait = wait_argument(fcinfo, 5);

	settle_begin(&settlement, SETTLE_ACK);
	for (int i = 0; i < n; i++)
	{
		if (settle_receipt(&settlement, DatumGetUUIDP(receipts[i])))
			wait = 0;
	}
	settle_end(&settlement);
	claim_into(fcinfo, &request, wait, 4, -1, -1);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 * fairq.wait
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

	/* What waits for its turn is in no lane, and may be claimed. */
	if (limit_table_in_turn(&state->limits))
		return true;
	recovery_classes(rel, info);
	for (int class = 0; class < state->classes; class++)
	{
		Lane	   *lane;

		for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
		{
			LaneTop		top;

			for (;;)
			{
				CHECK_FOR_INTERRUPTS();
				lanes_look_locked(lane, &top);
				if (top.view == LANE_READY)
					return true;
				if (top.view == LANE_EMPTY)
					break;
				if (!claim_refill(rel, info, lane))
					lanes_refill_wait(lane);
			}
		}
	}
	return false;
}

/*
 * fairq.wait(queue, timeout): a procedure, which ends its transaction to
 * sleep without one that could be in the way.  So it is refused where it
 * cannot end its transaction, or where the caller may not want that.
 */
Datum
fairq_wait(PG_FUNCTION_ARGS)
{
	CallContext *context = (CallContext *) fcinfo->context;
	int64		deadline;		/* by wall_clock_real */
	MemoryContext outer;
	MemoryContext look;
	text	   *name;

	arguments_begin(fcinfo);
	name = arguments_queue(fcinfo);
	deadline = wall_clock_real() +
		arguments_duration(fcinfo, 1, "timeout", WAIT_DEFAULT, true);
	if (context == NULL || !IsA(context, CallContext) || context->atomic ||
		IsSubTransaction() || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block",
						arguments_function(fcinfo)),
				 errhint("Call it on its own, after the commit; within a transaction use fairq.claim() with \"wait\".")));

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	outer = CurrentMemoryContext;
	name = DatumGetTextPCopy(PointerGetDatum(name));
	look = AllocSetContextCreate(outer, "pgfairq look", ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		int64		now;
		int64		alone;
		Relation	rel;
		QueueInfo  *info;
		WaiterWants wanted = {0};
		bool		ready;
		bool		maintained;

		MemoryContextSwitchTo(look);
		PushActiveSnapshot(GetTransactionSnapshot());
		info = queue_open(name, AccessShareLock, ACL_SELECT, &rel);
		wanted.queue = info->state;
		wanted.bucket_count = wanted.group_count = -1;
		waiters_begin(&wanted);
		ready = anything_ready(rel, info);
		waiters_looked(ready ? 1 : 0, queue_ready_bucket);
		maintained = !ready && maintain_without_worker(rel, info);
		now = wall_clock_real();
		alone = next_look(info, now);
		PopActiveSnapshot();
		relation_close(rel, NoLock);
		MemoryContextSwitchTo(outer);
		MemoryContextReset(look);
		if (ready || (now >= deadline && !maintained))
			break;

		/* Lets go of locks and snapshots, those of a calling procedure, too. */
		SPI_commit();
		InvalidateCatalogSnapshot();
		if (!maintained)
			sleep_until_told(deadline, alone);
	}
	waiters_end();
	SPI_finish();
	PG_RETURN_VOID();
}
