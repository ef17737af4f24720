/*-------------------------------------------------------------------------
 *
 * route_settle.c
 *	  The ways of receipts and sessions to their nodes.
 *
 * Each says which node has given it.  What no node of the cluster has given,
 * any node answers as a foreign receipt.  Of many receipts, each node gets its
 * own in one call; a node that is out of reach is named in a warning, and the
 * receipts that are returned are those that are settled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "cluster/engine_link.h"
#include "cluster/routes.h"

/* What a receipt adds to the time that a node may take. */
#define RECEIPT_USECS	INT64CONST(1000)

/* Receipts of many nodes, with an error each where the call takes them. */
typedef struct Receipts
{
	Divided		arrays;			/* the receipts, and their errors */
	bool	   *settled;
} Receipts;

/*
 * A call with a receipt or a session as its first argument.
 */
Datum
route_by_uuid(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	ClusterNode **nodes;
	ClusterNode *node = NULL;

	route_begin(fcinfo, &call, true);
	(void) cluster_nodes(&nodes);
	if (!PG_ARGISNULL(0))
		node = cluster_nodes_find(route_node_of_uuid(PG_GETARG_UUID_P(0)));
	if (node == NULL)
		return route_any_node(fcinfo, &call);
	node_call_at(&call, node);
	return route_answer(fcinfo, &call);
}

/*
 * Take an array of receipts apart.  False: it is not as it has to be, which a
 * node will say.
 */
static bool
read_receipts(ArrayType *array, Receipts *receipts)
{
	Divided    *arrays = &receipts->arrays;
	ClusterNode **all;

	if (ARR_NDIM(array) > 1 || array_contains_nulls(array))
		return false;
	(void) cluster_nodes(&all);
	memset(arrays, 0, sizeof(Divided));
	route_read_array(arrays, 0, array);
	arrays->nodes = palloc(Max(arrays->n, 1) * sizeof(ClusterNode *));
	receipts->settled = palloc0(Max(arrays->n, 1) * sizeof(bool));
	for (int i = 0; i < arrays->n; i++)
		arrays->nodes[i] =
			cluster_nodes_find(route_node_of_uuid(DatumGetUUIDP(arrays->values[0][i])));
	return true;
}

/* Has the call errors of the receipts, as nack_many() has? */
static bool
takes_errors(const NodeCall *call)
{
	return call->function->arguments > ARGUMENT(1) &&
		call->function->types[ARGUMENT(1)] == TEXTARRAYOID;
}

/* One error for each receipt. */
static bool
read_errors(ArrayType *array, Divided *arrays)
{
	if (ARR_NDIM(array) > 1)
		return false;
	route_read_array(arrays, 1, array);
	return arrays->lengths[1] == arrays->lengths[0];
}

/*
 * Note which receipts of a node are among those that it has returned, which
 * are in the order of the call; and that the node is done with.
 */
static void
note_settled(Receipts *receipts, ClusterNode *node, bool answered)
{
	uint64		next = 0;

	for (int i = 0; i < receipts->arrays.n; i++)
	{
		bool		isnull;

		if (receipts->arrays.nodes[i] != node)
			continue;
		receipts->arrays.nodes[i] = NULL;
		if (!answered || next == SPI_processed)
			continue;
		if (memcmp(DatumGetUUIDP(SPI_getbinval(SPI_tuptable->vals[next], SPI_tuptable->tupdesc,
											   1, &isnull))->data,
				   DatumGetUUIDP(receipts->arrays.values[0][i])->data, UUID_LEN) == 0)
		{
			receipts->settled[i] = true;
			next++;
		}
	}
	if (answered && next < SPI_processed)
		elog(ERROR, "node %d has returned receipts in another order", node->number);
}

/*
 * Make the call at the nodes of the receipts, one after the other.
 */
static void
settle_all(NodeCall *call, Receipts *receipts)
{
	List	   *missing = NIL;

	for (int i = 0; i < receipts->arrays.n; i++)
	{
		ClusterNode *node = receipts->arrays.nodes[i];
		ErrorData  *error;
		bool		answered;

		if (node == NULL)
			continue;
		route_set_part(call, &receipts->arrays, node);
		call->wait = receipts->arrays.n * RECEIPT_USECS;
		answered = node_call_try(call, node, &error) == NODE_ANSWERED;
		if (!answered)
			missing = lappend_int(missing, node->number);
		note_settled(receipts, node, answered);
	}
	route_warn_missing(missing);
}

/*
 * A call with receipts as its first argument, and texts of theirs as its
 * second where the call is nack_many.
 */
Datum
route_by_receipts(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	Receipts	receipts;

	route_begin(fcinfo, &call, true);
	if (PG_ARGISNULL(0) || !read_receipts(PG_GETARG_ARRAYTYPE_P(0), &receipts) ||
		(takes_errors(&call) && !PG_ARGISNULL(1) &&
		 !read_errors(PG_GETARG_ARRAYTYPE_P(1), &receipts.arrays)) ||
		receipts.arrays.n == 0)
		return route_any_node(fcinfo, &call);
	settle_all(&call, &receipts);
	for (int i = 0; i < receipts.arrays.n; i++)
		if (receipts.settled[i])
		{
			bool		isnull = false;

			engine->result_rows_put((ReturnSetInfo *) fcinfo->resultinfo,
									&receipts.arrays.values[0][i], &isnull);
		}
	return route_end(fcinfo, (Datum) 0, true);
}

/*
 * Acknowledge receipts, each at its node.  False: they are not as they have to
 * be.  Within another call.
 */
bool
route_ack_many(ArrayType *array)
{
	NodeCall	call;
	Receipts	receipts;

	if (!read_receipts(array, &receipts))
		return false;
	node_call_other(&call, "ack_many", 1);
	call.writes = true;
	settle_all(&call, &receipts);
	return true;
}
