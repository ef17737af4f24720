/*-------------------------------------------------------------------------
 *
 * durable_leases.c
 *	  Leases that survive a crash and a failover.
 *
 * A claim from a queue with durable leases writes a row for each lease into
 * fairq.durable_lease, in its own transaction; whoever ends the lease deletes
 * it, in his.  So the rows that a crash leaves behind, or that a standby has
 * when it is promoted, are the leases that lived then.
 *
 * The lease table is still what decides.  The rows of a queue are read into it
 * before anything is done with the queue: whenever a queue is opened for the
 * first time since the server started or was promoted (queue_catalog.c).  So no
 * lease is granted or settled before those of the rows are there, and
 * nobody else writes rows of the queue while they are read.  Where a queue does
 * not write any more, those it had are still restored, and end like others.
 *
 * The table is the extension's, one for all queues of the database, and so no
 * dump has its rows; a trigger keeps out what comes by SQL, COPY or logical
 * replication.  It has no index: the lease table knows where each row is.  If the
 * file of the table is another one (VACUUM FULL), the rows are read once more,
 * for where they are.  Its rows are written directly, so no privileges on it are
 * needed, and nobody has any.
 *
 * A receipt holds the entry of its lease and is void after a crash.  That of a
 * durable lease is found by its token (leases.c: moved).  If it is not there the
 * lease's queue may not have been opened yet, so the table is looked through for
 * it; only as long as there are such queues.
 *
 * A session does not survive a crash.  What was claimed under one has run out
 * then, and its receipts are void.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_am_d.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "storage/durable_leases.h"
#include "storage/durable_private.h"
#include "storage/queue_relation.h"

/* Rows that are written in one go. */
#define WRITE_BATCH		1000

/* A row that was looked for. */
typedef enum DurableStatus
{
	DURABLE_LIVE,
	DURABLE_GONE,
	DURABLE_BUSY				/* another transaction has it in hand */
} DurableStatus;

typedef struct DurableRow
{
	HeapTupleData tuple;		/* DURABLE_LIVE: points into the buffer */
	Buffer		buffer;
	TransactionId busy;			/* DURABLE_BUSY: which */
} DurableRow;

/* Has this backend seen that the leases of all queues are known? */
static bool all_known = false;

PG_FUNCTION_INFO_V1(fairq_durable_lease_written);

/*
 * Open the table; NULL if there is none, for it is being dropped with the
 * extension, or the database does not have that.
 */
Relation
durable_table_open(LOCKMODE lockmode)
{
	Oid			relid = queue_catalog_member("durable_lease");

	return OidIsValid(relid) ? try_relation_open(relid, lockmode) : NULL;
}

/*
 * Open the table to write or look for rows.  Whoever does has a queue open, so
 * the extension is here, and the name is enough.
 */
static Relation
open_table_to_use(LOCKMODE lockmode)
{
	Oid			relid = get_relname_relid("durable_lease", queue_catalog_schema(false));
	Relation	table = OidIsValid(relid) ? try_relation_open(relid, lockmode) : NULL;

	if (table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s.%s\" is missing", QUEUE_SCHEMA, "durable_lease"),
				 errhint("It is part of the extension.")));
	/* We write no index entries. */
	if (table->rd_rel->relam != HEAP_TABLE_AM_OID ||
		RelationGetNumberOfAttributes(table) != DURABLE_COLUMNS ||
		(table->rd_rel->relhasindex && RelationGetIndexList(table) != NIL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("table \"%s.%s\" cannot be used for leases", QUEUE_SCHEMA,
						RelationGetRelationName(table)),
				 errhint("Undo the change that was made to the table; drop indexes on it.")));
	return table;
}

/*
 * All rows that are there, be they of this transaction.  What others write
 * meanwhile may be seen or not.
 */
TableScanDesc
durable_table_scan(Relation table)
{
	return table_beginscan_strat(table, SnapshotSelf, 0, NULL, true, false);
}

/* ----------------------------------------------------------------
 * One row
 * ----------------------------------------------------------------
 */

/*
 * Look at a TID for the row of a task.  With DURABLE_LIVE its page is pinned.
 */
static DurableStatus
look_at(Relation table, const ItemPointerData *tid, Oid queue, int64 task,
		DurableRow *row)
{
	SnapshotData dirty;

	if (!ItemPointerIsValid(tid) ||
		ItemPointerGetBlockNumber(tid) >= RelationGetNumberOfBlocks(table))
		return DURABLE_GONE;
	InitDirtySnapshot(dirty);
	row->tuple.t_self = *tid;
	if (!heap_fetch(table, &dirty, &row->tuple, &row->buffer, false))
		return DURABLE_GONE;
	row->busy = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
	if (row_queue(&row->tuple, RelationGetDescr(table)) == queue &&
		row_task(&row->tuple, RelationGetDescr(table)) == task)
	{
		if (!TransactionIdIsValid(row->busy))
			return DURABLE_LIVE;
		ReleaseBuffer(row->buffer);
		return DURABLE_BUSY;
	}
	ReleaseBuffer(row->buffer);
	return DURABLE_GONE;
}

/*
 * Find the row of a lease that is durable.
 *
 * A row that is not where it was may have been moved by VACUUM FULL, and then
 * all are read again.  Or an extend was rolled back, and it is where it was before;
 * that is rare enough to look for it.  One that is nowhere was deleted by hand,
 * or the claim was rolled back whose receipt was passed on before it had ended.
 */
static DurableStatus
find_row(Relation table, Relation rel, QueueInfo *info, const LeaseInfo *lease,
		 DurableRow *row)
{
	QueueState *state = info->state;
	DurableStatus status = look_at(table, &lease->durable_tid, info->relation, lease->task, row);
	LeaseInfo	now;
	TableScanDesc scan;
	HeapTuple	tuple;
	ItemPointerData tid;

	if (status != DURABLE_GONE)
		return status;
	if (state->recovery.leases_file != fairq_relation_file(table))
	{
		SpinLockAcquire(&state->recovery.mutex);
		if (state->recovery.leases == QUEUE_KNOWN)
			state->recovery.leases = QUEUE_UNKNOWN;
		SpinLockRelease(&state->recovery.mutex);
		durable_leases_restore(rel, info);
	}
	if (leases_look(&lease->ref, &now) &&
		!ItemPointerEquals(&now.durable_tid, unconstify(ItemPointerData *, &lease->durable_tid)))
	{
		status = look_at(table, &now.durable_tid, info->relation, lease->task, row);
		if (status != DURABLE_GONE)
			return status;
	}

	ItemPointerSetInvalid(&tid);
	scan = durable_table_scan(table);
	while (!ItemPointerIsValid(&tid) &&
		   (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (row_queue(tuple, RelationGetDescr(table)) == info->relation &&
			row_task(tuple, RelationGetDescr(table)) == lease->task)
			tid = tuple->t_self;
	}
	table_endscan(scan);
	return look_at(table, &tid, info->relation, lease->task, row);
}

/*
 * The same, and wait for whoever has it in hand.
 */
static bool
wait_for_row(Relation table, Relation rel, QueueInfo *info, const LeaseInfo *lease,
			 DurableRow *row)
{
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		switch (find_row(table, rel, info, lease, row))
		{
			case DURABLE_LIVE:
				return true;
			case DURABLE_GONE:
				return false;
			case DURABLE_BUSY:
				XactLockTableWait(row->busy, table, &row->tuple.t_self, XLTW_Delete);
				break;
		}
	}
}

/*
 * Is the row of a lease in the hands of another transaction: a claim or an extend
 * that has not ended?
 */
bool
durable_leases_busy(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	Relation	table;
	DurableRow	row;
	DurableStatus status;

	if (!lease->durable)
		return false;
	table = open_table_to_use(RowExclusiveLock);
	status = find_row(table, rel, info, lease, &row);
	if (status == DURABLE_LIVE)
		ReleaseBuffer(row.buffer);
	table_close(table, NoLock);
	return status == DURABLE_BUSY;
}

/*
 * A lease is settling: its row goes with it.
 */
void
durable_leases_delete(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	Relation	table;
	DurableRow	row;
	TM_FailureData tmfd;
	TM_Result	result = TM_Ok;

	if (!lease->durable)
		return;
	table = open_table_to_use(RowExclusiveLock);
	do
	{
		ItemPointerData tid;

		if (!wait_for_row(table, rel, info, lease, &row))
			break;
		tid = row.tuple.t_self;
		ReleaseBuffer(row.buffer);
		result = heap_delete(table, &tid, GetCurrentCommandId(true), InvalidSnapshot,
							 true, &tmfd, false);
	} while (result != TM_Ok);
	table_close(table, NoLock);
}

/*
 * The deadline of a lease was moved: so is that in its row.
 */
void
durable_leases_extend(Relation rel, QueueInfo *info, const LeaseInfo *lease)
{
	Relation	table;
	DurableRow	row;
	TM_FailureData tmfd;
	TM_Result	result = TM_Ok;

	if (!lease->durable)
		return;
	table = open_table_to_use(RowExclusiveLock);
	do
	{
		Datum		values[DURABLE_COLUMNS];
		bool		nulls[DURABLE_COLUMNS] = {false};
		bool		replace[DURABLE_COLUMNS] = {false};
		ItemPointerData old;
		HeapTuple	new;
		IndexEntries entries;

		if (!wait_for_row(table, rel, info, lease, &row))
			break;
		values[DURABLE_LEASE_UNTIL] = TimestampTzGetDatum(lease->deadline);
		replace[DURABLE_LEASE_UNTIL] = true;
		new = heap_modify_tuple(&row.tuple, RelationGetDescr(table), values, nulls, replace);
		old = row.tuple.t_self;
		ReleaseBuffer(row.buffer);
		result = fairq_heap_update(table, &old, new, GetCurrentCommandId(true), true,
								   &tmfd, &entries);
		if (result == TM_Ok)
		{
			leases_set_durable(&lease->ref, &new->t_self);
			/* The same command may go on to settle the lease. */
			CommandCounterIncrement();
		}
		heap_freetuple(new);
	} while (result != TM_Ok);
	table_close(table, NoLock);
}

/* ----------------------------------------------------------------
 * Writing
 * ----------------------------------------------------------------
 */

static HeapTuple
form_row(TupleDesc tupdesc, const QueueInfo *info, const LeaseInfo *lease)
{
	Datum		values[DURABLE_COLUMNS];
	bool		nulls[DURABLE_COLUMNS] = {false};
	pg_uuid_t	receipt;

	leases_to_receipt(lease, &receipt);
	values[DURABLE_QUEUE] = ObjectIdGetDatum(info->relation);
	values[DURABLE_ATTEMPT] = Int32GetDatum(lease->attempt);
	values[DURABLE_TASK] = Int64GetDatum(lease->task);
	values[DURABLE_LEASE_UNTIL] = TimestampTzGetDatum(lease->deadline);
	values[DURABLE_CLAIMED_AT] = TimestampTzGetDatum(lease->started);
	values[DURABLE_RECEIPT] = UUIDPGetDatum(&receipt);
	values[DURABLE_OF_SESSION] = BoolGetDatum(lease->session != NO_SESSION);
	return heap_form_tuple(tupdesc, values, nulls);
}

/*
 * Write rows for leases that this transaction was just granted.
 */
void
durable_leases_write(QueueInfo *info, const LeaseInfo *leases, int n)
{
	Relation	table = open_table_to_use(RowExclusiveLock);
	CommandId	cid = GetCurrentCommandId(true);
	TupleTableSlot **slots = palloc(Min(n, WRITE_BATCH) * sizeof(TupleTableSlot *));
	int			slot_count = Min(n, WRITE_BATCH);

	for (int i = 0; i < slot_count; i++)
		slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsHeapTuple);
	for (int done = 0; done < n; done += slot_count)
	{
		int			batch = Min(slot_count, n - done);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < batch; i++)
			ExecStoreHeapTuple(form_row(RelationGetDescr(table), info, &leases[done + i]),
							   slots[i], true);
		heap_multi_insert(table, slots, batch, cid, 0, NULL);
		for (int i = 0; i < batch; i++)
		{
			leases_set_durable(&leases[done + i].ref, &slots[i]->tts_tid);
			ExecClearTuple(slots[i]);
		}
	}
	for (int i = 0; i < slot_count; i++)
		ExecDropSingleTupleTableSlot(slots[i]);
	pfree(slots);
	table_close(table, NoLock);
	/* The same command may go on to settle the leases. */
	CommandCounterIncrement();
}

/* ----------------------------------------------------------------
 * Receipts
 * ----------------------------------------------------------------
 */

/*
 * Are the leases of all queues of the database known?  If not, *mine: nor those of
 * one whose leases the caller may settle.
 */
static bool
look_all_known(bool *mine)
{
	List	   *queues = queue_catalog_list();
	ListCell   *lc;
	bool		known = true;

	foreach(lc, queues)
	{
		QueueState *state = queue_state_find(lfirst_oid(lc));

		if (state != NULL && state->recovery.leases == QUEUE_KNOWN)
			continue;
		known = false;
		*mine |= (pg_class_aclmask(lfirst_oid(lc), GetUserId(),
								   ACL_SELECT | ACL_UPDATE | ACL_DELETE, ACLMASK_ANY) != 0);
	}
	list_free(queues);
	return known;
}

/* The queue of the lease that a receipt names, by its row. */
static Oid
queue_of_receipt(const pg_uuid_t *receipt)
{
	Relation	table = open_table_to_use(AccessShareLock);
	Oid			queue = InvalidOid;
	TableScanDesc scan;
	HeapTuple	tuple;

	scan = durable_table_scan(table);
	while (!OidIsValid(queue) &&
		   (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, DURABLE_RECEIPT + 1,
										 RelationGetDescr(table), &isnull);

		CHECK_FOR_INTERRUPTS();
		if (memcmp(DatumGetUUIDP(value), receipt, UUID_LEN) == 0)
			queue = row_queue(tuple, RelationGetDescr(table));
	}
	table_endscan(scan);
	table_close(table, AccessShareLock);
	return queue;
}

/*
 * The lease that a receipt names that does not lead to it: one of before the
 * last crash.  For the others, which are void, this is cheap once all queues
 * have been opened.
 */
bool
durable_leases_find(const pg_uuid_t *receipt, LeaseRef *ref)
{
	Relation	rel;
	QueueInfo  *info;
	Oid			queue;
	bool		mine = false;

	if (leases_find_moved(receipt, ref))
		return true;
	if (all_known)
		return false;
	if (look_all_known(&mine))
		all_known = true;
	else if (!mine)
		return false;			/* and no stranger has us read all rows again and again */
	else
	{
		queue = queue_of_receipt(receipt);
		if (!OidIsValid(queue))
			return false;
		/* To open the queue is to restore its leases. */
		info = queue_catalog_open_relation(queue, AccessShareLock, 0, &rel);
		if (info == NULL)
			return false;
		if (!leases_find_moved(receipt, ref))
			durable_leases_require(rel, info);
		relation_close(rel, NoLock);
	}
	/* It may have been restored since we looked, and where it was. */
	return leases_find_moved(receipt, ref) || leases_from_receipt(receipt, ref);
}

/* ----------------------------------------------------------------
 * The table
 * ----------------------------------------------------------------
 */

/*
 * A queue is being dropped: so are its rows.
 */
void
durable_leases_forget_queue(Oid relation)
{
	Relation	table = durable_table_open(RowExclusiveLock);
	TableScanDesc scan;
	HeapTuple	tuple;

	if (table == NULL)
		return;
	scan = durable_table_scan(table);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (row_queue(tuple, RelationGetDescr(table)) == relation)
			simple_heap_delete(table, &tuple->t_self);
	}
	table_endscan(scan);
	table_close(table, NoLock);
}

/*
 * fairq.durable_lease_written(): row trigger before INSERT or UPDATE of
 * fairq.durable_lease, which our own writes do not fire.  Rows that come in
 * another way, from another server say, are no leases of this one.
 */
Datum
fairq_durable_lease_written(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(NULL);
}
