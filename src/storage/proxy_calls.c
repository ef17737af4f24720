/*-------------------------------------------------------------------------
 *
 * proxy_calls.c
 *	  What a node refuses of what comes by a proxy.
 *
 * A proxy may be wrong about a node: its list may be an old one, as that of a
 * hot standby that lags, and the node's number may have changed since it has
 * connected.  So the node looks at what the call says, the name of its
 * connection, and at its own row in fairq_internal.node, of which a backend
 * keeps a copy.  Who works at the node itself says nothing and is not asked.
 *
 * Whether it gets new tasks is looked at when the queue's table is locked:
 * then the backend has heard of all that was committed before it got the lock.
 * Who has drained the node waits for those that had the lock before
 * (fairq_internal.proxy_calls), so no task comes after that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"

#include "common/node_number.h"
#include "storage/node_table.h"

/* Is the call made by a proxy? */
static inline bool
by_proxy(void)
{
	return application_name != NULL &&
		strncmp(application_name, PROXY_CALL_NAME, PROXY_CALL_NAME_LENGTH) == 0;
}

/*
 * Refuse a call that is meant for a node of another number.
 */
void
proxy_calls_check_number(void)
{
	int			meant;

	if (likely(!by_proxy()))
		return;
	meant = atoi(application_name + PROXY_CALL_NAME_LENGTH);
	if (likely(meant == node_table_facts()->number))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("this is node %d, and a proxy takes it for node %d",
					node_table_facts()->number, meant),
			 errhint("Correct the connection in table fairq.node of the proxy, or the number here with fairq.set_node().")));
}

/*
 * Refuse what is new if a proxy should not have brought it.  waits_here: it
 * waits for tasks of this node.  The caller has locked the table of the queue,
 * if it is a task.
 */
void
proxy_calls_check_new(bool waits_here)
{
	const NodeFacts *facts;

	if (likely(!by_proxy()))
		return;
	facts = node_table_facts();
	if (likely(facts->membership < NODE_DRAINING) ||
		(facts->membership == NODE_DRAINING && waits_here))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_NODE_DRAINED),
			 errmsg("node %d gets nothing new from proxies: it is %s", facts->number,
					facts->membership == NODE_DRAINING ? "being drained" : "not of the cluster any more"),
			 errdetail("The list of nodes of the proxy is an old one."),
			 errhint("Try again when the proxy's server has caught up with its primary.")));
}
