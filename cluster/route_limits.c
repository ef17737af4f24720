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

#include "cluster/engine_link.h"
#include "cluster/routes.h"
#include "cluster/spread.h"

/* The nodes that a group, or each group, is to have: as it would now. */
static ArrayType *
nodes_to_name(text *queue, const text *group)
{
	Spread		spread;
	ClusterNode *first;
	ArrayType  *numbers;

	spread_begin(&spread, queue);
	if (group == NULL)
		numbers = spread_numbers(spread.nodes, spread.n);
	else
	{
		first = spread_first(VARSIZE_ANY_EXHDR(group) > 0 ? group : queue, spread.nodes, spread.n);
		numbers = spread_numbers(&first, 1);
	}
	spread_end(&spread);
	return numbers;
}

/* Does the call set a limit, by arguments from this one on? */
static bool
sets_limit(FunctionCallInfo fcinfo, int number)
{
	return (!PG_ARGISNULL(number) && PG_GETARG_INT32(number) > 0) ||
		(!PG_ARGISNULL(number + 1) && PG_GETARG_FLOAT8(number + 1) > 0);
}

/*
 * fairq.set_group(queue, group_key, weight, max_leased, rate, burst), or
 * fairq.set_group_defaults(queue, weight, max_leased, rate, burst): the
 * positions of the group, which is -1 where it has none, and of the first
 * limit.
 */
Datum
route_set_limits(FunctionCallInfo fcinfo, int group, int number)
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
	text	   *key = NULL;

	if (PG_ARGISNULL(0) || (group >= 0 && PG_ARGISNULL(group)) || !sets_limit(fcinfo, number))
		return route_everywhere(fcinfo, true);
	PreventCommandIfReadOnly("a limit of a group");
	result = route_everywhere(fcinfo, true);
	queue = PG_GETARG_TEXT_PP(0);
	if (group >= 0)
		key = PG_GETARG_TEXT_PP(group);
	SPI_connect();
	values[0] = PointerGetDatum(queue);
	values[1] = PointerGetDatum(key);
	values[2] = PointerGetDatum(nodes_to_name(queue, key));
	node_call_writes_own();
	(void) engine->own_table_execute(engine->own_table_owner("fairq", "spread"), &pin, values,
									 key == NULL ? " n " : NULL);
	SPI_finish();
	return result;
}
