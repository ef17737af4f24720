/*-------------------------------------------------------------------------
 *
 * node_table.h
 *	  The number that this database has as a node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_TABLE_H
#define FAIRQ_NODE_TABLE_H

#define NODE_TABLE		"node"

extern int	node_table_read(bool *own);
extern Oid	node_table_require_owned(void);
extern void node_table_write(int node);

#endif							/* FAIRQ_NODE_TABLE_H */
