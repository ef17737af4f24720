/*-------------------------------------------------------------------------
 *
 * durable_restore.c
 *	  From the rows of durable leases to leases.
 *
 * The head of durable_leases.c says when this is done.  All leases of the
 * queue are compared with the rows of their tasks then, too (lease_rows.c).
 *
 * Locking: at most one backend restores the leases of a queue at a time
 * (queue_state_recovery_begin), and the others that need them sleep meanwhile.
 * The lock on fairq.durable_lease is taken before that, and the lock of a
 * lease's partition inside leases_restore_durable only.  So none of ours is
 * held while rows are read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/table.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "common/run_as.h"
#include "common/settings.h"
#include "shmem/groups.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/row_reader.h"

/*
 * Is the row that a scan has read a moment ago still there?  It is not if a
 * deletion has committed since, or is our own.
 */
static bool
is_live(SysScanDesc scan)
{
	return table_tuple_satisfies_snapshot(scan->heap_rel, scan->slot, SnapshotSelf);
}

/*
 * Restore the lease of a row.  Returns false if there is no room, and then the
 * queue's leases stay unknown.  tuple is what the scan has read; row reads the
 * queue's table.  *first_deadline becomes that of the lease if it is the
 * earlier one, by the wall clock.
 *
 * The group is told first that it has the task in flight, so that the lease
 * never counts for less than it does; if the lease is not restored that is
 * taken back.
 */
static bool
restore_row(RowReader *row, SysScanDesc scan, HeapTuple tuple, TimestampTz *first_deadline)
{
	QueueInfo  *info = row->info;
	Datum		values[DURABLE_COLUMNS];
	bool		nulls[DURABLE_COLUMNS];
	LeaseInfo	lease = {0};
	pg_uuid_t  *receipt;
	LeaseRef	ref;
	LeaseRestored result;

	heap_deform_tuple(tuple, RelationGetDescr(scan->heap_rel), values, nulls);
	lease.queue = queue_state_number(info->state);
	lease.task = DatumGetInt64(values[DURABLE_TASK]);
	lease.attempt = DatumGetInt32(values[DURABLE_ATTEMPT]);
	lease.started = DatumGetTimestampTz(values[DURABLE_CLAIMED_AT]);
	receipt = DatumGetUUIDP(values[DURABLE_RECEIPT]);
	/* A session of before a crash is over. */
	lease.session = DatumGetBool(values[DURABLE_OF_SESSION]) ? SESSION_OVER : NO_SESSION;
	lease.deadline = lease.session == SESSION_OVER ? 0 :
		DatumGetTimestampTz(values[DURABLE_LEASE_UNTIL]);
	lease.durable_tid = tuple->t_self;
	lease.group = FAIRQ_NO_GROUP;
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
		/* A later row is of another task: see lease_rows.c. */
		lease.enqueued_at = Min(DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT)),
								lease.started);
		lease.group = groups_adopt_lease(info->state, row_reader_class(row),
										 &name);
	}

	/* An entry first, for none can be asked for under the partition's lock. */
	(void) leases_reserve(1);
	result = leases_restore_durable(&lease, receipt, &ref);

	/*
	 * A lease that only memory knows, and not of this row: the row is right
	 * if it still is one.  It would not be if its lease had been settled for
	 * the other to begin, for rows go before leases do.
	 */
	if (result == LEASE_VOID && is_live(scan) && leases_displace(&ref))
		result = leases_restore_durable(&lease, receipt, &ref);
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
	if (!is_live(scan))
		(void) leases_drop(&ref, false, NULL);
	else
		*first_deadline = Min(*first_deadline, lease.deadline);
	return true;
}

/*
 * Read the rows of a queue.  Returns whether all of them are leases now.  On
 * return the worker is woken for the first that runs out.
 *
 * The file of the table is noted first: if it is another one when a row is
 * looked for, the rows are read again (find_row).
 */
static bool
read_rows(Relation table, Relation rel, QueueInfo *info)
{
	SysScanDesc scan;
	HeapTuple	tuple;
	RowReader	row;
	TimestampTz first_deadline = DT_NOEND;
	bool		complete = true;

	info->state->recovery.leases_file = fairq_relation_file(table);
	row_reader_begin(&row, rel, info);
	scan = durable_table_scan(table, DURABLE_QUEUE, F_OIDEQ, ObjectIdGetDatum(info->relation));
	patience_own_work(true);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		complete &= restore_row(&row, scan, tuple, &first_deadline);
	}
	patience_own_work(false);
	systable_endscan(scan);
	row_reader_end(&row);
	leases_return_reserved();
	if (first_deadline != DT_NOEND)
		worker_slots_wake_at(MyDatabaseId, first_deadline);
	return complete;
}

/*
 * It was cut short by an error or the end of the backend; another backend has
 * to do it.  Those that were restored stay, and are found known then.  Never
 * fails.
 */
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
 *
 * Does nothing if they are known, and waits for another backend that reads
 * them.  The caller has rel locked, holds no lock of ours, and asks then
 * whether they are known: there may have been no room.
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
 * taken that is leased (invariant I2).  An error if there is no room for them;
 * the caller has changed nothing before.
 */
void
durable_leases_require(Relation rel, QueueInfo *info)
{
	AssertRelationLocked(rel, AccessShareLock);
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
