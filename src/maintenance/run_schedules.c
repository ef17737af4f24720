/*-------------------------------------------------------------------------
 *
 * run_schedules.c
 *	  Running the schedules that are due.
 *
 * A tick is one transaction: it enqueues the task and moves next_run.  The row
 * is locked for that, so that of all who may come for a tick one does it, and
 * a crash leaves both done or neither.  next_run is a time on the wall clock
 * and is moved forward only: when the clock is set back, no tick comes again.
 *
 * The task is enqueued as the owner of the schedule, in a restricted context
 * and in a subtransaction.  When that fails, for whatever reason, the row says
 * so and the schedule goes on to its next tick.  What may pass by itself is
 * waited for, and the tick stays due: a lock on the queue's table, and a table
 * that is being restored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/cron.h"
#include "common/run_as.h"
#include "maintenance/run_schedules.h"
#include "storage/queue_open.h"
#include "storage/row_scan.h"

/* Ticks that catch_up 'all' runs at most. */
#define CATCH_UP_MAX	1000

/* A tick that is later than this is not run with catch_up 'none'. */
#define LATE_USECS		(60 * USECS_PER_SEC)

/* When to try a schedule again whose time zone is no longer known. */
#define UNKNOWN_USECS	(60 * USECS_PER_SEC)

/* The row has so much of an error. */
#define ERROR_MAX		1000

/* Ticks that a run by hand goes through. */
#define BY_HAND_MAX		10000

/* A tick that is run. */
typedef struct Tick
{
	Schedule   *schedule;
	TimestampTz at;				/* DT_NOBEGIN: none is to be run */
	TimestampTz next;
	bool		busy;
	bool		skipped;		/* the last task is still there */
	int64		task;
} Tick;

static ScheduledTaskCheck check_task = NULL;

/*
 * Called once a process, from _PG_init.
 */
void
run_schedules_register(ScheduledTaskCheck check)
{
	check_task = check;
}

/*
 * Which tick is to be run of those that are due, and which is the next then.
 */
static void
choose_tick(Tick *tick, TimestampTz now)
{
	const char *timezone = schedule_string(tick->schedule, SCHEDULE_TIMEZONE);
	const char *expression = schedule_string(tick->schedule, SCHEDULE_CRON);
	const char *catch_up = schedule_string(tick->schedule, SCHEDULE_CATCH_UP);
	const char *hint;
	Cron		cron;
	pg_tz	   *zone = cron_time_zone(timezone);
	const char *problem = cron_parse(expression, &cron, &hint);
	TimestampTz due = schedule_time(tick->schedule, SCHEDULE_NEXT_RUN, DT_NOEND);

	tick->next = now + UNKNOWN_USECS;
	if (zone == NULL || problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the time zone \"%s\" or the cron expression \"%s\" is not known any more",
						timezone, expression)));
	cron.anchor = schedule_time(tick->schedule, SCHEDULE_ANCHOR, 0);
	due = cron_last_of(&cron, zone, due, now, strcmp(catch_up, "all") == 0 ? CATCH_UP_MAX : 1);
	tick->at = strcmp(catch_up, "none") == 0 && now - due > LATE_USECS ? DT_NOBEGIN : due;
	tick->next = cron_next(&cron, zone, due);
}

/* Is the task that this schedule has enqueued last waiting or at work? */
static bool
last_task_is_there(Relation rel, QueueInfo *info, const Schedule *schedule)
{
	HeapTuple	tuple;
	TupleDesc	columns = RelationGetDescr(rel);
	bool		isnull;

	if (!schedule_has(schedule, SCHEDULE_LAST_TASK))
		return false;
	tuple = row_scan_task(rel, info, DatumGetInt64(schedule->values[SCHEDULE_LAST_TASK]));
	if (tuple == NULL)
		return false;
	if (DatumGetChar(heap_getattr(tuple, info->columns[COLUMN_STATE], columns, &isnull)) ==
		TASK_DEAD)
		return false;
	/* Of another queue of this name, which was made later. */
	return DatumGetTimestampTz(heap_getattr(tuple, info->columns[COLUMN_ENQUEUED_AT],
											columns, &isnull)) <=
		schedule_time(schedule, SCHEDULE_LAST_RUN, DT_NOBEGIN);
}

/*
 * The headers of a task: those of the schedule, with its name and the time of
 * the tick.
 */
static Datum
tick_headers(const Tick *tick)
{
	Schedule   *schedule = tick->schedule;
	StringInfoData json;
	pg_time_t	seconds = timestamptz_to_time_t(tick->at);
	struct pg_tm *utc = pg_gmtime(&seconds);
	Datum		ours;

	initStringInfo(&json);
	appendStringInfoString(&json, "{\"schedule\": ");
	escape_json(&json, schedule_string(schedule, SCHEDULE_NAME));
	appendStringInfo(&json, ", \"tick\": \"%04d-%02d-%02dT%02d:%02d:%02dZ\"}",
					 utc->tm_year + 1900, utc->tm_mon + 1, utc->tm_mday,
					 utc->tm_hour, utc->tm_min, utc->tm_sec);
	ours = DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
	return schedule_has(schedule, SCHEDULE_HEADERS) ?
		DirectFunctionCall2(jsonb_concat, schedule->values[SCHEDULE_HEADERS], ours) : ours;
}

/*
 * What a schedule says of its tasks.
 */
void
run_schedules_task(const Schedule *schedule, NewTask *task)
{
	*task = (NewTask) NEW_TASK;
	task->payload = schedule->values[SCHEDULE_PAYLOAD];
	task->group_key = schedule_text(schedule, SCHEDULE_GROUP_KEY);
	task->subgroup_key = schedule_text(schedule, SCHEDULE_SUBGROUP_KEY);
	task->has_priority = schedule_has(schedule, SCHEDULE_PRIORITY);
	if (task->has_priority)
		task->priority = DatumGetInt64(schedule->values[SCHEDULE_PRIORITY]);
	task->cost = DatumGetFloat8(schedule->values[SCHEDULE_COST]);
	task->name = schedule_text(schedule, SCHEDULE_TASK_NAME);
}

static void
enqueue_task(Tick *tick, Relation rel, QueueInfo *info)
{
	NewTask		task;

	run_schedules_task(tick->schedule, &task);
	task.has_headers = true;
	task.headers = tick_headers(tick);
	check_task(tick->schedule, info, &task);
	enqueue_tasks(rel, info, 1, &task, &tick->task);
}

/*
 * What may fail of a tick.  arg: the Tick.
 */
static void
do_tick(void *arg)
{
	Tick	   *tick = arg;
	Schedule   *schedule = tick->schedule;
	text	   *queue = schedule_text(schedule, SCHEDULE_QUEUE);
	char		name[NAMEDATALEN];
	Oid			relation;
	Relation	rel;
	QueueInfo  *info;
	RunAs		context;

	choose_tick(tick, GetCurrentTimestamp());
	if (tick->at == DT_NOBEGIN)
		return;
	if (!OidIsValid(schedule->owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("role \"%s\" does not exist",
						schedule_string(schedule, SCHEDULE_OWNER)),
				 errhint("Remove the schedule, and make it again as another role.")));
	run_as_owner(schedule->owner, InvalidOid, &context);
	queue_catalog_check_name(queue, name);
	relation = queue_catalog_relation(name);
	tick->busy = OidIsValid(relation) &&
		!ConditionalLockRelationOid(relation, RowExclusiveLock);
	if (!tick->busy)
	{
		info = queue_open(queue, RowExclusiveLock, ACL_INSERT, &rel);
		patience_of(&info->state->rests_until);
		tick->skipped = !DatumGetBool(schedule->values[SCHEDULE_OVERLAP]) &&
			last_task_is_there(rel, info, schedule);
		if (!tick->skipped)
			enqueue_task(tick, rel, info);
		relation_close(rel, NoLock);
	}
	run_as_end(&context);
}

/*
 * Do what may fail of a tick, in a subtransaction.  A worker that has waited
 * too long for a lock has the tick stay due.
 */
static ErrorData *
try_tick(Tick *tick)
{
	ErrorData  *error;

	patience_begin();
	error = run_as_try_all(do_tick, tick);
	if (error != NULL && patience_lost())
		patience_explain(error);
	tick->busy |= patience_lost() && error != NULL &&
		error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
	patience_begin();
	return error;
}

/*
 * Note an error in the row, and in the log: the first of a run of failures,
 * and then fewer and fewer.
 */
static void
tick_failed(Schedule *schedule, const ErrorData *error)
{
	char	   *message = psprintf("%s: %s", unpack_sql_state(error->sqlerrcode), error->message);
	int			failures = DatumGetInt32(schedule->values[SCHEDULE_FAILURES]);

	message[pg_mbcliplen(message, strlen(message), ERROR_MAX)] = '\0';
	if (failures < PG_INT32_MAX)
		failures++;
	schedule_set(schedule, SCHEDULE_FAILURES, Int32GetDatum(failures));
	schedule_set(schedule, SCHEDULE_LAST_ERROR, CStringGetTextDatum(message));
	schedule_set_time(schedule, SCHEDULE_LAST_ERROR_AT, GetCurrentTimestamp());
	if ((failures & (failures - 1)) == 0)
		ereport(WARNING,
				(errmsg("could not run schedule \"%s\" in queue \"%s\"",
						schedule_string(schedule, SCHEDULE_NAME),
						schedule_string(schedule, SCHEDULE_QUEUE)),
				 errdetail("%s (failures in a row: %d)", message, failures),
				 errhint("See the view fairq.schedules.")));
}

/*
 * Run the tick of a schedule that is due, or the first of those that are to be
 * caught up with, in the caller's transaction.  Returns false if that has to
 * wait: the schedule or its queue is locked.  Else *next is when it is due
 * again.
 */
bool
run_schedules_tick(text *name, TimestampTz *next)
{
	Schedule	schedule;
	Tick		tick = {.schedule = &schedule,.at = DT_NOBEGIN};
	ErrorData  *error;
	bool		wait;

	if (!schedule_table_lock(name, GetCurrentTimestamp(), &schedule))
		return false;
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	error = try_tick(&tick);
	PopActiveSnapshot();
	if (tick.busy)
		return false;

	/* An unusable table may be one whose indexes are still to come. */
	wait = (error != NULL && error->sqlerrcode == ERRCODE_INVALID_TABLE_DEFINITION);
	if (error != NULL)
		tick_failed(&schedule, error);
	else if (tick.task != 0)
	{
		schedule_set(&schedule, SCHEDULE_FAILURES, Int32GetDatum(0));
		schedule_set(&schedule, SCHEDULE_LAST_TASK, Int64GetDatum(tick.task));
		schedule_set_time(&schedule, SCHEDULE_LAST_RUN, GetCurrentTimestamp());
	}
	if (tick.skipped)
		schedule_set(&schedule, SCHEDULE_SKIPPED,
					 Int64GetDatum(DatumGetInt64(schedule.values[SCHEDULE_SKIPPED]) + 1));
	*next = tick.next;
	if (!wait)
		schedule_set_time(&schedule, SCHEDULE_NEXT_RUN, tick.next);
	schedule_table_ticked(&schedule);
	return !wait;
}

/* Only which tick is next. */
static void
pass_over(void *arg)
{
	choose_tick(arg, GetCurrentTimestamp());
}

/*
 * The transaction of a schedule's tick has failed as a whole: pass over the
 * tick.
 */
void
run_schedules_failed(text *name, const ErrorData *error)
{
	Schedule	schedule;
	Tick		tick = {.schedule = &schedule,.at = DT_NOBEGIN};

	if (!schedule_table_lock(name, GetCurrentTimestamp(), &schedule))
		return;
	(void) run_as_try(pass_over, &tick);
	tick_failed(&schedule, error);
	schedule_set_time(&schedule, SCHEDULE_NEXT_RUN, tick.next);
	schedule_table_ticked(&schedule);
}

/*
 * Run what is due of a queue's schedules, for who has no worker.
 */
void
run_schedules_by_hand(const text *queue)
{
	bool		more = OidIsValid(schedule_table_open());
	int			left = BY_HAND_MAX;

	while (more)
	{
		List	   *due = schedule_table_due(queue, GetCurrentTimestamp());
		TimestampTz next;
		ListCell   *lc;

		more = false;
		foreach(lc, due)
		{
			CHECK_FOR_INTERRUPTS();
			more |= (left-- > 0 && run_schedules_tick(((DueSchedule *) lfirst(lc))->name, &next));
		}
		CommandCounterIncrement();
	}
}
