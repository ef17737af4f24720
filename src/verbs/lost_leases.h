/*-------------------------------------------------------------------------
 *
 * lost_leases.h
 *	  Leases that end without an answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LOST_LEASES_H
#define FAIRQ_LOST_LEASES_H

#include "storage/queue_catalog.h"

extern int	lost_leases_end(Relation rel, QueueInfo *info, int max);

#endif							/* FAIRQ_LOST_LEASES_H */
