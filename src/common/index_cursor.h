/*-------------------------------------------------------------------------
 *
 * index_cursor.h
 *	  Reading what becomes due, in order, without looking at anything twice.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_INDEX_CURSOR_H
#define FAIRQ_INDEX_CURSOR_H

#include "datatype/timestamp.h"
#include "storage/itemptr.h"
#include "storage/spin.h"

/*
 * A place in an index on times, or other numbers: by time, id (0 if that is
 * not in it) and TID.
 */
typedef struct IndexPosition
{
	TimestampTz due;
	int64		id;
	ItemPointerData tid;
} IndexPosition;

/* Rows that another transaction is writing, remembered apart. */
#define INDEX_CURSOR_SKIPPED	32

typedef struct IndexCursor
{
	slock_t		mutex;			/* guards all of it */
	IndexPosition frontier;		/* rows before this are in hand */
	IndexPosition held;			/* ... but for some from here on, which were
								 * being written when they were read */
	TimestampTz held_until;		/* these are not read again before */
	int			skipped_count;
	IndexPosition skipped[INDEX_CURSOR_SKIPPED];	/* being written when read */
	IndexPosition cut_at;		/* what was added meanwhile is from here on */
} IndexCursor;

extern void index_cursor_init(IndexCursor *cursor);
extern int	index_cursor_compare(const IndexPosition *a, const IndexPosition *b);
extern void index_cursor_add(IndexCursor *cursor, TimestampTz due);
extern TimestampTz index_cursor_next(IndexCursor *cursor);
extern void index_cursor_begin(IndexCursor *cursor, TimestampTz now, IndexPosition *from);
extern void index_cursor_end(IndexCursor *cursor, const IndexPosition *frontier);
extern bool index_cursor_skip(IndexCursor *cursor, const IndexPosition *place);
extern int	index_cursor_skipped(IndexCursor *cursor, IndexPosition *places);
extern void index_cursor_done(IndexCursor *cursor, const IndexPosition *place);
extern void index_cursor_hold(IndexCursor *cursor, const IndexPosition *place);
extern void index_cursor_rest(IndexCursor *cursor, TimestampTz until);
extern bool index_cursor_has(IndexCursor *cursor, TimestampTz due);
extern bool index_cursor_holds(IndexCursor *cursor, TimestampTz now);

#endif							/* FAIRQ_INDEX_CURSOR_H */
