/*-------------------------------------------------------------------------
 *
 * archive_expiry.c
 *	  Removing from archives what is old.
 *
 * Rows that are older than the queue's keep_done are removed by maintenance,
 * found through a cursor on the primary key (due_cursor.c): what was removed is
 * not come across again while some snapshot keeps it in the table.
 *
 * They are deleted with ordinary SQL, as they were written.  What goes wrong
 * with that is no reason for the rest of a pass to fail, for leases have to end
 * in time: it is done in a subtransaction, and after an error left alone for a
 * while.
 *
 * Locking: neither the lock on the table nor rows in somebody's hands are waited
 * for.  The cursor has its own lock; the rest of ArchiveState is guarded by the
 * maintenance lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "storage/archive.h"
#include "xact/pending.h"

/* How long to leave rows alone that could not be removed, in microseconds. */
#define FIRST_RETRY		USECS_PER_SEC
#define LAST_RETRY		(300 * USECS_PER_SEC)

/*
 * How often to read an archive from its start, for rows that came there by SQL
 * of a user with a time long past, or with a prepared transaction.
 */
#define REREAD_USECS	USECS_PER_HOUR

/* A row to remove. */
typedef struct OldRow
{
	ItemPointerData tid;		/* where it is */
	DuePlace	place;			/* as the index has it */
	bool		skipped;		/* it was in somebody's hands before */
	bool		removed;
} OldRow;

/* What a pass has read. */
typedef struct Removal
{
	int			n;
	OldRow	   *rows;
	bool		left;			/* some are left, in somebody's hands */
	bool		held_back;		/* too many to remember, from held on */
	DuePlace	held;
} Removal;

/*
 * A row is in somebody's hands: remember it.
 */
static void
leave_row(Removal *removal, DueCursor *cursor, const DuePlace *place)
{
	removal->left = true;
	if (due_cursor_skip(cursor, place))
		return;
	if (!removal->held_back || due_compare(place, &removal->held) < 0)
		removal->held = *place;
	removal->held_back = true;
}

/*
 * A row was read with a dirty snapshot: is it there for us to remove?
 */
static void
note_row(Removal *removal, DueCursor *cursor, const DuePlace *place, bool skipped,
		 TupleTableSlot *slot, const SnapshotData *dirty)
{
	if (TransactionIdIsValid(dirty->xmin) || TransactionIdIsValid(dirty->xmax))
		leave_row(removal, cursor, place);
	else
	{
		OldRow	   *row = &removal->rows[removal->n++];

		row->tid = slot->tts_tid;
		row->place = *place;
		row->skipped = skipped;
		row->removed = false;
	}
}

/*
 * Read the index from a place on up to a time, and no more than max entries.
 * *next is the next one after them (due at DT_NOEND: none).
 */
static int
read_old(Relation relation, Archive *archive, DueCursor *cursor, const DuePlace *from,
		 TimestampTz until, int max, Removal *removal, DuePlace *next)
{
	Relation	index = index_open(archive->index, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	SnapshotData dirty;
	IndexScanDesc scan;
	ScanKeyData key;
	ItemPointer tid;
	int			n = 0;

	memset(next, 0, sizeof(DuePlace));
	next->due = DT_NOEND;
	InitDirtySnapshot(dirty);
	ScanKeyInit(&key, 1, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
				TimestampTzGetDatum(from->due));
	scan = fairq_index_beginscan(relation, index, &dirty, 1);
	scan->xs_want_itup = true;
	index_rescan(scan, &key, 1, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		DuePlace	place;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		place.due = DatumGetTimestampTz(index_getattr(scan->xs_itup, 1,
													  scan->xs_itupdesc, &isnull));
		place.id = DatumGetInt64(index_getattr(scan->xs_itup, 2,
											   scan->xs_itupdesc, &isnull));
		place.tid = *tid;
		if (due_compare(&place, from) < 0)
			continue;
		if (place.due > until || n == max)
		{
			*next = place;
			break;
		}
		n++;
		if (index_fetch_heap(scan, slot))
			note_row(removal, cursor, &place, false, slot, &dirty);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	return n;
}

/*
 * Look again at a row that was in somebody's hands.  If it is gone it may have
 * been changed, and its new version may be behind us: read on from there, too.
 */
static void
read_skipped(Relation relation, Archive *archive, DueCursor *cursor,
			 const DuePlace *place, Removal *removal)
{
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	IndexFetchTableData *fetch = table_index_fetch_begin(relation);
	ItemPointerData tid = place->tid;
	SnapshotData dirty;
	bool		call_again = false;
	bool		all_dead = false;
	bool		isnull;

	InitDirtySnapshot(dirty);
	/* Another row may be there by now. */
	if (ItemPointerGetBlockNumber(&tid) < RelationGetNumberOfBlocks(relation) &&
		table_index_fetch_tuple(fetch, &tid, &dirty, slot, &call_again, &all_dead) &&
		DatumGetTimestampTz(slot_getattr(slot, archive->done_at, &isnull)) == place->due &&
		DatumGetInt64(slot_getattr(slot, archive->id, &isnull)) == place->id)
		note_row(removal, cursor, place, true, slot, &dirty);
	else
	{
		DuePlace	start = {place->due, PG_INT64_MIN, {{0, 0}, 0}};

		pending_due_done(cursor, place);
		pending_due_held(cursor, &start);
	}
	ExecClearTuple(slot);
	table_index_fetch_end(fetch);
	ExecDropSingleTupleTableSlot(slot);
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare((ItemPointer) &((const OldRow *) a)->tid,
							  (ItemPointer) &((const OldRow *) b)->tid);
}

/*
 * Delete rows, but for those that somebody has locked, or changed meanwhile.
 * With SQL, for the user's triggers and foreign keys.  Returns how many.
 */
static int
remove_rows(Archive *archive, Removal *removal)
{
	const char *name = quote_qualified_identifier(QUEUE_SCHEMA, archive->name);
	Oid			type = TIDARRAYOID;
	Datum	   *tids = palloc(removal->n * sizeof(Datum));
	Datum		value;
	int			result;
	int			removed = 0;

	qsort(removal->rows, removal->n, sizeof(OldRow), compare_tids);
	for (int i = 0; i < removal->n; i++)
		tids[i] = PointerGetDatum(&removal->rows[i].tid);
	value = PointerGetDatum(construct_array(tids, removal->n, TIDOID,
											sizeof(ItemPointerData), false,
											TYPALIGN_SHORT));
	SPI_connect();
	if (archive->remove == NULL)
		archive->remove = archive_prepare(psprintf("DELETE FROM ONLY %s WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY("
										   "SELECT o.ctid FROM ONLY %s o WHERE o.ctid OPERATOR(pg_catalog.=) ANY ($1)"
										   " FOR UPDATE SKIP LOCKED)) RETURNING ctid",
										   name, name),
								  1, &type);
	/* As it is now, whatever the isolation level. */
	PushActiveSnapshot(GetLatestSnapshot());
	result = SPI_execute_snapshot(archive->remove, &value, NULL, GetActiveSnapshot(),
								  InvalidSnapshot, false, true, 0);
	PopActiveSnapshot();
	if (result < 0)
		elog(ERROR, "SPI_execute_snapshot failed (%s)", SPI_result_code_string(result));
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		OldRow		key;
		OldRow	   *row;

		key.tid = *(ItemPointer) DatumGetPointer(SPI_getbinval(SPI_tuptable->vals[i],
													 SPI_tuptable->tupdesc, 1, &isnull));
		row = bsearch(&key, removal->rows, removal->n, sizeof(OldRow), compare_tids);
		if (row != NULL && !row->removed)
		{
			row->removed = true;
			removed++;
		}
	}
	SPI_finish();
	pfree(tids);
	return removed;
}

/*
 * Remove rows that were done until a time, up to max entries of the index from
 * *from on, which is moved.  Returns how many entries it looked at; *left: rows
 * are left that are in somebody's hands; *removed: how many are not.
 */
static int
remove_old(Relation relation, Archive *archive, DueCursor *cursor, DuePlace *from,
		   TimestampTz until, int max, bool *left, int *removed)
{
	DuePlace	skipped[DUE_SKIPPED];
	int			skipped_count = due_cursor_skipped(cursor, skipped);
	Removal		removal = {0};
	DuePlace	next = *from;
	int			looked = 0;

	*removed = 0;
	removal.rows = palloc((max + DUE_SKIPPED) * sizeof(OldRow));
	for (int i = 0; i < skipped_count; i++)
		read_skipped(relation, archive, cursor, &skipped[i], &removal);
	if (from->due <= until)
	{
		looked = read_old(relation, archive, cursor, from, until, max, &removal, &next);
		pending_due_read(cursor, &next);
	}
	if (removal.n > 0)
		*removed = remove_rows(archive, &removal);
	for (int i = 0; i < removal.n; i++)
	{
		if (!removal.rows[i].removed)
			leave_row(&removal, cursor, &removal.rows[i].place);
		else if (removal.rows[i].skipped)
			pending_due_done(cursor, &removal.rows[i].place);
	}
	if (removal.held_back)
		pending_due_held(cursor, &removal.held);
	pfree(removal.rows);
	*from = next;
	*left = removal.left;
	return looked;
}

/* What remove_old is called with, and what it returns. */
typedef struct RemoveOld
{
	Relation	relation;
	Archive    *archive;
	QueueInfo  *info;
	bool		bind;			/* note first whose archive it is */
	DuePlace	from;
	TimestampTz until;
	int			max;
	bool	   *left;
	int		   *removed;
	int			looked;
} RemoveOld;

static void
remove_old_once(void *arg)
{
	RemoveOld  *remove = arg;

	if (remove->bind)
		archive_bind(RelationGetRelid(remove->relation), remove->info->relation);
	remove->looked = remove_old(remove->relation, remove->archive,
								&remove->info->state->archive.cursor, &remove->from,
								remove->until, remove->max, remove->left,
								remove->removed);
}

/*
 * The same in a subtransaction: an error is reported once, and that is all.
 * Returns -1 then.
 */
static int
try_remove_old(Relation relation, Archive *archive, QueueInfo *info, bool bind,
			   DuePlace *from, TimestampTz until, int max, bool *left, int *removed)
{
	ArchiveState *state = &info->state->archive;
	RemoveOld	remove = {relation, archive, info, bind, *from, until, max, left, removed, 0};
	ErrorData  *error = run_as_try(remove_old_once, &remove);

	if (error == NULL)
	{
		*from = remove.from;
		state->sqlerrcode = 0;
		return remove.looked;
	}
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	if (error->sqlerrcode != state->sqlerrcode)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not remove old rows from the archive of queue \"%s\": %s",
						info->name, error->message),
				 error->detail ? errdetail_internal("%s", error->detail) : 0,
				 errhint("It is tried again from time to time.")));
	state->sqlerrcode = error->sqlerrcode;
	FreeErrorData(error);
	return -1;
}

/* When a row that was done at a time is to be removed. */
static TimestampTz
expiry(const QueueInfo *info, TimestampTz done_at)
{
	if (done_at == DT_NOBEGIN || done_at >= DT_NOEND - info->keep_done)
		return done_at;
	return done_at + info->keep_done;
}

/* Leave it alone for a while, for longer each time. */
static void
back_off(ArchiveState *state, TimestampTz now)
{
	state->retry_at = now +
		Min(FIRST_RETRY << Min(state->failures, 10), LAST_RETRY);
	state->failures++;
}

/*
 * Remove from the archive of a queue what is older than keep_done at now; up to
 * max entries of the index are looked at.  Returns how many were.  *more: there
 * are more; else *next is when the next one is to be removed.
 *
 * Nothing is waited for, and no error comes of it.  The caller has the
 * maintenance lock, and acts as the owner.
 */
int
archive_expire(Relation rel, QueueInfo *info, TimestampTz now, int max,
			   ArchivePass *pass, TimestampTz *next, bool *more)
{
	ArchiveState *state = &info->state->archive;
	TimestampTz until = now - info->keep_done;
	char		name[NAMEDATALEN];
	Archive    *archive;
	Relation	relation;
	Oid			oid;
	bool		known;
	bool		left = false;
	int			removed = 0;
	int			looked;

	*more = false;
	*next = DT_NOEND;
	if (info->keep_done == 0)
		return 0;
	*next = state->retry_at;
	if (state->retry_at > now)
		return 0;

	if (!pass->begun)
	{
		if (state->reread_at <= now)
		{
			due_cursor_add(&state->cursor, DT_NOBEGIN);
			state->reread_began = now;
			state->reread_at = now + REREAD_USECS;
		}
		due_cursor_begin(&state->cursor, until, &pass->from);
		pass->begun = true;
	}
	*next = Min(expiry(info, pass->from.due), state->reread_at);
	if (pass->from.due > until && !due_cursor_holds(&state->cursor, until))
		return 0;

	archive_name(info->name, name);
	oid = get_relname_relid(name, RelationGetNamespace(rel));
	*next = now + USECS_PER_SEC;
	if (!OidIsValid(oid) || !ConditionalLockRelationOid(oid, RowExclusiveLock))
		return 0;
	relation = try_relation_open(oid, NoLock);
	if (relation == NULL)
		return 0;

	/* Who finishes a task will be told what is wrong with it. */
	*next = now + REREAD_USECS;
	archive = archive_cached(RelationGetRelid(rel));
	known = archive->valid && archive->relation == oid;
	if (archive_look_at(archive, relation, name, rel->rd_rel->relowner) != NULL)
	{
		relation_close(relation, NoLock);
		return 0;
	}

	looked = try_remove_old(relation, archive, info, !known, &pass->from, until, max,
							&left, &removed);
	relation_close(relation, NoLock);
	if (looked < 0)
	{
		back_off(state, now);
		*next = state->retry_at;
		return 0;
	}
	if (removed > 0)
		state->failures = 0;
	*more = (pass->from.due <= until);
	if (*more)
		return looked;

	if (state->reread_began != 0)
	{
		/* Not more than a hundredth of the time is spent with that. */
		state->reread_at = now + Max(REREAD_USECS, 100 * (now - state->reread_began));
		state->reread_began = 0;
	}
	*next = Min(expiry(info, pass->from.due), state->reread_at);
	if (left || due_cursor_holds(&state->cursor, until))
	{
		back_off(state, now);
		*next = Min(*next, state->retry_at);
	}
	return looked;
}
