/*-------------------------------------------------------------------------
 *
 * queue_passes.h
 *	  The worker's passes over the queues, and what is set aside of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_PASSES_H
#define FAIRQ_QUEUE_PASSES_H

#include "datatype/timestamp.h"

extern void queue_passes_begin(void);
extern TimestampTz queue_passes_run(Oid relation);
extern void queue_passes_retry(void);

#endif							/* FAIRQ_QUEUE_PASSES_H */
