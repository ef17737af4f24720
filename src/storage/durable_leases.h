/*-------------------------------------------------------------------------
 *
 * durable_leases.h
 *	  Leases that survive a crash and a failover.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DURABLE_LEASES_H
#define FAIRQ_DURABLE_LEASES_H

#include "shmem/leases.h"
#include "storage/queue_catalog.h"

/* durable_leases.c */
extern void durable_leases_write(Oid queue, const LeaseInfo *leases, int n);
extern bool durable_leases_busy(Relation rel, QueueInfo *info, const LeaseInfo *lease);
extern void durable_leases_delete(Relation rel, QueueInfo *info, const LeaseInfo *lease);
extern void durable_leases_extend(Relation rel, QueueInfo *info, const LeaseInfo *lease);

/* durable_restore.c */
extern void durable_leases_restore(Relation rel, QueueInfo *info);
extern void durable_leases_require(Relation rel, QueueInfo *info);

/* lease_rows.c: all leases, and the rows of their tasks */
extern void lease_rows_check(Relation rel, QueueInfo *info, bool unknown_only);

#endif							/* FAIRQ_DURABLE_LEASES_H */
