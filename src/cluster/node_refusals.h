/*-------------------------------------------------------------------------
 *
 * node_refusals.h
 *	  What a node refuses that another one may take.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_REFUSALS_H
#define FAIRQ_NODE_REFUSALS_H

#include "cluster/node_call.h"

extern bool node_refusals_elsewhere(const NodeCall *call, ClusterNode *node,
									const ErrorData *error);
extern uint32 node_refusals_drained(void);

#endif							/* FAIRQ_NODE_REFUSALS_H */
