/*-------------------------------------------------------------------------
 *
 * node_table.c
 *	  The number that this database has as a node.
 *
 * A row of the table fairq_internal.node, so that a standby has the number of
 * its primary, and a database that is restored the one that it had.  There is
 * at most one row; none means 0.
 *
 * What a backend knows of a queue has the number beside the queue's settings,
 * and is void when the row is written: its trigger says so of all queues of
 * the database.  So the number is in force when the transaction commits, as
 * settings are, and nothing that claims or enqueues looks at the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/rel.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/node_number.h"
#include "storage/node_table.h"
#include "storage/own_table.h"
#include "storage/queue_catalog.h"

/* The column of the table, as sql/install makes it. */
#define NODE_NUMBER		1

/*
 * The number of this node.  *own: this transaction has written it, so that it
 * is not in force yet.
 */
int
node_table_read(bool *own)
{
	Relation	table = own_table_open(INTERNAL_SCHEMA, NODE_TABLE, AccessShareLock);
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	int			node = 0;

	*own = false;
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		number = heap_getattr(tuple, NODE_NUMBER, RelationGetDescr(table), &isnull);

		*own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
		/* The owner of the table may have dropped its constraints. */
		if (!isnull && DatumGetInt32(number) >= 0 && DatumGetInt32(number) <= NODE_MAX)
			node = DatumGetInt32(number);
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return node;
}

/*
 * The table, if the current role owns it: only the owner of the extension's
 * tables gives numbers.
 */
Oid
node_table_require_owned(void)
{
	Oid			table = own_table_require(INTERNAL_SCHEMA, NODE_TABLE);

	if (!fairq_relation_ownercheck(table, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of table \"%s.%s\"", INTERNAL_SCHEMA, NODE_TABLE),
				 errhint("Use the role that has created the extension.")));
	return table;
}

/*
 * Write the number, which the caller has checked.
 */
void
node_table_write(int node)
{
	static OwnStatement put = {
		.text = "INSERT INTO " INTERNAL_SCHEMA "." NODE_TABLE " AS n (number) VALUES ($1)"
		" ON CONFLICT (single) DO UPDATE SET number = excluded.number",
		.parameters = 1,
		.types = {INT4OID}
	};
	Datum		value = Int32GetDatum(node);
	Relation	table;

	AssertOidLocked(own_table_require(INTERNAL_SCHEMA, NODE_TABLE));
	table = own_table_open(INTERNAL_SCHEMA, NODE_TABLE, RowExclusiveLock);
	own_table_insert(table, &put, &value);
	table_close(table, NoLock);
}
