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
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/stats.h"
#include "shmem/turns.h"
#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "sql/result_rows.h"
#include "sql/turn_walk.h"
#include "storage/queue_index.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "storage/row_scan.h"
#include "verbs/placement.h"

PG_FUNCTION_INFO_V1(fairq_get_task_position);

/* Rows that are looked at to find a place, over all lanes. */
#define POSITION_ROWS	10000

/* The task whose place is asked for, and what is found on the way to it. */
typedef struct Position
{
	QueueInfo  *info;
	RowReader	row;			/* the task's, as it was looked up */
	RowReader	other;			/* and those of others */
	const char *state;
	bool		leased;
	LeaseInfo	lease;
	bool		addressed;
	FairqAddress address;		/* if not addressed, where it comes in its line */
	uint32		line;			/* the number of the group or the subgroup whose
								 * line it is in, or FAIRQ_NO_GROUP, */
	uint32		number;			/* and of the group */
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
count_before(Position *position, Lane *lane, const FairqAddress *address, int max)
{
	RowReader  *row = &position->other;
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
	for (int looked = 0; queue_index_has_entry(row->rel, row->info, &walk); looked++)
	{
		LaneEntry  *entry = &walk.read.entries[walk.at++];
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
		if (!turn_walk_may_claim(row, lane, entry))
			continue;
		is_own = position->limit != NO_LIMIT &&
			row_reader_same_text(DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY)),
								 DatumGetTextPP(row_value(&position->row, COLUMN_GROUP_KEY)));
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
	limit_entry_copy(number, &limit);
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
limits_allow(const Position *position)
{
	QueueState *state = position->info->state;
	double		group = limit_allows(state, position->limit, position->own);
	double		subgroup = limit_allows(state, position->subgroup_limit,
										position->own_subgroup);

	return group < 0 || subgroup < 0 ? -1 : Max(group, subgroup);
}

/*
 * Where a task of the overflow comes: at which tag, and behind how many of its
 * group and its subgroup.  Returns false if its line does not have it.
 */
static bool
find_in_line(Position *position, int64 id)
{
	TurnWalk	walk;
	LaneEntry	entry = {0};
	LaneEntry	first = {0};	/* of the same line */
	LaneEntry	last = {0};
	Lane	   *lane = NULL;
	int			n = 0;
	int			of_line = 0;
	double		times = 1;
	bool		more = false;

	if (position->line == FAIRQ_NO_GROUP)
		return false;
	turn_walk_begin(&walk, &position->other, position->number, &position->groups);
	while (n < POSITION_ROWS && (more = turn_walk_next(&walk, &lane, &entry)))
	{
		bool		own = walk.heap == NULL || walk.current->info->number == position->line;

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
	position->exact = more && lanes_entry_task(&entry) == id;
	if (more && !position->exact && lanes_entry_task(&first) < lanes_entry_task(&last))
	{
		/* So far as its id is beyond those that were looked at. */
		times = ((double) id - (double) lanes_entry_task(&first)) /
			((double) lanes_entry_task(&last) - (double) lanes_entry_task(&first));
		entry.block = first.block + (int64) ((mark_of(&entry) - mark_of(&first)) * times);
	}
	position->ahead = position->own = n * times;
	position->own_subgroup = of_line * times;
	if (lane != NULL)
		lanes_entry_address(lane, &entry, &position->address);
	turn_walk_end(&walk);
	return more;
}

/*
 * Look up a task as it is now, also if this very command has written it.  Of
 * one that another transaction changes it is the row of before that we look at.
 * Returns false if there is none.
 */
static bool
find_task(Position *position, int64 id)
{
	RowReader  *row = &position->row;
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	HeapTuple	tuple;

	snapshot->curcid = InvalidCommandId;
	tuple = row_scan_task_at(row->rel, row->info, id, snapshot);
	UnregisterSnapshot(snapshot);
	if (tuple == NULL)
		return false;
	row_reader_take(row, tuple);
	position->state = inspect_tasks_look(row, &inspect_tasks_any, &position->lease,
										 &position->leased);
	position->addressed = !row_is_null(row, COLUMN_ADDRESS);
	if (position->addressed)
		position->address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	return true;
}

/*
 * The tasks of the overflow that claims of a class come to before an address;
 * NULL: all of them.  Those of other groups are not looked at: a group has so
 * many as fit between its turn and the address, if each costs what its tasks
 * have cost so far.
 */
static void
count_turns(Position *position, int class, const FairqAddress *address)
{
	LaneEntry	target = {0};

	if (address != NULL)
		lanes_entry(&target, address, &position->row.tuple.t_self);
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
		charge /= info->limit == NO_LIMIT ? position->info->state->limits.defaults.weight :
			limit_entry_weight(info->limit);
		position->ahead += Min((double) info->overflow, 1 + floor(far / charge));
	}
}

/*
 * Of the task's own group: those of its line that come before it, if it has an
 * address.
 */
static void
count_own_line(Position *position)
{
	TurnWalk	walk;
	LaneEntry	target;
	LaneEntry	entry;
	Lane	   *lane;
	int			n = 0;

	if (position->line == FAIRQ_NO_GROUP || !position->addressed)
		return;
	lanes_entry(&target, &position->address, &position->row.tuple.t_self);
	turn_walk_begin(&walk, &position->other, position->line, NULL);
	while (n < POSITION_ROWS && turn_walk_next(&walk, &lane, &entry) &&
		   (lanes_entry_task(&entry) == 0 ||
			virtual_time_compare(walk.tag, lanes_entry_tag(&target)) < 0))
		n += lanes_entry_task(&entry) != 0;
	turn_walk_end(&walk);
	position->ahead += n;
	position->own += n;
	position->exact &= n < POSITION_ROWS;
}

/*
 * Count the tasks of a class that are before an address in it; NULL: all of
 * them.
 */
static void
count_class(Position *position, int class, const FairqAddress *address)
{
	const LaneSet *set = &position->info->state->orders[class].lanes;
	int			max = POSITION_ROWS / Max(position->info->buckets, 1);
	FairqAddress end = {.block = PG_INT64_MAX,.fraction = PG_UINT32_MAX,.slot = PG_UINT64_MAX};
	Lane	   *lane;

	for (int b = 0; b < FAIRQ_MAX_BUCKETS && (lane = lanes_next(set, &b)) != NULL; b++)
		count_before(position, lane, address != NULL ? address : &end, max);
	count_turns(position, class, address);
}

/*
 * Of the task's own group: those that are parked before it, in its class, and
 * in those before.  Claims have come to these, and left them for later.
 */
static void
count_parked(Position *position, const GroupName *name)
{
	QueueState *state = position->info->state;

	for (int class = 0; class <= position->address.class && class < state->classes; class++)
	{
		bool		last = class == position->address.class;
		GroupTag	tag;
		LaneEntry	end;
		int			before;

		if (!groups_look(state, class, name, &tag) ||
			!turns_parked_before(tag.group, last ? &position->address : NULL, POSITION_ROWS,
								 &before, &end, &position->exact))
			continue;
		/* Of the overflow it is known how many are in front in its line. */
		if (last && !position->addressed)
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
add_shares(Position *position)
{
	const double *weights = position->info->class_weights;
	double		turns = (position->ahead + 1) / weights[position->address.class];

	for (int class = 0; class < position->info->state->classes; class++)
	{
		double		ahead = position->ahead;
		double		own = position->own;
		bool		exact = position->exact;
		double		others;

		if (class == position->address.class)
			continue;
		count_class(position, class, NULL);
		others = position->ahead - ahead;
		position->exact = exact && others == 0;
		if (others == 0)
			continue;
		position->ahead = ahead + Min(others, turns * weights[class]);
		position->own = own + (position->own - own) * Min(1, turns * weights[class] / others);
	}
}

/*
 * Count the ready tasks before one that has a place, or comes in its line.
 * Returns false if that does not have it: its place is being written.
 */
static bool
find_position(Position *position, int64 id)
{
	QueueInfo  *info = position->info;
	QueueState *state = info->state;
	GroupName	name = row_reader_group(&position->row);

	position->exact = true;
	position->line = position->number = placement_group(&position->row);
	position->limit = limit_table_find(queue_state_number(state), &name, false);
	position->subgroup_limit = NO_LIMIT;
	if (name.subgroup)
	{
		GroupName	above = group_name_above(&name);
		GroupCopy	group;

		turns_copy_group(position->line, &group);
		position->number = group.number;
		position->subgroup_limit = position->limit;
		position->limit = limit_table_find(queue_state_number(state), &above, false);
	}
	turn_walk_groups(state, &position->groups);
	if (!position->addressed && !find_in_line(position, id))
		return false;
	count_parked(position, &name);
	count_own_line(position);
	if (position->address.class < state->classes)
		count_class(position, position->address.class, &position->address);
	if (info->class_weights[0] > 0)
		add_shares(position);
	else
	{
		for (int class = 0; class < position->address.class && class < state->classes; class++)
			count_class(position, class, NULL);
	}
	/* An estimate knows no more than that it is among those there are. */
	if (!position->exact)
		position->ahead = Min(position->ahead,
							  (double) queue_state_counter(state, QUEUE_ADDRESSED) +
							  (double) queue_state_counter(state, QUEUE_OVERFLOW));
	return true;
}

/* When a task may start that is not leased; DT_NOEND: that cannot be said. */
static TimestampTz
starts_at(const Position *position)
{
	const QueueInfo *info = position->info;
	TimestampTz now = GetCurrentTimestamp();
	double		rate = stats_rate(info->state, QUEUE_CLAIMED, now);
	double		allowed = limits_allow(position);

	if (rate <= 0 || allowed < 0 || info->paused)
		return DT_NOEND;
	return now + (TimestampTz) Min(Max(position->ahead / rate * USECS_PER_SEC, allowed), 1e16);
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
	int64		id;
	Relation	rel;
	Position	position = {0};
	RowReader  *row = &position.row;
	TimestampTz start = DT_NOEND;
	bool		known = true;
	ResultRow	result = {0};

	arguments_require_preload(fcinfo);
	(void) arguments_queue(fcinfo);
	id = arguments_id(fcinfo);
	position.info = queue_open(PG_GETARG_TEXT_PP(0), AccessShareLock, ACL_SELECT, &rel);
	recovery_classes(rel, position.info);
	row_reader_begin(row, rel, position.info);
	if (!find_task(&position, id))
	{
		relation_close(rel, NoLock);
		PG_RETURN_NULL();
	}

	row_reader_begin(&position.other, rel, position.info);
	if (position.leased)
	{
		start = position.lease.started;
		position.exact = true;
	}
	else if ((position.addressed ||
			  DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW) &&
			 find_position(&position, id))
		start = starts_at(&position);
	else
	{
		/*
		 * Not ready, or its place is being written.  Only of a scheduled one
		 * is it known when it will be.
		 */
		known = false;
		if (DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_SCHEDULED &&
			!row_is_null(row, COLUMN_RUN_AT))
			start = DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT));
	}
	row_reader_end(&position.other);
	row_reader_end(row);
	relation_close(rel, NoLock);

	result_rows_add(&result, CStringGetTextDatum(position.state));
	result_rows_add_if(&result, known, Int64GetDatum((int64) position.ahead));
	result_rows_add_if(&result, !TIMESTAMP_NOT_FINITE(start), TimestampTzGetDatum(start));
	result_rows_add_if(&result, known, BoolGetDatum(position.exact));
	return result_rows_composite(&result, fcinfo);
}
