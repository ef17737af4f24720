/*-------------------------------------------------------------------------
 *
 * sweep.h
 *	  Looking for tasks that were not handed over.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SWEEP_H
#define FAIRQ_SWEEP_H

#include "storage/queue_catalog.h"

extern bool sweep_pass(Relation rel, QueueInfo *info, TimestampTz now, bool by_hand,
					   bool first, TimestampTz *next);
extern bool sweep_is_due(QueueInfo *info, TimestampTz now);

#endif							/* FAIRQ_SWEEP_H */
