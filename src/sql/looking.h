/*-------------------------------------------------------------------------
 *
 * looking.h
 *	  What those who look at queues share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LOOKING_H
#define FAIRQ_LOOKING_H

#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "shmem/queue_state.h"
#include "storage/queue_catalog.h"

extern bool looking_oldest_ready(Relation rel, QueueInfo *info,
								 TimestampTz *oldest);
extern List *looking_visible_queues(void);
extern QueueInfo *looking_open(Oid relation, Relation *rel);

#endif							/* FAIRQ_LOOKING_H */
