/*-------------------------------------------------------------------------
 *
 * sql_schedules.c
 *	  The functions of schema fairq about schedules: arguments and privileges, as
 *	  sql_tasks.c has them for tasks.
 *
 * A schedule belongs to who made it.  Only members of that role may replace or
 * remove it, and it stays that role's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "common/cron.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "maintenance/run_schedules.h"
#include "sql/arguments.h"
#include "storage/node_table.h"
#include "storage/own_table.h"
#include "storage/queue_open.h"
#include "xact/pending_queue.h"

PG_FUNCTION_INFO_V1(fairq_schedule);
PG_FUNCTION_INFO_V1(fairq_unschedule);
PG_FUNCTION_INFO_V1(fairq_cron_next);
PG_FUNCTION_INFO_V1(fairq_schedule_owner);
PG_FUNCTION_INFO_V1(fairq_schedule_written);
PG_FUNCTION_INFO_V1(fairq_schedule_inserted);

#define MAX_NAME	255			/* bytes of a schedule's name */

/* The name of a schedule, argument 0. */
static text *
name_argument(FunctionCallInfo fcinfo)
{
	int			length;

	if (PG_ARGISNULL(SCHEDULE_NAME))
		arguments_null(fcinfo, "name", "Give the name of a schedule.");
	length = VARSIZE_ANY_EXHDR(PG_GETARG_TEXT_PP(SCHEDULE_NAME));
	if (length < 1 || length > MAX_NAME)
		arguments_bad_length(fcinfo, "name", length,
							 psprintf("It must have 1 to %d bytes.", MAX_NAME));
	return PG_GETARG_TEXT_PP(SCHEDULE_NAME);
}

/* The cron expression. */
static void
cron_argument(FunctionCallInfo fcinfo, int number, Cron *cron)
{
	char	   *expression;
	const char *hint;
	const char *problem;

	if (PG_ARGISNULL(number))
		arguments_null(fcinfo, "cron",
					   "Give five fields, such as 0 3 * * *, or @hourly, @daily or @every 15 s.");
	expression = text_to_cstring(PG_GETARG_TEXT_PP(number));
	problem = cron_parse(expression, cron, &hint);
	if (problem != NULL)
		arguments_invalid(fcinfo, "cron", arguments_clip(expression, strlen(expression)),
						  psprintf("The expression %s. %s", problem, hint));
}

static char *
timezone_argument(FunctionCallInfo fcinfo, int number, pg_tz **zone)
{
	char	   *name = PG_ARGISNULL(number) ? "UTC" :
		text_to_cstring(PG_GETARG_TEXT_PP(number));

	*zone = cron_time_zone(name);
	if (*zone == NULL)
		arguments_invalid(fcinfo, "timezone", arguments_clip(name, strlen(name)),
						  "It is no time zone. See the view pg_timezone_names for those there are.");
	return name;
}

/* A value of jsonb, for messages. */
static const char *
clip_jsonb(Datum value)
{
	char	   *text = DatumGetCString(DirectFunctionCall1(jsonb_out, value));

	return arguments_clip(text, strlen(text));
}

static void
set_default(Schedule *schedule, ScheduleColumn column, Datum value)
{
	if (!schedule_has(schedule, column))
		schedule_set(schedule, column, value);
}

static bool
is_active(const Schedule *schedule)
{
	return DatumGetBool(schedule->values[SCHEDULE_ACTIVE]);
}

/* All but the queue of a schedule. */
static void
schedule_arguments(FunctionCallInfo fcinfo, Schedule *schedule, Cron *cron, pg_tz **zone)
{
	static const char *const catch_ups[] = {"none", "one", "all", NULL};

	(void) name_argument(fcinfo);
	cron_argument(fcinfo, SCHEDULE_CRON, cron);
	memset(schedule->nulls, 'n', sizeof(schedule->nulls));
	for (int i = 0; i < SCHEDULE_ARGUMENTS; i++)
	{
		if (!PG_ARGISNULL(i))
			schedule_set(schedule, i, PG_GETARG_DATUM(i));
	}
	schedule_set(schedule, SCHEDULE_TIMEZONE,
				 CStringGetTextDatum(timezone_argument(fcinfo, SCHEDULE_TIMEZONE, zone)));
	set_default(schedule, SCHEDULE_CATCH_UP, CStringGetTextDatum("one"));
	(void) arguments_word(fcinfo, SCHEDULE_CATCH_UP, "catch_up", catch_ups,
						  "It must be \"none\", \"one\" or \"all\".");
	set_default(schedule, SCHEDULE_PAYLOAD,
				DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	set_default(schedule, SCHEDULE_GROUP_KEY, CStringGetTextDatum(""));
	schedule_set(schedule, SCHEDULE_COST,
				 Float8GetDatum(PG_ARGISNULL(SCHEDULE_COST) ? 1 :
								arguments_cost(fcinfo, PG_GETARG_FLOAT8(SCHEDULE_COST))));
	if (schedule_has(schedule, SCHEDULE_HEADERS) &&
		!JB_ROOT_IS_OBJECT(DatumGetJsonbP(schedule->values[SCHEDULE_HEADERS])))
		arguments_invalid(fcinfo, "headers", clip_jsonb(schedule->values[SCHEDULE_HEADERS]),
						  "Give a JSON object, such as {\"trace\": 1}; schedule and tick are added to it.");
	set_default(schedule, SCHEDULE_OVERLAP, BoolGetDatum(false));
	set_default(schedule, SCHEDULE_ACTIVE, BoolGetDatum(true));
	if (is_active(schedule))
		proxy_calls_check_new(false);
}

/* The queue, which has to be there and to take the task now. */
static void
queue_argument(FunctionCallInfo fcinfo, Schedule *schedule)
{
	NewTask		task;
	text	   *queue = schedule_text(schedule, SCHEDULE_QUEUE);
	Relation	rel;
	QueueInfo  *info;

	if (queue == NULL)
		arguments_null(fcinfo, "queue", "Give the name of a queue.");
	arguments_concern(queue);
	info = queue_open(queue, RowExclusiveLock, ACL_INSERT, &rel);
	run_schedules_task(schedule, &task);
	arguments_check_task(fcinfo, info, &task);
	/* An empty one is none. */
	if (task.subgroup_key == NULL)
		schedule->nulls[SCHEDULE_SUBGROUP_KEY] = 'n';
	relation_close(rel, NoLock);
}

static void
check_owner(const Schedule *schedule)
{
	const text *name = schedule_text(schedule, SCHEDULE_NAME);

	if (OidIsValid(schedule->owner) ? !has_privs_of_role(GetUserId(), schedule->owner) :
		!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("schedule \"%s\" belongs to role \"%s\"",
						arguments_clip(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)),
						schedule_string(schedule, SCHEDULE_OWNER)),
				 errhint("Use that role, or another name.")));
}

/*
 * Find a schedule that the caller may write, and lock it.  Returns false if
 * there is none.
 *
 * The worker passes over what is locked.  So a role that may not write it is
 * refused by a look without a lock; what it was at that time need not be what
 * is locked then, so that is looked at, too.
 */
static bool
lock_own(text *name, Schedule *schedule)
{
	if (!schedule_table_find(name, false, schedule))
		return false;
	check_owner(schedule);
	if (!schedule_table_find(name, true, schedule))
		return false;
	check_owner(schedule);
	return true;
}

static bool
same_word(const Schedule *a, const Schedule *b, ScheduleColumn column)
{
	return strcmp(schedule_string(a, column), schedule_string(b, column)) == 0;
}

/*
 * What a schedule keeps when it is replaced: its owner, and if its times stay
 * the same also where @every counts from, and the next one, which may be due
 * already.  That is returned; DT_NOEND: there is none.
 */
static TimestampTz
keep_old(Schedule *schedule, const Schedule *old)
{
	schedule->found = old->found;
	schedule->owner = old->found && OidIsValid(old->owner) ? old->owner : GetUserId();
	if (old->found && is_active(old) && same_word(old, schedule, SCHEDULE_CRON) &&
		same_word(old, schedule, SCHEDULE_TIMEZONE))
	{
		schedule_set(schedule, SCHEDULE_ANCHOR, old->values[SCHEDULE_ANCHOR]);
		return schedule_time(old, SCHEDULE_NEXT_RUN, DT_NOEND);
	}
	schedule_set_time(schedule, SCHEDULE_ANCHOR,
					  GetCurrentTimestamp() / USECS_PER_SEC * USECS_PER_SEC);
	return DT_NOEND;
}

static void
check_room(FunctionCallInfo fcinfo)
{
	if (schedule_table_count() >= settings_max_schedules)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("%s: there are %d schedules in this database", arguments_function(fcinfo),
						settings_max_schedules),
				 errhint("Raise the setting \"%s\", or remove schedules with fairq.unschedule().",
						 "pgfairq.max_schedules")));
}

/*
 * fairq.schedule(name, queue, cron, …)
 */
Datum
fairq_schedule(PG_FUNCTION_ARGS)
{
	Schedule	schedule = {0};
	Schedule	old;
	Cron		cron;
	pg_tz	   *zone;
	TimestampTz next;

	arguments_begin(fcinfo);
	schedule_arguments(fcinfo, &schedule, &cron, &zone);
	queue_argument(fcinfo, &schedule);
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!lock_own(schedule_text(&schedule, SCHEDULE_NAME), &old))
			check_room(fcinfo);
		next = keep_old(&schedule, &old);
		cron.anchor = schedule_time(&schedule, SCHEDULE_ANCHOR, 0);
		next = is_active(&schedule) ?
			Min(next, cron_next(&cron, zone, GetCurrentTimestamp())) : DT_NOEND;
		schedule_set_time(&schedule, SCHEDULE_NEXT_RUN, next);
	} while (!schedule_table_put(&schedule));
	if (next == DT_NOEND)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(next);
}

/*
 * fairq.unschedule(name)
 */
Datum
fairq_unschedule(PG_FUNCTION_ARGS)
{
	Schedule	old;
	text	   *name;

	arguments_begin(fcinfo);
	name = name_argument(fcinfo);
	if (!lock_own(name, &old))
		PG_RETURN_BOOL(false);
	schedule_table_remove(name);
	PG_RETURN_BOOL(true);
}

/*
 * fairq_internal.cron_next(cron, timezone, after, anchor): the first tick
 * after a time.
 */
Datum
fairq_cron_next(PG_FUNCTION_ARGS)
{
	Cron		cron;
	pg_tz	   *zone;
	TimestampTz next;

	/* Messages name no queue, which the call before may have named. */
	arguments_concern(NULL);
	cron_argument(fcinfo, 0, &cron);
	(void) timezone_argument(fcinfo, 1, &zone);
	if (PG_ARGISNULL(2) || PG_ARGISNULL(3))
		arguments_null(fcinfo, "after", "Give a time.");
	cron.anchor = PG_GETARG_TIMESTAMPTZ(3);
	next = cron_next(&cron, zone, PG_GETARG_TIMESTAMPTZ(2));
	if (next == DT_NOEND)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(next);
}

/*
 * fairq_internal.schedule_owner(name, oid): the role that a row names.
 */
Datum
fairq_schedule_owner(PG_FUNCTION_ARGS)
{
	Oid			owner = schedule_table_owner(text_to_cstring(PG_GETARG_TEXT_PP(0)),
											 PG_GETARG_OID(1));

	if (!OidIsValid(owner))
		PG_RETURN_NULL();
	PG_RETURN_OID(owner);
}

/*
 * fairq_internal.schedule_inserted(): row trigger of fairq.schedule.  A row
 * that comes from elsewhere has the oid that the role had there.
 */
Datum
fairq_schedule_inserted(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = own_table_trigger(fcinfo, QUEUE_SCHEMA, "schedule",
											 TRIGGER_EVENT_BEFORE | TRIGGER_EVENT_ROW);
	HeapTuple	row = own_table_new_row(trigger);
	TupleDesc	columns = RelationGetDescr(trigger->tg_relation);
	Oid			table = RelationGetRelid(trigger->tg_relation);
	int			column = get_attnum(table, "owner_oid");
	bool		isnull;
	Datum		owner = heap_getattr(row, get_attnum(table, "owner"), columns, &isnull);

	if (isnull || column == InvalidAttrNumber)
		return PointerGetDatum(row);
	owner = ObjectIdGetDatum(get_role_oid(TextDatumGetCString(owner), true));
	return PointerGetDatum(heap_modify_tuple_by_cols(row, columns, 1, &column, &owner, &isnull));
}

/*
 * fairq_internal.schedule_written(): statement trigger of fairq.schedule,
 * after a definition was written, be it by a restore.
 */
Datum
fairq_schedule_written(PG_FUNCTION_ARGS)
{
	(void) own_table_trigger(fcinfo, QUEUE_SCHEMA, "schedule", TRIGGER_EVENT_AFTER);
	if (shared_memory_ready())
		pending_schedules();
	return PointerGetDatum(NULL);
}

/*
 * What the queue does not take of a task at its tick.  It was good when the
 * schedule was made, and the queue may be set otherwise since.
 */
static void
check_scheduled_task(const Schedule *schedule, QueueInfo *info, NewTask *task)
{
	arguments_concern(schedule_text(schedule, SCHEDULE_QUEUE));
	arguments_check_task(NULL, info, task);
}

/*
 * Called once a process, from _PG_init.
 */
void
sql_schedules_register(void)
{
	run_schedules_register(check_scheduled_task);
}
