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
#include "catalog/namespace.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "common/node_number.h"
#include "common/compat.h"
#include "storage/node_table.h"


/* The column of the table, as sql/install makes it. */
#define NODE_NUMBER		1

/* The table of the number; InvalidOid: there is none. */
Oid
node_table_oid(void)
{
	Oid			schema = get_namespace_oid(NODE_SCHEMA, true);

	return OidIsValid(schema) ? get_relname_relid(NODE_TABLE, schema) : InvalidOid;
}

static Oid
require_table(void)
{
	Oid			relid = node_table_oid();

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s.%s\" is missing", NODE_SCHEMA, NODE_TABLE),
				 errhint("It is part of the extension.")));
	return relid;
}

/*
 * The number of this node.  *own: this transaction has written it, so that it
 * is not in force yet.
 */
int
node_table_read(bool *own)
{
	Relation	table = table_open(require_table(), AccessShareLock);
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

/* Only the owner of the extension's tables may give the number. */
void
node_table_check_owner(void)
{
	if (!fairq_relation_ownercheck(require_table(), GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of table \"%s.%s\"", NODE_SCHEMA, NODE_TABLE),
				 errhint("Use the role that has created the extension.")));
}

/*
 * Write the number.  The caller has checked it, and may write it.
 */
void
node_table_write(int node)
{
	Oid			type = INT4OID;
	Datum		value = Int32GetDatum(node);
	int			result;

	SPI_connect();
	result = SPI_execute_with_args("INSERT INTO " NODE_SCHEMA "." NODE_TABLE " AS n (number) VALUES ($1)"
								   " ON CONFLICT (single) DO UPDATE SET number = excluded.number",
								   1, &type, &value, NULL, false, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute_with_args failed (%s)", SPI_result_code_string(result));
	SPI_finish();
}
