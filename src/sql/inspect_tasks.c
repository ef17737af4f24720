/*-------------------------------------------------------------------------
 *
 * inspect_tasks.c
 *	  The functions of schema fairq that look at tasks and change nothing.
 *
 * Tasks are read as they are now, also in a transaction that keeps its snapshot
 * (row_scan.c), and with the privileges of a SELECT.  Whether a task
 * is leased is looked up in the lease table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "shmem/groups.h"
#include "shmem/limit_table.h"
#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "sql/result_rows.h"
#include "sql/turn_walk.h"
#include "storage/queue_index.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "storage/row_scan.h"

PG_FUNCTION_INFO_V1(fairq_peek);
PG_FUNCTION_INFO_V1(fairq_get_task);
PG_FUNCTION_INFO_V1(fairq_get_task_by_key);
PG_FUNCTION_INFO_V1(fairq_tasks);

/* So many tasks of a unique key are shown, of which there is one. */
#define KEY_ROWS	100

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
 * May the group of the task that row has read, and its subgroup, have another
 * one?
 */
static bool
group_may(RowReader *row)
{
	QueueState *state = row->info->state;
	GroupName	name;
	uint32		limit;

	if (likely(pg_atomic_read_u32(&state->limits.entries) == 0))
		return true;
	name = row_reader_group(row);
	limit = limit_table_find(queue_state_number(state), &name, false);
	if (limit != NO_LIMIT && limit_entry_available(limit) <= 0)
		return false;
	if (!name.subgroup)
		return true;
	name = group_name_above(&name);
	limit = limit_table_find(queue_state_number(state), &name, false);
	return limit == NO_LIMIT || limit_entry_available(limit) > 0;
}

/*
 * The first max candidates of a lane that are ready, and whose groups may have
 * one: from the window, and from the index where that ends.  Not more than so
 * many places (look) are looked at.  Returns how many.
 */
static int
lane_candidates(RowReader *row, Lane *lane, int64 look, int max, Candidate *candidates)
{
	QueueInfo  *info = row->info;
	LaneWalk	walk;
	int			found = 0;

	queue_index_walk_window(&walk, lane, LANE_WINDOW);
	while (found < max && look-- > 0 && queue_index_has_entry(row->rel, info, &walk))
	{
		LaneEntry  *entry = &walk.read.entries[walk.at++];
		FairqAddress place;

		CHECK_FOR_INTERRUPTS();
		lanes_entry_address(lane, entry, &place);
		if (!turn_walk_may_claim(row, lane, entry))
			continue;
		if (found > 0 &&
			address_compare(&candidates[found - 1].address, &place) == 0 &&
			ItemPointerEquals(&candidates[found - 1].place.tid, &row->tuple.t_self))
			continue;
		if (row_reader_has_expired(row) || !group_may(row))
			continue;
		candidates[found].address = place;
		candidates[found].lane = lane;
		candidates[found].place = *entry;
		candidates[found].place.tid = row->tuple.t_self;
		found++;
	}
	pfree(walk.read.entries);
	return found;
}

/* As in the heap of a lane: of equal tags that of the lower slot is next. */
static int
compare_group_turns(const void *a, const void *b)
{
	const GroupInfo *x = a;
	const GroupInfo *y = b;
	int			result = virtual_time_compare(x->turn, y->turn);

	return result != 0 ? result : (x->slot > y->slot) - (x->slot < y->slot);
}

/*
 * The groups that have turns in a class, in the order of these: of n groups.
 * Returns how many, which are the first then.
 */
static int
groups_with_turns(GroupInfo *groups, int n, int class)
{
	int			kept = 0;

	for (int i = 0; i < n; i++)
		if (groups[i].class == class && groups[i].turns)
		{
			GroupInfo	other = groups[kept];

			groups[kept++] = groups[i];
			groups[i] = other;
		}
	qsort(groups, kept, sizeof(GroupInfo), compare_group_turns);
	return kept;
}

/*
 * The first max candidates of the turns of n groups, and of each group no more
 * than come before the first one of the group after those.
 */
static int
turn_candidates(RowReader *row, const TurnGroups *listed, int n, int max, Candidate *candidates)
{
	const GroupInfo *groups = listed->infos;
	int			found = 0;

	for (int i = 0; i < n && i < max; i++)
	{
		const VirtualTime *bound = max < n ? &groups[max].turn : NULL;
		TurnWalk	walk;
		LaneEntry	entry;
		Lane	   *lane;
		int			of_group = 0;

		turn_walk_begin(&walk, row, groups[i].number, listed);
		while (of_group < max && turn_walk_next(&walk, &lane, &entry))
		{
			Candidate  *candidate = &candidates[found];

			if (of_group > 0 && bound != NULL &&
				virtual_time_compare(walk.tag, *bound) > 0)
				break;
			if (row_reader_has_expired(row))
				continue;
			if (!group_may(row))
			{
				turn_walk_pass_line(&walk);
				continue;
			}
			lanes_entry_address(lane, &entry, &candidate->address);
			candidate->address.block = walk.tag.whole;
			candidate->address.fraction = walk.tag.fraction;
			candidate->lane = lane;
			candidate->place = entry;
			of_group++;
			/* Keep the first max. */
			if (++found == 2 * max)
			{
				qsort(candidates, found, sizeof(Candidate), compare_candidates);
				found = max;
			}
		}
		turn_walk_end(&walk);
	}
	return found;
}

/*
 * Read the row of a candidate once more.  Returns false if it is gone
 * meanwhile, or has another place.
 */
static bool
read_candidate(RowReader *row, Candidate *candidate)
{
	RowStatus	status = row_reader_entry(row, &candidate->place);

	if (status == ROW_LIVE)
		row_reader_unlock(row);
	return status == ROW_LIVE && row_reader_is_at(row, candidate->lane, &candidate->place);
}

/*
 * fairq.peek(queue, max_tasks): what claim would return next, in order.
 */
Datum
fairq_peek(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	text	   *queue;
	int			max;
	Relation	rel;
	QueueInfo  *info;
	QueueState *state;
	RowReader	row;
	TurnGroups	groups;
	int			shown = 0;

	arguments_require_preload(fcinfo);
	queue = arguments_queue(fcinfo);
	max = arguments_max_tasks(fcinfo, 1, ARGUMENTS_PEEK_DEFAULT);
	info = queue_open(queue, AccessShareLock, ACL_SELECT, &rel);
	state = info->state;
	InitMaterializedSRF(fcinfo, 0);
	recovery_classes(rel, info);
	row_reader_begin(&row, rel, info);
	turn_walk_groups(state, &groups);
	for (int class = 0; class < state->classes && shown < max && !info->paused; class++)
	{
		const LaneSet *set = &state->orders[class].lanes;
		int			turns = groups_with_turns(groups.infos, groups.n, class);
		Candidate  *candidates = MemoryContextAllocHuge(CurrentMemoryContext,
														2 * (Size) max * sizeof(Candidate));
		Lane	   *lane;
		int			n = turn_candidates(&row, &groups, turns, max - shown, candidates);

		for (int b = 0; (lane = lanes_next(set, &b)) != NULL; b++)
		{
			Size		size = (Size) (n + max - shown) * sizeof(Candidate);

			if (size > 2 * (Size) max * sizeof(Candidate))
				candidates = repalloc_huge(candidates, size);
			n += lane_candidates(&row, lane, PG_INT64_MAX, max - shown, candidates + n);
		}
		qsort(candidates, n, sizeof(Candidate), compare_candidates);
		for (int i = 0; i < n && shown < max; i++)
		{
			if (!read_candidate(&row, &candidates[i]))
				continue;
			result_rows_put_task(&row, NULL, rsinfo);
			shown++;
		}
		pfree(candidates);
	}
	row_reader_end(&row);
	relation_close(rel, NoLock);
	return (Datum) 0;
}

const TaskFilter inspect_tasks_any = {NULL, NULL, NULL};

/*
 * The state that the task whose row was read is in, and its lease if it has
 * one; NULL: it is none of those that are wanted.
 */
const char *
inspect_tasks_look(RowReader *row, const TaskFilter *wanted, LeaseInfo *lease, bool *leased)
{
	char		row_state = DatumGetChar(row_value(row, COLUMN_STATE));
	bool		addressed = !row_is_null(row, COLUMN_ADDRESS);
	const char *state;

	if (wanted->group != NULL &&
		!row_reader_same_text(DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY)), wanted->group))
		return NULL;
	if (wanted->name != NULL &&
		(row_is_null(row, COLUMN_NAME) ||
		 !row_reader_same_text(DatumGetTextPP(row_value(row, COLUMN_NAME)), wanted->name)))
		return NULL;
	*leased = (addressed || row_state == TASK_OVERFLOW) && row_reader_lease(row, lease);
	state = *leased ? "leased" : addressed ? "ready" : task_state_name(row_state);
	return wanted->state != NULL && strcmp(state, wanted->state) != 0 ? NULL : state;
}

/*
 * One row of type fairq.task_status, if it is one of those asked for.
 */
static void
put_status(ReturnSetInfo *rsinfo, RowReader *row, const TaskFilter *wanted)
{
	static const QueueColumn shown[] = {
		COLUMN_ID, COLUMN_STATE, COLUMN_GROUP_KEY, COLUMN_PAYLOAD, COLUMN_HEADERS,
		COLUMN_PRIORITY, COLUMN_COST, COLUMN_ATTEMPTS, COLUMN_MAX_ATTEMPTS,
		COLUMN_ENQUEUED_AT, COLUMN_RUN_AT, COLUMN_LEASE /* lease_until */ ,
		COLUMN_ADDRESS, COLUMN_UNIQUE_KEY, COLUMN_LAST_ERROR, COLUMN_EXPIRES_AT,
		COLUMN_LEASE, COLUMN_NAME, COLUMN_LOST, COLUMN_MAX_LOST, COLUMN_HISTORY,
		COLUMN_SUBGROUP_KEY
	};
	Datum		values[lengthof(shown)];
	bool		nulls[lengthof(shown)];
	LeaseInfo	lease;
	TimestampTz until;
	bool		leased;
	const char *state = inspect_tasks_look(row, wanted, &lease, &leased);

	if (state == NULL)
		return;
	for (int i = 0; i < (int) lengthof(shown); i++)
	{
		values[i] = row_value(row, shown[i]);
		/* Rows that are written with SQL may have infinite times. */
		nulls[i] = row_is_null(row, shown[i]) ||
			(TupleDescAttr(rsinfo->setDesc, i)->atttypid == TIMESTAMPTZOID &&
			 shown[i] != COLUMN_LEASE && TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(values[i])));
	}
	values[1] = CStringGetTextDatum(state);
	if (nulls[8])
		values[8] = Int32GetDatum(row->info->max_attempts);
	if (nulls[18])
		values[18] = Int32GetDatum(0);
	if (nulls[19])
		values[19] = Int32GetDatum(row->info->max_lost);
	nulls[8] = nulls[18] = nulls[19] = false;
	nulls[11] = !leased || !leases_until(&lease, &until);
	if (!nulls[11])
		values[11] = TimestampTzGetDatum(until);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Likewise of the task of an id, if there is one. */
static void
put_task(ReturnSetInfo *rsinfo, RowReader *row, int64 id)
{
	HeapTuple	tuple = row_scan_task(row->rel, row->info, id);

	if (tuple == NULL)
		return;
	row_reader_take(row, tuple);
	put_status(rsinfo, row, &inspect_tasks_any);
}

/*
 * fairq.get_task(queue, id): one task in whatever state.
 */
Datum
fairq_get_task(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	RowReader	row;

	arguments_require_preload(fcinfo);
	(void) arguments_queue(fcinfo);
	(void) arguments_id(fcinfo);
	info = queue_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
	InitMaterializedSRF(fcinfo, 0);
	row_reader_begin(&row, rel, info);
	put_task((ReturnSetInfo *) fcinfo->resultinfo, &row, PG_GETARG_INT64(1));
	row_reader_end(&row);
	relation_close(rel, NoLock);
	return (Datum) 0;
}

/*
 * fairq.get_task_by_key(queue, unique_key): the task that has the key, unless
 * it is dead.  It is one, but for rows that were written with SQL.
 */
Datum
fairq_get_task_by_key(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	RowReader	row;
	KeyRow		rows[KEY_ROWS];
	int			n;

	arguments_require_preload(fcinfo);
	(void) arguments_queue(fcinfo);
	if (PG_ARGISNULL(1))
		arguments_null(fcinfo, "unique_key", "Give the unique key of a task.");
	info = queue_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
	InitMaterializedSRF(fcinfo, 0);
	n = row_scan_of_key(rel, info, PG_GETARG_TEXT_PP(1), KEY_ROWS, rows);
	row_reader_begin(&row, rel, info);
	for (int i = 0; i < n; i++)
		put_task((ReturnSetInfo *) fcinfo->resultinfo, &row, rows[i].id);
	row_reader_end(&row);
	relation_close(rel, NoLock);
	return (Datum) 0;
}

/*
 * Which tasks the arguments from number on ask for: of a state, of a group.
 */
void
inspect_tasks_wanted(FunctionCallInfo fcinfo, int number, TaskFilter *wanted)
{
	static const char *const states[] = {
		"ready", "leased", "scheduled", "overflow", "held", "dead", NULL
	};
	int			state = arguments_word(fcinfo, number, "state", states,
									   "It must be ready, leased, scheduled, overflow, held or dead.");

	wanted->state = state < 0 ? NULL : states[state];
	wanted->group = PG_ARGISNULL(number + 1) ? NULL : PG_GETARG_TEXT_PP(number + 1);
	wanted->name = NULL;
}

/*
 * fairq.tasks(queue, state, group_key, name): all tasks, or some.
 */
Datum
fairq_tasks(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	RowScan		scan;
	HeapTuple	tuple;
	RowReader	row;
	TaskFilter	wanted;

	arguments_require_preload(fcinfo);
	(void) arguments_queue(fcinfo);
	inspect_tasks_wanted(fcinfo, 1, &wanted);
	wanted.name = PG_ARGISNULL(3) ? NULL : PG_GETARG_TEXT_PP(3);
	info = queue_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
	InitMaterializedSRF(fcinfo, 0);
	row_reader_begin(&row, rel, info);
	row_scan_begin(&scan, rel, info);
	while ((tuple = row_scan_next(&scan)) != NULL)
	{
		row_reader_take(&row, tuple);
		put_status((ReturnSetInfo *) fcinfo->resultinfo, &row, &wanted);
	}
	row_scan_end(&scan);
	row_reader_end(&row);
	relation_close(rel, NoLock);
	return (Datum) 0;
}

/*
 * The task whose row was read waits for a claim: is it the oldest that does?
 * Of one that was written with SQL it may not be known for how long it has.
 */
static void
note_oldest(RowReader *row, TimestampTz *oldest, bool *any)
{
	TimestampTz at = DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT));

	if (TIMESTAMP_NOT_FINITE(at))
		return;
	if (!*any || at < *oldest)
		*oldest = at;
	*any = true;
}

/*
 * When the longest waiting of the tasks at the fronts of the lanes was
 * enqueued.  Returns false if none is ready, or none that has waited for a time
 * that can be told.
 */
bool
inspect_tasks_oldest_ready(Relation rel, QueueInfo *info, TimestampTz *oldest)
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
			TurnWalk	walk;
			uint32		group = turns_first_group(lane);

			if (lane_candidates(&row, lane, LANE_WINDOW, 1, &candidate) > 0 &&
				read_candidate(&row, &candidate))
				note_oldest(&row, oldest, &any);
			if (group == FAIRQ_NO_GROUP)
				continue;
			turn_walk_begin(&walk, &row, group, NULL);
			if (turn_walk_next(&walk, &lane, &candidate.place))
				note_oldest(&row, oldest, &any);
			turn_walk_end(&walk);
		}
	}
	row_reader_end(&row);
	return any;
}
