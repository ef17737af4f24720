/*-------------------------------------------------------------------------
 *
 * due_cursor.h
 *	  Reading what becomes due, in order, without looking at anything twice.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DUE_CURSOR_H
#define FAIRQ_DUE_CURSOR_H

#include "datatype/timestamp.h"
#include "storage/itemptr.h"
#include "storage/spin.h"

/*
 * A place in an index on times, or other numbers: by time, id (0 if that is not in
 * it) and TID.
 */
typedef struct DuePlace
{
	TimestampTz due;
	int64		id;
	ItemPointerData tid;
} DuePlace;

/* Rows in somebody's hands that are remembered apart. */
#define DUE_SKIPPED		32

typedef struct DueCursor
{
	slock_t		mutex;			/* guards all of it */
	DuePlace	frontier;		/* rows before this are in hand */
	DuePlace	held;			/* ... but for some from here on, which were in
								 * somebody's hands when they were read */
	int			skipped_count;
	DuePlace	skipped[DUE_SKIPPED];	/* in somebody's hands when read */
	DuePlace	limit;			/* what was added meanwhile is from here on */
} DueCursor;

extern void due_cursor_init(DueCursor *cursor);
extern int	due_compare(const DuePlace *a, const DuePlace *b);
extern void due_cursor_add(DueCursor *cursor, TimestampTz due);
extern TimestampTz due_cursor_next(DueCursor *cursor);
extern void due_cursor_begin(DueCursor *cursor, TimestampTz now, DuePlace *from);
extern void due_cursor_end(DueCursor *cursor, const DuePlace *frontier);
extern bool due_cursor_skip(DueCursor *cursor, const DuePlace *place);
extern int	due_cursor_skipped(DueCursor *cursor, DuePlace *places);
extern void due_cursor_done(DueCursor *cursor, const DuePlace *place);
extern void due_cursor_hold(DueCursor *cursor, const DuePlace *place);
extern bool due_cursor_has(DueCursor *cursor, TimestampTz due);
extern bool due_cursor_holds(DueCursor *cursor, TimestampTz now);

#endif							/* FAIRQ_DUE_CURSOR_H */
