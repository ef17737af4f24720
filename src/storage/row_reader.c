/*-------------------------------------------------------------------------
 *
 * row_reader.c
 *	  Reading the rows of a queue by TID.
 *
 * Reading by TID is what makes a claim and an ack cheap: neither looks into an
 * index.
 *
 * Rows are looked at as they are now (a dirty snapshot), not as the
 * transaction's snapshot shows them: claims and acks act on the present, in
 * every isolation level, as row locks do.
 *
 * Locking: the caller has a lock on the relation.  lock_row returns with a
 * share lock on the row's page; until row_reader_unlock the caller may lock
 * what is in shared memory (a claim: the group, its limit, a partition of the
 * lease table), under whose locks no backend looks at a page, and nothing
 * else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/subtrans.h"
#include "access/tupdesc_details.h"
#include "access/tupmacs.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"

#include "common/contracts.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"

/*
 * How many blocks a table has at least, as far as this process knows.
 *
 * Other backends make it longer without notice.  A backend that makes it
 * shorter holds AccessExclusiveLock and sends an invalidation first, which this
 * one read when it took its own lock.  So the number is never too high, and
 * saves a system call.
 */
static BlockNumber
known_blocks(Relation rel)
{
	BlockNumber blocks = RelationGetSmgr(rel)->smgr_cached_nblocks[MAIN_FORKNUM];

	return blocks == InvalidBlockNumber ? 0 : blocks;
}

void
row_reader_begin(RowReader *reader, Relation rel, QueueInfo *info)
{
	AssertRelationLocked(rel, AccessShareLock);
	Assert(info->relation == RelationGetRelid(rel) && info->natts > 0);
	memset(reader, 0, sizeof(RowReader));
	reader->rel = rel;
	reader->info = info;
	reader->blocks = known_blocks(rel);
	reader->values = palloc(info->natts * sizeof(Datum));
	reader->nulls = palloc(info->natts * sizeof(bool));
}

/*
 * Take the row apart, into values and nulls.
 *
 * As heap_deform_tuple does, which however calls a function for each column
 * that the row ends before, and most of our rows end early.
 */
static void
deform(RowReader *reader)
{
	TupleDesc	desc = RelationGetDescr(reader->rel);
	const AttrMissing *missing = desc->constr != NULL ? desc->constr->missing : NULL;
	HeapTupleHeader data = reader->tuple.t_data;
	int			present = Min(HeapTupleHeaderGetNatts(data), desc->natts);
	bool		has_nulls = HeapTupleHasNulls(&reader->tuple);
	const char *start = (char *) data + data->t_hoff;
	uint32		offset = 0;

	for (int i = 0; i < present; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		reader->nulls[i] = has_nulls && att_isnull(i, data->t_bits);
		if (reader->nulls[i])
		{
			reader->values[i] = (Datum) 0;
			continue;
		}
		offset = att_align_pointer(offset, column->attalign, column->attlen, start + offset);
		reader->values[i] = fetchatt(column, start + offset);
		offset = att_addlength_pointer(offset, column->attlen, start + offset);
	}
	if (likely(missing == NULL))
	{
		memset(reader->nulls + present, true, (desc->natts - present) * sizeof(bool));
		memset(reader->values + present, 0, (desc->natts - present) * sizeof(Datum));
		return;
	}
	for (int i = present; i < desc->natts; i++)
	{
		reader->nulls[i] = !missing[i].am_present;
		reader->values[i] = reader->nulls[i] ? (Datum) 0 : missing[i].am_value;
	}
}

/*
 * Read a row that the caller has, and which it keeps.
 */
void
row_reader_take(RowReader *reader, HeapTuple tuple)
{
	reader->tuple = *tuple;
	reader->partial = false;
	deform(reader);
}

/*
 * Read only the id, the state and the name if a brief reading is asked for and
 * the task has no unique key; else all columns.
 */
static void
deform_briefly(RowReader *reader)
{
	TupleDesc	desc = RelationGetDescr(reader->rel);
	int			id = reader->info->columns[COLUMN_ID];
	int			key = reader->info->columns[COLUMN_UNIQUE_KEY];
	int			state = reader->info->columns[COLUMN_STATE];
	int			name = reader->info->columns[COLUMN_NAME];

	reader->partial = reader->brief && heap_attisnull(&reader->tuple, key, desc);
	if (!reader->partial)
		deform(reader);
	else
	{
		row_is_null(reader, COLUMN_UNIQUE_KEY) = true;
		row_value(reader, COLUMN_ID) =
			heap_getattr(&reader->tuple, id, desc, &row_is_null(reader, COLUMN_ID));
		row_value(reader, COLUMN_STATE) =
			heap_getattr(&reader->tuple, state, desc, &row_is_null(reader, COLUMN_STATE));
		row_is_null(reader, COLUMN_NAME) = heap_attisnull(&reader->tuple, name, desc);
		if (unlikely(!row_is_null(reader, COLUMN_NAME)))
			row_value(reader, COLUMN_NAME) =
				heap_getattr(&reader->tuple, name, desc, &row_is_null(reader, COLUMN_NAME));
	}
}

/*
 * What a brief reader has read is wanted in full after all.
 */
void
row_reader_complete(RowReader *reader)
{
	if (!reader->partial)
		return;
	deform(reader);
	reader->partial = false;
}

/*
 * Is a transaction in progress prepared?  A prepared one has no process.
 */
static bool
is_prepared(TransactionId top)
{
	return BackendXidGetPid(top) == 0 && TransactionIdIsInProgress(top);
}

/*
 * Find the row at a TID or, if that is the start of a chain of heap-only
 * tuples, in the chain.  An index leads to starts only, but whoever hands a
 * row over names the row itself.
 */
static bool
search_row(RowReader *reader, ItemPointer at, Snapshot snapshot)
{
	Page		page = BufferGetPage(reader->buffer);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(at);
	HeapTuple	tuple = &reader->tuple;

	if (offset >= FirstOffsetNumber && offset <= PageGetMaxOffsetNumber(page))
	{
		ItemId		item = PageGetItemId(page, offset);

		if (ItemIdIsNormal(item))
		{
			tuple->t_data = (HeapTupleHeader) PageGetItem(page, item);
			tuple->t_len = ItemIdGetLength(item);
			tuple->t_tableOid = RelationGetRelid(reader->rel);
			tuple->t_self = *at;
			if (HeapTupleSatisfiesVisibility(tuple, snapshot, reader->buffer))
			{
				HeapCheckForSerializableConflictOut(true, reader->rel, tuple,
													reader->buffer, snapshot);
				return true;
			}
		}
	}
	return heap_hot_search_buffer(at, reader->rel, reader->buffer, snapshot,
								  tuple, NULL, true);
}

/* Does the table reach as far as a TID? */
static inline bool
has_block_of(RowReader *reader, const ItemPointerData *tid)
{
	/* It may be shorter than when the TID was noted, or longer than we know. */
	if (ItemPointerGetBlockNumberNoCheck(tid) >= reader->blocks)
		reader->blocks = RelationGetNumberOfBlocks(reader->rel);
	return ItemPointerGetBlockNumberNoCheck(tid) < reader->blocks;
}

/* Have reader->buffer be a block of the table, pinned. */
static void
read_page(RowReader *reader, BlockNumber block)
{
	if (BufferIsValid(reader->buffer))
	{
		if (BufferGetBlockNumber(reader->buffer) == block)
			return;
		ReleaseBuffer(reader->buffer);
		reader->buffer = InvalidBuffer;
	}
	reader->buffer = page_hints_read(reader->rel, block);
}

/*
 * The rows at n TIDs, so many bytes apart, are going to be read: have all pages
 * fetched, and then the rows (page_hints.c).
 */
void
row_reader_fetch(RowReader *reader, const ItemPointerData *tids, Size apart, int n)
{
	const char *tid = (const char *) tids;

	if (n <= 1)
		return;
	for (int i = 0; i < n; i++)
	{
		if (has_block_of(reader, (const ItemPointerData *) (tid + i * apart)))
			page_hints_fetch_page(reader->rel, (const ItemPointerData *) (tid + i * apart));
	}
	for (int i = 0; i < n; i++)
		page_hints_fetch_row(reader->rel, (const ItemPointerData *) (tid + i * apart));
}

/*
 * Read the row at a TID, or the one that a chain of heap-only tuples leads to.
 * With ROW_LIVE its page is share-locked, until row_reader_unlock; else not.
 */
static RowStatus
lock_row(RowReader *reader, const ItemPointerData *tid)
{
	ItemPointerData at = *tid;
	SnapshotData dirty;
	bool		found;
	bool		own = false;
	TransactionId busy = InvalidTransactionId;

	Assert(!reader->locked);

	if (!has_block_of(reader, &at))
		return ROW_GONE;
	read_page(reader, ItemPointerGetBlockNumberNoCheck(&at));
	InitDirtySnapshot(dirty);
	LockBuffer(reader->buffer, BUFFER_LOCK_SHARE);
	found = search_row(reader, &at, &dirty);
	if (found)
	{
		reader->deleting = false;
		if (TransactionIdIsValid(dirty.xmin))
			busy = dirty.xmin;
		else if (TransactionIdIsValid(dirty.xmax))
		{
			busy = dirty.xmax;
			reader->deleting = true;
			deform_briefly(reader);
		}
		else if (!HeapTupleHeaderXminCommitted(reader->tuple.t_data) &&
				 TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(reader->tuple.t_data)))
			own = true;
	}
	if (!found || TransactionIdIsValid(busy))
	{
		LockBuffer(reader->buffer, BUFFER_LOCK_UNLOCK);
		if (!found)
			return ROW_GONE;
		busy = SubTransGetTopmostTransaction(busy);
		reader->in_progress = busy;
		return is_prepared(busy) ? ROW_IN_DOUBT : ROW_IN_PROGRESS;
	}

	reader->tuple.t_self = at;
	reader->own = own;
	deform_briefly(reader);
	if (own)
	{
		LockBuffer(reader->buffer, BUFFER_LOCK_UNLOCK);
		return ROW_OWN;
	}
	reader->locked = true;
	return ROW_LIVE;
}

void
row_reader_unlock(RowReader *reader)
{
	Assert(BufferIsValid(reader->buffer));
	Assert(reader->locked);
	LockBuffer(reader->buffer, BUFFER_LOCK_UNLOCK);
	reader->locked = false;
}

/*
 * Read a row as lock_row() does, without keeping the lock.
 */
RowStatus
row_reader_read(RowReader *reader, const ItemPointerData *tid)
{
	RowStatus	status = lock_row(reader, tid);

	if (status == ROW_LIVE)
		row_reader_unlock(reader);
	return status;
}

/*
 * Read the row of a task.  hint is where it was last seen; if it is not there
 * (VACUUM FULL, CLUSTER, an UPDATE by a user), it is looked up by id.
 */
RowStatus
row_reader_task(RowReader *reader, int64 id, const ItemPointerData *hint)
{
	ItemPointerData tid;
	RowStatus	status;

	Assert(!reader->locked);
	if (hint != NULL && ItemPointerIsValid(unconstify(ItemPointerData *, hint)))
	{
		status = row_reader_read(reader, hint);
		if ((status == ROW_LIVE || status == ROW_OWN) &&
			DatumGetInt64(row_value(reader, COLUMN_ID)) == id)
			return status;
	}

	/*
	 * A row that moves while it is looked for may be missed: its old version
	 * is gone when it is read, and the new entry came behind where the index
	 * was read.  A snapshot sees one of them, so if that finds none it is
	 * gone.
	 */
	for (;;)
	{
		SnapshotData dirty;

		CHECK_FOR_INTERRUPTS();
		InitDirtySnapshot(dirty);
		if (queue_index_find(reader->rel, reader->info, id, &dirty, &tid))
		{
			status = row_reader_read(reader, &tid);
			if (status != ROW_GONE)
				return status;
		}
		else
		{
			Snapshot	latest = RegisterSnapshot(GetLatestSnapshot());
			bool		found;

			/* What this very command has deleted is gone, too. */
			latest->curcid = InvalidCommandId;
			found = queue_index_find(reader->rel, reader->info, id, latest, &tid);
			UnregisterSnapshot(latest);
			if (!found)
				return ROW_GONE;
		}
	}
}

/* Wait for the end of a transaction; or (!wait) say whether it has ended. */
static bool
has_ended(TransactionId xid, bool wait)
{
	if (!wait)
		return fairq_transaction_has_ended(xid);
	XactLockTableWait(xid, NULL, NULL, XLTW_None);
	return true;
}

/*
 * The transaction that has written a row has committed, but may have yet to
 * carry out what it owes: to count the task where it is now, or to end its
 * lease (races 30 and 32).  That is waited for: it runs no code of users, and
 * waits for no transaction.  No buffer is locked.
 *
 * Returns false, without wait only, if it has yet to do so.
 */
bool
row_reader_wait_writer(HeapTuple tuple, bool wait)
{
	static TransactionId ended = InvalidTransactionId;	/* the last one */
	TransactionId writer = HeapTupleHeaderGetXmin(tuple->t_data);
	TransactionId top;
	int			place = 0;

	if (writer == ended || !TransactionIdIsNormal(writer) ||
		TransactionIdIsCurrentTransactionId(writer))
		return true;
	if (!has_ended(writer, wait))
		return false;

	/* It was a subtransaction: that of which it was one, and is not running. */
	while (TransactionIdIsValid(top = transit_horizon_top(writer, &place)))
	{
		if (!TransactionIdIsInProgress(top) && !has_ended(top, wait))
			return false;
	}
	ended = writer;
	return true;
}

/*
 * Read the row of a task.  If another transaction has it in hand, its end is
 * waited for.  So is the end of the one that has written it, with all that it
 * owes (row_reader_wait_writer), unless the row is still where hint says: there
 * it was when it was claimed, and it has been met nowhere else.  Returns false
 * if the task is gone.
 */
bool
row_reader_task_wait(RowReader *row, int64 id, const ItemPointerData *hint)
{
	for (;;)
	{
		switch (row_reader_task(row, id, hint))
		{
			case ROW_OWN:
				/* It may have been written by this very statement. */
				CommandCounterIncrement();
				return DatumGetInt64(row_value(row, COLUMN_ID)) == id;
			case ROW_LIVE:
				if (DatumGetInt64(row_value(row, COLUMN_ID)) != id)
					return false;
				if (hint == NULL || !row_reader_is_where(row, hint))
					(void) row_reader_wait_writer(&row->tuple, true);
				return true;
			case ROW_GONE:
				return false;
			case ROW_IN_PROGRESS:
			case ROW_IN_DOUBT:
				XactLockTableWait(row->in_progress, row->rel,
								  &row->tuple.t_self, XLTW_None);
				break;
		}
	}
}

void
row_reader_end(RowReader *reader)
{
	Assert(!reader->locked);
	if (BufferIsValid(reader->buffer))
		ReleaseBuffer(reader->buffer);
	reader->buffer = InvalidBuffer;
	queue_index_end_kept(&reader->overflow);
	pfree(reader->values);
	pfree(reader->nulls);
}

/* Is it the row of a task that was read, as far as it has been? */
static bool
is_task(RowReader *reader, RowStatus status, int64 id)
{
	return (status == ROW_LIVE || status == ROW_OWN ||
			((status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT) && reader->deleting)) &&
		DatumGetInt64(row_value(reader, COLUMN_ID)) == id;
}

/*
 * As row_reader_task; but with ROW_LIVE the row's page is share-locked, as by
 * lock_row.  *seen is where it was last seen; if it is not there, and not gone,
 * *seen says then where it is.
 */
RowStatus
row_reader_lock_task(RowReader *reader, int64 id, ItemPointer seen)
{
	RowStatus	status = lock_row(reader, seen);

	while (unlikely(!is_task(reader, status, id)))
	{
		if (status == ROW_LIVE)
			row_reader_unlock(reader);
		status = row_reader_task(reader, id, NULL);
		if (status == ROW_GONE)
			break;
		*seen = reader->tuple.t_self;
		if (status != ROW_LIVE)
			break;

		/* It may have moved on before it is locked. */
		status = lock_row(reader, seen);
	}
	return status;
}

/*
 * Read the row that an entry of a lane leads to.  With ROW_LIVE its page is
 * share-locked, as by lock_row.
 *
 * A task of the overflow has no other place, and no index leads to this one:
 * so where its row was seen is a hint.
 */
RowStatus
row_reader_entry(RowReader *reader, LaneEntry *entry)
{
	int64		task = lanes_entry_task(entry);

	return likely(task == 0) ? lock_row(reader, &entry->tid) :
		row_reader_lock_task(reader, task, &entry->tid);
}

/*
 * Is the row that was read the one that an entry of a lane means?  Another row
 * may be there by now, or the same with another address.
 *
 * A task of the overflow has no address in its row: it is read as if it had the
 * entry's.
 */
bool
row_reader_is_at(RowReader *reader, const Lane *lane, const LaneEntry *entry)
{
	int64		task = lanes_entry_task(entry);
	FairqAddress place;

	lanes_entry_address(lane, entry, &place);
	if (task == 0)
		return !row_is_null(reader, COLUMN_ADDRESS) &&
			address_compare(&place, DatumGetFairqAddressP(row_value(reader, COLUMN_ADDRESS))) == 0;
	if (!row_is_null(reader, COLUMN_ADDRESS) ||
		DatumGetChar(row_value(reader, COLUMN_STATE)) != TASK_OVERFLOW ||
		DatumGetInt64(row_value(reader, COLUMN_ID)) != task)
		return false;
	reader->place = place;
	row_value(reader, COLUMN_ADDRESS) = FairqAddressPGetDatum(&reader->place);
	row_is_null(reader, COLUMN_ADDRESS) = false;
	return true;
}

static inline bool
is_addressed(RowReader *reader)
{
	if (!reader->partial)
		return !row_is_null(reader, COLUMN_ADDRESS);
	return !heap_attisnull(&reader->tuple, reader->info->columns[COLUMN_ADDRESS],
						   RelationGetDescr(reader->rel));
}

/*
 * Is the task of the row that was read one that may be ready, or leased: with
 * an address, or of the overflow, which may have one in memory?
 */
bool
row_reader_is_placed(RowReader *reader)
{
	return is_addressed(reader) || DatumGetChar(row_value(reader, COLUMN_STATE)) == TASK_OVERFLOW;
}

/*
 * The class that the task of the row that was read is in, or was given.
 */
int
row_reader_class(RowReader *reader)
{
	int64		class = 0;

	if (!row_is_null(reader, COLUMN_ADDRESS))
		class = DatumGetFairqAddressP(row_value(reader, COLUMN_ADDRESS))->class;
	else if (reader->info->policy == QUEUE_FAIR)
		class = DatumGetInt64(row_value(reader, COLUMN_PRIORITY));
	return queue_state_class(reader->info->state, class);
}

/*
 * The depth that the task of the row that was read counts in.  It goes by what
 * the row says, also while the task is leased: so whoever removes or changes
 * the row knows where it counts, whatever others do meanwhile.  What has an
 * address counts as ready, whatever state SQL has given it.
 */
QueueCounter
row_reader_depth(RowReader *reader)
{
	char		state = DatumGetChar(row_value(reader, COLUMN_STATE));

	/* A task of the overflow may have been given a place in memory. */
	return state != TASK_READY && state != TASK_OVERFLOW && unlikely(is_addressed(reader)) ?
		QUEUE_ADDRESSED : task_state_depth(state);
}
