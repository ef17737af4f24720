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

#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_am_d.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "storage/durable_table.h"
#include "storage/own_table.h"

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
 * All rows that are there, be they of this transaction.  What others write
 * meanwhile may be seen or not.
 */
TableScanDesc
durable_table_scan(Relation table)
{
	return table_beginscan_strat(table, SnapshotSelf, 0, NULL, true, false);
}

/* The queue of the lease that a receipt names, by its row. */
Oid
durable_table_queue_of(const pg_uuid_t *receipt)
{
	Relation	table = durable_table_require(AccessShareLock);
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
 * A queue is being dropped: so are its rows.
 */
void
durable_table_forget_queue(Oid relation)
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
 * fairq_internal.durable_lease_written(): row trigger before INSERT or UPDATE
 * of fairq.durable_lease, which our own writes do not fire.  Rows that come in
 * another way, from another server say, are no leases of this one.
 */
Datum
fairq_durable_lease_written(PG_FUNCTION_ARGS)
{
	(void) own_table_trigger(fcinfo, QUEUE_SCHEMA, "durable_lease",
							 TRIGGER_EVENT_BEFORE | TRIGGER_EVENT_ROW);
	PG_RETURN_POINTER(NULL);
}
