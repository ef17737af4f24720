/*-------------------------------------------------------------------------
 *
 * row_scan.h
 *	  Reading all rows of a queue, as a snapshot has them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ROW_SCAN_H
#define FAIRQ_ROW_SCAN_H

#include "access/tableam.h"

#include "storage/queue_catalog.h"

/* A scan under way.  Its rows are good until the next one. */
typedef struct RowScan
{
	Relation	rel;
	QueueInfo  *info;
	Snapshot	snapshot;
	TableScanDesc scan;
} RowScan;

extern void row_scan_begin(RowScan *scan, Relation rel, QueueInfo *info);
extern HeapTuple row_scan_next(RowScan *scan);
extern void row_scan_end(RowScan *scan);
extern HeapTuple row_scan_task_at(Relation rel, QueueInfo *info, int64 id,
								  Snapshot snapshot);
extern HeapTuple row_scan_task(Relation rel, QueueInfo *info, int64 id);
extern int64 row_scan_id(RowScan *scan, HeapTuple tuple);

#endif							/* FAIRQ_ROW_SCAN_H */
