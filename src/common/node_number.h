/*-------------------------------------------------------------------------
 *
 * node_number.h
 *	  Where the number of a node is in ids, receipts and sessions, and in the name
 *	  of a proxy's connection.
 *
 * A queue may be spread over several servers, its nodes.  Each has a number,
 * 0 if it was given none, and what it gives out says which it is: ids of tasks
 * are node * 2^48 and more, and the second group of digits of a receipt or of
 * a session is the node's number.  So whoever holds one of them knows where to
 * go with it.  That is all that the number is for: a receipt is known by its
 * other bits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_NUMBER_H
#define FAIRQ_NODE_NUMBER_H

#include "utils/elog.h"

/* Numbers are from 0 to this one: ids stay above 0. */
#define NODE_MAX		32767

#define NODE_ID_SHIFT	48

/* The lowest id of a node. */
#define NODE_FIRST_ID(node)		(((int64) (node) << NODE_ID_SHIFT) | 1)
#define NODE_OF_ID(id)			((int) ((id) >> NODE_ID_SHIFT))

/* In the first half of a uuid. */
#define NODE_UUID_SHIFT	16
#define NODE_UUID_MASK	(UINT64CONST(0xFFFF) << NODE_UUID_SHIFT)

/* In its bytes.  Those that are ours are of version 8. */
#define NODE_GAVE_UUID(bytes)	(((bytes)[6] >> 4) == 8 && ((bytes)[8] >> 6) == 2)
#define NODE_OF_UUID(bytes)		(((bytes)[4] << 8) | (bytes)[5])

/*
 * What a proxy and a node say to each other about whom a call is for.  A
 * proxy's connection to a node has a name that ends with the number of the
 * node that is meant (sql/cluster/10_nodes.sql): PL/Proxy has no other way that
 * costs a call nothing, and poolers keep it.  A node that gets nothing new
 * refuses with an SQLSTATE of our own, at which a proxy takes another node.
 */
#define PROXY_CALL_NAME			"pgfairq proxy, node "
#define PROXY_CALL_NAME_LENGTH	(sizeof(PROXY_CALL_NAME) - 1)

#define ERRCODE_NODE_DRAINED	MAKE_SQLSTATE('F', 'Q', '0', '0', '2')

#endif							/* FAIRQ_NODE_NUMBER_H */
