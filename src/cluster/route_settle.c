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

#include "cluster/routes.h"
#include "sql/result_rows.h"

/* What a receipt adds to the time that a node may take. */
#define RECEIPT_USECS	INT64CONST(1000)

/* Receipts of many nodes, with an error each where the call takes them. */
typedef struct Receipts
{
	int			n;
	Datum	   *values;
	ClusterNode **nodes;		/* NULL: of no node, or done with */
	Datum	   *errors;			/* NULL: not given */
	bool	   *error_nulls;
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
	ClusterNode **all;

	if (ARR_NDIM(array) > 1 || array_contains_nulls(array))
		return false;
	(void) cluster_nodes(&all);
	deconstruct_array(array, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR,
					  &receipts->values, NULL, &receipts->n);
	receipts->nodes = palloc(Max(receipts->n, 1) * sizeof(ClusterNode *));
	receipts->settled = palloc0(Max(receipts->n, 1) * sizeof(bool));
	receipts->errors = NULL;
	for (int i = 0; i < receipts->n; i++)
		receipts->nodes[i] =
			cluster_nodes_find(route_node_of_uuid(DatumGetUUIDP(receipts->values[i])));
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
read_errors(ArrayType *array, Receipts *receipts)
{
	int			n;

	if (ARR_NDIM(array) > 1)
		return false;
	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT,
					  &receipts->errors, &receipts->error_nulls, &n);
	return n == receipts->n;
}

static ArrayType *
uuid_array(Datum *uuids, int n)
{
	return construct_array(uuids, n, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR);
}

/* Give the call what is of one node. */
static void
set_part(NodeCall *call, Receipts *receipts, ClusterNode *node)
{
	Datum	   *part = palloc(receipts->n * sizeof(Datum));
	Datum	   *errors = palloc(receipts->n * sizeof(Datum));
	bool	   *nulls = palloc(receipts->n * sizeof(bool));
	int			n = 0;
	int			lower = 1;

	for (int i = 0; i < receipts->n; i++)
		if (receipts->nodes[i] == node)
		{
			part[n] = receipts->values[i];
			if (receipts->errors != NULL)
			{
				errors[n] = receipts->errors[i];
				nulls[n] = receipts->error_nulls[i];
			}
			n++;
		}
	node_call_set(call, ARGUMENT(0), PointerGetDatum(uuid_array(part, n)), false);
	if (receipts->errors != NULL)
		node_call_set(call, ARGUMENT(1),
					  PointerGetDatum(construct_md_array(errors, nulls, 1, &n, &lower, TEXTOID,
														 -1, false, TYPALIGN_INT)),
					  false);
}

/*
 * Note which receipts of a node are among those that it has returned, which
 * are in the order of the call; and that the node is done with.
 */
static void
note_settled(Receipts *receipts, ClusterNode *node, bool answered)
{
	uint64		next = 0;

	for (int i = 0; i < receipts->n; i++)
	{
		bool		isnull;

		if (receipts->nodes[i] != node)
			continue;
		receipts->nodes[i] = NULL;
		if (!answered || next == SPI_processed)
			continue;
		if (memcmp(DatumGetUUIDP(SPI_getbinval(SPI_tuptable->vals[next], SPI_tuptable->tupdesc,
											   1, &isnull))->data,
				   DatumGetUUIDP(receipts->values[i])->data, UUID_LEN) == 0)
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

	for (int i = 0; i < receipts->n; i++)
	{
		ClusterNode *node = receipts->nodes[i];
		ErrorData  *error;
		bool		answered;

		if (node == NULL)
			continue;
		set_part(call, receipts, node);
		call->wait = receipts->n * RECEIPT_USECS;
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
	if (PG_ARGISNULL(0) || !read_receipts(PG_GETARG_ARRAYTYPE_P(0), &receipts))
		return route_any_node(fcinfo, &call);
	if (takes_errors(&call) && !PG_ARGISNULL(1) &&
		!read_errors(PG_GETARG_ARRAYTYPE_P(1), &receipts))
		return route_any_node(fcinfo, &call);
	if (receipts.n == 0)
		return route_any_node(fcinfo, &call);
	settle_all(&call, &receipts);
	for (int i = 0; i < receipts.n; i++)
		if (receipts.settled[i])
		{
			bool		isnull = false;

			result_rows_put((ReturnSetInfo *) fcinfo->resultinfo, &receipts.values[i], &isnull);
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
	settle_all(&call, &receipts);
	return true;
}
