/*-------------------------------------------------------------------------
 *
 * archive_look.c
 *	  Looking into archives.
 *
 * The rows are read as they are, without SQL, so no code of the owner's runs.
 * Where row security would apply to the caller, nothing is shown.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/compat.h"
#include "storage/archive.h"
#include "storage/archive_look.h"

/*
 * All rows of an archive, after the name of the queue.
 */
static void
put_rows(ReturnSetInfo *rsinfo, const char *queue, Relation relation)
{
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);
	AttrNumber	columns[DONE_COLUMNS];
	Datum		values[DONE_COLUMNS + 1];
	bool		nulls[DONE_COLUMNS + 1] = {false};

	values[0] = CStringGetTextDatum(queue);
	for (int i = 0; i < DONE_COLUMNS; i++)
		columns[i] = get_attnum(RelationGetRelid(relation), archive_columns[i].name);
	columns[DONE_RESULT] = archive_result_column(relation);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < DONE_COLUMNS; i++)
		{
			nulls[i + 1] = true;
			if (columns[i] != InvalidAttrNumber)
				values[i + 1] = slot_getattr(slot, columns[i], &nulls[i + 1]);
			/* Rows that are written with SQL may have infinite times. */
			if (!nulls[i + 1] && archive_columns[i].type == TIMESTAMPTZOID)
				nulls[i + 1] = TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(values[i + 1]));
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * Return all rows of the archive of a queue, whose table is given, if it has
 * one that the caller may read.
 */
void
archive_put_rows(ReturnSetInfo *rsinfo, const char *queue, Oid table)
{
	char		name[NAMEDATALEN];
	ArchiveIndexes indexes;
	Oid			oid;
	Relation	queue_table;
	Relation	relation;

	archive_name(queue, name);
	oid = get_relname_relid(name, queue_catalog_schema(false));
	if (!OidIsValid(oid) ||
		pg_class_aclcheck(oid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return;
	queue_table = try_relation_open(table, AccessShareLock);
	if (queue_table == NULL)
		return;
	relation = try_relation_open(oid, AccessShareLock);
	if (relation != NULL)
	{
		if (archive_problem(relation, queue_table->rd_rel->relowner, &indexes) == NULL &&
			check_enable_rls(oid, InvalidOid, true) != RLS_ENABLED)
			put_rows(rsinfo, queue, relation);
		relation_close(relation, AccessShareLock);
	}
	relation_close(queue_table, AccessShareLock);
}

/*
 * A copy of a value of a row; returns whether it is not null.
 */
static bool
copy_value(TupleTableSlot *slot, AttrNumber column, Datum *value)
{
	bool		isnull;
	Datum		stored = slot_getattr(slot, column, &isnull);

	if (!isnull)
		*value = PointerGetDatum(PG_DETOAST_DATUM_COPY(stored));
	return !isnull;
}

static void
copy_task(TupleTableSlot *slot, Relation relation, ArchivedTask *task)
{
	AttrNumber	column = archive_result_column(relation);
	bool		isnull;

	if (!copy_value(slot, get_attnum(RelationGetRelid(relation), "outcome"), &task->outcome))
		task->outcome = CStringGetTextDatum("");
	task->done_at = slot_getattr(slot, get_attnum(RelationGetRelid(relation), "done_at"), &isnull);
	task->has_error = copy_value(slot, get_attnum(RelationGetRelid(relation), "last_error"),
								 &task->last_error);
	task->has_result = column != InvalidAttrNumber && copy_value(slot, column, &task->result);
}

/*
 * Find a task by the index on ids; without one, as in a restored archive of
 * before there was one, by reading all rows.
 */
static bool
find_row(Relation relation, const Archive *archive, int64 id, Snapshot snapshot,
		 ArchivedTask *task)
{
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	bool		by_index = OidIsValid(archive->indexes.by_id);
	ScanKeyData key;
	bool		found;

	ScanKeyInit(&key, by_index ? 1 : archive->id, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(id));
	if (by_index)
	{
		Relation	index = index_open(archive->indexes.by_id, AccessShareLock);
		IndexScanDesc scan = fairq_index_beginscan(relation, index, snapshot, 1);

		index_rescan(scan, &key, 1, NULL, 0);
		found = index_getnext_slot(scan, ForwardScanDirection, slot);
		if (found)
			copy_task(slot, relation, task);
		index_endscan(scan);
		index_close(index, AccessShareLock);
	}
	else
	{
		TableScanDesc scan = table_beginscan(relation, snapshot, 1, &key);

		found = table_scan_getnextslot(scan, ForwardScanDirection, slot);
		if (found)
			copy_task(slot, relation, task);
		table_endscan(scan);
	}
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

/*
 * What the archive of a queue, whose table is open, says of a task.  Returns
 * false if it says nothing, or there is none that can be read.  Who may read
 * the queue may see how its tasks have ended, without privileges on the
 * archive.
 */
bool
archive_find(Relation rel, QueueInfo *info, int64 id, Snapshot snapshot, ArchivedTask *task)
{
	Archive    *archive = archive_cached(RelationGetRelid(rel));
	char		name[NAMEDATALEN];
	Relation	relation;
	Oid			oid;
	bool		found = false;

	archive_name(info->name, name);
	oid = get_relname_relid(name, RelationGetNamespace(rel));
	relation = OidIsValid(oid) ? try_relation_open(oid, AccessShareLock) : NULL;
	if (relation == NULL)
		return false;
	if (archive_look_at(archive, relation, name, rel->rd_rel->relowner) == NULL &&
		check_enable_rls(oid, InvalidOid, true) != RLS_ENABLED)
		found = find_row(relation, archive, id, snapshot, task);
	relation_close(relation, AccessShareLock);
	return found;
}

/*
 * The table that has to be dropped together with a queue's, for SQL; NULL:
 * none.  No lock is kept: two that drop the same queue would wait for each
 * other.
 */
char *
archive_table_to_drop(const char *queue, Oid table)
{
	char		name[NAMEDATALEN];
	char	   *result = NULL;
	Oid			owner = InvalidOid;
	Relation	relation;
	Oid			oid;
	ArchiveIndexes indexes;

	archive_name(queue, name);
	oid = get_relname_relid(name, queue_catalog_schema(false));
	relation = OidIsValid(oid) ? try_relation_open(table, AccessShareLock) : NULL;
	if (relation == NULL)
		return NULL;
	owner = relation->rd_rel->relowner;
	relation_close(relation, AccessShareLock);
	relation = try_relation_open(oid, AccessShareLock);
	if (relation == NULL)
		return NULL;
	if (archive_problem(relation, owner, &indexes) == NULL)
		result = pstrdup(quote_qualified_identifier(QUEUE_SCHEMA, name));
	relation_close(relation, AccessShareLock);
	return result;
}
