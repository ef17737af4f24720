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
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/relation.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "storage/archive.h"
#include "storage/queue_open.h"
#include "storage/row_reader.h"

/* The columns of a row, of which all and all_nulls are given. */
static void
pick_columns(const Datum *all, const bool *all_nulls, const AttrNumber *columns, Datum *values,
			 bool *nulls)
{
	for (int i = 0; i < DONE_COLUMNS; i++)
	{
		nulls[i] = columns[i] == InvalidAttrNumber || all_nulls[columns[i] - 1];
		if (!nulls[i])
			values[i] = all[columns[i] - 1];
		/* Rows that are written with SQL may have infinite times. */
		if (!nulls[i] && archive_columns[i].type == TIMESTAMPTZOID)
			nulls[i] = TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(values[i]));
	}
}

/* A column of a row. */
static Datum
row_column(HeapTuple tuple, Relation relation, AttrNumber column, bool *isnull)
{
	return heap_getattr(tuple, column, RelationGetDescr(relation), isnull);
}

/*
 * All rows of an archive, after the name of the queue.
 */
static void
put_rows(ReturnSetInfo *rsinfo, const char *queue, Relation relation, const ArchiveShape *shape)
{
	TupleTableSlot *slot = table_slot_create(relation, NULL);
	TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, NULL);
	Datum		values[DONE_COLUMNS + 1];
	bool		nulls[DONE_COLUMNS + 1] = {false};

	values[0] = CStringGetTextDatum(queue);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		pick_columns(slot->tts_values, slot->tts_isnull, shape->columns, values + 1, nulls + 1);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * Open the archive of a queue, whose table is given, both locked; NULL: one of
 * them was dropped just now.  *problem: what keeps it from being one (NULL:
 * nothing).
 */
static Relation
open_to_read(Oid table, Oid archive, ArchiveShape *shape, const char **problem)
{
	Relation	queue_table = try_relation_open(table, AccessShareLock);
	Relation	relation;

	if (queue_table == NULL)
		return NULL;
	relation = try_relation_open(archive, AccessShareLock);
	if (relation != NULL)
		*problem = archive_problem(relation, queue_table->rd_rel->relowner, shape);
	relation_close(queue_table, NoLock);
	if (relation == NULL)
		UnlockRelationOid(table, AccessShareLock);
	return relation;
}

/*
 * Return all rows of the archive of a queue, whose table is given, if it has
 * one that the caller may read.
 */
void
archive_put_rows(ReturnSetInfo *rsinfo, const char *queue, Oid table)
{
	char		name[NAMEDATALEN];
	ArchiveShape shape;
	Oid			oid = archive_find_table(queue, name);
	Relation	relation;
	const char *problem;

	if (!OidIsValid(oid) ||
		pg_class_aclcheck(oid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return;
	relation = open_to_read(table, oid, &shape, &problem);
	if (relation == NULL)
		return;
	if (problem == NULL && check_enable_rls(oid, InvalidOid, true) != RLS_ENABLED)
		put_rows(rsinfo, queue, relation, &shape);
	relation_close(relation, AccessShareLock);
	UnlockRelationOid(table, AccessShareLock);
}

/*
 * Open the archive of a queue that the caller is to look into; NULL: it has
 * none.  The queue's table is left locked, so that what the rows lead to stays.
 */
static Relation
open_to_look(const char *queue, ArchiveShape *shape)
{
	char		name[NAMEDATALEN];
	Oid			table = queue_catalog_relation(queue);
	Oid			oid;
	Relation	relation;
	const char *problem;

	if (!OidIsValid(table))
		queue_open_unknown(queue);
	oid = archive_find_table(queue, name);
	if (!OidIsValid(oid))
		return NULL;
	if (pg_class_aclcheck(oid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for the done tasks of queue \"%s\"", queue),
				 errhint("The privilege %s on table \"%s.%s\" is required.",
						 "SELECT", QUEUE_SCHEMA, name)));
	relation = open_to_read(table, oid, shape, &problem);
	if (relation == NULL)
		return NULL;
	if (problem == NULL && check_enable_rls(oid, InvalidOid, true) == RLS_ENABLED)
		problem = "It has row-level security, whose policies are not applied here.";
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("cannot look for done tasks of queue \"%s\" in table \"%s.%s\"",
						queue, QUEUE_SCHEMA, name),
				 errdetail_internal("%s", problem),
				 errhint("Undo the change that was made to the table.")));
	return relation;
}

/* Is a column of text as asked for (NULL: in any way)? */
static bool
text_is(HeapTuple tuple, Relation relation, AttrNumber column, const text *wanted)
{
	bool		isnull;
	Datum		value;

	if (wanted == NULL)
		return true;
	value = row_column(tuple, relation, column, &isnull);
	return !isnull && row_reader_same_text(DatumGetTextPP(value), wanted);
}

/*
 * Look at the rows of a page in one stretch of the index on (done_at, id),
 * which the keys bound, backwards.  Returns false when enough was looked at.
 */
static bool
look_back(Relation relation, const ArchiveShape *shape, ScanKey keys, int *rows,
		  ArchivePage *page)
{
	Relation	index = index_open(shape->by_time, AccessShareLock);
	SysScanDesc scan = systable_beginscan_ordered(relation, index, GetActiveSnapshot(), 2, keys);
	HeapTuple	tuple = NULL;
	bool		end = false;

	while (*rows < page->max_rows && page->n < page->max_tasks &&
		   !(end = (tuple = systable_getnext_ordered(scan, BackwardScanDirection)) == NULL))
	{
		bool		no_time;
		bool		no_id;
		Datum		time = row_column(tuple, relation, shape->columns[DONE_DONE_AT], &no_time);
		Datum		id = row_column(tuple, relation, shape->columns[DONE_ID], &no_id);

		CHECK_FOR_INTERRUPTS();
		/* A row that was written with SQL, and is in no place of the order. */
		if (no_time || no_id)
			continue;
		page->last_time = DatumGetTimestampTz(time);
		page->last_id = DatumGetInt64(id);
		(*rows)++;
		if (!text_is(tuple, relation, shape->columns[DONE_OUTCOME], page->outcome) ||
			!text_is(tuple, relation, shape->columns[DONE_GROUP_KEY], page->group))
			continue;
		page->times[page->n] = TimestampTzGetDatum(page->last_time);
		page->ids[page->n++] = Int64GetDatum(page->last_id);
	}
	systable_endscan_ordered(scan);
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
	ArchiveShape shape;
	Relation	relation = open_to_look(queue, &shape);
	ScanKeyData keys[2];
	int			rows = 0;

	page->n = 0;
	page->more = false;
	if (relation == NULL)
		return;
	/* First what was done at the very time: one commit ends many. */
	ScanKeyInit(&keys[0], shape.columns[DONE_DONE_AT], BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ,
				TimestampTzGetDatum(page->before));
	ScanKeyInit(&keys[1], shape.columns[DONE_ID], BTLessStrategyNumber,
				F_INT8LT, Int64GetDatum(page->before_id));
	page->more = !TIMESTAMP_NOT_FINITE(page->before) &&
		!look_back(relation, &shape, keys, &rows, page);
	if (!page->more)
	{
		ScanKeyInit(&keys[0], shape.columns[DONE_DONE_AT], BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
					TimestampTzGetDatum(page->before));
		ScanKeyInit(&keys[1], shape.columns[DONE_DONE_AT], BTGreaterStrategyNumber,
					F_TIMESTAMPTZ_GT, TimestampTzGetDatum(DT_NOBEGIN));
		page->more = !look_back(relation, &shape, keys, &rows, page);
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
	ArchiveShape shape;
	Relation	relation = open_to_look(queue, &shape);
	Datum		values[DONE_COLUMNS];
	bool		nulls[DONE_COLUMNS];
	bool		any_time = (done_at == DT_NOEND);
	TimestampTz latest = DT_NOBEGIN;
	HeapTuple	found = NULL;
	HeapTuple	tuple;
	ScanKeyData keys[2];
	SysScanDesc scan;
	Relation	index;

	if (relation == NULL)
		return;
	if (any_time && !OidIsValid(shape.by_id))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the done tasks of queue \"%s\" have no index on column \"id\"", queue),
				 errhint("Set keep_done with fairq.alter_queue(), which creates it.")));
	index = index_open(any_time ? shape.by_id : shape.by_time, AccessShareLock);
	ScanKeyInit(&keys[0], shape.columns[DONE_DONE_AT], BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ,
				TimestampTzGetDatum(done_at));
	ScanKeyInit(&keys[1], shape.columns[DONE_ID], BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(id));
	scan = systable_beginscan_ordered(relation, index, GetActiveSnapshot(), any_time ? 1 : 2,
									  any_time ? &keys[1] : keys);
	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		Datum		time = row_column(tuple, relation, shape.columns[DONE_DONE_AT], &isnull);

		CHECK_FOR_INTERRUPTS();
		if (found != NULL && (isnull || DatumGetTimestampTz(time) <= latest))
			continue;
		if (!isnull)
			latest = DatumGetTimestampTz(time);
		found = heap_copytuple(tuple);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	if (found != NULL)
	{
		Datum		all[MaxHeapAttributeNumber];
		bool		all_nulls[MaxHeapAttributeNumber];

		heap_deform_tuple(found, RelationGetDescr(relation), all, all_nulls);
		pick_columns(all, all_nulls, shape.columns, values, nulls);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	relation_close(relation, NoLock);
}

/*
 * A copy of a value of a row; returns whether it is not null.
 */
static bool
copy_value(HeapTuple tuple, Relation relation, AttrNumber column, Datum *value)
{
	bool		isnull = true;
	Datum		stored = column != InvalidAttrNumber ?
		row_column(tuple, relation, column, &isnull) : (Datum) 0;

	if (!isnull)
		*value = PointerGetDatum(PG_DETOAST_DATUM_COPY(stored));
	return !isnull;
}

/*
 * Find a task by the index on ids; without one, as in a restored archive of
 * before there was one, by reading all rows.
 */
static bool
find_row(Relation relation, const Archive *archive, int64 id, Snapshot snapshot,
		 ArchivedTask *task)
{
	const ArchiveShape *shape = &archive->shape;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		isnull;

	ScanKeyInit(&key, shape->columns[DONE_ID], BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
	scan = systable_beginscan(relation, shape->by_id,
							  OidIsValid(shape->by_id), snapshot, 1, &key);
	tuple = systable_getnext(scan);
	if (tuple != NULL)
	{
		if (!copy_value(tuple, relation, shape->columns[DONE_OUTCOME], &task->outcome))
			task->outcome = CStringGetTextDatum("");
		task->done_at = row_column(tuple, relation, shape->columns[DONE_DONE_AT], &isnull);
		task->has_error = copy_value(tuple, relation, shape->columns[DONE_LAST_ERROR],
									 &task->last_error);
		task->has_result = copy_value(tuple, relation, shape->columns[DONE_RESULT], &task->result);
	}
	systable_endscan(scan);
	return tuple != NULL;
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
	Oid			oid = archive_find_table(info->name, name);
	Relation	relation;
	bool		found = false;

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
 * none.  No lock is kept, and none on the queue's table while the archive's is
 * waited for: two that drop the same queue would wait for each other, and so
 * would an owner who has locked the archive.
 */
char *
archive_table_to_drop(const char *queue, Oid table)
{
	char		name[NAMEDATALEN];
	char	   *result = NULL;
	Oid			oid = archive_find_table(queue, name);
	Oid			owner = run_as_owner_of(table);
	Relation	relation;
	ArchiveShape shape;

	relation = OidIsValid(oid) ? try_relation_open(oid, AccessShareLock) : NULL;
	if (relation == NULL)
		return NULL;
	if (archive_problem(relation, owner, &shape) == NULL)
		result = quote_qualified_identifier(QUEUE_SCHEMA, name);
	relation_close(relation, AccessShareLock);
	return result;
}
