/*-------------------------------------------------------------------------
 *
 * node_table.c
 *	  The number that this database has as a node, and what it is to a cluster.
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
 * What proxies are held to (proxy_calls.c) a backend keeps by itself, until it
 * hears that the table was written.  It hears of that at the latest when it has
 * locked a queue's table.
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
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/rel.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/node_number.h"
#include "storage/node_table.h"
#include "storage/own_table.h"
#include "storage/queue_catalog.h"

/* Columns of the table, as sql/install makes it. */
#define NODE_NUMBER		1
#define NODE_MEMBERSHIP	3

static const char *const memberships[] = {"alone", "active", "draining", "dropped"};

/* The table that facts are of, InvalidOid: they are not known. */
static Oid	known = InvalidOid;
static NodeFacts facts;

/* Counts invalidations, to notice one that comes while the row is read. */
static uint64 invalidations = 0;

static void
forget(Datum arg, Oid relation)
{
	invalidations++;
	if (!OidIsValid(relation) || relation == known)
		known = InvalidOid;
}

/*
 * Read the row.  Returns whether this transaction has written it, so that it is
 * not in force yet.  The owner of the table may have dropped its constraints.
 */
static bool
read_row(NodeFacts *result, Oid *relation)
{
	Relation	table = own_table_open(INTERNAL_SCHEMA, NODE_TABLE, AccessShareLock);
	SysScanDesc scan = systable_beginscan(table, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	bool		own = false;

	*relation = RelationGetRelid(table);
	result->number = 0;
	result->membership = NODE_ALONE;
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, NODE_NUMBER, RelationGetDescr(table), &isnull);

		own = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
		if (!isnull && DatumGetInt32(value) >= 0 && DatumGetInt32(value) <= NODE_MAX)
			result->number = DatumGetInt32(value);
		value = heap_getattr(tuple, NODE_MEMBERSHIP, RelationGetDescr(table), &isnull);
		for (int i = 0; i < (int) lengthof(memberships) && !isnull; i++)
			if (strcmp(TextDatumGetCString(value), memberships[i]) == 0)
				result->membership = (NodeMembership) i;
	}
	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return own;
}

/*
 * The number of this node.  *own: this transaction has written it.
 */
int
node_table_read(bool *own)
{
	NodeFacts	row;
	Oid			relation;

	*own = read_row(&row, &relation);
	return row.number;
}

/*
 * What this node is, as it was when the transaction last heard of a change.
 */
const NodeFacts *
node_table_facts(void)
{
	static bool registered = false;
	uint64		before;
	Oid			relation;

	if (likely(OidIsValid(known)))
		return &facts;
	if (!registered)
	{
		CacheRegisterRelcacheCallback(forget, (Datum) 0);
		registered = true;
	}
	before = invalidations;
	(void) read_row(&facts, &relation);
	if (before == invalidations)
		known = relation;
	return &facts;
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
 * Write the number, which the caller has checked.  One of another number is a
 * node that no proxy has yet.
 */
void
node_table_write(int node)
{
	static OwnStatement put = {
		.text = "INSERT INTO " INTERNAL_SCHEMA "." NODE_TABLE " AS n (number) VALUES ($1)"
		" ON CONFLICT (single) DO UPDATE SET number = excluded.number,"
		" membership = CASE WHEN n.number OPERATOR(pg_catalog.=) excluded.number"
		" THEN n.membership ELSE 'alone' END",
		.parameters = 1,
		.types = {INT4OID}
	};
	Datum		value = Int32GetDatum(node);

	AssertOidLocked(own_table_require(INTERNAL_SCHEMA, NODE_TABLE));
	own_table_run(INTERNAL_SCHEMA, NODE_TABLE, &put, &value);
}
