/*-------------------------------------------------------------------------
 *
 * maintain.h
 *	  One bounded pass of what time does to a queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_MAINTAIN_H
#define FAIRQ_MAINTAIN_H

#include "queue_catalog.h"

extern bool maintain_pass(Relation rel, QueueInfo *info, int64 *moved,
						  TimestampTz *next);
extern bool maintain_is_due(QueueInfo *info);
extern TimestampTz maintain_next_lease(void);

#endif							/* FAIRQ_MAINTAIN_H */
