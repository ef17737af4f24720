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

#include "cluster/node_call.h"
#include "cluster/routes.h"
#include "cluster/spread.h"
#include "common/run_as.h"
#include "sql/arguments.h"
#include "sql/result_rows.h"
#include "storage/own_table.h"

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

/*
 * Make the call at all nodes, by their numbers, and hand what each returns to
 * the caller.  is_done: does an error mean that it is done there already?  If
 * so at all, the first is raised.
 */
static void
everywhere(NodeCall *call, bool (*is_done) (const ErrorData *error),
		   void (*take) (Datum value, bool isnull, void *arg), void *arg)
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
		ErrorData  *error = run_as_try(make_attempt, &attempt);
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
			take(value, isnull, arg);
		}
		done = lappend_int(done, number);
	}
	if (first != NULL && before == n)
		ReThrowError(first);
}

/* What a call returns that is made everywhere. */
typedef struct Common
{
	Oid			type;
	Datum		value;
	bool		isnull;
} Common;

/* True if any says so; else what the first has said. */
static void
take_common(Datum value, bool isnull, void *arg)
{
	Common	   *common = arg;

	if (common->isnull || (common->type == BOOLOID && !isnull && DatumGetBool(value)))
	{
		common->value = value;
		common->isnull = isnull;
	}
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
	table_close(own_table_open("fairq", "node", RowShareLock), NoLock);
	return true;
}

void
route_let_nodes_go(bool locked)
{
	if (locked)
		UnlockRelationOid(own_table_require("fairq", "node"), RowShareLock);
}

Datum
route_everywhere(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	Common		common = {.isnull = true};
	bool		locked;

	route_begin(fcinfo, &call, true);
	locked = route_lock_nodes();
	common.type = get_func_rettype(fcinfo->flinfo->fn_oid);
	everywhere(&call, NULL, take_common, &common);
	route_let_nodes_go(locked);
	if (common.type == VOIDOID)
		return route_end_void();
	return route_end(fcinfo, common.value, common.isnull);
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
	NodeCall	call;
	Common		nothing = {.type = VOIDOID,.isnull = true};
	bool		locked;

	route_begin(fcinfo, &call, true);
	locked = route_lock_nodes();
	everywhere(&call, queue_is_there, take_common, &nothing);
	route_let_nodes_go(locked);
	return route_end_void();
}

static void
take_sum(Datum value, bool isnull, void *arg)
{
	int64	   *sum = arg;

	if (!isnull)
		*sum += DatumGetInt64(value);
}

/*
 * A call that counts.
 */
Datum
route_sum(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	int64		sum = 0;

	route_begin(fcinfo, &call, true);
	everywhere(&call, NULL, take_sum, &sum);
	return route_end(fcinfo, Int64GetDatum(sum), false);
}

/*
 * A call of administration at the node whose number is its first argument.
 * These may be made from a transaction that has written: what they do is
 * repeatable.
 */
static Datum
at_number(FunctionCallInfo fcinfo, int64 wait, void (*make) (NodeCall *call, ClusterNode *node))
{
	NodeCall	call;
	ClusterNode **nodes;
	ClusterNode *node;

	if (fcinfo->flinfo->fn_retset)
		result_rows_begin(fcinfo);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	node_call_begin_at(fcinfo, &call);
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

Datum
route_of_node(FunctionCallInfo fcinfo)
{
	return at_number(fcinfo, NODE_CALL_LONG, node_call_at);
}

/* One that only looks, and does not take long. */
Datum
route_look_at_node(FunctionCallInfo fcinfo)
{
	return at_number(fcinfo, 0, node_call_at);
}

Datum
route_of_server(FunctionCallInfo fcinfo)
{
	return at_number(fcinfo, 0, node_call_of_server);
}

/*
 * fairq_internal.place_task(queue, group, key)
 */
Datum
route_place_task(FunctionCallInfo fcinfo)
{
	Spread		spread;
	ClusterNode **nodes;
	ClusterNode *node;
	int			n;

	for (int i = 0; i < 2; i++)
		if (PG_ARGISNULL(i))
			arguments_null(fcinfo, i == 0 ? "queue" : "group_key", "Give a name.");
	spread_begin(&spread, PG_GETARG_TEXT_PP(0));
	nodes = palloc(spread.n * sizeof(ClusterNode *));
	n = spread_of_group(&spread, PG_GETARG_TEXT_PP(1), nodes);
	spread_end(&spread);
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
