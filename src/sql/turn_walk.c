/*-------------------------------------------------------------------------
 *
 * turn_walk.c
 *	  The tasks of a group's line, in order, for those who look.
 *
 * What a claim would come to: the candidates of the line, and behind them what
 * the index has, each with the tag that it would be taken with.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/leases.h"
#include "sql/turn_walk.h"

/* Entries of the index that are read at a time. */
#define LOOKS			64

/*
 * Begin at the first task of the line of a group.
 */
void
turn_walk_begin(TurnWalk *walk, RowReader *row, uint32 group)
{
	walk->row = row;
	walk->line = palloc(sizeof(LineCopy));
	walk->at = walk->read_at = walk->read_n = 0;
	if (!turns_copy(group, walk->line))
	{
		walk->line->n = 0;
		walk->line->frontier = PG_INT64_MAX;
	}
	walk->read.hash = (int64) walk->line->low;
	walk->read.class = walk->line->class;
	walk->read.ids = palloc(LOOKS * sizeof(int64));
	walk->read.tids = palloc(LOOKS * sizeof(ItemPointerData));
	walk->read.max = LOOKS;
	walk->read.next.id = walk->line->frontier;
	ItemPointerSetInvalid(&walk->read.next.tid);
}

void
turn_walk_end(TurnWalk *walk)
{
	pfree(walk->line);
	pfree(walk->read.ids);
	pfree(walk->read.tids);
}

/*
 * Where the next task of the line was seen.  Returns false if there is none.
 * *parked: it is the number walk->at - 1 of the line's copy, and has an
 * address.
 */
static bool
next_place(TurnWalk *walk, int64 *task, ItemPointerData *tid, bool *parked)
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
		walk->read_at = 0;
		walk->read_n = queue_index_overflow(walk->row->rel, walk->row->info, &walk->read);
		if (walk->read_n == 0)
			return false;
	}
	*task = walk->read.ids[walk->read_at];
	*tid = walk->read.tids[walk->read_at++];
	return true;
}

/* Is the row that was read that of a task of the line, which may be claimed? */
static bool
is_of_line(TurnWalk *walk, int64 task)
{
	RowReader  *row = walk->row;
	GroupName	name;
	LeaseInfo	lease;

	if (DatumGetInt64(row_value(row, COLUMN_ID)) != task ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_OVERFLOW ||
		!row_is_null(row, COLUMN_ADDRESS))
		return false;
	name = row_reader_group(row);
	return name.low == walk->line->low && name.high == walk->line->high &&
		!leases_find(queue_state_number(row->info->state), task, &lease);
}

/*
 * Look at a task that is parked: it is in its own lane, and comes at walk->tag.
 * Returns whether it may be claimed.
 */
static bool
look_at_parked(TurnWalk *walk, Lane **lane, LaneEntry *entry)
{
	LineCopy   *line = walk->line;
	RowReader  *row = walk->row;
	int			i = walk->at - 1;
	LeaseInfo	lease;

	*lane = lanes_get(line->tasks[i].lane);
	entry->block = line->tasks[i].tag.whole;
	entry->fraction = line->tasks[i].tag.fraction;
	entry->slot = (uint64) line->tasks[i].task;
	entry->tid = line->tasks[i].tid;
	entry->turn_high = 0;
	entry->turn_low = 0;
	if (row_reader_entry(row, entry) != ROW_LIVE)
		return false;
	row_reader_unlock(row);
	if (!row_reader_is_at(row, *lane, entry) ||
		leases_find(queue_state_number(row->info->state),
					DatumGetInt64(row_value(row, COLUMN_ID)), &lease))
		return false;
	walk->tag = line->tasks[i].tag;
	if (line->tags)
	{
		walk->tag = virtual_time_max(walk->tag, line->resumed);
		line->resumed = turns_charged(line, walk->tag, line->tasks[i].cost);
		line->next = virtual_time_max(line->next, line->resumed);
	}
	return true;
}

/*
 * The next task that may be claimed, and its tag in walk->tag.  If it has no
 * address, its row is read as if it had that for one.  Returns false if there
 * are no more.
 */
bool
turn_walk_next(TurnWalk *walk, Lane **lane, LaneEntry *entry)
{
	LineCopy   *line = walk->line;
	RowReader  *row = walk->row;
	int64		task;
	ItemPointerData tid;
	bool		parked;

	while (next_place(walk, &task, &tid, &parked))
	{
		VirtualTime tag = line->next;
		bool		charged = walk->read_n == 0 && line->tasks[walk->at - 1].charged;
		RowStatus	status;

		CHECK_FOR_INTERRUPTS();
		if (parked && look_at_parked(walk, lane, entry))
			return true;
		if (parked)
			continue;
		*lane = line->lane;
		if (charged)
			tag = line->tasks[walk->at - 1].tag;
		entry->block = tag.whole;
		entry->fraction = tag.fraction;
		entry->tid = tid;
		lanes_entry_set_turn(entry, task, line->slot);
		status = row_reader_entry(row, entry);
		if (status == ROW_LIVE)
			row_reader_unlock(row);
		if (status != ROW_LIVE || !is_of_line(walk, task))
			continue;
		if (!charged)
			line->next = turns_charged(line, tag, DatumGetFloat4(row_value(row, COLUMN_COST)));
		walk->tag = tag;
		entry->tid = row->tuple.t_self;
		(void) row_reader_is_at(row, *lane, entry);
		return true;
	}
	return false;
}
