/*-------------------------------------------------------------------------
 *
 * node_table.h
 *	  The number that this database has as a node, what it is to a cluster, and what
 *	  it therefore refuses.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_TABLE_H
#define FAIRQ_NODE_TABLE_H

#define NODE_TABLE		"node"

/* What the node is to the cluster that it is in. */
typedef enum NodeMembership
{
	NODE_ALONE,					/* no proxy has it, as far as it knows */
	NODE_ACTIVE,
	NODE_DRAINING,				/* gets nothing new from proxies, but for
								 * tasks that wait for some of its own */
	NODE_DROPPED				/* gets nothing new from proxies */
} NodeMembership;

typedef struct NodeFacts
{
	int			number;
	NodeMembership membership;
} NodeFacts;

/* node_table.c */
extern int	node_table_read(bool *own);
extern const NodeFacts *node_table_facts(void);
extern Oid	node_table_require_owned(void);
extern void node_table_write(int node);

/* proxy_calls.c: what a node refuses of what comes by a proxy */
extern void proxy_calls_check_number(void);
extern void proxy_calls_check_new(bool waits_here);

#endif							/* FAIRQ_NODE_TABLE_H */
