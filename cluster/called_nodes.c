/*-------------------------------------------------------------------------
 *
 * called_nodes.c
 *	  Which calls of a transaction are in force at nodes already.
 *
 * What a call does at a node stays when the transaction at the proxy, or the
 * subtransaction, is rolled back.  Whoever rolls back is told so, in a WARNING,
 * once in a transaction.  Calls that have done nothing there are not counted: a
 * claim that found no task, or an ack of a lease that was over.
 *
 * Nothing is allocated here: the WARNING is raised while the transaction
 * aborts, and an error in between would have it abort again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "storage/ipc.h"

#include "cluster/node_call.h"

/* So many are named. */
#define CALLS_NAMED		5

typedef struct CalledNode
{
	const NodeFunction *function;
	int			node;
	SubTransactionId subtransaction;
} CalledNode;

static CalledNode calls[CALLS_NAMED];
static int	n_calls = 0;		/* those that have no room in calls are counted */
static SubTransactionId last_subtransaction;	/* that made one of these */
static bool told = false;		/* in this transaction */

/* Say which calls of a subtransaction and those after it are in force. */
static void
tell(SubTransactionId from)
{
	char		names[CALLS_NAMED * (NAMEDATALEN + 32)];
	int			length = 0;
	int			n = 0;

	names[0] = '\0';
	for (int i = 0; i < Min(n_calls, CALLS_NAMED); i++)
	{
		if (calls[i].subtransaction < from)
			continue;
		length += snprintf(names + length, sizeof(names) - length, "%sfairq.%s at node %d",
						   n++ == 0 ? "" : ", ", calls[i].function->name, calls[i].node);
	}
	if (n == 0 && (n_calls <= CALLS_NAMED || last_subtransaction < from))
		return;
	told = true;

	/* A client that is gone is not told, but the log has it. */
	ereport(proc_exit_inprogress ? LOG : WARNING,
			(errmsg("what was called at nodes stays in force, though the transaction is rolled back"),
			 errdetail("In force: %s%s.", names,
					   n_calls <= CALLS_NAMED ? "" : n == 0 ? "more than are named" : " and others"),
			 errhint("A call at a proxy is not a part of its transaction. Call after the commit, or work at a node.")));
}

static void
at_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE ||
		event == XACT_EVENT_PARALLEL_PRE_COMMIT)
		return;
	if (event == XACT_EVENT_ABORT && n_calls > 0 && !told)
		tell(TopSubTransactionId);
	n_calls = 0;
	told = false;
}

/* Numbers of subtransactions grow: those inside of one come after it. */
static void
at_subtransaction_end(SubXactEvent event, SubTransactionId own, SubTransactionId parent,
					  void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && n_calls > 0 && !told)
		tell(own);
}

/* Has the answer of a node something in it? */
static bool
has_effect(const NodeCall *call)
{
	bool		isnull;
	Datum		value;

	if (SPI_processed == 0)
		return false;
	if (call->function->returns_set)
		return true;
	value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	return !isnull && (SPI_gettypeid(SPI_tuptable->tupdesc, 1) != BOOLOID || DatumGetBool(value));
}

/*
 * A node has answered a call that changes something.
 */
void
called_nodes_note(const NodeCall *call, const ClusterNode *node)
{
	static bool registered = false;

	if (told || !has_effect(call))
		return;
	if (!registered)
	{
		RegisterXactCallback(at_end, NULL);
		RegisterSubXactCallback(at_subtransaction_end, NULL);
		registered = true;
	}
	last_subtransaction = GetCurrentSubTransactionId();
	if (n_calls < CALLS_NAMED)
	{
		calls[n_calls].function = call->function;
		calls[n_calls].node = node->number;
		calls[n_calls].subtransaction = last_subtransaction;
	}
	n_calls++;
}

/* Where the calls are that come from now on. */
int
called_nodes_mark(void)
{
	return n_calls;
}

/* The calls since a mark need not be told: an error says what was done. */
void
called_nodes_forget(int mark)
{
	n_calls = mark;
}
