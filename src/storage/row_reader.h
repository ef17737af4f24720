/*-------------------------------------------------------------------------
 *
 * row_reader.h
 *	  Reading and writing the rows of a queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ROW_READER_H
#define FAIRQ_ROW_READER_H

#include "access/genam.h"
#include "access/htup.h"
#include "storage/buf.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"
#include "utils/timestamp.h"

#include "common/address.h"
#include "common/compat.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "storage/queue_catalog.h"

typedef enum RowStatus
{
	ROW_LIVE,					/* committed, and not being changed */
	ROW_GONE,					/* not there (any more) */
	ROW_IN_PROGRESS,			/* being inserted, changed or deleted by
								 * another backend */
	ROW_IN_DOUBT,				/* in progress in a prepared transaction */
	ROW_OWN						/* written by this transaction; it is read,
								 * but not locked */
} RowStatus;

/*
 * Reads rows, one after the other.  What was read is good until the next read
 * or row_reader_end: it points into the page, which is pinned.
 */
typedef struct RowReader
{
	Relation	rel;
	QueueInfo  *info;
	Buffer		buffer;
	bool		locked;
	BlockNumber blocks;			/* the table has at least so many */
	HeapTupleData tuple;		/* tuple.t_self: where it is */
	TransactionId in_progress;	/* with ROW_IN_PROGRESS or ROW_IN_DOUBT: by
								 * whom */
	bool		deleting;		/* and the row is there now; it is read */
	bool		own;			/* with ROW_LIVE or ROW_OWN: this transaction
								 * has written it */
	bool		brief;			/* no more is asked for than id, state and name,
								 * and the unique key if there is one: the
								 * caller's to set */
	bool		partial;		/* no more of the row that was read is in
								 * values and nulls */
	Datum	   *values;			/* by attribute number - 1 */
	bool	   *nulls;
	FairqAddress place;			/* of a task that has one in memory only */
	IndexScanDesc overflow;		/* of queue_index_overflow(), or NULL */
} RowReader;

#define row_value(reader, column) \
	((reader)->values[(reader)->info->columns[column] - 1])
#define row_is_null(reader, column) \
	((reader)->nulls[(reader)->info->columns[column] - 1])

/* Are two texts the same: keys of groups, or names? */
static inline bool
row_reader_same_text(const text *a, const text *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/* What the task whose row was read counts for. */
static inline GroupName
row_reader_group(RowReader *reader)
{
	return queue_catalog_group(reader->info, DatumGetTextPP(row_value(reader, COLUMN_GROUP_KEY)),
							   row_is_null(reader, COLUMN_SUBGROUP_KEY) ? NULL :
							   DatumGetTextPP(row_value(reader, COLUMN_SUBGROUP_KEY)));
}

/* Has the task whose row was read an expires_at that has come by now? */
static inline bool
row_reader_has_expired(RowReader *reader)
{
	return !row_is_null(reader, COLUMN_EXPIRES_AT) &&
		DatumGetTimestampTz(row_value(reader, COLUMN_EXPIRES_AT)) <= GetCurrentTimestamp();
}

/* How often the task whose row was read was lost. */
static inline int
row_reader_lost(RowReader *reader)
{
	if (likely(row_is_null(reader, COLUMN_LOST)))
		return 0;
	return Max(DatumGetInt32(row_value(reader, COLUMN_LOST)), 0);
}

/* Which run of the task the next one is, from 1. */
static inline int
row_reader_attempt(RowReader *reader)
{
	int64		ended = (int64) DatumGetInt32(row_value(reader, COLUMN_ATTEMPTS)) +
		row_reader_lost(reader);

	return (int) Min(ended, PG_INT32_MAX - 1) + 1;
}

/* Is it a suspect: to be leased alone? */
static inline bool
row_reader_is_suspect(RowReader *reader)
{
	return row_reader_lost(reader) >= SUSPECT_LOSSES;
}

/* row_reader.c */
extern void row_reader_begin(RowReader *reader, Relation rel, QueueInfo *info);
extern void row_reader_fetch(RowReader *reader, const ItemPointerData *tids, Size apart, int n);
extern void row_reader_take(RowReader *reader, HeapTuple tuple);
extern void row_reader_unlock(RowReader *reader);
extern RowStatus row_reader_read(RowReader *reader, const ItemPointerData *tid);
extern RowStatus row_reader_task(RowReader *reader, int64 id,
								 const ItemPointerData *hint);

/* The lease that the task of the row that was read has; false: it has none. */
static inline bool
row_reader_lease(RowReader *reader, LeaseInfo *lease)
{
	return leases_find(queue_state_number(reader->info->state),
					   DatumGetInt64(row_value(reader, COLUMN_ID)), lease);
}

/* Was the row read where a hint says? */
static inline bool
row_reader_is_where(RowReader *reader, const ItemPointerData *hint)
{
	return memcmp(hint, &reader->tuple.t_self, sizeof(ItemPointerData)) == 0;
}

extern bool row_reader_wait_writer(HeapTuple tuple, bool wait);
extern bool row_reader_task_wait(RowReader *reader, int64 id,
								 const ItemPointerData *hint);
extern void row_reader_complete(RowReader *reader);
extern RowStatus row_reader_lock_task(RowReader *reader, int64 id,
									  ItemPointer seen);
extern RowStatus row_reader_entry(RowReader *reader, LaneEntry *entry);
extern bool row_reader_is_at(RowReader *reader, const Lane *lane,
							 const LaneEntry *entry);
extern bool row_reader_is_placed(RowReader *reader);
extern int	row_reader_class(RowReader *reader);
extern QueueCounter row_reader_depth(RowReader *reader);
extern void row_reader_end(RowReader *reader);

/* row_writer.c */
extern int64 row_writer_new_ids(QueueInfo *info, int n, int *got);
extern void row_writer_insert(Relation rel, QueueInfo *info, int n,
							  Datum **values, bool **nulls,
							  ItemPointer tids);
extern bool row_writer_delete(RowReader *row, bool wait);
extern bool row_writer_update(RowReader *row, bool wait);

/* page_hints.c: where pages of queues were seen in shared buffers */
extern Size page_hints_shmem_size(void);
extern void page_hints_shmem_init(void *area, bool found);
extern FAIRQ_PRIVATE Buffer page_hints_read(Relation rel, BlockNumber block);
extern FAIRQ_PRIVATE void page_hints_fetch_page(Relation rel, const ItemPointerData *tid);
extern FAIRQ_PRIVATE void page_hints_fetch_row(Relation rel, const ItemPointerData *tid);

#endif							/* FAIRQ_ROW_READER_H */
