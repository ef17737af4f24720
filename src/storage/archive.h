/*-------------------------------------------------------------------------
 *
 * archive.h
 *	  Finished tasks that are kept for a while.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ARCHIVE_H
#define FAIRQ_ARCHIVE_H

#include "executor/spi.h"
#include "nodes/execnodes.h"
#include "utils/jsonb.h"
#include "utils/snapshot.h"
#include "utils/tuplestore.h"

#include "common/index_cursor.h"
#include "storage/queue_catalog.h"
#include "storage/row_reader.h"

typedef enum ArchiveOutcome
{
	ARCHIVE_ACKED,
	ARCHIVE_CANCELLED,
	ARCHIVE_DEAD,
	ARCHIVE_EXPIRED
} ArchiveOutcome;

typedef enum ArchiveColumn
{
	DONE_ID,
	DONE_ENQUEUED_AT,
	DONE_CLAIMED_AT,
	DONE_DONE_AT,
	DONE_RUN_AT,
	DONE_PRIORITY,
	DONE_COST,
	DONE_ATTEMPTS,
	DONE_OUTCOME,
	DONE_GROUP_KEY,
	DONE_PAYLOAD,
	DONE_HEADERS,
	DONE_UNIQUE_KEY,
	DONE_LAST_ERROR,
	DONE_RESULT,
	DONE_NAME,
	DONE_LOST,
	DONE_HISTORY,
	DONE_SUBGROUP_KEY
} ArchiveColumn;

#define DONE_COLUMNS	(DONE_SUBGROUP_KEY + 1)

/* An archive of an earlier version may lack what comes after these. */
#define DONE_REQUIRED	(DONE_LAST_ERROR + 1)

/* A set of columns. */
#define DONE_BIT(column)	(UINT32_C(1) << (column))

typedef struct ArchiveDefinition
{
	const char *name;
	const char *definition;
	Oid			type;
	int			from;			/* the column of the queue's table that it is
								 * copied from, or NOT_COPIED */
} ArchiveDefinition;

#define NOT_COPIED	(-1)

extern const ArchiveDefinition archive_columns[DONE_COLUMNS];
extern const char *const archive_outcomes[];

/* Tasks of a queue that are finished and not yet written; zero: none. */
typedef struct ArchiveBatch
{
	Tuplestorestate *rows;
	TupleDesc	tupdesc;
	TimestampTz first_done;
	Jsonb	   *result;			/* of the next task; NULL: none */
	uint32		filled;			/* columns that may be lacking, and have
								 * values */
} ArchiveBatch;

/* What is where in an archive. */
typedef struct ArchiveShape
{
	AttrNumber	columns[DONE_COLUMNS];
	Oid			by_time;		/* the index on (done_at, id) */
	Oid			by_id;			/* InvalidOid: there is none */
} ArchiveShape;

/* What a backend knows about an archive. */
typedef struct Archive
{
	Oid			table;			/* hash key: the queue's table */
	bool		valid;			/* it has been looked at as it is */
	char		name[NAMEDATALEN];
	Oid			relation;
	ArchiveShape shape;
	uint32		optional;		/* columns that it has, of those that it may
								 * lack */
	SPIPlanPtr	insert;			/* NULL: not prepared; good for the name */
	SPIPlanPtr	remove;
} Archive;

/* archive.c */
extern void archive_register(void);
extern Oid	archive_find_table(const char *queue, char *name);
extern Archive *archive_cached(Oid table);
extern const char *archive_look_at(Archive *archive, Relation relation,
								   const char *name, Oid owner);
extern const char *archive_problem(Relation relation, Oid owner,
								   ArchiveShape *found);
extern void archive_bind(Oid relation, Oid table);

extern void archive_add(ArchiveBatch *batch, RowReader *row,
						ArchiveOutcome outcome, TimestampTz claimed_at);
extern void archive_write(ArchiveBatch *batch, Relation rel, QueueInfo *info);

extern const char *archive_add_columns(Oid archive, const char *name, uint32 columns);

/* archive_create.c */
extern void archive_check_name(const char *queue);
extern void archive_provide(const char *queue, Oid table, Oid owner);

/* archive_look.c: looking into archives */
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

/* archive_removal.c: removing old rows from an archive */
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

#endif							/* FAIRQ_ARCHIVE_H */
