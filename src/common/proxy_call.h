/*-------------------------------------------------------------------------
 *
 * proxy_call.h
 *	  What a proxy and a node say to each other about whom a call is for.
 *
 * A proxy's connection to a node has a name that ends with the number of the
 * node that is meant (sql/cluster/10_nodes.sql): PL/Proxy has no other way that
 * costs a call nothing, and poolers keep it.  A node that gets nothing new
 * refuses with an SQLSTATE of our own, at which a proxy takes another node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PROXY_CALL_H
#define FAIRQ_PROXY_CALL_H

#include "utils/elog.h"

#define PROXY_CALL_NAME			"pgfairq proxy, node "
#define PROXY_CALL_NAME_LENGTH	(sizeof(PROXY_CALL_NAME) - 1)

#define ERRCODE_NODE_DRAINED	MAKE_SQLSTATE('F', 'Q', '0', '0', '2')

#endif							/* FAIRQ_PROXY_CALL_H */
