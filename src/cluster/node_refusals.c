/*-------------------------------------------------------------------------
 *
 * node_refusals.c
 *	  What a node refuses that another one may take.
 *
 * A call that a node has refused has failed there with its transaction, so
 * nothing of it is left.  Two refusals are no fault of the call's.  The node is
 * drained, which this proxy does not know yet: from then on it counts as
 * drained here, until the list is read anew.  And it is out of something, such
 * as room on its disk (class 53), which matters only for what has to be there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cluster/node_call.h"
#include "common/node_number.h"

static uint32 drained = 0;

/*
 * May another node have the call that one has refused?
 */
bool
node_refusals_elsewhere(const NodeCall *call, ClusterNode *node, const ErrorData *error)
{
	if (error->sqlerrcode == ERRCODE_NODE_DRAINED)
	{
		drained += !node->draining;
		cluster_nodes_drained(node);
		return true;
	}
	return call->elsewhere &&
		ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_INSUFFICIENT_RESOURCES;
}

/*
 * How often a node has turned out to be drained.  If it is more than before a
 * call, the nodes that the call may go to are others now.
 */
uint32
node_refusals_drained(void)
{
	return drained;
}
