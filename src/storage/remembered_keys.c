/*-------------------------------------------------------------------------
 *
 * remembered_keys.c
 *	  Unique keys that are remembered for a time, also when their tasks have ended.
 *
 * A row of fairq_internal.remembered_key says of which task a key is the key,
 * and until when that counts.  The table is one for all queues of the
 * database, an ordinary one: a dump has its rows, a rollback undoes them, and
 * with the settings of a queue go those of the queue.  A row is written once,
 * under the lock of its key, and deleted when its time is over.  A key may
 * have several rows; the one that lasts longest counts.
 *
 * Rows are looked up as they are at present, as tasks are: whoever finds one
 * that is not committed waits for its transaction (unique_keys.c).  They are
 * inserted with SQL, as the owner of the table, who may have changed it; that
 * needs no privileges of producers.
 *
 * Most queues have no such row.  When a pass has found none, the queue's
 * shared state says so (written is 0), and no call looks.  A trigger raises
 * that counter with each row, however the row comes; a pass that has looked
 * meanwhile does not reset it then.  What the pass has found holds for the
 * name that the queue's table had.
 *
 * Locking: the caller has the queue's table locked.  Who deletes rows has the
 * maintenance lock, and waits for no transaction.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/maintenance_lock.h"
#include "storage/own_table.h"
#include "storage/remembered_keys.h"
#include "xact/pending_queue.h"

#define TABLE_NAME		"remembered_key"
#define BY_KEY			"remembered_key_by_key"
#define BY_UNTIL		"remembered_key_by_until"

/* The columns of the table, as sql/install makes them. */
#define KEY_UNIQUE_KEY	2
#define KEY_TASK		3
#define KEY_UNTIL		4

PG_FUNCTION_INFO_V1(fairq_remembered_key_written);

static uint32
name_hash(const QueueInfo *info)
{
	return hash_bytes((const unsigned char *) info->name, strlen(info->name));
}

/*
 * May a queue have keys that are remembered?  Cheap.
 */
bool
remembered_keys_any(QueueInfo *info)
{
	QueueRemembered *state = &info->state->remembered;

	return pg_atomic_read_u64(&state->written) != 0 ||
		pg_atomic_read_u32(&state->none_of) != name_hash(info);
}

/* ----------------------------------------------------------------
 * The table
 * ----------------------------------------------------------------
 */

/*
 * What is remembered of a key: the task of it whose time is not over.
 *
 * The caller has the lock of the key, and has just found no task of it that
 * another transaction has in hand.  So who remembers it here has committed, or
 * it is a transaction that has also removed its task again.
 */
void
remembered_keys_find(QueueInfo *info, const text *key, RememberedKey *result)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz until = DT_NOBEGIN;
	Relation	table;
	OwnScan		scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;

	Assert(key != NULL);
	AssertOidLocked(info->relation);
	result->busy = InvalidTransactionId;
	result->found = false;
	if (likely(!remembered_keys_any(info)))
		return;
	table = own_table_open(INTERNAL_SCHEMA, TABLE_NAME, AccessShareLock);
	ScanKeyInit(&keys[1], KEY_UNIQUE_KEY, BTEqualStrategyNumber, F_TEXTEQ,
				PointerGetDatum(key));
	own_table_scan(&scan, table, BY_KEY, info->name, keys, 2);
	while ((tuple = systable_getnext_ordered(scan.scan, ForwardScanDirection)) != NULL)
	{
		TimestampTz row_until = DatumGetTimestampTz(own_table_column(table, tuple, KEY_UNTIL));

		if (row_until <= now || row_until <= until)
			continue;
		until = row_until;

		/*
		 * One that is being deleted counts: a purge of rows by SQL may roll
		 * back.
		 */
		result->busy = scan.dirty.xmin;
		result->found = true;
		result->task = DatumGetInt64(own_table_column(table, tuple, KEY_TASK));
	}
	own_table_scan_end(&scan);
	table_close(table, AccessShareLock);
}

/*
 * Remember a key.  The caller has the lock of the key.
 */
void
remembered_keys_add(QueueInfo *info, text *key, int64 task, TimestampTz until)
{
	static OwnStatement insert = {
		.text = "INSERT INTO " INTERNAL_SCHEMA "." TABLE_NAME
		" (queue, unique_key, task, until) VALUES ($1, $2, $3, $4)",
		.parameters = 4,
		.types = {TEXTOID, TEXTOID, INT8OID, TIMESTAMPTZOID}
	};
	Datum		values[] = {
		CStringGetTextDatum(info->name), PointerGetDatum(key),
		Int64GetDatum(task), TimestampTzGetDatum(until)
	};

	Assert(key != NULL);
	AssertOidLocked(info->relation);
	own_table_run(INTERNAL_SCHEMA, TABLE_NAME, &insert, values);
}

/*
 * Forget a key of a queue, or (NULL) all, before their time is over.  Returns
 * how many keys.  They are forgotten when the transaction commits: until then
 * other producers go by them.
 */
int64
remembered_keys_withdraw(QueueInfo *info, const text *key)
{
	static OwnStatement withdraw = {
		.text = "WITH gone AS (DELETE FROM " INTERNAL_SCHEMA "." TABLE_NAME " AS k"
		" WHERE k.queue OPERATOR(pg_catalog.=) $1"
		" AND ($2 IS NULL OR k.unique_key OPERATOR(pg_catalog.=) $2)"
		" RETURNING k.unique_key, k.until)"
		" SELECT pg_catalog.count(DISTINCT unique_key) FROM gone"
		" WHERE until OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp()",
		.parameters = 2,
		.types = {TEXTOID, TEXTOID}
	};
	Datum		values[] = {CStringGetTextDatum(info->name), PointerGetDatum(key)};
	bool		isnull;
	int64		keys;

	AssertOidLocked(info->relation);
	SPI_connect();
	(void) own_table_execute(own_table_owner(INTERNAL_SCHEMA, TABLE_NAME), &withdraw, values,
							 key == NULL ? " n" : NULL);
	keys = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	return keys;
}

/*
 * Forget keys whose time is over, up to max, of a queue; those from *from on,
 * which is moved (to DT_NOEND if there is no more).  Returns how many rows
 * were looked at.  *left: some are in the hands of others.
 */
int
remembered_keys_forget(QueueInfo *info, TimestampTz now, int max, IndexPosition *from,
					   bool *left)
{
	Relation	table = own_table_open(INTERNAL_SCHEMA, TABLE_NAME, RowExclusiveLock);
	ItemPointer tids = palloc(max * sizeof(ItemPointerData));
	OwnScan		scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	int			n = 0;
	int			looked = 0;

	AssertOidLocked(info->relation);
	Assert(max > 0);
	Assert(maintenance_lock_held(info->relation));
	ScanKeyInit(&keys[1], KEY_UNTIL, BTGreaterEqualStrategyNumber, F_TIMESTAMPTZ_GE,
				TimestampTzGetDatum(from->due));
	memset(from, 0, sizeof(IndexPosition));
	from->due = DT_NOEND;
	own_table_scan(&scan, table, BY_UNTIL, info->name, keys, 2);
	while ((tuple = systable_getnext_ordered(scan.scan, ForwardScanDirection)) != NULL)
	{
		TimestampTz until = DatumGetTimestampTz(own_table_column(table, tuple, KEY_UNTIL));

		CHECK_FOR_INTERRUPTS();
		if (until > now || looked == max)
		{
			from->due = until;
			from->id = PG_INT64_MIN;
			break;
		}
		looked++;
		if (own_table_busy(&scan))
			*left = true;
		else
			tids[n++] = tuple->t_self;
	}
	own_table_scan_end(&scan);
	for (int i = 0; i < n; i++)
	{
		TM_FailureData tmfd;

		/* SQL of others may come between: it is not waited for. */
		if (heap_delete(table, &tids[i], GetCurrentCommandId(true), InvalidSnapshot, false,
						&tmfd, false) != TM_Ok)
			*left = true;
	}
	pfree(tids);
	table_close(table, NoLock);
	return looked;
}

/*
 * If no key of a queue is remembered, say so.
 */
void
remembered_keys_look_none(QueueInfo *info)
{
	QueueRemembered *state = &info->state->remembered;
	uint64		written = pg_atomic_read_u64(&state->written);
	Relation	table;
	OwnScan		scan;
	ScanKeyData key;
	bool		none;

	AssertOidLocked(info->relation);
	Assert(maintenance_lock_held(info->relation));

	/*
	 * Before the look: a row that it does not see raises the counter after
	 * this.
	 */
	pg_memory_barrier();
	table = own_table_open(INTERNAL_SCHEMA, TABLE_NAME, AccessShareLock);
	own_table_scan(&scan, table, BY_UNTIL, info->name, &key, 1);
	none = (systable_getnext_ordered(scan.scan, ForwardScanDirection) == NULL);
	own_table_scan_end(&scan);
	table_close(table, AccessShareLock);
	if (!none)
		return;
	pg_atomic_write_u32(&state->none_of, name_hash(info));
	pg_memory_barrier();
	(void) pg_atomic_compare_exchange_u64(&state->written, &written, 0);
}

/*
 * fairq_internal.remembered_key_written(): row trigger after INSERT or UPDATE
 * of the table.  Rows may come with SQL, from a dump or another server.
 */
Datum
fairq_remembered_key_written(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = own_table_trigger(fcinfo, INTERNAL_SCHEMA, TABLE_NAME,
											 TRIGGER_EVENT_AFTER | TRIGGER_EVENT_ROW);
	HeapTuple	tuple = own_table_new_row(trigger);
	QueueState *state = queue_catalog_state_of_row(trigger->tg_relation, tuple);

	if (state != NULL)
	{
		TimestampTz until = DatumGetTimestampTz(own_table_column(trigger->tg_relation, tuple,
																 KEY_UNTIL));

		pg_atomic_fetch_add_u64(&state->remembered.written, 1);
		/* Not each by itself: forget_keys.c lets them come together. */
		pending_due_added(&state->remembered.cursor, until,
						  until < END_TIMESTAMP - USECS_PER_SEC ? until + USECS_PER_SEC : until);
	}
	PG_RETURN_POINTER(NULL);
}
