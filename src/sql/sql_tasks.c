/*-------------------------------------------------------------------------
 *
 * sql_tasks.c
 *	  The functions of schema fairq that produce tasks and finish them: arguments,
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
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "sql/arguments.h"
#include "sql/result_rows.h"
#include "storage/queue_open.h"
#include "verbs/enqueue.h"
#include "verbs/settle.h"

PG_FUNCTION_INFO_V1(fairq_enqueue);
PG_FUNCTION_INFO_V1(fairq_enqueue_many);
PG_FUNCTION_INFO_V1(fairq_ack);
PG_FUNCTION_INFO_V1(fairq_ack_many);
PG_FUNCTION_INFO_V1(fairq_nack);
PG_FUNCTION_INFO_V1(fairq_nack_many);
PG_FUNCTION_INFO_V1(fairq_extend);
PG_FUNCTION_INFO_V1(fairq_extend_many);
PG_FUNCTION_INFO_V1(fairq_set_progress);
PG_FUNCTION_INFO_V1(fairq_release);
PG_FUNCTION_INFO_V1(fairq_release_many);
PG_FUNCTION_INFO_V1(fairq_cancel);
PG_FUNCTION_INFO_V1(fairq_revive);
PG_FUNCTION_INFO_V1(fairq_revive_group);
PG_FUNCTION_INFO_V1(fairq_revive_all);
PG_FUNCTION_INFO_V1(fairq_purge);
PG_FUNCTION_INFO_V1(fairq_purge_group);

/* How many tasks one may wait for. */
#define MAX_AFTER		10000

/* ----------------------------------------------------------------
 * Producing
 * ----------------------------------------------------------------
 */

static int
compare_ids(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

/* What it means that a task which another one waits for has failed. */
static char
on_dead_argument(FunctionCallInfo fcinfo, int number)
{
	static const char *const words[] = {"hold", "cancel", "run", NULL};
	static const char on_dead[] = {ON_DEAD_HOLD, ON_DEAD_CANCEL, ON_DEAD_RUN};
	int			word = arguments_word(fcinfo, number, "on_dead", words,
									  "It must be \"hold\", \"cancel\" or \"run\".");

	return word < 0 ? ON_DEAD_HOLD : on_dead[word];
}

/*
 * The tasks that a new one is to come after: arguments 14 and 15.
 */
static void
after_arguments(FunctionCallInfo fcinfo, NewTask *task)
{
	Datum	   *elements;
	int			n;

	task->on_dead = on_dead_argument(fcinfo, 15);
	n = arguments_array(fcinfo, 14, "after", INT8OID, &elements, NULL);
	if (n <= 0)
		return;
	task->after = palloc(n * sizeof(int64));
	for (int i = 0; i < n; i++)
	{
		task->after[i] = DatumGetInt64(elements[i]);
		if (task->after[i] <= 0)
			arguments_invalid(fcinfo, "after", psprintf(INT64_FORMAT, task->after[i]),
							  "Give the ids of earlier tasks of the queue.");
	}
	qsort(task->after, n, sizeof(int64), compare_ids);
	for (int i = 0; i < n; i++)
	{
		if (i == 0 || task->after[i] != task->after[i - 1])
			task->after[task->after_count++] = task->after[i];
	}
	if (task->after_count > MAX_AFTER)
		arguments_invalid(fcinfo, "after", psprintf("{...} with %d ids", task->after_count),
						  psprintf("A task can wait for %d others. Have tasks in between wait for some of them each.",
								   MAX_AFTER));
}

Datum
fairq_enqueue(PG_FUNCTION_ARGS)
{
	NewTask		task = {0};
	Relation	rel;
	QueueInfo  *info;
	int64		id;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	arguments_task(fcinfo, 16, &task);
	after_arguments(fcinfo, &task);
	info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, ACL_INSERT, &rel);
	arguments_check_task(fcinfo, info, &task);
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

/* Only payloads must not be null. */
static void
task_array(FunctionCallInfo fcinfo, int number, const char *argument, Oid type,
		   TaskArray *array, int *total)
{
	array->n = arguments_array(fcinfo, number, argument, type, &array->elements,
							   type == JSONBOID ? NULL : &array->nulls);
	if (array->n < 0 || array->n == 1)
		return;
	if (*total >= 0 && array->n != *total)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid number of elements of argument \"%s\" of %s: %d, not %d", argument,
						arguments_call(fcinfo), array->n, *total),
				 errhint("Give arrays of the same length; an array of length 1 stands for all.")));
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

/* Likewise of texts; or what stands for null. */
static text *
text_element(const TaskArray *array, int i, text *fallback)
{
	Datum		value;

	return task_element(array, i, &value) ? DatumGetTextPP(value) : fallback;
}

Datum
fairq_enqueue_many(PG_FUNCTION_ARGS)
{
	TaskArray	payloads;
	TaskArray	group_keys;
	TaskArray	priorities;
	TaskArray	costs;
	TaskArray	run_ats;
	TaskArray	unique_keys;
	TaskArray	names;
	TaskArray	subgroup_keys;
	bool		replace;
	int64		unique_for;
	text	   *no_group = cstring_to_text("");
	int			n = -1;
	NewTask    *tasks;
	int64	   *ids;
	Datum	   *result;
	Relation	rel;
	QueueInfo  *info;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	if (PG_ARGISNULL(1))
		arguments_null(fcinfo, "payloads", "Give an array of payloads; it may be empty.");
	task_array(fcinfo, 1, "payloads", JSONBOID, &payloads, &n);
	task_array(fcinfo, 2, "group_keys", TEXTOID, &group_keys, &n);
	task_array(fcinfo, 3, "priorities", INT8OID, &priorities, &n);
	task_array(fcinfo, 4, "costs", FLOAT8OID, &costs, &n);
	task_array(fcinfo, 5, "run_ats", TIMESTAMPTZOID, &run_ats, &n);
	task_array(fcinfo, 6, "unique_keys", TEXTOID, &unique_keys, &n);
	replace = arguments_on_duplicate(fcinfo, 7);
	unique_for = arguments_unique_for(fcinfo, 8, unique_keys.n >= 0);
	task_array(fcinfo, 9, "names", TEXTOID, &names, &n);
	task_array(fcinfo, 10, "subgroup_keys", TEXTOID, &subgroup_keys, &n);

	if (n < 0)
		n = 1;					/* all arrays that are given have length 1 */

	info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, ACL_INSERT, &rel);
	tasks = palloc0_array(NewTask, n + 1);
	ids = palloc_array(int64, n + 1);
	for (int i = 0; i < n; i++)
	{
		Datum		value;

		tasks[i].payload = payloads.elements[payloads.n == 1 ? 0 : i];
		tasks[i].group_key = text_element(&group_keys, i, no_group);
		tasks[i].subgroup_key = text_element(&subgroup_keys, i, NULL);
		tasks[i].has_priority = task_element(&priorities, i, &value);
		if (tasks[i].has_priority)
			tasks[i].priority = DatumGetInt64(value);
		tasks[i].cost = task_element(&costs, i, &value) ?
			arguments_cost(fcinfo, DatumGetFloat8(value)) : 1;
		tasks[i].run_at = task_element(&run_ats, i, &value) ?
			DatumGetTimestampTz(value) : DT_NOBEGIN;
		tasks[i].unique_key = text_element(&unique_keys, i, NULL);
		tasks[i].replace = replace;
		tasks[i].unique_for = unique_for;
		tasks[i].max_attempts = -1;
		tasks[i].max_lost = -1;
		tasks[i].name = text_element(&names, i, NULL);
		tasks[i].expires_at = DT_NOBEGIN;
		arguments_check_task(fcinfo, info, &tasks[i]);
	}
	enqueue_tasks(rel, info, n, tasks, ids);
	relation_close(rel, NoLock);

	result = palloc_array(Datum, n + 1);
	for (int i = 0; i < n; i++)
		result[i] = Int64GetDatum(ids[i]);
	PG_RETURN_ARRAYTYPE_P(result_rows_array(result, n, INT8OID));
}

/* ----------------------------------------------------------------
 * Consuming
 * ----------------------------------------------------------------
 */

/* Settle the receipt in argument 0.  Returns whether it was. */
static bool
settle_one(FunctionCallInfo fcinfo, Settlement *settlement)
{
	bool		done = settle_receipt(settlement, arguments_receipt(fcinfo));

	settle_end(settlement);
	return done;
}

Datum
fairq_ack(PG_FUNCTION_ARGS)
{
	Settlement	settlement;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_ACK);
	settlement.result = PG_ARGISNULL(1) ? NULL : PG_GETARG_JSONB_P(1);
	PG_RETURN_BOOL(settle_one(fcinfo, &settlement));
}

/*
 * Settle the receipts in argument 0, and return those that were.  errors, if
 * given, has an error for each, or one for all.
 */
static void
settle_many(FunctionCallInfo fcinfo, Settlement *settlement, const TaskArray *errors)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum	   *receipts;
	int			n = arguments_receipts(fcinfo, 0, &receipts);

	if (errors != NULL && errors->n >= 0 && errors->n != 1 && errors->n != n)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid number of elements of argument \"errors\" of %s: %d, for %d receipts",
						arguments_function(fcinfo), errors->n, n),
				 errhint("Give an error for each receipt, or one for all.")));
	result_rows_begin(fcinfo);
	for (int i = 0; i < n; i++)
	{
		bool		isnull = false;

		CHECK_FOR_INTERRUPTS();
		if (errors != NULL)
			settlement->error = text_element(errors, i, NULL);
		if (settle_receipt(settlement, DatumGetUUIDP(receipts[i])))
			result_rows_put(rsinfo, &receipts[i], &isnull);
	}
	settle_end(settlement);
}

Datum
fairq_ack_many(PG_FUNCTION_ARGS)
{
	Settlement	settlement;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_ACK);
	settle_many(fcinfo, &settlement, NULL);
	return (Datum) 0;
}

/* When the task is tried again, as arguments 2 and 3 say it. */
static void
retry_arguments(FunctionCallInfo fcinfo, Settlement *settlement)
{
	settlement->delay = arguments_duration(fcinfo, 2, "delay", -1, true);
	settlement->final = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3);
	if (settlement->final && settlement->delay >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s: a final failure has no delay", arguments_function(fcinfo)),
				 errhint("Give a delay, or say that the failure is final.")));
}

/*
 * fairq.nack(receipt, error, delay, final): the attempt has failed; final: and
 * another would, too.
 */
Datum
fairq_nack(PG_FUNCTION_ARGS)
{
	Settlement	settlement;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_NACK);
	(void) arguments_receipt(fcinfo);
	settlement.error = PG_ARGISNULL(1) ? NULL : PG_GETARG_TEXT_PP(1);
	retry_arguments(fcinfo, &settlement);
	PG_RETURN_BOOL(settle_one(fcinfo, &settlement));
}

Datum
fairq_nack_many(PG_FUNCTION_ARGS)
{
	Settlement	settlement;
	TaskArray	errors;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_NACK);
	errors.n = arguments_array(fcinfo, 1, "errors", TEXTOID, &errors.elements, &errors.nulls);
	retry_arguments(fcinfo, &settlement);
	settle_many(fcinfo, &settlement, &errors);
	return (Datum) 0;
}

/*
 * fairq.set_progress(receipt, progress): how far the task is.
 */
Datum
fairq_set_progress(PG_FUNCTION_ARGS)
{
	Settlement	settlement;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_PROGRESS);
	(void) arguments_receipt(fcinfo);
	if (PG_ARGISNULL(1))
		arguments_null(fcinfo, "progress", "Give a value of jsonb; it may be the null of JSON.");
	settlement.progress = PG_GETARG_JSONB_P(1);
	PG_RETURN_BOOL(settle_one(fcinfo, &settlement));
}

Datum
fairq_extend(PG_FUNCTION_ARGS)
{
	Settlement	settlement;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_EXTEND);
	(void) arguments_receipt(fcinfo);
	settlement.lease = arguments_duration(fcinfo, 1, "lease", -1, false);
	if (!settle_one(fcinfo, &settlement))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(settlement.until);
}

Datum
fairq_extend_many(PG_FUNCTION_ARGS)
{
	Settlement	settlement;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_EXTEND);
	settlement.lease = arguments_duration(fcinfo, 1, "lease", -1, false);
	settle_many(fcinfo, &settlement, NULL);
	return (Datum) 0;
}

Datum
fairq_release(PG_FUNCTION_ARGS)
{
	Settlement	settlement;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_RELEASE);
	(void) arguments_receipt(fcinfo);
	settlement.delay = arguments_duration(fcinfo, 1, "delay", 0, true);
	PG_RETURN_BOOL(settle_one(fcinfo, &settlement));
}

Datum
fairq_release_many(PG_FUNCTION_ARGS)
{
	Settlement	settlement;

	arguments_begin(fcinfo);
	settle_begin(&settlement, SETTLE_RELEASE);
	settlement.delay = arguments_duration(fcinfo, 1, "delay", 0, true);
	settle_many(fcinfo, &settlement, NULL);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 * Tasks by id
 * ----------------------------------------------------------------
 */

Datum
fairq_cancel(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	int64		id;
	bool		done;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	id = arguments_id(fcinfo);
	info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, ACL_DELETE, &rel);
	done = remove_cancel(rel, info, id);
	relation_close(rel, NoLock);
	PG_RETURN_BOOL(done);
}

Datum
fairq_revive(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	int64		id;
	int64		revived;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	id = arguments_id(fcinfo);
	info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, ACL_SELECT | ACL_UPDATE, &rel);
	revived = remove_revive(rel, info, id);
	relation_close(rel, NoLock);
	PG_RETURN_INT64(revived);
}

/*
 * Have a verb go through the tasks of a queue, or of the group that argument 1
 * names.  Returns how many there were.
 */
static Datum
go_through(FunctionCallInfo fcinfo, AclMode privileges,
		   int64 (*verb) (Relation rel, QueueInfo *info, const text *group))
{
	text	   *group;
	Relation	rel;
	QueueInfo  *info;
	int64		n;

	arguments_begin(fcinfo);
	(void) arguments_queue(fcinfo);
	group = PG_NARGS() > 1 ? arguments_group(fcinfo, 1) : NULL;
	info = queue_open(PG_GETARG_TEXT_PP(0), RowExclusiveLock, privileges, &rel);
	n = verb(rel, info, group);
	relation_close(rel, NoLock);
	PG_RETURN_INT64(n);
}

Datum
fairq_revive_group(PG_FUNCTION_ARGS)
{
	return go_through(fcinfo, ACL_SELECT | ACL_UPDATE, remove_revive_all);
}

Datum
fairq_revive_all(PG_FUNCTION_ARGS)
{
	return go_through(fcinfo, ACL_SELECT | ACL_UPDATE, remove_revive_all);
}

Datum
fairq_purge(PG_FUNCTION_ARGS)
{
	return go_through(fcinfo, ACL_DELETE, remove_purge);
}

Datum
fairq_purge_group(PG_FUNCTION_ARGS)
{
	return go_through(fcinfo, ACL_DELETE, remove_purge);
}
