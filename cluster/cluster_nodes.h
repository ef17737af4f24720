/*-------------------------------------------------------------------------
 *
 * cluster_nodes.h
 *	  The nodes of the cluster, as a backend of a proxy knows them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CLUSTER_NODES_H
#define FAIRQ_CLUSTER_NODES_H

/* A node.  PL/Proxy's connection to it is known by its place. */
typedef struct ClusterNode
{
	int			number;
	int			place;
	bool		draining;		/* gets no new tasks */
	bool		refused;		/* has said so itself, since the list was read */
	bool		recognized;		/* said its number on this connection */
	bool		had_turn;		/* has begun a claim, see route_claim.c */
	int			hosts;			/* that its connection names */
	int			server;			/* its number in node_health.c; -1: none */

	/* Times are of wall_clock_real. */
	int64		lost_at;		/* when a call began that was lost; 0: it has
								 * answered since */
	int			losses;			/* calls in a row that were lost, up to a few */
	int64		suspect_until;	/* asked last until then */
	int64		closed_until;	/* not asked at all until then */
	int			trial;			/* milliseconds that connecting may take; 0:
								 * as long as it needs */
} ClusterNode;

/* The setting pgfairq.node_timeout, in milliseconds; 0: no limit. */
extern int	cluster_nodes_timeout;

/*
 * How often a node has turned out to be drained.  If it is more than before a
 * call, the nodes that the call may go to are others now.
 */
extern uint32 cluster_nodes_refusals;

extern int	cluster_nodes(ClusterNode ***nodes);
extern void cluster_nodes_drained(ClusterNode *node);
extern ClusterNode *cluster_nodes_find(int number);
extern bool cluster_nodes_suspect(const ClusterNode *node);
extern bool cluster_nodes_closed(ClusterNode *node);
extern int	cluster_nodes_patience(const ClusterNode *node);
extern void cluster_nodes_lost(ClusterNode *node, int64 usecs, bool connecting);
extern void cluster_nodes_connected(ClusterNode *node);
extern void cluster_nodes_answered(ClusterNode *node);
extern void cluster_nodes_shuffle(ClusterNode **nodes, int n);

/* connection_words.c */
extern char *connection_words_address(const char *connection, int *hosts);

#endif							/* FAIRQ_CLUSTER_NODES_H */
