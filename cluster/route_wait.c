/*-------------------------------------------------------------------------
 *
 * route_wait.c
 *	  The procedures that wait, at nodes.
 *
 * PL/Proxy carries no procedures, so at the nodes there is a function that
 * waits for a slice of time.  We wait at one node for a slice, look at all
 * others, and so on; the slices grow.
 *
 * Our own transaction ends with each slice, so that no snapshot is held for
 * longer, here or at a node.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "cluster/engine_link.h"
#include "cluster/routes.h"
#include "common/compat.h"

/* How long to wait if nothing else is said. */
#define WAIT_DEFAULT	(30 * USECS_PER_SEC)

/* Of fairq_internal.wait_ready. */
enum
{
	READY_QUEUES, READY_TIMEOUT, READY_ARGUMENTS
};

/*
 * Wait at a node for so long, which may be not at all.  *ready: there may be
 * something to claim.
 */
static NodeAnswer
ready_at(NodeCall *call, ClusterNode *node, int64 usecs, bool *ready, ErrorData **error)
{
	Interval	timeout = {.time = usecs};
	NodeAnswer	answer;
	Datum		value;
	bool		isnull;

	*ready = false;
	node_call_set(call, ARGUMENT(READY_TIMEOUT), IntervalPGetDatum(&timeout), false);
	call->wait = usecs;
	answer = node_call_ask(call, node, error);
	if (answer != NODE_ANSWERED)
		return answer;
	value = node_call_value(call, &isnull);
	SPI_freetuptable(SPI_tuptable);
	*ready = !isnull && DatumGetBool(value);
	return answer;
}

/*
 * Look at all nodes, suspects only if no other one has answered.  Returns
 * whether there may be something to claim; if not, *best is a node that has
 * answered.  A node that refuses is passed over, unless none answers.
 */
static bool
ready_anywhere(NodeCall *call, ClusterNode **best)
{
	ClusterNode **nodes;
	int			n = cluster_nodes(&nodes);
	ErrorData  *error = NULL;
	ErrorData  *refusal = NULL;

	*best = NULL;
	cluster_nodes_shuffle(nodes, n);
	for (int i = 0; i < n; i++)
	{
		NodeAnswer	answer;
		bool		ready;

		if (*best != NULL && cluster_nodes_suspect(nodes[i]))
			break;
		answer = ready_at(call, nodes[i], 0, &ready, &error);
		if (ready)
			return true;
		if (answer == NODE_ANSWERED && *best == NULL)
			*best = nodes[i];
		if (answer == NODE_REFUSED)
			refusal = error;
	}
	if (*best == NULL)
		ReThrowError(refusal != NULL ? refusal : error);
	return false;
}

/*
 * Wait for something to claim in one of the queues, or until deadline, by
 * wall_clock_real.
 */
static void
wait_at_nodes(ArrayType *queues, int64 deadline)
{
	NodeCall	call;
	MemoryContext outer;
	MemoryContext look;
	int64		begun = engine->wall_clock_real();
	bool		ready;

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	outer = CurrentMemoryContext;
	look = AllocSetContextCreate(outer, "pgfairq look", ALLOCSET_DEFAULT_SIZES);
	node_call_other(&call, "wait_ready", READY_ARGUMENTS);
	node_call_set(&call, ARGUMENT(READY_QUEUES),
				  datumCopy(PointerGetDatum(queues), false, -1), false);
	do
	{
		ClusterNode *node;
		ErrorData  *error;
		int64		now;
		int64		rest;

		MemoryContextSwitchTo(look);
		ready = ready_anywhere(&call, &node);
		now = engine->wall_clock_real();
		rest = Min(deadline - now, route_slice(now - begun));
		if (!ready && rest > 0)
		{
			NodeAnswer	answer = ready_at(&call, node, rest, &ready, &error);

			CHECK_FOR_INTERRUPTS();
			if (answer != NODE_ANSWERED)
				route_rest(rest);
		}
		MemoryContextSwitchTo(outer);
		MemoryContextReset(look);

		/* Lets go of snapshots, those of a calling procedure, too. */
		SPI_commit();
		InvalidateCatalogSnapshot();
	} while (!ready && engine->wall_clock_real() < deadline);
	SPI_finish();
}

/* As the argument timeout says; instead: what else to call in a transaction. */
static Datum
wait_for(FunctionCallInfo fcinfo, text **names, int n, const char *instead)
{
	int64		wait = engine->arguments_duration(fcinfo, 1, "timeout", WAIT_DEFAULT, true);
	Datum	   *queues = palloc(n * sizeof(Datum));

	engine->arguments_outside_transaction(fcinfo, instead);
	for (int i = 0; i < n; i++)
		queues[i] = PointerGetDatum(names[i]);
	wait_at_nodes(construct_array(queues, n, TEXTOID, -1, false, TYPALIGN_INT),
				  engine->wall_clock_real() + wait);
	PG_RETURN_VOID();
}

/*
 * CALL fairq.wait(queue, timeout)
 */
Datum
route_wait(FunctionCallInfo fcinfo)
{
	text	   *name;

	engine->arguments_concern(NULL);
	name = engine->arguments_queue(fcinfo);
	return wait_for(fcinfo, &name, 1, "fairq.claim()");
}

/*
 * CALL fairq.wait_any(queues, timeout)
 */
Datum
route_wait_any(FunctionCallInfo fcinfo)
{
	text	  **names;
	int			n;

	engine->arguments_concern(NULL);
	n = engine->arguments_queues(fcinfo, &names);
	return wait_for(fcinfo, names, n, "fairq.claim_any()");
}
