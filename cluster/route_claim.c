/*-------------------------------------------------------------------------
 *
 * route_claim.c
 *	  The ways of claims, of waiting, and of sessions, to nodes.
 *
 * A claim goes to one node after the other until one has tasks; so it returns
 * nothing only when no node has any.  A node that refuses it, as one without
 * the queue, is passed over like one that is out of reach; what no node takes
 * is an error.  Where every group has all nodes, a
 * session begins at each in turn; otherwise fronts.c says which.  A claim that
 * waits does so at a node for a slice of time, and then looks at the others;
 * the slices grow.  A task at a node where none waits is met when one looks.
 * A session is of one node, and so are its claims.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "cluster/routes.h"
#include "cluster/spread.h"
#include "common/compat.h"

/* A claim, as all its functions have it. */
typedef struct Claim
{
	NodeCall	call;
	ClusterNode **nodes;		/* that may have tasks for it */
	int			n;
	const text *queue;			/* NULL: of several */
	bool		by_front;		/* nodes are not asked in turn */
	int			wait;			/* the position of the argument */
	int64		waits;			/* for so long; -1: a node is to say what is
								 * wrong with the time */
	bool		heard;			/* a node has answered */

	/* Since all nodes were asked. */
	ClusterNode *answered;		/* the first that has; NULL: none */
	ErrorData  *error;			/* of the last that has not */
	ErrorData  *refusal;		/* of the last that has refused; NULL: none */
} Claim;

/*
 * Ask one node, which may wait so long.  Returns whether there are rows.
 */
static bool
claim_at(Claim *claim, ClusterNode *node, int64 wait)
{
	Interval	timeout = {.time = wait};
	NodeAnswer	answer;

	node_call_set(&claim->call, ARGUMENT(claim->wait), IntervalPGetDatum(&timeout), false);
	claim->call.wait = wait;
	answer = node_call_ask(&claim->call, node, &claim->error);
	if (answer == NODE_REFUSED)
		claim->refusal = claim->error;

	/*
	 * What was claimed there, if anything, is claimed again when its lease
	 * ends.
	 */
	if (answer != NODE_ANSWERED)
		return false;
	claim->heard = true;
	if (claim->answered == NULL)
		claim->answered = node;
	if (claim->by_front)
		fronts_note_claim(claim->queue, node);
	if (SPI_processed > 0)
		return true;
	SPI_freetuptable(SPI_tuptable);
	return false;
}

/*
 * Put a node first at which the session has not begun while it has at others.
 * If each claim began anywhere, some nodes would be claimed from more than
 * others, and give all that large tenants have there.  The order is random, or
 * whoever claims of two queues in turn would not come to all nodes with each.
 */
static void
put_next_first(Claim *claim)
{
	ClusterNode **nodes = claim->nodes;
	ClusterNode *node;
	int			next = 0;

	while (next < claim->n && (nodes[next]->had_turn || cluster_nodes_suspect(nodes[next])))
		next++;
	if (next == claim->n)
	{
		for (int i = 0; i < claim->n; i++)
			nodes[i]->had_turn = false;
		next = 0;
	}
	node = nodes[next];
	nodes[next] = nodes[0];
	nodes[0] = node;
	node->had_turn = true;
}

/*
 * Ask all nodes without waiting, suspects only if no other one has answered.
 */
static bool
claim_anywhere(Claim *claim)
{
	cluster_nodes_shuffle(claim->nodes, claim->n);
	if (claim->by_front)
		fronts_put_first(claim->queue, claim->nodes, claim->n);
	else
		put_next_first(claim);
	claim->answered = NULL;
	claim->refusal = NULL;
	for (int i = 0; i < claim->n; i++)
	{
		if (claim->answered != NULL && cluster_nodes_suspect(claim->nodes[i]))
			break;
		if (claim_at(claim, claim->nodes[i], 0))
			return true;
	}
	if (claim->answered == NULL && claim->refusal != NULL)
		ReThrowError(claim->refusal);
	if (!claim->heard)
		ReThrowError(claim->error);
	return false;
}

/*
 * Claim until there is something, or the time is over.
 */
static bool
claim_until(Claim *claim)
{
	TimestampTz begun = GetCurrentTimestamp();
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext look = AllocSetContextCreate(outer, "pgfairq claim", ALLOCSET_DEFAULT_SIZES);
	bool		found;

	MemoryContextSwitchTo(look);
	while (!(found = claim_anywhere(claim)))
	{
		int64		waited = GetCurrentTimestamp() - begun;
		int64		rest = Min(claim->waits - waited, route_slice(waited));
		ClusterNode *node = claim->answered != NULL ? claim->answered : claim->nodes[0];

		if (rest <= 0)
			break;
		CHECK_FOR_INTERRUPTS();
		claim->answered = NULL;
		if ((found = claim_at(claim, node, rest)))
			break;
		if (claim->answered == NULL)
			route_rest(rest);
		MemoryContextReset(look);
	}
	MemoryContextSwitchTo(outer);
	return found;
}

/* Begin a claim; wait: the position of the argument. */
static void
claim_begin(FunctionCallInfo fcinfo, Claim *claim, const text *queue, int wait)
{
	route_begin(fcinfo, &claim->call, true);
	claim->n = cluster_nodes(&claim->nodes);
	claim->queue = queue;
	claim->by_front = queue != NULL && spread_has_parts(claim->n);
	claim->wait = wait;
	claim->heard = false;
	claim->waits = PG_ARGISNULL(wait) ? 0 : route_waits(PG_GETARG_INTERVAL_P(wait));
}

/*
 * Claim and return what there is.  Under a session (the position of the
 * argument; -1: there is none) the claim goes to the session's node, for the
 * whole time.
 */
static Datum
claim_run(FunctionCallInfo fcinfo, Claim *claim, int session)
{
	if (session >= 0 && !PG_ARGISNULL(session))
	{
		int			number = route_node_of_uuid(PG_GETARG_UUID_P(session));
		ClusterNode *node = cluster_nodes_find(number);

		if (node == NULL)
			return route_any_node(fcinfo, &claim->call);
		claim->call.wait = Max(claim->waits, 0);
		node_call_at(&claim->call, node);
		return route_answer(fcinfo, &claim->call);
	}
	if (claim->waits < 0)
		return route_any_node(fcinfo, &claim->call);
	if (claim_until(claim))
		return route_answer(fcinfo, &claim->call);
	return route_end(fcinfo, (Datum) 0, true);
}

static const text *
queue_argument(FunctionCallInfo fcinfo)
{
	return PG_ARGISNULL(0) ? NULL : PG_GETARG_TEXT_PP(0);
}

static void
refuse_buckets(FunctionCallInfo fcinfo, int buckets)
{
	if (!PG_ARGISNULL(buckets))
		route_unsupported(fcinfo, "Each node has buckets of its own.",
						  "Leave argument \"buckets\" out, or connect to a node.");
}

/*
 * fairq.claim(queue, max_tasks, lease, session, wait, buckets, group_keys)
 */
Datum
route_claim(FunctionCallInfo fcinfo)
{
	Claim		claim;

	refuse_buckets(fcinfo, 5);
	claim_begin(fcinfo, &claim, queue_argument(fcinfo), 4);
	return claim_run(fcinfo, &claim, 3);
}

/*
 * fairq.claim_any(queues, max_tasks, lease, session, wait)
 */
Datum
route_claim_any(FunctionCallInfo fcinfo)
{
	Claim		claim;

	claim_begin(fcinfo, &claim, NULL, 4);
	return claim_run(fcinfo, &claim, 3);
}

/*
 * fairq.pop(queue, max_tasks, wait, buckets, group_keys): the tasks are gone
 * at the node before they are here, so each is done at most once.
 */
Datum
route_pop(FunctionCallInfo fcinfo)
{
	Claim		claim;

	refuse_buckets(fcinfo, 3);
	claim_begin(fcinfo, &claim, queue_argument(fcinfo), 2);
	return claim_run(fcinfo, &claim, -1);
}

/*
 * fairq.ack_and_claim(queue, receipts, max_tasks, lease, session, wait): each
 * receipt at its node, and then a claim.
 */
Datum
route_ack_and_claim(FunctionCallInfo fcinfo)
{
	Claim		claim;

	claim_begin(fcinfo, &claim, queue_argument(fcinfo), 5);
	if (claim.waits < 0 || PG_ARGISNULL(1) || !route_ack_many(PG_GETARG_ARRAYTYPE_P(1)))
		return route_any_node(fcinfo, &claim.call);
	node_call_set(&claim.call, ARGUMENT(1),
				  PointerGetDatum(construct_empty_array(UUIDOID)), false);
	return claim_run(fcinfo, &claim, 4);
}

/*
 * fairq.open_session(name, ttl, bound): at a random one of the nodes that get
 * new tasks.
 */
Datum
route_open_session(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	ClusterNode **nodes;
	int			n;

	route_begin(fcinfo, &call, true);
	n = spread_candidates(&nodes);
	return route_first(fcinfo, &call, nodes, n);
}
