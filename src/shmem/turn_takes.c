/*-------------------------------------------------------------------------
 *
 * turn_takes.c
 *	  Turns: taking the task of one, and giving it back.
 *
 * A claim takes the first turn of a lane, or of one group.  Which task that is
 * of is chosen now: the first of the line.  Room is kept for it by the limits
 * of all levels, or else the line is blocked and the turn is another group's.
 * Then each level is charged, and the line takes its place by what comes next.
 * All this is done under the lock of the home lane, so that what a claim is
 * given was the first of its lane at one moment.
 *
 * What is taken is in the claim's hands, with a LaneTurn that says what was
 * charged and which limits keep room.  It is leased, or comes back
 * (turns_return), or has led nowhere (turns_refund): in both of the latter the
 * charge is taken back, as if the turn had not been taken, unless the task was
 * leased meanwhile.  The head of turns.c says what is charged, and when.
 *
 * Locking: the home lane's lock guards a line.  Functions that are for claims
 * take it themselves; the others say that the caller holds it.  The locks of
 * limits, of candidates and of virtual time are taken under it.  No function
 * fails.
 *
 * Races: 7 and 29 (room that is kept under the limits' locks) are guarded by
 * limit_room_reserve, which reserve() calls with the lane locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/turn_private.h"
#include "shmem/waiters.h"

/*
 * The tag that follows a tag at a level, of a task that is charged so much: by
 * the weight that the level has now, which is read without its lock and so as
 * it was a moment ago.
 */
static VirtualTime
charged(const FairGroup *level, VirtualTime tag, double charge)
{
	/* The weight without its lock: it is as it was a moment ago. */
	return virtual_time_add(tag, charge,
							group_weight(queue_state_by_number(level->key.queue), level));
}

/*
 * A task of the overflow is taken at its turn: each level is charged for it,
 * and goes on from there.  What each was charged is noted in turn->charges, in
 * the order of FOR_LEVELS, as a difference: what is charged meanwhile for
 * others does not change it.
 *
 * Virtual time between the subgroups of a group comes to the tag of what is
 * taken, and the highest tag that one was charged to is noted beside it. What
 * both were before goes into *turn, so that the last one taken can be taken
 * back wholly (uncharge).  The home lane is locked exclusively.
 */
static void
charge_levels(FairGroup *group, double charge, LaneTurn *turn)
{
	VirtualTime *charges = turn->charges;

	FOR_LEVELS(level, group)
	{
		GroupLine  *line = &level->line;
		VirtualTime tag = turns_next(line);
		VirtualTime next = charged(level, tag, charge);

		*charges++ = virtual_time_moved(turns_no_charge, tag, next);
		line->next = virtual_time_pack(next);
		if (group_above(level) != NULL)
		{
			GroupLine  *above = &group_above(level)->line;

			turn->time = virtual_time_unpack(above->time);
			turn->last = virtual_time_unpack(above->last);
			virtual_time_raise(&above->time, tag);
			virtual_time_raise(&above->last, next);
		}
	}
}

/*
 * Have room kept for the first task of a line, by the limits of all levels.
 * more: the line has others behind it; of the group so have its other subgroups
 * that have a turn.  Returns false if there is none: then the level that has
 * none is blocked, and its limit knows (limit_room_reserve).
 *
 * *turn says which limits keep room.  They are read without the partition's
 * lock, and looked at again under their own: one that is not the group's any
 * more keeps none, and is NO_LIMIT there on return.
 */
static bool
reserve(FairGroup *group, bool parked, bool more, LaneTurn *turn)
{
	RoomLevel	levels[LIMIT_LEVELS];
	int			i = 0;

	turn->limits[1] = NO_LIMIT;
	FOR_LEVELS(level, group)
	{
		if (level->divided)
			more |= level->line.subgroups != NULL &&
				level->line.subgroups->first_child != NULL;
		turn->limits[i] = ((volatile FairGroup *) level)->limit;
		levels[i].key = &level->key;
		levels[i].group = level - group_entries;
		levels[i].more = more;
		levels[i++].blocked = &level->line.blocked;
	}
	return likely(turn->limits[0] == NO_LIMIT && turn->limits[1] == NO_LIMIT) ||
		limit_room_reserve(turn->limits, levels, parked);
}

/*
 * Take a task at its turn: the first candidate of a line, or one that there was
 * no room for.  more: there are others behind it.  Returns false if the group
 * may not have it now; then its line is blocked, or the group, and nothing else
 * has changed.
 *
 * On true *entry and *turn are set: room is kept, and what the task's turn
 * costs was charged.  One that was parked is charged to its group's "resumed",
 * under policies with tags, and one that keeps a tag not at all: it was, when
 * it was taken before.  The entry has the tag at which the task's turn came,
 * but for one that is parked, whose entry has its own address, where its row is
 * found.
 *
 * The caller holds the home lane's lock exclusively, takes the candidate out of
 * its line, and sees to the line's place.  Takes the locks of limits.
 */
bool
turns_take_candidate(FairGroup *group, const TurnCandidate *candidate, bool more,
					 LaneEntry *entry, LaneTurn *turn)
{
	QueueState *queue = queue_state_by_number(group->key.queue);
	FairGroup  *whole = group_whole(group);
	/* Without its lock: it is as it was a moment ago. */
	double		charge = group_charge(queue, group, candidate->cost);

	AssertLineLocked(group);
	if (!reserve(group, candidate->parked, more, turn))
		return false;
	turn->group = group - group_entries;
	turn->cost = candidate->cost;
	turn->lane = candidate->lane;
	turn->parked = candidate->parked;
	turn_candidates_entry(candidate, whole->slot, entry);
	turn->charges[0] = turn->charges[1] = turns_no_charge;
	turn->tag = turns_next(&whole->line);
	if (candidate->parked)
	{
		if (whole->divided)
			whole->line.parked--;
		turn->tag = turns_tag_of_kept(whole, true, virtual_time_unpack(candidate->tag));
		if (turns_have_tags(group))
		{
			VirtualTime next = charged(whole, turn->tag, charge);

			turn->charges[whole != group] = virtual_time_moved(turns_no_charge, turn->tag, next);
			whole->line.resumed = virtual_time_pack(next);
		}
		return true;
	}
	if (candidate->charged)
		turn->tag = turns_tag_of_kept(whole, false, virtual_time_unpack(candidate->tag));
	else
		charge_levels(group, charge, turn);
	entry->block = turn->tag.whole;
	entry->fraction = turn->tag.fraction;
	return true;
}

/*
 * Take the first task of a group that stands and has one in memory; of one that
 * is divided, of the subgroup that is next.  Returns false if it may not have
 * it now.  In both cases the line, and its group, have their new place on
 * return, or none: so there is progress, and the caller may look again.
 *
 * A line that is blocked and whose candidates others could use lets them go:
 * they are read from the index when the group may go on.  The home lane is
 * locked exclusively.
 */
static bool
take_first(FairGroup *whole, LaneEntry *entry, LaneTurn *turn)
{
	FairGroup  *group = turns_next_line(whole);
	GroupLine  *line = &group->line;
	const TurnCandidate *first = &turn_candidates[line->head];
	bool		takes = turns_take_candidate(group, first,
											 first->next != NO_ENTRY || line->dropped ||
											 line->frontier != PG_INT64_MAX, entry, turn);

	if (takes)
		turn_candidates_remove(line, line->head);
	/* Who waits for long does not keep what others need. */
	if (line->blocked && turn_candidates_are_few())
		turn_candidates_let_go(line);
	turns_take_place(group);
	return takes;
}

/*
 * Take the first turn of a lane, which is ready.  Returns false if its group
 * may not have the task now; then another turn is the first, and lane->turn and
 * its view say which.  For lanes.c, with the lane locked exclusively.
 */
bool
turns_take_first(Lane *lane, LaneEntry *entry, LaneTurn *turn)
{
	Assert(lane->turn_view == LANE_READY);
	return take_first(pairingheap_container(FairGroup, line.node, lane->turns), entry, turn);
}

/*
 * As turns_lock_home, of a number that was looked up: NULL also if the entry is
 * another group's by now, for that has not been asked for.  The key does not
 * change while the group has a line, and it has that while the lane is locked.
 */
static Lane *
lock_home_of(const GroupKey *key, FairGroup *group)
{
	Lane	   *lane = turns_lock_home(group);

	if (lane == NULL || group_key_equal(&group->key, key))
		return lane;
	LWLockRelease(&lane->lock);
	return NULL;
}

/*
 * What is first in the line of a group, and in which lane it stands: for a
 * claim of one group, which compares it with what the windows have of that
 * group (claim_groups.c).  LANE_EMPTY: it has no line, or no turn; *lane is
 * NULL if it has no line.  Out of date on return, so that what is taken then
 * may be another task.
 */
LaneView
turns_look(const GroupKey *key, uint32 number, Lane **lane, LaneEntry *first)
{
	FairGroup  *group = &group_entries[number];
	LaneView	view = LANE_EMPTY;

	*lane = lock_home_of(key, group);
	if (*lane == NULL)
		return LANE_EMPTY;
	if (group->line.standing)
		view = turns_turn_of(group, first);
	LWLockRelease(&(*lane)->lock);
	return view;
}

/*
 * Take the first task of the line of a group.  Returns whether there is one in
 * memory, and the group may have it; *lane is its home, or NULL.  Where the
 * line is to be read first nothing is taken: the caller has seen that
 * (turns_look).
 */
bool
turns_take_of(const GroupKey *key, uint32 number, LaneEntry *entry, LaneTurn *turn, Lane **lane)
{
	FairGroup  *group = &group_entries[number];
	LaneEntry	first;
	bool		takes = false;

	*lane = lock_home_of(key, group);
	if (*lane == NULL)
		return false;
	/* Of a group that is divided another subgroup may be next. */
	while (!takes && group->line.standing && turns_turn_of(group, &first) == LANE_READY)
		takes = take_first(group, entry, turn);
	LWLockRelease(&(*lane)->lock);
	return takes;
}

/*
 * What the levels of a line were charged for a task goes back: their tags are
 * as much earlier.  Tasks that were charged since keep their tags, so that the
 * group is owed that much, and is served the earlier.  The home lane is locked
 * exclusively.
 *
 * Between subgroups virtual time, and the highest tag, go back too, if no other
 * task has been taken since: or the next newcomer would begin after a task that
 * was never served.
 */
static void
uncharge(FairGroup *group, const LaneTurn *turn)
{
	const VirtualTime *charge = turn->charges;

	FOR_LEVELS(level, group)
	{
		PackedTime *tag = turn->parked ? &level->line.resumed : &level->line.next;
		VirtualTime finish = virtual_time_unpack(*tag);
		VirtualTime start = virtual_time_moved(finish, *charge++, turns_no_charge);
		GroupLine  *above;

		*tag = virtual_time_pack(start);
		if (turn->parked || group_above(level) == NULL)
			continue;
		/* If it was the last one virtual time has not come to it after all. */
		above = &group_above(level)->line;
		if (virtual_time_compare(virtual_time_unpack(above->last), finish) == 0)
			above->last = virtual_time_pack(turn->last);
		if (virtual_time_compare(virtual_time_unpack(above->time), start) == 0)
			above->time = virtual_time_pack(turn->time);
	}
}

/* Was any level charged for a task that was taken? */
static inline bool
is_charged(const LaneTurn *turn)
{
	return virtual_time_compare(turn->charges[0], turns_no_charge) != 0 ||
		virtual_time_compare(turn->charges[1], turns_no_charge) != 0;
}

/*
 * A task of the overflow that was taken comes back, from a lane.  tell: those
 * who wait for tasks.  The caller gives back the room that was kept for it,
 * after this, so that whoever that lets go on finds the task.  Never fails.
 *
 * What was charged for it just now is given back, and it is charged when it is
 * taken again; one that was leased meanwhile keeps its tag (*turn has no
 * charges then).  It has its place in the line again, or, from the frontier on,
 * is found in the index.  If its group has no line any more, or the entry is of
 * a group that is divided by now, it is not known whose it is: then a pass
 * reads the overflow of its class.
 *
 * Takes the home lane's lock, or that of the order's spinlock; then those of
 * waiters.
 */
void
turns_return(Lane *lane, const LaneEntry *entry, const LaneTurn *turn, bool tell)
{
	FairGroup  *group = turn->group == FAIRQ_NO_GROUP ? NULL : &group_entries[turn->group];
	Lane	   *home = group == NULL ? NULL : turns_lock_home(group);

	Assert(lanes_entry_is_turn(entry) && !lanes_entry_is_parked(entry));
	if (home == NULL || group->divided)
	{
		/* It has no line any more: a pass has the overflow read. */
		if (home != NULL)
			LWLockRelease(&home->lock);
		queue_order_overflow_lost(queue_state_by_number(lane->queue), lane->class,
								  lanes_entry_task(entry));
		return;
	}
	if (is_charged(turn))
		uncharge(group, turn);
	turn_candidates_put_back(&group->line, lanes_entry_task(entry), entry, turn->cost,
							 !is_charged(turn));
	turns_take_place(group);
	LWLockRelease(&home->lock);
	if (tell)
		waiters_offered(home->queue, WAITERS_ANY_BUCKET, WAITERS_ANY_GROUP);
}

/*
 * A task that was taken has led nowhere, or goes back to its window: its group
 * was charged in vain, and is not.  The caller gives back the room that was
 * kept for it.  Without effect if nothing was charged, or the group has no line
 * any more: its tags go with that.  Takes the home lane's lock.  Never fails.
 */
void
turns_refund(const LaneTurn *turn)
{
	FairGroup  *group = &group_entries[turn->group];
	Lane	   *home = is_charged(turn) ? turns_lock_home(group) : NULL;

	if (home == NULL)
		return;
	uncharge(group, turn);
	turns_take_place(group);
	LWLockRelease(&home->lock);
}
