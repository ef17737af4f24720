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

#include "catalog/pg_type_d.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "cluster/routes.h"

/* Says in an error where the call has been done, and where not. */
static void
describe_half(ErrorData *error, List *done)
{
	StringInfoData list;
	ListCell   *lc;

	if (done == NIL)
		return;
	initStringInfo(&list);
	foreach(lc, done)
		appendStringInfo(&list, "%s%d", list.len == 0 ? "" : ", ", lfirst_int(lc));
	error->detail = psprintf("It is done at node %s only.%s%s", list.data,
							 error->detail == NULL ? "" : " ", error->detail == NULL ? "" : error->detail);
	error->hint = "Repeat the call once the node is there; fairq.check_cluster() says what differs.";
}

/*
 * Make the call at all nodes, and hand what each returns to the caller.
 */
static void
everywhere(NodeCall *call, void (*take) (Datum value, bool isnull, void *arg), void *arg)
{
	ClusterNode **nodes;
	int			n = cluster_nodes(&nodes);
	List	   *done = NIL;

	for (int i = 0; i < n; i++)
	{
		ErrorData  *error;
		bool		isnull;
		Datum		value;

		if (node_call_try(call, nodes[i], &error) != NODE_ANSWERED)
		{
			describe_half(error, done);
			ReThrowError(error);
		}
		value = node_call_value(call, &isnull);
		take(value, isnull, arg);
		done = lappend_int(done, nodes[i]->number);
	}
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

Datum
route_everywhere(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	Common		common = {.isnull = true};

	route_begin(fcinfo, &call, true);
	common.type = get_func_rettype(fcinfo->flinfo->fn_oid);
	everywhere(&call, take_common, &common);
	if (common.type == VOIDOID)
		return route_end_void();
	return route_end(fcinfo, common.value, common.isnull);
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
	everywhere(&call, take_sum, &sum);
	return route_end(fcinfo, Int64GetDatum(sum), false);
}

Datum
route_my_buckets(FunctionCallInfo fcinfo)
{
	route_unsupported(fcinfo, "Each node has buckets of its own.", "Connect to a node.");
	return (Datum) 0;
}

/*
 * CALL fairq.wait(…), fairq.wait_any(…): PL/Proxy carries no procedures.
 */
Datum
route_wait(FunctionCallInfo fcinfo)
{
	route_unsupported(fcinfo, "A call that waits is of one node.",
					  "Claim with argument \"wait\", or connect to a node.");
	return (Datum) 0;
}
