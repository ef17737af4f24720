/*-------------------------------------------------------------------------
 *
 * own_table.c
 *	  The extension's own tables: found by name, written with SQL as their owner.
 *
 * They are ordinary tables, and their owner, who is the extension's, may have
 * changed them.  So what is written goes through the executor, with all
 * constraints and triggers that there are; and as the owner, so that whoever
 * calls needs no privileges.  The statements name schemas and operators, so
 * that the caller's search path says nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_index.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "common/run_as.h"
#include "storage/own_table.h"

/* InvalidOid: there is none. */
Oid
own_table_find(const char *schema, const char *name)
{
	Oid			namespace = get_namespace_oid(schema, true);

	return OidIsValid(namespace) ? get_relname_relid(name, namespace) : InvalidOid;
}

static void
missing(const char *schema, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("table \"%s.%s\" is missing", schema, name),
			 errhint("It is part of the extension.")));
}

Oid
own_table_require(const char *schema, const char *name)
{
	Oid			relid = own_table_find(schema, name);

	if (!OidIsValid(relid))
		missing(schema, name);
	return relid;
}

/* Who owns a table that need not be locked. */
Oid
own_table_owner(const char *schema, const char *name)
{
	Oid			owner = run_as_owner_of(own_table_find(schema, name));

	if (!OidIsValid(owner))
		missing(schema, name);
	return owner;
}

Relation
own_table_open(const char *schema, const char *name, LOCKMODE lockmode)
{
	Relation	table = try_table_open(own_table_require(schema, name), lockmode);

	if (table == NULL)
		missing(schema, name);
	return table;
}

/* A column that is not null, of the table as sql/install makes it. */
Datum
own_table_column(Relation table, HeapTuple tuple, AttrNumber column)
{
	bool		isnull;

	return heap_getattr(tuple, column, RelationGetDescr(table), &isnull);
}

/* An index of the table that has all of its rows, by its name. */
Relation
own_table_index(Relation table, const char *name)
{
	Oid			relid = get_relname_relid(name, RelationGetNamespace(table));
	Relation	index = OidIsValid(relid) ? try_relation_open(relid, AccessShareLock) : NULL;

	if (index == NULL || index->rd_index == NULL || !index->rd_index->indisvalid ||
		index->rd_index->indrelid != RelationGetRelid(table) ||
		index->rd_rel->relam != BTREE_AM_OID ||
		!heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("table \"%s.%s\" has no valid index \"%s\"",
						get_namespace_name(RelationGetNamespace(table)),
						RelationGetRelationName(table), name),
				 errhint("Undo the change that was made to the table.")));
	return index;
}

/*
 * Begin to read the rows of a queue, whose name is the first column of the
 * table and of the index.  keys[0] is for it; n: how many keys there are.
 */
void
own_table_scan(OwnScan *scan, Relation table, const char *index, const char *queue,
			   ScanKey keys, int n)
{
	ScanKeyInit(&keys[0], OWN_TABLE_QUEUE, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(queue));
	scan->index = own_table_index(table, index);
	InitDirtySnapshot(scan->dirty);
	scan->table = table;
	scan->scan = systable_beginscan_ordered(table, scan->index, &scan->dirty, n, keys);
}

void
own_table_scan_end(OwnScan *scan)
{
	systable_endscan_ordered(scan->scan);
	index_close(scan->index, AccessShareLock);
}

/*
 * Begin to read the rows of a queue, whose name is the first column of the
 * table and of its first index; if its owner has dropped that, without.
 */
SysScanDesc
own_table_rows_of(Relation table, const char *queue, Snapshot snapshot)
{
	List	   *indexes = RelationGetIndexList(table);
	ScanKeyData key;

	ScanKeyInit(&key, OWN_TABLE_QUEUE, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(queue));
	return systable_beginscan(table, indexes != NIL ? linitial_oid(indexes) : InvalidOid,
							  indexes != NIL, snapshot, 1, &key);
}

/*
 * A plan that is kept.  The caller has connected to SPI.
 */
SPIPlanPtr
own_table_prepare(const char *sql, int nargs, Oid *types)
{
	SPIPlanPtr	plan = SPI_prepare(sql, nargs, types);

	if (plan == NULL || SPI_keepplan(plan) != 0)
		elog(ERROR, "SPI_prepare failed (%s): %s", SPI_result_code_string(SPI_result), sql);
	return plan;
}

/*
 * Run a statement as the owner of its table.  The caller has connected to SPI,
 * and finds the rows there.  Returns how many.
 */
uint64
own_table_execute(Oid owner, OwnStatement *statement, Datum *values, const char *nulls)
{
	RunAs		context;
	int			result;

	run_as_role(owner, &context);
	if (statement->plan == NULL)
		statement->plan = own_table_prepare(statement->text, statement->parameters,
											statement->types);
	result = SPI_execute_plan(statement->plan, values, nulls, false, 0);
	run_as_end(&context);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan failed (%s): %s", SPI_result_code_string(result),
			 statement->text);
	return SPI_processed;
}

/*
 * Run a statement on a table that returns nothing.
 */
void
own_table_run(const char *schema, const char *name, OwnStatement *statement, Datum *values)
{
	SPI_connect();
	(void) own_table_execute(own_table_owner(schema, name), statement, values, NULL);
	SPI_finish();
}

/*
 * What a trigger function of one of our tables is called with.  event: when the
 * trigger is fired, and whether for each row.
 *
 * Any table can be made to call a trigger function, with rows that have nothing
 * of ours.  So a call for another table is refused (39P01) before anything of
 * the row is read.
 */
TriggerData *
own_table_trigger(FunctionCallInfo fcinfo, const char *schema, const char *name,
				  TriggerEvent event)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		(trigger->tg_event & (TRIGGER_EVENT_TIMINGMASK | TRIGGER_EVENT_ROW)) != event ||
		RelationGetRelid(trigger->tg_relation) != own_table_find(schema, name))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("fairq_internal.%s() is a trigger of \"%s.%s\" alone",
						get_func_name(fcinfo->flinfo->fn_oid), schema, name),
				 errhint("Drop the trigger that calls it.")));
	return trigger;
}
