/*-------------------------------------------------------------------------
 *
 * sql_queues.c
 *	  The functions of schema fairq that change queues and groups, as sql_tasks.c has
 *	  those about tasks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"

#include "maintenance/maintain.h"
#include "maintenance/run_schedules.h"
#include "shmem/worker_slots.h"
#include "sql/arguments.h"
#include "storage/queue_open.h"
#include "storage/remembered_keys.h"
#include "verbs/queue_admin.h"
#include "verbs/settle.h"

#define MAX_MAINTAINED	10000
#define IF_NOT_EXISTS	18		/* an argument of create_queue */

PG_FUNCTION_INFO_V1(fairq_create_queue);
PG_FUNCTION_INFO_V1(fairq_alter_queue);
PG_FUNCTION_INFO_V1(fairq_drop_queue);
PG_FUNCTION_INFO_V1(fairq_forget_key);
PG_FUNCTION_INFO_V1(fairq_forget_keys);
PG_FUNCTION_INFO_V1(fairq_pause);
PG_FUNCTION_INFO_V1(fairq_pause_group);
PG_FUNCTION_INFO_V1(fairq_resume);
PG_FUNCTION_INFO_V1(fairq_resume_group);
PG_FUNCTION_INFO_V1(fairq_set_group);
PG_FUNCTION_INFO_V1(fairq_set_subgroup);
PG_FUNCTION_INFO_V1(fairq_reset_group);
PG_FUNCTION_INFO_V1(fairq_set_group_defaults);
PG_FUNCTION_INFO_V1(fairq_set_subgroup_defaults);
PG_FUNCTION_INFO_V1(fairq_maintain);

/*
 * Numbers, one for each class, as the setting has them.  Returns false if there
 * are none.
 */
static bool
check_numbers(FunctionCallInfo fcinfo, int number, const SettingDef *def)
{
	Datum	   *values;
	bool	   *nulls;
	int			n = arguments_array(fcinfo, number, def->argument, FLOAT8OID, &values, &nulls);
	bool		valid = (n <= FAIRQ_CLASSES);

	/* Also false for NaN. */
	for (int i = 0; i < n && valid; i++)
		valid = (!nulls[i] && DatumGetFloat8(values[i]) >= def->min &&
				 DatumGetFloat8(values[i]) <= def->max);
	if (!valid)
	{
		char	   *given = OidOutputFunctionCall(F_ARRAY_OUT, PG_GETARG_DATUM(number));

		arguments_invalid(fcinfo, def->argument, arguments_clip(given, strlen(given)), def->hint);
	}
	return n > 0;
}

/*
 * One setting: an argument that is not null.
 */
static void
setting_argument(FunctionCallInfo fcinfo, int number, QueueSetting setting,
				 QueueSettings *settings)
{
	const SettingDef *def = &queue_settings[setting];
	const char *given;
	double		value;

	queue_settings_give(settings, setting, PG_GETARG_DATUM(number));
	switch (def->type)
	{
		case TEXTOID:
			(void) arguments_word(fcinfo, number, def->argument, def->words, def->hint);
			return;
		case INTERVALOID:
			value = arguments_duration(fcinfo, number, def->argument, 0, def->zero_ok);
			settings->nulls[setting] = (def->null_is_zero && value == 0);
			return;
		case INT4OID:
			value = PG_GETARG_INT32(number);
			given = psprintf("%d", PG_GETARG_INT32(number));
			break;
		case INT8OID:
			value = PG_GETARG_INT64(number);
			given = psprintf(INT64_FORMAT, PG_GETARG_INT64(number));
			break;
		case FLOAT4OID:
			/* Drivers send numbers in the precision of their languages. */
			given = DatumGetCString(DirectFunctionCall1(float8out, PG_GETARG_DATUM(number)));
			value = (float4) PG_GETARG_FLOAT8(number);
			settings->values[setting] = Float4GetDatum((float4) value);
			break;
		case FLOAT8OID:
			value = PG_GETARG_FLOAT8(number);
			given = DatumGetCString(DirectFunctionCall1(float8out, PG_GETARG_DATUM(number)));
			break;
		case FLOAT8ARRAYOID:
			settings->nulls[setting] = !check_numbers(fcinfo, number, def);
			return;
		default:
			return;
	}
	/* Also false for NaN. */
	if (!(value >= def->min && value <= def->max) && !(def->zero_ok && value == 0))
		arguments_invalid(fcinfo, def->argument, given, def->hint);
	settings->nulls[setting] = (def->null_is_zero && value == 0);
}

/*
 * Arguments from number on: the settings from first to last.
 */
static void
settings_arguments(FunctionCallInfo fcinfo, int number, QueueSetting first,
				   QueueSetting last, QueueSettings *settings)
{
	for (int i = first; i <= (int) last; i++, number++)
	{
		if (!PG_ARGISNULL(number))
			setting_argument(fcinfo, number, i, settings);
	}
}

Datum
fairq_create_queue(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	settings_arguments(fcinfo, 1, SETTING_POLICY, SETTING_GROUP_REQUIRED, &settings);
	settings_arguments(fcinfo, IF_NOT_EXISTS + 1, SETTING_MAX_LOST, SETTING_SUBGROUPS,
					   &settings);
	queue_admin_create(PG_GETARG_TEXT_PP(0), &settings,
					   !PG_ARGISNULL(IF_NOT_EXISTS) && PG_GETARG_BOOL(IF_NOT_EXISTS));
	PG_RETURN_VOID();
}

Datum
fairq_alter_queue(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	settings_arguments(fcinfo, 1, SETTING_BUCKETS, SETTING_SUBGROUPS, &settings);
	queue_admin_alter(PG_GETARG_TEXT_PP(0), &settings, false);
	PG_RETURN_VOID();
}

Datum
fairq_drop_queue(PG_FUNCTION_ARGS)
{
	arguments_begin(fcinfo);
	PG_RETURN_BOOL(queue_admin_drop(arguments_queue(fcinfo)));
}

/*
 * Forget what is remembered of a unique key, or (NULL) of all.
 */
static int64
withdraw_keys(FunctionCallInfo fcinfo, const text *key)
{
	Relation	rel;
	QueueInfo  *info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, ACL_DELETE, &rel);
	int64		forgotten = remembered_keys_withdraw(info, key);

	relation_close(rel, NoLock);
	return forgotten;
}

Datum
fairq_forget_key(PG_FUNCTION_ARGS)
{
	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	PG_RETURN_BOOL(withdraw_keys(fcinfo, arguments_unique_key(fcinfo, 1)) > 0);
}

Datum
fairq_forget_keys(PG_FUNCTION_ARGS)
{
	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	PG_RETURN_INT64(withdraw_keys(fcinfo, NULL));
}

static void
set_paused(FunctionCallInfo fcinfo, bool paused)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	queue_settings_give(&settings, SETTING_PAUSED, BoolGetDatum(paused));
	queue_admin_alter(PG_GETARG_TEXT_PP(0), &settings, false);
}

Datum
fairq_pause(PG_FUNCTION_ARGS)
{
	set_paused(fcinfo, true);
	PG_RETURN_VOID();
}

Datum
fairq_resume(PG_FUNCTION_ARGS)
{
	set_paused(fcinfo, false);
	PG_RETURN_VOID();
}

/* ----------------------------------------------------------------
 * Groups and subgroups: what is about the latter has one argument more
 * ----------------------------------------------------------------
 */

/*
 * Whose settings a call of so many arguments is about, or (one more) of a
 * subgroup: its group, argument 1, and the subgroup, argument 2, or NULL.
 * Returns the number of the next argument.
 */
static int
group_arguments(FunctionCallInfo fcinfo, int arguments, text **group, text **subgroup)
{
	bool		divided = PG_NARGS() > arguments;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	*group = arguments_group(fcinfo, 1);
	*subgroup = divided ? arguments_subgroup(fcinfo) : NULL;
	return divided ? 3 : 2;
}

static void
set_group_paused(FunctionCallInfo fcinfo, bool paused)
{
	QueueSettings settings = {0};
	text	   *group;
	text	   *subgroup;

	(void) group_arguments(fcinfo, 2, &group, &subgroup);
	queue_settings_give(&settings, SETTING_PAUSED, BoolGetDatum(paused));
	(void) group_admin_set(PG_GETARG_TEXT_PP(0), group, subgroup, &settings);
}

/*
 * fairq.pause_group(queue, group_key),
 * fairq.pause_subgroup(queue, group_key, subgroup_key)
 */
Datum
fairq_pause_group(PG_FUNCTION_ARGS)
{
	set_group_paused(fcinfo, true);
	PG_RETURN_VOID();
}

Datum
fairq_resume_group(PG_FUNCTION_ARGS)
{
	set_group_paused(fcinfo, false);
	PG_RETURN_VOID();
}

Datum
fairq_reset_group(PG_FUNCTION_ARGS)
{
	text	   *group;
	text	   *subgroup;

	(void) group_arguments(fcinfo, 2, &group, &subgroup);
	PG_RETURN_BOOL(group_admin_set(PG_GETARG_TEXT_PP(0), group, subgroup, NULL));
}

Datum
fairq_set_group(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};
	text	   *group;
	text	   *subgroup;
	int			next = group_arguments(fcinfo, 6, &group, &subgroup);

	settings_arguments(fcinfo, next, SETTING_GROUP_WEIGHT, SETTING_GROUP_BURST, &settings);
	(void) group_admin_set(PG_GETARG_TEXT_PP(0), group, subgroup, &settings);
	PG_RETURN_VOID();
}

/* A proxy has another function for this, and so has its symbol. */
Datum
fairq_set_subgroup(PG_FUNCTION_ARGS)
{
	return fairq_set_group(fcinfo);
}

Datum
fairq_set_group_defaults(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	settings_arguments(fcinfo, 1, SETTING_GROUP_WEIGHT, SETTING_GROUP_BURST, &settings);
	queue_admin_alter(PG_GETARG_TEXT_PP(0), &settings, false);
	PG_RETURN_VOID();
}

Datum
fairq_set_subgroup_defaults(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	settings_arguments(fcinfo, 1, SETTING_SUBGROUP_WEIGHT, SETTING_SUBGROUP_BURST, &settings);
	queue_admin_alter(PG_GETARG_TEXT_PP(0), &settings, true);
	PG_RETURN_VOID();
}

/*
 * fairq.maintain(queue): a worker's passes by hand.
 */
Datum
fairq_maintain(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	Maintenance maintenance = {.by_hand = true};

	arguments_begin(fcinfo);
	info = queue_open(arguments_queue(fcinfo), RowExclusiveLock,
					  ACL_SELECT | ACL_UPDATE, &rel);
	while (maintain_pass(rel, info, &maintenance) &&
		   maintenance.moved < MAX_MAINTAINED &&
		   maintenance.archived < MAX_MAINTAINED)
	{
		CHECK_FOR_INTERRUPTS();
		CommandCounterIncrement();
	}
	relation_close(rel, NoLock);
	if (!worker_slots_alive(MyDatabaseId))
		run_schedules_by_hand(PG_GETARG_TEXT_PP(0));
	PG_RETURN_INT64(maintenance.moved);
}
