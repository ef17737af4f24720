/*-------------------------------------------------------------------------
 *
 * node_call.c
 *	  A call of an application, carried to one node after the other.
 *
 * PL/Proxy carries it: each function of the application has a twin in schema
 * fairq_internal, written in PL/Proxy's language, that has one argument more,
 * the place of the node.  Here is what PL/Proxy leaves to its user: an error
 * of its own is an internal error, whatever has happened, and an error of the
 * node has its function's name in front.  We tell three things apart: the node
 * has answered, it could not be asked, or the connection was lost while it was
 * asked, so that what it has done is not known.  Errors of a node are passed on
 * in the words of the node.
 *
 * A node is asked for its number when a backend first comes to it, and after
 * the connection was lost: what is meant for one node is never done at another
 * one, however wrong a connection string is.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "cluster/engine_link.h"
#include "cluster/node_call.h"
#include "cluster/node_health.h"
#include "common/compat.h"
#include "common/node_number.h"

#define TWIN_SCHEMA	"fairq_internal"
#define TWIN_PREFIX	"at_"

/* What is said when ALTER EXTENSION UPDATE has replaced a function and its twin
 * since the statement that calls it was parsed. */
#define REPLACED		"a function of pgfairq_cluster has been replaced by its upgrade"
#define REPLACED_HINT	"Nothing was done: the call may be repeated."

/* For a call that may take long, so many times the limit of another. */
#define LONG_FACTOR		60

/* How long to try to connect anew when a call was left, in milliseconds. */
#define HANG_UP_MSECS	100

static bool calls_in_transaction = false;
static HTAB *functions = NULL;

/* One in which the first to write was a call itself, on tables of ours. */
static TransactionId own_transaction = InvalidTransactionId;

/*
 * The settings.  Also without preload, which a proxy does not need.
 */
void
node_call_settings_define(void)
{
	DefineCustomBoolVariable("pgfairq.calls_in_transaction",
							 "Lets a proxy carry calls from a transaction that has written.",
							 "What a call does at a node is in force at once, and stays when the transaction is rolled back.",
							 &calls_in_transaction,
							 false, PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("pgfairq.node_timeout",
							"How long a node may take to answer a call, beside the time that the call itself waits.",
							"Then the connection is closed. Administration has sixty times as long. 0: no limit.",
							&cluster_nodes_timeout,
							5000, 0, 3600 * 1000,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
}

/*
 * Refuse a call that changes something from a transaction that has written to
 * this database: a rollback would not undo the call.
 */
void
node_call_refuse_in_transaction(FunctionCallInfo fcinfo)
{
	if (calls_in_transaction || !TransactionIdIsValid(GetTopTransactionIdIfAny()) ||
		TransactionIdEquals(GetTopTransactionIdIfAny(), own_transaction))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("cannot execute %s in a transaction that has written to the proxy's database",
					engine->arguments_function(fcinfo)),
			 errdetail("A call is in force at its node at once: a rollback would not undo it."),
			 errhint("Commit first, or set \"pgfairq.calls_in_transaction\" to on.")));
}

/*
 * A call is going to write to our tables what it has done at the nodes.  Other
 * calls may follow: there is nothing of the caller's that a rollback undoes.
 */
void
node_call_writes_own(void)
{
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		own_transaction = GetTopTransactionId();
}

static void
replaced_meanwhile(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(REPLACED),
			 errhint(REPLACED_HINT)));
}

/* The function of this name in TWIN_SCHEMA; it has no overload. */
static Oid
find_twin(const char *name)
{
	List	   *names = list_make2(makeString(TWIN_SCHEMA), makeString(pstrdup(name)));
	Oid			any = InvalidOid;	/* not looked at, but asserted to be there */
	Oid			oid = LookupFuncName(names, -1, &any, true);

	if (!OidIsValid(oid))
		replaced_meanwhile();
	return oid;
}

/* The statement that calls the twin, which SPI keeps. */
static void
prepare(NodeFunction *function, const char *twin)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "SELECT %s %s.%s(", function->returns_set ? "* FROM" : "",
					 TWIN_SCHEMA, quote_identifier(twin));
	for (int i = 0; i < function->arguments; i++)
		appendStringInfo(&text, "%s$%d", i == 0 ? "" : ", ", i + 1);
	appendStringInfoChar(&text, ')');
	PG_TRY();
	{
		function->plan = SPI_prepare(text.data, function->arguments, function->types);
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_UNDEFINED_FUNCTION)
		{
			FlushErrorState();
			replaced_meanwhile();
		}
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (function->plan == NULL || SPI_keepplan(function->plan) != 0)
		elog(ERROR, "SPI_prepare failed (%s): %s", SPI_result_code_string(SPI_result), text.data);
	pfree(text.data);
}

static NodeFunction *
find_function(const char *name)
{
	char	   *twin = psprintf(TWIN_PREFIX "%s", name);
	Oid			oid = find_twin(twin);
	NodeFunction *function;
	bool		found;

	if (functions == NULL)
	{
		HASHCTL		control = {0};

		control.keysize = sizeof(Oid);
		control.entrysize = sizeof(NodeFunction);
		functions = hash_create("pgfairq calls of nodes", 64, &control, HASH_ELEM | HASH_BLOBS);
	}
	function = hash_search(functions, &oid, HASH_ENTER, &found);
	if (!found)
	{
		HeapTuple	tuple;
		Form_pg_proc form;

		function->plan = NULL;
		tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for function %u", oid);
		form = (Form_pg_proc) GETSTRUCT(tuple);
		strlcpy(function->name, name, NAMEDATALEN);
		function->arguments = form->pronargs;
		memcpy(function->types, form->proargtypes.values, form->pronargs * sizeof(Oid));
		function->returns_set = form->proretset;
		ReleaseSysCache(tuple);
	}
	if (function->plan == NULL)
		prepare(function, twin);
	pfree(twin);
	return function;
}

static void
begin(NodeCall *call, NodeFunction *function, int arguments)
{
	call->writes = call->elsewhere = false;
	call->function = function;
	call->wait = 0;
	if (function->arguments != arguments)
		elog(ERROR, "the twin of %s has %d arguments instead of %d", function->name,
			 function->arguments, arguments);
}

/*
 * A call of the SQL function that is called.  The caller has connected to SPI.
 * by_number: its first argument is the number of a node, where its twin has
 * the place.
 */
void
node_call_begin(FunctionCallInfo fcinfo, NodeCall *call, bool by_number)
{
	int			first = by_number ? 1 : 0;

	if (fcinfo->flinfo->fn_extra == NULL)
		fcinfo->flinfo->fn_extra = find_function(get_func_name(fcinfo->flinfo->fn_oid));
	begin(call, fcinfo->flinfo->fn_extra, ARGUMENT(fcinfo->nargs - first));
	for (int i = first; i < fcinfo->nargs; i++)
		node_call_set(call, ARGUMENT(i - first), fcinfo->args[i].value, fcinfo->args[i].isnull);
}

/*
 * A call of another function.  The caller sets its arguments.
 */
void
node_call_other(NodeCall *call, const char *name, int arguments)
{
	begin(call, find_function(name), ARGUMENT(arguments));
}

void
node_call_set(NodeCall *call, int number, Datum value, bool isnull)
{
	call->values[number] = value;
	call->nulls[number] = isnull ? 'n' : ' ';
}

/* The words after a mark, or NULL. */
static char *
after(char *message, const char *mark)
{
	char	   *found = message == NULL ? NULL : strstr(message, mark);

	return found == NULL ? NULL : found + strlen(mark);
}

/*
 * What an error says of the call.  PL/Proxy's own begin with its name and say
 * which call of libpq has failed; those before the query is sent are known.  A
 * connection that ends while the node answers has no severity; and a node that
 * is shut down, or whose backend is terminated, says so itself.
 */
static NodeAnswer
answer_of(const ErrorData *error)
{
	static const char *const before[] = {
		"PQconnectStart: ", "PQconnectPoll: ", "connect timeout to: "
	};
	static const char *const during[] = {
		"PQflush: ", "PQsendQuery: ", "PQsendQueryParams: ", "PQconsumeInput: ",
		"query timeout", "Unfinished connection", "Lost result", "poll() failed"
	};

	if (error->message == NULL)
		return NODE_REFUSED;
	if (after(error->message, "] REMOTE ") != NULL)
	{
		if (error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN ||
			error->sqlerrcode == ERRCODE_CRASH_SHUTDOWN ||
			error->sqlerrcode == ERRCODE_CANNOT_CONNECT_NOW ||
			after(error->message, "] REMOTE (null): ") != NULL)
			return NODE_SILENT;
		return NODE_REFUSED;
	}
	if (error->sqlerrcode != ERRCODE_INTERNAL_ERROR ||
		strncmp(error->message, "PL/Proxy function ", 18) != 0)
		return NODE_REFUSED;
	for (int i = 0; i < (int) lengthof(before); i++)
		if (after(error->message, before[i]) != NULL)
			return NODE_NOT_ASKED;
	for (int i = 0; i < (int) lengthof(during); i++)
		if (after(error->message, during[i]) != NULL)
			return NODE_SILENT;
	return NODE_REFUSED;
}

/* Without the mark before it, and the white space at its end. */
static char *
words_of(char *message, const char *mark)
{
	char	   *rest = after(message, mark);
	char	   *end;

	if (rest != NULL)
		message = rest;
	end = message + strlen(message);
	while (end > message && isspace((unsigned char) end[-1]))
		*--end = '\0';
	return message;
}

/*
 * The error of a node that was out of reach.
 */
static void
describe_lost(ErrorData *error, const ClusterNode *node, NodeAnswer answer)
{
	error->sqlerrcode = ERRCODE_CONNECTION_FAILURE;
	error->detail = words_of(error->message, "): ");
	error->message = psprintf("node %d is out of reach", node->number);
	error->context = NULL;
	error->hint = answer == NODE_NOT_ASKED ?
		"Nothing was done there: the call may be repeated." :
		"The connection was lost during the call: whether it has taken effect is not known. An enqueue may be repeated if it has a unique_key and a unique_for that lasts until then: it is one task.";
}

/*
 * The error of a node in its own words.
 */
static void
describe_refused(ErrorData *error, const ClusterNode *node)
{
	char	   *words = after(error->message, "] REMOTE ");
	char	   *context;

	if (words == NULL)
	{
		/*
		 * an error of this server's, such as a timeout, in a statement of
		 * ours
		 */
		error->context = NULL;
		if (error->sqlerrcode == ERRCODE_UNDEFINED_FUNCTION &&
			strstr(error->message, TWIN_SCHEMA "." TWIN_PREFIX) != NULL)
		{
			error->sqlerrcode = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
			error->message = pstrdup(REPLACED);
			error->hint = pstrdup(REPLACED_HINT);
		}
		return;
	}
	error->message = words_of(words, ": ");
	if (error->detail != NULL)
		error->detail = words_of(error->detail, "Remote detail: ");
	if (error->hint != NULL)
		error->hint = words_of(error->hint, "Remote hint: ");
	context = after(error->context, "Remote context: ");
	error->context = psprintf("at node %d", node->number);
	if (context != NULL)
	{
		/* what follows is of our own statement */
		char	   *own = strstr(context, "\nSQL statement \"SELECT");

		if (own != NULL)
			*own = '\0';
		error->context = psprintf("%s\nat node %d", context, node->number);
	}
}

/*
 * May another node have the call that one has refused?  It has failed there
 * with its transaction, so nothing of it is left.  Two refusals are no fault of
 * the call's.  The node is drained, which this proxy does not know yet: from
 * then on it counts as drained here, until the list is read anew.  And it is
 * out of something, such as room on its disk (class 53), which matters only
 * for what has to be there.
 */
static bool
is_for_another(const NodeCall *call, ClusterNode *node, const ErrorData *error)
{
	if (error->sqlerrcode == ERRCODE_NODE_DRAINED)
	{
		cluster_nodes_drained(node);
		return true;
	}
	return call->elsewhere &&
		ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_INSUFFICIENT_RESOURCES;
}

/* Set a setting until the nest level ends, or the subtransaction fails. */
static void
set_for_call(const char *setting, const char *value)
{
	(void) set_config_option(setting, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
}

/*
 * Values go as text, which the node reads by settings of its own: what we write
 * must mean the same with all of them.
 */
static void
execute(void *arg)
{
	NodeCall   *call = arg;
	int			result;
	int			level = NewGUCNestLevel();

	if (DateStyle != USE_ISO_DATES)
		set_for_call("datestyle", "ISO");
	if (IntervalStyle != INTSTYLE_POSTGRES)
		set_for_call("intervalstyle", "postgres");
	if (extra_float_digits < 1)
		set_for_call("extra_float_digits", "1");
	result = SPI_execute_plan(call->function->plan, call->values, call->nulls, false, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan failed (%s): %s", SPI_result_code_string(result),
			 call->function->name);
	AtEOXact_GUC(true, level);
}

/* How many milliseconds the node may take. */
static int64
patience(const NodeCall *call)
{
	if (cluster_nodes_timeout == 0)
		return CALL_UNLIMITED;
	if (call->wait == NODE_CALL_LONG)
		return (int64) cluster_nodes_timeout * LONG_FACTOR;
	return cluster_nodes_timeout + call->wait / 1000;
}

/* What an error says of a call that was left. */
static char *
why_left(CallEnd end, bool connecting, int64 msecs)
{
	if (end == CALL_SILENT)
		return "Its server does not answer.";
	return psprintf(connecting ? "It could not be connected to within %d ms." :
					"It has not answered within %d ms.", (int) msecs);
}

/*
 * Make a call, of which connecting is a part if it is said so.  An error leaves
 * PL/Proxy's connection as it is, and the next call makes a new one.
 */
static NodeAnswer
ask(NodeCall *call, ClusterNode *node, int64 msecs, bool connecting, ErrorData **error)
{
	NodeAnswer	answer;
	CallEnd		end;
	int			messages = client_min_messages;
	int64		began = engine->wall_clock_real();

	/* PL/Proxy has a notice when it connects anew, as after each error. */
	client_min_messages = Max(messages, WARNING);
	node_call_set(call, 0, Int32GetDatum(node->place), false);
	*error = call_limit_run(execute, call, node->server, msecs, &end);
	client_min_messages = messages;
	call->too_long = (end == CALL_TOO_LONG);
	if (*error == NULL)
	{
		if (call->writes)
			called_nodes_note(call, node);
		return NODE_ANSWERED;
	}
	node->recognized = false;
	if (end == CALL_CANCELLED)
		return NODE_CANCELLED;
	answer = end == CALL_ENDED ? answer_of(*error) : NODE_SILENT;
	if (answer == NODE_REFUSED)
	{
		describe_refused(*error, node);
		if ((*error)->sqlerrcode == ERRCODE_QUERY_CANCELED)
			ReThrowError(*error);
		return is_for_another(call, node, *error) ? NODE_NOT_ASKED : answer;
	}
	if (connecting)
		answer = NODE_NOT_ASKED;
	describe_lost(*error, node, answer);
	if (end != CALL_ENDED)
		(*error)->detail = why_left(end, connecting, msecs);
	cluster_nodes_lost(node, engine->wall_clock_real() - began, answer == NODE_NOT_ASKED);
	return end == CALL_ENDED || connecting ? answer : NODE_LEFT;
}

/*
 * Ask the node who it is, which is the first call on each connection.
 */
static NodeAnswer
recognize(ClusterNode *node, int64 msecs, int *number, ErrorData **error)
{
	NodeCall	who;
	NodeAnswer	answer;
	bool		isnull;

	node_call_other(&who, "this_node", 0);
	answer = ask(&who, node, msecs, true, error);
	if (answer != NODE_ANSWERED)
		return answer;
	*number = DatumGetInt32(node_call_value(&who, &isnull));
	SPI_freetuptable(SPI_tuptable);
	if (*number == node->number)
		cluster_nodes_connected(node);
	return NODE_ANSWERED;
}

/*
 * Close the connection of a call that was left: the node would go on with it.
 * PL/Proxy does so when it is to connect anew, as the next call needs anyway.
 * That there was too little time for it says nothing of a node whose call was
 * cancelled, or whose server answers the probe.
 */
static void
hang_up(ClusterNode *node, bool cancelled)
{
	ClusterNode before = *node;
	ErrorData  *error;
	int			number;
	NodeAnswer	answer = recognize(node, HANG_UP_MSECS, &number, &error);

	if (answer != NODE_ANSWERED &&
		(cancelled || node_health_of(node->server) == NODE_HEALTH_WELL))
		*node = before;
	if (answer == NODE_CANCELLED)
		ReThrowError(error);
}

/* What becomes of a call that is over: one that was left has to be closed. */
static NodeAnswer
settled(NodeAnswer answer, ClusterNode *node, ErrorData *error)
{
	if (answer == NODE_LEFT || answer == NODE_CANCELLED)
		hang_up(node, answer == NODE_CANCELLED);
	if (answer == NODE_CANCELLED)
		ReThrowError(error);
	return answer == NODE_LEFT ? NODE_SILENT : answer;
}

/* An error as ereport would have it, for a node that is not asked. */
static ErrorData *
closed_error(const ClusterNode *node)
{
	ErrorData  *error = palloc0(sizeof(ErrorData));

	error->elevel = ERROR;
	error->output_to_server = error->output_to_client = true;
	error->assoc_context = CurrentMemoryContext;
	error->message = pstrdup("): Its server does not answer, and is not asked for a while.");
	describe_lost(error, node, NODE_NOT_ASKED);
	return error;
}

/*
 * Make the call at a node, once it is known that it is the one that is meant.
 * *error is what to raise if it has not answered, or has refused.  A call that
 * was cancelled, here or there, is an error.
 */
NodeAnswer
node_call_ask(NodeCall *call, ClusterNode *node, ErrorData **error)
{
	NodeAnswer	answer;
	int			number = node->number;

	if (cluster_nodes_closed(node))
	{
		*error = closed_error(node);
		return NODE_NOT_ASKED;
	}
	if (!node->recognized)
	{
		int64		msecs = cluster_nodes_timeout == 0 ? CALL_UNLIMITED :
			cluster_nodes_patience(node);

		answer = recognize(node, msecs, &number, error);
		if (answer == NODE_CANCELLED)
			ReThrowError(*error);
		if (answer != NODE_ANSWERED)
			return answer;
	}
	if (number != node->number)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the server of node %d says that it is node %d", node->number, number),
				 errhint("Correct the connection in table fairq.node, or the server's number with fairq.set_node().")));
	answer = ask(call, node, patience(call), false, error);
	answer = settled(answer, node, *error);
	if (answer == NODE_ANSWERED)
		cluster_nodes_answered(node);
	return answer;
}

/*
 * Make the call at a node.  What it returns is in SPI_tuptable.  *error is what
 * to raise if the node is out of reach; what the node itself refuses is raised
 * here.
 */
NodeAnswer
node_call_try(NodeCall *call, ClusterNode *node, ErrorData **error)
{
	NodeAnswer	answer = node_call_ask(call, node, error);

	if (answer == NODE_REFUSED)
		ReThrowError(*error);
	return answer;
}

/*
 * Make a call that changes nothing.  A connection that was lost, as after a
 * restart of the node, is made anew once: the call may be repeated.  Not one
 * that has taken all of a long time.
 */
NodeAnswer
node_call_look(NodeCall *call, ClusterNode *node, ErrorData **error)
{
	NodeAnswer	answer = node_call_try(call, node, error);

	if (answer != NODE_SILENT || (call->too_long && call->wait == NODE_CALL_LONG))
		return answer;
	return node_call_try(call, node, error);
}

/*
 * Make the call at a node, which has to answer.
 */
void
node_call_at(NodeCall *call, ClusterNode *node)
{
	ErrorData  *error;

	if (node_call_try(call, node, &error) != NODE_ANSWERED)
		ReThrowError(error);
}

/*
 * Make the call at the server of a node, whichever it says it is.
 */
void
node_call_of_server(NodeCall *call, ClusterNode *node)
{
	ErrorData  *error;
	NodeAnswer	answer;
	int64		msecs = patience(call);

	if (cluster_nodes_closed(node))
		ReThrowError(closed_error(node));
	if (msecs != CALL_UNLIMITED)
		msecs += cluster_nodes_patience(node);
	answer = ask(call, node, msecs, false, &error);
	if (settled(answer, node, error) != NODE_ANSWERED)
		ReThrowError(error);
}

/*
 * What a function that returns no set has returned.  It is SPI's; NULL is
 * also the value if there is no row.
 */
Datum
node_call_value(NodeCall *call, bool *isnull)
{
	*isnull = true;
	if (SPI_processed == 0)
		return (Datum) 0;
	return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, isnull);
}
