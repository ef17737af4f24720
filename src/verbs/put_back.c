/*-------------------------------------------------------------------------
 *
 * put_back.c
 *	  What becomes of a task whose lease has ended without its being done.
 *
 * It is dead, or comes again: after a wait, at the end of its group's tasks, or
 * where it was.  Which of these is for the verb that ends the lease to say
 * (settle.c, lost_leases.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/pg_prng.h"
#include "utils/timestamp.h"

#include "shmem/stats.h"
#include "storage/row_reader.h"
#include "verbs/ended_tasks.h"
#include "xact/pending_rows.h"

/*
 * Something that counts has happened to the task that row has read, or had
 * before it was written.
 */
void
put_back_count_name(RowReader *row, NameCounter counter)
{
	if (unlikely(!row_is_null(row, COLUMN_NAME)))
		stats_tally_name(row->info->state, row_value(row, COLUMN_NAME), counter);
}

/*
 * The wait, in microseconds, after a task has failed, or was lost, so many
 * times: exponential, with a jitter either way, as the queue has it, so that
 * tasks that failed together are not retried together (Goodman's queue).
 */
int64
put_back_backoff(const QueueInfo *info, int times)
{
	double		usecs = ldexp((double) info->backoff_base, Min(times - 1, 62));

	Assert(times > 0);
	usecs *= 1.0 + info->backoff_jitter * (2.0 * pg_prng_double(&pg_global_prng_state) - 1.0);

	/* At the cap, too, but never beyond it. */
	if (usecs > info->backoff_max)
		usecs = info->backoff_max *
			(1.0 - info->backoff_jitter * pg_prng_double(&pg_global_prng_state));
	return (int64) usecs;
}

/*
 * The task that row has read is dead.  Returns false if another transaction has
 * changed the row, or writes it and wait is false.
 */
bool
put_back_dead(RowReader *row, bool wait)
{
	if (!placement_unplace(row, TASK_DEAD, wait))
		return false;
	stats_tally(row->info->state, QUEUE_DIED, 1);
	put_back_count_name(row, NAME_DIED);
	ended_tasks_died(row);
	return true;
}

/*
 * The task that row has read is scheduled, in delay microseconds.  Returns
 * false as put_back_dead() does.
 */
bool
put_back_later(RowReader *row, int64 delay, bool wait)
{
	Assert(delay >= 0);
	placement_set_due(row, GetCurrentTimestamp() + delay);
	return placement_unplace(row, TASK_SCHEDULED, wait);
}

/*
 * The task that row has read comes again in delay microseconds.  placement is
 * begun if it is zero.  A suspect always waits, for how many have a place is
 * bounded (suspects.c), and the pass sees to that.  Returns false as
 * put_back_dead() does.
 */
bool
put_back_again(Placement *placement, RowReader *row, int64 delay, bool wait)
{
	if (delay > 0 || row_reader_is_suspect(row))
		return put_back_later(row, delay, wait);
	if (placement->info == NULL)
		placement_begin(placement, row->rel, row->info);
	placement_set_due(row, GetCurrentTimestamp());
	return placement_replace(placement, row, wait);
}

/*
 * The task that row has read, which is placed, is given back to its place, and
 * its row stays as it is.  settled is the pending action of its lease.
 */
void
put_back_at_place(RowReader *row, int64 task, int settled)
{
	FairqAddress address;
	Lane	   *lane = placement_lane_of(row, &address);

	Assert(row_reader_is_placed(row));
	if (lane != NULL)
		task = 0;
	else
	{
		placement_first(row, &address);
		lane = placement_lane(row->info, &address);
	}
	pending_released(settled, lane, &address, task);
	stats_tally(row->info->state, QUEUE_RELEASED, 1);
}
