/*-------------------------------------------------------------------------
 *
 * row_writer.h
 *	  Writing the rows of a queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ROW_WRITER_H
#define FAIRQ_ROW_WRITER_H

#include "storage/queue_catalog.h"

extern int64 row_writer_new_ids(QueueInfo *info, int n, int *got);
extern void row_writer_insert(Relation rel, QueueInfo *info, int n,
							  Datum **values, bool **nulls,
							  ItemPointer tids);
extern bool row_writer_delete(Relation rel, const ItemPointerData *tid,
							  bool wait);
extern bool row_writer_update(Relation rel, QueueInfo *info,
							  ItemPointer tid, Datum *values, bool *nulls,
							  bool wait);

#endif							/* FAIRQ_ROW_WRITER_H */
