/*-------------------------------------------------------------------------
 *
 * archive_removal.h
 *	  Removing old rows from an archive.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ARCHIVE_REMOVAL_H
#define FAIRQ_ARCHIVE_REMOVAL_H

#include "common/index_cursor.h"
#include "storage/archive.h"

typedef struct ArchiveRemoval
{
	Relation	relation;
	Archive    *archive;
	IndexCursor *cursor;
	TimestampTz until;			/* rows that were done until then */
	int			max;			/* entries of the index to look at */
	IndexPosition from;			/* from where on; then where to go on */

	/* results */
	int			looked;			/* entries */
	int			removed;		/* rows */
	bool		left;			/* some are left, which others are writing */

	/* private */
	int			n;
	struct ArchiveRow *rows;
	bool		held_back;		/* too many to remember, from held on */
	IndexPosition held;
} ArchiveRemoval;

extern void archive_remove_old(ArchiveRemoval *removal);

#endif							/* FAIRQ_ARCHIVE_REMOVAL_H */
