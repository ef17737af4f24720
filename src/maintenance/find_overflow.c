/*-------------------------------------------------------------------------
 *
 * find_overflow.c
 *	  Tasks of the overflow that may be in no line.
 *
 * A line (turns.c) is told of a task that may be claimed by whoever makes it
 * so.  But a claim that comes to a row which another transaction is writing
 * does not know what becomes of it, nor whose task it is then; and a line may
 * be gone.  Then it is said from which task on the overflow of a class has to
 * be read (queue_order_overflow_lost), and a pass does that: some groups at a
 * time, for there may be very many.  It writes nothing, so what it has come to
 * stands also if it fails.  A walk that has come to its end rests for four
 * times as long, or a minute, before the next one: so others of the queue, who
 * wait for what is due, have most of the time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "common/wall_clock.h"
#include "maintenance/maintain.h"
#include "shmem/groups.h"
#include "shmem/queue_state.h"
#include "storage/queue_index.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"

/* Entries of a group's overflow that are read at a time. */
#define LOOKS			32

/* A walk rests this many times as long as it took, or so long. */
#define WALK_REST		4
#define WALK_REST_MAX	USECS_PER_MINUTE

/*
 * Some tasks of the overflow of a class may be in no line, from an id on.  See
 * to it that their groups read them again: one group after the other, as their
 * rows say, for shared memory may have forgotten them.  Returns whether that
 * was all of them; else the next pass goes on.
 */
static bool
find_of_class(Pass *pass, int class, int64 lost, OverflowWalk *walk)
{
	Relation	rel = pass->rel;
	QueueInfo  *info = pass->info;
	RowReader	row;
	int64		hash;
	int64		of_class;
	int			looked = 0;
	bool		left = true;

	if (walk->began == 0)
	{
		walk->began = pass->now;
		walk->hash = PG_INT64_MIN;
		walk->class = -1;
	}
	hash = walk->hash;
	of_class = walk->class;
	row_reader_begin(&row, rel, info);
	while (looked++ < pass->max &&
		   (left = queue_index_overflow_after(rel, info, &hash, &of_class)))
	{
		int64		ids[LOOKS];
		ItemPointerData tids[LOOKS];
		OverflowRead read = {hash, class, ids, tids, LOOKS, {.id = lost}, &row.overflow};
		bool		found = false;

		CHECK_FOR_INTERRUPTS();
		while (of_class == class && !found && read.next.id != PG_INT64_MAX)
		{
			int			n = queue_index_overflow(rel, info, &read);

			CHECK_FOR_INTERRUPTS();
			for (int i = 0; i < n && !found; i++)
			{
				RowStatus	status = row_reader_read(&row, &tids[i]);

				/* A transaction that inserts one says so itself. */
				found = (status == ROW_LIVE || status == ROW_OWN ||
						 ((status == ROW_IN_PROGRESS || status == ROW_IN_DOUBT) &&
						  row.deleting)) &&
					DatumGetInt64(row_value(&row, COLUMN_ID)) == ids[i] &&
					DatumGetChar(row_value(&row, COLUMN_STATE)) == TASK_OVERFLOW;
				if (found)
				{
					GroupName	name = row_reader_group(&row);

					group_overflow_found(info->state, class, &name, ids[i], true);
				}
			}
		}
		walk->hash = hash;
		walk->class = of_class;
	}
	row_reader_end(&row);
	return !left;
}

/*
 * See to the tasks of a queue's overflow that may be in no line, if there are
 * any.
 */
void
find_overflow(Pass *pass)
{
	QueueInfo  *info = pass->info;
	QueueState *state = info->state;

	AssertMaintenanceLocked(pass->rel);
	if (info->policy != QUEUE_FAIR)
		return;
	if (unlikely(state->recovery.groups != QUEUE_KNOWN) &&
		queue_index_has_overflow(pass->rel, info))
		recovery_tags(pass->rel, info);
	for (int class = 0; class < state->classes; class++)
	{
		QueueOrder *order = &state->orders[class];
		OverflowWalk *walk = &order->overflow_walk;

		if (likely(queue_order_lost(order) == PG_INT64_MAX))
			continue;
		if (walk->began == 0 && wall_clock_ahead(walk->rests_until, pass->now, WALK_REST_MAX))
		{
			pass_again(pass, walk->rests_until);
			continue;
		}
		if (!find_of_class(pass, class, queue_order_take_lost(order), walk))
		{
			pass->more = true;
			continue;
		}
		queue_order_found_lost(order);
		walk->rests_until = wall_clock_rest(walk->began, GetCurrentTimestamp(),
											WALK_REST, WALK_REST_MAX);
		walk->began = 0;
	}
}
