/*-------------------------------------------------------------------------
 *
 * cluster_nodes.c
 *	  The nodes of the cluster, as a backend of a proxy knows them.
 *
 * They are the rows of fairq.node, which are read when they are first needed
 * and whenever they have changed: the table's trigger alters PL/Proxy's server
 * at the same time, and all backends hear of that, PL/Proxy's part of them too.
 *
 * A node that was out of reach is suspect for a while: what can be asked of
 * another node is asked of the others first.  If connecting has failed it is
 * closed besides, that is, not asked at all.  The next try may take little
 * time, and each one after that twice as much; and before it twenty times as
 * long passes, so that a node that is sick takes a twentieth of a backend's
 * time.  One that takes a connection as soon as a call was lost there may be
 * well, and only that call had to wait, as for a lock: it is asked again soon,
 * and later with each call in a row that is lost.
 *
 * Where the library is preloaded the probe knows more (node_health.c): a node
 * whose server is silent is closed, and open again as soon as it is not.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_foreign_server.h"
#include "common/pg_prng.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "cluster/cluster_nodes.h"
#include "cluster/engine_link.h"
#include "cluster/node_health.h"
#include "common/compat.h"

/* Columns of fairq.node, as sql/cluster makes it. */
#define NODE_NUMBER		1
#define NODE_PLACE		2
#define NODE_CONNECTION	3
#define NODE_STATE		4

/* How long a node is suspect, at random: backends do not come at once. */
#define SUSPECT_LEAST	(2 * USECS_PER_SEC)
#define SUSPECT_MOST	(5 * USECS_PER_SEC)

/* And for how many times what it has cost. */
#define COST_FACTOR		20

/* How often the time doubles for one that can be connected to. */
#define LOSSES_COUNTED	10

/* How much of the time that a call may take connecting may take; how many
 * milliseconds each host but the last adds, which may be dead; and what the
 * first try has after one that took too long. */
#define CONNECT_PART(msecs)	((msecs) * 2 / 5)
#define HOST_MSECS		4000
#define TRIAL_MSECS		100

int			cluster_nodes_timeout = 5000;
uint32		cluster_nodes_refusals = 0;

static MemoryContext nodes_context = NULL;
static ClusterNode **nodes;
static int	n_nodes;
static bool nodes_valid = false;

static void
forget_nodes(Datum arg, int cache, uint32 hash)
{
	nodes_valid = false;
}

/* What was known of a node stays known, but it may be asked. */
static void
keep_known(ClusterNode *node, ClusterNode **before, int n_before)
{
	for (int i = 0; i < n_before; i++)
		if (before[i]->number == node->number && before[i]->place == node->place)
		{
			node->lost_at = before[i]->lost_at;
			node->losses = before[i]->losses;
			node->suspect_until = before[i]->suspect_until;
			node->trial = before[i]->trial;
			return;
		}
}

static char *
read_text(Relation table, HeapTuple tuple, AttrNumber column)
{
	return TextDatumGetCString(engine->own_table_column(table, tuple, column));
}

static ClusterNode *
read_node(Relation table, HeapTuple tuple)
{
	ClusterNode *node = palloc0(sizeof(ClusterNode));
	char	   *state = read_text(table, tuple, NODE_STATE);
	char	   *connection = read_text(table, tuple, NODE_CONNECTION);
	char	   *address = connection_words_address(connection, &node->hosts);

	node->number = DatumGetInt32(engine->own_table_column(table, tuple, NODE_NUMBER));
	node->place = DatumGetInt32(engine->own_table_column(table, tuple, NODE_PLACE));
	node->draining = strcmp(state, "draining") == 0;
	node->server = address == NULL ? -1 : node_health_find(address);
	pfree(state);
	pfree(connection);
	return node;
}

static int
compare_numbers(const void *a, const void *b)
{
	return (*(ClusterNode *const *) a)->number - (*(ClusterNode *const *) b)->number;
}

/*
 * Read the table.  Its connections are asked anew who they are: an
 * administrator may have given another server.
 */
static void
read_nodes(void)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "pgfairq nodes",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(context);
	Relation	table = engine->own_table_open("fairq", "node", AccessShareLock);
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	int			n = 0;
	int			room = 16;
	ClusterNode **found = palloc(room * sizeof(ClusterNode *));

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (n == room)
			found = repalloc(found, (room *= 2) * sizeof(ClusterNode *));
		found[n] = read_node(table, tuple);
		keep_known(found[n], nodes, n_nodes);
		n++;
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	MemoryContextSwitchTo(before);
	qsort(found, n, sizeof(ClusterNode *), compare_numbers);

	/* Calls of this transaction may have the list of before in hand. */
	if (nodes_context != NULL)
		MemoryContextSetParent(nodes_context, TopTransactionContext);
	nodes_context = context;
	nodes = found;
	n_nodes = n;
}

/*
 * The nodes, at least one, by their numbers: in an array that is the caller's,
 * to put in order.  They are good until the transaction ends.
 */
int
cluster_nodes(ClusterNode ***result)
{
	static bool registered = false;

	if (!registered)
	{
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, forget_nodes, (Datum) 0);
		registered = true;
	}
	while (!nodes_valid)
	{
		nodes_valid = true;		/* unless we hear of a change while we read */
		PG_TRY();
		{
			read_nodes();
		}
		PG_CATCH();
		{
			nodes_valid = false;
			PG_RE_THROW();
		}
		PG_END_TRY();
	}
	if (n_nodes == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the cluster has no nodes"),
				 errhint("Add its servers with fairq.add_node().")));
	*result = palloc(n_nodes * sizeof(ClusterNode *));
	memcpy(*result, nodes, n_nodes * sizeof(ClusterNode *));
	return n_nodes;
}

/*
 * A node says that it is drained, which the list does not.  So the list is an
 * old one: where no other node is left those that it has as drained count as
 * active, and say themselves if they are not.
 */
void
cluster_nodes_drained(ClusterNode *node)
{
	bool		others = false;

	cluster_nodes_refusals += !node->draining;
	node->draining = node->refused = true;
	for (int i = 0; i < n_nodes; i++)
		others |= !nodes[i]->draining;
	for (int i = 0; i < n_nodes && !others; i++)
		nodes[i]->draining = nodes[i]->refused;
}

/* NULL: there is none of this number.  After cluster_nodes(). */
ClusterNode *
cluster_nodes_find(int number)
{
	for (int i = 0; i < n_nodes; i++)
		if (nodes[i]->number == number)
			return nodes[i];
	return NULL;
}

/*
 * Has the probe found, since the call that was lost began, that its server
 * answers again?  Not since the call has ended: it may have waited for the
 * network longer than its server was away.
 */
static bool
is_back(const ClusterNode *node)
{
	return node_health_well_since(node->server) > node->lost_at;
}

/* Is the node silent, or left alone until a time, for what was lost there? */
static bool
rests_until(const ClusterNode *node, int64 until)
{
	if (node_health_of(node->server) == NODE_HEALTH_SILENT)
		return true;
	return node->lost_at != 0 && engine->wall_clock_real() < until && !is_back(node);
}

/* Is the node better left alone for now? */
bool
cluster_nodes_suspect(const ClusterNode *node)
{
	return rests_until(node, node->suspect_until);
}

/*
 * Is the node not to be asked now, whatever for?  Called before each call.
 */
bool
cluster_nodes_closed(ClusterNode *node)
{
	node_health_want(node->server);
	if (node->server >= 0)
		node_probe_start();
	return rests_until(node, node->closed_until);
}

static int
usual_patience(const ClusterNode *node)
{
	return CONNECT_PART(cluster_nodes_timeout) + (node->hosts - 1) * HOST_MSECS;
}

/* How many milliseconds connecting to it may take. */
int
cluster_nodes_patience(const ClusterNode *node)
{
	if (node->trial == 0 || node_health_of(node->server) == NODE_HEALTH_WELL)
		return usual_patience(node);
	return node->trial;
}

/*
 * The node was out of reach, which has cost so much time; it could not be
 * connected to, or has not answered a call.
 */
void
cluster_nodes_lost(ClusterNode *node, int64 usecs, bool connecting)
{
	int64		least = (int64) pg_prng_uint64_range(&pg_global_prng_state, SUSPECT_LEAST,
													 SUSPECT_MOST);
	int64		now = engine->wall_clock_real();

	node->recognized = false;
	node->lost_at = now - usecs;
	if (connecting)
	{
		node->trial = Max(Min(2 * node->trial, usual_patience(node)), TRIAL_MSECS);
		usecs = Min(usecs, node->trial * INT64CONST(1000));
		node->closed_until = now + COST_FACTOR * usecs;
	}
	else
		node->losses = Min(node->losses + 1, LOSSES_COUNTED);
	node->suspect_until = now + Max(least, COST_FACTOR * usecs);
}

/* It can be connected to. */
void
cluster_nodes_connected(ClusterNode *node)
{
	node->recognized = true;
	node->closed_until = 0;
	node->trial = 0;
	node->suspect_until = Min(node->suspect_until,
							  engine->wall_clock_real() + (SUSPECT_LEAST << node->losses));
}

/* It has answered a call. */
void
cluster_nodes_answered(ClusterNode *node)
{
	node->lost_at = 0;
	node->losses = 0;
}

/* Put nodes into a random order, suspects last. */
void
cluster_nodes_shuffle(ClusterNode **shuffled, int n)
{
	int			well = 0;

	for (int i = n - 1; i > 0; i--)
	{
		int			other = (int) pg_prng_uint64_range(&pg_global_prng_state, 0, i);
		ClusterNode *node = shuffled[i];

		shuffled[i] = shuffled[other];
		shuffled[other] = node;
	}
	for (int i = 0; i < n; i++)
		if (!cluster_nodes_suspect(shuffled[i]))
		{
			ClusterNode *node = shuffled[i];

			memmove(&shuffled[well + 1], &shuffled[well], (i - well) * sizeof(ClusterNode *));
			shuffled[well++] = node;
		}
}
