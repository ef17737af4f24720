/*-------------------------------------------------------------------------
 *
 * route_administer.c
 *	  The ways of administration: to all nodes, one after the other.
 *
 * There is no transaction over nodes.  A call that ends in the middle, because
 * a node is out of reach or refuses, says where it has been done; to repeat it
 * brings all nodes to the same state, and fairq.check_cluster() says which
 * differ.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "cluster/engine_link.h"
#include "cluster/node_call.h"
#include "cluster/routes.h"
#include "cluster/spread.h"

/* Says in an error where the call has been done, and where not. */
static void
describe_half(ErrorData *error, List *done)
{
	if (done == NIL)
		return;
	error->detail = psprintf("It is done at node %s only.%s%s", route_name_nodes(done),
							 error->detail == NULL ? "" : " ", error->detail == NULL ? "" : error->detail);
	error->hint = "Repeat the call once the node is there; fairq.check_cluster() says what differs.";
}

/* A call at one node. */
typedef struct Attempt
{
	NodeCall   *call;
	ClusterNode *node;
} Attempt;

static void
make_attempt(void *arg)
{
	Attempt    *attempt = arg;

	node_call_at(attempt->call, attempt->node);
}

/* What a call returns that is made everywhere. */
typedef struct Common
{
	Oid			type;
	Datum		value;
	bool		isnull;
} Common;

/* The sum of counts; else true if any says so, or what the first has said. */
static void
take(Common *common, Datum value, bool isnull)
{
	if (common->type == INT8OID)
		common->value = Int64GetDatum(DatumGetInt64(common->value) +
									  (isnull ? 0 : DatumGetInt64(value)));
	else if (common->isnull || (common->type == BOOLOID && !isnull && DatumGetBool(value)))
	{
		common->value = value;
		common->isnull = isnull;
	}
}

/*
 * Make the call at all nodes, by their numbers, and gather what they return.
 * is_done: does an error mean that it is done there already?  If so at all, the
 * first is raised.
 */
static void
everywhere(NodeCall *call, bool (*is_done) (const ErrorData *error), Common *common)
{
	ClusterNode **nodes;
	int			n = cluster_nodes(&nodes);
	List	   *done = NIL;
	ErrorData  *first = NULL;
	int			before = 0;
	int			mark = called_nodes_mark();

	call->wait = NODE_CALL_LONG;
	for (int i = 0; i < n; i++)
	{
		Attempt		attempt = {.call = call,.node = nodes[i]};
		int			number = nodes[i]->number;
		ErrorData  *error = engine->run_as_try(make_attempt, &attempt);
		bool		isnull;
		Datum		value;

		if (error != NULL && is_done != NULL && is_done(error))
		{
			first = first == NULL ? error : first;
			before++;
		}
		else if (error != NULL)
		{
			describe_half(error, done);
			called_nodes_forget(mark);
			ReThrowError(error);
		}
		else
		{
			value = node_call_value(call, &isnull);
			take(common, value, isnull);
		}
		done = lappend_int(done, number);
	}
	if (first != NULL && before == n)
		ReThrowError(first);
}

/*
 * What is to be so at all nodes waits for a change of the list of nodes: a
 * node that is being added gets what the others have, and must not miss what
 * they get meanwhile (fairq_internal.lock_nodes).  A standby of the proxy
 * cannot take part in that; fairq.check_cluster() finds what is missing.
 *
 * What a call does is in force at the nodes when it returns, so the lock need
 * not last longer than the call: else whoever keeps a transaction open would
 * keep the administrator from the list.  It lasts to the end of the transaction
 * where that has noted what the administrator has to read.  It is taken before
 * a node has looked at privileges: one that refuses ends the call.
 */
bool
route_lock_nodes(void)
{
	if (RecoveryInProgress())
		return false;
	table_close(engine->own_table_open("fairq", "node", RowShareLock), NoLock);
	return true;
}

void
route_let_nodes_go(bool locked)
{
	if (locked)
		UnlockRelationOid(engine->own_table_require("fairq", "node"), RowShareLock);
}

/* Make the call at all nodes; locked: while the list of nodes stays so. */
static Datum
administer(FunctionCallInfo fcinfo, bool (*is_done) (const ErrorData *error), bool locked)
{
	NodeCall	call;
	Common		common = {get_func_rettype(fcinfo->flinfo->fn_oid), Int64GetDatum(0), false};

	common.isnull = common.type != INT8OID;
	route_begin(fcinfo, &call, true);
	locked = locked && route_lock_nodes();
	everywhere(&call, is_done, &common);
	route_let_nodes_go(locked);
	if (common.type == VOIDOID)
		return route_end(fcinfo, (Datum) 0, false);
	return route_end(fcinfo, common.value, common.isnull);
}

/* A call that counts does without the lock. */
Datum
route_everywhere(FunctionCallInfo fcinfo, bool locked)
{
	return administer(fcinfo, NULL, locked);
}

/*
 * A queue of the name is there.  A relation that is none has the same code,
 * and is an error at each node.
 */
static bool
queue_is_there(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_DUPLICATE_OBJECT &&
		strncmp(error->message, "queue ", 6) == 0;
}

/*
 * fairq.create_queue(): where there is none yet, so that it may be repeated.
 */
Datum
route_create_queue(FunctionCallInfo fcinfo)
{
	return administer(fcinfo, queue_is_there, true);
}

/*
 * A call of administration at the node whose number is its first argument; or
 * one that only looks, and does not take long.  These may be made from a
 * transaction that has written: what they do is repeatable.
 */
Datum
route_at_number(FunctionCallInfo fcinfo, int64 wait,
				void (*make) (NodeCall *call, ClusterNode *node))
{
	NodeCall	call;
	ClusterNode **nodes;
	ClusterNode *node;

	if (fcinfo->flinfo->fn_retset)
		engine->result_rows_begin(fcinfo);
	SPI_connect();
	node_call_begin(fcinfo, &call, true);
	call.wait = wait;
	(void) cluster_nodes(&nodes);
	node = PG_ARGISNULL(0) ? NULL : cluster_nodes_find(PG_GETARG_INT32(0));
	if (node == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("the cluster has no node %s",
						PG_ARGISNULL(0) ? "null" : psprintf("%d", PG_GETARG_INT32(0))),
				 errhint("Table fairq.node has those that there are.")));
	make(&call, node);
	return route_answer(fcinfo, &call);
}

/*
 * fairq_internal.place_task(queue, group, key)
 */
Datum
route_place_task(FunctionCallInfo fcinfo)
{
	ClusterNode **nodes;
	ClusterNode *node;
	int			n;

	for (int i = 0; i < 2; i++)
		if (PG_ARGISNULL(i))
			engine->arguments_null(fcinfo, i == 0 ? "queue" : "group_key", "Give a name.");
	n = spread_nodes(PG_GETARG_TEXT_PP(0), PG_GETARG_TEXT_PP(1), &nodes);
	if (PG_ARGISNULL(2))
	{
		cluster_nodes_shuffle(nodes, n);
		node = nodes[0];
	}
	else
		node = spread_node_of_key(PG_GETARG_TEXT_PP(0), PG_GETARG_TEXT_PP(2), nodes, n);
	PG_RETURN_INT32(node->number);
}

Datum
route_my_buckets(FunctionCallInfo fcinfo)
{
	route_unsupported(fcinfo, "Each node has buckets of its own.", "Connect to a node.");
	return (Datum) 0;
}
