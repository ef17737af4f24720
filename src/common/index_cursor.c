/*-------------------------------------------------------------------------
 *
 * index_cursor.c
 *	  Reading what becomes due, in order, without looking at anything twice.
 *
 * What waits for a time is found through an index on that time, which is read
 * from a frontier on, as lanes are: entries of rows that were due long ago may
 * stay in the index for as long as some snapshot needs them.  Scheduled tasks
 * have such a cursor, and finished ones in the archive.
 *
 * Rows that another transaction is writing when they are read are not waited
 * for.  They are remembered apart; if there are too many, all is read again
 * from the first of those on, once everything that is due has been read, and
 * not before a time that the reader may set.
 *
 * The frontier moves when the transaction that has dealt with the rows before
 * it commits (pending.c).  A transaction that adds a row lowers it at its
 * commit; cut_at keeps a reader that has read past such a row meanwhile from
 * raising it again.
 *
 * Locking: the mutex of the cursor.  Who reads has the maintenance lock of the
 * queue, so there is one at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/index_cursor.h"

/*
 * Nothing has been read yet.
 */
void
index_cursor_init(IndexCursor *cursor)
{
	memset(cursor, 0, sizeof(IndexCursor));
	SpinLockInit(&cursor->mutex);
	cursor->frontier.due = DT_NOBEGIN;
	cursor->held.due = DT_NOEND;
	cursor->cut_at.due = DT_NOEND;
}

int
index_cursor_compare(const IndexPosition *a, const IndexPosition *b)
{
	if (a->due != b->due)
		return (a->due < b->due) ? -1 : 1;
	if (a->id != b->id)
		return (a->id < b->id) ? -1 : 1;
	return ItemPointerCompare(unconstify(ItemPointerData *, &a->tid),
							  unconstify(ItemPointerData *, &b->tid));
}

/*
 * A row was added, and its transaction has committed.
 */
void
index_cursor_add(IndexCursor *cursor, TimestampTz due)
{
	IndexPosition place = {due, PG_INT64_MIN, {{0, 0}, 0}};

	SpinLockAcquire(&cursor->mutex);
	if (index_cursor_compare(&place, &cursor->frontier) < 0)
		cursor->frontier = place;
	if (index_cursor_compare(&place, &cursor->cut_at) < 0)
		cursor->cut_at = place;
	SpinLockRelease(&cursor->mutex);
}

/*
 * When there is something to read.
 */
TimestampTz
index_cursor_next(IndexCursor *cursor)
{
	TimestampTz result;

	SpinLockAcquire(&cursor->mutex);
	result = cursor->frontier.due;
	if (cursor->held.due < result)
		result = Min(result, Max(cursor->held.due, cursor->held_until));
	SpinLockRelease(&cursor->mutex);
	return result;
}

/*
 * Begin to read what is due now: from where on.
 */
void
index_cursor_begin(IndexCursor *cursor, TimestampTz now, IndexPosition *from)
{
	SpinLockAcquire(&cursor->mutex);
	if (cursor->frontier.due > now && cursor->held.due <= now && cursor->held_until <= now)
	{
		Assert(index_cursor_compare(&cursor->held, &cursor->frontier) < 0);
		cursor->frontier = cursor->held;
		cursor->held.due = DT_NOEND;
	}
	*from = cursor->frontier;
	cursor->cut_at.due = DT_NOEND;
	ItemPointerSet(&cursor->cut_at.tid, 0, 0);
	SpinLockRelease(&cursor->mutex);
}

/*
 * All that is before frontier has been dealt with, but for what was added while
 * it was read.  Called when that has committed.
 */
void
index_cursor_end(IndexCursor *cursor, const IndexPosition *frontier)
{
	SpinLockAcquire(&cursor->mutex);
	cursor->frontier = index_cursor_compare(frontier, &cursor->cut_at) < 0 ?
		*frontier : cursor->cut_at;
	SpinLockRelease(&cursor->mutex);
}

/*
 * Remember a row that another transaction is writing.  False if there are too
 * many.
 */
bool
index_cursor_skip(IndexCursor *cursor, const IndexPosition *place)
{
	bool		there = false;

	SpinLockAcquire(&cursor->mutex);
	for (int i = 0; i < cursor->skipped_count; i++)
		there |= (index_cursor_compare(&cursor->skipped[i], place) == 0);
	if (!there && cursor->skipped_count < INDEX_CURSOR_SKIPPED)
	{
		cursor->skipped[cursor->skipped_count++] = *place;
		there = true;
	}
	SpinLockRelease(&cursor->mutex);
	return there;
}

/*
 * Copy what is remembered; places has room for INDEX_CURSOR_SKIPPED.
 */
int
index_cursor_skipped(IndexCursor *cursor, IndexPosition *places)
{
	int			n;

	SpinLockAcquire(&cursor->mutex);
	n = cursor->skipped_count;
	Assert(n >= 0 && n <= INDEX_CURSOR_SKIPPED);
	memcpy(places, cursor->skipped, n * sizeof(IndexPosition));
	SpinLockRelease(&cursor->mutex);
	return n;
}

/*
 * One of them has been dealt with or is gone, and that has committed.
 */
void
index_cursor_done(IndexCursor *cursor, const IndexPosition *place)
{
	SpinLockAcquire(&cursor->mutex);
	for (int i = 0; i < cursor->skipped_count; i++)
	{
		if (index_cursor_compare(&cursor->skipped[i], place) == 0)
		{
			cursor->skipped[i] = cursor->skipped[--cursor->skipped_count];
			break;
		}
	}
	SpinLockRelease(&cursor->mutex);
}

/*
 * There are too many of them: what is left is read again, from place on, when
 * all that is due has been read.
 */
void
index_cursor_hold(IndexCursor *cursor, const IndexPosition *place)
{
	SpinLockAcquire(&cursor->mutex);
	if (index_cursor_compare(place, &cursor->held) < 0)
		cursor->held = *place;
	SpinLockRelease(&cursor->mutex);
}

/*
 * What is left is not read again before a time, set by the clock as it is; 0:
 * at once.
 */
void
index_cursor_rest(IndexCursor *cursor, TimestampTz until)
{
	SpinLockAcquire(&cursor->mutex);
	cursor->held_until = until;
	SpinLockRelease(&cursor->mutex);
}

/*
 * Is there any row that is due and that another transaction was writing?
 */
bool
index_cursor_holds(IndexCursor *cursor, TimestampTz now)
{
	bool		result;

	SpinLockAcquire(&cursor->mutex);
	result = cursor->skipped_count > 0 || cursor->held.due <= now;
	SpinLockRelease(&cursor->mutex);
	return result;
}

/*
 * Will a row that is due at a time be read, as far as the cursor knows?
 */
bool
index_cursor_has(IndexCursor *cursor, TimestampTz due)
{
	bool		result;

	SpinLockAcquire(&cursor->mutex);
	result = (due >= cursor->frontier.due || due >= cursor->held.due);
	for (int i = 0; i < cursor->skipped_count; i++)
		result |= (cursor->skipped[i].due == due);
	SpinLockRelease(&cursor->mutex);
	return result;
}
