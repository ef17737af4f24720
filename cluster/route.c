/*-------------------------------------------------------------------------
 *
 * route.c
 *	  What the ways of calls to nodes share.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/lsyscache.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

#include "cluster/engine_link.h"
#include "cluster/routes.h"
#include "common/node_number.h"

/* How long to wait at a node before the others are looked at, in the mean. */
#define SLICE_FIRST		(250 * INT64CONST(1000))
#define SLICE_LAST		(4 * USECS_PER_SEC)

/*
 * A call begins.  A call that writes is refused where its effect would not go
 * with the transaction; nothing else keeps a proxy from being a standby.
 */
void
route_begin(FunctionCallInfo fcinfo, NodeCall *call, bool writes)
{
	if (writes)
		node_call_refuse_in_transaction(fcinfo);
	if (fcinfo->flinfo->fn_retset)
		engine->result_rows_begin(fcinfo);
	SPI_connect();
	node_call_begin(fcinfo, call, false);
	call->writes = writes;
}

/*
 * The call ends: a value is the caller's, rows are in the result already.
 */
Datum
route_end(FunctionCallInfo fcinfo, Datum value, bool isnull)
{
	if (!isnull && !fcinfo->flinfo->fn_retset)
	{
		int16		length;
		bool		by_value;

		get_typlenbyval(get_func_rettype(fcinfo->flinfo->fn_oid), &length, &by_value);
		value = SPI_datumTransfer(value, by_value, length);
	}
	SPI_finish();
	if (isnull || fcinfo->flinfo->fn_retset)
	{
		fcinfo->isnull = true;
		return (Datum) 0;
	}
	return value;
}

/* Return the rows that a node has returned. */
void
route_put_rows(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	for (uint64 i = 0; i < SPI_processed; i++)
		tuplestore_puttuple(rsinfo->setResult, SPI_tuptable->vals[i]);
	SPI_freetuptable(SPI_tuptable);
}

/* A row with nothing in it: PL/Proxy makes one of a node's NULL. */
static bool
row_of_nulls(Datum value)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(value);
	HeapTupleData tuple = {.t_data = header};

	for (int i = 1; i <= HeapTupleHeaderGetNatts(header); i++)
		if (!heap_attisnull(&tuple, i, NULL))
			return false;
	return true;
}

/* End with what the node has answered. */
Datum
route_answer(FunctionCallInfo fcinfo, NodeCall *call)
{
	Datum		value = (Datum) 0;
	bool		isnull = true;

	if (fcinfo->flinfo->fn_retset)
		route_put_rows(fcinfo);
	else
		value = node_call_value(call, &isnull);
	if (!isnull && type_is_rowtype(get_func_rettype(fcinfo->flinfo->fn_oid)))
		isnull = row_of_nulls(value);
	return route_end(fcinfo, value, isnull);
}

/*
 * Make the call at the first of these nodes that can be asked, in a random
 * order, suspects last.  If none has taken it, *error is of the last, and the
 * answer says whether that may have done it.
 */
NodeAnswer
route_try(NodeCall *call, ClusterNode **nodes, int n, ErrorData **error)
{
	NodeAnswer	answer = NODE_NOT_ASKED;

	cluster_nodes_shuffle(nodes, n);
	for (int i = 0; i < n && answer == NODE_NOT_ASKED; i++)
		answer = node_call_try(call, nodes[i], error);
	return answer;
}

/* Make it at the first of these nodes, of which one has to take it. */
Datum
route_first(FunctionCallInfo fcinfo, NodeCall *call, ClusterNode **nodes, int n)
{
	ErrorData  *error = NULL;

	if (route_try(call, nodes, n, &error) != NODE_ANSWERED)
		ReThrowError(error);
	return route_answer(fcinfo, call);
}

/*
 * Let any node answer.  For what every node says the same of: arguments that
 * no node takes, receipts that no node has given.
 */
Datum
route_any_node(FunctionCallInfo fcinfo, NodeCall *call)
{
	ClusterNode **nodes;
	int			n = cluster_nodes(&nodes);

	return route_first(fcinfo, call, nodes, n);
}

/* The number of the node that gave a receipt or a session; -1: none has. */
int
route_node_of_uuid(const pg_uuid_t *uuid)
{
	if (!NODE_GAVE_UUID(uuid->data))
		return -1;
	return NODE_OF_UUID(uuid->data);
}

/* Take an array of one dimension or none apart. */
void
route_read_array(Divided *divided, int number, ArrayType *array)
{
	int16		length;
	bool		by_value;
	char		align;

	divided->types[number] = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(divided->types[number], &length, &by_value, &align);
	deconstruct_array(array, divided->types[number], length, by_value, align,
					  &divided->values[number], &divided->nulls[number],
					  &divided->lengths[number]);
	divided->n = Max(divided->n, divided->lengths[number]);
}

/* Give the call the elements that are of a node. */
void
route_set_part(NodeCall *call, const Divided *divided, ClusterNode *node)
{
	Datum	   *values = palloc(divided->n * sizeof(Datum));
	bool	   *nulls = palloc(divided->n * sizeof(bool));

	for (int i = 0; i < DIVIDED_ARGUMENTS; i++)
	{
		int			lower = 1;
		int			n = 0;
		int16		length;
		bool		by_value;
		char		align;
		ArrayType  *part;

		if (divided->values[i] == NULL)
			continue;
		for (int j = 0; j < divided->lengths[i]; j++)
			if (divided->lengths[i] < divided->n || divided->nodes[j] == node)
			{
				values[n] = divided->values[i][j];
				nulls[n++] = divided->nulls[i][j];
			}
		get_typlenbyvalalign(divided->types[i], &length, &by_value, &align);
		part = construct_md_array(values, nulls, 1, &n, &lower, divided->types[i], length,
								  by_value, align);
		node_call_set(call, ARGUMENT(i), PointerGetDatum(part), false);
	}
}

/*
 * Numbers of nodes, for a message: "1, 2, 3".
 */
char *
route_name_nodes(List *numbers)
{
	StringInfoData list;
	ListCell   *lc;

	initStringInfo(&list);
	foreach(lc, numbers)
		appendStringInfo(&list, "%s%d", list.len == 0 ? "" : ", ", lfirst_int(lc));
	return list.data;
}

/*
 * Nodes, by number, that had something to say and were out of reach.
 */
void
route_warn_missing(List *numbers)
{
	if (numbers == NIL)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg_plural("node %s is out of reach", "nodes %s are out of reach",
						   list_length(numbers), route_name_nodes(numbers)),
			 errdetail("What concerns it is missing in the result, and its outcome is not known."),
			 errhint("Repeat the call for what is missing.")));
}

/*
 * How many microseconds a call is to wait; -1: a node is to say what is wrong
 * with that.
 */
int64
route_waits(const Interval *interval)
{
	double		usecs = (double) interval->time +
		(interval->day + interval->month * 30.0) * USECS_PER_DAY;

	if (usecs < 0 || usecs > 3650.0 * USECS_PER_DAY)
		return -1;
	return engine->wall_clock_usecs(interval);
}

/*
 * How long a call that has waited for so long waits at a node before it looks
 * at the others.  That grows, so that who waits for long does not ask all nodes
 * all the time; and it is not the same for all who wait.
 */
int64
route_slice(int64 waited)
{
	int64		slice = Min(Max(waited / 2, SLICE_FIRST), SLICE_LAST);

	return slice * 3 / 4 + (int64) pg_prng_uint64_range(&pg_global_prng_state, 0, slice / 2);
}

/*
 * Wait for so long, where no node does it for us.
 */
void
route_rest(int64 usecs)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (long) (usecs / 1000), PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* What cannot be done through a proxy. */
void
route_unsupported(FunctionCallInfo fcinfo, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot execute %s at a proxy", engine->arguments_function(fcinfo)),
			 errdetail("%s", why),
			 errhint("%s", hint)));
}
