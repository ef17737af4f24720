/*-------------------------------------------------------------------------
 *
 * turn_private.h
 *	  Lines, for the files that work on them: turns.c, turn_candidates.c,
 *	  turn_lines.c and turn_reads.c.
 *
 * The head of turns.c says which lock guards what.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TURN_PRIVATE_H
#define FAIRQ_TURN_PRIVATE_H

#include "shmem/group_private.h"
#include "shmem/turns.h"

/* Candidates that a line reads at first; twice as many each time that it was
 * found empty. */
#define TURNS_READ_LEAST	16

/*
 * Where a line has its turn: in its heap, and its group in the lane.  Taken
 * before a line is changed, and compared after that, under one lock: if it is
 * the same neither heap has to be touched (turns_take_place_if_moved).  tag is
 * that of the line's group, above that of what stands in the lane: of a group
 * that is no subgroup's both are the same.
 */
typedef struct TurnPlace
{
	bool		kept;			/* its first task has a tag of its own */
	VirtualTime tag;
	VirtualTime above;
} TurnPlace;

/* The charge of what was not charged: a difference of tags, not a tag. */
static const VirtualTime turns_no_charge = {0, 0};

/*
 * turn_candidates.c.  The caller of a function that takes a line holds the lock
 * of the line's home lane exclusively, and sees to the line's place afterwards,
 * before it releases that (turns_take_place).  The others take a spinlock at
 * most.
 */
extern FAIRQ_PRIVATE TurnCandidate *turn_candidates;

extern FAIRQ_PRIVATE uint32 turn_candidates_new(void);
extern FAIRQ_PRIVATE void turn_candidates_free(uint32 number);
extern FAIRQ_PRIVATE bool turn_candidates_are_few(void);
extern FAIRQ_PRIVATE void turn_candidates_add(GroupLine *line, uint32 number, uint32 after);
extern FAIRQ_PRIVATE void turn_candidates_remove(GroupLine *line, uint32 number);
extern FAIRQ_PRIVATE bool turn_candidates_park(GroupLine *line, const Lane *lane,
											   const LaneEntry *entry, float4 cost,
											   bool *room);
extern FAIRQ_PRIVATE void turn_candidates_entry(const TurnCandidate *candidate, uint64 slot,
												LaneEntry *entry);
extern FAIRQ_PRIVATE void turn_candidates_cut(GroupLine *line, int64 task);
extern FAIRQ_PRIVATE void turn_candidates_let_go(GroupLine *line);
extern FAIRQ_PRIVATE void turn_candidates_put_back(GroupLine *line, int64 task,
												   const LaneEntry *entry, float4 cost,
												   bool charged);

/*
 * turn_lines.c: with the home lane's lock held exclusively, and not necessarily
 * that of the group's partition
 */
extern FAIRQ_PRIVATE void turn_lines_count_parked(FairGroup *group, int n);
extern FAIRQ_PRIVATE bool turn_lines_block(FairGroup *group);

/*
 * turns.c.  turns_lock_home takes the home lane's lock.  The caller of all
 * others holds it: in shared mode at least for turns_next_line,
 * turns_first_has_tag, turns_tag and turns_turn_of, which only look, and else
 * exclusively.  turns_tag_of_kept needs it for the group.  None fails.
 */
extern FAIRQ_PRIVATE Lane *turns_lock_home(FairGroup *group);
extern FAIRQ_PRIVATE FairGroup *turns_next_line(FairGroup *group);
extern FAIRQ_PRIVATE bool turns_first_has_tag(const FairGroup *group, VirtualTime *tag);
extern FAIRQ_PRIVATE VirtualTime turns_tag(const FairGroup *group);
extern FAIRQ_PRIVATE VirtualTime turns_time_of(const FairGroup *group);
extern FAIRQ_PRIVATE void turns_take_place(FairGroup *group);
extern FAIRQ_PRIVATE void turns_take_place_if_moved(FairGroup *group, const TurnPlace *before);
extern FAIRQ_PRIVATE void turns_show_first(Lane *lane);
extern FAIRQ_PRIVATE VirtualTime turns_tag_of_kept(const FairGroup *whole, bool parked,
												   VirtualTime tag);
extern FAIRQ_PRIVATE LaneView turns_turn_of(FairGroup *group, LaneEntry *turn);

/* turn_takes.c: with the home lane's lock held exclusively */
extern FAIRQ_PRIVATE bool turns_take_candidate(FairGroup *group, const TurnCandidate *candidate,
											   bool more, LaneEntry *entry, LaneTurn *turn);

/*
 * Where a line has its turn now, if it has one; of one without, the tags it
 * would have.  The home lane is locked.
 */
static inline TurnPlace
turns_place(FairGroup *group)
{
	TurnPlace	place;

	place.kept = turns_first_has_tag(group, &place.tag);
	place.tag = turns_tag(group);
	place.above = turns_tag(group_whole(group));
	return place;
}

/*
 * The home lane of a group that has a line, which stays while the caller has
 * that lane locked, or the group's partition, or is reading the line.
 */
static inline Lane *
turns_home(const FairGroup *group)
{
	return lanes_get(group->line.lane - 1);
}

#define AssertLineLocked(group)	AssertLaneLockedExclusively(turns_home(group))

/* As AssertLineLocked, of a line alone: it is always that of a group. */
#define AssertLockedOfLine(line) \
	AssertLineLocked((const FairGroup *) ((const char *) (line) - offsetof(FairGroup, line)))

/*
 * The first candidate of the overflow; NO_ENTRY: there is none.  This and the
 * next two are not for a group that is divided, which has no candidates.
 *
 * Here, and in all below that take a line or a group, the caller holds the lock
 * of the home lane, in shared mode at least; turns_have_tags needs no lock.
 */
static inline uint32
turns_first_of_overflow(const GroupLine *line)
{
	return line->last_parked == NO_ENTRY ? line->head : turn_candidates[line->last_parked].next;
}

/*
 * Is there any of the overflow in a line, as far as is known?  One that is
 * being read has, for what is read may come; so it does not end meanwhile.
 */
static inline bool
turns_has_overflow(const GroupLine *line)
{
	return line->frontier != PG_INT64_MAX || line->reading ||
		turns_first_of_overflow(line) != NO_ENTRY;
}

/*
 * Is the index to be read for what comes next of a line?  Not while there is a
 * candidate, parked or not, nor where all was read.
 */
static inline bool
turns_is_unread(const GroupLine *line)
{
	return line->head == NO_ENTRY && line->frontier != PG_INT64_MAX;
}

/*
 * Has a group anything in its line, or a subgroup that may have it?  Also what
 * is not in memory, and what was dropped, as far as is known.
 */
static inline bool
turns_has_any(const FairGroup *group)
{
	const GroupLine *line = &group->line;

	if (unlikely(group->divided))
		return line->subgroups != NULL;
	return line->head != NO_ENTRY || line->frontier != PG_INT64_MAX || line->dropped;
}

/*
 * The tag of the first task of the overflow that was not charged: where those
 * before have got to, but not before the group could go on.
 */
static inline VirtualTime
turns_next(const GroupLine *line)
{
	return virtual_time_max(virtual_time_unpack(line->next), virtual_time_unpack(line->resumed));
}

/*
 * Has the policy of a queue tags?  The others have addresses only, and one
 * class.  Needs no lock: a group does not change its queue.
 */
static inline bool
turns_have_tags(const FairGroup *group)
{
	return queue_state_by_number(group->key.queue)->classes > 1;
}

#endif							/* FAIRQ_TURN_PRIVATE_H */
