/*-------------------------------------------------------------------------
 *
 * durable_table.c
 *	  The table of durable leases, fairq.durable_lease, as a whole.
 *
 * The table is the extension's, one for all queues of the database, and so no
 * dump has its rows; a trigger keeps out what comes by SQL, COPY or logical
 * replication.  It has no index: the lease table knows where each row is.  Its
 * rows are written directly, so no privileges on it are needed, and no role has
 * any.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_am_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "storage/durable_leases.h"
#include "storage/own_table.h"

PG_FUNCTION_INFO_V1(fairq_durable_lease_written);

/*
 * Open the table; NULL if there is none, for it is being dropped with the
 * extension, or the database does not have that.  Waits for its lock in the
 * mode that is asked for.
 */
Relation
durable_table_open(LOCKMODE lockmode)
{
	Oid			relid = queue_catalog_member("durable_lease");

	return OidIsValid(relid) ? try_relation_open(relid, lockmode) : NULL;
}

/*
 * Open the table to write or look for rows.  Whoever does has a queue open, so
 * the extension is here, and the name is enough.  An error if the table is not
 * as the extension has made it: one with an index would have rows that the
 * index does not know.
 */
Relation
durable_table_require(LOCKMODE lockmode)
{
	Relation	table = own_table_open(QUEUE_SCHEMA, "durable_lease", lockmode);

	/* We write no index entries. */
	if (table->rd_rel->relam != HEAP_TABLE_AM_OID ||
		RelationGetNumberOfAttributes(table) != DURABLE_COLUMNS ||
		(table->rd_rel->relhasindex && RelationGetIndexList(table) != NIL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("cannot use table \"%s.%s\" for leases", QUEUE_SCHEMA,
						RelationGetRelationName(table)),
				 errhint("Undo the change that was made to the table; drop indexes on it.")));
	return table;
}

/*
 * The rows that are there with a value in a column, be they of this
 * transaction; equal: the function that compares it.  What others write
 * meanwhile may be seen or not.
 *
 * SnapshotSelf takes no snapshot, so it also sees what has committed since the
 * transaction began: a lease that another backend has just been granted.  The
 * caller ends the scan.
 */
SysScanDesc
durable_table_scan(Relation table, DurableColumn column, RegProcedure equal, Datum value)
{
	ScanKeyData key;

	ScanKeyInit(&key, column + 1, BTEqualStrategyNumber, equal, value);
	return systable_beginscan(table, InvalidOid, false, SnapshotSelf, 1, &key);
}

/*
 * The queue of the lease that a receipt names, by its row; InvalidOid: it has
 * none.  Reads all rows, for there is no index: so the caller sees to it that
 * this is rare (find_restored in settle.c).  The lock on the table is
 * released; the queue may be gone as soon as this returns.
 */
Oid
durable_table_queue_of(const pg_uuid_t *receipt)
{
	Relation	table = durable_table_require(AccessShareLock);
	SysScanDesc scan = durable_table_scan(table, DURABLE_RECEIPT, F_UUID_EQ,
										  UUIDPGetDatum(receipt));
	HeapTuple	tuple = systable_getnext(scan);
	Oid			queue = HeapTupleIsValid(tuple) ?
		DatumGetObjectId(own_table_column(table, tuple, DURABLE_QUEUE + 1)) : InvalidOid;

	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return queue;
}

/*
 * A queue is being dropped: so are its rows, in the same transaction.  The
 * caller has its table locked against all others, so no row of it comes or
 * changes.  The lock on fairq.durable_lease stays until the end.
 */
void
durable_table_forget_queue(Oid relation)
{
	Relation	table = durable_table_open(RowExclusiveLock);
	SysScanDesc scan;
	HeapTuple	tuple;

	if (table == NULL)
		return;
	scan = durable_table_scan(table, DURABLE_QUEUE, F_OIDEQ, ObjectIdGetDatum(relation));
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		simple_heap_delete(table, &tuple->t_self);
	}
	systable_endscan(scan);
	table_close(table, NoLock);
}

/*
 * fairq_internal.durable_lease_written(): row trigger before INSERT or UPDATE
 * of fairq.durable_lease, which our own writes do not fire.  Rows that come in
 * another way, from another server say, are no leases of this one.
 *
 * Returns NULL, so that the row is passed over without an error.
 */
Datum
fairq_durable_lease_written(PG_FUNCTION_ARGS)
{
	(void) own_table_trigger(fcinfo, QUEUE_SCHEMA, "durable_lease",
							 TRIGGER_EVENT_BEFORE | TRIGGER_EVENT_ROW);
	PG_RETURN_POINTER(NULL);
}
