/*-------------------------------------------------------------------------
 *
 * archive_look.h
 *	  Looking into archives.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ARCHIVE_LOOK_H
#define FAIRQ_ARCHIVE_LOOK_H

#include "nodes/execnodes.h"
#include "utils/snapshot.h"

#include "storage/queue_catalog.h"

/* What an archive says of a task; values are copies. */
typedef struct ArchivedTask
{
	Datum		outcome;		/* text */
	Datum		done_at;
	Datum		last_error;
	bool		has_error;
	Datum		result;
	bool		has_result;
} ArchivedTask;

extern void archive_put_rows(ReturnSetInfo *rsinfo, const char *queue, Oid table);
extern bool archive_find(Relation rel, QueueInfo *info, int64 id, Snapshot snapshot,
						 ArchivedTask *task);
extern char *archive_table_to_drop(const char *queue, Oid table);

#endif							/* FAIRQ_ARCHIVE_LOOK_H */
