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
#include "utils/tuplestore.h"

#include "storage/queue_catalog.h"
#include "storage/row_reader.h"

typedef enum ArchiveOutcome
{
	ARCHIVE_ACKED,
	ARCHIVE_CANCELLED,
	ARCHIVE_DEAD,
	ARCHIVE_EXPIRED
} ArchiveOutcome;

/* Tasks of a queue that are finished and not yet written; zero: none. */
typedef struct ArchiveBatch
{
	Tuplestorestate *rows;
	TupleDesc	tupdesc;
	TimestampTz first_done;
} ArchiveBatch;

/* What a backend knows about an archive. */
typedef struct Archive
{
	Oid			table;			/* hash key: the queue's table */
	bool		valid;			/* it has been looked at as it is */
	char		name[NAMEDATALEN];
	Oid			relation;
	Oid			index;			/* on (done_at, id) */
	AttrNumber	done_at;
	AttrNumber	id;
	SPIPlanPtr	insert;			/* NULL: not prepared; good for the name */
	SPIPlanPtr	remove;
} Archive;

extern void archive_register(void);
extern void archive_name(const char *queue, char *result);
extern Archive *archive_cached(Oid table);
extern const char *archive_look_at(Archive *archive, Relation relation,
								   const char *name, Oid owner);
extern void archive_bind(Oid relation, Oid table);
extern SPIPlanPtr archive_prepare(const char *sql, int nargs, Oid *types);

extern void archive_add(ArchiveBatch *batch, RowReader *row,
						ArchiveOutcome outcome, int attempts,
						TimestampTz claimed_at);
extern void archive_write(ArchiveBatch *batch, Relation rel, QueueInfo *info);

extern void archive_check_name(const char *queue);
extern void archive_provide(const char *queue, Oid table, Oid owner);
extern char *archive_table_to_drop(const char *queue, Oid table);
extern void archive_put_rows(ReturnSetInfo *rsinfo, const char *queue, Oid table);

#endif							/* FAIRQ_ARCHIVE_H */
