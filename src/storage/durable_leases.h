/*-------------------------------------------------------------------------
 *
 * durable_leases.h
 *	  Leases that survive a crash and a failover.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DURABLE_LEASES_H
#define FAIRQ_DURABLE_LEASES_H

#include "access/genam.h"
#include "utils/uuid.h"

#include "shmem/leases.h"
#include "storage/queue_catalog.h"

/*
 * A row stands for a lease of a queue with durable leases, or for one that a
 * clean shutdown has handed over.  A row of no lease does no harm: it is void,
 * or its lease is restored and runs out.
 */

/*
 * The columns of fairq.durable_lease, as sql/install makes them, from 0 on:
 * indexes of arrays of values.  None is NULL.
 */
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

/* How many there are. */
#define DURABLE_COLUMNS	(DURABLE_OF_SESSION + 1)

/*
 * durable_leases.c.  The queue's relation is open and locked, and a
 * transaction is under way, with which what is written comes or goes.  All may
 * fail.  They may wait for the lock of fairq.durable_lease, and the last two
 * for a transaction that has the row in hand.  They hold no lock of ours when
 * they wait.
 */
extern void durable_leases_write(Oid queue, const LeaseInfo *leases, int n);
extern bool durable_leases_busy(Relation rel, QueueInfo *info, const LeaseInfo *lease);
extern bool durable_leases_delete(Relation rel, QueueInfo *info, const LeaseInfo *lease);
extern void durable_leases_extend(Relation rel, QueueInfo *info, const LeaseInfo *lease);

/*
 * durable_restore.c.  The queue's relation is open and locked, and is not read
 * under any lock of ours.  Both may fail; then another backend restores.
 */
extern void durable_leases_restore(Relation rel, QueueInfo *info);
extern void durable_leases_require(Relation rel, QueueInfo *info);

/*
 * durable_table.c.  What is opened is closed by the caller, or its lock kept
 * until the transaction ends.  durable_table_scan wants the table locked; the
 * last two open it themselves, and wait for its lock.  All may fail, and hold
 * no lock of ours.
 */
extern Relation durable_table_open(LOCKMODE lockmode);
extern Relation durable_table_require(LOCKMODE lockmode);
extern SysScanDesc durable_table_scan(Relation table, DurableColumn column,
									  RegProcedure equal, Datum value);
extern Oid	durable_table_queue_of(const pg_uuid_t *receipt);
extern void durable_table_forget_queue(Oid relation);

/* lease_rows.c: all leases, and the rows of their tasks */
extern void lease_rows_check(Relation rel, QueueInfo *info, bool unknown_only);

#endif							/* FAIRQ_DURABLE_LEASES_H */
