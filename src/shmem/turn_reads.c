/*-------------------------------------------------------------------------
 *
 * turn_reads.c
 *	  Lines: reading on in them, and looking at them.
 *
 * A claimer reads on in the index, up to some hundred tasks, without the lock
 * of the lane; the head of turns.c says how it learns what comes meanwhile.
 * One claimer at a time reads a line.
 *
 * Locking: the home lane's lock guards a line.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/turn_private.h"

/* The group whose line this backend reads; NULL: none. */
static FairGroup *reading = NULL;

/*
 * Begin to read the line of the first turn of a lane, or (not FAIRQ_NO_GROUP)
 * of a group that stands there.  Returns false if there is nothing to read or
 * another backend is reading.  Else the caller reads as *read says, and calls
 * turns_read_end.
 */
bool
turns_read_begin(Lane *lane, uint32 number, TurnRead *read)
{
	FairGroup  *group = NULL;
	bool		begun = false;

	Assert(reading == NULL);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	if (number != FAIRQ_NO_GROUP)
		group = &group_entries[number];
	else if (lane->turns != NULL)
		group = pairingheap_container(FairGroup, line.node, lane->turns);
	if (group != NULL && group->in_use &&
		lanes_get(0) + ((volatile FairGroup *) group)->line.lane == lane + 1)
	{
		GroupLine  *line = &group->line;

		begun = !line->reading && line->frontier != PG_INT64_MAX && line->head == NO_ENTRY;
		if (begun)
		{
			line->target = turn_candidates_are_few() ? TURNS_READ_LEAST :
				Min(2 * line->target, TURNS_READ);
			line->reading = true;
			line->lowered = PG_INT64_MAX;
			read->group = group - group_entries;
			read->class = group->key.class;
			read->low = group->key.low;
			read->high = group->key.high;
			read->from = line->frontier;
			read->max = line->target;
			reading = group;
			turns_show_first(lane);
		}
	}
	LWLockRelease(&lane->lock);
	return begun;
}

/*
 * The reading has ended: n tasks were found, in order, and next is the first id
 * after them (PG_INT64_MAX: there is none).
 *
 * If there is no room for the first one it is taken at once, though it may not
 * be the first turn of its lane: then *entry and *turn are set, unless entry is
 * NULL.  Returns how many were, none or one.
 */
int
turns_read_end(const TurnTask *tasks, int n, int64 next, LaneEntry *entry, LaneTurn *turn)
{
	FairGroup  *group = reading;
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);
	int			taken = 0;

	Assert(group != NULL);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	Assert(line->reading);
	line->reading = false;
	reading = NULL;
	next = Min(next, line->lowered);
	for (int i = 0; i < n && tasks[i].task < next; i++)
	{
		uint32		number;

		if (line->tail != NO_ENTRY && turn_candidates[line->tail].task >= tasks[i].task)
			continue;			/* it has come back meanwhile */
		number = turn_candidates_new();
		if (number == NO_ENTRY)
		{
			if (entry != NULL && i == 0 && line->head == NO_ENTRY && !line->blocked)
			{
				VirtualTime after = turns_charge(group, group_line_next(line), tasks[i].cost);

				entry->block = group_line_next(line).whole;
				entry->fraction = group_line_next(line).fraction;
				entry->tid = tasks[i].tid;
				lanes_entry_set_turn(entry, tasks[i].task, group->slot);
				turn->group = group - group_entries;
				turn->cost = tasks[i].cost;
				turn->charge = virtual_time_moved(turns_no_charge, group_line_next(line), after);
				group_line_set_next(line, after);
				taken = 1;
				continue;
			}
			next = tasks[i].task;
			break;
		}
		turn_candidates[number].task = tasks[i].task;
		turn_candidates[number].tid = tasks[i].tid;
		turn_candidates[number].cost = tasks[i].cost;
		turn_candidates[number].charged = false;
		turn_candidates[number].next = NO_ENTRY;
		if (line->tail == NO_ENTRY)
			line->head = number;
		else
			turn_candidates[line->tail].next = number;
		line->tail = number;
	}
	line->frontier = next;
	line->lowered = PG_INT64_MAX;
	turns_take_place(group);
	LWLockRelease(&lane->lock);
	ConditionVariableBroadcast(&lane->refilled);
	return taken;
}

/*
 * A transaction or a subtransaction rolls back: if it was reading a line,
 * nothing was read.
 */
void
turns_at_abort(void)
{
	FairGroup  *group = reading;
	Lane	   *lane;

	if (group == NULL)
		return;
	lane = turns_home(group);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	Assert(group->line.reading);
	group->line.reading = false;
	reading = NULL;
	group->line.frontier = Min(group->line.frontier, group->line.lowered);
	group->line.lowered = PG_INT64_MAX;
	turns_take_place(group);
	LWLockRelease(&lane->lock);
	ConditionVariableBroadcast(&lane->refilled);
}

/*
 * Will claims come to a task of a group's overflow, as far as its line knows?
 * Not if the line is blocked: then that depends on what is parked.
 */
bool
turns_have(uint32 number, int64 task)
{
	FairGroup  *group = &group_entries[number];
	Lane	   *lane = turns_lock_home(group);
	bool		found;

	if (lane == NULL)
		return false;
	found = task >= group->line.frontier || task >= group->line.lowered;
	for (uint32 i = group->line.head; i != NO_ENTRY && !found; i = turn_candidates[i].next)
		found = turn_candidates[i].task == task;
	found &= !group->line.blocked;
	LWLockRelease(&lane->lock);
	return found;
}

/*
 * Copy what is known of the line of a group.  Returns false if there is none,
 * or the group may not have a task now.
 */
bool
turns_copy(uint32 number, LineCopy *copy)
{
	FairGroup  *group = &group_entries[number];
	Lane	   *lane = turns_lock_home(group);
	QueueState *queue;

	if (lane == NULL)
		return false;
	copy->lane = lane;
	copy->class = group->key.class;
	copy->slot = group->slot;
	copy->low = group->key.low;
	copy->high = group->key.high;
	queue = queue_state_by_number(group->key.queue);
	copy->weight = group_weight(queue, group);
	copy->seconds = group_charge(queue, group, -1);
	copy->next = group_line_next(&group->line);
	copy->frontier = group->line.frontier;
	copy->n = 0;
	for (uint32 i = group->line.head; i != NO_ENTRY && copy->n < TURNS_READ;
		 i = turn_candidates[i].next)
	{
		copy->tasks[copy->n].task = turn_candidates[i].task;
		copy->tasks[copy->n].tid = turn_candidates[i].tid;
		copy->tasks[copy->n].charged = turn_candidates[i].charged;
		copy->tasks[copy->n++].tag = turn_candidates[i].tag;
	}
	LWLockRelease(&lane->lock);
	return true;
}

/*
 * The group that has the first turn of a lane; FAIRQ_NO_GROUP: none has.
 */
uint32
turns_first_group(Lane *lane)
{
	uint32		result = FAIRQ_NO_GROUP;

	LWLockAcquire(&lane->lock, LW_SHARED);
	if (lane->turns != NULL)
		result = pairingheap_container(FairGroup, line.node, lane->turns) - group_entries;
	LWLockRelease(&lane->lock);
	return result;
}
