/*-------------------------------------------------------------------------
 *
 * find_overflow.c
 *	  Tasks of the overflow that may be in no line.
 *
 * A line (turns.c) is told of a task that may be claimed by whoever makes it
 * so.  But a claim that comes to a row which another transaction is writing
 * does not know what becomes of it, nor whose task it is then; and a line may
 * be gone.  Then it is said from which task on the overflow of a class has to
 * be read (queue_order_overflow_lost), and a pass does that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "common/maintenance_lock.h"
#include "maintenance/duties.h"
#include "shmem/groups.h"
#include "shmem/queue_order.h"
#include "storage/queue_index.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"

/* Entries of a group's overflow that are read at a time. */
#define LOOKS			32

/*
 * Some tasks of the overflow of a class may be in no line, from an id on.  See
 * to it that their groups read them again: one group after the other, as their
 * rows say, for shared memory may have forgotten them.
 */
static void
find_of_class(Relation rel, QueueInfo *info, int class, int64 lost)
{
	RowReader	row;
	int64		hash = PG_INT64_MIN;
	int64		of_class = -1;

	row_reader_begin(&row, rel, info);
	while (queue_index_overflow_after(rel, info, &hash, &of_class))
	{
		int64		ids[LOOKS];
		ItemPointerData tids[LOOKS];
		OverflowRead read = {hash, class, ids, tids, LOOKS, {.id = lost}};
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
	}
	row_reader_end(&row);
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
		int64		lost = queue_order_take_lost(order);

		if (likely(lost == PG_INT64_MAX))
			continue;
		find_of_class(pass->rel, info, class, lost);
		queue_order_found_lost(order);
	}
}
