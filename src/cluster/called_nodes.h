/*-------------------------------------------------------------------------
 *
 * called_nodes.h
 *	  Which calls of a transaction are in force at nodes already.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CALLED_NODES_H
#define FAIRQ_CALLED_NODES_H

#include "cluster/node_call.h"

extern void called_nodes_note(const NodeCall *call, const ClusterNode *node);
extern int	called_nodes_mark(void);
extern void called_nodes_forget(int mark);

#endif							/* FAIRQ_CALLED_NODES_H */
