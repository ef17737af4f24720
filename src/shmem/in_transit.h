/*-------------------------------------------------------------------------
 *
 * in_transit.h
 *	  Since when each backend has held tasks that are in no lane and not leased.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_IN_TRANSIT_H
#define FAIRQ_IN_TRANSIT_H

#include "datatype/timestamp.h"

extern Size in_transit_shmem_size(void);
extern void in_transit_shmem_init(void *area, bool found);

extern void in_transit_begins(TimestampTz since);
extern void in_transit_ends(void);
extern TimestampTz in_transit_oldest(void);

#endif							/* FAIRQ_IN_TRANSIT_H */
