/*-------------------------------------------------------------------------
 *
 * fronts.c
 *	  How far each node has got with a queue, as a claim last heard.
 *
 * Where each group has only some of the nodes, random claims serve a group by
 * how busy its nodes are.  So claims go by virtual time, as they do between the
 * buckets of one server: of two nodes to that which is behind, in the most
 * urgent class that has anything ready.  A part of the claims goes to a random
 * node all the same, or a node of which the last word was that it is empty
 * would not be looked at.  And a node that is behind all others, because it was
 * empty, has its floor raised: groups that come to it get no credit for that.
 * test/simulation says what each of these is worth.
 *
 * What a backend knows is about a second old, and may be wrong without harm: a
 * claim that finds nothing goes on to the other nodes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "cluster/fronts.h"
#include "cluster/node_call.h"

/* Of a hundred claims, how many go to a random node. */
#define RANDOM_CLAIMS	30

/* How old a hint may become; at random up to twice that. */
#define HINT_AGE		USECS_PER_SEC

/* Classes of policy fair. */
#define CLASSES			10

/* A queue at a node. */
typedef struct NodeFront
{
	int			node;
	int			class;			/* the most urgent with anything ready; -1: none */
	double		front[CLASSES];	/* virtual time of what is next; -1: nothing ready */
	double		floor[CLASSES];	/* where groups that come start; -1: not known */
} NodeFront;

/* What was heard of a queue. */
typedef struct QueueFronts
{
	char		queue[NAMEDATALEN]; /* the key */
	TimestampTz next;			/* when to ask again */
	int			n;
	NodeFront  *fronts;
} QueueFronts;

static HTAB *queues = NULL;

/* What a node has said, in SPI_tuptable. */
static void
note_front(NodeFront *front)
{
	front->class = -1;
	for (int class = 0; class < CLASSES; class++)
		front->front[class] = front->floor[class] = -1;
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		int			class = DatumGetInt32(SPI_getbinval(row, desc, 1, &isnull));
		int64		ready = DatumGetInt64(SPI_getbinval(row, desc, 2, &isnull));
		Datum		value;

		if (class < 0 || class >= CLASSES)
			continue;
		value = SPI_getbinval(row, desc, 3, &isnull);
		if (!isnull)
			front->front[class] = DatumGetFloat8(value);
		value = SPI_getbinval(row, desc, 4, &isnull);
		if (!isnull)
			front->floor[class] = DatumGetFloat8(value);
		if (ready > 0 && (front->class < 0 || class < front->class))
			front->class = class;
	}
	SPI_freetuptable(SPI_tuptable);
}

/*
 * Raise the floors of nodes that are behind the first of all.
 */
static void
raise_floors(const text *queue, QueueFronts *known, ClusterNode **nodes)
{
	NodeCall	call;

	node_call_other(&call, "raise_floor", 3);
	node_call_set(&call, ARGUMENT(0), PointerGetDatum(queue), false);
	for (int class = 0; class < CLASSES; class++)
	{
		double		first = -1;

		for (int i = 0; i < known->n; i++)
		{
			double		front = known->fronts[i].front[class];

			if (front >= 0 && (first < 0 || front < first))
				first = front;
		}
		if (first < 0)
			continue;
		node_call_set(&call, ARGUMENT(1), Int32GetDatum(class), false);
		node_call_set(&call, ARGUMENT(2), Float8GetDatum(first), false);
		for (int i = 0; i < known->n; i++)
			if (known->fronts[i].front[class] < 0 && known->fronts[i].floor[class] < first)
				(void) node_call_quietly(&call, nodes[i]);
	}
}

/*
 * Ask all nodes that are not suspect.
 */
static void
ask_nodes(const text *queue, QueueFronts *known, ClusterNode **nodes, int n)
{
	NodeCall	call;
	int			heard = 0;

	if (known->fronts != NULL)
		pfree(known->fronts);
	known->n = 0;
	known->fronts = MemoryContextAlloc(TopMemoryContext, n * sizeof(NodeFront));
	node_call_other(&call, "front", 1);
	node_call_set(&call, ARGUMENT(0), PointerGetDatum(queue), false);
	for (int i = 0; i < n; i++)
	{
		ClusterNode *node = nodes[i];

		if (cluster_nodes_suspect(node) || !node_call_quietly(&call, node))
			continue;
		known->fronts[heard].node = node->number;
		note_front(&known->fronts[heard]);
		nodes[i] = nodes[heard];
		nodes[heard++] = node;
	}
	known->n = heard;
	raise_floors(queue, known, nodes);
}
