/*-------------------------------------------------------------------------
 *
 * durable_table.h
 *	  The table of durable leases, as the files see it that read and write it:
 *	  durable_leases.c and durable_restore.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DURABLE_TABLE_H
#define FAIRQ_DURABLE_TABLE_H

#include "access/htup_details.h"
#include "access/tableam.h"
#include "utils/uuid.h"

#include "common/compat.h"
#include "storage/queue_catalog.h"

/* The columns of fairq.durable_lease, as sql/install makes them. */
typedef enum DurableColumn
{
	DURABLE_QUEUE,
	DURABLE_ATTEMPT,
	DURABLE_TASK,
	DURABLE_LEASE_UNTIL,
	DURABLE_CLAIMED_AT,
	DURABLE_RECEIPT,
	DURABLE_OF_SESSION
} DurableColumn;

#define DURABLE_COLUMNS	(DURABLE_OF_SESSION + 1)

extern Relation durable_table_open(LOCKMODE lockmode);
extern Relation durable_table_require(LOCKMODE lockmode);
extern TableScanDesc durable_table_scan(Relation table);
extern Oid	durable_table_queue_of(const pg_uuid_t *receipt);
extern void durable_table_forget_queue(Oid relation);

static inline Oid
row_queue(HeapTuple tuple, TupleDesc tupdesc)
{
	bool		isnull;

	return DatumGetObjectId(heap_getattr(tuple, DURABLE_QUEUE + 1, tupdesc, &isnull));
}

static inline int64
row_task(HeapTuple tuple, TupleDesc tupdesc)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(tuple, DURABLE_TASK + 1, tupdesc, &isnull));
}

#endif							/* FAIRQ_DURABLE_TABLE_H */
