/*-------------------------------------------------------------------------
 *
 * route_worker.c
 *	  Which node a worker is to work at.
 *
 * A worker asks every so often, with its session, which says where it is.  All
 * nodes are asked who attends to its queues.  First come nodes that have ready
 * tasks and no worker; then those where most tasks are ready for each worker,
 * if that is much more than where it is; where nothing is to be done, workers
 * are dealt out evenly, so that each node has some that wait.  A node where one
 * waits needs no other: its ready tasks are about to be taken.
 *
 * Where there are fewer workers than nodes with tasks, each that asks leaves
 * its own for one that has none, so all are attended by turns.  One answer in
 * ten is any node that needs a worker, for the leases of a worker that stands
 * still look like work.
 *
 * How soon to ask again goes by the number of workers: together they ask some
 * five times a second, however many they are, and find a new node as soon.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "common/pg_prng.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "cluster/routes.h"
#include "cluster/spread.h"
#include "common/compat.h"

/* Of a hundred answers, how many are any node that needs a worker. */
#define RANDOM_ANSWERS	10

/* How many times more to do for each worker makes it worth a move. */
#define WORTH_A_MOVE	2.0

/* When to ask again: so much for each worker, and at least and most. */
#define ASK_EACH		(USECS_PER_SEC / 5)
#define ASK_LEAST		(2 * USECS_PER_SEC)
#define ASK_MOST		(120 * USECS_PER_SEC)

/* Of fairq_internal.attended_node; the first two also of attendance. */
enum
{
	ATTENDED_QUEUES, ATTENDED_SESSION, ATTENDED_BUT
};

/* Who attends to the queues at a node, without the worker who asks. */
typedef struct Attendance
{
	const ClusterNode *node;
	int64		ready;
	int			workers;
	bool		waits;			/* one of them, for tasks */
} Attendance;

/* What a node has said, in SPI_tuptable. */
static void
note_attendance(Attendance *attendance)
{
	HeapTuple	row = SPI_tuptable->vals[0];
	TupleDesc	desc = SPI_tuptable->tupdesc;
	bool		isnull;
	int			waiting = DatumGetInt32(SPI_getbinval(row, desc, 2, &isnull));
	int			working = DatumGetInt32(SPI_getbinval(row, desc, 3, &isnull));

	attendance->ready = DatumGetInt64(SPI_getbinval(row, desc, 1, &isnull));
	attendance->workers = Max(waiting, working);
	attendance->waits = waiting > 0;
	SPI_freetuptable(SPI_tuptable);
}

/*
 * Ask the nodes, suspects only if no other one has answered, but none of those
 * that the worker does not reach.  Returns how many have answered, in a random
 * order.  *error is of one that has not.
 */
static int
ask_nodes(FunctionCallInfo fcinfo, Attendance *heard, ClusterNode **nodes, int n,
		  ErrorData **error)
{
	ArrayType  *but = PG_ARGISNULL(ATTENDED_BUT) ? NULL : PG_GETARG_ARRAYTYPE_P(ATTENDED_BUT);
	NodeCall	call;
	int			n_heard = 0;

	node_call_other(&call, "attendance", ATTENDED_BUT);
	for (int i = 0; i < ATTENDED_BUT; i++)
		node_call_set(&call, ARGUMENT(i), PG_GETARG_DATUM(i), PG_ARGISNULL(i));
	cluster_nodes_shuffle(nodes, n);
	for (int i = 0; i < n; i++)
	{
		Attendance *attendance = &heard[n_heard];
		ErrorData  *problem;
		NodeAnswer	answer;

		if (but != NULL && spread_names(but, nodes[i]->number))
			continue;
		if (n_heard > 0 && cluster_nodes_suspect(nodes[i]))
			break;
		attendance->node = nodes[i];
		answer = node_call_ask(&call, nodes[i], &problem);
		if (answer == NODE_ANSWERED)
			note_attendance(attendance);
		else if (answer == NODE_REFUSED && problem->sqlerrcode == ERRCODE_UNDEFINED_FUNCTION)
		{
			/* It is of the version before, and may have tasks. */
			attendance->ready = 1;
			attendance->workers = 0;
			attendance->waits = false;
		}
		else
		{
			if (answer == NODE_REFUSED)
				*error = problem;
			continue;
		}
		n_heard++;
	}
	return n_heard;
}

/* Tasks for each worker, with the one who asks. */
static double
pressure(const Attendance *at)
{
	return (double) at->ready / (at->workers + 1);
}

/*
 * The node that needs the worker more than the one where it is, or NULL.
 */
static const Attendance *
needs_more(const Attendance *heard, int n, const Attendance *here)
{
	const Attendance *alone = NULL;
	const Attendance *most = NULL;
	const Attendance *any = NULL;

	for (int i = 0; i < n; i++)
	{
		const Attendance *at = &heard[i];

		if (at == here || at->ready == 0 || at->waits)
			continue;
		any = at;
		if (at->workers == 0)
			alone = at;
		if (most == NULL || pressure(at) > pressure(most))
			most = at;
	}
	if (alone != NULL)
		return alone;
	if (any == NULL || pg_prng_uint64_range(&pg_global_prng_state, 0, 99) < RANDOM_ANSWERS)
		return any;
	if (here != NULL && pressure(most) < WORTH_A_MOVE * pressure(here))
		return NULL;
	return most;
}

/*
 * Where nothing else is to be done: the node with the fewest workers, of those
 * that get tasks if there are any.  Where the worker is, if that is as good.
 */
static const Attendance *
fewest_workers(const Attendance *heard, int n, const Attendance *here)
{
	const Attendance *fewest = here;

	if (here != NULL && here->ready > 0)
		return here;
	for (int i = 0; i < n; i++)
	{
		const Attendance *at = &heard[i];

		if (fewest == NULL || at->node->draining < fewest->node->draining ||
			(at->node->draining == fewest->node->draining && at->workers < fewest->workers))
			fewest = at;
	}
	return fewest;
}

/* The answer, and when to ask again. */
static Datum
answer(FunctionCallInfo fcinfo, const Attendance *heard, int n, const Attendance *best)
{
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false};
	Interval   *again = palloc0(sizeof(Interval));
	int			workers = 1;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	for (int i = 0; i < n; i++)
		workers += heard[i].workers;
	again->time = Min(Max(workers * ASK_EACH, ASK_LEAST), ASK_MOST);
	values[0] = Int32GetDatum(best->node->number);
	values[1] = Int64GetDatum(best->ready);
	values[2] = IntervalPGetDatum(again);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * fairq_internal.attended_node(queues, session, but)
 */
Datum
route_worker_node(FunctionCallInfo fcinfo)
{
	ClusterNode **nodes;
	Attendance *heard;
	const Attendance *here = NULL;
	const Attendance *best;
	ErrorData  *error = NULL;
	MemoryContext caller = CurrentMemoryContext;
	Datum		result;
	int			n;
	int			number = -1;

	SPI_connect();
	n = cluster_nodes(&nodes);
	heard = palloc(n * sizeof(Attendance));
	n = ask_nodes(fcinfo, heard, nodes, n, &error);
	if (n == 0 && error != NULL)
		ReThrowError(error);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("no node is in reach"),
				 errhint("Try again; the view fairq.nodes says what is wrong.")));
	if (!PG_ARGISNULL(ATTENDED_SESSION))
		number = route_node_of_uuid(PG_GETARG_UUID_P(ATTENDED_SESSION));
	for (int i = 0; i < n; i++)
		if (heard[i].node->number == number)
			here = &heard[i];
	best = needs_more(heard, n, here);
	if (best == NULL)
		best = fewest_workers(heard, n, here);
	MemoryContextSwitchTo(caller);
	result = answer(fcinfo, heard, n, best);
	SPI_finish();
	return result;
}
