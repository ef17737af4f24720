/*-------------------------------------------------------------------------
 *
 * looking.c
 *	  The functions of schema fairq that change nothing: tasks and figures.
 *
 * Tasks are read with the caller's snapshot, as any SELECT reads them, and
 * with the privileges of a SELECT.  Whether a task is leased is looked up in
 * the lease table, so it is as of now.
 *
 * The functions behind the views show the queues that the caller may read, and
 * all of them to members of pg_monitor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_authid_d.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "arguments.h"
#include "claim.h"
#include "groups.h"
#include "looking.h"
#include "recovery.h"
#include "sql_api.h"
#include "stats.h"

PG_FUNCTION_INFO_V1(fairq_peek);
PG_FUNCTION_INFO_V1(fairq_get_task);
PG_FUNCTION_INFO_V1(fairq_tasks);
PG_FUNCTION_INFO_V1(fairq_stats_of_queues);
PG_FUNCTION_INFO_V1(fairq_reset_stats);
PG_FUNCTION_INFO_V1(fairq_stats_of_buckets);
PG_FUNCTION_INFO_V1(fairq_live_leases);

/* ----------------------------------------------------------------
 * Tasks
 * ----------------------------------------------------------------
 */

/* One that peek may show. */
typedef struct Candidate
{
	FairqAddress address;
	Lane	   *lane;
	LaneEntry	place;			/* leads to the row itself */
} Candidate;

static int
compare_candidates(const void *a, const void *b)
{
	const FairqAddress *x = &((const Candidate *) a)->address;
	const FairqAddress *y = &((const Candidate *) b)->address;

	if (x->class != y->class)
		return (x->class < y->class) ? -1 : 1;
	return address_compare_in_lane(x, y);
}

/*
 * The first max candidates of a lane that are ready: from the window, and from
 * the index where that ends.  Returns how many.
 */
static int
lane_candidates(Relation rel, QueueInfo *info, Lane *lane, RowReader *row,
				int max, Candidate *candidates)
{
	LaneEntry	entries[LANE_WINDOW];
	FairqAddress frontier;
	LaneEntry	from = {0};
	bool		complete;
	int			n = lanes_copy_window(lane, entries, &frontier, &complete);
	bool		more = !complete;
	int			found = 0;
	LeaseInfo	lease;

	lanes_entry(&from, &frontier, &from.tid);
	for (;;)
	{
		for (int i = 0; i < n && found < max; i++)
		{
			FairqAddress place;

			CHECK_FOR_INTERRUPTS();
			lanes_entry_address(lane, &entries[i], &place);
			if (row_reader_entry(row, &entries[i]) != ROW_LIVE)
				continue;
			row_reader_unlock(row);
			if (!row_reader_is_at(row, lane, &entries[i]))
				continue;
			if (leases_find(queue_state_number(info->state),
							DatumGetInt64(row_value(row, COLUMN_ID)), &lease))
				continue;
			if (found > 0 &&
				address_compare(&candidates[found - 1].address, &place) == 0 &&
				ItemPointerEquals(&candidates[found - 1].place.tid, &row->tuple.t_self))
				continue;
			candidates[found].address = place;
			candidates[found].lane = lane;
			candidates[found].place = entries[i];
			candidates[found].place.tid = row->tuple.t_self;
			found++;
		}
		if (!more || found == max)
			return found;
		n = queue_relation_look(rel, info, lane, &from, LANE_WINDOW, entries,
								&from, &more);
	}
}

/*
 * Read the row of a candidate once more.  Returns false if it is gone meanwhile, or
 * has another place.
 */
static bool
read_candidate(RowReader *row, const Candidate *candidate)
{
	return row_reader_read(row, &candidate->place.tid) == ROW_LIVE &&
		row_reader_is_at(row, candidate->lane, &candidate->place);
}

/*
 * fairq.peek(queue, max_tasks): what claim would return next, in order.
 */
Datum
fairq_peek(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.peek()";
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			max = PG_ARGISNULL(1) ? 10 : PG_GETARG_INT32(1);
	Relation	rel;
	QueueInfo  *info;
	QueueState *state;
	RowReader	row;
	int			shown = 0;

	arguments_require_preload(function);
	if (max < 1 || max > 100000)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s: argument \"max_tasks\" is %d", function, max),
				 errhint("It must be from 1 to 100000.")));
	info = queue_catalog_open(arguments_queue(fcinfo, function),
							  AccessShareLock, ACL_SELECT, &rel);
	state = info->state;
	InitMaterializedSRF(fcinfo, 0);
	recovery_classes(rel, info);
	row_reader_begin(&row, rel, info);
	for (int class = 0; class < state->classes && shown < max && !info->paused; class++)
	{
		const LaneSet *set = &state->orders[class].lanes;
		Candidate  *candidates = NULL;
		Lane	   *lane;
		int			n = 0;

		for (int b = 0; (lane = lanes_next(set, &b)) != NULL; b++)
		{
			Size		size = (Size) (n + max - shown) * sizeof(Candidate);

			candidates = (candidates == NULL) ?
				MemoryContextAllocHuge(CurrentMemoryContext, size) :
				repalloc_huge(candidates, size);
			n += lane_candidates(rel, info, lane, &row, max - shown, candidates + n);
		}
		if (n == 0)
			continue;
		qsort(candidates, n, sizeof(Candidate), compare_candidates);
		for (int i = 0; i < n && shown < max; i++)
		{
			if (!read_candidate(&row, &candidates[i]))
				continue;
			sql_api_put_task(&row, NULL, rsinfo);
			shown++;
		}
		pfree(candidates);
	}
	row_reader_end(&row);
	relation_close(rel, NoLock);
	return (Datum) 0;
}

/*
 * Has a task of the overflow been given a place, as far as its group knows?  If it is
 * not in its lane a claim may have it in hand that is about to lease it.  Not for one
 * of our own transaction: others of its group may have been, after it.
 */
bool
looking_has_been_fed(QueueState *queue, int class, const text *key, int64 task)
{
	GroupTag	tag;

	return groups_look(queue, class, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), &tag) &&
		task < tag.overflow_fed;
}

/*
 * One row of type fairq.task_status, if it is in the state and the group asked
 * for (NULL: any).  offered has one for each class.
 */
static void
put_status(ReturnSetInfo *rsinfo, QueueInfo *info, HeapTuple tuple,
		   TupleDesc tupdesc, const char *wanted_state, const text *group,
		   OfferedTasks *offered)
{
	QueueState *queue = info->state;
	static const QueueColumn shown[] = {
		COLUMN_ID, COLUMN_STATE, COLUMN_GROUP_KEY, COLUMN_PAYLOAD, COLUMN_HEADERS,
		COLUMN_PRIORITY, COLUMN_COST, COLUMN_ATTEMPTS, COLUMN_MAX_ATTEMPTS,
		COLUMN_ENQUEUED_AT, COLUMN_RUN_AT, COLUMN_LEASE /* lease_until */ ,
		COLUMN_ADDRESS, COLUMN_UNIQUE_KEY, COLUMN_LAST_ERROR
	};
	Datum		row[MaxHeapAttributeNumber];
	bool		row_nulls[MaxHeapAttributeNumber];
	Datum		values[lengthof(shown)];
	bool		nulls[lengthof(shown)];
	LeaseInfo	lease;
	const char *state;
	bool		leased = false;

	heap_deform_tuple(tuple, tupdesc, row, row_nulls);
	for (int i = 0; i < (int) lengthof(shown); i++)
	{
		values[i] = row[info->columns[shown[i]] - 1];
		nulls[i] = row_nulls[info->columns[shown[i]] - 1];
	}

	if (nulls[12])
	{
		state = queue_catalog_state_name(DatumGetChar(values[1]));
		if (DatumGetChar(values[1]) == TASK_OVERFLOW)
		{
			int			class = queue_state_class(queue, DatumGetInt64(values[5]));

			/* Its place is in memory. */
			leased = leases_find(queue_state_number(queue), DatumGetInt64(values[0]),
								 &lease);
			if (leased)
				state = "leased";
			else if (lanes_is_offered(&queue->orders[class].lanes, &offered[class],
									  DatumGetInt64(values[0])) ||
					 (!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)) &&
					  looking_has_been_fed(queue, class, DatumGetTextPP(values[2]),
										   DatumGetInt64(values[0]))))
				state = "ready";
		}
	}
	else
	{
		leased = leases_find(queue_state_number(info->state),
							 DatumGetInt64(values[0]), &lease);
		state = leased ? "leased" : "ready";
	}
	if (wanted_state != NULL && strcmp(state, wanted_state) != 0)
		return;
	if (group != NULL && !queue_relation_same_group(DatumGetTextPP(values[2]), group))
		return;

	values[1] = CStringGetTextDatum(state);
	if (nulls[8])
	{
		values[8] = Int32GetDatum(info->max_attempts);
		nulls[8] = false;
	}
	nulls[11] = !leased;
	if (leased)
		values[11] = TimestampTzGetDatum(lease.deadline);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * fairq.get_task(queue, id): one task in whatever state.
 */
Datum
fairq_get_task(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.get_task()";
	Relation	rel;
	Relation	index;
	QueueInfo  *info;
	IndexScanDesc scan;
	ScanKeyData key;
	Snapshot	snapshot;
	TupleTableSlot *slot;
	OfferedTasks offered[FAIRQ_CLASSES] = {0};

	arguments_require_preload(function);
	(void) arguments_queue(fcinfo, function);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s: argument \"id\" is null", function),
				 errhint("Give the id of a task.")));
	info = queue_catalog_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
	InitMaterializedSRF(fcinfo, 0);

	index = index_open(info->id_index, AccessShareLock);
	slot = table_slot_create(rel, NULL);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, PG_GETARG_DATUM(1));
	snapshot = queue_relation_snapshot();
	scan = fairq_index_beginscan(rel, index, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	if (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		bool		should_free;
		HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);

		put_status((ReturnSetInfo *) fcinfo->resultinfo, info, tuple,
				   RelationGetDescr(rel), NULL, NULL, offered);
		if (should_free)
			heap_freetuple(tuple);
	}
	index_endscan(scan);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	relation_close(rel, NoLock);
	return (Datum) 0;
}

/*
 * fairq.tasks(queue, state, group_key): all tasks, or some.
 */
Datum
fairq_tasks(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.tasks()";
	static const char *const states[] = {
		"ready", "leased", "scheduled", "overflow", "held", "dead"
	};
	Relation	rel;
	QueueInfo  *info;
	TableScanDesc scan;
	Snapshot	snapshot;
	HeapTuple	tuple;
	OfferedTasks offered[FAIRQ_CLASSES] = {0};
	char	   *state = NULL;
	text	   *group = PG_ARGISNULL(2) ? NULL : PG_GETARG_TEXT_PP(2);

	arguments_require_preload(function);
	(void) arguments_queue(fcinfo, function);
	if (!PG_ARGISNULL(1))
	{
		bool		known = false;

		state = text_to_cstring(PG_GETARG_TEXT_PP(1));
		for (int i = 0; i < (int) lengthof(states); i++)
			known |= (strcmp(state, states[i]) == 0);
		if (!known)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("%s: argument \"state\" is %s", function,
							arguments_quote(state, strlen(state))),
					 errhint("It must be ready, leased, scheduled, overflow, held or dead.")));
	}
	info = queue_catalog_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
	InitMaterializedSRF(fcinfo, 0);
	snapshot = queue_relation_snapshot();
	scan = table_beginscan(rel, snapshot, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		put_status((ReturnSetInfo *) fcinfo->resultinfo, info, tuple,
				   RelationGetDescr(rel), state, group, offered);
	}
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	relation_close(rel, NoLock);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 * Figures
 * ----------------------------------------------------------------
 */

static bool
may_see(Oid relation)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_MONITOR) ||
		pg_class_aclcheck(relation, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

/*
 * The queues of this database that the caller may see: their tables' oids.
 */
List *
looking_visible_queues(void)
{
	List	   *result = NIL;
	Oid			schema = queue_catalog_schema(false);
	Oid			relid = get_relname_relid("queue", schema);
	Relation	rel = table_open(relid, AccessShareLock);
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);
	HeapTuple	tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		bool		isnull;
		Datum		name = heap_getattr(tuple, get_attnum(relid, "queue"),
										RelationGetDescr(rel), &isnull);
		char		relname[NAMEDATALEN];
		Oid			table;

		queue_catalog_relation_name(TextDatumGetCString(name), relname);
		table = get_relname_relid(relname, schema);
		if (OidIsValid(table) && may_see(table))
			result = lappend_oid(result, table);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

/*
 * Can the table of a queue, which is locked, be opened as one?  Not if somebody
 * has made it unfit, or if there are more queues than there is room for.  What
 * opens it says so with an error, so this is a subtransaction.
 */
static bool
can_be_opened(Oid relation)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool result = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		Relation	rel;

		if (queue_catalog_open_relation(relation, NoLock, 0, &rel) != NULL)
		{
			relation_close(rel, NoLock);
			result = true;
		}
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (error->sqlerrcode != ERRCODE_INVALID_TABLE_DEFINITION &&
			error->sqlerrcode != ERRCODE_CONFIGURATION_LIMIT_EXCEEDED)
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	return result;
}

/*
 * Open the table of a queue for its figures, unless it, or an index, is locked
 * (VACUUM FULL, ALTER TABLE, REINDEX), or it cannot serve as a queue: a view
 * over all queues neither waits for one of them nor fails because of it.  NULL
 * then, and if it is gone.
 */
QueueInfo *
looking_open(Oid relation, Relation *rel)
{
	QueueInfo  *info = NULL;
	bool		locked = false;
	ListCell   *lc;

	if (!ConditionalLockRelationOid(relation, AccessShareLock))
		return NULL;
	*rel = try_relation_open(relation, NoLock);
	if (*rel != NULL)
	{
		List	   *indexes = RelationGetIndexList(*rel);

		foreach(lc, indexes)
		{
			/* A look is enough: that it is locked just now would be bad luck. */
			locked = !ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock);
			if (locked)
				break;
			UnlockRelationOid(lfirst_oid(lc), AccessShareLock);
		}
		relation_close(*rel, NoLock);
		if (!locked && can_be_opened(relation))
			info = queue_catalog_open_relation(relation, NoLock, 0, rel);
	}
	if (info == NULL)
		UnlockRelationOid(relation, AccessShareLock);
	return info;
}

/*
 * When the longest waiting of the tasks at the fronts of the lanes was
 * enqueued.  Returns false if none is ready.
 */
static bool
oldest_ready(Relation rel, QueueInfo *info, TimestampTz *oldest)
{
	QueueState *state = info->state;
	RowReader	row;
	bool		any = false;

	row_reader_begin(&row, rel, info);
	for (int class = 0; class < state->classes; class++)
	{
		Lane	   *lane;

		for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
		{
			Candidate	candidate;
			TimestampTz at;

			if (lane_candidates(rel, info, lane, &row, 1, &candidate) == 0 ||
				!read_candidate(&row, &candidate))
				continue;
			at = DatumGetTimestampTz(row_value(&row, COLUMN_ENQUEUED_AT));
			if (!any || at < *oldest)
				*oldest = at;
			any = true;
		}
	}
	row_reader_end(&row);
	return any;
}

/*
 * Rates, quantiles of waits and runs, and sizes of payloads: 13 columns.
 */
static void
put_figures(QueueState *state, Datum *values, bool *nulls)
{
	static const double quantiles[] = {0.5, 0.95, 0.99, 1.0};
	TimestampTz now = GetCurrentTimestamp();
	int64		found[lengthof(quantiles)];
	int64		n;

	for (int i = 0; i < STATS_RATES; i++)
		values[i] = Float8GetDatum(stats_rate(state, i, now));
	for (int h = STATS_WAIT; h <= STATS_RUN; h++)
	{
		n = stats_quantiles(state, h, quantiles, 3, found);
		for (int i = 0; i < 3; i++)
		{
			Interval   *interval = palloc0(sizeof(Interval));
			int			at = STATS_RATES + h * 3 + i;

			nulls[at] = (n == 0);
			if (n > 0)
				interval->time = found[i];
			values[at] = IntervalPGetDatum(interval);
		}
	}

	n = stats_quantiles(state, STATS_PAYLOAD, quantiles, 4, found);
	for (int i = 9; i < 13; i++)
		nulls[i] = (n == 0);
	if (n == 0)
		return;
	values[9] = Int64GetDatum(queue_state_counter(state, QUEUE_PAYLOAD_BYTES) / n);
	values[10] = Int64GetDatum(found[0]);
	values[11] = Int64GetDatum(found[1]);
	values[12] = Int64GetDatum(found[3]);
}

/*
 * fairq.reset_stats(queue): count anew, in one queue or in all of the caller's.
 * As with the server's own statistics it is done at once and not undone, and
 * needs no transaction that may write.
 */
Datum
fairq_reset_stats(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.reset_stats()";
	List	   *queues = NIL;
	ListCell   *lc;

	arguments_require_preload(function);
	if (!PG_ARGISNULL(0))
	{
		Relation	rel;
		QueueInfo  *info = queue_catalog_open(arguments_queue(fcinfo, function),
											  AccessShareLock, 0, &rel);

		queue_catalog_check_owner(info);
		stats_reset(info->state);
		relation_close(rel, AccessShareLock);
		PG_RETURN_VOID();
	}
	queues = queue_catalog_list();
	foreach(lc, queues)
	{
		Relation	rel;
		QueueInfo  *info;

		if (!fairq_relation_ownercheck(lfirst_oid(lc), GetUserId()))
			continue;
		info = looking_open(lfirst_oid(lc), &rel);
		if (info == NULL)
		{
			/* Locked: it has figures to forget if it was used since the start. */
			QueueState *state = queue_state_find(lfirst_oid(lc));

			if (state != NULL)
				stats_reset(state);
			continue;
		}
		stats_reset(info->state);
		relation_close(rel, AccessShareLock);
	}
	PG_RETURN_VOID();
}

/*
 * One row of queue_stats.  places: tasks of the overflow that have any.  depths,
 * oldest: NULL if not known.
 */
static void
put_queue(ReturnSetInfo *rsinfo, const char *name, QueueState *state,
		  const int64 *depths, int64 places, const TimestampTz *oldest)
{
	Datum		values[31] = {0};
	bool		nulls[31];
	int			leased;
	int			of_overflow;

	memset(nulls, true, sizeof(nulls));
	values[0] = CStringGetTextDatum(name);
	nulls[0] = false;
	if (state != NULL)
	{
		leased = leases_count(queue_state_number(state), &of_overflow);
		memset(nulls, false, sizeof(nulls));
		for (int i = 1; i <= 6; i++)
			nulls[i] = (depths == NULL);
		if (depths != NULL)
		{
			/* By their rows those that are leased or have places are in the overflow. */
			int64		overflow = Max(depths[QUEUE_OVERFLOW] - of_overflow, 0);

			places = Min(places, overflow);
			values[1] = Int64GetDatum(Max(depths[QUEUE_ADDRESSED] - (leased - of_overflow), 0) +
									  places);
			values[3] = Int64GetDatum(depths[QUEUE_SCHEDULED]);
			values[4] = Int64GetDatum(overflow - places);
			values[5] = Int64GetDatum(depths[QUEUE_HELD]);
			values[6] = Int64GetDatum(depths[QUEUE_DEAD]);
		}
		values[2] = Int64GetDatum(leased);
		nulls[2] = false;
		nulls[7] = (oldest == NULL);
		if (oldest != NULL)
			values[7] = DirectFunctionCall2(timestamp_mi,
											TimestampTzGetDatum(GetCurrentTimestamp()),
											TimestampTzGetDatum(*oldest));
		for (int i = QUEUE_ENQUEUED; i <= QUEUE_SWEPT; i++)
			values[8 + i] = Int64GetDatum(queue_state_counter(state, i));
		put_figures(state, values + 17, nulls + 17);
		values[30] = TimestampTzGetDatum(state->stats_reset);
	}
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * The same of a queue that is locked, unfit or gone: what shared memory knows.
 */
static void
put_locked_queue(ReturnSetInfo *rsinfo, Oid relation)
{
	QueueState *state = queue_state_find(relation);
	char	   *relname = get_rel_name(relation);
	QueueDepths depths;

	if (relname == NULL)
		return;
	for (int i = QUEUE_FIRST_DEPTH; state != NULL && i < QUEUE_COUNTERS; i++)
		depths[i] = queue_state_counter(state, i);
	put_queue(rsinfo, relname + strlen("q_"), state,
			  state != NULL && state->recovery == QUEUE_KNOWN && !RecoveryInProgress() ?
			  depths : NULL, state != NULL ? queue_state_offered(state) : 0, NULL);
}

/*
 * fairq.stats_of_queues(): one row a queue.
 */
Datum
fairq_stats_of_queues(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *queues;
	ListCell   *lc;

	arguments_require_preload("fairq.stats_of_queues()");
	InitMaterializedSRF(fcinfo, 0);
	queues = looking_visible_queues();
	foreach(lc, queues)
	{
		Relation	rel;
		QueueInfo  *info = looking_open(lfirst_oid(lc), &rel);
		QueueDepths depths;
		TimestampTz oldest = 0;

		if (info == NULL)
		{
			put_locked_queue(rsinfo, lfirst_oid(lc));
			continue;
		}
		recovery_depths(rel, info, depths);
		recovery_classes(rel, info);
		put_queue(rsinfo, info->name, info->state, depths, looking_count_places(rel, info),
				  oldest_ready(rel, info, &oldest) ? &oldest : NULL);
		relation_close(rel, AccessShareLock);
	}
	return (Datum) 0;
}

/*
 * fairq.stats_of_buckets(): one row a lane that is set up.
 */
Datum
fairq_stats_of_buckets(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *queues;
	ListCell   *lc;

	arguments_require_preload("fairq.stats_of_buckets()");
	InitMaterializedSRF(fcinfo, 0);
	queues = looking_visible_queues();
	foreach(lc, queues)
	{
		Relation	rel;
		QueueInfo  *info = looking_open(lfirst_oid(lc), &rel);

		if (info == NULL)
			continue;
		recovery_classes(rel, info);
		for (int class = 0; class < info->state->classes; class++)
		{
			const LaneSet *set = &info->state->orders[class].lanes;
			Lane	   *lane;

			for (int b = 0; (lane = lanes_next(set, &b)) != NULL; b++)
			{
				LaneEntry	entries[LANE_WINDOW];
				FairqAddress *frontier = palloc(sizeof(FairqAddress));
				FairqAddress *next = palloc(sizeof(FairqAddress));
				bool		complete;
				Datum		values[7];
				bool		nulls[7] = {false};
				int			n = lanes_copy_window(lane, entries, frontier, &complete);

				values[0] = CStringGetTextDatum(info->name);
				values[1] = Int32GetDatum(b);
				values[2] = Int32GetDatum(class);
				values[3] = Int32GetDatum(n);
				values[4] = BoolGetDatum(complete);
				nulls[5] = (n == 0);
				if (n > 0)
					lanes_entry_address(lane, &entries[0], next);
				values[5] = FairqAddressPGetDatum(next);
				nulls[6] = complete || frontier->block == PG_INT64_MIN;
				values[6] = FairqAddressPGetDatum(frontier);
				tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
			}
		}
		relation_close(rel, AccessShareLock);
	}
	return (Datum) 0;
}

/*
 * Durable leases are restored when their queue is first opened after a crash:
 * see that those of all queues are, but for what is locked or unfit.
 */
static void
restore_leases(void)
{
	List	   *queues = looking_visible_queues();
	ListCell   *lc;

	foreach(lc, queues)
	{
		QueueState *state = queue_state_find(lfirst_oid(lc));
		Relation	rel;

		if ((state == NULL || state->leases != QUEUE_KNOWN) &&
			looking_open(lfirst_oid(lc), &rel) != NULL)
			relation_close(rel, AccessShareLock);
	}
	list_free(queues);
}

/*
 * fairq.live_leases(): one row a lease of a queue of this database.
 */
Datum
fairq_live_leases(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	LeaseInfo  *leases;
	TimestampTz now = GetCurrentTimestamp();
	int			n;

	arguments_require_preload("fairq.live_leases()");
	InitMaterializedSRF(fcinfo, 0);
	restore_leases();
	n = leases_list(&leases);
	for (int i = 0; i < n; i++)
	{
		QueueState *state = queue_state_by_number(leases[i].queue);
		Datum		values[7];
		bool		nulls[7] = {false};
		pg_uuid_t	receipt;
		char	   *relname;

		CHECK_FOR_INTERRUPTS();
		if (state->database != MyDatabaseId || leases[i].ref.token == 0 ||
			!may_see(state->relation))
			continue;
		relname = get_rel_name(state->relation);
		if (relname == NULL)
			continue;
		leases_to_receipt(&leases[i], &receipt);
		values[0] = CStringGetTextDatum(relname + strlen("q_"));
		values[1] = Int64GetDatum(leases[i].task);
		values[2] = UUIDPGetDatum(&receipt);
		values[3] = TimestampTzGetDatum(leases[i].deadline);
		values[4] = Int32GetDatum(leases[i].attempt);
		values[5] = CStringGetTextDatum(leases[i].settling ? "settling" :
										leases[i].deadline > now ? "held" : "expired");
		values[6] = Int32GetDatum(leases[i].pid);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
