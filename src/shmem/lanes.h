/*-------------------------------------------------------------------------
 *
 * lanes.h
 *	  Lanes: how far each part of a queue has been claimed.
 *
 * lanes.c says what a lane is, and has what is done to its window and its
 * frontier; lane_run.h has the window as an array.  lane_table.c says which
 * lanes there are, and lane_doubts.c has the rows of transactions that do not
 * hand them over.  turns.c keeps the turns of groups in a lane, which takes
 * merge with the window.
 *
 * A lane is locked with lane->lock, by one of these functions.  A pointer to
 * one is good for as long as the queue stays: by a lock on its relation, or on
 * all queues.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LANES_H
#define FAIRQ_LANES_H

#include "lib/pairingheap.h"
#include "storage/condition_variable.h"
#include "storage/itemptr.h"
#include "storage/lwlock.h"

#include "common/address.h"
#include "common/contracts.h"
#include "common/virtual_time.h"
#include "shmem/limit_table.h"

/*
 * Entries in the window of a lane.  Tests build with a few, so that windows
 * overflow and are refilled all the time.
 */
#ifndef LANE_WINDOW
#define LANE_WINDOW		512
#endif

/* A window that holds less than this is refilled in passing. */
#define LANE_LOW_WATER	(LANE_WINDOW / 8)

/*
 * A task's place in a lane, and where its row was seen.  Bucket and class are
 * the lane's.  Places are ordered by address and then TID, as in the B-tree.
 * Claims hold hundreds of these, and windows 512: so it is of 32 bytes.
 *
 * What is taken out of a group's line (turns.c) is in no window.  It is an
 * entry as well: of a task of the overflow, whose row has no address, it says
 * which task that is, and has its tag and its group's slot for a place; of one
 * that was parked it has the address.  The accessors below tell them apart:
 *
 *	 turn_high 0: of the index, slot is the address's;
 *	 turn_high LANE_PARKED: as that, taken out of a line;
 *	 turn_high from LANE_TURN on: slot is the task's id, and the group's slot
 *	 is in the bits of turn_high below that, and in turn_low.
 *
 * The TID is a hint in all of them.  One of block 0 and offset 0 comes before
 * all rows of its address, and the highest one after all.
 */
typedef struct LaneEntry
{
	int64		block;
	uint64		slot;			/* of a turn: the task's id */
	uint32		fraction;
	ItemPointerData tid;
	uint16		turn_high;		/* 0; LANE_PARKED; or LANE_TURN and the slot, */
	uint32		turn_low;		/* in 46 bits, of a turn */
} LaneEntry;

/* Of what was taken out of a line: it was parked, or is of the overflow. */
#define LANE_PARKED		PG_UINT16_MAX
#define LANE_TURN		0x8000
#define LANE_TURN_SLOT	0x3FFF

/*
 * Where what is taken goes.  Both arrays have room for as many as are asked
 * for; turns[i] is set if entries[i] was taken out of a line, and only then.
 */
typedef struct LaneRoom
{
	LaneEntry  *entries;
	struct LaneTurn *turns;
} LaneRoom;

/*
 * Of a turn that was taken: whose, and what the group was charged for it;
 * nothing if it keeps the tag of a time before.  It is private to the backend
 * that took it.  Who leases the task, or gives its room up, sets the limits to
 * NO_LIMIT, so that room is given up once (claim_hand_give_up).
 *
 * charges are differences, in the order of FOR_LEVELS, and 0 of a level that
 * there is not.  time and last are set where a subgroup was charged: what its
 * group had before (uncharge).  tag is where the turn stood between groups.
 */
typedef struct LaneTurn
{
	uint32		group;
	uint32		limits[LIMIT_LEVELS];	/* that keep room for it, or NO_LIMIT */
	int			lane;			/* of one that was parked: its number */
	bool		parked;
	float4		cost;			/* of the task */
	VirtualTime tag;
	VirtualTime charges[LIMIT_LEVELS];	/* by the weight of each level */
	VirtualTime time;			/* between subgroups, before it, and the
								 * highest tag */
	VirtualTime last;
} LaneTurn;

/*
 * A row in the hands of a transaction that does not hand it over when it ends:
 * a prepared one, or a user's statement that may fail before its triggers are
 * fired.  So the lane remembers it, and looks again when that has ended (race
 * 13).  A lane has at most one doubt for each transaction, at the first place.
 */
#define LANE_DOUBTS		8

/* How often to look whether it has, in microseconds. */
#define LANE_DOUBT_USECS	INT64CONST(250000)

/*
 * A doubt is guarded by the lock of its lane.  No two doubts of a lane are of
 * one transaction.  Of those without one it is not known whose rows they are:
 * they are resolved at each look, and are not counted.
 */
typedef struct LaneDoubt
{
	TransactionId xid;			/* invalid: not known, or no room for another */
	bool		counted;		/* it was prepared, and what it does counts */
	LaneEntry	place;			/* the index is read again from here on */
	int64		task;			/* and the overflow from this one; or 0 */
} LaneDoubt;

/*
 * A sorted run of entries in an array with room at both ends.  No two of its
 * entries are of one place, and 0 <= head, head + count <= the array's size.
 * An empty run that lane_run_taken has left begins at 0.
 */
typedef struct LaneRun
{
	int			head;			/* it is at head .. head + count - 1 */
	int			count;
} LaneRun;

/*
 * A lane.  queue, bucket and class are set before any backend can find it, and
 * do not change while it is in use.  in_use is guarded by the directory lock
 * of lane_table.c.  lock guards all other fields.
 *
 * A process holds the lock of one lane at a time.  It takes that after the
 * locks of queues and groups, and before those of limits, tokens, candidates
 * and waiters.
 *
 * While no backend has the lock exclusively (lane_check):
 *
 *	 The window is in order.  It ends before the frontier, or at the frontier's
 *	 own address; but for what came while a refill is under way, and if the
 *	 lane is complete.
 *	 A lane that is being refilled is not complete, and refilling is set by one
 *	 backend, which ends that: in lanes_refill_end or lanes_at_abort.
 *	 was_cut and cut_at say something during a refill only.
 *	 turn_view and turn say where the first of turns stands: turn_view is
 *	 LANE_EMPTY if there is none, else LANE_READY, LANE_UNREAD or
 *	 LANE_REFILLING.
 *	 taking is false.
 *
 * Claimers read window, turn_view, turn and the flags without the lock, too:
 * lanes_look says why that is harmless.
 */
typedef struct Lane
{
	LWLock		lock;

	bool		in_use;			/* directory lock of lane_table.c */
	bool		complete;		/* the window has all there is: the frontier
								 * is infinitely far */
	bool		refilling;		/* the index is being read at the frontier */
	bool		was_cut;		/* meanwhile entries from cut_at on were let
								 * go */
	bool		taking;			/* locked by a claimer; read without lock */
	int			queue;			/* number of its state */
	uint16		bucket;
	uint8		class;
	LaneRun		window;			/* of entries[]: what the index has */
	LaneEntry	frontier;		/* what lies before is in the window */
	LaneEntry	cut_at;			/* of a refill that was cut: the first place
								 * that was let go */
	ConditionVariable refilled; /* a refill has ended, or the reading of a
								 * line; broadcast without the lock */
	int			doubt_count;
	LaneDoubt	doubts[LANE_DOUBTS];

	/* turns.c: the groups that have a turn, and a copy of the first one */
	pairingheap_node *turns;	/* of GroupLine */
	int			turn_view;		/* a LaneView; LANE_EMPTY: there is none */
	LaneEntry	turn;			/* set if there is one */

	LaneEntry	entries[LANE_WINDOW];	/* what of it window says is set */
} Lane;

#define AssertLaneLocked(lane)	AssertLocked(&(lane)->lock)
#define AssertLaneLockedExclusively(lane) AssertLockedExclusively(&(lane)->lock)

/* What is next in a lane, as far as can be seen without its lock. */
typedef enum LaneView
{
	LANE_EMPTY,					/* nothing there */
	LANE_READY,					/* first is the next entry, or turn */
	LANE_UNREAD,				/* nothing before first; read the index */
	LANE_REFILLING,				/* as LANE_UNREAD, but a backend is reading */
	LANE_LOCKED					/* a claimer's note: it was locked */
} LaneView;

/*
 * What a look at a lane has found: the caller's own copy.  first is set unless
 * view is LANE_EMPTY or LANE_LOCKED: of a lane that is unread it is the place
 * from where on the index is read, or that of the turn whose line is.  Nothing
 * comes before it in the lane, as far as the look could see.
 */
typedef struct LaneTop
{
	LaneView	view;
	bool		turn;			/* first is a turn: what is unread is its line */
	bool		low;			/* of lanes_take: the window should be
								 * refilled in passing */
	LaneEntry	first;
} LaneTop;

/*
 * The lanes of one order, by bucket.  Once a bucket has its lane it keeps it,
 * and so does high what it has reached, until the whole set is given back: so
 * both are read without a lock.  Who adds lanes holds the queue's lock.  Who
 * reads has the queue stay, by a lock on its relation or that of all queues.
 *
 * Each number that is not 0 is of a lane that is in use and set up, of this
 * queue and class, and of that bucket.  Buckets below high may have none.
 */
typedef struct LaneSet
{
	int			queue;			/* number of its state */
	int			class;
	int			high;			/* buckets from here on have none */
	int			lanes[FAIRQ_MAX_BUCKETS];	/* number of the lane, plus one;
											 * 0: none */
} LaneSet;

/* lane_table.c */
extern Lane *lanes_get(int number);

/*
 * Tasks come back, or become claimable.  These lock the lane themselves, so the
 * caller holds no lock of a lane, nor one that is taken after that; they tell
 * those who wait (but for lanes_return_entry), and never fail.
 */
extern void lanes_offer_of_group(Lane *lane, const LaneEntry *place, uint16 group);
extern void lanes_return_entry(Lane *lane, const LaneEntry *place);
extern void lanes_lower(Lane *lane, const FairqAddress *address);

/* For claimers, and for who looks.  But for lanes_look these take the lock. */
extern bool lanes_has(Lane *lane, const FairqAddress *address);
extern FAIRQ_PRIVATE void lanes_look(const Lane *lane, LaneTop *top);
extern void lanes_look_locked(Lane *lane, LaneTop *top);
extern void lanes_look_turns(Lane *lane, LaneTop *top);
extern int	lanes_take(Lane *lane, int max, const LaneEntry *upto,
					   const LaneRoom *room, LaneTop *top, bool nowait);
extern int	lanes_take_turns(Lane *lane, int max, const LaneEntry *upto,
							 const LaneRoom *room, LaneTop *top);
extern int	lanes_copy_window(Lane *lane, LaneEntry *entries,
							  FairqAddress *frontier, bool *complete);

/* For lane_doubts.c, which has the lane locked. */
extern void lanes_cut(Lane *lane, const LaneEntry *place);

/*
 * To read the index into the window: one backend at a time, between begin and
 * end, without a lock of ours.  lanes_refill_wait sleeps, and may be
 * interrupted; the others never fail.
 */
extern bool lanes_refill_begin(Lane *lane, LaneEntry *from, int *room);
extern void lanes_refill_end(Lane *lane, const LaneEntry *entries, int n,
							 const LaneEntry *next);
extern void lanes_refill_wait(Lane *lane);
extern void lanes_at_abort(void);

/*
 * The lane of a bucket, or NULL if it has none.  Without a lock: see LaneSet
 * for what keeps it.  A number that is seen here is of a lane that is set up,
 * for it is written after that (set_up_lane).
 */
static inline Lane *
lanes_of(const LaneSet *set, int bucket)
{
	int			number = ((volatile const LaneSet *) set)->lanes[bucket];

	Assert(bucket >= 0 && bucket < FAIRQ_MAX_BUCKETS);
	return number > 0 ? lanes_get(number - 1) : NULL;
}

/*
 * Is there any lane in a set?  Without a lock; once there is one it stays.
 */
static inline bool
lanes_any(const LaneSet *set)
{
	return ((volatile const LaneSet *) set)->high > 0;
}

/*
 * The first lane from a bucket on, which is set to its own; NULL: none.  One
 * that is added meanwhile may be passed over.
 */
static inline Lane *
lanes_next(const LaneSet *set, int *bucket)
{
	int			high = ((volatile const LaneSet *) set)->high;

	Assert(*bucket >= 0);
	/* What is below that is there: see set_up_lane. */
	pg_read_barrier();
	for (; *bucket < high; (*bucket)++)
	{
		Lane	   *lane = lanes_of(set, *bucket);

		if (lane != NULL)
			return lane;
	}
	return NULL;
}

/* How many entries of a lane are in memory, without the lock: for who looks. */
static inline int
lanes_count(const Lane *lane)
{
	return ((volatile const Lane *) lane)->window.count;
}

/* Has any group its turn there?  Likewise. */
static inline bool
lanes_have_turns(const Lane *lane)
{
	return ((volatile const Lane *) lane)->turn_view != LANE_EMPTY;
}

/*
 * Was an entry taken out of a group's line?  Then a LaneTurn goes with it, and
 * it never comes into a window as it is.
 */
static inline bool
lanes_entry_is_turn(const LaneEntry *entry)
{
	return unlikely(entry->turn_high != 0);
}

/* Was it parked there, and its row has an address? */
static inline bool
lanes_entry_is_parked(const LaneEntry *entry)
{
	return unlikely(entry->turn_high == LANE_PARKED);
}

/*
 * Its slot, by which entries of one tag are told apart: of a turn the slot of
 * its group, of which 46 bits are kept.
 */
static inline uint64
lanes_entry_slot(const LaneEntry *entry)
{
	return likely(!lanes_entry_is_turn(entry)) || entry->turn_high == LANE_PARKED ?
		entry->slot :
		((uint64) (entry->turn_high & LANE_TURN_SLOT) << 32) | entry->turn_low;
}

/*
 * Which task of the overflow an entry is of; 0: its row has an address.
 */
static inline int64
lanes_entry_task(const LaneEntry *entry)
{
	return lanes_entry_is_turn(entry) && entry->turn_high != LANE_PARKED ?
		(int64) entry->slot : 0;
}

/*
 * The order of places: by tag, slot and TID, as the index on address has them.
 * Two tasks of the overflow with one tag and slot go by their ids.  Both are of
 * one lane.  Called for each step of a search in a window: so the common case,
 * two entries of the index, is decided by three words.
 */
static inline int
lanes_compare(const LaneEntry *a, const LaneEntry *b)
{
	if (a->block != b->block)
		return (a->block < b->block) ? -1 : 1;
	if (a->fraction != b->fraction)
		return (a->fraction < b->fraction) ? -1 : 1;
	if (likely((a->turn_high | b->turn_high) == 0))
	{
		if (a->slot != b->slot)
			return (a->slot < b->slot) ? -1 : 1;
	}
	else if (lanes_entry_slot(a) != lanes_entry_slot(b))
		return (lanes_entry_slot(a) < lanes_entry_slot(b)) ? -1 : 1;
	else if (lanes_entry_task(a) != 0 && lanes_entry_task(b) != 0)
		return (lanes_entry_task(a) > lanes_entry_task(b)) -
			(lanes_entry_task(a) < lanes_entry_task(b));
	return ItemPointerCompare(unconstify(ItemPointerData *, &a->tid),
							  unconstify(ItemPointerData *, &b->tid));
}

/*
 * Might there be something in a lane before place?  Without the lock, and at
 * less cost than lanes_look: by blocks alone, of which equal ones count as
 * before.  A claim asks this of each lane for each lot that it takes (race 6),
 * and looks closer if the answer is yes; a no may be wrong for a moment only,
 * as lanes_look has it.
 */
static inline bool
lanes_may_precede(const Lane *lane, const LaneEntry *place)
{
	int			head = ((volatile const Lane *) lane)->window.head;

	return (((volatile const Lane *) lane)->window.count > 0 && head < LANE_WINDOW &&
			lane->entries[head].block <= place->block) ||
		unlikely(((volatile const Lane *) lane)->turn_view == LANE_READY);
}

/*
 * The smallest place: the frontier of a lane of which nothing is known.  And
 * one after all others: no index has to be read from there on.
 */
static const LaneEntry lane_entry_first = {.block = PG_INT64_MIN};
static const LaneEntry lane_entry_last = {
	.block = PG_INT64_MAX,
	.slot = PG_UINT64_MAX,
	.fraction = PG_UINT32_MAX,
};

/* The place of an address, and of a row that was seen at tid. */
static inline void
lanes_entry(LaneEntry *entry, const FairqAddress *address,
			const ItemPointerData *tid)
{
	*entry = (LaneEntry) {
		.block = address->block,
		.slot = address->slot,
		.fraction = address->fraction,
		.tid = *tid,
	};
}

/*
 * An entry is a turn from now on: of a task of the overflow, or, where a group
 * stands, of none yet (0).  The caller sets its tag and TID.
 */
static inline void
lanes_entry_set_turn(LaneEntry *entry, int64 task, uint64 slot)
{
	entry->slot = (uint64) task;
	entry->turn_low = (uint32) slot;
	entry->turn_high = LANE_TURN | ((uint16) (slot >> 32) & LANE_TURN_SLOT);
}

/*
 * The start tag of an entry, in queues that have tags.  In the others it is a
 * number by which tasks are in order, and no time.
 */
static inline VirtualTime
lanes_entry_tag(const LaneEntry *entry)
{
	VirtualTime tag = {entry->block, entry->fraction};

	return tag;
}

/*
 * The address of an entry of a lane.  Of one of the overflow, whose row has no
 * address, it is made up of its tag and its group's slot.
 */
static inline void
lanes_entry_address(const Lane *lane, const LaneEntry *entry,
					FairqAddress *address)
{
	Assert(lane->class < FAIRQ_CLASSES && lane->bucket < FAIRQ_MAX_BUCKETS);
	address->block = entry->block;
	address->slot = lanes_entry_slot(entry);
	address->fraction = entry->fraction;
	address->bucket = lane->bucket;
	address->class = lane->class;
	address->unused = 0;
}

/* lane_table.c */
extern Size lane_table_shmem_size(void);
extern void lane_table_shmem_init(void *area, bool found);

extern bool lane_table_set_up(LaneSet *const *sets, int n, int buckets, int other,
							  int *missing);
extern void lane_table_give_back(LaneSet *set);

/* lane_doubts.c */
extern void lane_doubts_add(Lane *lane, TransactionId xid, const LaneEntry *place,
							bool counted);
extern bool lane_doubts_add_transaction(const LaneSet *set, TransactionId xid);
extern int	lane_doubts_copy(Lane *lane, LaneDoubt *doubts);
extern void lane_doubts_resolve(Lane *lane, const LaneDoubt *doubt);

/* lane_check.c */
#ifdef USE_ASSERT_CHECKING
extern void lane_check(const Lane *lane);
#else
#define lane_check(lane)	((void) 0)
#endif

#endif							/* FAIRQ_LANES_H */
