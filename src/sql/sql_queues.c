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
#include "miscadmin.h"
#include "utils/builtins.h"

#include "common/virtual_time.h"
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
 * Arguments of create_queue and alter_queue from number on: all but policy and
 * buckets.  Where null means that there is no such limit, 0 says so, too.
 */
static void
settings_arguments(FunctionCallInfo fcinfo, int number, QueueSettings *settings)
{
	static const struct
	{
		QueueSetting setting;
		const char *name;
		bool		zero_ok;
	}			arguments[] = {
		{SETTING_LEASE, "lease", false},
		{SETTING_MAX_ATTEMPTS, "max_attempts", true},
		{SETTING_BACKOFF_BASE, "backoff_base", true},
		{SETTING_BACKOFF_MAX, "backoff_max", true},
		{SETTING_MAX_READY, "max_ready", false},
		{SETTING_MAX_READY_PER_GROUP, "max_ready_per_group", false},
		{SETTING_MAX_TASKS, "max_tasks", true},
		{SETTING_KEEP_DONE, "keep_done", true},
		{SETTING_DURABLE_LEASES, "durable_leases", false},
		{SETTING_CHARGE, "charge", false},
		{SETTING_NOTIFY, "notify", false},
	};

	for (int i = 0; i < (int) lengthof(arguments); i++)
	{
		QueueSetting setting = arguments[i].setting;
		const char *name = arguments[i].name;
		int			at = number + i;

		if (PG_ARGISNULL(at))
			continue;
		queue_setting(settings, setting, PG_GETARG_DATUM(at));
		switch (setting)
		{
			case SETTING_LEASE:
			case SETTING_BACKOFF_BASE:
			case SETTING_BACKOFF_MAX:
			case SETTING_KEEP_DONE:
				if (arguments_duration(fcinfo, at, name, 0,
									   arguments[i].zero_ok) == 0)
					settings->nulls[setting] = (setting == SETTING_KEEP_DONE);
				break;
			case SETTING_MAX_ATTEMPTS:
				(void) arguments_max_attempts(fcinfo, at, 0);
				break;
			case SETTING_MAX_READY:
			case SETTING_MAX_READY_PER_GROUP:
			case SETTING_MAX_TASKS:
				if (PG_GETARG_INT64(at) < (arguments[i].zero_ok ? 0 : 1))
					arguments_bad(fcinfo, name,
								  psprintf("is " INT64_FORMAT, PG_GETARG_INT64(at)),
								  arguments[i].zero_ok ? "It must be 0 (no limit) or more." :
								  "It must be 1 or more.");
				settings->nulls[setting] = (PG_GETARG_INT64(at) == 0);
				break;
			case SETTING_CHARGE:
				{
					char	   *value = text_to_cstring(PG_GETARG_TEXT_PP(at));

					if (strcmp(value, "cost") != 0 && strcmp(value, "seconds") != 0)
						arguments_bad(fcinfo, name,
									  psprintf("is %s", arguments_quote(value, strlen(value))),
									  "It must be 'cost' or 'seconds'.");
				}
				break;
			default:
				break;
		}
	}
}

/* How many buckets: argument number. */
static void
buckets_argument(FunctionCallInfo fcinfo, int number, QueueSettings *settings)
{
	int			buckets;

	if (PG_ARGISNULL(number))
		return;
	buckets = PG_GETARG_INT32(number);
	if (buckets < 1 || buckets > FAIRQ_MAX_BUCKETS)
		arguments_bad(fcinfo, "buckets", psprintf("is %d", buckets),
					  psprintf("It must be from 1 to %d.", FAIRQ_MAX_BUCKETS));
	queue_setting(settings, SETTING_BUCKETS, Int32GetDatum(buckets));
}

Datum
fairq_create_queue(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	if (!PG_ARGISNULL(1))
	{
		char	   *policy = text_to_cstring(PG_GETARG_TEXT_PP(1));

		if (strcmp(policy, "fair") != 0 && strcmp(policy, "priority") != 0 &&
			strcmp(policy, "time") != 0)
			arguments_bad(fcinfo, "policy",
						  psprintf("is %s", arguments_quote(policy, strlen(policy))),
						  "It must be 'fair', 'priority' or 'time'.");
		queue_setting(&settings, SETTING_POLICY, PG_GETARG_DATUM(1));
	}
	buckets_argument(fcinfo, 2, &settings);
	settings_arguments(fcinfo, 3, &settings);
	queue_admin_create(PG_GETARG_TEXT_PP(0), &settings);
	PG_RETURN_VOID();
}

Datum
fairq_alter_queue(PG_FUNCTION_ARGS)
{
	QueueSettings settings = {0};

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	buckets_argument(fcinfo, 1, &settings);
	settings_arguments(fcinfo, 2, &settings);
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
		arguments_bad(fcinfo, "group_key", "is null", "Give the key of a group.");
	group = PG_GETARG_TEXT_PP(number);
	arguments_group_key(fcinfo, group);
	return group;
}

static void
pause_or_resume(FunctionCallInfo fcinfo, bool paused)
{
	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	if (PG_ARGISNULL(1))
		queue_admin_pause(PG_GETARG_TEXT_PP(0), paused);
	else
	{
		GroupSettings settings = {0};

		settings.has_paused = true;
		settings.values.paused = paused;
		queue_admin_set_group(PG_GETARG_TEXT_PP(0), group_argument(fcinfo, 1),
						   &settings);
	}
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

/*
 * Arguments of set_group from number on: weight, max_leased, rate, burst.
 */
static void
group_settings_arguments(FunctionCallInfo fcinfo, int number, GroupSettings *settings)
{
	memset(settings, 0, sizeof(GroupSettings));
	settings->has_weight = !PG_ARGISNULL(number);
	settings->has_max_leased = !PG_ARGISNULL(number + 1);
	settings->has_rate = !PG_ARGISNULL(number + 2);
	settings->has_burst = !PG_ARGISNULL(number + 3);

	/* Also false for NaN. */
	if (settings->has_weight)
	{
		settings->values.weight = PG_GETARG_FLOAT4(number);
		if (!(settings->values.weight >= (float4) FAIRQ_MIN_WEIGHT &&
			  settings->values.weight <= (float4) FAIRQ_MAX_WEIGHT))
			arguments_bad(fcinfo, "weight", psprintf("is %g", settings->values.weight),
						  "It must be from 0.001 to 1000.");
	}
	if (settings->has_max_leased)
	{
		settings->values.max_leased = PG_GETARG_INT32(number + 1);
		if (settings->values.max_leased < 0)
			arguments_bad(fcinfo, "max_leased",
						  psprintf("is %d", settings->values.max_leased),
						  "It must be 0 (no limit) or more.");
	}
	if (settings->has_rate)
	{
		settings->values.rate = PG_GETARG_FLOAT4(number + 2);
		if (settings->values.rate != 0 &&
			!(settings->values.rate >= 1e-5f && settings->values.rate <= 1e6f))
			arguments_bad(fcinfo, "rate", psprintf("is %g", settings->values.rate),
						  "It must be 0 (no limit), or from 0.00001 to 1000000 a second.");
	}
	if (settings->has_burst)
	{
		settings->values.burst = PG_GETARG_INT32(number + 3);
		if (settings->values.burst < 0 || settings->values.burst > 1000000)
			arguments_bad(fcinfo, "burst", psprintf("is %d", settings->values.burst),
						  "It must be from 0 (as many as rate) to 1000000.");
	}
}

Datum
fairq_set_group(PG_FUNCTION_ARGS)
{
	GroupSettings settings;
	text	   *group;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	group = group_argument(fcinfo, 1);
	group_settings_arguments(fcinfo, 2, &settings);
	queue_admin_set_group(PG_GETARG_TEXT_PP(0), group, &settings);
	PG_RETURN_VOID();
}

Datum
fairq_set_group_defaults(PG_FUNCTION_ARGS)
{
	GroupSettings settings;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	group_settings_arguments(fcinfo, 1, &settings);
	queue_admin_set_group_defaults(PG_GETARG_TEXT_PP(0), &settings);
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
