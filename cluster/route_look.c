/*-------------------------------------------------------------------------
 *
 * route_look.c
 *	  The ways of what looks at tasks to nodes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "cluster/engine_link.h"
#include "cluster/routes.h"
#include "common/node_number.h"
#include "sql/arguments.h"

/* Of fairq.task_position. */
enum
{
	POSITION_STATE, POSITION_AHEAD, POSITION_STARTS_AT, POSITION_EXACT, POSITION_COLUMNS
};

/* Is the task at the node? */
static bool
is_there(FunctionCallInfo fcinfo, ClusterNode *node)
{
	NodeCall	look;
	ErrorData  *error;
	bool		there;

	node_call_other(&look, "get_task", 2);
	node_call_set(&look, ARGUMENT(0), PG_GETARG_DATUM(0), false);
	node_call_set(&look, ARGUMENT(1), PG_GETARG_DATUM(1), false);
	if (node_call_look(&look, node, &error) != NODE_ANSWERED)
		return false;
	there = SPI_processed > 0;
	SPI_freetuptable(SPI_tuptable);
	return there;
}

/*
 * The node that has a task: that which gave the id, unless the task was moved.
 * If none has it, the one that gave the id is to say so; NULL: any.
 */
static ClusterNode *
node_of_task(FunctionCallInfo fcinfo)
{
	ClusterNode **nodes;
	int			n = cluster_nodes(&nodes);
	ClusterNode *giver = NULL;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_GETARG_INT64(1) <= 0)
		return NULL;
	giver = cluster_nodes_find(NODE_OF_ID(PG_GETARG_INT64(1)));
	if (giver != NULL && is_there(fcinfo, giver))
		return giver;
	for (int i = 0; i < n; i++)
		if (nodes[i] != giver && !cluster_nodes_suspect(nodes[i]) && is_there(fcinfo, nodes[i]))
			return nodes[i];
	return giver;
}

/*
 * A call with a queue and the id of a task of it.
 */
Datum
route_by_id(FunctionCallInfo fcinfo, bool writes, int64 waits)
{
	NodeCall	call;
	ClusterNode *node;

	route_begin(fcinfo, &call, writes);
	node = node_of_task(fcinfo);
	if (node == NULL)
		return route_any_node(fcinfo, &call);
	call.wait = waits;
	node_call_at(&call, node);
	return route_answer(fcinfo, &call);
}

/*
 * fairq.await(queue, id, timeout): the node says what is wrong with the time.
 */
Datum
route_await(FunctionCallInfo fcinfo)
{
	return route_by_id(fcinfo, false,
					   PG_ARGISNULL(2) ? 0 : Max(route_waits(PG_GETARG_INTERVAL_P(2)), 0));
}

/*
 * fairq.get_task_position(queue, id): what its node says.  What is ahead of it
 * is counted there; with other nodes beside it, claims go to them, too, and
 * whose turn it is over all nodes is not known exactly.
 */
Datum
route_position(FunctionCallInfo fcinfo)
{
	Datum		value = route_by_id(fcinfo, false, 0);
	ClusterNode **nodes;
	TupleDesc	tupdesc;
	HeapTupleData tuple = {0};
	Datum		values[POSITION_COLUMNS];
	bool		nulls[POSITION_COLUMNS];

	if (fcinfo->isnull || cluster_nodes(&nodes) == 1)
		return value;
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE ||
		tupdesc->natts != POSITION_COLUMNS)
		elog(ERROR, "the type of a task's position is another one");
	tuple.t_data = DatumGetHeapTupleHeader(value);
	tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
	heap_deform_tuple(&tuple, tupdesc, values, nulls);
	if (strcmp(TextDatumGetCString(values[POSITION_STATE]), "leased") != 0)
		values[POSITION_EXACT] = BoolGetDatum(false);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls));
}

/*
 * The rows of all nodes, one node after the other.  Those out of reach are
 * named in a warning.
 */
Datum
route_all_rows(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	ClusterNode **nodes;
	int			n;
	List	   *missing = NIL;

	route_begin(fcinfo, &call, false);
	call.wait = NODE_CALL_LONG;
	n = cluster_nodes(&nodes);
	for (int i = 0; i < n; i++)
	{
		ErrorData  *error;

		if (node_call_look(&call, nodes[i], &error) == NODE_ANSWERED)
			route_put_rows(fcinfo);
		else
			missing = lappend_int(missing, nodes[i]->number);
	}
	route_warn_missing(missing);
	return route_end(fcinfo, (Datum) 0, true);
}

/* The numbers of nodes, as an array. */
static Datum
array_of_numbers(List *numbers)
{
	Datum	   *elements = palloc(Max(list_length(numbers), 1) * sizeof(Datum));
	ListCell   *lc;

	foreach(lc, numbers)
		elements[foreach_current_index(lc)] = Int32GetDatum(lfirst_int(lc));
	return PointerGetDatum(construct_array(elements, list_length(numbers), INT4OID,
										   sizeof(int32), true, TYPALIGN_INT));
}

/*
 * Look at all nodes.  *tables has the rows of each; NULL: it is out of reach,
 * and among the numbers that are returned.  *error is of one of these.
 */
static List *
look_everywhere(NodeCall *call, ClusterNode **nodes, int n, SPITupleTable ***tables,
				ErrorData **error)
{
	List	   *missing = NIL;

	*tables = palloc0(n * sizeof(SPITupleTable *));
	for (int i = 0; i < n; i++)
	{
		if (node_call_look(call, nodes[i], error) == NODE_ANSWERED)
			(*tables)[i] = SPI_tuptable;
		else
			missing = lappend_int(missing, nodes[i]->number);
	}
	return missing;
}

/* Return the rows of a node, with its number and those that are missing. */
static void
put_rows_of_view(ReturnSetInfo *rsinfo, SPITupleTable *table, int number, Datum missing)
{
	int			columns = table->tupdesc->natts;
	Datum	   *values = palloc((columns + 2) * sizeof(Datum));
	bool	   *nulls = palloc((columns + 2) * sizeof(bool));

	if (rsinfo->setDesc->natts != columns + 2)
		elog(ERROR, "rows of a view have %d columns, its twin %d",
			 rsinfo->setDesc->natts, columns);
	values[columns] = Int32GetDatum(number);
	values[columns + 1] = missing;
	nulls[columns] = nulls[columns + 1] = false;
	for (uint64 i = 0; i < table->numvals; i++)
	{
		heap_deform_tuple(table->vals[i], table->tupdesc, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	SPI_freetuptable(table);
}

/*
 * fairq_internal.rows_of_VIEW(): the rows that a view has at all nodes.  Those
 * out of reach are told with each row, so they are read before the first one
 * is returned.
 */
Datum
route_view(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	ClusterNode **nodes;
	int			n;
	SPITupleTable **tables;
	List	   *missing;
	ErrorData  *error;
	Datum		numbers;

	route_begin(fcinfo, &call, false);
	if (strstr(call.function->name, "_tasks") != NULL)
		call.wait = NODE_CALL_LONG; /* there may be very many */
	n = cluster_nodes(&nodes);
	missing = look_everywhere(&call, nodes, n, &tables, &error);
	if (list_length(missing) == n)
		ReThrowError(error);
	list_sort(missing, list_int_cmp);
	numbers = array_of_numbers(missing);
	for (int i = 0; i < n; i++)
		if (tables[i] != NULL)
			put_rows_of_view((ReturnSetInfo *) fcinfo->resultinfo, tables[i],
							 nodes[i]->number, numbers);
	return route_end(fcinfo, (Datum) 0, true);
}

/*
 * fairq.peek(queue, max_tasks): the next tasks of the nodes in turn, which is
 * about the order in which they are claimed.
 */
Datum
route_peek(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	ClusterNode **nodes;
	int			n;
	SPITupleTable **tables;
	ErrorData  *error;
	uint64		rest;
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	route_begin(fcinfo, &call, false);
	n = cluster_nodes(&nodes);
	route_warn_missing(look_everywhere(&call, nodes, n, &tables, &error));

	/* A node has refused a number that is none. */
	rest = engine->arguments_max_tasks(fcinfo, 1, ARGUMENTS_PEEK_DEFAULT);
	for (uint64 row = 0, more = 1; more > 0 && rest > 0; row++)
	{
		more = 0;
		for (int i = 0; i < n && rest > 0; i++)
			if (tables[i] != NULL && row < tables[i]->numvals)
			{
				tuplestore_puttuple(rsinfo->setResult, tables[i]->vals[row]);
				more++;
				rest--;
			}
	}
	return route_end(fcinfo, (Datum) 0, true);
}
