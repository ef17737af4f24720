/*-------------------------------------------------------------------------
 *
 * turn_candidates.c
 *	  The tasks of lines that are in memory.
 *
 * A line's candidates are linked in the order of their ids.  They are from one
 * pool: a line that finds that used up is cut, and read again from there.
 *
 * Locking: the lock of a line's home lane guards its list, a spinlock the pool.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/spin.h"

#include "common/settings.h"
#include "shmem/turn_private.h"

/* Candidates in the pool, for each lane that there may be. */
#define CANDIDATES_PER_LANE	64

typedef struct CandidatePool
{
	slock_t		mutex;
	FreeEntries free;
	uint32		used;
} CandidatePool;

static CandidatePool *pool = NULL;
TurnCandidate *turn_candidates = NULL;

#define POOL_SIZE		((uint32) settings_max_lanes * CANDIDATES_PER_LANE)
#define POOL_OFFSET		CACHELINEALIGN(sizeof(CandidatePool))

Size
turns_shmem_size(void)
{
	return add_size(POOL_OFFSET, mul_size(POOL_SIZE, sizeof(TurnCandidate)));
}

void
turns_shmem_init(void *area, bool found)
{
	pool = area;
	turn_candidates = (TurnCandidate *) ((char *) area + POOL_OFFSET);
	if (found)
		return;
	SpinLockInit(&pool->mutex);
	pool->free = all_entries_free;
	pool->used = 0;
}

/* NO_ENTRY: there is no room. */
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

void
turn_candidates_free(uint32 number)
{
	SpinLockAcquire(&pool->mutex);
	free_entries_give(&pool->free, number, &turn_candidates[number].next);
	pool->used--;
	SpinLockRelease(&pool->mutex);
}

/* Is the pool more than half full?  A hint. */
bool
turn_candidates_are_few(void)
{
	return ((volatile CandidatePool *) pool)->used > POOL_SIZE / 2;
}

/*
 * Let a line end before an id; from there on the index is read again.
 */
void
turn_candidates_cut(GroupLine *line, int64 task)
{
	uint32		last = NO_ENTRY;
	uint32		number = line->head;

	while (number != NO_ENTRY && turn_candidates[number].task < task)
	{
		last = number;
		number = turn_candidates[number].next;
	}
	if (last == NO_ENTRY)
		line->head = NO_ENTRY;
	else
		turn_candidates[last].next = NO_ENTRY;
	line->tail = last;
	while (number != NO_ENTRY)
	{
		uint32		next = turn_candidates[number].next;

		turn_candidates_free(number);
		number = next;
	}
	line->frontier = Min(line->frontier, task);
	if (line->reading)
		line->lowered = Min(line->lowered, task);
}

/*
 * A task that was taken comes back.  What is from the frontier on is found in
 * the index.
 *
 * What was charged for it just now is given back, and it is charged when it is
 * taken again; one that was leased meanwhile keeps its tag.
 */
void
turn_candidates_put_back(GroupLine *line, int64 task, const LaneEntry *entry,
						 const LaneTurn *turn)
{
	bool		charged = virtual_time_compare(turn->charge, turns_no_charge) != 0;

	uint32	   *link = &line->head;
	uint32		number;

	if (charged)
		group_line_set_next(line, virtual_time_moved(group_line_next(line), turn->charge,
													 turns_no_charge));
	if (task >= line->frontier)
	{
		if (line->reading)
			line->lowered = Min(line->lowered, task);
		return;
	}
	while (*link != NO_ENTRY && turn_candidates[*link].task < task)
		link = &turn_candidates[*link].next;
	number = *link;
	if (number == NO_ENTRY || turn_candidates[number].task != task)
	{
		number = turn_candidates_new();
		if (number == NO_ENTRY)
		{
			turn_candidates_cut(line, task);
			return;
		}
		turn_candidates[number].next = *link;
		turn_candidates[number].task = task;
		*link = number;
		if (turn_candidates[number].next == NO_ENTRY)
			line->tail = number;
	}
	turn_candidates[number].tid = entry->tid;
	turn_candidates[number].tag = lanes_entry_tag(entry);
	turn_candidates[number].cost = turn->cost;
	turn_candidates[number].charged = !charged;
}
