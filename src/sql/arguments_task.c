/*-------------------------------------------------------------------------
 *
 * arguments_task.c
 *	  The arguments that say what a new task is, and what its queue says of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "common/virtual_time.h"
#include "shmem/groups.h"
#include "sql/arguments.h"

static int
max_argument(FunctionCallInfo fcinfo, int number, const char *argument, int fallback)
{
	int			max = PG_ARGISNULL(number) ? fallback : PG_GETARG_INT32(number);

	if (!PG_ARGISNULL(number) && max < 0)
		arguments_invalid(fcinfo, argument, psprintf("%d", max),
						  "It must be 0, for no limit, or more.");
	return max;
}

/*
 * What a task takes up of virtual time is bounded, see virtual_time.h.
 */
static void
check_charge(FunctionCallInfo fcinfo, const QueueInfo *info, const NewTask *task)
{
	GroupName	name = queue_catalog_group(info, task->group_key, task->subgroup_key);
	double		weight = limited_groups_weight(info->state, &name);

	if (name.subgroup)
	{
		GroupName	group = group_name_above(&name);

		weight = Min(weight, limited_groups_weight(info->state, &group));
	}
	if (task->cost > FAIRQ_MAX_CHARGE * weight)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for argument \"cost\" of %s and a group of weight %g: \"%g\"",
						arguments_call(fcinfo), weight, task->cost),
				 errhint("Cost by weight may be %d. Give smaller costs, or larger weights: only their ratios count.",
						 FAIRQ_MAX_CHARGE)));
}

/* A time as it is shown. */
static const char *
time_text(TimestampTz time)
{
	return DatumGetCString(DirectFunctionCall1(timestamptz_out, TimestampTzGetDatum(time)));
}

/*
 * Check the key of a task's subgroup.  An empty one is that of a task without
 * any, and of such a task the row has none.
 */
static void
check_subgroup(FunctionCallInfo fcinfo, const QueueInfo *info, NewTask *task)
{
	int			length = VARSIZE_ANY_EXHDR(task->subgroup_key);

	arguments_check_bytes(fcinfo, "subgroup_key", task->subgroup_key, 0, MAX_GROUP_KEY, "");
	if (length > 0 && !info->subgroups)
		arguments_invalid(fcinfo, "subgroup_key",
						  arguments_clip(VARDATA_ANY(task->subgroup_key), length),
						  psprintf("Groups of queue \"%s\" are not divided: create it with subgroups => true, or use fairq.alter_queue().",
								   info->name));
	if (length == 0)
		task->subgroup_key = NULL;
}

/*
 * Check what of a task depends on its queue, and what is checked alike for all;
 * and fill in what the queue says of a task that does not.
 */
void
arguments_check_task(FunctionCallInfo fcinfo, const QueueInfo *info, NewTask *task)
{
	static const char *const or_null = ", or be null for none";

	arguments_check_bytes(fcinfo, "group_key", task->group_key, 0, MAX_GROUP_KEY, "");
	if (info->group_required && VARSIZE_ANY_EXHDR(task->group_key) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"group_key\" of %s must not be empty", arguments_call(fcinfo)),
				 errhint("The queue has \"group_required\": give each task the key of its group.")));
	if (task->subgroup_key != NULL)
		check_subgroup(fcinfo, info, task);
	if (!task->has_priority)
		task->priority = info->default_priority;
	if (info->policy == QUEUE_FAIR &&
		(task->priority < 0 || task->priority >= FAIRQ_CLASSES))
		arguments_invalid(fcinfo, "priority", psprintf(INT64_FORMAT, task->priority),
						  psprintf("Queue \"%s\" has policy \"fair\", with the classes 0 to %d.",
								   info->name, FAIRQ_CLASSES - 1));
	if (task->unique_key != NULL)
		arguments_check_bytes(fcinfo, "unique_key", task->unique_key, 1, MAX_UNIQUE_KEY, or_null);
	if (task->name != NULL)
		arguments_check_bytes(fcinfo, "name", task->name, 1, MAX_TASK_NAME, or_null);
	if (task->run_at == DT_NOEND)
		arguments_invalid(fcinfo, "run_at", "infinity",
						  "Give a time that comes, or leave it out.");
	if (task->expires_at != DT_NOBEGIN && task->run_at != DT_NOBEGIN &&
		task->expires_at <= task->run_at)
		arguments_invalid(fcinfo, "expires_at", time_text(task->expires_at),
						  psprintf("Give a time after run_at, which is %s: the task would never run.",
								   time_text(task->run_at)));
	/* Only a large one may be too large for a small weight. */
	if (task->cost > (float4) (FAIRQ_MAX_CHARGE * FAIRQ_MIN_WEIGHT) && info->policy == QUEUE_FAIR)
		check_charge(fcinfo, info, task);
}

/*
 * A task's cost, in the precision that rows have.  Drivers send it in the one
 * that their languages have.
 */
float4
arguments_cost(FunctionCallInfo fcinfo, double cost)
{
	float4		kept = (float4) cost;

	/* Also false for NaN. */
	if (!(kept >= (float4) FAIRQ_MIN_COST && kept <= (float4) FAIRQ_MAX_COST))
		arguments_invalid(fcinfo, "cost",
						  DatumGetCString(DirectFunctionCall1(float8out,
															  Float8GetDatum(cost))),
						  "It must be from 0.001 to 1000000.");
	return kept;
}

/*
 * What to do with a task of the same unique key that waits: returns whether it
 * is to be replaced.
 */
bool
arguments_on_duplicate(FunctionCallInfo fcinfo, int number)
{
	static const char *const words[] = {"keep", "replace", NULL};

	return arguments_word(fcinfo, number, "on_duplicate", words,
						  "It must be \"keep\" or \"replace\".") == 1;
}

/*
 * For how long a unique key is to be remembered, in microseconds; 0: it is not.
 */
int64
arguments_unique_for(FunctionCallInfo fcinfo, int number, bool has_keys)
{
	int64		usecs = arguments_duration(fcinfo, number, "unique_for", 0, false);

	if (usecs > 0 && !has_keys)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"unique_for\" of %s must not be given without a unique key",
						arguments_function(fcinfo)),
				 errhint("Say with \"unique_key\" what is to be unique for so long, or leave it out.")));
	return usecs;
}

/*
 * The task that enqueue and publish are given: arguments 1 to 13, and those
 * from name on.
 */
void
arguments_task(FunctionCallInfo fcinfo, int name, NewTask *task)
{
	int64		delay;

	if (PG_ARGISNULL(1))
		arguments_null(fcinfo, "payload",
					   "Give a payload; the JSON value null is one.");
	task->unique_key = PG_ARGISNULL(6) ? NULL : PG_GETARG_TEXT_PP(6);
	task->replace = arguments_on_duplicate(fcinfo, 7);
	task->unique_for = arguments_unique_for(fcinfo, 12, task->unique_key != NULL);
	task->payload = PG_GETARG_DATUM(1);
	task->run_at = PG_ARGISNULL(5) ? DT_NOBEGIN : PG_GETARG_TIMESTAMPTZ(5);
	delay = arguments_duration(fcinfo, 13, "delay", 0, true);
	if (!PG_ARGISNULL(13) && !PG_ARGISNULL(5))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("arguments \"run_at\" and \"delay\" of %s must not both be given",
						arguments_function(fcinfo)),
				 errhint("Give the time, or how long it is from now.")));
	if (delay > 0)
		task->run_at = GetCurrentTimestamp() + delay;
	task->group_key = PG_ARGISNULL(2) ? cstring_to_text("") : PG_GETARG_TEXT_PP(2);
	task->has_priority = !PG_ARGISNULL(3);
	if (task->has_priority)
		task->priority = PG_GETARG_INT64(3);
	task->cost = PG_ARGISNULL(4) ? 1 : arguments_cost(fcinfo, PG_GETARG_FLOAT8(4));
	task->max_attempts = max_argument(fcinfo, 8, "max_attempts", -1);
	(void) arguments_duration(fcinfo, 9, "lease", 0, false);
	task->lease = PG_ARGISNULL(9) ? NULL : PG_GETARG_INTERVAL_P(9);
	task->expires_at = PG_ARGISNULL(11) ? DT_NOBEGIN : PG_GETARG_TIMESTAMPTZ(11);
	if (!PG_ARGISNULL(11) && task->expires_at == DT_NOBEGIN)
		arguments_invalid(fcinfo, "expires_at", "-infinity",
						  "Give a time, infinity for never, or leave it out.");
	task->has_headers = !PG_ARGISNULL(10);
	if (task->has_headers)
		task->headers = PG_GETARG_DATUM(10);
	task->name = PG_ARGISNULL(name) ? NULL : PG_GETARG_TEXT_PP(name);
	task->max_lost = max_argument(fcinfo, name + 1, "max_lost", -1);
	task->subgroup_key = PG_ARGISNULL(name + 2) ? NULL : PG_GETARG_TEXT_PP(name + 2);
}
