/*-------------------------------------------------------------------------
 *
 * route_schedule.c
 *	  The ways of schedules: to all nodes, of which one runs them.
 *
 * Which one is in fairq.schedule_node, which is written as its owner when the
 * nodes have accepted the call.  First the schedule stops at all others: no
 * tick is given twice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "cluster/engine_link.h"
#include "cluster/routes.h"
#include "cluster/spread.h"

/* Of schedule. */
enum
{
	SCHEDULE_NAME = 0, SCHEDULE_ACTIVE = 11
};

/* Run a statement on fairq.schedule_node as its owner; returns its rows. */
static uint64
execute(OwnStatement *statement, Datum name, int node)
{
	Datum		values[] = {name, Int32GetDatum(node)};

	return engine->own_table_execute(engine->own_table_owner("fairq", "schedule_node"), statement, values, NULL);
}

/* The node that runs a schedule, if it is one that stays; else the next. */
static ClusterNode *
runner(const text *name)
{
	static OwnStatement find = {
		.text = "SELECT node FROM fairq.schedule_node WHERE name OPERATOR(pg_catalog.=) $1",
		.parameters = 1,
		.types = {TEXTOID}
	};
	ClusterNode **nodes;
	int			n = spread_candidates(&nodes);

	if (execute(&find, PointerGetDatum(name), 0) > 0)
	{
		bool		isnull;
		Datum		number = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
										   &isnull);
		ClusterNode *node = cluster_nodes_find(DatumGetInt32(number));

		if (node != NULL && !node->draining)
			return node;
	}
	return spread_first(name, nodes, n);
}

/*
 * Note where a schedule runs; -1: nowhere.  Returns whether that is news, for
 * which a change of the list of nodes has to wait
 * (fairq_internal.move_schedules).
 */
static bool
note_runner(Datum name, int node)
{
	static OwnStatement forget = {
		.text = "DELETE FROM fairq.schedule_node WHERE name OPERATOR(pg_catalog.=) $1",
		.parameters = 1,
		.types = {TEXTOID}
	};
	static OwnStatement note = {
		.text = "INSERT INTO fairq.schedule_node (name, node) VALUES ($1, $2)"
		" ON CONFLICT (name) DO UPDATE SET node = excluded.node"
		" WHERE schedule_node.node OPERATOR(pg_catalog.<>) excluded.node",
		.parameters = 2,
		.types = {TEXTOID, INT4OID}
	};

	node_call_writes_own();
	return execute(node < 0 ? &forget : &note, name, node) > 0;
}

/*
 * fairq.schedule(name, …, active): active at one node.
 */
Datum
route_schedule(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	ClusterNode **nodes;
	ClusterNode *first;
	int			number;
	int			n;
	bool		active = PG_ARGISNULL(SCHEDULE_ACTIVE) || PG_GETARG_BOOL(SCHEDULE_ACTIVE);
	bool		locked;
	bool		isnull;
	Datum		value;

	PreventCommandIfReadOnly("fairq.schedule()");
	route_begin(fcinfo, &call, true);
	if (PG_ARGISNULL(SCHEDULE_NAME))
		return route_any_node(fcinfo, &call);
	locked = route_lock_nodes();
	first = runner(PG_GETARG_TEXT_PP(SCHEDULE_NAME));
	number = first->number;
	n = cluster_nodes(&nodes);
	call.wait = NODE_CALL_LONG;
	node_call_set(&call, ARGUMENT(SCHEDULE_ACTIVE), BoolGetDatum(false), false);
	for (int i = 0; i < n; i++)
		if (nodes[i]->number != number)
			node_call_at(&call, nodes[i]);
	node_call_set(&call, ARGUMENT(SCHEDULE_ACTIVE), BoolGetDatum(active), false);
	node_call_at(&call, cluster_nodes_find(number));
	value = node_call_value(&call, &isnull);
	if (!note_runner(PG_GETARG_DATUM(SCHEDULE_NAME), active ? number : -1))
		route_let_nodes_go(locked);
	return route_end(fcinfo, value, isnull);
}

/*
 * fairq.unschedule(name)
 */
Datum
route_unschedule(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	ClusterNode **nodes;
	int			n;
	bool		locked;
	bool		any = false;

	PreventCommandIfReadOnly("fairq.unschedule()");
	route_begin(fcinfo, &call, true);
	if (PG_ARGISNULL(SCHEDULE_NAME))
		return route_any_node(fcinfo, &call);
	locked = route_lock_nodes();
	n = cluster_nodes(&nodes);
	for (int i = 0; i < n; i++)
	{
		bool		isnull;

		node_call_at(&call, nodes[i]);
		any |= DatumGetBool(node_call_value(&call, &isnull));
	}
	/* Where there is none a caller need have no privileges at all. */
	if (!any || !note_runner(PG_GETARG_DATUM(SCHEDULE_NAME), -1))
		route_let_nodes_go(locked);
	return route_end(fcinfo, BoolGetDatum(any), false);
}

/*
 * fairq_internal.place_schedule(name): the node that runs it, of those that
 * get new tasks.
 */
Datum
route_place_schedule(FunctionCallInfo fcinfo)
{
	ClusterNode **nodes;
	int			n = spread_candidates(&nodes);

	if (PG_ARGISNULL(0))
		engine->arguments_null(fcinfo, "name", "Give the name of a schedule.");
	PG_RETURN_INT32(spread_first(PG_GETARG_TEXT_PP(0), nodes, n)->number);
}
