/*-------------------------------------------------------------------------
 *
 * turn_candidates.c
 *	  The tasks of lines that are in memory.
 *
 * A line's candidates are linked: first those that are parked, in the order of
 * their addresses, then those of the overflow that keep a tag, and then its
 * others, both in the order of their ids.  They are from one pool.  A line that
 * finds that used up is cut, and read again from there.  What is parked may
 * take three quarters of the pool: what is beyond is dropped, and the lanes are
 * read again from there when it comes to it.
 *
 * Those that are parked are found by their addresses, too, through chains: so
 * who reads the index of a lane again leaves out what is parked, and nothing is
 * parked twice.  Without that each claim behind a window that was full would
 * meet all that is parked there once more.
 *
 * Candidates are hints.  One whose row is gone is found out by who takes it,
 * and a line that is cut loses nothing that the index does not have: what is
 * parked has its address there, and the overflow its id.
 *
 * Locking: the lock of a line's home lane guards its list, a spinlock the pool,
 * and others the chains; what a chain's entries say of themselves does not
 * change while they are in it.  Spinlocks are taken one at a time, and last.
 * Nothing in here fails: where the pool is used up the line is cut.
 *
 * Race 11 (a task becomes claimable where its line has been read already):
 * whatever takes a task out of a line that is being read, or brings one that
 * the line does not take, says so in line->lowered.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/spin.h"

#include "common/settings.h"
#include "shmem/turn_private.h"

/* Candidates in the pool, for each lane that there may be. */
#define CANDIDATES_PER_LANE	64

#define CHAIN_LOCKS		64

/*
 * The pool.  A candidate is free, in one line, or in the hands of the backend
 * that has taken it out of the pool and not linked it yet.  used is how many
 * are not free; it is read without the lock, where it may be a little off:
 * whoever takes one finds out whether there is one.  Locks of chains are not
 * held while that of the pool is, nor the other way round.
 */
typedef struct CandidatePool
{
	slock_t		mutex;			/* guards the next two */
	FreeEntries free;
	uint32		used;
	slock_t		chain_locks[CHAIN_LOCKS];	/* each guards the chains of its
											 * number, modulo CHAIN_LOCKS */
} CandidatePool;

static CandidatePool *pool = NULL;
static uint32 *chains = NULL;
static uint32 chain_mask;
TurnCandidate *turn_candidates = NULL;

#define POOL_SIZE		((uint32) settings_max_lanes * CANDIDATES_PER_LANE)

/*
 * The memory of the pool, by pgfairq.max_lanes: lines of any lane share it
 * (invariant I10).
 */
Size
turns_shmem_size(void)
{
	return fixed_table_size(sizeof(CandidatePool), POOL_SIZE, sizeof(TurnCandidate));
}

/*
 * Set up the pool, in which all candidates are free, and the chains, which are
 * empty, or find them (found).
 */
void
turns_shmem_init(void *area, bool found)
{
	pool = area;
	turn_candidates = fixed_table_init(area, sizeof(CandidatePool), POOL_SIZE, found, &chains,
									   &chain_mask);
	if (found)
		return;
	SpinLockInit(&pool->mutex);
	pool->free = all_entries_free;
	pool->used = 0;
	for (int i = 0; i < CHAIN_LOCKS; i++)
		SpinLockInit(&pool->chain_locks[i]);
}

/* ----------------------------------------------------------------
 * Chains
 * ----------------------------------------------------------------
 */

/*
 * The chain of what is parked with a place in a lane, by all but its TID: rows
 * of one address are in one chain.  Hashed well, for addresses that are parked
 * follow each other.
 */
static uint32
chain_of(int lane, VirtualTime tag, uint64 slot)
{
	uint64		hash = hash_combine64(hash_combine64((uint64) tag.whole, slot),
									  ((uint64) tag.fraction << 32) | (uint32) lane);

	return murmurhash32((uint32) (hash ^ hash >> 32)) & chain_mask;
}

/*
 * Is a candidate in a chain that of an entry of a lane?  The chain's spinlock
 * is held.
 */
static inline bool
is_at(const TurnCandidate *candidate, int lane, const LaneEntry *entry)
{
	return virtual_time_compare(virtual_time_unpack(candidate->tag),
								lanes_entry_tag(entry)) == 0 &&
		(uint64) candidate->task == entry->slot && candidate->lane == lane &&
		candidate->tid.ip_posid == entry->tid.ip_posid &&
		BlockIdEquals(&candidate->tid.ip_blkid, &entry->tid.ip_blkid);
}

/*
 * Is an entry of a lane parked?  By its row's position, too: SQL may give two
 * rows one address.  In whose line it would be is not known here, so no lock of
 * a lane is needed; without that of its home lane it may be parked, or not any
 * more, by the time that the caller goes on.
 */
static bool
is_parked(int lane, const LaneEntry *entry)
{
	uint32		chain = chain_of(lane, lanes_entry_tag(entry), entry->slot);
	slock_t    *lock = &pool->chain_locks[chain % CHAIN_LOCKS];
	uint32		number;

	SpinLockAcquire(lock);
	number = chains[chain];
	while (number != NO_ENTRY && !is_at(&turn_candidates[number], lane, entry))
		number = turn_candidates[number].chain;
	SpinLockRelease(lock);
	return number != NO_ENTRY;
}

/*
 * A candidate is parked, or not any more.  The caller has the home lane of its
 * line locked exclusively, and has set what it is found by, which stays until
 * it leaves its chain.  Takes the spinlock of the chain, which guards its
 * links: they are changed by lines of all lanes.
 */
static void
change_chain(uint32 number, bool add)
{
	TurnCandidate *candidate = &turn_candidates[number];
	uint32		chain = chain_of(candidate->lane, virtual_time_unpack(candidate->tag),
								 (uint64) candidate->task);
	slock_t    *lock = &pool->chain_locks[chain % CHAIN_LOCKS];
	uint32	   *link = &chains[chain];

	SpinLockAcquire(lock);
	if (add)
	{
		candidate->chain = *link;
		*link = number;
	}
	else
	{
		while (*link != number)
			link = &turn_candidates[*link].chain;
		*link = candidate->chain;
	}
	SpinLockRelease(lock);
}

/*
 * Leave out those of n entries that were read in the index of a lane which are
 * parked.  Returns how many are left.  Whatever was parked comes back to the
 * lane by name, which its reader hears of: so it may leave this lane's reading.
 *
 * To be called between lanes_refill_begin() and lanes_refill_end(), for that:
 * what leaves its line after this look is offered, or the lane lowered, while
 * the refill is under way.
 */
int
turns_not_parked(const Lane *lane, LaneEntry *entries, int n)
{
	int			number = lane - lanes_get(0);
	int			left = 0;

	for (int i = 0; i < n; i++)
	{
		if (!is_parked(number, &entries[i]))
			entries[left++] = entries[i];
	}
	return left;
}

/* ----------------------------------------------------------------
 * The pool, and the list of a line
 * ----------------------------------------------------------------
 */

/*
 * A candidate out of the pool, nothing of which is set; NO_ENTRY: there is no
 * room.  The caller adds it to a line whose home lane it has locked, or gives
 * it back, before it lets that go: nothing else knows of it.  Takes the pool's
 * spinlock.
 */
uint32
turn_candidates_new(void)
{
	uint32		number;

	SpinLockAcquire(&pool->mutex);
	number = free_entries_take(&pool->free, POOL_SIZE, turn_candidates, next);
	pool->used += (number != NO_ENTRY);
	SpinLockRelease(&pool->mutex);
	return number;
}

/*
 * Back into the pool with a candidate that is in no line, and in no chain, any
 * more.  Takes the pool's spinlock.
 */
void
turn_candidates_free(uint32 number)
{
	SpinLockAcquire(&pool->mutex);
	free_entries_give(&pool->free, number, &turn_candidates[number].next);
	pool->used--;
	SpinLockRelease(&pool->mutex);
}

/*
 * Is the pool more than half full?  A hint, without the lock.  Then lines read
 * few at a time, nothing is read ahead, and those that are blocked keep none of
 * the overflow: so lines that are served have candidates.
 */
bool
turn_candidates_are_few(void)
{
	return ((volatile CandidatePool *) pool)->used > POOL_SIZE / 2;
}

/*
 * Link a candidate into a line, after another one; NO_ENTRY: as the first.  The
 * caller has the home lane locked exclusively, has found where it belongs, and
 * sees to last_parked if it is parked, and then to the line's place.
 */
void
turn_candidates_add(GroupLine *line, uint32 number, uint32 after)
{
	TurnCandidate *candidate = &turn_candidates[number];

	AssertLockedOfLine(line);
	candidate->prev = after;
	candidate->next = after == NO_ENTRY ? line->head : turn_candidates[after].next;
	if (after == NO_ENTRY)
		line->head = number;
	else
		turn_candidates[after].next = number;
	if (candidate->next == NO_ENTRY)
		line->tail = number;
	else
		turn_candidates[candidate->next].prev = number;
}

/*
 * Take a candidate out of its line, and of its chain if it is parked, and free
 * it: it has been taken, or is let go.  The caller holds the home lane's lock
 * exclusively, and sees to the counts of what is parked, and to the line's
 * place.  Takes the spinlocks of the chain and of the pool, one after the
 * other.
 */
void
turn_candidates_remove(GroupLine *line, uint32 number)
{
	const TurnCandidate *candidate = &turn_candidates[number];

	AssertLockedOfLine(line);
	if (candidate->prev == NO_ENTRY)
		line->head = candidate->next;
	else
		turn_candidates[candidate->prev].next = candidate->next;
	if (candidate->next == NO_ENTRY)
		line->tail = candidate->prev;
	else
		turn_candidates[candidate->next].prev = candidate->prev;
	if (candidate->parked)
		change_chain(number, false);
	if (number == line->last_parked)
		line->last_parked = candidate->prev;
	turn_candidates_free(number);
}

/*
 * A line has nothing of the overflow from an id on; there the index is read
 * again.  If a backend is reading the line, what it has found from there on is
 * not entered (race 11).
 *
 * One that kept a tag of its own loses that, and is charged when it is taken as
 * any other.  What is parked stays.  The caller has the home lane locked, and
 * sees to the line's place.
 */
void
turn_candidates_cut(GroupLine *line, int64 task)
{
	uint32		next;

	AssertLockedOfLine(line);
	for (uint32 i = turns_first_of_overflow(line); i != NO_ENTRY; i = next)
	{
		next = turn_candidates[i].next;
		if (turn_candidates[i].task >= task)
			turn_candidates_remove(line, i);
	}
	line->frontier = Min(line->frontier, task);
	if (line->reading)
		line->lowered = Min(line->lowered, task);
}

/*
 * A line keeps nothing of the overflow; all of it is in the index.  As
 * turn_candidates_cut from the lowest id on, wherever in the line that is:
 * those that keep a tag stand before others of lower ids.  The caller has the
 * home lane locked exclusively, and sees to the line's place.
 */
void
turn_candidates_let_go(GroupLine *line)
{
	int64		first = PG_INT64_MAX;

	for (uint32 i = turns_first_of_overflow(line); i != NO_ENTRY; i = turn_candidates[i].next)
		first = Min(first, turn_candidates[i].task);
	turn_candidates_cut(line, first);
}

/*
 * A task of the overflow that was taken comes back.  What is from the frontier
 * on is found in the index.  charged: it keeps the tag of its entry, and comes
 * before all that do not.  A group that was charged for tasks which it has not
 * been served has these first, however early others of it have come.  One that
 * is there already stays as it is, but for where its row is and what it costs.
 *
 * The caller has the home lane locked exclusively, and sees to the line's
 * place. If there is no room for the task the line is cut at it, so that it is
 * found in the index with those behind it.
 */
void
turn_candidates_put_back(GroupLine *line, int64 task, const LaneEntry *entry, float4 cost,
						 bool charged)
{
	uint32		after = line->last_parked;
	uint32		number = turns_first_of_overflow(line);

	AssertLockedOfLine(line);
	if (task >= line->frontier)
	{
		/* The reader may be past it, and have seen it leased (race 11). */
		if (line->reading)
			line->lowered = Min(line->lowered, task);
		return;
	}
	for (; number != NO_ENTRY; number = turn_candidates[number].next)
	{
		const TurnCandidate *other = &turn_candidates[number];

		if (other->task == task || (!other->charged && other->task > task))
			break;
		if (!charged || (other->charged && other->task < task))
			after = number;
	}
	if (number == NO_ENTRY || turn_candidates[number].task != task)
	{
		number = turn_candidates_new();
		if (number == NO_ENTRY)
		{
			turn_candidates_cut(line, task);
			return;
		}
		turn_candidates[number].task = task;
		turn_candidates[number].parked = false;
		turn_candidates[number].tag = virtual_time_pack(lanes_entry_tag(entry));
		turn_candidates[number].charged = charged;
		turn_candidates_add(line, number, after);
	}
	turn_candidates[number].tid = entry->tid;
	turn_candidates[number].cost = cost;
}

/*
 * The entry of a candidate, as it was taken out of its lane, if it is parked.
 * Of one of the overflow the tag is the candidate's own, which means something
 * if it was charged; slot is its group's.  Its TID is where its row was seen.
 * The caller holds the lock of its line's home lane, or has the candidate to
 * itself.
 */
void
turn_candidates_entry(const TurnCandidate *candidate, uint64 slot, LaneEntry *entry)
{
	VirtualTime tag = virtual_time_unpack(candidate->tag);

	entry->block = tag.whole;
	entry->fraction = tag.fraction;
	entry->tid = candidate->tid;
	if (candidate->parked)
	{
		entry->slot = (uint64) candidate->task;
		entry->turn_high = LANE_PARKED;
		entry->turn_low = 0;
	}
	else
		lanes_entry_set_turn(entry, candidate->task, slot);
}

/*
 * Is a candidate that is parked behind an entry, in the order of addresses?
 * Which of those of one address has the lower position counts as well, as in a
 * window: so they are taken in the order in which the index has them.
 */
static bool
is_behind(uint32 number, const LaneEntry *entry)
{
	LaneEntry	other;

	turn_candidates_entry(&turn_candidates[number], 0, &other);
	return lanes_compare(&other, entry) > 0;
}

/*
 * Park an entry in a line, unless it is there: a lane that was read again
 * leads to the same rows.  Mostly it belongs at the end of those that are
 * parked, or in front.  Returns whether it was; *room is set to false if there
 * is none: then the caller says so in the line (drop in turn_lines.c).
 *
 * lane is the entry's own, whose lock is not needed; that of the line's home
 * lane is held.  The caller counts what was parked, and sees to the line's
 * place.
 */
bool
turn_candidates_park(GroupLine *line, const Lane *lane, const LaneEntry *entry, float4 cost,
					 bool *room)
{
	int			lane_number = lane - lanes_get(0);
	uint32		after = line->last_parked;
	uint32		number;
	TurnCandidate *candidate;

	AssertLockedOfLine(line);
	if (is_parked(lane_number, entry))
		return false;
	if (after != NO_ENTRY && is_behind(line->head, entry))
		after = NO_ENTRY;
	while (after != NO_ENTRY && is_behind(after, entry))
		after = turn_candidates[after].prev;
	number = ((volatile CandidatePool *) pool)->used < POOL_SIZE / 4 * 3 ?
		turn_candidates_new() : NO_ENTRY;
	*room = (number != NO_ENTRY);
	if (!*room)
		return false;
	candidate = &turn_candidates[number];
	candidate->task = (int64) entry->slot;
	candidate->tag = virtual_time_pack(lanes_entry_tag(entry));
	candidate->tid = entry->tid;
	candidate->parked = true;
	candidate->charged = false;
	candidate->cost = cost;
	candidate->lane = lane_number;
	/* All is set that others find it by. */
	change_chain(number, true);
	turn_candidates_add(line, number, after);
	if (after == line->last_parked)
		line->last_parked = number;
	return true;
}
