/*-------------------------------------------------------------------------
 *
 * spread.c
 *	  Which nodes the tasks of a group go to.
 *
 * A group has the first of all nodes in an order of its own: by a hash of the
 * group and each node's number, highest first (rendezvous hashing: Thaler and
 * Ravishankar 1998).  So all proxies choose alike and remember nothing, and a
 * node that is added takes its part of each group's choices and changes no
 * other.  How many a group has is its width: of the group, of the queue, of
 * all queues, or all nodes, which is what is fair to those who claim at nodes
 * (test/simulation).
 *
 * The hash is of the group alone, so that a tenant's tasks of several queues
 * are on the same nodes; tasks without a group go by their queue.  It must
 * never change: keys and groups of width 1 would be looked for elsewhere.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_type_d.h"
#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

#include "cluster/engine_link.h"
#include "cluster/spread.h"
#include "common/compat.h"

PG_FUNCTION_INFO_V1(fairq_nodes_of_group);

/* Columns of fairq.spread, as sql/cluster makes it. */
#define SPREAD_QUEUE	1
#define SPREAD_GROUP	2
#define SPREAD_WIDTH_OF	3
#define SPREAD_NODES	4

typedef struct Weight
{
	uint64		weight;
	ClusterNode *node;
} Weight;

static int
compare_weights(const void *a, const void *b)
{
	const Weight *first = a;
	const Weight *second = b;

	if (first->weight != second->weight)
		return first->weight > second->weight ? -1 : 1;
	return first->node->number - second->node->number;
}

/* Put nodes into the order of a value. */
static void
order_by_weight(const text *value, ClusterNode **nodes, int n)
{
	Weight	   *weights = palloc(n * sizeof(Weight));

	for (int i = 0; i < n; i++)
	{
		weights[i].weight = hash_bytes_extended((const unsigned char *) VARDATA_ANY(value),
												VARSIZE_ANY_EXHDR(value),
												(uint64) nodes[i]->number + 1);
		weights[i].node = nodes[i];
	}
	qsort(weights, n, sizeof(Weight), compare_weights);
	for (int i = 0; i < n; i++)
		nodes[i] = weights[i].node;
	pfree(weights);
}

/* A condition on a column, which is null where the value is NULL. */
static void
set_key(ScanKey key, AttrNumber column, const text *value)
{
	if (value == NULL)
		ScanKeyEntryInitialize(key, SK_ISNULL | SK_SEARCHNULL, column, InvalidStrategy,
							   InvalidOid, InvalidOid, InvalidOid, (Datum) 0);
	else
	{
		ScanKeyInit(key, column, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(value));
		key->sk_collation = C_COLLATION_OID;
	}
}

/* Is a node among these numbers? */
bool
spread_names(ArrayType *named, int number)
{
	Datum	   *numbers;
	bool	   *nulls;
	int			n;

	deconstruct_array(named, INT4OID, sizeof(int32), true, TYPALIGN_INT, &numbers, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (!nulls[i] && DatumGetInt32(numbers[i]) == number)
			return true;
	return false;
}

/* The numbers of nodes. */
ArrayType *
spread_numbers(ClusterNode **nodes, int n)
{
	Datum	   *numbers = palloc(n * sizeof(Datum));

	for (int i = 0; i < n; i++)
		numbers[i] = Int32GetDatum(nodes[i]->number);
	return construct_array(numbers, n, INT4OID, sizeof(int32), true, TYPALIGN_INT);
}

/*
 * Keep those of the nodes that the rows name which are found: the row of a
 * queue or of a group of it, each of which may be NULL; or (in_all) those of a
 * group in all queues.  If none of them gets new tasks any more, all are kept.
 * Returns the least width that the rows have; 0: none.
 */
static int
keep_named(Relation table, bool in_all, const text *queue, const text *group,
		   ClusterNode **nodes, int *n)
{
	Oid			relid = engine->own_table_require("fairq", in_all ? "spread_by_group" : "spread_by_queue");
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	int			least = 0;

	set_key(&keys[0], SPREAD_QUEUE, queue);
	set_key(&keys[1], SPREAD_GROUP, group);
	scan = systable_beginscan(table, relid, true, NULL, in_all ? 1 : 2,
							  in_all ? &keys[1] : keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		int			width = DatumGetInt32(engine->own_table_column(table, tuple, SPREAD_WIDTH_OF));
		bool		isnull;
		Datum		named = heap_getattr(tuple, SPREAD_NODES, RelationGetDescr(table), &isnull);
		int			kept = 0;

		least = least == 0 ? width : Min(least, width);
		for (int i = 0; i < *n && !isnull; i++)
			if (spread_names(DatumGetArrayTypeP(named), nodes[i]->number))
			{
				ClusterNode *node = nodes[i];

				nodes[i] = nodes[kept];
				nodes[kept++] = node;
			}
		*n = kept > 0 ? kept : *n;
	}
	systable_endscan(scan);
	return least;
}

/*
 * To how many of n nodes tasks go where nothing is said.  SQL of before 0.3.0
 * meant few of many; its update writes down what it meant, so that keys are
 * looked for where they are.  Its table has no place for that.
 */
static int
default_width(Relation table, int n)
{
	bool		before = TupleDescAttr(RelationGetDescr(table), SPREAD_QUEUE - 1)->attnotnull;

	return before && n > 8 ? 4 : n;
}

/*
 * The table, or NULL if nothing was ever said in it.  *width: where it says
 * nothing, of n nodes.
 */
static Relation
open_spread_table(int n, int *width)
{
	Relation	table = engine->own_table_open("fairq", "spread", AccessShareLock);

	*width = default_width(table, n);
	if (RelationGetNumberOfBlocks(table) > 0)
		return table;
	table_close(table, AccessShareLock);
	return NULL;
}

/* All nodes that may get new tasks, and to how many of them tasks go. */
int
spread_candidates(ClusterNode ***result)
{
	ClusterNode **nodes;
	int			all = cluster_nodes(&nodes);
	int			n = 0;

	for (int i = 0; i < all; i++)
		if (!nodes[i]->draining)
			nodes[n++] = nodes[i];
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("all nodes of the cluster are being drained"),
				 errhint("Add a node with fairq.add_node().")));
	*result = nodes;
	return n;
}

/*
 * Tasks of a queue are going to be placed.  The caller ends it.
 */
void
spread_begin(Spread *spread, const text *queue)
{
	int			width = 0;

	spread->queue = queue;
	spread->n = spread_candidates(&spread->nodes);
	spread->table = open_spread_table(spread->n, &spread->width);
	if (spread->table != NULL)
		width = keep_named(spread->table, false, queue, NULL, spread->nodes, &spread->n);
	if (spread->table != NULL && width == 0)
		width = keep_named(spread->table, false, NULL, NULL, spread->nodes, &spread->n);
	if (width > 0)
		spread->width = width;
}

void
spread_end(Spread *spread)
{
	if (spread->table != NULL)
		table_close(spread->table, AccessShareLock);
	pfree(spread->nodes);
}

/*
 * The nodes that get new tasks of a group, into the caller's array, which has
 * room for all.  They are in the group's order where they are not all.
 */
int
spread_of_group(Spread *spread, const text *group, ClusterNode **nodes)
{
	int			width = 0;
	int			n = spread->n;

	memcpy(nodes, spread->nodes, n * sizeof(ClusterNode *));
	if (spread->table != NULL)
		width = keep_named(spread->table, false, spread->queue, group, nodes, &n);
	if (width == 0)
		width = spread->width;
	if (width >= n)
		return n;
	order_by_weight(VARSIZE_ANY_EXHDR(group) > 0 ? group : spread->queue, nodes, n);
	return width;
}

/*
 * The nodes that get new tasks of a group of a queue, of which only these are
 * placed.
 */
int
spread_nodes(const text *queue, const text *group, ClusterNode ***nodes)
{
	Spread		spread;
	int			n;

	spread_begin(&spread, queue);
	*nodes = palloc(spread.n * sizeof(ClusterNode *));
	n = spread_of_group(&spread, group, *nodes);
	spread_end(&spread);
	return n;
}

/*
 * May there be groups that do not have all of so many nodes?
 */
bool
spread_has_parts(int n)
{
	int			width;
	Relation	table = open_spread_table(n, &width);

	if (table != NULL)
		table_close(table, AccessShareLock);
	return table != NULL || width < n;
}

/*
 * The nodes that get tasks of a group in any queue.  Its nodes in one queue are
 * the first of those in another one where it has more, so they are those of the
 * queue where it has least.
 */
int
spread_of_topic(const text *group, ClusterNode ***nodes)
{
	int			n = spread_candidates(nodes);
	int			width;
	Relation	table = open_spread_table(n, &width);

	if (table != NULL)
	{
		int			of_group = keep_named(table, true, NULL, group, *nodes, &n);
		int			of_queues = keep_named(table, true, NULL, NULL, *nodes, &n);

		width = of_group > 0 ? Min(width, of_group) : width;
		width = of_queues > 0 ? Min(width, of_queues) : width;
		table_close(table, AccessShareLock);
	}
	if (width >= n)
		return n;
	if (VARSIZE_ANY_EXHDR(group) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("tasks without a group cannot be published where queues do not have all nodes"),
				 errdetail("No node need be one of all queues of the topic."),
				 errhint("Give a group.")));
	order_by_weight(group, *nodes, n);
	return width;
}

/*
 * The first of nodes in the order of a value.
 */
ClusterNode *
spread_first(const text *value, ClusterNode **nodes, int n)
{
	ClusterNode **ordered = palloc(n * sizeof(ClusterNode *));

	memcpy(ordered, nodes, n * sizeof(ClusterNode *));
	order_by_weight(value, ordered, n);
	return ordered[0];
}

/*
 * Which of a group's nodes has a unique key.  Where the group has all nodes,
 * it is the same for all groups, so the key is unique in the queue.
 */
ClusterNode *
spread_node_of_key(const text *queue, const text *key, ClusterNode **nodes, int n)
{
	text	   *both = DatumGetTextPP(DirectFunctionCall2(textcat, PointerGetDatum(queue),
														  PointerGetDatum(key)));

	return spread_first(both, nodes, n);
}

/*
 * fairq.nodes_of_group(queue, group_key): strict.  The numbers of the nodes
 * that get new tasks of the group.
 */
Datum
fairq_nodes_of_group(PG_FUNCTION_ARGS)
{
	ClusterNode **nodes;
	int			n = spread_nodes(PG_GETARG_TEXT_PP(0), PG_GETARG_TEXT_PP(1), &nodes);

	PG_RETURN_ARRAYTYPE_P(spread_numbers(nodes, n));
}
