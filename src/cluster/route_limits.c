/*-------------------------------------------------------------------------
 *
 * route_limits.c
 *	  The ways of settings of groups: to all nodes; a group that has a limit
 *	  goes to one.
 *
 * A node keeps to a limit by itself, so a group's limit holds in the cluster
 * when its tasks are at one node.  Which one is named in fairq.spread, and does
 * not change when nodes are added.  It is written as the owner of the table,
 * when the nodes have accepted the call.  With the limits of all groups the
 * nodes that there are now are named, in whose order each group has the first.
 *
 * A limit of a subgroup goes to all nodes and leaves its group where it is
 * (route_everywhere), so it holds at each node: one user's limit is no reason
 * to have a tenant's whole work done at one node.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "storage/own_table.h"
#include "cluster/routes.h"
#include "cluster/spread.h"

/* The nodes that a group, or each group, is to have: as it would now. */
static ArrayType *
nodes_to_name(text *queue, const text *group)
{
	Spread		spread;
	ClusterNode **nodes;
	Datum	   *numbers;
	int			n;

	spread_begin(&spread, queue);
	nodes = palloc(spread.n * sizeof(ClusterNode *));
	memcpy(nodes, spread.nodes, spread.n * sizeof(ClusterNode *));
	n = spread.n;
	if (group != NULL)
	{
		(void) spread_of_group(&spread, group, nodes);
		nodes[0] = spread_first(VARSIZE_ANY_EXHDR(group) > 0 ? group : queue, nodes, n);
		n = 1;
	}
	spread_end(&spread);
	numbers = palloc(n * sizeof(Datum));
	for (int i = 0; i < n; i++)
		numbers[i] = Int32GetDatum(nodes[i]->number);
	return construct_array(numbers, n, INT4OID, sizeof(int32), true, TYPALIGN_INT);
}

/* Does the call set a limit, by arguments from this one on? */
static bool
sets_limit(FunctionCallInfo fcinfo, int number)
{
	return (!PG_ARGISNULL(number) && PG_GETARG_INT32(number) > 0) ||
		(!PG_ARGISNULL(number + 1) && PG_GETARG_FLOAT8(number + 1) > 0);
}

static Datum
set_limits(FunctionCallInfo fcinfo, const text *group, int number)
{
	static OwnStatement pin = {
		.text = "INSERT INTO fairq.spread (queue, group_key, width, nodes) VALUES ($1, $2, 1, $3)"
		" ON CONFLICT (queue, group_key) DO UPDATE SET width = 1, nodes = excluded.nodes"
		" WHERE spread.nodes IS NULL OR spread.width OPERATOR(pg_catalog.<>) 1",
		.parameters = 3,
		.types = {TEXTOID, TEXTOID, INT4ARRAYOID}
	};
	Datum		values[3];
	Datum		result;
	text	   *queue;

	if (PG_ARGISNULL(0) || !sets_limit(fcinfo, number))
		return route_everywhere(fcinfo);
	PreventCommandIfReadOnly("a limit of a group");
	result = route_everywhere(fcinfo);
	queue = PG_GETARG_TEXT_PP(0);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	values[0] = PointerGetDatum(queue);
	values[1] = PointerGetDatum(group);
	values[2] = PointerGetDatum(nodes_to_name(queue, group));
	node_call_writes_own();
	(void) own_table_execute(own_table_owner("fairq", "spread"), &pin, values,
							 group == NULL ? " n " : NULL);
	SPI_finish();
	return result;
}

/*
 * fairq.set_group(queue, group_key, weight, max_leased, rate, burst)
 */
Datum
route_set_group(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(1))
		return route_everywhere(fcinfo);
	return set_limits(fcinfo, PG_GETARG_TEXT_PP(1), 3);
}

/*
 * fairq.set_group_defaults(queue, weight, max_leased, rate, burst)
 */
Datum
route_set_group_defaults(FunctionCallInfo fcinfo)
{
	return set_limits(fcinfo, NULL, 2);
}
