/*-------------------------------------------------------------------------
 *
 * lease_file.h
 *	  Leases and sessions across a restart.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LEASE_FILE_H
#define FAIRQ_LEASE_FILE_H

extern void lease_file_startup(void);

#endif							/* FAIRQ_LEASE_FILE_H */
