/*-------------------------------------------------------------------------
 *
 * row_scan.h
 *	  Reading all rows of a queue, or those from an id on, as a snapshot has them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ROW_SCAN_H
#define FAIRQ_ROW_SCAN_H

#include "access/genam.h"

#include "storage/queue_catalog.h"
#include "storage/queue_index.h"

/* A scan under way.  Its rows are good until the next one. */
typedef struct RowScan
{
	Relation	rel;
	QueueInfo  *info;
	Snapshot	snapshot;
	Relation	index;			/* NULL: of all rows, in no order */
	SysScanDesc scan;
} RowScan;

extern void row_scan_begin(RowScan *scan, Relation rel, QueueInfo *info);
extern void row_scan_begin_after(RowScan *scan, Relation rel, QueueInfo *info, int64 id);
extern HeapTuple row_scan_next(RowScan *scan);
extern void row_scan_end(RowScan *scan);
extern HeapTuple row_scan_task_at(Relation rel, QueueInfo *info, int64 id,
								  Snapshot snapshot);
extern HeapTuple row_scan_task(Relation rel, QueueInfo *info, int64 id);
extern int	row_scan_of_key(Relation rel, QueueInfo *info, const text *key, int max,
							KeyRow *rows);
extern int64 row_scan_id(RowScan *scan, HeapTuple tuple);

#endif							/* FAIRQ_ROW_SCAN_H */
