/*-------------------------------------------------------------------------
 *
 * id_sequence.c
 *	  The sequence that a queue's ids come from, and where it has to go on.
 *
 * A server that is restored from a backup, and a standby that is promoted
 * before it has got all, have lost the last of what was done, and with it how
 * far the sequence had come.  Its ids have been given out, and are keys of
 * results elsewhere.  So the database remembers of each queue to which history
 * of the server its sequence belongs: its lineage, which is another one after
 * each of these.  The first who takes an id after a start compares.  If it is
 * another, the sequence skips ID_SKIP ids, or goes on where the clock says if
 * that is further: each second has ID_PER_SECOND ids of its own, so two that
 * were restored from one backup do not give the same ids either.
 *
 * setval() is not undone with the transaction, and the note is: so when the one
 * that has skipped rolls back, or the server crashes before it commits, ids are
 * skipped once more after the next start.  There is room for 50,000 times.
 *
 * Locking: one backend at a time looks (queue_state_recovery_begin), and no
 * other takes an id before it is done.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_type_d.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "common/node_number.h"
#include "common/run_as.h"
#include "storage/own_table.h"
#include "storage/queue_catalog.h"

#define LINEAGE_TABLE	"id_lineage"

/* Columns of the table, as sql/install makes it. */
#define LINEAGE_LINEAGE	2

/* So many ids are left out, of the 2^48 that a node has. */
#define ID_SKIP			(INT64CONST(1) << 32)

/*
 * So many ids are of each second of the clock, from the year 2000 on, up to
 * CLOCK_IDS of a node's: until 2102.
 */
#define ID_PER_SECOND	(INT64CONST(1) << 16)
#define CLOCK_IDS		((INT64CONST(1) << NODE_ID_SHIFT) - (INT64CONST(1) << 46))

/*
 * Which backup the server was started from, as a number; 0: from none.  The
 * server keeps what a backup says of itself, under another name.
 */
static uint32
backup_started_from(void)
{
	char		text[8192];
	size_t		length;
	FILE	   *file = AllocateFile(BACKUP_LABEL_OLD, PG_BINARY_R);

	if (file == NULL)
		return 0;
	length = fread(text, 1, sizeof(text), file);
	FreeFile(file);
	return hash_bytes((const unsigned char *) text, (int) length);
}

/*
 * What tells this database's history from others': the system, the database,
 * the timeline and the backup.  Not on a standby.
 */
char *
id_sequence_lineage(void)
{
	return psprintf(UINT64_FORMAT "/%u/%u/%08x", GetSystemIdentifier(), MyDatabaseId,
					GetWALInsertionTimeLine(), backup_started_from());
}

/* Is that what is noted of the queue?  As it is now, whatever the snapshot. */
static bool
is_remembered(const QueueInfo *info, const char *lineage)
{
	Relation	table = own_table_open(INTERNAL_SCHEMA, LINEAGE_TABLE, AccessShareLock);
	SysScanDesc scan = own_table_rows_of(table, info->name, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	bool		result = HeapTupleIsValid(tuple) &&
		strcmp(TextDatumGetCString(own_table_column(table, tuple, LINEAGE_LINEAGE)), lineage) == 0;

	systable_endscan(scan);
	table_close(table, AccessShareLock);
	return result;
}

/*
 * Note that the sequence of a queue belongs to what the server is now.
 */
void
id_sequence_remember(const char *queue)
{
	static OwnStatement put = {
		.text = "INSERT INTO " INTERNAL_SCHEMA "." LINEAGE_TABLE " (queue) VALUES ($1)"
		" ON CONFLICT (queue) DO UPDATE SET lineage = excluded.lineage",
		.parameters = 1,
		.types = {TEXTOID}
	};
	Datum		value = CStringGetTextDatum(queue);

	own_table_run(INTERNAL_SCHEMA, LINEAGE_TABLE, &put, &value);
}

/*
 * Have the sequence go on with an id.
 */
void
id_sequence_advance(QueueInfo *info, int64 next_id)
{
	RunAs		context;

	run_as_owner(run_as_owner_of(info->relation), InvalidOid, &context);
	(void) DirectFunctionCall2(setval_oid, ObjectIdGetDatum(info->id_sequence),
							   Int64GetDatum(next_id - QUEUE_ID_BLOCK));
	run_as_end(&context);
}

/*
 * Leave out what may have been given out.
 */
static void
skip_ids(QueueInfo *info)
{
	int64		node_first = NODE_FIRST_ID(info->node);
	int64		last = Max(nextval_internal(info->id_sequence, false), node_first);
	int64		by_clock = GetCurrentTimestamp() / USECS_PER_SEC * ID_PER_SECOND;
	int64		next;

	if (last - node_first > (INT64CONST(1) << NODE_ID_SHIFT) - 2 * ID_SKIP)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("queue \"%s\" has not enough ids left of node %d to skip those that may have been given out",
						info->name, info->node),
				 errhint("Give this database a higher number with fairq.set_node().")));
	next = last + ID_SKIP;
	if (by_clock > 0 && by_clock < CLOCK_IDS)
		next = Max(next, node_first + by_clock);
	id_sequence_advance(info, next);
	ereport(LOG,
			(errmsg("ids of queue \"%s\" are skipped, for they may have been given out before",
					info->name),
			 errdetail("The server was restored, promoted or moved. The queue goes on with id " INT64_FORMAT ", after " INT64_FORMAT ".",
					   next, last)));
}

/* It was cut short; another backend has to do it. */
static void
catch_up_failed(int code, Datum arg)
{
	QueueState *state = (QueueState *) DatumGetPointer(arg);

	queue_state_recovery_end(state, &state->recovery.ids, QUEUE_UNKNOWN);
}

/*
 * Compare the lineage, and skip ids if it is another.  Waits if another backend
 * does that.
 */
void
id_sequence_catch_up(QueueInfo *info)
{
	QueueState *state = info->state;

	while (state->recovery.ids != QUEUE_KNOWN)
	{
		if (!queue_state_recovery_begin(state, &state->recovery.ids))
			continue;
		PG_ENSURE_ERROR_CLEANUP(catch_up_failed, PointerGetDatum(state));
		{
			if (!is_remembered(info, id_sequence_lineage()))
			{
				skip_ids(info);
				id_sequence_remember(info->name);
			}
		}
		PG_END_ENSURE_ERROR_CLEANUP(catch_up_failed, PointerGetDatum(state));
		queue_state_recovery_end(state, &state->recovery.ids, QUEUE_KNOWN);
	}
}
