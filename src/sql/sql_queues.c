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

#include "maintenance/maintain.h"
#include "sql/arguments.h"
#include "storage/queue_open.h"
#include "verbs/queue_admin.h"
#include "verbs/remove.h"

#define MAX_MAINTAINED	10000

PG_FUNCTION_INFO_V1(fairq_create_queue);
PG_FUNCTION_INFO_V1(fairq_alter_queue);
PG_FUNCTION_INFO_V1(fairq_drop_queue);
PG_FUNCTION_INFO_V1(fairq_purge);
PG_FUNCTION_INFO_V1(fairq_pause);
PG_FUNCTION_INFO_V1(fairq_resume);
PG_FUNCTION_INFO_V1(fairq_set_group);
PG_FUNCTION_INFO_V1(fairq_set_group_defaults);
PG_FUNCTION_INFO_V1(fairq_maintain);

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
			{
				char	   *word = text_to_cstring(PG_GETARG_TEXT_PP(number));

				if (queue_settings_word(def, word) < 0)
					arguments_invalid(fcinfo, def->argument,
									  arguments_clip(word, strlen(word)), def->hint);
				return;
			}
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
			value = PG_GETARG_FLOAT4(number);
			given = psprintf("%g", value);
			break;
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
	settings_arguments(fcinfo, 1, SETTING_POLICY, SETTING_EXPIRE_AFTER, &settings);
	queue_admin_create(PG_GETARG_TEXT_PP(0), &settings);
	PG_RETURN_VOID();
}

Datum
fairq_alter_queue(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	settings_arguments(fcinfo, 1, SETTING_BUCKETS, SETTING_EXPIRE_AFTER, &settings);
	queue_admin_alter(PG_GETARG_TEXT_PP(0), &settings);
	PG_RETURN_VOID();
}

Datum
fairq_drop_queue(PG_FUNCTION_ARGS)
{
	arguments_begin(fcinfo);
	PG_RETURN_BOOL(queue_admin_drop(arguments_queue(fcinfo)));
}

Datum
fairq_purge(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	int64		purged;

	arguments_begin(fcinfo);
	info = queue_open(arguments_queue(fcinfo),
					  RowExclusiveLock, ACL_DELETE, &rel);
	purged = remove_purge(rel, info, PG_ARGISNULL(1) ? NULL : PG_GETARG_TEXT_PP(1));
	relation_close(rel, NoLock);
	PG_RETURN_INT64(purged);
}

static text *
group_argument(FunctionCallInfo fcinfo, int number)
{
	text	   *group;

	if (PG_ARGISNULL(number))
		arguments_null(fcinfo, "group_key", "Give the key of a group.");
	group = PG_GETARG_TEXT_PP(number);
	arguments_group_key(fcinfo, group);
	return group;
}

static void
pause_or_resume(FunctionCallInfo fcinfo, bool paused)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	queue_settings_give(&settings, SETTING_PAUSED, BoolGetDatum(paused));
	if (PG_ARGISNULL(1))
		queue_admin_alter(PG_GETARG_TEXT_PP(0), &settings);
	else
		queue_admin_set_group(PG_GETARG_TEXT_PP(0), group_argument(fcinfo, 1), &settings);
}

Datum
fairq_pause(PG_FUNCTION_ARGS)
{
	pause_or_resume(fcinfo, true);
	PG_RETURN_VOID();
}

Datum
fairq_resume(PG_FUNCTION_ARGS)
{
	pause_or_resume(fcinfo, false);
	PG_RETURN_VOID();
}

Datum
fairq_set_group(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};
	text	   *group;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	group = group_argument(fcinfo, 1);
	settings_arguments(fcinfo, 2, SETTING_GROUP_WEIGHT, SETTING_GROUP_BURST, &settings);
	queue_admin_set_group(PG_GETARG_TEXT_PP(0), group, &settings);
	PG_RETURN_VOID();
}

Datum
fairq_set_group_defaults(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	settings_arguments(fcinfo, 1, SETTING_GROUP_WEIGHT, SETTING_GROUP_BURST, &settings);
	queue_admin_alter(PG_GETARG_TEXT_PP(0), &settings);
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
	PG_RETURN_INT64(maintenance.moved);
}
