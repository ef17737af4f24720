/*-------------------------------------------------------------------------
 *
 * pending_leases.h
 *	  Pending actions about leases that begin or end.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_LEASES_H
#define FAIRQ_PENDING_LEASES_H

#include "shmem/lanes.h"
#include "shmem/leases.h"

extern int	pending_claimed(const LeaseInfo *lease, Lane *lane, const LaneEntry *entry);
extern void pending_not_claimed(int claimed);
extern void pending_vain(const LeaseInfo *lease);
extern int	pending_settled(const LeaseInfo *lease);
extern void pending_released(int settled, Lane *lane, const FairqAddress *address,
							 int64 task);
extern bool pending_settled_ends(int queue, int64 task, int outcome);
extern void pending_not_settled(int settled);

#endif							/* FAIRQ_PENDING_LEASES_H */
