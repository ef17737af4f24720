/*-------------------------------------------------------------------------
 *
 * turn_walk.c
 *	  The tasks of a group's line, in order, for those who look.
 *
 * What a claim would come to: the candidates of the line, and behind them what
 * the index has, each with the tag that it would be taken with.  Of a group
 * that is divided the lines of its subgroups are merged as a claim would; one
 * is copied when it is the first, so that one task of a group with very many
 * costs no more than a look at what was listed of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/leases.h"
#include "sql/turn_walk.h"

/* Entries of the index that are read at a time. */
#define LOOKS			64

static int
compare_above(const void *a, const void *b)
{
	uint32		x = ((const GroupInfo *) a)->above;
	uint32		y = ((const GroupInfo *) b)->above;

	return (x > y) - (x < y);
}

/*
 * May the task of an entry of a lane be claimed?  Then its row was read.
 */
bool
turn_walk_may_claim(RowReader *row, const Lane *lane, LaneEntry *entry)
{
	LeaseInfo	lease;

	if (row_reader_entry(row, entry) != ROW_LIVE)
		return false;
	row_reader_unlock(row);
	return row_reader_is_at(row, lane, entry) && !row_reader_lease(row, &lease);
}

/*
 * The groups of a queue that have turns, and their subgroups that have.
 */
void
turn_walk_groups(QueueState *queue, TurnGroups *groups)
{
	groups->all = groups_list(queue, true, &groups->infos);
	groups->n = groups_part(groups->infos, groups->all);
	qsort(groups->infos + groups->n, groups->all - groups->n, sizeof(GroupInfo),
		  compare_above);
}

/* ----------------------------------------------------------------
 * A line
 * ----------------------------------------------------------------
 */

/* Begin at the first task of the line of a group. */
static void
line_begin(LineWalk *walk, uint32 group)
{
	LineCopy   *copy = palloc(sizeof(LineCopy));

	if (!turns_copy(group, copy))
	{
		memset(copy, 0, offsetof(LineCopy, tasks));
		copy->frontier = PG_INT64_MAX;
	}
	/* There may be a line of each of many subgroups. */
	walk->line = repalloc(copy, offsetof(LineCopy, tasks) + copy->n * sizeof(copy->tasks[0]));
	walk->at = walk->read_at = walk->read_n = 0;
	walk->last = PG_INT64_MIN;
	walk->read.hash = (int64) walk->line->key.low;
	walk->read.class = walk->line->key.class;
	walk->read.ids = NULL;
	walk->read.max = LOOKS;
	walk->read.next.id = walk->line->frontier;
	ItemPointerSetInvalid(&walk->read.next.tid);
}

static void
line_end(LineWalk *walk)
{
	if (walk->line == NULL)
		return;
	if (walk->read.ids != NULL)
	{
		pfree(walk->read.ids);
		pfree(walk->read.tids);
	}
	pfree(walk->line);
	walk->line = NULL;
}

/*
 * Where the next task of the line was seen.  Returns false if there is none.
 * *parked: it is the number walk->at - 1 of the line's copy, and has an
 * address.
 */
static bool
next_place(LineWalk *walk, RowReader *row, int64 *task, ItemPointerData *tid, bool *parked)
{
	*parked = false;
	if (walk->at < walk->line->n)
	{
		*task = walk->line->tasks[walk->at].task;
		*parked = walk->line->tasks[walk->at].parked;
		*tid = walk->line->tasks[walk->at++].tid;
		return true;
	}
	if (walk->read_at == walk->read_n)
	{
		if (walk->read.next.id == PG_INT64_MAX)
			return false;
		if (walk->read.ids == NULL)
		{
			walk->read.ids = palloc(LOOKS * sizeof(int64));
			walk->read.tids = palloc(LOOKS * sizeof(ItemPointerData));
		}
		walk->read_at = 0;
		walk->read.kept = &row->overflow;
		walk->read_n = queue_index_overflow(row->rel, row->info, &walk->read);
		if (walk->read_n == 0)
			return false;
	}
	*task = walk->read.ids[walk->read_at];
	*tid = walk->read.tids[walk->read_at++];
	return true;
}

/* Is the row that was read that of a task of the line, which may be claimed? */
static bool
is_of_line(const LineWalk *walk, RowReader *row, int64 task)
{
	GroupName	name;
	LeaseInfo	lease;

	if (DatumGetInt64(row_value(row, COLUMN_ID)) != task ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_OVERFLOW ||
		!row_is_null(row, COLUMN_ADDRESS))
		return false;
	name = row_reader_group(row);
	return name.low == walk->line->key.low && name.high == walk->line->key.high &&
		!leases_find(queue_state_number(row->info->state), task, &lease);
}

/* What a task is charged. */
static double
charge_of(const LineWalk *walk, double cost)
{
	return walk->line->seconds < 0 ? cost : walk->line->seconds;
}

/*
 * Look at a task that is parked: it is in its own lane, and comes at walk->tag.
 * Returns whether it may be claimed.
 */
static bool
look_at_parked(TurnWalk *walk, Lane **lane, LaneEntry *entry)
{
	LineWalk   *current = walk->current;
	LineCopy   *line = current->line;
	GroupCopy  *group = &walk->group;
	int			i = current->at - 1;
	VirtualTime tag = virtual_time_unpack(line->tasks[i].tag);

	*lane = lanes_get(line->tasks[i].lane);
	*entry = (LaneEntry) {
		.block = tag.whole,
		.fraction = tag.fraction,
		.slot = (uint64) line->tasks[i].task,
		.tid = line->tasks[i].tid,
	};
	if (!turn_walk_may_claim(walk->row, *lane, entry))
		return false;
	walk->tag = tag;
	if (group->tags)
	{
		walk->tag = virtual_time_max(tag, group->resumed);
		group->resumed = virtual_time_add(walk->tag, charge_of(current, line->tasks[i].cost),
										  group->weight);
		group->next = virtual_time_max(group->next, group->resumed);
	}
	return true;
}

/* The next task of the current line; as turn_walk_next. */
static bool
line_next(TurnWalk *walk, Lane **lane, LaneEntry *entry)
{
	LineWalk   *current = walk->current;
	LineCopy   *line = current->line;
	RowReader  *row = walk->row;
	int64		task;
	ItemPointerData tid;
	bool		parked;

	walk->before = walk->group;
	while (next_place(current, row, &task, &tid, &parked))
	{
		VirtualTime tag = walk->group.next;
		bool		charged = current->read_n == 0 && line->tasks[current->at - 1].charged;
		RowStatus	status;
		double		charge;

		CHECK_FOR_INTERRUPTS();
		if (parked && look_at_parked(walk, lane, entry))
			return true;
		/* A task that was written often has as many entries. */
		if (parked || task == current->last)
			continue;
		*lane = line->lane;
		if (charged)
			tag = virtual_time_unpack(line->tasks[current->at - 1].tag);
		if (charged && walk->heap != NULL)
			tag = virtual_time_max(tag, walk->group.resumed);
		entry->block = tag.whole;
		entry->fraction = tag.fraction;
		entry->tid = tid;
		lanes_entry_set_turn(entry, task, line->slot);
		status = row_reader_entry(row, entry);
		if (status == ROW_LIVE)
			row_reader_unlock(row);
		if (status != ROW_LIVE || !is_of_line(current, row, task))
			continue;
		charge = charge_of(current, DatumGetFloat4(row_value(row, COLUMN_COST)));
		if (!charged)
		{
			walk->group.next = virtual_time_add(tag, charge, walk->group.weight);
			line->next = virtual_time_add(line->next, charge, line->weight);
		}
		walk->tag = tag;
		current->last = task;
		entry->tid = row->tuple.t_self;
		(void) row_reader_is_at(row, *lane, entry);
		return true;
	}
	return false;
}

/* ----------------------------------------------------------------
 * The lines of a group
 * ----------------------------------------------------------------
 */

/*
 * Where a subgroup comes between the others.  Returns whether its first task
 * has a tag of its own, by which it comes before those that have none.
 */
static bool
place_of(const LineWalk *walk, VirtualTime *tag)
{
	const LineCopy *line = walk->line;

	if (line == NULL)
	{
		*tag = walk->info->turn;
		return walk->info->kept;
	}
	*tag = line->next;
	if (walk->at >= line->n ||
		!(line->tasks[walk->at].parked || line->tasks[walk->at].charged))
		return false;
	*tag = virtual_time_unpack(line->tasks[walk->at].tag);
	return true;
}

/* The heap has the largest first, so this is the other way round. */
static int
compare_lines(Datum a, Datum b, void *arg)
{
	const LineWalk *x = (const LineWalk *) DatumGetPointer(a);
	const LineWalk *y = (const LineWalk *) DatumGetPointer(b);
	VirtualTime tag_x;
	VirtualTime tag_y;
	bool		kept_x = place_of(x, &tag_x);
	bool		kept_y = place_of(y, &tag_y);
	int			result = virtual_time_compare(tag_y, tag_x);

	if (kept_x != kept_y)
		return kept_x ? 1 : -1;
	if (result != 0)
		return result;
	if (kept_x && x->line != NULL && y->line != NULL)
	{
		int64		task_x = x->line->tasks[x->at].task;
		int64		task_y = y->line->tasks[y->at].task;

		return (task_y > task_x) - (task_y < task_x);
	}
	return (y->info->slot > x->info->slot) - (y->info->slot < x->info->slot);
}

/*
 * Begin at the first task of a group, with what was listed of its subgroups; or
 * (groups NULL) of one line, which may be that of a subgroup.
 */
void
turn_walk_begin(TurnWalk *walk, RowReader *row, uint32 group, const TurnGroups *groups)
{
	GroupInfo	key = {.above = group};
	const GroupInfo *first = NULL;
	const GroupInfo *end = NULL;

	walk->row = row;
	walk->heap = NULL;
	walk->current = NULL;
	walk->n = 1;
	turns_copy_group(group, &walk->group);
	if (groups != NULL && groups->all > groups->n)
	{
		end = groups->infos + groups->all;
		first = bsearch(&key, groups->infos + groups->n, groups->all - groups->n,
						sizeof(GroupInfo), compare_above);
	}
	if (first == NULL)
	{
		walk->lines = palloc0(sizeof(LineWalk));
		walk->current = walk->lines;
		line_begin(walk->lines, group);
		return;
	}
	while (first > groups->infos + groups->n && first[-1].above == group)
		first--;
	for (walk->n = 0; first + walk->n < end && first[walk->n].above == group;)
		walk->n++;
	walk->lines = MemoryContextAllocHuge(CurrentMemoryContext, walk->n * sizeof(LineWalk));
	walk->heap = binaryheap_allocate(walk->n, compare_lines, NULL);
	for (int i = 0; i < walk->n; i++)
	{
		walk->lines[i].info = &first[i];
		walk->lines[i].line = NULL;
		binaryheap_add_unordered(walk->heap, PointerGetDatum(&walk->lines[i]));
	}
	binaryheap_build(walk->heap);
}

void
turn_walk_end(TurnWalk *walk)
{
	for (int i = 0; i < walk->n; i++)
		line_end(&walk->lines[i]);
	pfree(walk->lines);
	if (walk->heap != NULL)
		binaryheap_free(walk->heap);
}

/*
 * The next task that may be claimed, and its tag in walk->tag.  If it has no
 * address, its row is read as if it had that for one.  Returns false if there
 * are no more.
 */
bool
turn_walk_next(TurnWalk *walk, Lane **lane, LaneEntry *entry)
{
	if (walk->heap == NULL)
		return walk->current != NULL && line_next(walk, lane, entry);
	while (!binaryheap_empty(walk->heap))
	{
		walk->current = (LineWalk *) DatumGetPointer(binaryheap_first(walk->heap));
		if (walk->current->line == NULL)
		{
			line_begin(walk->current, walk->current->info->number);
			/* It may have changed since it was listed. */
			binaryheap_replace_first(walk->heap, PointerGetDatum(walk->current));
			continue;
		}
		if (line_next(walk, lane, entry))
		{
			binaryheap_replace_first(walk->heap, PointerGetDatum(walk->current));
			return true;
		}
		turn_walk_pass_line(walk);
	}
	return false;
}

/*
 * The task that was found may not be taken: neither it nor the rest of its line
 * is walked along.
 */
void
turn_walk_pass_line(TurnWalk *walk)
{
	walk->group = walk->before;
	if (walk->heap != NULL)
	{
		LineWalk   *line = walk->current;

		/* It may not be the first any more: then it is passed when it is. */
		line->at = line->line->n;
		line->read_at = line->read_n;
		line->read.next.id = PG_INT64_MAX;
		if ((LineWalk *) DatumGetPointer(binaryheap_first(walk->heap)) == line)
			(void) binaryheap_remove_first(walk->heap);
	}
	else
		walk->current = NULL;
}
