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
 * The counts are exact.  A backend that writes rows waits for the pass, so
 * what the pass sees is what has not been counted, and what it does not see is
 * counted by the backend that writes it.  Claims, which write nothing, do not
 * wait.  So the pass takes the rows in their order in the table, and says how
 * far it has come (QueueState.counted) while it has the row's page locked, as
 * claims have: a task that is leased before is not counted as ready, and its
 * lease learns that its end has to; one that is leased after is counted off
 * (groups_lease_begins).
 *
 * Virtual time starts at the first row there is: what was claimed before is
 * either gone or to be delivered again.
 *
 * Locking: at most one backend makes the pass over a queue
 * (queue_state_recovery_begin); the others that need it sleep until it has
 * ended, without a lock of ours.  The content lock of a row's page is held
 * while the task's lease is looked for and the position is written, and
 * nothing else is done under it.
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
#include "utils/memutils.h"
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

/*
 * A table of more pages than this takes long to read: more than a tenth of a
 * second or so.
 */
#define LONG_PAGES			1000

/*
 * No count for this many times as long as the last one took, or for this many
 * microseconds, whichever is less.
 */
#define RECOUNT_REST		20
#define RECOUNT_REST_MAX	USECS_PER_MINUTE

/*
 * See that every class and bucket with rows has its lane.  The caller has rel
 * open and locked.  On return it is so, for rows that are committed by now:
 * later ones get their lanes from who writes them.
 *
 * May fail, and then the next caller does it again.  Several backends may do
 * it at once, for a lane that is there already is found.
 */
void
recovery_classes(Relation rel, QueueInfo *info)
{
	QueueState *state = info->state;
	int			bucket = 0;
	int			class = -1;

	AssertRelationLocked(rel, AccessShareLock);
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

/*
 * The pass was cut short, by an error or the end of the backend; another
 * backend has to do it.  No row is counted then: what was counted is forgotten
 * when the pass begins anew (groups_count_anew).  Never fails.
 */
static void
recovery_failed(int code, Datum arg)
{
	QueueState *state = (QueueState *) DatumGetPointer(arg);

	pg_atomic_write_u64(&state->counts.counted, 0);
	queue_state_recovery_end(state, &state->recovery.groups, QUEUE_UNKNOWN);
}

/*
 * A pass over the rows.  values and nulls are of the row that is being looked
 * at, by attribute, and point into its page.
 */
typedef struct RowCount
{
	QueueInfo  *info;
	Datum	   *values;
	bool	   *nulls;
	bool		any[FAIRQ_CLASSES]; /* rows with addresses; where the first
									 * is: */
	VirtualTime first[FAIRQ_CLASSES];
} RowCount;

#define VALUE(column) count->values[count->info->columns[column] - 1]

/*
 * What the task of a row counts for: its group, or its subgroup.  Its keys may
 * be copies, which go with the memory context of the row.
 */
static GroupName
group_of(RowCount *count)
{
	bool		subgroup = !count->nulls[count->info->columns[COLUMN_SUBGROUP_KEY] - 1];

	return queue_catalog_group(count->info, DatumGetTextPP(VALUE(COLUMN_GROUP_KEY)),
							   subgroup ? DatumGetTextPP(VALUE(COLUMN_SUBGROUP_KEY)) : NULL);
}

/*
 * Count a row: from now on its task counts.  Returns whether it is leased.
 *
 * The page is pinned.  Its content lock is taken exclusively, as no claim has
 * it then: a claim leases a task under a share lock.  Under it two things are
 * done that no claim may come between: the lease is told that its end counts
 * the task, and the position says that the row is counted.  A claim that comes
 * later reads the position, and counts off the task.
 *
 * A lease that knows no group is told one first, without the page's lock, for
 * to make an entry may fail.  It may be over by then, so all is looked at
 * again.
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
	pg_atomic_write_u64(&state->counts.counted, queue_state_position(&tuple->t_self) + 1);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return leased;
}

/*
 * A row in the overflow: it counts for its group, unless it is leased.  Its
 * lane, the first of its class, is there then, for the group's line.
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
}

/*
 * A row with an address: note what it says of its group's tag, and count it.
 * Rows of a class that the queue does not have are passed over.  Virtual time
 * will begin at the first address of the class.
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
				   DatumGetTimestampTz(VALUE(COLUMN_ENQUEUED_AT)),
				   count_row(count, buffer, tuple, class, &name));
}

/*
 * Read all rows; count them, and unless tags is false note what they say of
 * tags.  depths is set to how many are in which state, as the snapshot has
 * them: rows of open transactions are not among them.  The caller has rel
 * locked, and is the one that makes the pass, or tags is false.  Fails if it
 * is cancelled, or if there is no entry for a group; then the caller has it
 * done anew.
 */
static void
read_rows(Relation rel, QueueInfo *info, bool tags, QueueDepths depths)
{
	QueueState *state = info->state;
	TupleDesc	tupdesc = RelationGetDescr(rel);
	RowCount	row_count = {.info = info};
	RowCount   *count = &row_count;
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "pgfairq row",
													  ALLOCSET_SMALL_SIZES);
	Snapshot	snapshot;
	TableScanDesc scan;
	HeapTuple	tuple;

	AssertRelationLocked(rel, AccessShareLock);
	memset(depths, 0, sizeof(QueueDepths));
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
		MemoryContext old = MemoryContextSwitchTo(row_context);
		bool		addressed;
		QueueCounter depth;

		CHECK_FOR_INTERRUPTS();
		heap_deform_tuple(tuple, tupdesc, count->values, count->nulls);
		addressed = !count->nulls[info->columns[COLUMN_ADDRESS] - 1];
		depth = addressed ? QUEUE_ADDRESSED : task_state_depth(DatumGetChar(VALUE(COLUMN_STATE)));
		if (addressed || depth != QUEUE_ADDRESSED)
			depths[depth]++;
		if (tags && addressed)
			note_tag(count, buffer, tuple);
		else if (tags && depth == QUEUE_OVERFLOW)
			note_overflow(count, buffer, tuple);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row_context);
	}
	MemoryContextDelete(row_context);
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
 * Is there a transaction that was prepared before the server started, and that
 * has written to a queue?  What it did has not been counted, and a pass that
 * reads the rows before it ends does not see it (race 13).  Told by its lock
 * on the table.
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
 * backend is reading them, without detecting a deadlock; so the caller holds
 * no lock of ours and has rel locked already.
 *
 * On return they are known, and count each committed row once, whatever was
 * written meanwhile.  Fails if the pass does: then the state is as unknown as
 * before, and the error is the caller's.
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

		PG_ENSURE_ERROR_CLEANUP(recovery_failed, PointerGetDatum(state));
		{
			/* Before the rows are read: what has ended by now is seen. */
			if (prepared_before_start(rel))
				queue_state_recount(state);
			leases_count_anew(queue_state_number(state));
			groups_count_anew(state);

			/*
			 * What we read replaces what was counted up to now.  A pop, which
			 * does not wait for us, is counted twice if it commits before our
			 * snapshot and tells the figures after this: so these are next to
			 * each other.
			 */
			for (int i = QUEUE_FIRST_DEPTH; i < QUEUE_COUNTERS; i++)
				before_reading[i] = (int64) pg_atomic_read_u64(&state->tallies.n[i]);
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
 * Has the table to be read, and is it of a size that takes more than a tenth
 * of a second or so?  A hint, for a backend that may leave that to another
 * process.
 */
bool
recovery_is_long(Relation rel, QueueInfo *info)
{
	return unlikely(info->state->recovery.groups != QUEUE_KNOWN) &&
		RelationGetNumberOfBlocks(rel) > LONG_PAGES;
}

/* Is a backend reading it?  Without the mutex: as of a moment ago. */
bool
recovery_is_under_way(QueueInfo *info)
{
	return *(volatile QueueRecovery *) &info->state->recovery.groups == QUEUE_RECOVERING;
}

/* The arguments of recovery_tags, for run_as_try. */
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
 *
 * The caller has rel locked, and nothing in hand, for that is given back when
 * a subtransaction rolls back: the pass is made in one, so that its error can
 * be caught.  Any other error than that is raised.
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
 * The counts of a queue were found to be off: have it counted anew by the next
 * backend that needs that.  Not while a transaction writes to it, ours
 * included, for that has counted already what would be counted again when it
 * commits; nor while it is prepared; nor soon after the last time, or prepared
 * transactions that are rolled back again and again could have all rows read
 * without a pause.
 *
 * The caller has rel locked, in a mode that lets others write, and comes again
 * when this has done nothing.  A ShareLock that is got at once says that no
 * other transaction has written to the table and not ended; it is released, for
 * what is written from then on is counted by who waits for the pass
 * (recovery_tags).  Claims are not kept out, or there might never be a moment
 * without one.  One that is stopped between its look at the counts and its
 * lease, for as long as it takes until the pass has begun, may leave its group
 * off by one.
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
 * there they are read each time.  The caller has rel locked.  depths is set,
 * from QUEUE_FIRST_DEPTH on; the figures of a primary are of one moment each.
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
