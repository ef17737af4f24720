/*-------------------------------------------------------------------------
 *
 * cluster_nodes.h
 *	  The nodes of the cluster, as a backend of a proxy knows them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CLUSTER_NODES_H
#define FAIRQ_CLUSTER_NODES_H

#include "datatype/timestamp.h"

/* A node.  PL/Proxy's connection to it is known by its place. */
typedef struct ClusterNode
{
	int			number;
	int			place;
	bool		draining;		/* gets no new tasks */
	bool		recognized;		/* said its number on this connection */
	bool		had_turn;		/* has begun a claim, see route_claim.c */
	TimestampTz suspect_until;	/* was out of reach: asked last until then */
} ClusterNode;

extern int	cluster_nodes(ClusterNode ***nodes);
extern ClusterNode *cluster_nodes_find(int number);
extern bool cluster_nodes_suspect(const ClusterNode *node);
extern void cluster_nodes_lost(ClusterNode *node);
extern void cluster_nodes_shuffle(ClusterNode **nodes, int n);

#endif							/* FAIRQ_CLUSTER_NODES_H */
