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

#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "storage/own_table.h"
#include "storage/queue_catalog.h"
#include "storage/schedule_table.h"

/* Columns that are read, in the order of read_row. */
#define COLUMNS \
	"name, queue, owner, owner_oid, cron, timezone, payload, group_key, " \
	"priority, cost, headers, catch_up, overlap, active, anchor, next_run, last_run, " \
	"last_task, skipped, failures, task_name, subgroup_key"

typedef enum Statement
{
	LIST_DUE,
	FIND_NEXT,
	LOCK_DUE,
	WRITE_TICK,
	FIND,
	FIND_AND_LOCK,
	PUT,
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
	[WRITE_TICK] = {"UPDATE fairq.schedule SET owner = $2, owner_oid = $3, next_run = $4,"
		" last_run = $5, last_task = $6, skipped = $7, failures = $8,"
		" last_error = CASE WHEN $9 IS NULL THEN last_error ELSE $9 END,"
		" last_error_at = CASE WHEN $9 IS NULL THEN last_error_at ELSE $10 END"
		" WHERE name OPERATOR(pg_catalog.=) $1",
		10, {TEXTOID, TEXTOID, OIDOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8OID,
	INT4OID, TEXTOID, TIMESTAMPTZOID}},
	[FIND] = {"SELECT " COLUMNS " FROM fairq.schedule WHERE name OPERATOR(pg_catalog.=) $1",
	1, {TEXTOID}},
	[FIND_AND_LOCK] = {"SELECT " COLUMNS " FROM fairq.schedule"
	" WHERE name OPERATOR(pg_catalog.=) $1 FOR UPDATE", 1, {TEXTOID}},
	/* One that was not there is not overwritten when it has come meanwhile. */
	[PUT] = {"INSERT INTO fairq.schedule AS s (name, queue, owner, owner_oid, cron,"
		" timezone, payload, group_key, priority, cost, headers, catch_up, overlap, active,"
		" anchor, next_run, task_name, subgroup_key)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $18,"
		" $19)"
		" ON CONFLICT (name) DO UPDATE SET queue = $2, owner = $3, owner_oid = $4,"
		" cron = $5, timezone = $6, payload = $7, group_key = $8, priority = $9, cost = $10,"
		" headers = $11, catch_up = $12, overlap = $13, active = $14, anchor = $15,"
		" next_run = $16, task_name = $18, subgroup_key = $19,"
		" failures = 0, last_error = NULL, last_error_at = NULL,"
		" last_task = CASE WHEN s.queue OPERATOR(pg_catalog.=) $2 THEN s.last_task END"
		" WHERE $17",
		19, {TEXTOID, TEXTOID, TEXTOID, OIDOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID,
			INT8OID, FLOAT8OID, JSONBOID, TEXTOID, BOOLOID, BOOLOID, TIMESTAMPTZOID,
	TIMESTAMPTZOID, BOOLOID, TEXTOID, TEXTOID}},
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

/* A column of a row of the result; by reference, in the caller's context. */
static Datum
column(int row, int number, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, number, isnull);
}

static text *
text_column(int row, int number)
{
	bool		isnull;
	Datum		value = column(row, number, &isnull);

	return isnull ? NULL : DatumGetTextPCopy(value);
}

static char *
string_column(int number)
{
	bool		isnull;
	Datum		value = column(0, number, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

static Datum
json_column(int number, bool *found)
{
	bool		isnull;
	Datum		value = column(0, number, &isnull);

	*found = !isnull;
	return isnull ? (Datum) 0 : PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
}

/* A null is 0. */
static Datum
plain_column(int number)
{
	bool		isnull;
	Datum		value = column(0, number, &isnull);

	return isnull ? (Datum) 0 : value;
}

static TimestampTz
time_column(int number, TimestampTz null)
{
	bool		isnull;
	Datum		value = column(0, number, &isnull);

	return isnull ? null : DatumGetTimestampTz(value);
}

/* The columns COLUMNS of the row in hand. */
static void
read_row(Schedule *schedule)
{
	bool		isnull;
	bool		given;

	schedule->name = text_column(0, 1);
	schedule->queue = text_column(0, 2);
	schedule->owner_name = string_column(3);
	schedule->owner_oid = DatumGetObjectId(plain_column(4));
	schedule->owner = schedule_table_owner(schedule->owner_name, schedule->owner_oid);
	schedule->cron = string_column(5);
	schedule->timezone = string_column(6);
	schedule->payload = json_column(7, &given);
	schedule->group_key = text_column(0, 8);
	schedule->priority = DatumGetInt64(column(0, 9, &isnull));
	schedule->has_priority = !isnull;
	schedule->cost = DatumGetFloat8(plain_column(10));
	schedule->headers = json_column(11, &schedule->has_headers);
	schedule->catch_up = string_column(12);
	schedule->overlap = DatumGetBool(plain_column(13));
	schedule->active = DatumGetBool(plain_column(14));
	schedule->anchor = time_column(15, 0);
	schedule->next_run = time_column(16, DT_NOEND);
	schedule->last_run = time_column(17, DT_NOBEGIN);
	schedule->last_task = DatumGetInt64(plain_column(18));
	schedule->skipped = DatumGetInt64(plain_column(19));
	schedule->failures = DatumGetInt32(plain_column(20));
	schedule->task_name = text_column(0, 21);
	schedule->subgroup_key = text_column(0, 22);
	schedule->found = true;
	schedule->error = NULL;
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

		read_row(schedule);
		MemoryContextSwitchTo(spi);
	}
	SPI_finish();
	return schedule->found;
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

		due->name = text_column(i, 1);
		due->queue = text_to_cstring(text_column(i, 2));
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
	TimestampTz next;

	SPI_connect();
	(void) execute(FIND_NEXT, &value, NULL);
	next = time_column(1, DT_NOEND);
	SPI_finish();
	return next;
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

static void
set_time(Datum *values, char *nulls, int i, TimestampTz time)
{
	values[i] = TimestampTzGetDatum(time);
	nulls[i] = TIMESTAMP_NOT_FINITE(time) ? 'n' : ' ';
}

/* A role that is gone stays gone: one made in its name is another. */
static void
set_owner(Datum *values, const Schedule *schedule)
{
	char	   *name = OidIsValid(schedule->owner) ?
		GetUserNameFromId(schedule->owner, true) : NULL;

	values[0] = CStringGetTextDatum(name != NULL ? name : schedule->owner_name);
	values[1] = ObjectIdGetDatum(name != NULL ? schedule->owner : schedule->owner_oid);
}

/*
 * Write what became of a tick, of a schedule that is locked.
 */
void
schedule_table_ticked(const Schedule *schedule, TimestampTz now)
{
	Datum		values[10];
	char		nulls[] = "          ";

	values[0] = PointerGetDatum(schedule->name);
	set_owner(values + 1, schedule);
	set_time(values, nulls, 3, schedule->next_run);
	set_time(values, nulls, 4, schedule->last_run);
	values[5] = Int64GetDatum(schedule->last_task);
	nulls[5] = schedule->last_task == 0 ? 'n' : ' ';
	values[6] = Int64GetDatum(schedule->skipped);
	values[7] = Int32GetDatum(schedule->failures);
	values[8] = schedule->error ? CStringGetTextDatum(schedule->error) : (Datum) 0;
	nulls[8] = schedule->error ? ' ' : 'n';
	set_time(values, nulls, 9, now);
	SPI_connect();
	(void) execute(WRITE_TICK, values, nulls);
	SPI_finish();
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
schedule_table_put(const Schedule *schedule)
{
	Datum		values[19];
	char		nulls[] = "                   ";
	bool		written;

	values[0] = PointerGetDatum(schedule->name);
	values[1] = PointerGetDatum(schedule->queue);
	set_owner(values + 2, schedule);
	values[4] = CStringGetTextDatum(schedule->cron);
	values[5] = CStringGetTextDatum(schedule->timezone);
	values[6] = schedule->payload;
	values[7] = PointerGetDatum(schedule->group_key);
	values[8] = Int64GetDatum(schedule->priority);
	nulls[8] = schedule->has_priority ? ' ' : 'n';
	values[9] = Float8GetDatum(schedule->cost);
	values[10] = schedule->headers;
	nulls[10] = schedule->has_headers ? ' ' : 'n';
	values[11] = CStringGetTextDatum(schedule->catch_up);
	values[12] = BoolGetDatum(schedule->overlap);
	values[13] = BoolGetDatum(schedule->active);
	values[14] = TimestampTzGetDatum(schedule->anchor);
	set_time(values, nulls, 15, schedule->next_run);
	values[16] = BoolGetDatum(schedule->found);
	values[17] = PointerGetDatum(schedule->task_name);
	nulls[17] = schedule->task_name != NULL ? ' ' : 'n';
	values[18] = PointerGetDatum(schedule->subgroup_key);
	nulls[18] = schedule->subgroup_key != NULL ? ' ' : 'n';
	SPI_connect();
	written = execute(PUT, values, nulls) > 0;
	SPI_finish();
	return written;
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
	int64		count;

	SPI_connect();
	(void) execute(COUNT, NULL, NULL);
	count = DatumGetInt64(plain_column(1));
	SPI_finish();
	return count;
}
