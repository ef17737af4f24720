/*-------------------------------------------------------------------------
 *
 * schedule_table.c
 *	  The schedules of a database: the rows of fairq.schedule.
 *
 * They are read and written with SQL, as the owner of the table, who is the
 * extension's: no other role may.  The statements name schemas and operators,
 * so that the caller's search path says nothing.
 *
 * A role is known by its oid, which stays when it is renamed, and by its name,
 * which is the same in a restored copy.  It is the oid that counts, and a
 * trigger sets it, by the name, in rows that are inserted, as a restore does.
 * A row without one is of a role that was not there then.
 *
 * Only the columns of definitions wake the worker when they are written (the
 * trigger of the table), not those that a tick writes.  The table has no index
 * on these either, so that a tick makes a heap-only tuple, for which vacuum
 * need not come.
 *
 * Locking: a row is locked, without waiting, by whoever runs its tick, until
 * the end of the transaction that moves next_run.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "storage/own_table.h"
#include "storage/queue_catalog.h"
#include "storage/schedule_table.h"

/*
 * The columns, in the order of ScheduleColumn: what is written with a
 * definition, $1 to $18, and what a tick writes, from $16 on.
 */
#define OWNER_COLUMNS	"owner, owner_oid, next_run"
#define DEFINITION_COLUMNS \
	"name, queue, cron, payload, group_key, priority, cost, headers, timezone, catch_up, " \
	"overlap, active, task_name, subgroup_key, anchor, " OWNER_COLUMNS
#define TICK_COLUMNS	"last_run, last_task, skipped, failures, last_error, last_error_at"
#define COLUMNS			DEFINITION_COLUMNS ", " TICK_COLUMNS
#define DEFINITION \
	"($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)"
#define ROW_PARAMETERS \
	SCHEDULE_COLUMNS, {TEXTOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID, INT8OID, FLOAT8OID, \
		JSONBOID, TEXTOID, TEXTOID, BOOLOID, BOOLOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, \
		TEXTOID, OIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8OID, INT4OID, TEXTOID, \
		TIMESTAMPTZOID}

typedef enum Statement
{
	LIST_DUE,
	FIND_NEXT,
	LOCK_DUE,
	WRITE_TICK,
	FIND,
	FIND_AND_LOCK,
	INSERT,
	REPLACE,
	REMOVE,
	COUNT
} Statement;

static OwnStatement statements[] = {
	[LIST_DUE] = {"SELECT name, queue FROM fairq.schedule"
		" WHERE active AND next_run OPERATOR(pg_catalog.<=) $1"
		" AND ($2 IS NULL OR queue OPERATOR(pg_catalog.=) $2) ORDER BY next_run, name",
	2, {TIMESTAMPTZOID, TEXTOID}},
	[FIND_NEXT] = {"SELECT pg_catalog.min(next_run) FROM fairq.schedule"
	" WHERE active AND next_run OPERATOR(pg_catalog.>) $1", 1, {TIMESTAMPTZOID}},
	[LOCK_DUE] = {"SELECT " COLUMNS " FROM fairq.schedule WHERE name OPERATOR(pg_catalog.=) $1"
		" AND active AND next_run OPERATOR(pg_catalog.<=) $2 FOR NO KEY UPDATE SKIP LOCKED",
	2, {TEXTOID, TIMESTAMPTZOID}},
	[WRITE_TICK] = {"UPDATE fairq.schedule SET (" OWNER_COLUMNS ", " TICK_COLUMNS ")"
		" = ROW($16, $17, $18, $19, $20, $21, $22, $23, $24)"
	" WHERE name OPERATOR(pg_catalog.=) $1", ROW_PARAMETERS},
	[FIND] = {"SELECT " COLUMNS " FROM fairq.schedule WHERE name OPERATOR(pg_catalog.=) $1",
	1, {TEXTOID}},
	[FIND_AND_LOCK] = {"SELECT " COLUMNS " FROM fairq.schedule"
	" WHERE name OPERATOR(pg_catalog.=) $1 FOR UPDATE", 1, {TEXTOID}},
	[INSERT] = {"INSERT INTO fairq.schedule (" DEFINITION_COLUMNS ")"
	" VALUES " DEFINITION " ON CONFLICT (name) DO NOTHING", ROW_PARAMETERS},
	[REPLACE] = {"UPDATE fairq.schedule SET (" DEFINITION_COLUMNS ")"
		" = ROW" DEFINITION ", failures = 0, last_error = NULL, last_error_at = NULL,"
		" last_task = CASE WHEN queue OPERATOR(pg_catalog.=) $2 THEN last_task END"
	" WHERE name OPERATOR(pg_catalog.=) $1", ROW_PARAMETERS},
	[REMOVE] = {"DELETE FROM fairq.schedule WHERE name OPERATOR(pg_catalog.=) $1", 1, {TEXTOID}},
	[COUNT] = {"SELECT pg_catalog.count(*) FROM fairq.schedule", 0, {0}},
};

/*
 * The table, locked to be written; InvalidOid: it is not there, or that has to
 * be waited for.
 */
Oid
schedule_table_open(void)
{
	Oid			relid = queue_catalog_member("schedule");

	if (!OidIsValid(relid) || !ConditionalLockRelationOid(relid, RowExclusiveLock) ||
		queue_catalog_member("schedule") != relid)
		return InvalidOid;
	return relid;
}

/*
 * Run a statement; SPI is connected.  The results stay there.
 */
static uint64
execute(Statement statement, Datum *values, const char *nulls)
{
	return own_table_execute(own_table_owner(QUEUE_SCHEMA, "schedule"), &statements[statement],
							 values, nulls);
}

/*
 * The role that a row names; InvalidOid: there is none.
 */
Oid
schedule_table_owner(const char *name, Oid owner)
{
	if (OidIsValid(owner))
		return GetUserNameFromId(owner, true) != NULL ? owner : InvalidOid;
	return get_role_oid(name, true);
}

/*
 * Read the row of a statement that finds one at most, into the caller's
 * context.
 */
static bool
read_one(Statement statement, Datum *values, Schedule *schedule)
{
	MemoryContext caller = CurrentMemoryContext;

	memset(schedule, 0, sizeof(Schedule));
	SPI_connect();
	if (execute(statement, values, NULL) > 0)
	{
		MemoryContext spi = MemoryContextSwitchTo(caller);
		bool		nulls[SCHEDULE_COLUMNS];
		Oid			owner;

		heap_deform_tuple(heap_copytuple(SPI_tuptable->vals[0]), SPI_tuptable->tupdesc,
						  schedule->values, nulls);
		for (int i = 0; i < SCHEDULE_COLUMNS; i++)
			schedule->nulls[i] = nulls[i] ? 'n' : ' ';
		owner = DatumGetObjectId(schedule->values[SCHEDULE_OWNER_OID]);
		schedule->owner = schedule_table_owner(schedule_string(schedule, SCHEDULE_OWNER), owner);
		schedule->found = true;
		MemoryContextSwitchTo(spi);
	}
	SPI_finish();
	return schedule->found;
}

/* A column of a row of the result. */
static Datum
column(int row, int number, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, number, isnull);
}

/*
 * Schedules that are due, of one queue or (NULL) of all, the longest due
 * first: a list of DueSchedule.
 */
List *
schedule_table_due(const text *queue, TimestampTz now)
{
	MemoryContext caller = CurrentMemoryContext;
	Datum		values[] = {TimestampTzGetDatum(now), PointerGetDatum(queue)};
	List	   *result = NIL;
	uint64		n;

	SPI_connect();
	n = execute(LIST_DUE, values, queue == NULL ? " n" : "  ");
	for (uint64 i = 0; i < n; i++)
	{
		MemoryContext spi = MemoryContextSwitchTo(caller);
		DueSchedule *due = palloc_object(DueSchedule);
		bool		isnull;

		due->name = DatumGetTextPCopy(column(i, 1, &isnull));
		due->queue = TextDatumGetCString(column(i, 2, &isnull));
		result = lappend(result, due);
		MemoryContextSwitchTo(spi);
	}
	SPI_finish();
	return result;
}

/*
 * When the next schedule is due after a time; DT_NOEND: none.
 */
TimestampTz
schedule_table_next(TimestampTz now)
{
	Datum		value = TimestampTzGetDatum(now);
	bool		isnull;

	SPI_connect();
	(void) execute(FIND_NEXT, &value, NULL);
	value = column(0, 1, &isnull);
	SPI_finish();
	return isnull ? DT_NOEND : DatumGetTimestampTz(value);
}

/*
 * Read and lock a schedule, if it is due and no other transaction has locked
 * it.
 */
bool
schedule_table_lock(text *name, TimestampTz now, Schedule *schedule)
{
	Datum		values[] = {PointerGetDatum(name), TimestampTzGetDatum(now)};

	return read_one(LOCK_DUE, values, schedule);
}

/*
 * Write a row, with what its owner is called now.  A role that is gone stays
 * gone: one made in its name is another.  Returns whether there was one to
 * write to.
 */
static bool
write_row(Statement statement, Schedule *schedule)
{
	char	   *name = OidIsValid(schedule->owner) ?
		GetUserNameFromId(schedule->owner, true) : NULL;
	bool		written;

	if (name != NULL)
	{
		schedule_set(schedule, SCHEDULE_OWNER, CStringGetTextDatum(name));
		schedule_set(schedule, SCHEDULE_OWNER_OID, ObjectIdGetDatum(schedule->owner));
	}
	SPI_connect();
	written = execute(statement, schedule->values, schedule->nulls) > 0;
	SPI_finish();
	return written;
}

/*
 * Write what became of a tick, of a schedule that is locked.
 */
void
schedule_table_ticked(Schedule *schedule)
{
	(void) write_row(WRITE_TICK, schedule);
}

/*
 * Read a schedule.  To lock it waits for whoever has locked it, and keeps the
 * worker from it: that is for a caller that may write it.
 */
bool
schedule_table_find(text *name, bool lock, Schedule *schedule)
{
	Datum		value = PointerGetDatum(name);

	return read_one(lock ? FIND_AND_LOCK : FIND, &value, schedule);
}

/*
 * Write the definition of a schedule: to its row, which was found and is
 * locked, or to a new one.  Returns false if it was not found and is there
 * now.
 */
bool
schedule_table_put(Schedule *schedule)
{
	return write_row(schedule->found ? REPLACE : INSERT, schedule);
}

void
schedule_table_remove(text *name)
{
	Datum		value = PointerGetDatum(name);

	SPI_connect();
	(void) execute(REMOVE, &value, NULL);
	SPI_finish();
}

/* How many there are. */
int64
schedule_table_count(void)
{
	bool		isnull;
	int64		count;

	SPI_connect();
	(void) execute(COUNT, NULL, NULL);
	count = DatumGetInt64(column(0, 1, &isnull));
	SPI_finish();
	return count;
}
