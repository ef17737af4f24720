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
#include "storage/queue_open.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "sql/arguments.h"
#include "sql/result_rows.h"
#include "verbs/enqueue.h"
#include "verbs/remove.h"
#include "verbs/settle.h"

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
	done = remove_cancel(rel, info, PG_GETARG_INT64(1));
	relation_close(rel, NoLock);
	PG_RETURN_BOOL(done);
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
	revived = remove_revive(rel, info, PG_ARGISNULL(1),
							PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1));
	relation_close(rel, NoLock);
	PG_RETURN_INT64(revived);
}
