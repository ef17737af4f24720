/*-------------------------------------------------------------------------
 *
 * arguments.c
 *	  Reading and checking the arguments of SQL functions.
 *
 * What a caller can get wrong is said here: with the right SQLSTATE, the name
 * of the queue and the value, and a hint at what to do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/waiters.h"
#include "sql/arguments.h"
#include "storage/node_table.h"
#include "storage/queue_open.h"

#define MAX_CLAIM		100000
#define MAX_DURATION	(INT64CONST(3653) * USECS_PER_DAY)	/* ten years */

/* The queue that the call at hand names, for messages; NULL: none (yet). */
static const text *call_queue = NULL;

/*
 * The name of the function that is called, for messages; NULL: none, it is the
 * tick of a schedule.
 */
const char *
arguments_function(FunctionCallInfo fcinfo)
{
	Oid			function;

	if (fcinfo == NULL)
		return "fairq.schedule()";
	function = fcinfo->flinfo->fn_oid;
	return psprintf("%s.%s()", get_namespace_name(get_func_namespace(function)),
					get_func_name(function));
}

/*
 * Refuse if the engine is not there, or is of another version than the function
 * (55000).  Before any argument is read: it may be another one.
 */
void
arguments_require_preload(FunctionCallInfo fcinfo)
{
	call_queue = NULL;
	if (!shared_memory_ready())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot execute %s: pgfairq must be loaded via \"shared_preload_libraries\"",
						arguments_function(fcinfo)),
				 errhint("Add \"pgfairq\" to the setting \"shared_preload_libraries\" and restart the server.")));
	extension_version_require();
	proxy_calls_check_number();
}

/* A function that changes something begins: 55000, 25006. */
void
arguments_begin(FunctionCallInfo fcinfo)
{
	arguments_require_preload(fcinfo);
	if (RecoveryInProgress())
		PreventCommandDuringRecovery(arguments_function(fcinfo));
	if (XactReadOnly)
		PreventCommandIfReadOnly(arguments_function(fcinfo));
	if (IsInParallelMode())
		PreventCommandIfParallelMode(arguments_function(fcinfo));
}

/*
 * A value as it was given, for messages: not more than 100 bytes.
 */
const char *
arguments_clip(const char *value, int len)
{
	int			clipped = pg_mbcliplen(value, len, 100);

	return psprintf("%.*s%s", clipped, value, clipped < len ? "..." : "");
}

/* The function that is called, and for which queue, for messages. */
const char *
arguments_call(FunctionCallInfo fcinfo)
{
	const char *function = arguments_function(fcinfo);

	return call_queue == NULL ? function :
		psprintf("%s for queue \"%s\"", function,
				 arguments_clip(VARDATA_ANY(call_queue), VARSIZE_ANY_EXHDR(call_queue)));
}

/*
 * What may be wrong with any argument.
 */
void
arguments_null(FunctionCallInfo fcinfo, const char *argument, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" of %s must not be null", argument, arguments_call(fcinfo)),
			 errhint("%s", hint)));
}

void
arguments_invalid(FunctionCallInfo fcinfo, const char *argument, const char *value,
				  const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for argument \"%s\" of %s: \"%s\"", argument,
					arguments_call(fcinfo), value),
			 errhint("%s", hint)));
}

void
arguments_bad_length(FunctionCallInfo fcinfo, const char *argument, int length,
					 const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid length of argument \"%s\" of %s: %d bytes", argument,
					arguments_call(fcinfo), length),
			 errhint("%s", hint)));
}

static void
bad_dimensions(FunctionCallInfo fcinfo, const char *argument, int dimensions)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid number of dimensions of argument \"%s\" of %s: %d", argument,
					arguments_call(fcinfo), dimensions),
			 errhint("Give an array of one dimension.")));
}

static void
null_element(FunctionCallInfo fcinfo, const char *argument, int position)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("element %d of argument \"%s\" of %s must not be null", position, argument,
					arguments_call(fcinfo)),
			 errhint("Give an array without nulls.")));
}

/* The queue's name, argument 0. */
text *
arguments_queue(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		arguments_null(fcinfo, "queue", "Give the name of a queue.");
	call_queue = PG_GETARG_TEXT_PP(0);
	return unconstify(text *, call_queue);
}

/* The id of the task that a call is about: argument 1. */
int64
arguments_id(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(1))
		arguments_null(fcinfo, "id", "Give the id of a task.");
	return PG_GETARG_INT64(1);
}

/*
 * What is checked from here on concerns this queue: messages name it.
 */
void
arguments_concern(const text *queue)
{
	call_queue = queue;
}

/*
 * A duration in microseconds; fallback if it is null.  It has to be above
 * zero, or at least zero, and at most ten years.
 */
int64
arguments_duration(FunctionCallInfo fcinfo, int number, const char *argument,
				   int64 fallback, bool zero_ok)
{
	Interval   *interval;
	double		approximate;
	int64		usecs;

	if (PG_ARGISNULL(number))
		return fallback;
	interval = PG_GETARG_INTERVAL_P(number);
	/* In floating point first: the sum of the parts may not fit. */
	approximate = (double) interval->time +
		(interval->day + interval->month * 30.0) * USECS_PER_DAY;
	usecs = (approximate > MAX_DURATION || approximate < 0) ?
		0 : wall_clock_usecs(interval);
	if (approximate > MAX_DURATION || approximate < 0 || (usecs == 0 && !zero_ok))
		arguments_invalid(fcinfo, argument,
						  DatumGetCString(DirectFunctionCall1(interval_out,
															  PG_GETARG_DATUM(number))),
						  zero_ok ? "It must be from 0 to 10 years." :
						  "It must be above 0 and at most 10 years.");
	return usecs;
}

/*
 * A number from min to max; if_null is the hint to give one.
 */
int
arguments_number(FunctionCallInfo fcinfo, int number, const char *argument, int min,
				 int max, const char *if_null)
{
	int			value;

	if (PG_ARGISNULL(number))
		arguments_null(fcinfo, argument, if_null);
	value = PG_GETARG_INT32(number);
	if (value < min || value > max)
		arguments_invalid(fcinfo, argument, psprintf("%d", value),
						  psprintf("It must be from %d to %d.", min, max));
	return value;
}

int
arguments_max_tasks(FunctionCallInfo fcinfo, int number, int fallback)
{
	return PG_ARGISNULL(number) ? fallback :
		arguments_number(fcinfo, number, "max_tasks", 1, MAX_CLAIM, "");
}

static void
session_over(FunctionCallInfo fcinfo, int number)
{
	const char *session = DatumGetCString(DirectFunctionCall1(uuid_out, PG_GETARG_DATUM(number)));

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot execute %s: session \"%s\" is over", arguments_call(fcinfo), session),
			 errhint("Stop working on its tasks, and open another with fairq.open_session().")));
}

/*
 * The session that is given, which has to live and to be the caller's; its
 * number is NO_SESSION if it is null.
 */
SessionRef
arguments_session(FunctionCallInfo fcinfo, int number)
{
	SessionInfo session = {.ref = {.number = NO_SESSION}};

	if (PG_ARGISNULL(number))
		return session.ref;
	if (!sessions_find(PG_GETARG_UUID_P(number), &session))
		session_over(fcinfo, number);
	arguments_session_owner(&session);
	return session.ref;
}

/*
 * A session is its role's.
 */
void
arguments_session_owner(const SessionInfo *session)
{
	pg_uuid_t	uuid;

	if (has_privs_of_role(GetUserId(), session->role))
		return;
	sessions_to_uuid(&session->ref, &uuid);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for session \"%s\"",
					DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&uuid)))),
			 errhint("Use the role that opened it.")));
}

/*
 * The elements of a one-dimensional array, which may be null if nulls is given.
 * Returns how many; -1 if the argument is null.
 */
int
arguments_array(FunctionCallInfo fcinfo, int number, const char *argument, Oid type,
				Datum **elements, bool **nulls)
{
	ArrayType  *array;
	int16		length;
	bool		by_value;
	char		align;
	bool	   *refused;
	int			n;

	if (PG_ARGISNULL(number))
		return -1;
	array = PG_GETARG_ARRAYTYPE_P(number);
	if (ARR_NDIM(array) > 1)
		bad_dimensions(fcinfo, argument, ARR_NDIM(array));
	get_typlenbyvalalign(type, &length, &by_value, &align);
	deconstruct_array(array, type, length, by_value, align, elements,
					  nulls != NULL ? nulls : &refused, &n);
	for (int i = 0; i < n && nulls == NULL; i++)
	{
		if (refused[i])
			null_element(fcinfo, argument, i + 1);
	}
	return n;
}

/*
 * The names of the queues, argument 0, each once, in the order in which they
 * come first.  Returns how many.
 */
int
arguments_queues(FunctionCallInfo fcinfo, text ***names)
{
	Datum	   *elements;
	int			n = arguments_array(fcinfo, 0, "queues", TEXTOID, &elements, NULL);
	int			count = 0;

	if (n < 0)
		arguments_null(fcinfo, "queues", "Give the names of the queues.");
	if (n == 0)
		arguments_invalid(fcinfo, "queues", "{}",
						  psprintf("Give the names of 1 to %d queues.", WAITERS_SEATS));
	*names = palloc(WAITERS_SEATS * sizeof(text *));
	for (int i = 0; i < n; i++)
	{
		text	   *name = DatumGetTextPP(elements[i]);
		int			other = 0;

		while (other < count &&
			   (VARSIZE_ANY_EXHDR(name) != VARSIZE_ANY_EXHDR((*names)[other]) ||
				memcmp(VARDATA_ANY(name), VARDATA_ANY((*names)[other]),
					   VARSIZE_ANY_EXHDR(name)) != 0))
			other++;
		if (other < count)
			continue;
		if (count == WAITERS_SEATS)
			arguments_invalid(fcinfo, "queues",
							  arguments_clip(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)),
							  psprintf("It is one too many. Give up to %d queues, and the others in another call, or on another connection.",
									   WAITERS_SEATS));
		(*names)[count++] = name;
	}
	return count;
}

pg_uuid_t *
arguments_receipt(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		arguments_null(fcinfo, "receipt",
					   "Give the receipt that fairq.claim() returned.");
	return PG_GETARG_UUID_P(0);
}

int
arguments_receipts(FunctionCallInfo fcinfo, int number, Datum **receipts)
{
	int			n = arguments_array(fcinfo, number, "receipts", UUIDOID, receipts, NULL);

	if (n < 0)
		arguments_null(fcinfo, "receipts", "Give an array of receipts; it may be empty.");
	return n;
}

/*
 * A session that has had buckets dealt out to it may claim from those only.
 */
static void
refuse_lost_buckets(QueueInfo *info, const ClaimRequest *request)
{
	int			lost = sessions_lost_bucket(info->state, info->buckets, request->session.number,
											request->buckets, request->bucket_count);

	if (lost >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("bucket %d of queue \"%s\" does not belong to the session", lost, info->name),
				 errhint("It has been dealt to another session, or the queue has fewer buckets now; ask fairq.my_buckets() again.")));
}

void
arguments_buckets(FunctionCallInfo fcinfo, int number, QueueInfo *info, ClaimRequest *request)
{
	Datum	   *elements;
	int		   *buckets;
	int			n = arguments_array(fcinfo, number, "buckets", INT4OID, &elements, NULL);

	request->bucket_count = n;
	if (n < 0)
		return;
	request->buckets = buckets = palloc((n + 1) * sizeof(int));
	for (int i = 0; i < n; i++)
		buckets[i] = DatumGetInt32(elements[i]);

	/* First, for a session's bucket may be none of the queue's any more. */
	if (request->session.number != NO_SESSION)
		refuse_lost_buckets(info, request);
	for (int i = 0; i < n; i++)
	{
		if (buckets[i] < 0 || buckets[i] >= info->buckets)
			arguments_invalid(fcinfo, "buckets", psprintf("%d", buckets[i]),
							  psprintf("Queue \"%s\" has the buckets 0 to %d.",
									   info->name, info->buckets - 1));
	}
}

void
arguments_groups(FunctionCallInfo fcinfo, int number, ClaimRequest *request)
{
	Datum	   *elements;
	int			n = arguments_array(fcinfo, number, "group_keys", TEXTOID, &elements, NULL);

	request->group_count = n;
	if (n < 0)
		return;
	request->groups = palloc((n + 1) * sizeof(text *));
	for (int i = 0; i < n; i++)
		request->groups[i] = DatumGetTextPP(elements[i]);
}

/*
 * Which of the words, up to a NULL, an argument is; -1: it is null.
 */
int
arguments_word(FunctionCallInfo fcinfo, int number, const char *argument,
			   const char *const *words, const char *hint)
{
	char	   *word;

	if (PG_ARGISNULL(number))
		return -1;
	word = text_to_cstring(PG_GETARG_TEXT_PP(number));
	for (int i = 0; words[i] != NULL; i++)
	{
		if (strcmp(word, words[i]) == 0)
			return i;
	}
	arguments_invalid(fcinfo, argument, arguments_clip(word, strlen(word)), hint);
	return -1;
}

/*
 * Check how long a text is: from min to max bytes.
 */
void
arguments_check_bytes(FunctionCallInfo fcinfo, const char *argument, const text *value,
					  int min, int max, const char *or)
{
	int			length = VARSIZE_ANY_EXHDR(value);

	if (length < min || length > max)
		arguments_bad_length(fcinfo, argument, length,
							 min == 0 ? psprintf("It may have %d bytes.", max) :
							 psprintf("It must have %d to %d bytes%s.", min, max, or));
}

/* A key that a call is about, of min to max bytes. */
static text *
key_argument(FunctionCallInfo fcinfo, int number, const char *argument, int min, int max,
			 const char *hint)
{
	text	   *key;

	if (PG_ARGISNULL(number))
		arguments_null(fcinfo, argument, hint);
	key = PG_GETARG_TEXT_PP(number);
	arguments_check_bytes(fcinfo, argument, key, min, max, "");
	return key;
}

/* The key of the group that a call is about. */
text *
arguments_group(FunctionCallInfo fcinfo, int number)
{
	return key_argument(fcinfo, number, "group_key", 0, MAX_GROUP_KEY,
						"Give the key of a group.");
}

/* The key of the subgroup that a call is about: argument 2. */
text *
arguments_subgroup(FunctionCallInfo fcinfo)
{
	return key_argument(fcinfo, 2, "subgroup_key", 0, MAX_GROUP_KEY,
						"Give the key of a subgroup, which may be empty.");
}

/* The unique key that a call is about. */
text *
arguments_unique_key(FunctionCallInfo fcinfo, int number)
{
	return key_argument(fcinfo, number, "unique_key", 1, MAX_UNIQUE_KEY,
						"Give a key; fairq.forget_keys() is for all.");
}

/*
 * Procedures that wait end their transaction to sleep without one that could
 * be in the way.  So they are refused where they cannot end it, or where the
 * caller may not want that.
 */
void
arguments_outside_transaction(FunctionCallInfo fcinfo, const char *instead)
{
	CallContext *context = (CallContext *) fcinfo->context;

	if (context == NULL || !IsA(context, CallContext) || context->atomic ||
		IsSubTransaction() || TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block",
						arguments_function(fcinfo)),
				 errhint("Call it on its own, after the commit; within a transaction use %s with \"wait\".",
						 instead)));
}
