/*-------------------------------------------------------------------------
 *
 * archive_expiry.h
 *	  When old rows are removed from archives.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ARCHIVE_EXPIRY_H
#define FAIRQ_ARCHIVE_EXPIRY_H

#include "storage/archive.h"
#include "verbs/pass.h"

/* Passes of one transaction over an archive, which go on from each other. */
typedef struct ArchivePass
{
	bool		begun;
	IndexPosition from;
} ArchivePass;

extern int	archive_expire(Pass *pass, ArchivePass *at);

#endif							/* FAIRQ_ARCHIVE_EXPIRY_H */
