/*-------------------------------------------------------------------------
 *
 * durable_restore.c
 *	  From the rows of durable leases to leases.
 *
 * The head of durable_leases.c says when this is done.  All leases of the
 * queue are compared with the rows of their tasks then, too (lease_rows.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "common/run_as.h"
#include "common/settings.h"
#include "shmem/groups.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/durable_table.h"
#include "storage/row_reader.h"

/* Is a row, which was read a moment ago, still there? */
static bool
is_live(HeapTuple tuple, Buffer buffer)
{
	bool		live;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	live = HeapTupleSatisfiesVisibility(tuple, SnapshotSelf, buffer);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return live;
}

/*
 * Restore the lease of a row.  Returns false if there is no room.
 */
static bool
restore_row(RowReader *row, HeapTuple tuple, TupleDesc tupdesc, Buffer buffer,
			TimestampTz *first_deadline)
{
	QueueInfo  *info = row->info;
	Datum		values[DURABLE_COLUMNS];
	bool		nulls[DURABLE_COLUMNS];
	DurableLease lease;
	LeaseRef	ref;
	LeaseRestored result;
	bool		live;

	heap_deform_tuple(tuple, tupdesc, values, nulls);
	lease.queue = queue_state_number(info->state);
	lease.task = DatumGetInt64(values[DURABLE_TASK]);
	lease.attempt = DatumGetInt32(values[DURABLE_ATTEMPT]);
	lease.started = DatumGetTimestampTz(values[DURABLE_CLAIMED_AT]);
	lease.deadline = DatumGetTimestampTz(values[DURABLE_LEASE_UNTIL]);
	lease.receipt = *DatumGetUUIDP(values[DURABLE_RECEIPT]);
	lease.over = DatumGetBool(values[DURABLE_OF_SESSION]);
	lease.durable_tid = tuple->t_self;
	lease.group = FAIRQ_NO_GROUP;
	lease.overflow = false;
	ItemPointerSetInvalid(&lease.tid);

	/*
	 * The task counts in its group's tasks in flight.  One that is gone has a
	 * lease all the same, which ends as those of tasks that are deleted do.
	 */
	if (row_reader_task(row, lease.task, NULL) == ROW_LIVE &&
		row_reader_is_placed(row))
	{
		GroupName	name = row_reader_group(row);

		lease.tid = row->tuple.t_self;
		lease.overflow = row_is_null(row, COLUMN_ADDRESS);
		lease.group = groups_adopt_lease(info->state, row_reader_class(row),
										 &name);
	}

	(void) leases_reserve(1);
	result = leases_restore_durable(&lease, &ref);

	/*
	 * A lease that only memory knows, and not of this row: the row is right
	 * if it still is one.  It would not be if its lease had been settled for
	 * the other to begin, for rows go before leases do.
	 */
	if (result == LEASE_VOID && is_live(tuple, buffer) && leases_displace(&ref))
		result = leases_restore_durable(&lease, &ref);
	if (result != LEASE_RESTORED)
	{
		groups_lease_ends(lease.group, -1, 0);
		return result != LEASE_NO_ROOM;
	}

	/*
	 * If this is done for another time, for want of room, those that were
	 * restored before can be settled meanwhile.  Whoever settles one deletes
	 * its row, and drops it when that has committed: so if it was not there
	 * to be found, we see now that the row is gone.
	 */
	live = is_live(tuple, buffer);
	if (!live)
		(void) leases_drop(&ref, false, NULL);
	else
		*first_deadline = Min(*first_deadline, lease.over ? 0 : lease.deadline);
	return true;
}

/*
 * Read the rows of a queue.  Returns whether all of them are leases now.
 */
static bool
read_rows(Relation table, Relation rel, QueueInfo *info)
{
	TupleDesc	tupdesc = RelationGetDescr(table);
	TableScanDesc scan;
	HeapTuple	tuple;
	RowReader	row;
	TimestampTz first_deadline = DT_NOEND;
	bool		complete = true;

	info->state->recovery.leases_file = fairq_relation_file(table);
	row_reader_begin(&row, rel, info);
	scan = durable_table_scan(table);
	patience_own_work(true);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (row_queue(tuple, tupdesc) == info->relation)
			complete &= restore_row(&row, tuple, tupdesc, ((HeapScanDesc) scan)->rs_cbuf,
									&first_deadline);
	}
	patience_own_work(false);
	table_endscan(scan);
	row_reader_end(&row);
	leases_return_reserved();
	if (first_deadline != DT_NOEND)
		worker_slots_wake_at(MyDatabaseId, first_deadline);
	return complete;
}

/* It was cut short; another backend has to do it. */
static void
restore_failed(int code, Datum arg)
{
	QueueState *state = (QueueState *) DatumGetPointer(arg);

	queue_state_recovery_end(state, &state->recovery.leases, QUEUE_UNKNOWN);
}

/*
 * See that the leases of a queue are known: the durable ones are in the lease
 * table, as far as there is room, and all are of tasks that there are.  On a
 * standby they are not: nothing can be done with them there, and their ends
 * are not told.
 */
void
durable_leases_restore(Relation rel, QueueInfo *info)
{
	QueueState *state = info->state;
	Relation	table;
	bool		complete;

	if (RecoveryInProgress())
		return;

	/* First the lock: a deadlock of those who wait for us is not detected. */
	table = durable_table_open(AccessShareLock);
	if (table == NULL)
		return;
	if (!queue_state_recovery_begin(state, &state->recovery.leases))
	{
		table_close(table, AccessShareLock);
		return;
	}
	PG_ENSURE_ERROR_CLEANUP(restore_failed, PointerGetDatum(state));
	{
		complete = read_rows(table, rel, info);
		if (!fairq_relation_rewritten(rel))
			lease_rows_check(rel, info, false);
	}
	PG_END_ENSURE_ERROR_CLEANUP(restore_failed, PointerGetDatum(state));
	queue_state_recovery_end(state, &state->recovery.leases,
							 complete ? QUEUE_KNOWN : QUEUE_UNKNOWN);
	table_close(table, AccessShareLock);
}

/*
 * Go on only if all leases of a queue are known: without that a task could be
 * taken that is leased.
 */
void
durable_leases_require(Relation rel, QueueInfo *info)
{
	if (likely(info->state->recovery.leases == QUEUE_KNOWN))
		return;
	durable_leases_restore(rel, info);
	if (info->state->recovery.leases == QUEUE_KNOWN)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("cannot restore the leases of queue \"%s\": there are %d leases already",
					info->name, settings_max_leases),
			 errhint("Raise the setting \"%s\" and restart the server, or wait until leases end.",
					 "pgfairq.max_leases")));
}
