/*-------------------------------------------------------------------------
 *
 * sql_tasks.c
 *	  The functions of schema fairq that change something: arguments,
 *	  privileges, and whether the server is in a state to serve them.
 *
 * Nothing is decided here; each function checks what it was given and calls
 * one verb.  The interface (names, defaults, results) is in sql/install.
 *
 * The functions are not strict: a NULL for an optional argument stands for its
 * default, and a NULL for a queue or a receipt is an error, not a silent no-op.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/queue_open.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "common/shared_memory.h"
#include "common/virtual_time.h"
#include "maintenance/maintain.h"
#include "shmem/sessions.h"
#include "shmem/wakeup.h"
#include "sql/arguments.h"
#include "sql/result_rows.h"
#include "verbs/claim.h"
#include "verbs/enqueue.h"
#include "verbs/queue_admin.h"
#include "verbs/settle.h"

#define MAX_MAINTAINED	10000

PG_FUNCTION_INFO_V1(fairq_create_queue);
PG_FUNCTION_INFO_V1(fairq_alter_queue);
PG_FUNCTION_INFO_V1(fairq_drop_queue);
PG_FUNCTION_INFO_V1(fairq_purge);
PG_FUNCTION_INFO_V1(fairq_pause);
PG_FUNCTION_INFO_V1(fairq_resume);
PG_FUNCTION_INFO_V1(fairq_set_group);
PG_FUNCTION_INFO_V1(fairq_set_group_defaults);
PG_FUNCTION_INFO_V1(fairq_enqueue);
PG_FUNCTION_INFO_V1(fairq_enqueue_many);
PG_FUNCTION_INFO_V1(fairq_ack);
PG_FUNCTION_INFO_V1(fairq_ack_many);
PG_FUNCTION_INFO_V1(fairq_nack);
PG_FUNCTION_INFO_V1(fairq_nack_many);
PG_FUNCTION_INFO_V1(fairq_extend);
PG_FUNCTION_INFO_V1(fairq_extend_many);
PG_FUNCTION_INFO_V1(fairq_release);
PG_FUNCTION_INFO_V1(fairq_release_many);
PG_FUNCTION_INFO_V1(fairq_cancel);
PG_FUNCTION_INFO_V1(fairq_revive);
PG_FUNCTION_INFO_V1(fairq_maintain);

/* ----------------------------------------------------------------
 * Queues
 * ----------------------------------------------------------------
 */

/*
 * Arguments of create_queue and alter_queue from number on: all but policy and
 * buckets.  Where null means that there is no such limit, 0 says so, too.
 */
static void
settings_arguments(FunctionCallInfo fcinfo, int number, const char *function,
				   QueueSettings *settings)
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
				if (arguments_duration(fcinfo, at, function, name, 0,
									   arguments[i].zero_ok) == 0)
					settings->nulls[setting] = (setting == SETTING_KEEP_DONE);
				break;
			case SETTING_MAX_ATTEMPTS:
				(void) arguments_max_attempts(fcinfo, at, function, 0);
				break;
			case SETTING_MAX_READY:
			case SETTING_MAX_READY_PER_GROUP:
			case SETTING_MAX_TASKS:
				if (PG_GETARG_INT64(at) < (arguments[i].zero_ok ? 0 : 1))
					arguments_bad(function, name,
								  psprintf("is " INT64_FORMAT, PG_GETARG_INT64(at)),
								  arguments[i].zero_ok ? "It must be 0 (no limit) or more." :
								  "It must be 1 or more.");
				settings->nulls[setting] = (PG_GETARG_INT64(at) == 0);
				break;
			case SETTING_CHARGE:
				{
					char	   *value = text_to_cstring(PG_GETARG_TEXT_PP(at));

					if (strcmp(value, "cost") != 0 && strcmp(value, "seconds") != 0)
						arguments_bad(function, name,
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
buckets_argument(FunctionCallInfo fcinfo, int number, const char *function,
				 QueueSettings *settings)
{
	int			buckets;

	if (PG_ARGISNULL(number))
		return;
	buckets = PG_GETARG_INT32(number);
	if (buckets < 1 || buckets > FAIRQ_MAX_BUCKETS)
		arguments_bad(function, "buckets", psprintf("is %d", buckets),
					  psprintf("It must be from 1 to %d.", FAIRQ_MAX_BUCKETS));
	queue_setting(settings, SETTING_BUCKETS, Int32GetDatum(buckets));
}

Datum
fairq_create_queue(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.create_queue()";
	QueueSettings settings = {0};

	arguments_begin(function);
	(void) arguments_queue(fcinfo, function);
	if (!PG_ARGISNULL(1))
	{
		char	   *policy = text_to_cstring(PG_GETARG_TEXT_PP(1));

		if (strcmp(policy, "fair") != 0 && strcmp(policy, "priority") != 0 &&
			strcmp(policy, "time") != 0)
			arguments_bad(function, "policy",
						  psprintf("is %s", arguments_quote(policy, strlen(policy))),
						  "It must be 'fair', 'priority' or 'time'.");
		queue_setting(&settings, SETTING_POLICY, PG_GETARG_DATUM(1));
	}
	buckets_argument(fcinfo, 2, function, &settings);
	settings_arguments(fcinfo, 3, function, &settings);
	queue_admin_create(PG_GETARG_TEXT_PP(0), &settings);
	PG_RETURN_VOID();
}

Datum
fairq_alter_queue(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.alter_queue()";
	QueueSettings settings = {0};

	arguments_begin(function);
	(void) arguments_queue(fcinfo, function);
	buckets_argument(fcinfo, 1, function, &settings);
	settings_arguments(fcinfo, 2, function, &settings);
	queue_admin_alter(PG_GETARG_TEXT_PP(0), &settings);
	PG_RETURN_VOID();
}

Datum
fairq_drop_queue(PG_FUNCTION_ARGS)
{
	arguments_begin("fairq.drop_queue()");
	PG_RETURN_BOOL(queue_admin_drop(arguments_queue(fcinfo, "fairq.drop_queue()")));
}

Datum
fairq_purge(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.purge()";
	Relation	rel;
	QueueInfo  *info;
	int64		purged;

	arguments_begin(function);
	info = queue_open(arguments_queue(fcinfo, function),
							  RowExclusiveLock, ACL_DELETE, &rel);
	purged = settle_purge(rel, info, PG_ARGISNULL(1) ? NULL : PG_GETARG_TEXT_PP(1));
	relation_close(rel, NoLock);
	PG_RETURN_INT64(purged);
}

static text *
group_argument(FunctionCallInfo fcinfo, int number, const char *function)
{
	text	   *group;

	if (PG_ARGISNULL(number))
		arguments_bad(function, "group_key", "is null", "Give the key of a group.");
	group = PG_GETARG_TEXT_PP(number);
	arguments_group_key(function, group);
	return group;
}

static void
pause_or_resume(FunctionCallInfo fcinfo, const char *function, bool paused)
{
	arguments_begin(function);
	(void) arguments_queue(fcinfo, function);
	if (PG_ARGISNULL(1))
		queue_admin_pause(PG_GETARG_TEXT_PP(0), paused);
	else
	{
		GroupSettings settings = {0};

		settings.has_paused = true;
		settings.values.paused = paused;
		queue_admin_set_group(PG_GETARG_TEXT_PP(0), group_argument(fcinfo, 1, function),
						   &settings);
	}
}

Datum
fairq_pause(PG_FUNCTION_ARGS)
{
	pause_or_resume(fcinfo, "fairq.pause()", true);
	PG_RETURN_VOID();
}

Datum
fairq_resume(PG_FUNCTION_ARGS)
{
	pause_or_resume(fcinfo, "fairq.resume()", false);
	PG_RETURN_VOID();
}

/*
 * Arguments of set_group from number on: weight, max_leased, rate, burst.
 */
static void
group_settings_arguments(FunctionCallInfo fcinfo, int number, const char *function,
						 GroupSettings *settings)
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
			arguments_bad(function, "weight", psprintf("is %g", settings->values.weight),
						  "It must be from 0.001 to 1000.");
	}
	if (settings->has_max_leased)
	{
		settings->values.max_leased = PG_GETARG_INT32(number + 1);
		if (settings->values.max_leased < 0)
			arguments_bad(function, "max_leased",
						  psprintf("is %d", settings->values.max_leased),
						  "It must be 0 (no limit) or more.");
	}
	if (settings->has_rate)
	{
		settings->values.rate = PG_GETARG_FLOAT4(number + 2);
		if (settings->values.rate != 0 &&
			!(settings->values.rate >= 1e-5f && settings->values.rate <= 1e6f))
			arguments_bad(function, "rate", psprintf("is %g", settings->values.rate),
						  "It must be 0 (no limit), or from 0.00001 to 1000000 a second.");
	}
	if (settings->has_burst)
	{
		settings->values.burst = PG_GETARG_INT32(number + 3);
		if (settings->values.burst < 0 || settings->values.burst > 1000000)
			arguments_bad(function, "burst", psprintf("is %d", settings->values.burst),
						  "It must be from 0 (as many as rate) to 1000000.");
	}
}

Datum
fairq_set_group(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.set_group()";
	GroupSettings settings;
	text	   *group;

	arguments_begin(function);
	(void) arguments_queue(fcinfo, function);
	group = group_argument(fcinfo, 1, function);
	group_settings_arguments(fcinfo, 2, function, &settings);
	queue_admin_set_group(PG_GETARG_TEXT_PP(0), group, &settings);
	PG_RETURN_VOID();
}

Datum
fairq_set_group_defaults(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.set_group_defaults()";
	GroupSettings settings;

	arguments_begin(function);
	(void) arguments_queue(fcinfo, function);
	group_settings_arguments(fcinfo, 1, function, &settings);
	queue_admin_set_group_defaults(PG_GETARG_TEXT_PP(0), &settings);
	PG_RETURN_VOID();
}

/* ----------------------------------------------------------------
 * Producing
 * ----------------------------------------------------------------
 */

Datum
fairq_enqueue(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.enqueue()";
	NewTask		task = {0};
	Relation	rel;
	QueueInfo  *info;
	int64		id;

	arguments_begin(function);
	(void) arguments_queue(fcinfo, function);
	arguments_task(fcinfo, function, &task);
	info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, ACL_INSERT, &rel);
	arguments_check_task(function, info, &task);
	enqueue_tasks(rel, info, 1, &task, &id);
	relation_close(rel, NoLock);
	PG_RETURN_INT64(id);
}

/* One of the arrays of enqueue_many. */
typedef struct TaskArray
{
	int			n;				/* -1: not given */
	Datum	   *elements;
	bool	   *nulls;
} TaskArray;

static void
task_array(FunctionCallInfo fcinfo, int number, const char *function,
		   const char *argument, Oid type, int16 length, bool by_value,
		   char align, TaskArray *array, int *total)
{
	array->n = arguments_array(fcinfo, number, function, argument, type, length,
							  by_value, align, &array->elements, &array->nulls);
	if (array->n < 0 || array->n == 1)
		return;
	if (*total >= 0 && array->n != *total)
		arguments_bad(function, argument,
					 psprintf("has %d elements, another array has %d", array->n, *total),
					 "Give arrays of the same length; an array of length 1 stands for all.");
	*total = array->n;
}

/* Element i of an array; false if it is null or not given. */
static bool
task_element(const TaskArray *array, int i, Datum *value)
{
	if (array->n < 0)
		return false;
	if (array->n == 1)
		i = 0;
	*value = array->elements[i];
	return !array->nulls[i];
}

Datum
fairq_enqueue_many(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.enqueue_many()";
	TaskArray	payloads;
	TaskArray	group_keys;
	TaskArray	priorities;
	TaskArray	costs;
	TaskArray	run_ats;
	TaskArray	unique_keys;
	bool		replace;
	text	   *no_group = cstring_to_text("");
	int			n = -1;
	NewTask    *tasks;
	int64	   *ids;
	Datum	   *result;
	Relation	rel;
	QueueInfo  *info;

	arguments_begin(function);
	(void) arguments_queue(fcinfo, function);
	task_array(fcinfo, 1, function, "payloads", JSONBOID, -1, false, TYPALIGN_INT,
			   &payloads, &n);
	if (payloads.n < 0)
		arguments_bad(function, "payloads", "is null",
					 "Give an array of payloads; it may be empty.");
	arguments_no_nulls(payloads.nulls, payloads.n, function, "payloads");
	task_array(fcinfo, 2, function, "group_keys", TEXTOID, -1, false, TYPALIGN_INT,
			   &group_keys, &n);
	task_array(fcinfo, 3, function, "priorities", INT8OID, sizeof(int64),
			   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &priorities, &n);
	task_array(fcinfo, 4, function, "costs", FLOAT4OID, sizeof(float4), true,
			   TYPALIGN_INT, &costs, &n);
	task_array(fcinfo, 5, function, "run_ats", TIMESTAMPTZOID, sizeof(int64),
			   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &run_ats, &n);
	task_array(fcinfo, 6, function, "unique_keys", TEXTOID, -1, false, TYPALIGN_INT,
			   &unique_keys, &n);
	replace = arguments_on_duplicate(fcinfo, 7, function);

	if (n < 0)
		n = 1;					/* all arrays that are given have length 1 */

	info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, ACL_INSERT, &rel);
	tasks = palloc0_array(NewTask, n + 1);
	ids = palloc_array(int64, n + 1);
	for (int i = 0; i < n; i++)
	{
		Datum		value;

		(void) task_element(&payloads, i, &tasks[i].payload);
		tasks[i].group_key = task_element(&group_keys, i, &value) ?
			DatumGetTextPP(value) : no_group;
		tasks[i].priority = task_element(&priorities, i, &value) ?
			DatumGetInt64(value) : 0;
		tasks[i].cost = task_element(&costs, i, &value) ? DatumGetFloat4(value) : 1;
		tasks[i].run_at = task_element(&run_ats, i, &value) ?
			DatumGetTimestampTz(value) : DT_NOBEGIN;
		tasks[i].unique_key = task_element(&unique_keys, i, &value) ?
			DatumGetTextPP(value) : NULL;
		tasks[i].replace = replace;
		tasks[i].max_attempts = -1;
		arguments_check_task(function, info, &tasks[i]);
	}
	enqueue_tasks(rel, info, n, tasks, ids);
	relation_close(rel, NoLock);

	result = palloc_array(Datum, n + 1);
	for (int i = 0; i < n; i++)
		result[i] = Int64GetDatum(ids[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(result, n, INT8OID, sizeof(int64),
										  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* ----------------------------------------------------------------
 * Consuming
 * ----------------------------------------------------------------
 */

Datum
fairq_ack(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.ack()";
	Settlement	settlement;
	bool		done;

	arguments_begin(function);
	settle_begin(&settlement, SETTLE_ACK);
	done = settle_receipt(&settlement, arguments_receipt(fcinfo, function));
	settle_end(&settlement);
	PG_RETURN_BOOL(done);
}

/*
 * Settle the receipts in argument 0, and return those that were.  errors, if
 * given, has an error for each, or one for all.
 */
static void
settle_many(FunctionCallInfo fcinfo, const char *function,
			Settlement *settlement, const TaskArray *errors)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum	   *receipts;
	int			n = arguments_receipts(fcinfo, 0, function, &receipts);

	if (errors != NULL && errors->n >= 0 && errors->n != 1 && errors->n != n)
		arguments_bad(function, "errors",
					 psprintf("has %d elements, for %d receipts", errors->n, n),
					 "Give an error for each receipt, or one for all.");
	result_rows_begin(fcinfo);
	for (int i = 0; i < n; i++)
	{
		bool		isnull = false;
		Datum		error;

		CHECK_FOR_INTERRUPTS();
		if (errors != NULL)
			settlement->error = task_element(errors, i, &error) ?
				DatumGetTextPP(error) : NULL;
		if (settle_receipt(settlement, DatumGetUUIDP(receipts[i])))
			result_rows_put(rsinfo, &receipts[i], &isnull);
	}
	settle_end(settlement);
}

Datum
fairq_ack_many(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.ack_many()";
	Settlement	settlement;

	arguments_begin(function);
	settle_begin(&settlement, SETTLE_ACK);
	settle_many(fcinfo, function, &settlement, NULL);
	return (Datum) 0;
}

Datum
fairq_nack(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.nack()";
	Settlement	settlement;
	bool		done;

	arguments_begin(function);
	settle_begin(&settlement, SETTLE_NACK);
	(void) arguments_receipt(fcinfo, function);
	settlement.error = PG_ARGISNULL(1) ? NULL : PG_GETARG_TEXT_PP(1);
	settlement.delay = arguments_duration(fcinfo, 2, function, "delay", -1, true);
	done = settle_receipt(&settlement, arguments_receipt(fcinfo, function));
	settle_end(&settlement);
	PG_RETURN_BOOL(done);
}

Datum
fairq_nack_many(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.nack_many()";
	Settlement	settlement;
	TaskArray	errors;

	arguments_begin(function);
	settle_begin(&settlement, SETTLE_NACK);
	errors.n = arguments_array(fcinfo, 1, function, "errors", TEXTOID, -1, false,
							  TYPALIGN_INT, &errors.elements, &errors.nulls);
	settlement.delay = arguments_duration(fcinfo, 2, function, "delay", -1, true);
	settle_many(fcinfo, function, &settlement, &errors);
	return (Datum) 0;
}

Datum
fairq_extend(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.extend()";
	Settlement	settlement;
	bool		done;

	arguments_begin(function);
	settle_begin(&settlement, SETTLE_EXTEND);
	(void) arguments_receipt(fcinfo, function);
	settlement.lease = arguments_duration(fcinfo, 1, function, "lease", -1, false);
	done = settle_receipt(&settlement, arguments_receipt(fcinfo, function));
	settle_end(&settlement);
	if (!done)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(settlement.deadline);
}

Datum
fairq_extend_many(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.extend_many()";
	Settlement	settlement;

	arguments_begin(function);
	settle_begin(&settlement, SETTLE_EXTEND);
	settlement.lease = arguments_duration(fcinfo, 1, function, "lease", -1, false);
	settle_many(fcinfo, function, &settlement, NULL);
	return (Datum) 0;
}

Datum
fairq_release(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.release()";
	Settlement	settlement;
	bool		done;

	arguments_begin(function);
	settle_begin(&settlement, SETTLE_RELEASE);
	done = settle_receipt(&settlement, arguments_receipt(fcinfo, function));
	settle_end(&settlement);
	PG_RETURN_BOOL(done);
}

Datum
fairq_release_many(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.release_many()";
	Settlement	settlement;

	arguments_begin(function);
	settle_begin(&settlement, SETTLE_RELEASE);
	settle_many(fcinfo, function, &settlement, NULL);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 * Tasks by id
 * ----------------------------------------------------------------
 */

Datum
fairq_cancel(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.cancel()";
	Relation	rel;
	QueueInfo  *info;
	bool		done;

	arguments_begin(function);
	(void) arguments_queue(fcinfo, function);
	if (PG_ARGISNULL(1))
		arguments_bad(function, "id", "is null", "Give the id of a task.");
	info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, ACL_DELETE, &rel);
	done = settle_cancel(rel, info, PG_GETARG_INT64(1));
	relation_close(rel, NoLock);
	PG_RETURN_BOOL(done);
}

/*
 * fairq.maintain(queue): a worker's passes by hand.
 */
Datum
fairq_maintain(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.maintain()";
	Relation	rel;
	QueueInfo  *info;
	Maintenance maintenance = {.by_hand = true};

	arguments_begin(function);
	info = queue_open(arguments_queue(fcinfo, function), RowExclusiveLock,
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

Datum
fairq_revive(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.revive()";
	Relation	rel;
	QueueInfo  *info;
	int64		revived;

	arguments_begin(function);
	info = queue_open(arguments_queue(fcinfo, function), RowExclusiveLock,
							  ACL_SELECT | ACL_UPDATE, &rel);
	revived = settle_revive(rel, info, PG_ARGISNULL(1),
							PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1));
	relation_close(rel, NoLock);
	PG_RETURN_INT64(revived);
}
