/*-------------------------------------------------------------------------
 *
 * fronts.c
 *	  How far each node has got with a queue, as a claim last heard.
 *
 * Where each group has only some of the nodes, random claims serve a group by
 * how busy its nodes are.  So claims go by virtual time, as they do between the
 * buckets of one server: of a few nodes to that which is behind, in the most
 * urgent class that has anything ready.  A part of the claims goes to a random
 * node all the same, or a node of which the last word was that it is empty
 * would not be looked at.  And a node that is behind all others, because it was
 * empty, has its floor raised: groups that come to it get no credit for that.
 * test/simulation says what each of these is worth.
 *
 * What a backend knows is half a second old at most, but for a node that it has
 * claimed from since: the tasks say how far that has got.  It may be wrong
 * without harm: a claim that finds nothing goes on to the other nodes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/pg_prng.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "cluster/node_call.h"
#include "cluster/spread.h"
#include "common/address.h"

/* Of a hundred claims, how many go to a random node. */
#define RANDOM_CLAIMS	10

/*
 * Of how many random nodes the others go to that which is behind.  With two, a
 * node could have no more than twice its part of the claims; with many, all
 * backends that have heard the same would go to one.
 */
#define CHOICES			3

/* How old a hint may become; at random up to twice that. */
#define HINT_AGE		(USECS_PER_SEC / 4)

/* A queue at a node. */
typedef struct NodeFront
{
	int			node;
	int			class;			/* the most urgent with anything ready; -1:
								 * none */
	bool		shares;			/* classes have weights: none is more urgent */
	double		front[FAIRQ_CLASSES];	/* virtual time of what is next; -1:
										 * nothing ready */
	double		floor[FAIRQ_CLASSES];	/* where groups that come start; -1:
										 * not known */
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
	front->shares = false;
	for (int class = 0; class < FAIRQ_CLASSES; class++)
		front->front[class] = front->floor[class] = -1;
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		int			class = DatumGetInt32(SPI_getbinval(row, desc, 1, &isnull));
		int64		ready = DatumGetInt64(SPI_getbinval(row, desc, 2, &isnull));
		Datum		value;

		if (class < 0 || class >= FAIRQ_CLASSES)
			continue;
		value = SPI_getbinval(row, desc, 3, &isnull);
		if (!isnull)
			front->front[class] = DatumGetFloat8(value);
		value = SPI_getbinval(row, desc, 4, &isnull);
		if (!isnull)
			front->floor[class] = DatumGetFloat8(value);
		value = SPI_getbinval(row, desc, 5, &isnull);
		front->shares = !isnull && DatumGetBool(value);
		if (ready > 0 && (front->class < 0 || class < front->class))
			front->class = class;
	}
	SPI_freetuptable(SPI_tuptable);
}

/*
 * Raise the floors of nodes that are behind what is first of all.
 */
static void
raise_floors(const text *queue, QueueFronts *known, ClusterNode **nodes)
{
	NodeCall	call;
	ErrorData  *error;

	node_call_other(&call, "raise_floor", 3);
	node_call_set(&call, ARGUMENT(0), PointerGetDatum(queue), false);
	for (int class = 0; class < FAIRQ_CLASSES; class++)
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
			if (known->fronts[i].floor[class] < first)
				(void) node_call_ask(&call, nodes[i], &error);
	}
}

/*
 * Ask all nodes that are not suspect.
 */
static void
ask_nodes(const text *queue, QueueFronts *known, ClusterNode **nodes, int n)
{
	NodeCall	call;
	ErrorData  *error;
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

		if (cluster_nodes_suspect(node) || node_call_ask(&call, node, &error) != NODE_ANSWERED)
			continue;
		known->fronts[heard].node = node->number;
		note_front(&known->fronts[heard]);
		nodes[i] = nodes[heard];
		nodes[heard++] = node;
	}
	known->n = heard;
	raise_floors(queue, known, nodes);
}

/* The hints of a queue. */
static QueueFronts *
find_queue(const text *queue)
{
	char		name[NAMEDATALEN] = {0};
	QueueFronts *known;
	bool		found;

	text_to_cstring_buffer(queue, name, NAMEDATALEN);
	if (queues == NULL)
	{
		HASHCTL		control = {0};

		control.keysize = NAMEDATALEN;
		control.entrysize = sizeof(QueueFronts);
		queues = hash_create("pgfairq fronts of nodes", 16, &control, HASH_ELEM | HASH_STRINGS);
	}
	known = hash_search(queues, name, HASH_ENTER, &found);
	if (!found)
	{
		known->next = 0;
		known->n = 0;
		known->fronts = NULL;
	}
	return known;
}

/* Is a claim at one node better than at the other one? */
static bool
is_before(const NodeFront *a, const NodeFront *b)
{
	if (a->class < 0 || b->class < 0)
		return a->class >= 0;
	if (a->shares)
		return false;
	if (a->class != b->class)
		return a->class < b->class;
	return a->front[a->class] < b->front[b->class];
}

static const NodeFront *
any_front(const QueueFronts *known)
{
	return &known->fronts[pg_prng_uint64_range(&pg_global_prng_state, 0, known->n - 1)];
}

/*
 * Put the node first that a claim of the queue goes to.  The nodes are in a
 * random order, and the others stay in it.
 */
void
fronts_put_first(const text *queue, ClusterNode **nodes, int n)
{
	QueueFronts *known;
	const NodeFront *best;

	if (n < 2 || pg_prng_uint64_range(&pg_global_prng_state, 0, 99) < RANDOM_CLAIMS)
		return;
	known = find_queue(queue);
	if (GetCurrentTimestamp() >= known->next)
	{
		known->next = GetCurrentTimestamp() + HINT_AGE +
			(TimestampTz) pg_prng_uint64_range(&pg_global_prng_state, 0, HINT_AGE);
		ask_nodes(queue, known, nodes, n);
	}
	if (known->n < 2)
		return;
	best = any_front(known);
	for (int i = 1; i < CHOICES; i++)
	{
		const NodeFront *other = any_front(known);

		if (is_before(other, best))
			best = other;
	}
	for (int i = 1; i < n; i++)
		if (nodes[i]->number == best->node && !cluster_nodes_suspect(nodes[i]))
		{
			ClusterNode *node = nodes[i];

			nodes[i] = nodes[0];
			nodes[0] = node;
			return;
		}
}

/*
 * Learn from a claim's tasks, in SPI_tuptable, how far the node has got: as far
 * as the last of them.  None: it has nothing ready.
 */
void
fronts_note_claim(const text *queue, const ClusterNode *node)
{
	QueueFronts *known = find_queue(queue);

	for (int i = 0; i < known->n; i++)
	{
		NodeFront  *front = &known->fronts[i];

		if (front->node != node->number)
			continue;
		front->class = -1;
		if (SPI_processed > 0)
		{
			bool		isnull;
			Datum		value = SPI_getbinval(SPI_tuptable->vals[SPI_processed - 1],
											  SPI_tuptable->tupdesc,
											  SPI_fnumber(SPI_tuptable->tupdesc, "address"), &isnull);
			FairqAddress *address = DatumGetFairqAddressP(value);

			if (isnull || address->class >= FAIRQ_CLASSES)
				continue;
			front->class = address->class;
			front->front[front->class] = (double) address->block + ldexp(address->fraction, -32);
		}
	}
}
