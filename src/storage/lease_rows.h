/*-------------------------------------------------------------------------
 *
 * lease_rows.h
 *	  Leases, and the rows of their tasks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LEASE_ROWS_H
#define FAIRQ_LEASE_ROWS_H

#include "storage/queue_catalog.h"

extern void lease_rows_check(Relation rel, QueueInfo *info, bool unknown_only);

#endif							/* FAIRQ_LEASE_ROWS_H */
