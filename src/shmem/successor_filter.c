/*-------------------------------------------------------------------------
 *
 * successor_filter.c
 *	  Whether any task waits for the end of another one.
 *
 * Few tasks have successors.  Whoever ends a task asks here first, which costs
 * one read while no task of the queue waits for another one, and one more else.
 * Each queue has bits, which its tasks share by their ids (a Bloom filter with
 * one hash): a row of fairq.dependency sets that of its predecessor before it
 * is committed.  So a bit may say "perhaps" in vain, but never "no" of a task
 * that another one waits for.
 *
 * Bits are never unset.  Instead a pass reads all rows now and then
 * (count_dependencies.c), into a second array, which it clears first, and which
 * is asked from then on.  Rows that come set their bits in both: one that the
 * pass does not see sets its bit after the array was cleared, for it does so
 * after it was inserted.  After a start nothing is known, and the answer is
 * "perhaps", until all rows were read.
 *
 * A backend asks after it has deleted the row of the task.  A new task with
 * predecessors looks for their rows after its commit.  One of them sees the
 * other: there is the page's lock between.
 *
 * Locking: none; who fills the second array has the maintenance lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/held_looks.h"

/* The array that is not asked. */
static inline SuccessorBits *
spare_of(QueueSuccessors *successors)
{
	return &successors->bits[pg_atomic_read_u32(&successors->asked) == 1 ? 1 : 0];
}

static void
clear(SuccessorBits *bits)
{
	pg_atomic_write_u32(&bits->any, 0);
	for (int i = 0; i < SUCCESSOR_BITS / 32; i++)
		pg_atomic_write_u32(&bits->words[i], 0);
}

void
successor_filter_init(QueueSuccessors *successors)
{
	pg_atomic_init_u32(&successors->asked, 0);
	pg_atomic_init_u32(&successors->stale, 1);
	for (int i = 0; i < 2; i++)
	{
		pg_atomic_init_u32(&successors->bits[i].any, 0);
		for (int j = 0; j < SUCCESSOR_BITS / 32; j++)
			pg_atomic_init_u32(&successors->bits[i].words[j], 0);
	}
	successors->counting = false;
	successors->recount_at = 0;
}

/*
 * May a task have successors?
 */
bool
successor_filter_perhaps(QueueSuccessors *successors, int64 task)
{
	uint32		asked = pg_atomic_read_u32(&successors->asked);
	uint32		bit = (uint64) task % SUCCESSOR_BITS;

	return asked == 0 ||
		(pg_atomic_read_u32(&successors->bits[asked - 1].words[bit / 32]) >> (bit % 32) & 1) != 0;
}

/*
 * A task has a successor, whose row is written and not committed.
 */
void
successor_filter_add(QueueSuccessors *successors, int64 task)
{
	uint32		bit = (uint64) task % SUCCESSOR_BITS;

	Assert(task != 0);
	for (int i = 0; i < 2; i++)
	{
		SuccessorBits *bits = &successors->bits[i];

		(void) pg_atomic_fetch_or_u32(&bits->words[bit / 32], (uint32) 1 << (bit % 32));
		pg_atomic_write_u32(&bits->any, 1);
	}
}

/*
 * Rows may be there of tasks that are gone: they are to be read soon.
 */
void
successor_filter_recount(QueueSuccessors *successors)
{
	pg_atomic_write_u32(&successors->stale, 1);
}

bool
successor_filter_is_stale(QueueSuccessors *successors)
{
	return pg_atomic_read_u32(&successors->stale) != 0;
}

/*
 * All rows are going to be read, by a caller with the maintenance lock.
 */
void
successor_filter_count_begins(QueueSuccessors *successors)
{
	pg_atomic_write_u32(&successors->stale, 0);
	clear(spare_of(successors));
	/* Before the first row is read. */
	pg_memory_barrier();
}

/*
 * All rows were read, and added.
 */
void
successor_filter_count_ends(QueueSuccessors *successors)
{
	pg_memory_barrier();
	pg_atomic_write_u32(&successors->asked,
						spare_of(successors) - successors->bits + 1);
}
