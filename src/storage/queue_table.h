/*-------------------------------------------------------------------------
 *
 * queue_table.h
 *	  What the table of a queue has to be like.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_TABLE_H
#define FAIRQ_QUEUE_TABLE_H

#include "utils/relcache.h"

#include "storage/queue_catalog.h"

extern void queue_table_examine(QueueInfo *info, Relation rel);
extern bool queue_table_index_is_partial(Relation index);

#endif							/* FAIRQ_QUEUE_TABLE_H */
