/*-------------------------------------------------------------------------
 *
 * table_check.h
 *	  What the table of a queue has to be like.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TABLE_CHECK_H
#define FAIRQ_TABLE_CHECK_H

#include "utils/relcache.h"

#include "storage/queue_catalog.h"

extern void table_check(QueueInfo *info, Relation rel);
extern bool table_check_index_is_partial(Relation index);

#endif							/* FAIRQ_TABLE_CHECK_H */
