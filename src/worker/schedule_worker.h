/*-------------------------------------------------------------------------
 *
 * schedule_worker.h
 *	  The worker's part in schedules.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SCHEDULE_WORKER_H
#define FAIRQ_SCHEDULE_WORKER_H

#include "datatype/timestamp.h"

extern void schedule_worker_begin(void);
extern TimestampTz schedule_worker_run(int slot);

#endif							/* FAIRQ_SCHEDULE_WORKER_H */
