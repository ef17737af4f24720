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

/* A part of an archive, the latest first. */
typedef struct ArchivePage
{
	/* asked for */
	TimestampTz before;			/* what was done before this time, or then
								 * with an id below the next */
	int64		before_id;
	int			max_rows;		/* so many are looked at */
	int			max_tasks;		/* so many found */
	const text *outcome;		/* NULL: any */
	const text *group;			/* NULL: any */

	/* found; room for max_tasks each */
	int			n;
	Datum	   *times;
	Datum	   *ids;

	/* what was looked at last, unless the archive ended before */
	bool		more;
	TimestampTz last_time;
	int64		last_id;
} ArchivePage;

extern void archive_page(const char *queue, ArchivePage *page);
extern void archive_put_task(ReturnSetInfo *rsinfo, const char *queue, int64 id,
							 TimestampTz done_at);
extern void archive_put_rows(ReturnSetInfo *rsinfo, const char *queue, Oid table);
extern bool archive_find(Relation rel, QueueInfo *info, int64 id, Snapshot snapshot,
						 ArchivedTask *task);
extern char *archive_table_to_drop(const char *queue, Oid table);

#endif							/* FAIRQ_ARCHIVE_LOOK_H */
