/*-------------------------------------------------------------------------
 *
 * node_admin.h
 *	  Giving this database its number as a node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_ADMIN_H
#define FAIRQ_NODE_ADMIN_H

extern void node_admin_set(int node, bool force);

#endif							/* FAIRQ_NODE_ADMIN_H */
