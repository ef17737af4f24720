/*-------------------------------------------------------------------------
 *
 * transit_horizon.h
 *	  Since when each backend has held tasks that are in no lane and not leased.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TRANSIT_HORIZON_H
#define FAIRQ_TRANSIT_HORIZON_H

#include "datatype/timestamp.h"

extern Size transit_horizon_shmem_size(void);
extern void transit_horizon_shmem_init(void *area, bool found);

extern void transit_horizon_begins(TimestampTz since);
extern void transit_horizon_ends(void);
extern TimestampTz transit_horizon_oldest(void);

#endif							/* FAIRQ_TRANSIT_HORIZON_H */
