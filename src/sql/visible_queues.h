/*-------------------------------------------------------------------------
 *
 * visible_queues.h
 *	  Which queues the caller may see, and opening them for a look.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_VISIBLE_QUEUES_H
#define FAIRQ_VISIBLE_QUEUES_H

#include "nodes/pg_list.h"

#include "storage/queue_catalog.h"

extern bool visible_queues_may_see(Oid relation);
extern List *visible_queues_list(void);
extern QueueInfo *visible_queues_open(Oid relation, Relation *rel);

#endif							/* FAIRQ_VISIBLE_QUEUES_H */
