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

#include "port/pg_bswap.h"
#include "utils/elog.h"
#include "utils/uuid.h"

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

/* A token in the second half has 62 bits; the variant takes the other two. */
#define NODE_TOKEN_MASK			((UINT64CONST(1) << 62) - 1)

/*
 * A uuid of ours, of version 8 (RFC 9562: custom): its first half with the
 * number of the node but without the version, and its token.
 */
static inline void
node_make_uuid(uint64 high, uint64 token, pg_uuid_t *uuid)
{
	high = pg_hton64(high | (8 << 12));
	token = pg_hton64(token | (UINT64CONST(2) << 62));
	memcpy(&uuid->data[0], &high, 8);
	memcpy(&uuid->data[8], &token, 8);
}

/*
 * The parts of a uuid: its first half with all bits, and the token.  Returns
 * false if it cannot be one of ours: it has another version or variant, or
 * token 0.  The two are set in any case.
 */
static inline bool
node_split_uuid(const pg_uuid_t *uuid, uint64 *high, uint64 *token)
{
	memcpy(high, &uuid->data[0], 8);
	memcpy(token, &uuid->data[8], 8);
	*high = pg_ntoh64(*high);
	*token = pg_ntoh64(*token) & NODE_TOKEN_MASK;
	return NODE_GAVE_UUID(uuid->data) && *token != 0;
}

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
