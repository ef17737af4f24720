/*-------------------------------------------------------------------------
 *
 * recovery.c
 *	  Reading from the rows what shared memory does not know.
 *
 * After a start of the server, a restore, VACUUM FULL, CLUSTER or TRUNCATE
 * shared memory knows nothing of a queue, or nothing that is true.  No
 * administrator has to do anything about it (invariant I9): lanes begin with
 * the frontier at the start and are filled by the first claims, and the rest
 * is read here by the first who needs it.
 *
 *	 Claims need to know which priority classes and which buckets have rows,
 *	 which may be more than new tasks go to: a look-up in the index for each.
 *	 Producers need the groups' tags, to give a group with a backlog an address
 *	 behind it: one pass over the table.  The same pass counts what there is.
 *
 * The counts are exact.  Whoever writes rows waits for the pass, so what it
 * sees is what has not been counted, and what it does not see is counted by
 * who writes it.  Claims, which write nothing, do not wait.  So the pass takes
 * the rows in their order in the table, and says how far it has come
 * (QueueState.counted) while it has the row's page locked, as claims have: a
 * task that is leased before is not counted as ready, and its lease learns
 * that its end has to; one that is leased after is counted off
 * (groups_lease_begins).
 *
 * Virtual time starts at the first row there is: what was claimed before is
 * either gone or to be delivered again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/run_as.h"
#include "common/wall_clock.h"
#include "shmem/groups.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "storage/queue_index.h"
#include "storage/recovery.h"

/* A table of more pages than this takes long to read. */
#define LONG_PAGES			1000

/* No count for this many times as long as the last one took, or so long. */
#define RECOUNT_REST		20
#define RECOUNT_REST_MAX	USECS_PER_MINUTE

/*
 * See that every class and bucket with rows has its lane.
 */
void
recovery_classes(Relation rel, QueueInfo *info)
{
	QueueState *state = info->state;
	int			bucket = 0;
	int			class = -1;

	if (likely(state->recovery.classes))
		return;
	while (queue_index_lane_after(rel, info, &bucket, &class))
	{
		CHECK_FOR_INTERRUPTS();
		if (class < state->classes)
			(void) queue_catalog_lane(info, class, bucket);
	}

	/* On a standby more classes may come without a call of ours. */
	if (RecoveryInProgress())
		return;
	SpinLockAcquire(&state->recovery.mutex);
	state->recovery.classes = true;
	SpinLockRelease(&state->recovery.mutex);
}

/* The pass was cut short; another backend has to do it. */
static void
recovery_failed(int code, Datum arg)
{
	QueueState *state = (QueueState *) DatumGetPointer(arg);

	pg_atomic_write_u64(&state->counts.counted, 0);
	queue_state_recovery_end(state, &state->recovery.groups, QUEUE_UNKNOWN);
}

/* A pass over the rows. */
typedef struct RowCount
{
	QueueInfo  *info;
	Datum	   *values;
	bool	   *nulls;
	bool		any[FAIRQ_CLASSES]; /* rows with addresses; where the first
									 * is: */
	VirtualTime first[FAIRQ_CLASSES];
	text	   *keys[2];		/* of the row's group and subgroup */
} RowCount;

#define VALUE(column) count->values[count->info->columns[column] - 1]

/* What the task of a row counts for.  Its keys may be copies: see group_end. */
static GroupName
group_of(RowCount *count)
{
	bool		subgroup = !count->nulls[count->info->columns[COLUMN_SUBGROUP_KEY] - 1];

	count->keys[0] = DatumGetTextPP(VALUE(COLUMN_GROUP_KEY));
	count->keys[1] = subgroup ? DatumGetTextPP(VALUE(COLUMN_SUBGROUP_KEY)) : NULL;
	return queue_catalog_group(count->info, count->keys[0], count->keys[1]);
}

static void
group_end(RowCount *count)
{
	if ((Pointer) count->keys[0] != DatumGetPointer(VALUE(COLUMN_GROUP_KEY)))
		pfree(count->keys[0]);
	if (count->keys[1] != NULL &&
		(Pointer) count->keys[1] != DatumGetPointer(VALUE(COLUMN_SUBGROUP_KEY)))
		pfree(count->keys[1]);
}

/*
 * Count a row: from now on its task counts.  Returns whether it is leased.
 */
static bool
count_row(RowCount *count, Buffer buffer, HeapTuple tuple, int class, const GroupName *name)
{
	QueueState *state = count->info->state;
	int64		id = DatumGetInt64(VALUE(COLUMN_ID));
	LeaseInfo	lease;
	bool		leased;

	Assert(class >= 0 && class < state->classes);
	for (;;)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		leased = leases_count_row(queue_state_number(state), id, &lease);
		if (!leased || lease.group != FAIRQ_NO_GROUP)
			break;

		/* First its group has to be known, or it could not be counted. */
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		leases_adopt(&lease.ref, groups_adopt_lease(state, class, name));
	}
	pg_atomic_write_u64(&state->counts.counted, queue_state_place(&tuple->t_self) + 1);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return leased;
}

/*
 * A row in the overflow.
 */
static void
note_overflow(RowCount *count, Buffer buffer, HeapTuple tuple)
{
	QueueState *state = count->info->state;
	int			class = queue_state_class(state, DatumGetInt64(VALUE(COLUMN_PRIORITY)));
	GroupName	name = group_of(count);

	(void) queue_catalog_lane(count->info, class, 0);
	if (!count_row(count, buffer, tuple, class, &name))
		group_overflow_found(state, class, &name, DatumGetInt64(VALUE(COLUMN_ID)), false);
	group_end(count);
}

/*
 * A row with an address: note what it says of its group's tag.
 */
static void
note_tag(RowCount *count, Buffer buffer, HeapTuple tuple)
{
	QueueState *state = count->info->state;
	FairqAddress *address = DatumGetFairqAddressP(VALUE(COLUMN_ADDRESS));
	VirtualTime start = {address->block, address->fraction};
	int			class = address->class;
	GroupName	name;

	if (class >= state->classes)
		return;
	if (!count->any[class] || virtual_time_compare(start, count->first[class]) < 0)
		count->first[class] = start;
	count->any[class] = true;
	name = group_of(count);
	groups_restore(state, address, &name, DatumGetFloat4(VALUE(COLUMN_COST)),
				   count_row(count, buffer, tuple, class, &name));
	group_end(count);
}

/*
 * Read all rows; count them, and unless tags is false note what they say of
 * tags.
 */
static void
read_rows(Relation rel, QueueInfo *info, bool tags, QueueDepths depths)
{
	QueueState *state = info->state;
	TupleDesc	tupdesc = RelationGetDescr(rel);
	RowCount	row_count = {.info = info};
	RowCount   *count = &row_count;
	Snapshot	snapshot;
	TableScanDesc scan;
	HeapTuple	tuple;

	AssertRelationLocked(rel, AccessShareLock);
	memset(depths, 0, sizeof(QueueDepths));
	/* Before the snapshot is taken: what commits from now on is counted. */
	if (tags)
	{
		groups_count_anew(state);
		leases_count_anew(queue_state_number(state));
	}
	tags &= (info->policy == QUEUE_FAIR);
	count->values = palloc(tupdesc->natts * sizeof(Datum));
	count->nulls = palloc(tupdesc->natts * sizeof(bool));

	snapshot = RegisterSnapshot(GetLatestSnapshot());

	/* Without our own changes: they are counted when they are committed. */
	snapshot->curcid = FirstCommandId;
	/* From the first page on, in order: see above. */
	scan = table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	patience_own_work(true);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Buffer		buffer = ((HeapScanDesc) scan)->rs_cbuf;
		QueueCounter depth;

		CHECK_FOR_INTERRUPTS();
		heap_deform_tuple(tuple, tupdesc, count->values, count->nulls);
		if (!count->nulls[info->columns[COLUMN_ADDRESS] - 1])
		{
			depths[QUEUE_ADDRESSED]++;
			if (tags)
				note_tag(count, buffer, tuple);
			continue;
		}
		depth = task_state_depth(DatumGetChar(VALUE(COLUMN_STATE)));
		if (depth != QUEUE_ADDRESSED)
			depths[depth]++;
		if (depth == QUEUE_OVERFLOW && tags)
			note_overflow(count, buffer, tuple);
	}
	patience_own_work(false);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);

	for (int class = 0; class < FAIRQ_CLASSES; class++)
	{
		if (count->any[class])
			queue_order_start_at(&state->orders[class], count->first[class]);
	}
	if (tags)
		groups_begin_lines(state);
}

#undef VALUE

/*
 * Is there a transaction that was prepared before the server started, and
 * that has written to a queue?  What it did has not been counted, and a pass
 * that reads the rows before it ends does not see it.
 */
static bool
prepared_before_start(Relation rel)
{
	LOCKTAG		tag;
	VirtualTransactionId *holders;
	int			n;
	bool		found = false;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, RelationGetRelid(rel));
	holders = GetLockConflicts(&tag, ShareLock, &n);
	for (int i = 0; i < n; i++)
		found |= VirtualTransactionIdIsRecoveredPreparedXact(holders[i]);
	pfree(holders);
	return found;
}

/*
 * See that the groups' tags and the depths are known.  Waits if another
 * backend is reading them.
 */
void
recovery_tags(Relation rel, QueueInfo *info)
{
	QueueState *state = info->state;

	AssertRelationLocked(rel, AccessShareLock);
	while (unlikely(state->recovery.groups != QUEUE_KNOWN))
	{
		QueueDepths before_reading;
		QueueDepths depths;
		TimestampTz began = GetCurrentTimestamp();

		if (!queue_state_recovery_begin(state, &state->recovery.groups))
			continue;

		/* What we read replaces what was counted up to now. */
		for (int i = QUEUE_FIRST_DEPTH; i < QUEUE_COUNTERS; i++)
			before_reading[i] = (int64) pg_atomic_read_u64(&state->tallies.n[i]);
		PG_ENSURE_ERROR_CLEANUP(recovery_failed, PointerGetDatum(state));
		{
			/* Before the rows are read: what has ended by now is seen. */
			if (prepared_before_start(rel))
				queue_state_recount(state);
			read_rows(rel, info, true, depths);
		}
		PG_END_ENSURE_ERROR_CLEANUP(recovery_failed, PointerGetDatum(state));
		for (int i = QUEUE_FIRST_DEPTH; i < QUEUE_COUNTERS; i++)
			queue_state_count(state, i, depths[i] - before_reading[i]);
		if (info->policy == QUEUE_FAIR)
			pg_atomic_write_u64(&state->counts.counted, QUEUE_ALL_COUNTED);
		queue_state_recovery_end(state, &state->recovery.groups, QUEUE_KNOWN);
		state->counts.rests_until = wall_clock_rest(began, GetCurrentTimestamp(),
													RECOUNT_REST, RECOUNT_REST_MAX);
	}
}

/*
 * Has the table to be read, and is it of a size that takes more than a tenth of
 * a second or so?
 */
bool
recovery_is_long(Relation rel, QueueInfo *info)
{
	return unlikely(info->state->recovery.groups != QUEUE_KNOWN) &&
		RelationGetNumberOfBlocks(rel) > LONG_PAGES;
}

/* Is a backend reading it? */
bool
recovery_is_under_way(QueueInfo *info)
{
	return *(volatile QueueRecovery *) &info->state->recovery.groups == QUEUE_RECOVERING;
}

typedef struct TagsToRead
{
	Relation	rel;
	QueueInfo  *info;
} TagsToRead;

static void
read_tags(void *arg)
{
	recovery_tags(((TagsToRead *) arg)->rel, ((TagsToRead *) arg)->info);
}

/*
 * Have the tags known before a lease is settled, so that what this changes is
 * counted once.  That is not to fail for want of entries for groups: then it
 * is counted later, as it is by then.
 */
void
recovery_try_tags(Relation rel, QueueInfo *info)
{
	TagsToRead	arg = {rel, info};
	ErrorData  *error;

	if (likely(info->state->recovery.groups == QUEUE_KNOWN))
		return;
	error = run_as_try(read_tags, &arg);
	if (error == NULL)
		return;
	if (error->sqlerrcode != ERRCODE_CONFIGURATION_LIMIT_EXCEEDED)
		ReThrowError(error);
	FreeErrorData(error);
}

/*
 * The counts of a queue were found to be off: have it counted anew by the
 * next backend that needs that.  Not while a transaction writes to it, ours
 * included, for that has counted already what would be counted again when it
 * commits; nor while it is prepared; nor soon after the last time, for who
 * rolls back prepared transactions could have all rows read without a pause.
 * Then the caller comes again.
 */
void
recovery_recount(Relation rel, QueueInfo *info)
{
	QueueState *state = info->state;

	if (likely(!state->counts.recount) || TransactionIdIsValid(GetTopTransactionIdIfAny()) ||
		wall_clock_ahead(state->counts.rests_until, GetCurrentTimestamp(), RECOUNT_REST_MAX) ||
		!ConditionalLockRelation(rel, ShareLock))
		return;
	SpinLockAcquire(&state->recovery.mutex);
	if (state->recovery.groups == QUEUE_KNOWN)
	{
		state->recovery.groups = QUEUE_UNKNOWN;
		pg_atomic_write_u64(&state->counts.counted, 0);
	}
	if (state->recovery.groups == QUEUE_UNKNOWN)
		state->counts.recount = false;
	SpinLockRelease(&state->recovery.mutex);
	UnlockRelation(rel, ShareLock);
}

/*
 * How many tasks are in which state.  On a standby nothing is counted, so
 * there they are read each time.
 */
void
recovery_depths(Relation rel, QueueInfo *info, QueueDepths depths)
{
	if (RecoveryInProgress())
	{
		read_rows(rel, info, false, depths);
		return;
	}
	recovery_tags(rel, info);
	for (int i = QUEUE_FIRST_DEPTH; i < QUEUE_COUNTERS; i++)
		depths[i] = queue_state_counter(info->state, i);
}
