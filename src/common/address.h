/*-------------------------------------------------------------------------
 *
 * address.h
 *	  A task's place in the fair order: bucket, class, block and slot.
 *
 * This is the C side of the SQL type fairq.address: plain arithmetic and
 * formats, no locks and no catalogs.
 *
 * The address is what the index of a queue table is ordered by:
 *
 *	bucket		one of the independent parts of the queue
 *	class		the priority class within the bucket, the lower first
 *	block		the start tag, the task's virtual time: a signed whole part and
 *				a fraction in units of 2^-32.  The fraction is always added, so
 *				-0.5 is block -1 with fraction 2^31.
 *	slot		the tie-break between tasks of one block: the group's number
 *
 * A bucket and a class together are a lane.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ADDRESS_H
#define FAIRQ_ADDRESS_H

#include "fmgr.h"

/* Buckets are numbered 0 .. FAIRQ_MAX_BUCKETS - 1, classes likewise. */
#define FAIRQ_MAX_BUCKETS	1024
#define FAIRQ_CLASSES		10

/*
 * The stored form, also on disk.  Fields are in an order that needs no
 * padding: equal addresses are equal bytes, which the hash functions and
 * the deduplication of the B-tree rely on.
 */
typedef struct FairqAddress
{
	int64		block;			/* whole part of the start tag */
	uint64		slot;
	uint32		fraction;		/* fractional part, in units of 2^-32 */
	uint16		bucket;
	uint8		class;
	uint8		unused;			/* always 0 */
} FairqAddress;

StaticAssertDecl(sizeof(FairqAddress) == 24,
				 "fairq.address is declared with 24 bytes");

#define DatumGetFairqAddressP(X)	((FairqAddress *) DatumGetPointer(X))
#define FairqAddressPGetDatum(X)	PointerGetDatum(X)
#define PG_GETARG_FAIRQADDRESS_P(n) DatumGetFairqAddressP(PG_GETARG_DATUM(n))
#define PG_RETURN_FAIRQADDRESS_P(x) return FairqAddressPGetDatum(x)

/*
 * Compare two addresses of one lane: block, fraction, slot.
 */
static inline int
address_compare_in_lane(const FairqAddress *a, const FairqAddress *b)
{
	if (a->block != b->block)
		return (a->block < b->block) ? -1 : 1;
	if (a->fraction != b->fraction)
		return (a->fraction < b->fraction) ? -1 : 1;
	if (a->slot != b->slot)
		return (a->slot < b->slot) ? -1 : 1;
	return 0;
}

/*
 * Compare two addresses: bucket, class, block, fraction, slot.
 */
static inline int
address_compare(const FairqAddress *a, const FairqAddress *b)
{
	if (a->bucket != b->bucket)
		return (a->bucket < b->bucket) ? -1 : 1;
	if (a->class != b->class)
		return (a->class < b->class) ? -1 : 1;
	return address_compare_in_lane(a, b);
}

extern void address_lane_start(FairqAddress *a, int bucket, int class);
extern int	address_bucket_of(int64 block, uint32 fraction, uint64 slot,
							  int buckets);
extern Datum address_block(const FairqAddress *address);
extern bool address_read_block(const char *text, FairqAddress *address);

#endif							/* FAIRQ_ADDRESS_H */
