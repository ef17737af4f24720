/*-------------------------------------------------------------------------
 *
 * lease_handover.h
 *	  Leases go to the standbys at a clean shutdown.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LEASE_HANDOVER_H
#define FAIRQ_LEASE_HANDOVER_H

extern void lease_handover_begin(void);

#endif							/* FAIRQ_LEASE_HANDOVER_H */
