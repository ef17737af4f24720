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
#include "storage/queue_open.h"
#include "storage/row_reader.h"

/* Where an archive has its columns. */
static void
find_columns(Relation relation, AttrNumber *columns)
{
	for (int i = 0; i < DONE_COLUMNS; i++)
		columns[i] = get_attnum(RelationGetRelid(relation), archive_columns[i].name);
	for (int i = DONE_REQUIRED; i < DONE_COLUMNS; i++)
		columns[i] = archive_optional_column(relation, i);
}

/* The columns of a row. */
static void
read_row(TupleTableSlot *slot, const AttrNumber *columns, Datum *values, bool *nulls)
{
	for (int i = 0; i < DONE_COLUMNS; i++)
	{
		nulls[i] = true;
		if (columns[i] != InvalidAttrNumber)
			values[i] = slot_getattr(slot, columns[i], &nulls[i]);
		/* Rows that are written with SQL may have infinite times. */
		if (!nulls[i] && archive_columns[i].type == TIMESTAMPTZOID)
			nulls[i] = TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(values[i]));
	}
}

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
	find_columns(relation, columns);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		read_row(slot, columns, values + 1, nulls + 1);
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
 * Open the archive of a queue that the caller is to look into; NULL: it has
 * none.  The queue's table is left locked, so that what the rows lead to stays.
 */
static Relation
open_to_look(const char *queue, ArchiveIndexes *indexes)
{
	char		name[NAMEDATALEN];
	Oid			table = queue_catalog_relation(queue);
	Oid			oid;
	Relation	queue_table;
	Relation	relation;
	const char *problem;

	if (!OidIsValid(table))
		queue_open_unknown(queue);
	archive_name(queue, name);
	oid = get_relname_relid(name, queue_catalog_schema(false));
	if (!OidIsValid(oid))
		return NULL;
	if (pg_class_aclcheck(oid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for the done tasks of queue \"%s\"", queue),
				 errhint("The privilege %s on table \"%s.%s\" is required.",
						 "SELECT", QUEUE_SCHEMA, name)));
	queue_table = try_relation_open(table, AccessShareLock);
	if (queue_table == NULL)
		return NULL;			/* dropped just now */
	relation = try_relation_open(oid, AccessShareLock);
	if (relation == NULL)
	{
		relation_close(queue_table, NoLock);
		return NULL;
	}
	problem = archive_problem(relation, queue_table->rd_rel->relowner, indexes);
	if (problem == NULL && check_enable_rls(oid, InvalidOid, true) == RLS_ENABLED)
		problem = "It has row-level security, whose policies are not applied here.";
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("cannot look for done tasks of queue \"%s\" in table \"%s.%s\"",
						queue, QUEUE_SCHEMA, name),
				 errdetail_internal("%s", problem),
				 errhint("Undo the change that was made to the table.")));
	relation_close(queue_table, NoLock);
	return relation;
}

/* Is a column of text as asked for (NULL: in any way)? */
static bool
text_is(TupleTableSlot *slot, AttrNumber column, const text *wanted)
{
	bool		isnull;
	Datum		value;

	if (wanted == NULL)
		return true;
	value = slot_getattr(slot, column, &isnull);
	if (isnull)
		return false;
	return row_reader_same_text(DatumGetTextPP(value), wanted);
}

/*
 * Look at the rows of a page in one stretch of the index on (done_at, id),
 * which the keys bound, backwards.  Returns false when enough was looked at.
 */
static bool
look_back(Relation relation, const ArchiveIndexes *indexes, ScanKey keys, int n,
		  int *rows, ArchivePage *page)
{
	Relation	index = index_open(indexes->by_time, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	IndexScanDesc scan = fairq_index_beginscan(relation, index, GetActiveSnapshot(), n);
	AttrNumber	columns[DONE_COLUMNS];
	bool		end = false;

	find_columns(relation, columns);
	index_rescan(scan, keys, n, NULL, 0);
	while (*rows < page->max_rows && page->n < page->max_tasks &&
		   !(end = !index_getnext_slot(scan, BackwardScanDirection, slot)))
	{
		bool		no_time;
		bool		no_id;
		Datum		time = slot_getattr(slot, columns[DONE_DONE_AT], &no_time);
		Datum		id = slot_getattr(slot, columns[DONE_ID], &no_id);

		CHECK_FOR_INTERRUPTS();
		/* A row that was written with SQL, and is in no place of the order. */
		if (no_time || no_id)
			continue;
		page->last_time = DatumGetTimestampTz(time);
		page->last_id = DatumGetInt64(id);
		(*rows)++;
		if (!text_is(slot, columns[DONE_OUTCOME], page->outcome) ||
			!text_is(slot, columns[DONE_GROUP_KEY], page->group))
			continue;
		page->times[page->n] = TimestampTzGetDatum(page->last_time);
		page->ids[page->n++] = Int64GetDatum(page->last_id);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	return end;
}

/*
 * A part of the archive of a queue, which the caller may read.  Rows whose
 * time is not finite are in no page.
 */
void
archive_page(const char *queue, ArchivePage *page)
{
	ArchiveIndexes indexes;
	Relation	relation = open_to_look(queue, &indexes);
	ScanKeyData keys[2];
	int			rows = 0;

	page->n = 0;
	page->more = false;
	if (relation == NULL)
		return;
	/* First what was done at the very time: one commit ends many. */
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ,
				TimestampTzGetDatum(page->before));
	ScanKeyInit(&keys[1], 2, BTLessStrategyNumber, F_INT8LT, Int64GetDatum(page->before_id));
	page->more = !TIMESTAMP_NOT_FINITE(page->before) &&
		!look_back(relation, &indexes, keys, 2, &rows, page);
	if (!page->more)
	{
		ScanKeyInit(&keys[0], 1, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
					TimestampTzGetDatum(page->before));
		ScanKeyInit(&keys[1], 1, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT,
					TimestampTzGetDatum(DT_NOBEGIN));
		page->more = !look_back(relation, &indexes, keys, 2, &rows, page);
	}
	relation_close(relation, NoLock);
}

/*
 * What the archive of a queue, which the caller may read, has of a task: that
 * which was done at a time, or (DT_NOEND) the latest.  An id is given twice
 * only to tasks that were lost in a failover.
 */
void
archive_put_task(ReturnSetInfo *rsinfo, const char *queue, int64 id, TimestampTz done_at)
{
	ArchiveIndexes indexes;
	Relation	relation = open_to_look(queue, &indexes);
	AttrNumber	columns[DONE_COLUMNS];
	Datum		values[DONE_COLUMNS];
	bool		nulls[DONE_COLUMNS];
	bool		any_time = (done_at == DT_NOEND);
	TimestampTz latest = DT_NOBEGIN;
	HeapTuple	found = NULL;
	TupleTableSlot *slot;
	ScanKeyData keys[2];
	IndexScanDesc scan;
	Relation	index;

	if (relation == NULL)
		return;
	if (any_time && !OidIsValid(indexes.by_id))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the done tasks of queue \"%s\" have no index on column \"id\"", queue),
				 errhint("Set keep_done with fairq.alter_queue(), which creates it.")));
	find_columns(relation, columns);
	slot = table_slot_create(relation, NULL);
	index = index_open(any_time ? indexes.by_id : indexes.by_time, AccessShareLock);
	if (!any_time)
		ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ,
					TimestampTzGetDatum(done_at));
	ScanKeyInit(&keys[any_time ? 0 : 1], any_time ? 1 : 2, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(id));
	scan = fairq_index_beginscan(relation, index, GetActiveSnapshot(), any_time ? 1 : 2);
	index_rescan(scan, keys, any_time ? 1 : 2, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		bool		isnull;
		Datum		time = slot_getattr(slot, columns[DONE_DONE_AT], &isnull);

		CHECK_FOR_INTERRUPTS();
		if (found != NULL && (isnull || DatumGetTimestampTz(time) <= latest))
			continue;
		if (!isnull)
			latest = DatumGetTimestampTz(time);
		found = ExecCopySlotHeapTuple(slot);
	}
	index_endscan(scan);
	index_close(index, AccessShareLock);
	if (found != NULL)
	{
		ExecForceStoreHeapTuple(found, slot, false);
		read_row(slot, columns, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	ExecDropSingleTupleTableSlot(slot);
	relation_close(relation, NoLock);
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
	AttrNumber	column = archive_optional_column(relation, DONE_RESULT);
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
