/*-------------------------------------------------------------------------
 *
 * archive.c
 *	  Finished tasks that are kept for a while.
 *
 * A queue with the setting keep_done has a table fairq.done_<queue>.  A
 * statement that finishes tasks notes them in a batch (archive_add), and at
 * its end writes the batch with one INSERT (archive_write), in the
 * transaction that deletes the rows.  So a task is in one of the two tables,
 * whatever becomes of the transaction.  Without the setting nothing of this
 * happens.  archive_look.c reads it.
 *
 * The archive is an ordinary table and is written with ordinary SQL, so that
 * triggers, constraints, indexes and columns that a user adds to it are
 * honoured.  It is written as the queue's owner, in a restricted context, for
 * who may acknowledge need not have privileges on it.  Therefore it must be
 * the same owner's: code attached to another role's table is not run as the
 * queue's owner.
 *
 * The archive depends on the queue's table, so DROP TABLE takes both.  A dump
 * does not carry that dependency; maintenance makes it anew.
 *
 * Locking: the archive is locked after the queue's table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/queryenvironment.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/run_as.h"
#include "storage/archive.h"
#include "storage/own_table.h"
#include "storage/queue_catalog.h"
#include "xact/pending_queue.h"

/* How a batch is named in the INSERT. */
#define BATCH_NAME		"fairq_finished"

const ArchiveDefinition archive_columns[DONE_COLUMNS] = {
	{"id", "pg_catalog.int8 NOT NULL", INT8OID, COLUMN_ID},
	{"enqueued_at", "pg_catalog.timestamptz NOT NULL", TIMESTAMPTZOID, COLUMN_ENQUEUED_AT},
	{"claimed_at", "pg_catalog.timestamptz", TIMESTAMPTZOID, NOT_COPIED},
	{"done_at", "pg_catalog.timestamptz NOT NULL", TIMESTAMPTZOID, NOT_COPIED},
	{"run_at", "pg_catalog.timestamptz", TIMESTAMPTZOID, COLUMN_RUN_AT},
	{"priority", "pg_catalog.int8 NOT NULL", INT8OID, COLUMN_PRIORITY},
	{"cost", "pg_catalog.float4 NOT NULL", FLOAT4OID, COLUMN_COST},
	{"attempts", "pg_catalog.int4 NOT NULL", INT4OID, NOT_COPIED},
	{"outcome", "pg_catalog.text NOT NULL", TEXTOID, NOT_COPIED},
	{"group_key", "pg_catalog.text NOT NULL", TEXTOID, COLUMN_GROUP_KEY},
	{"payload", "pg_catalog.jsonb NOT NULL", JSONBOID, COLUMN_PAYLOAD},
	{"headers", "pg_catalog.jsonb", JSONBOID, COLUMN_HEADERS},
	{"unique_key", "pg_catalog.text", TEXTOID, COLUMN_UNIQUE_KEY},
	{"last_error", "pg_catalog.text", TEXTOID, COLUMN_LAST_ERROR},
	{"result", "pg_catalog.jsonb", JSONBOID, NOT_COPIED},
	{"name", "pg_catalog.text", TEXTOID, COLUMN_NAME},
	{"lost", "pg_catalog.int4", INT4OID, COLUMN_LOST},
	{"history", "pg_catalog.jsonb", JSONBOID, COLUMN_HISTORY},
	{"subgroup_key", "pg_catalog.text", TEXTOID, COLUMN_SUBGROUP_KEY},
};

const char *const archive_outcomes[] = {
	[ARCHIVE_ACKED] = "acked",
	[ARCHIVE_CANCELLED] = "cancelled",
	[ARCHIVE_DEAD] = "dead",
	[ARCHIVE_EXPIRED] = "expired",
};

static HTAB *archives = NULL;

/* Counts all invalidations, to notice one that comes while one is looked at. */
static uint64 invalidations = 0;

static void
relcache_callback(Datum arg, Oid relation)
{
	HASH_SEQ_STATUS status;
	Archive    *archive;

	invalidations++;
	if (archives == NULL)
		return;
	hash_seq_init(&status, archives);
	while ((archive = hash_seq_search(&status)) != NULL)
	{
		if (!OidIsValid(relation) || archive->relation == relation ||
			archive->table == relation)
			archive->valid = false;
	}
}

/*
 * Register for invalidations.  Called once a process, from _PG_init.
 */
void
archive_register(void)
{
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
}

/* ----------------------------------------------------------------
 * The table
 * ----------------------------------------------------------------
 */

/*
 * The table of a queue's archive, whose name is copied to name; InvalidOid:
 * there is none.  Nothing of the extension and nothing else of a queue has a
 * name that begins like that.
 */
Oid
archive_find_table(const char *queue, char *name)
{
	snprintf(name, NAMEDATALEN, "done_%s", queue);
	return get_relname_relid(name, queue_catalog_schema(false));
}

/* Is column n of an index this one of the table, in the usual order? */
static bool
has_key(Relation index, int n, AttrNumber column, Oid type)
{
	return n < index->rd_index->indnkeyatts && index->rd_index->indkey.values[n] == column &&
		index->rd_indoption[n] == 0 &&
		index->rd_opfamily[n] == get_opclass_family(GetDefaultOpClass(type, BTREE_AM_OID));
}

/*
 * Note what an index is good for: on (done_at, id), or on id, of all rows.
 */
static void
note_index(Relation index, ArchiveShape *shape)
{
	if (!index->rd_index->indisvalid || index->rd_rel->relam != BTREE_AM_OID ||
		table_check_index_is_partial(index))
		return;
	if (index->rd_index->indnkeyatts == 2 &&
		has_key(index, 0, shape->columns[DONE_DONE_AT], TIMESTAMPTZOID) &&
		has_key(index, 1, shape->columns[DONE_ID], INT8OID))
		shape->by_time = RelationGetRelid(index);
	if (has_key(index, 0, shape->columns[DONE_ID], INT8OID))
		shape->by_id = RelationGetRelid(index);
}

/*
 * A column of an archive that it may lack.  InvalidAttrNumber: it has none, for
 * it is of an earlier version, or one of a user's own making.
 */
static AttrNumber
optional_column(Relation relation, ArchiveColumn column)
{
	AttrNumber	number = get_attnum(RelationGetRelid(relation), archive_columns[column].name);
	Form_pg_attribute attribute;

	Assert(column >= DONE_REQUIRED && column < DONE_COLUMNS);
	if (number == InvalidAttrNumber)
		return number;
	attribute = TupleDescAttr(RelationGetDescr(relation), number - 1);
	return attribute->atttypid == archive_columns[column].type &&
		attribute->attgenerated == '\0' &&
		attribute->attidentity == '\0' ? number : InvalidAttrNumber;
}

/*
 * What keeps a table from being the archive of an owner's queue; NULL: nothing,
 * and *found is what it is like.
 */
const char *
archive_problem(Relation relation, Oid owner, ArchiveShape *found)
{
	List	   *indexes;
	ListCell   *lc;

	if (relation->rd_rel->relkind != RELKIND_RELATION)
		return "It is not an ordinary table.";
	if (!RelationIsPermanent(relation) && RecoveryInProgress())
		return "It is unlogged, and so not on this standby.";
	if (relation->rd_rel->relowner != owner)
		return "It belongs to another role than the queue.";
	if (relation->rd_rules != NULL)
		return "It has rules.";
	for (int i = 0; i < DONE_REQUIRED; i++)
	{
		found->columns[i] = get_attnum(RelationGetRelid(relation), archive_columns[i].name);
		if (found->columns[i] == InvalidAttrNumber)
			return psprintf("Column \"%s\" is missing.", archive_columns[i].name);
		if (TupleDescAttr(RelationGetDescr(relation), found->columns[i] - 1)->atttypid !=
			archive_columns[i].type)
			return psprintf("Column \"%s\" has another type.", archive_columns[i].name);
	}

	for (int i = DONE_REQUIRED; i < DONE_COLUMNS; i++)
		found->columns[i] = optional_column(relation, i);

	found->by_time = found->by_id = InvalidOid;
	indexes = RelationGetIndexList(relation);
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		note_index(index, found);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	if (!OidIsValid(found->by_time))
		return "It has no valid index on columns \"done_at\" and \"id\".";
	return NULL;
}

static bool
depends_on(Oid relation, Oid table)
{
	Relation	rel = table_open(DependRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relation));
	scan = systable_beginscan(rel, DependDependerIndexId, true, NULL, 2, keys);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		found |= (form->refclassid == RelationRelationId &&
				  form->refobjid == table && form->objsubid == 0 &&
				  form->deptype == DEPENDENCY_AUTO);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Have the archive go when the queue's table goes.
 */
void
archive_bind(Oid relation, Oid table)
{
	ObjectAddress archive;
	ObjectAddress queue;

	if (depends_on(relation, table))
		return;
	ObjectAddressSet(archive, RelationRelationId, relation);
	ObjectAddressSet(queue, RelationRelationId, table);
	recordDependencyOn(&archive, &queue, DEPENDENCY_AUTO);
}

/*
 * The command that gives an archive those of a set of columns that no column
 * has the name of; NULL: there are none.
 */
const char *
archive_add_columns(Oid archive, const char *name, uint32 columns)
{
	StringInfoData sql;
	const char *comma = "";

	initStringInfo(&sql);
	appendStringInfo(&sql, "ALTER TABLE %s", quote_qualified_identifier(QUEUE_SCHEMA, name));
	for (int i = DONE_REQUIRED; i < DONE_COLUMNS; i++)
	{
		if ((columns & DONE_BIT(i)) == 0 ||
			get_attnum(archive, archive_columns[i].name) != InvalidAttrNumber)
			continue;
		appendStringInfo(&sql, "%s ADD IF NOT EXISTS %s %s", comma, archive_columns[i].name,
						 archive_columns[i].definition);
		comma = ",";
	}
	return *comma != '\0' ? sql.data : NULL;
}

/* ----------------------------------------------------------------
 * What a backend knows
 * ----------------------------------------------------------------
 */

Archive *
archive_cached(Oid table)
{
	Archive    *archive;
	bool		found;

	if (archives == NULL)
	{
		HASHCTL		ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(Archive),
		.hcxt = TopMemoryContext};

		archives = hash_create("pgfairq archives", 16, &ctl,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	archive = hash_search(archives, &table, HASH_ENTER, &found);
	if (!found)
	{
		memset(archive, 0, sizeof(Archive));
		archive->table = table;
	}
	return archive;
}

static void
free_plan(void *plan)
{
	SPI_freeplan(plan);
}

/*
 * Look at an archive that is open, unless that was done.  Returns what keeps it
 * from being one; NULL: nothing.
 */
const char *
archive_look_at(Archive *archive, Relation relation, const char *name, Oid owner)
{
	uint64		before = invalidations;
	const char *problem;
	uint32		optional = 0;

	AssertRelationLocked(relation, AccessShareLock);
	if (archive->valid && archive->relation == RelationGetRelid(relation))
		return NULL;

	archive->relation = RelationGetRelid(relation);
	problem = archive_problem(relation, owner, &archive->shape);
	archive->valid = (problem == NULL && before == invalidations);
	if (problem != NULL)
		return problem;
	for (int i = DONE_REQUIRED; i < DONE_COLUMNS; i++)
		if (archive->shape.columns[i] != InvalidAttrNumber)
			optional |= DONE_BIT(i);

	/* Plans are good for as long as the names are: they look them up again. */
	if (strcmp(archive->name, name) != 0 || archive->optional != optional)
	{
		/* Now or later: a trigger that they fire may be who has called us. */
		if (archive->insert != NULL)
			run_as_at_end(free_plan, archive->insert);
		if (archive->remove != NULL)
			run_as_at_end(free_plan, archive->remove);
		archive->insert = NULL;
		archive->remove = NULL;
		strlcpy(archive->name, name, NAMEDATALEN);
		archive->optional = optional;
	}
	return NULL;
}

/*
 * Open the archive of a queue to write to it.
 */
static Archive *
open_archive(Relation rel, QueueInfo *info, Relation *relation)
{
	Archive    *archive = archive_cached(RelationGetRelid(rel));
	char		name[NAMEDATALEN];
	Oid			oid;
	const char *problem;

	do
	{
		CHECK_FOR_INTERRUPTS();
		oid = archive_find_table(info->name, name);
		if (!OidIsValid(oid))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("table \"%s.%s\", for the done tasks of queue \"%s\", does not exist",
							QUEUE_SCHEMA, name, info->name),
					 errhint("Create it with fairq.alter_queue(keep_done), or keep no done tasks with keep_done => '0'.")));
		*relation = try_relation_open(oid, RowExclusiveLock);
	} while (*relation == NULL);

	problem = archive_look_at(archive, *relation, name, rel->rd_rel->relowner);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("cannot keep done tasks of queue \"%s\" in table \"%s.%s\"",
						info->name, QUEUE_SCHEMA, name),
				 errdetail_internal("%s", problem),
				 errhint("Undo the change that was made to the table, or keep no done tasks with keep_done => '0'.")));
	return archive;
}

/* ----------------------------------------------------------------
 * Writing
 * ----------------------------------------------------------------
 */

static void
begin_batch(ArchiveBatch *batch)
{
	batch->tupdesc = CreateTemplateTupleDesc(DONE_COLUMNS);
	for (int i = 0; i < DONE_COLUMNS; i++)
		TupleDescInitEntry(batch->tupdesc, (AttrNumber) (i + 1),
						   archive_columns[i].name, archive_columns[i].type, -1, 0);
	batch->rows = tuplestore_begin_heap(false, false, work_mem);
	batch->first_done = DT_NOEND;
}

/*
 * The task that row has read is finished.  claimed_at is DT_NOBEGIN if it was
 * not leased.
 *
 * A value that is stored out of line is noted as such: what the queue's table
 * had there can be read for as long as our transaction has not ended.
 */
void
archive_add(ArchiveBatch *batch, RowReader *row, ArchiveOutcome outcome,
			TimestampTz claimed_at)
{
	Datum		values[DONE_COLUMNS];
	bool		nulls[DONE_COLUMNS] = {false};
	TimestampTz now;

	if (row->info->keep_done == 0)
		return;
	if (batch->rows == NULL)
		begin_batch(batch);

	row_reader_complete(row);
	for (int i = 0; i < DONE_COLUMNS; i++)
	{
		if (archive_columns[i].from == NOT_COPIED)
			continue;
		values[i] = row_value(row, archive_columns[i].from);
		nulls[i] = row_is_null(row, archive_columns[i].from);
	}
	/* The time of each, not of the batch: the index is read in this order. */
	now = GetCurrentTimestamp();
	batch->first_done = Min(batch->first_done, now);
	values[DONE_DONE_AT] = TimestampTzGetDatum(now);
	values[DONE_CLAIMED_AT] = TimestampTzGetDatum(claimed_at);
	nulls[DONE_CLAIMED_AT] = (claimed_at == DT_NOBEGIN);
	/* The acknowledgement is an answer, too. */
	values[DONE_ATTEMPTS] = row_value(row, COLUMN_ATTEMPTS);
	if (outcome == ARCHIVE_ACKED)
		values[DONE_ATTEMPTS] = Int32GetDatum(Min(DatumGetInt32(values[DONE_ATTEMPTS]),
												  PG_INT32_MAX - 1) + 1);
	values[DONE_OUTCOME] = PointerGetDatum(cstring_to_text(archive_outcomes[outcome]));
	nulls[DONE_RESULT] = (batch->result == NULL);
	values[DONE_RESULT] = JsonbPGetDatum(batch->result);
	for (int i = DONE_REQUIRED; i < DONE_COLUMNS; i++)
		if (!nulls[i])
			batch->filled |= DONE_BIT(i);
	tuplestore_putvalues(batch->rows, batch->tupdesc, values, nulls);
	pfree(DatumGetPointer(values[DONE_OUTCOME]));
}

static void
insert_batch(Archive *archive, ArchiveBatch *batch)
{
	EphemeralNamedRelationData relation = {0};
	int			result;

	SPI_connect();
	relation.md.name = BATCH_NAME;
	relation.md.tupdesc = batch->tupdesc;
	relation.md.enrtype = ENR_NAMED_TUPLESTORE;
	relation.md.enrtuples = tuplestore_tuple_count(batch->rows);
	relation.reldata = batch->rows;
	result = SPI_register_relation(&relation);
	if (result < 0)
		elog(ERROR, "SPI_register_relation failed (%s)", SPI_result_code_string(result));
	if (archive->insert == NULL)
	{
		StringInfoData names;

		initStringInfo(&names);
		for (int i = 0; i < DONE_COLUMNS; i++)
			if (i < DONE_REQUIRED || (archive->optional & DONE_BIT(i)) != 0)
				appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", archive_columns[i].name);
		archive->insert =
			own_table_prepare(psprintf("INSERT INTO %s (%s) SELECT %s FROM " BATCH_NAME,
									   quote_qualified_identifier(QUEUE_SCHEMA, archive->name),
									   names.data, names.data), 0, NULL);
	}
	result = SPI_execute_plan(archive->insert, NULL, NULL, false, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute_plan failed (%s)", SPI_result_code_string(result));
	SPI_finish();
}

/*
 * There are values for columns that the archive lacks, for it is of an earlier
 * version, as a dump of then brings it: it gets them now.  Our lock is given
 * back first, so that of two acks one adds the columns and the other waits for
 * it; a lock of an earlier statement may make that a deadlock, which the server
 * resolves.  A column of a user's own making is left alone: only a result must
 * not be lost.  Run as the queue's owner.
 */
static Archive *
with_columns(Archive *archive, Relation rel, QueueInfo *info, Relation *relation, uint32 filled)
{
	const char *add = archive_add_columns(archive->relation, archive->name, filled);

	if (add != NULL)
	{
		relation_close(*relation, RowExclusiveLock);
		SPI_connect();
		run_as_sql(add);
		SPI_finish();
		archive = open_archive(rel, info, relation);
	}
	if ((filled & ~archive->optional & DONE_BIT(DONE_RESULT)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s, for the done tasks of queue \"%s\", has no column for results",
						quote_qualified_identifier(QUEUE_SCHEMA, archive->name), info->name),
				 errdetail("Its column \"result\" is one of your own."),
				 errhint("Rename that column; ours is added with the next result.")));
	return archive;
}

/*
 * Write what is in a batch.  Nothing may be half done: triggers of the user are
 * fired, which may call any function of ours.
 */
void
archive_write(ArchiveBatch *batch, Relation rel, QueueInfo *info)
{
	RunAs		context;
	Archive    *archive;
	Relation	relation;

	AssertRelationLocked(rel, RowShareLock);
	if (batch->rows == NULL)
		return;
	run_as_owner(rel->rd_rel->relowner, RelationGetRelid(rel), &context);
	archive = open_archive(rel, info, &relation);
	if ((batch->filled & ~archive->optional) != 0)
		archive = with_columns(archive, rel, info, &relation, batch->filled);
	insert_batch(archive, batch);
	run_as_end(&context);
	relation_close(relation, NoLock);
	pending_due_added(&info->state->archive.cursor, batch->first_done,
					  batch->first_done + info->keep_done);
	tuplestore_end(batch->rows);
	FreeTupleDesc(batch->tupdesc);
	batch->rows = NULL;
	batch->filled = 0;
}
