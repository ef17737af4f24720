/*-------------------------------------------------------------------------
 *
 * lease_rows.c
 *	  Leases, and the rows of their tasks.
 *
 * A lease names its task by queue and id, and goes on if the row goes without
 * anybody settling it: by TRUNCATE, say.  As long as ids are never given out
 * twice that does no harm.  But TRUNCATE ... RESTART IDENTITY has them begin
 * anew, and then the lease would be one on a task that was never claimed.
 *
 * So leases are compared with the rows when the queue's table may not be what
 * it was: after a start of the server, and when its file is another one
 * (TRUNCATE, VACUUM FULL, CLUSTER).  This is done by the first who opens the
 * queue then, before anybody does anything with it (durable_leases_restore),
 * so that no new task has an old id yet, but for one that was written by the
 * transaction that truncated the table.  That task was enqueued at another time
 * than the one that the lease is of.
 *
 * A lease whose task is gone is held in vain: no receipt is good for it, and
 * the next pass ends it, with its row in fairq.durable_lease.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "shmem/groups.h"
#include "shmem/leases.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/row_reader.h"

/*
 * Is the row that was read of another task than the lease?  It is the time at
 * which its task was enqueued that says so.  That of the lease is for where no
 * other is known: a task may be enqueued while a claim is under way that gets
 * it, and clocks are set.
 */
static bool
is_of_another(RowReader *row, const LeaseInfo *lease)
{
	TimestampTz enqueued_at = DatumGetTimestampTz(row_value(row, COLUMN_ENQUEUED_AT));

	/*
	 * The row of a durable lease has no time before its task was enqueued
	 * (form_row).  That is all that is known of the task if the lease was
	 * restored by the transaction that truncated the table.
	 */
	if (lease->enqueued_at == 0)
		return enqueued_at > lease->started;
	return enqueued_at != lease->enqueued_at;
}

/*
 * Compare the leases of a queue with its rows.  And leases whose groups are
 * not known are counted for no group: those that were kept over a restart,
 * and those that were granted when there was no entry for a group.  With
 * unknown_only it is these that are looked at.
 */
void
lease_rows_check(Relation rel, QueueInfo *info, bool unknown_only)
{
	int			queue = queue_state_number(info->state);
	LeaseInfo  *leases;
	int			n = leases_list(&leases);
	bool		vain = false;
	RowReader	row;

	row_reader_begin(&row, rel, info);
	for (int i = 0; i < n; i++)
	{
		RowStatus	status;

		if (leases[i].queue != queue ||
			(unknown_only && leases[i].group != FAIRQ_NO_GROUP))
			continue;
		CHECK_FOR_INTERRUPTS();
		status = row_reader_task(&row, leases[i].task, &leases[i].tid);
		if (status == ROW_GONE || (status == ROW_LIVE && is_of_another(&row, &leases[i])))
		{
			leases_end_vain(&leases[i].ref);
			vain = true;
		}
		else if ((status == ROW_LIVE || status == ROW_OWN) &&
				 leases[i].group == FAIRQ_NO_GROUP)
		{
			GroupName	name = row_reader_group(&row);

			leases_adopt(&leases[i].ref,
						 groups_adopt_lease(info->state, row_reader_class(&row),
											&name));
		}
	}
	row_reader_end(&row);
	pfree(leases);
	if (vain)
		worker_slots_wake_at(MyDatabaseId, 0);
}
