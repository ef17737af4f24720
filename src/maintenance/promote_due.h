/*-------------------------------------------------------------------------
 *
 * promote_due.h
 *	  Making scheduled tasks ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PROMOTE_DUE_H
#define FAIRQ_PROMOTE_DUE_H

#include "storage/queue_catalog.h"

extern int	promote_due(Relation rel, QueueInfo *info, TimestampTz now, int max,
						DuePlace *from, TimestampTz *next, bool *more);

#endif							/* FAIRQ_PROMOTE_DUE_H */
