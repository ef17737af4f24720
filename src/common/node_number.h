/*-------------------------------------------------------------------------
 *
 * node_number.h
 *	  Where the number of a node is in ids, receipts and sessions.
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

#endif							/* FAIRQ_NODE_NUMBER_H */
