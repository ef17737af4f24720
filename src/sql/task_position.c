/*-------------------------------------------------------------------------
 *
 * task_position.c
 *	  The place of a task among others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/relation.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/stats.h"
#include "shmem/turns.h"
#include "sql/arguments.h"
#include "sql/turn_walk.h"
#include "storage/queue_index.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"

PG_FUNCTION_INFO_V1(fairq_get_task_position);

/* Rows that are looked at to find a place, over all lanes. */
#define POSITION_ROWS	10000

/* The task whose place is asked for, and what is found on the way to it. */
typedef struct Position
{
	text	   *group;
	uint32		number;			/* of its group, or FAIRQ_NO_GROUP */
	uint32		limit;			/* of its group, or NO_LIMIT */
	uint32		subgroup_limit; /* of its subgroup */
	TurnGroups	groups;			/* all that have turns */
	bool		any_parked;		/* of its group, up to last_parked */
	LaneEntry	last_parked;
	bool		exact;			/* all was counted */
	double		ahead;			/* ready tasks before it ... */
	double		own;			/* ... and those of its group among them, */
	double		own_subgroup;	/* and of its subgroup */
} Position;

static bool
same_group(const Position *position, RowReader *row)
{
	return row_reader_same_text(DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY)),
								 position->group);
}

/* Where an entry is on the queue's ruler. */
static double
mark_of(const LaneEntry *entry)
{
	return entry->block + entry->fraction / 4294967296.0;
}

/*
 * How many times as far it is from first to target as it is to last, which is
 * before target; 1 if that cannot be said.  Entries of one mark, such as the
 * first tasks of many groups or those of one priority, are told apart by slot.
 */
static double
times_as_far(const LaneEntry *first, const LaneEntry *last, const LaneEntry *target)
{
	double		passed = mark_of(last) - mark_of(first);

	if (passed > 0)
		return (mark_of(target) - mark_of(first)) / passed;
	if (mark_of(target) == mark_of(first) && last->slot > first->slot)
		return ((double) target->slot - (double) first->slot) /
			((double) last->slot - (double) first->slot);
	return 1;
}

/*
 * Count the ready tasks of a lane that are before an address: up to max rows
 * are looked at, from the front of the lane on.  If that does not do, the rest
 * is estimated from how far those rows have come.
 */
static void
count_before(RowReader *row, Lane *lane, const FairqAddress *address, int max,
			 Position *position)
{
	QueueInfo  *info = row->info;
	LaneWalk	walk;
	LaneEntry	target;
	FairqAddress counted = {0};
	ItemPointerData first_tid;
	LaneEntry	first = {0};
	LaneEntry	last = {0};
	double		ahead = 0;
	double		own = 0;

	ItemPointerSet(&first_tid, 0, 0);
	lanes_entry(&target, address, &first_tid);
	queue_index_walk_window(&walk, lane, LANE_WINDOW);
	for (int looked = 0; queue_index_has_entry(row->rel, info, &walk); looked++)
	{
		LaneEntry  *entry = &walk.read.entries[walk.at++];
		LeaseInfo	lease;
		FairqAddress place;
		bool		is_own;

		CHECK_FOR_INTERRUPTS();
		if (lanes_compare(entry, &target) >= 0)
			break;
		if (looked >= max)
		{
			double		times = looked > 0 ? times_as_far(&first, &last, &target) : 1;

			position->exact = false;
			ahead *= times;
			own *= times;
			break;
		}
		if (looked == 0)
			first = *entry;
		last = *entry;
		lanes_entry_address(lane, entry, &place);
		/* A row that was updated in place may have an entry of each version. */
		if (ahead > 0 && address_compare(&place, &counted) == 0)
			continue;
		if (row_reader_entry(row, entry) != ROW_LIVE)
			continue;
		row_reader_unlock(row);
		if (!row_reader_is_at(row, lane, entry) ||
			leases_find(queue_state_number(info->state),
						DatumGetInt64(row_value(row, COLUMN_ID)), &lease))
			continue;
		is_own = position->limit != NO_LIMIT && same_group(position, row);
		if (is_own && position->any_parked &&
			lanes_compare(entry, &position->last_parked) <= 0)
			continue;			/* it is counted there */
		counted = place;
		ahead++;
		own += is_own;
	}
	pfree(walk.read.entries);
	position->ahead += ahead;
	position->own += own;
}

/*
 * About when a limit lets a task start before which there are so many of its
 * group, in microseconds from now; -1 if that cannot be said.
 */
static double
limit_allows(QueueState *state, uint32 number, double own)
{
	static const double median[] = {0.5};
	LimitInfo	limit;
	double		result = 0;
	double		too_many;
	int64		run_time;

	if (number == NO_LIMIT)
		return 0;
	limit_table_copy(number, &limit);
	if (limit.settings.paused)
		return -1;
	if (limit.settings.rate > 0)
		result = Max((own + 1 - limit.tokens) / limit.settings.rate * USECS_PER_SEC, 0);

	/* So many of its tasks have to end first, max_leased at a time. */
	too_many = limit.leased + own + 1 - limit.settings.max_leased;
	if (limit.settings.max_leased > 0 && too_many > 0)
	{
		if (stats_quantiles(state, STATS_RUN, median, 1, &run_time) == 0)
			return -1;
		result = Max(result, too_many / limit.settings.max_leased * run_time);
	}
	return result;
}

/* Likewise by the limits of its group and its subgroup. */
static double
limits_allow(QueueState *state, const Position *position)
{
	double		group = limit_allows(state, position->limit, position->own);
	double		subgroup = limit_allows(state, position->subgroup_limit,
										position->own_subgroup);

	return group < 0 || subgroup < 0 ? -1 : Max(group, subgroup);
}

/* A task that was looked up. */
typedef struct TaskPlace
{
	RowReader	row;
	uint32		group;			/* its number, or FAIRQ_NO_GROUP */
	TurnGroups	groups;			/* all that have turns */
	double		in_line;		/* of the overflow: tasks of its group before
								 * it, */
	double		in_subgroup;	/* and of its subgroup */
	bool		exact;
	const char *state;
	bool		leased;
	LeaseInfo	lease;
	bool		placed;
	FairqAddress address;
} TaskPlace;

/*
 * Read the row of a task.  Of one that is being changed the index may have led
 * to the new version first: then it is the one before that we look at.
 */
static bool
read_task(RowReader *row, int64 id)
{
	RowStatus	status = row_reader_task(row, id, NULL);
	ItemPointerData tid;

	while ((status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT) && !row->deleting)
	{
		Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
		bool		found = queue_index_find(row->rel, row->info, id, snapshot, &tid);

		CHECK_FOR_INTERRUPTS();
		UnregisterSnapshot(snapshot);
		if (!found)
			return false;		/* it is new */
		status = row_reader_read(row, &tid);
		if (status == ROW_GONE)
			status = row_reader_task(row, id, NULL);
	}
	return status == ROW_LIVE || status == ROW_OWN || (status != ROW_GONE && row->deleting);
}

/*
 * Where a task of the overflow comes: at which tag, and behind how many of its
 * group and its subgroup.  Returns false if its line does not have it.
 */
static bool
find_in_line(TaskPlace *task, int64 id)
{
	RowReader	row;
	TurnWalk	walk;
	GroupCopy	group;
	LaneEntry	entry = {0};
	LaneEntry	first = {0};	/* of the same line */
	LaneEntry	last = {0};
	Lane	   *lane = NULL;
	int			n = 0;
	int			of_line = 0;
	bool		more = false;

	if (task->group == FAIRQ_NO_GROUP)
		return false;
	turns_copy_group(task->group, &group);
	row_reader_begin(&row, task->row.rel, task->row.info);
	turn_walk_begin(&walk, &row, group.number, &task->groups);
	while (n < POSITION_ROWS && (more = turn_walk_next(&walk, &lane, &entry)))
	{
		bool		own = walk.heap == NULL || walk.current->info->number == task->group;

		if (own && lanes_entry_task(&entry) >= id)
			break;
		n++;
		if (own && lanes_entry_task(&entry) != 0)
		{
			if (of_line++ == 0)
				first = entry;
			last = entry;
		}
	}
	task->in_line = n;
	task->in_subgroup = of_line;
	task->exact = more && lanes_entry_task(&entry) == id;
	if (more && !task->exact && lanes_entry_task(&first) < lanes_entry_task(&last))
	{
		/* So far as its id is beyond those that were looked at. */
		double		times = ((double) id - (double) lanes_entry_task(&first)) /
			((double) lanes_entry_task(&last) - (double) lanes_entry_task(&first));
		double		far = (mark_of(&entry) - mark_of(&first)) * times;

		task->in_line = n * times;
		task->in_subgroup = of_line * times;
		entry.block = first.block + (int64) far;
	}
	if (lane != NULL)
		lanes_entry_address(lane, &entry, &task->address);
	turn_walk_end(&walk);
	row_reader_end(&row);
	return more;
}

/*
 * Look up a task.  Returns false if there is none.
 */
static bool
find_task(TaskPlace *task, int64 id)
{
	RowReader  *row = &task->row;
	QueueState *state = row->info->state;
	char		task_state;

	if (!read_task(row, id))
		return false;
	task_state = DatumGetChar(row_value(row, COLUMN_STATE));
	task->state = task_state_name(task_state);
	task->placed = !row_is_null(row, COLUMN_ADDRESS);
	task->group = placement_group(row);
	turn_walk_groups(state, &task->groups);
	task->in_line = task->in_subgroup = 0;
	task->exact = true;
	task->leased = (task->placed || task_state == TASK_OVERFLOW) &&
		leases_find(queue_state_number(state), id, &task->lease);
	if (task->placed)
		task->address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	else if (task_state == TASK_OVERFLOW && !task->leased)
		task->placed = find_in_line(task, id);
	if (task->leased)
		task->state = "leased";
	return true;
}

/*
 * The tasks of the overflow that claims of a class come to before an address;
 * NULL: all of them.  Those of other groups are not looked at: a group has so
 * many as fit between its turn and the address, if each costs what its tasks
 * have cost so far.
 */
static void
count_turns(RowReader *row, int class, const FairqAddress *address, Position *position)
{
	LaneEntry	target = {0};

	if (address != NULL)
		lanes_entry(&target, address, &row->tuple.t_self);
	for (int i = 0; i < position->groups.n; i++)
	{
		const GroupInfo *info = &position->groups.infos[i];
		double		charge = info->served > 0 ? info->served_cost / info->served : 1;
		double		far;

		if (info->class != class || !info->turns || info->overflow <= 0 ||
			info->number == position->number)
			continue;
		if (address == NULL)
		{
			position->ahead += info->overflow;
			continue;
		}
		far = virtual_time_distance(info->turn, lanes_entry_tag(&target));
		if (far <= 0)
			continue;
		position->exact = false;
		charge /= info->limit == NO_LIMIT ? row->info->state->limits.defaults.weight :
			limit_table_weight(info->limit);
		position->ahead += Min((double) info->overflow, 1 + floor(far / charge));
	}
}

/*
 * Of the task's own group: those of its line that come before it, if it has an
 * address.
 */
static void
count_own_line(TaskPlace *task, Position *position)
{
	RowReader	row;
	TurnWalk	walk;
	LaneEntry	target;
	LaneEntry	entry;
	Lane	   *lane;
	int			n = 0;

	if (task->group == FAIRQ_NO_GROUP || row_is_null(&task->row, COLUMN_ADDRESS))
		return;
	lanes_entry(&target, &task->address, &task->row.tuple.t_self);
	row_reader_begin(&row, task->row.rel, task->row.info);
	turn_walk_begin(&walk, &row, task->group, NULL);
	while (n < POSITION_ROWS && turn_walk_next(&walk, &lane, &entry) &&
		   (lanes_entry_task(&entry) == 0 ||
			virtual_time_compare(walk.tag, lanes_entry_tag(&target)) < 0))
		n += lanes_entry_task(&entry) != 0;
	turn_walk_end(&walk);
	row_reader_end(&row);
	position->ahead += n;
	position->own += n;
	position->exact &= n < POSITION_ROWS;
}

/*
 * Count the tasks of a class that are before an address in it; NULL: all of
 * them.
 */
static void
count_class(RowReader *row, int class, const FairqAddress *address, Position *position)
{
	const LaneSet *set = &row->info->state->orders[class].lanes;
	FairqAddress before;
	Lane	   *lane;

	if (address != NULL)
		before = *address;
	else
	{
		before.block = PG_INT64_MAX;
		before.fraction = PG_UINT32_MAX;
		before.slot = PG_UINT64_MAX;
	}
	for (int b = 0; b < FAIRQ_MAX_BUCKETS && (lane = lanes_next(set, &b)) != NULL; b++)
		count_before(row, lane, &before, POSITION_ROWS / Max(row->info->buckets, 1), position);
	count_turns(row, class, address, position);
}

/*
 * Of the task's own group: those that are parked before it, in its class, and
 * in those before.  Claims have come to these, and left them for later.
 */
static void
count_parked(TaskPlace *task, const GroupName *name, Position *position)
{
	QueueState *state = task->row.info->state;

	for (int class = 0; class <= task->address.class && class < state->classes; class++)
	{
		bool		last = class == task->address.class;
		GroupTag	tag;
		LaneEntry	end;
		int			before;

		if (!groups_look(state, class, name, &tag) ||
			!turns_parked_before(tag.group, last ? &task->address : NULL, POSITION_ROWS,
								 &before, &end, &position->exact))
			continue;
		/* Of the overflow it is known how many are in front in its line. */
		if (last && row_is_null(&task->row, COLUMN_ADDRESS))
			continue;
		position->any_parked |= last;
		position->last_parked = end;
		position->ahead += before;
		position->own += before;
	}
}

/*
 * Where classes have weights, the others are served meanwhile as theirs say,
 * if they have so much.  What their tasks cost is not looked at.
 */
static void
add_shares(TaskPlace *task, Position *position)
{
	const double *weights = task->row.info->class_weights;
	double		turns = (position->ahead + 1) / weights[task->address.class];

	for (int class = 0; class < task->row.info->state->classes; class++)
	{
		Position	other = *position;

		if (class == task->address.class)
			continue;
		other.ahead = other.own = 0;
		count_class(&task->row, class, NULL, &other);
		if (other.ahead == 0)
			continue;
		position->ahead += Min(other.ahead, turns * weights[class]);
		position->own += other.own * Min(1, turns * weights[class] / other.ahead);
		position->exact = false;
	}
}

/*
 * Count the ready tasks before one that has a place.
 */
static void
find_position(TaskPlace *task, Position *position)
{
	RowReader  *row = &task->row;
	QueueState *state = row->info->state;
	GroupName	name;

	position->group = DatumGetTextPCopy(row_value(row, COLUMN_GROUP_KEY));
	name = row_reader_group(row);
	position->limit = limited_groups_find(state, &name);
	position->subgroup_limit = NO_LIMIT;
	position->number = task->group;
	if (name.subgroup)
	{
		GroupName	above = group_name_above(&name);
		GroupCopy	group;

		turns_copy_group(task->group, &group);
		position->number = group.number;
		position->subgroup_limit = position->limit;
		position->limit = limited_groups_find(state, &above);
	}
	position->groups = task->groups;
	position->ahead = position->own = task->in_line;
	position->own_subgroup = task->in_subgroup;
	position->exact = task->exact;
	count_parked(task, &name, position);
	count_own_line(task, position);
	if (task->address.class < state->classes)
		count_class(row, task->address.class, &task->address, position);
	if (row->info->class_weights[0] > 0)
		add_shares(task, position);
	else
	{
		for (int class = 0; class < task->address.class && class < state->classes; class++)
			count_class(row, class, NULL, position);
	}
	/* An estimate knows no more than that it is among those there are. */
	if (!position->exact)
		position->ahead = Min(position->ahead,
							  (double) queue_state_counter(state, QUEUE_ADDRESSED) +
							  (double) queue_state_counter(state, QUEUE_OVERFLOW));
}

/*
 * fairq.get_task_position(queue, id): how many tasks are before it, and
 * when it will start: at the rate of late, and when its group's limit has
 * room.  Tasks of other groups that are parked are in the way of none, and not
 * counted.
 *
 * Up to POSITION_ROWS rows are looked at, so it costs the same however long the
 * queue is; beyond that the result is an estimate.
 */
Datum
fairq_get_task_position(PG_FUNCTION_ARGS)
{
	QueueInfo  *info;
	Relation	rel;
	TaskPlace	task;
	TupleDesc	tupdesc;
	TimestampTz now = GetCurrentTimestamp();
	Datum		values[4] = {0};
	bool		nulls[4] = {false};

	arguments_require_preload(fcinfo);
	(void) arguments_queue(fcinfo);
	if (PG_ARGISNULL(1))
		arguments_null(fcinfo, "id", "Give the id of a task.");
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	info = queue_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
	recovery_classes(rel, info);
	row_reader_begin(&task.row, rel, info);
	if (!find_task(&task, PG_GETARG_INT64(1)))
	{
		row_reader_end(&task.row);
		relation_close(rel, NoLock);
		PG_RETURN_NULL();
	}

	values[0] = CStringGetTextDatum(task.state);
	if (task.leased)
	{
		values[1] = Int64GetDatum(0);
		values[2] = TimestampTzGetDatum(task.lease.started);
		values[3] = BoolGetDatum(true);
	}
	else if (!task.placed)
	{
		/*
		 * Not ready, or its place is being written.  Only of a scheduled one
		 * is it known when it will be.
		 */
		nulls[1] = nulls[3] = true;
		nulls[2] = (DatumGetChar(row_value(&task.row, COLUMN_STATE)) != TASK_SCHEDULED);
		if (!nulls[2])
		{
			values[2] = row_value(&task.row, COLUMN_RUN_AT);
			nulls[2] = row_is_null(&task.row, COLUMN_RUN_AT) ||
				TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(values[2]));
		}
	}
	else
	{
		Position	position = {.exact = true};
		double		rate;
		double		allowed;

		find_position(&task, &position);
		values[1] = Int64GetDatum((int64) position.ahead);
		rate = stats_rate(info->state, QUEUE_CLAIMED, now);
		allowed = limits_allow(info->state, &position);
		nulls[2] = (rate <= 0 || allowed < 0 || info->paused);
		if (!nulls[2])
		{
			double		usecs = Max(position.ahead / rate * USECS_PER_SEC, allowed);

			values[2] = TimestampTzGetDatum(now + (TimestampTz) Min(usecs, 1e16));
		}
		values[3] = BoolGetDatum(position.exact);
	}
	row_reader_end(&task.row);
	relation_close(rel, NoLock);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls));
}
