/*-------------------------------------------------------------------------
 *
 * turn_reads.c
 *	  Lines: reading on in them, and looking at them.
 *
 * A claimer reads on in the index, up to some hundred tasks, without the lock
 * of the lane; the head of turns.c says how it learns what comes meanwhile.
 * One claimer at a time reads a line.  Others that come to it wait: what is
 * behind would come before its turn else.  Before that they read others, which
 * claims come to soon: lines that are served alike run out together, and all
 * claimers would stand before each of them.  A reader may be stopped, so each
 * reading is waited for up to LINE_WAIT_MSECS; then it is overdue, and all pass
 * it by.
 *
 * What there was no room to park is read on in the lanes: they are lowered to
 * where the first of it was, and claims come to it once more.
 *
 * A reading ends in one of three ways: with what was found (turns_read_end), by
 * an error (turns_at_abort), or with the backend, whose transaction is aborted
 * at its exit.  So no line stays in the hands of a reader that is no more.
 *
 * Locking: the home lane's lock guards a line.  All functions here take it
 * themselves, so the caller holds no lock of a lane, a limit or a partition.
 * Where the caller gives a lane and a group, the group may have changed since
 * it was looked at: it is looked at again under the lock.
 *
 * Races: 7 (the last lease ends before the line is blocked), 11 (a task comes
 * before where its line is being read) and 17 (the line whose turn it is is
 * being read by another claimer).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "portability/instr_time.h"

#include "shmem/turn_private.h"

/*
 * A reading takes a millisecond; on a busy machine the reader may wait for a
 * processor meanwhile.
 */
#define LINE_WAIT_MSECS		100

/* So many are looked at behind the root of a heap. */
#define LOOKS_BEHIND		8

/*
 * The group whose line this backend reads; NULL: none.  Set while line.reading
 * is, by this backend, and so changed under the lock of the line's home lane.
 * A line that is being read does not end (turns_has_overflow), so the group
 * keeps its entry and its home lane: both are found from here without a lock.
 */
static FairGroup *reading = NULL;

/*
 * The group whose line is that of the first turn of a lane, or of this group,
 * if that stands there; of one that is divided the subgroup that is next. NULL:
 * there is none.  The lane is locked, in either mode.
 *
 * The entry of that number may have been another group's a moment ago, or be
 * free.  But one whose line is at home in this lane stays what it is for as
 * long as the lane is locked: no entry is forgotten that has a line.
 */
static FairGroup *
group_that_stands(Lane *lane, uint32 number)
{
	FairGroup  *group = NULL;

	AssertLaneLocked(lane);
	if (number != FAIRQ_NO_GROUP)
		group = &group_entries[number];
	else if (lane->turns != NULL)
		group = pairingheap_container(FairGroup, line.node, lane->turns);
	if (group != NULL && group->in_use &&
		lanes_get(0) + ((volatile FairGroup *) group)->line.lane == lane + 1)
		return turns_next_line(group);
	return NULL;
}

/*
 * If the next tasks of a line are such as there was no room to park, the lanes
 * are read again from there.  Of which line is said as in turns_read_begin.
 * Returns whether that is so.  Then the line has its next turn, or none, and
 * those who wait were told of each lane.
 *
 * The caller holds no lock of ours; takes the home lane's, and then that of
 * each lane of the order, for the tasks may be of any bucket.  Never fails.
 */
bool
turns_read_dropped(Lane *lane, uint32 number)
{
	FairGroup  *group;
	QueueState *queue = queue_state_by_number(lane->queue);
	LaneSet    *set = &queue->orders[lane->class].lanes;
	VirtualTime from = {0, 0};
	bool		reads;
	Lane	   *other;

	AssertNotLocked(&lane->lock);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	group = group_that_stands(lane, number);
	reads = group != NULL && group->line.dropped &&
		group->line.last_parked == NO_ENTRY;
	if (reads)
	{
		/*
		 * Before the lanes are lowered: a claim that comes to such a task from
		 * now on, and has no room for it either, says so anew.
		 */
		from.whole = group->line.dropped_from;
		group->line.dropped = false;
		turn_lines_count_parked(group, -1);
		turns_take_place(group);
	}
	LWLockRelease(&lane->lock);
	for (int b = 0; reads && (other = lanes_next(set, &b)) != NULL; b++)
	{
		FairqAddress address = {
			.block = from.whole,
			.fraction = from.fraction,
			.bucket = other->bucket,
			.class = other->class,
		};

		lanes_lower(other, &address);
	}
	return reads;
}

/*
 * If the group of a line that is about to be read may not have a task its line
 * is blocked, unread.  Of which line is said as in turns_read_begin.  Returns
 * whether that is so.  Worth asking only where groups have limits.
 *
 * Whether it may is found under the limit's lock, and the limit knows then that
 * the line is blocked: so who makes room lets it go on (race 7).  If it may,
 * that may be otherwise when the line has been read: then it is blocked where
 * it is taken from.  Takes the home lane's lock, and those of limits.  Never
 * fails.
 */
bool
turns_block_unread(Lane *lane, uint32 number)
{
	FairGroup  *group;
	bool		blocked;

	AssertNotLocked(&lane->lock);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	group = group_that_stands(lane, number);
	blocked = group != NULL && group->line.standing && turn_lines_block(group);
	if (blocked)
		turns_take_place(group);
	LWLockRelease(&lane->lock);
	return blocked;
}

/*
 * Begin to read the line of the first turn of a lane, or (not FAIRQ_NO_GROUP)
 * of a group that stands there.  Returns false if there is nothing to read or
 * another backend is reading.  Else the caller reads as *read says, and calls
 * turns_read_end.
 *
 * That holds no lock meanwhile, and may fail: then the transaction's abort ends
 * the reading (turns_at_abort).  A backend reads one line at a time.  From now
 * on whatever may have been passed over is in line->lowered (race 11), and
 * claims see LANE_REFILLING where the group has the first turn.
 */
bool
turns_read_begin(Lane *lane, uint32 number, TurnRead *read)
{
	FairGroup  *group;

	AssertNotLocked(&lane->lock);
	Assert(reading == NULL);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	group = group_that_stands(lane, number);
	if (group != NULL && !group->line.reading && turns_is_unread(&group->line))
	{
		GroupLine  *line = &group->line;

		line->target = turn_candidates_are_few() ? TURNS_READ_LEAST :
			Min(2 * line->target, TURNS_READ);
		line->reading = true;
		line->overdue = false;
		line->lowered = PG_INT64_MAX;
		read->group = group - group_entries;
		read->key = group->key;
		read->from = line->frontier;
		read->max = line->target;
		reading = group;
		turns_show_first(lane);
	}
	LWLockRelease(&lane->lock);
	return reading != NULL;
}

/*
 * The first to be read of some groups just behind the root of a heap.  They are
 * its children, in no order, and the next one to come first is among them.
 * Groups that stand in the lane are looked at by the subgroup that is next.
 * The lane of the heap is locked, in either mode.
 */
static uint32
unread_behind(pairingheap_node *root)
{
	pairingheap_node *node = root->first_child;

	for (int i = 0; node != NULL && i < LOOKS_BEHIND; i++, node = node->next_sibling)
	{
		FairGroup  *group = turns_next_line(pairingheap_container(FairGroup, line.node, node));

		if (turns_is_unread(&group->line) && !group->line.reading && !group->line.dropped)
			return group - group_entries;
	}
	return FAIRQ_NO_GROUP;
}

/*
 * While another backend is reading the line of the first turn of a lane: a line
 * that is to be read soon, which this one may read instead of waiting.
 * FAIRQ_NO_GROUP: there is none, or nothing to wait for; or the pool of
 * candidates is more than half full, so that reading ahead would have others
 * cut their lines.
 *
 * Of a divided group its other subgroups come first.  The caller tries
 * turns_read_begin with it, which finds whether that is still so.  Takes the
 * lane's lock in shared mode.
 */
uint32
turns_unread_behind(Lane *lane)
{
	FairGroup  *first;
	uint32		number = FAIRQ_NO_GROUP;

	if (turn_candidates_are_few())
		return FAIRQ_NO_GROUP;
	LWLockAcquire(&lane->lock, LW_SHARED);
	first = group_that_stands(lane, FAIRQ_NO_GROUP);
	if (first != NULL && first->line.reading)
	{
		FairGroup  *above = group_above(first);

		if (above != NULL)
			number = unread_behind(above->line.subgroups);
		if (number == FAIRQ_NO_GROUP)
			number = unread_behind(lane->turns);
	}
	LWLockRelease(&lane->lock);
	return number;
}

/*
 * Wait until no other backend is reading the line of the first turn of a lane,
 * or of a group.  Of which line is said as in turns_read_begin.  Returns false
 * if the reading is overdue: then the caller passes the line by (race 17).
 *
 * The caller holds no lock of ours.  It may be interrupted while it sleeps, and
 * fail.  As it prepares to sleep before it looks, an end of the reading after
 * the look wakes it.
 */
bool
turns_read_wait(Lane *lane, uint32 number)
{
	FairGroup  *waits_for = NULL;
	instr_time	start;
	bool		under_way;
	bool		overdue;

	AssertNotLocked(&lane->lock);
	INSTR_TIME_SET_CURRENT(start);
	ConditionVariablePrepareToSleep(&lane->refilled);
	for (;;)
	{
		FairGroup  *group;
		instr_time	now;
		double		waited;

		INSTR_TIME_SET_CURRENT(now);
		LWLockAcquire(&lane->lock, LW_SHARED);
		group = group_that_stands(lane, number);
		under_way = group != NULL && group->line.reading;
		/* Another line has the first turn by now: its time begins. */
		if (group != waits_for)
			start = now;
		waits_for = group;
		INSTR_TIME_SUBTRACT(now, start);
		waited = INSTR_TIME_GET_MILLISEC(now);
		/* All who write this under the shared lock write the same. */
		if (under_way && waited >= LINE_WAIT_MSECS)
			group->line.overdue = true;
		overdue = under_way && group->line.overdue;
		LWLockRelease(&lane->lock);
		if (!under_way || overdue)
			break;
		/* Readings of other lines of the lane wake us, too. */
		(void) ConditionVariableTimedSleep(&lane->refilled, (long) (LINE_WAIT_MSECS - waited) + 1,
										   shared_memory_wait_event(FAIRQ_WAIT_INDEX));
	}
	ConditionVariableCancelSleep();
	return !overdue;
}

/*
 * The reading has ended: n tasks were found, in order, and next is the first id
 * after them (PG_INT64_MAX: there is none).  The caller has begun it; with n =
 * 0 and the frontier of before for next nothing was read.
 *
 * If there is no room for the first one it is taken at once, though it may not
 * be the first turn of its lane: then *entry and *turn are set.  Else a claim
 * would read the same row again and again, and a queue whose pool is full stand
 * still.  Returns how many were, none or one; -1: entry is NULL, and so none
 * was taken or kept.
 *
 * On return the line is read up to its frontier, which is not beyond the first
 * task that was said to be passed over meanwhile, nor beyond the first that
 * there was no room for; and those who wait for the reading are woken.  Those
 * before the last candidate of the overflow have come back meanwhile by name,
 * and are not entered twice.
 *
 * Takes the home lane's lock exclusively, and under it the pool's; those of
 * limits, if one is taken.  Never fails.
 */
int
turns_read_end(const OverflowTask *tasks, int n, int64 next, LaneEntry *entry, LaneTurn *turn)
{
	FairGroup  *group = reading;
	GroupLine  *line = &group->line;
	Lane	   *lane = turns_home(group);
	TurnPlace	before;
	bool		blocked;
	int			taken = 0;

	Assert(group != NULL);
	LWLockAcquire(&lane->lock, LW_EXCLUSIVE);
	Assert(line->reading);
	before = turns_place(group);
	line->reading = false;
	reading = NULL;
	/* Race 11: from there on the rows may have been read too early. */
	next = Min(next, line->lowered);
	blocked = line->blocked || group_whole(group)->line.blocked;
	for (int i = 0; i < n && tasks[i].id < next; i++)
	{
		TurnCandidate candidate = {
			.task = tasks[i].id,
			.tid = tasks[i].tid,
			.cost = tasks[i].cost,
		};
		uint32		number;

		if (turns_first_of_overflow(line) != NO_ENTRY &&
			turn_candidates[line->tail].task >= tasks[i].id)
			continue;			/* it has come back meanwhile */
		number = turn_candidates_new();
		if (number == NO_ENTRY)
		{
			if (entry != NULL && i == 0 && line->head == NO_ENTRY && !blocked &&
				turns_take_candidate(group, &candidate, true, entry, turn))
			{
				taken = 1;
				continue;
			}
			if (entry == NULL && i == 0 && line->head == NO_ENTRY)
				taken = -1;
			next = tasks[i].id;
			break;
		}
		turn_candidates[number] = candidate;
		turn_candidates_add(line, number, line->tail);
	}
	line->frontier = next;
	line->lowered = PG_INT64_MAX;
	turns_take_place_if_moved(group, &before);
	LWLockRelease(&lane->lock);
	ConditionVariableBroadcast(&lane->refilled);
	return taken;
}

/*
 * A transaction or a subtransaction rolls back: if it was reading a line,
 * nothing was read.  The frontier is where it was, or where it was lowered to
 * meanwhile, and the next claim that comes by reads.  Never fails.
 *
 * The frontier is read without the lock: whoever lowers it while the line is
 * being read says so in lowered, too, which the end of the reading looks at.
 */
void
turns_at_abort(void)
{
	if (reading != NULL)
		(void) turns_read_end(NULL, 0, reading->line.frontier, NULL, NULL);
}

/*
 * Lock the home lane of a group exclusively, if it has a line with candidates:
 * one that is divided has none of its own.  Returns the lane, or NULL, with
 * nothing locked.  The group may be another one than the caller has looked up.
 */
static Lane *
lock_undivided(FairGroup *group)
{
	Lane	   *lane = turns_lock_home(group);

	if (lane == NULL || !group->divided)
		return lane;
	LWLockRelease(&lane->lock);
	return NULL;
}

/*
 * Will claims come to a task of a group's overflow, as far as its line knows,
 * now or when the group may have it?  It is a candidate, or behind the
 * frontier; or before where a reading that is under way is to be repeated.
 *
 * For the sweep; the answer is of a moment ago.  One that is in a claimer's
 * hands is not in its line, and not found.  Takes the home lane's lock.
 */
bool
turns_have(uint32 number, int64 task)
{
	FairGroup  *group = &group_entries[number];
	Lane	   *lane = lock_undivided(group);
	bool		found;

	if (lane == NULL)
		return false;
	found = task >= group->line.frontier || task >= group->line.lowered;
	for (uint32 i = turns_first_of_overflow(&group->line); i != NO_ENTRY && !found;
		 i = turn_candidates[i].next)
		found = turn_candidates[i].task == task;
	LWLockRelease(&lane->lock);
	return found;
}

/*
 * Copy what the next turn of a group is, or that of the group of a subgroup,
 * whose number is copy->number then.  Of none (FAIRQ_NO_GROUP), and of one that
 * has no line, there is nothing but the number, and a weight of 1.
 *
 * For who follows the turns of a lane without taking any (turn_walk.c): from
 * here it works out for itself what each task would be charged.  Takes the home
 * lane's lock.
 */
void
turns_copy_group(uint32 number, GroupCopy *copy)
{
	FairGroup  *group = &group_entries[number];
	Lane	   *lane = number == FAIRQ_NO_GROUP ? NULL : turns_lock_home(group);

	*copy = (GroupCopy) {.number = number, .weight = 1};
	if (lane == NULL)
		return;
	group = group_whole(group);
	copy->number = group - group_entries;
	copy->weight = group_weight(queue_state_by_number(group->key.queue), group);
	copy->tags = turns_have_tags(group);
	copy->resumed = virtual_time_unpack(group->line.resumed);
	copy->next = turns_next(&group->line);
	LWLockRelease(&lane->lock);
}

/*
 * Copy what is known of the line of a group, up to TURNS_READ of its first
 * candidates, which are not linked in the copy; what is behind them is in the
 * index, from copy->frontier on.  Returns false if there is none, and copy is
 * not set.  Parked candidates for which there is no room are left out; the
 * index has the others, so that the copy's frontier is lowered to the first of
 * them.
 *
 * Takes the home lane's lock, for a copy of some twenty kilobytes at most.
 */
bool
turns_copy(uint32 number, LineCopy *copy)
{
	FairGroup  *group = &group_entries[number];
	Lane	   *lane = lock_undivided(group);
	QueueState *queue;

	if (lane == NULL)
		return false;
	copy->lane = lane;
	copy->key = group->key;
	copy->slot = group_whole(group)->slot;
	queue = queue_state_by_number(group->key.queue);
	copy->weight = group_weight(queue, group);
	copy->seconds = group_charge(queue, group, -1);
	copy->next = turns_next(&group->line);
	copy->frontier = group->line.frontier;
	copy->n = 0;
	for (uint32 i = group->line.head; i != NO_ENTRY; i = turn_candidates[i].next)
	{
		if (copy->n < TURNS_READ)
			copy->tasks[copy->n++] = turn_candidates[i];
		else if (!turn_candidates[i].parked)	/* the rest is read */
			copy->frontier = Min(copy->frontier, turn_candidates[i].task);
	}
	LWLockRelease(&lane->lock);
	return true;
}

/*
 * The group that has the first turn of a lane, or its subgroup that is next;
 * FAIRQ_NO_GROUP: none has.  Takes the lane's lock in shared mode; out of date
 * at once.
 */
uint32
turns_first_group(Lane *lane)
{
	uint32		result = FAIRQ_NO_GROUP;

	LWLockAcquire(&lane->lock, LW_SHARED);
	if (lane->turns != NULL)
		result = turns_next_line(pairingheap_container(FairGroup, line.node, lane->turns)) -
			group_entries;
	LWLockRelease(&lane->lock);
	return result;
}

/*
 * How many tasks of a group are parked that come before an address (NULL: any),
 * up to max; *exact is set to false if there may be more, or some were dropped,
 * and else left as it is.  *last is the last that is parked; returns whether
 * there is one.
 *
 * By addresses alone: which of two rows of one address is first does not matter
 * here, so their positions are not compared.  Takes the home lane's lock, for a
 * walk of max steps.
 */
bool
turns_parked_before(uint32 number, const FairqAddress *address, int max, int *before,
					LaneEntry *last, bool *exact)
{
	FairGroup  *group = &group_entries[number];
	Lane	   *lane = lock_undivided(group);
	const GroupLine *line = &group->line;
	LaneEntry	bound;
	bool		any;

	*before = 0;
	if (lane == NULL)
		return false;
	any = line->last_parked != NO_ENTRY;
	*exact &= !line->dropped;
	if (any)
	{
		turn_candidates_entry(&turn_candidates[line->last_parked], 0, last);
		if (address != NULL)
			lanes_entry(&bound, address, &last->tid);
		for (uint32 i = line->head; i != turns_first_of_overflow(line);
			 i = turn_candidates[i].next)
		{
			LaneEntry	entry;

			turn_candidates_entry(&turn_candidates[i], 0, &entry);
			ItemPointerCopy(&last->tid, &entry.tid);
			if (address != NULL && lanes_compare(&entry, &bound) >= 0)
				break;
			if (*before == max)
			{
				*exact = false;
				break;
			}
			(*before)++;
		}
	}
	LWLockRelease(&lane->lock);
	return any;
}

/*
 * Is a task that was taken, of a class and a group by its row, still of the
 * group in whose line it was?  A row that SQL has moved to another group is not
 * to be charged to this one, nor counted at its limit (race 12).
 *
 * Without a lock: the claim has the task in hand.  If the entry is another
 * group's by now the answer is no, and the task goes back by its row.
 */
bool
turns_is_of(const LaneTurn *turn, int class, const GroupName *name)
{
	const GroupKey *key = &group_entries[turn->group].key;

	return key->class == class && key->low == name->low && key->high == name->high;
}
