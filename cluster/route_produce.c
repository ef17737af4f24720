/*-------------------------------------------------------------------------
 *
 * route_produce.c
 *	  The ways of new tasks to nodes.
 *
 * A task goes to a random one of its group's nodes.  With a unique key it goes
 * to the key's node, and with predecessors to theirs, for what they are
 * compared with is there.  A node that cannot be reached is passed over where
 * another one will do; a connection that is lost during the call is an error,
 * for the task may be there.  A node that says that it is drained is passed
 * over likewise: the choice is made again without it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "common/pg_prng.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "cluster/node_call.h"
#include "cluster/routes.h"
#include "cluster/spread.h"
#include "common/compat.h"
#include "common/node_number.h"

/* A batch is divided into pieces of so many: a call costs as much as these. */
#define PIECE_LEAST		100

/* What a task of a batch adds to the time that a node may take. */
#define TASK_USECS		INT64CONST(1000)

/*
 * Ask a node which of some tasks it has.  False: it has none, or does not say.
 * *ids: those that it does not have.
 */
static bool
some_are_there(Datum queue, ArrayType **ids, ClusterNode *node)
{
	NodeCall	look;
	ErrorData  *error;
	bool		isnull;
	Datum	   *asked;
	Datum	   *there;
	int			n_asked;
	int			n_there;
	int			rest = 0;

	node_call_other(&look, "tasks_here", 2);
	node_call_set(&look, ARGUMENT(0), queue, false);
	node_call_set(&look, ARGUMENT(1), PointerGetDatum(*ids), false);
	if (node_call_look(&look, node, &error) != NODE_ANSWERED)
		return false;
	deconstruct_array(DatumGetArrayTypeP(node_call_value(&look, &isnull)), INT8OID, sizeof(int64),
					  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &there, NULL, &n_there);
	deconstruct_array(*ids, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &asked, NULL, &n_asked);

	/* The answer is in the order of the question. */
	for (int i = 0, next = 0; i < n_asked; i++)
	{
		if (next < n_there && there[next] == asked[i])
			next++;
		else
			asked[rest++] = asked[i];
	}
	*ids = construct_array(asked, rest, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	return n_there > 0;
}

/*
 * The node of a task's predecessors, which have to be on one; NULL: any, or
 * what is named is no id, which the node will say.  Predecessors that no node
 * has are over, and are found to be so at each that gets new tasks.
 */
static ClusterNode *
node_of_predecessors(Datum queue, ArrayType *ids)
{
	ClusterNode **nodes;
	ClusterNode *giver;
	ClusterNode *node = NULL;
	Datum	   *elements;
	int			n_ids;
	int			n = cluster_nodes(&nodes);

	if (ARR_NDIM(ids) != 1 || array_contains_nulls(ids))
		return NULL;
	deconstruct_array(ids, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &elements, NULL, &n_ids);
	giver = cluster_nodes_find(NODE_OF_ID(DatumGetInt64(elements[0])));

	/* The node that gave the first id mostly has them all. */
	for (int i = -1; i < n && ARR_NDIM(ids) > 0; i++)
	{
		ClusterNode *its = i < 0 ? giver : nodes[i];

		if (its == NULL || (i >= 0 && (its == giver || cluster_nodes_suspect(its))) ||
			!some_are_there(queue, &ids, its))
			continue;
		if (node != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("tasks of different nodes cannot be waited for together"),
					 errdetail("Argument \"after\" has tasks of node %d and of node %d.",
							   node->number, its->number),
					 errhint("Give tasks that are to be waited for together the same group, in a queue or group of width 1.")));
		node = its;
	}
	if (node == NULL && giver != NULL && !giver->draining)
		node = giver;
	return node;
}

/* Of enqueue. */
enum
{
	ENQUEUE_QUEUE = 0, ENQUEUE_GROUP = 2, ENQUEUE_KEY = 6, ENQUEUE_AFTER = 14
};

/* A group that is given as null is the empty one. */
static text *
group_of(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? cstring_to_text("") : PG_GETARG_TEXT_PP(number);
}

/*
 * The nodes that may have a new task; gone: the number of one that has said
 * that what the task is to come after is not there any more, or -1.
 */
static int
nodes_of_task(FunctionCallInfo fcinfo, int gone, ClusterNode ***nodes)
{
	int			n = spread_nodes(PG_GETARG_TEXT_PP(ENQUEUE_QUEUE),
								 group_of(fcinfo, ENQUEUE_GROUP), nodes);

	if (!PG_ARGISNULL(ENQUEUE_AFTER))
	{
		ClusterNode *node = node_of_predecessors(PG_GETARG_DATUM(ENQUEUE_QUEUE),
												 PG_GETARG_ARRAYTYPE_P(ENQUEUE_AFTER));

		if (node != NULL && node->number != gone)
		{
			(*nodes)[0] = node;
			return 1;
		}
	}
	if (!PG_ARGISNULL(ENQUEUE_KEY))
	{
		(*nodes)[0] = spread_node_of_key(PG_GETARG_TEXT_PP(ENQUEUE_QUEUE),
										 PG_GETARG_TEXT_PP(ENQUEUE_KEY), *nodes, n);
		return 1;
	}
	return n;
}

/*
 * Make the call at one of the nodes that choose finds, once more without those
 * that turn out to be drained.
 */
static Datum
produce(FunctionCallInfo fcinfo, NodeCall *call,
		int (*choose) (FunctionCallInfo fcinfo, int gone, ClusterNode ***nodes))
{
	int			gone = -1;

	for (;;)
	{
		uint32		refusals = cluster_nodes_refusals;
		ClusterNode **nodes;
		ErrorData  *error;
		int			n = choose(fcinfo, gone, &nodes);
		NodeAnswer	answer = route_try(call, nodes, n, &error);

		if (answer == NODE_ANSWERED)
			return route_answer(fcinfo, call);
		if (answer == NODE_NOT_ASKED && cluster_nodes_refusals != refusals)
			continue;
		if (error->sqlerrcode != ERRCODE_NODE_DRAINED || gone >= 0)
			ReThrowError(error);
		gone = nodes[0]->number;
	}
}

/*
 * fairq.enqueue(queue, payload, group_key, …)
 */
Datum
route_enqueue(FunctionCallInfo fcinfo)
{
	NodeCall	call;

	route_begin(fcinfo, &call, true);
	if (PG_ARGISNULL(ENQUEUE_QUEUE))
		return route_any_node(fcinfo, &call);
	call.elsewhere = PG_ARGISNULL(ENQUEUE_KEY) && PG_ARGISNULL(ENQUEUE_AFTER);
	return produce(fcinfo, &call, nodes_of_task);
}

/* Of publish. */
enum
{
	PUBLISH_TOPIC = 0, PUBLISH_GROUP = 2, PUBLISH_KEY = 6
};

/* The nodes that may have a new task of a topic. */
static int
nodes_of_topic(FunctionCallInfo fcinfo, int gone, ClusterNode ***nodes)
{
	int			n = spread_of_topic(group_of(fcinfo, PUBLISH_GROUP), nodes);

	if (PG_ARGISNULL(PUBLISH_KEY))
		return n;
	(*nodes)[0] = spread_node_of_key(PG_GETARG_TEXT_PP(PUBLISH_TOPIC),
									 PG_GETARG_TEXT_PP(PUBLISH_KEY), *nodes, n);
	return 1;
}

/*
 * fairq.publish(topic, payload, group_key, …): all queues of the topic get it
 * at one node, together.
 */
Datum
route_publish(FunctionCallInfo fcinfo)
{
	NodeCall	call;

	route_begin(fcinfo, &call, true);
	if (PG_ARGISNULL(PUBLISH_TOPIC))
		return route_any_node(fcinfo, &call);
	call.elsewhere = PG_ARGISNULL(PUBLISH_KEY);
	return produce(fcinfo, &call, nodes_of_topic);
}

/* Of enqueue_many. */
enum
{
	MANY_QUEUE = 0, MANY_PAYLOADS = 1, MANY_GROUPS = 2, MANY_KEYS = 6
};

/* Arrays of one element a task, or null; its others are of all tasks. */
static const int many_arrays[] = {MANY_PAYLOADS, MANY_GROUPS, 3, 4, 5, MANY_KEYS, 9, 10};

#define MANY_ARRAYS		((int) lengthof(many_arrays))

/* A batch that is divided: its arrays, and what becomes of each task. */
typedef struct Batch
{
	Divided		arrays;
	int			tasks;
	ClusterNode **nodes;		/* NULL: the task is enqueued */
	Datum	   *ids;
	int			done;
	int			refused;		/* times that a node could not be asked */
} Batch;

/*
 * Take the arrays apart.  False: they are not as they have to be, which a node
 * will say.
 */
static bool
read_batch(FunctionCallInfo fcinfo, Batch *batch)
{
	Divided    *arrays = &batch->arrays;

	memset(batch, 0, sizeof(Batch));
	for (int n = 0; n < MANY_ARRAYS; n++)
	{
		int			i = many_arrays[n];
		ArrayType  *array;

		if (PG_ARGISNULL(i))
			continue;
		array = PG_GETARG_ARRAYTYPE_P(i);
		if (ARR_NDIM(array) != 1)
			return false;
		route_read_array(arrays, i, array);
	}
	if (arrays->values[MANY_PAYLOADS] == NULL)
		return false;
	for (int i = 0; i < DIVIDED_ARGUMENTS; i++)
		if (arrays->values[i] != NULL && arrays->lengths[i] != arrays->n && arrays->lengths[i] != 1)
			return false;
	batch->tasks = arrays->n;
	batch->nodes = arrays->nodes = palloc(batch->tasks * sizeof(ClusterNode *));
	batch->ids = palloc(batch->tasks * sizeof(Datum));
	return true;
}

/* What an array has for a task; NULL: nothing. */
static text *
text_of_task(const Divided *arrays, int number, int task)
{
	if (arrays->lengths[number] == 1)
		task = 0;
	if (arrays->values[number] == NULL || arrays->nulls[number][task])
		return NULL;
	return DatumGetTextPP(arrays->values[number][task]);
}

/* The first of these nodes in an order that begins at a turn. */
static ClusterNode *
first_in_order(ClusterNode **order, int n_order, int turn, ClusterNode **nodes, int n)
{
	for (int i = 0; i < n_order; i++)
		for (int j = 0; j < n; j++)
			if (order[(turn + i) % n_order] == nodes[j])
				return nodes[j];
	return nodes[0];
}

/* Put a node behind the others, if it is one of them. */
static void
put_last(ClusterNode **order, int n, const ClusterNode *node)
{
	for (int i = 0; i + 1 < n; i++)
		if (order[i] == node)
		{
			ClusterNode *next = order[i + 1];

			order[i + 1] = order[i];
			order[i] = next;
		}
}

/*
 * Choose a node for each task that is at a node that could not be asked, or at
 * none yet (NULL).  There is an order of nodes for the batch, which is random,
 * suspects last; as many of them as there are pieces of PIECE_LEAST tasks take
 * turns, and a task goes to the first of its group's nodes from there on.
 */
static void
assign_nodes(const text *queue, Batch *batch, ClusterNode *away)
{
	Spread		spread;
	ClusterNode **order;
	ClusterNode **nodes;
	text	   *none = cstring_to_text("");
	int			pieces;

	spread_begin(&spread, queue);
	order = palloc(spread.n * sizeof(ClusterNode *));
	nodes = palloc(spread.n * sizeof(ClusterNode *));
	memcpy(order, spread.nodes, spread.n * sizeof(ClusterNode *));
	cluster_nodes_shuffle(order, spread.n);
	put_last(order, spread.n, away);
	pieces = Max(1, Min(spread.n - (away != NULL), batch->tasks / PIECE_LEAST));
	for (int i = 0; i < batch->tasks; i++)
	{
		text	   *group = text_of_task(&batch->arrays, MANY_GROUPS, i);
		text	   *key = text_of_task(&batch->arrays, MANY_KEYS, i);
		int			n;

		if (away != NULL && batch->nodes[i] != away)
			continue;
		n = spread_of_group(&spread, group == NULL ? none : group, nodes);
		if (key != NULL)
			batch->nodes[i] = spread_node_of_key(queue, key, nodes, n);
		else
			batch->nodes[i] = first_in_order(order, spread.n,
											 (int) ((int64) i * pieces / batch->tasks), nodes, n);
	}
	spread_end(&spread);
}

/* Note the ids of what was enqueued at a node. */
static void
note_ids(NodeCall *call, Batch *batch, ClusterNode *node)
{
	bool		isnull;
	Datum		value = node_call_value(call, &isnull);
	Datum	   *ids;
	int			n;
	int			next = 0;

	if (isnull)
		elog(ERROR, "node %d has returned no ids", node->number);
	deconstruct_array(DatumGetArrayTypeP(value), INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
					  TYPALIGN_DOUBLE, &ids, NULL, &n);
	for (int i = 0; i < batch->tasks; i++)
	{
		if (batch->nodes[i] != node)
			continue;
		if (next == n)
			elog(ERROR, "node %d has returned %d ids", node->number, n);
		batch->ids[i] = ids[next++];
		batch->nodes[i] = NULL;
	}
	batch->done += next;
}

/*
 * Enqueue the tasks of a node there.  If it cannot be reached they are given
 * to others; unless they have no other.
 */
static void
enqueue_at(FunctionCallInfo fcinfo, NodeCall *call, Batch *batch, ClusterNode *node)
{
	ClusterNode **all;
	ErrorData  *error;
	NodeAnswer	answer;

	route_set_part(call, &batch->arrays, node);
	call->wait = batch->tasks * TASK_USECS;
	answer = node_call_try(call, node, &error);
	if (answer == NODE_ANSWERED)
	{
		note_ids(call, batch, node);
		return;
	}
	if (answer == NODE_NOT_ASKED && batch->refused++ < cluster_nodes(&all))
	{
		bool		stay = false;

		assign_nodes(PG_GETARG_TEXT_PP(MANY_QUEUE), batch, node);
		for (int i = 0; i < batch->tasks; i++)
			stay = stay || batch->nodes[i] == node;
		if (!stay)
			return;
	}
	if (batch->done > 0)
		error->detail = psprintf("%d of the %d tasks are enqueued at other nodes.%s%s",
								 batch->done, batch->tasks, error->detail == NULL ? "" : " ",
								 error->detail == NULL ? "" : error->detail);
	ReThrowError(error);
}

/*
 * fairq.enqueue_many(queue, payloads, …)
 */
Datum
route_enqueue_many(FunctionCallInfo fcinfo)
{
	NodeCall	call;
	Batch		batch;

	route_begin(fcinfo, &call, true);
	call.elsewhere = true;
	if (PG_ARGISNULL(MANY_QUEUE) || !read_batch(fcinfo, &batch))
		return route_any_node(fcinfo, &call);
	assign_nodes(PG_GETARG_TEXT_PP(MANY_QUEUE), &batch, NULL);
	while (batch.done < batch.tasks)
		for (int i = 0; i < batch.tasks; i++)
			if (batch.nodes[i] != NULL)
				enqueue_at(fcinfo, &call, &batch, batch.nodes[i]);
	return route_end(fcinfo,
					 PointerGetDatum(construct_array(batch.ids, batch.tasks, INT8OID, sizeof(int64),
													 FLOAT8PASSBYVAL, TYPALIGN_DOUBLE)),
					 false);
}
