/*-------------------------------------------------------------------------
 *
 * expire.c
 *	  Ending tasks whose expires_at has passed.
 *
 * A claim does not lease such a task (claim_grant.c), and writes nothing: it
 * wakes the worker, which ends it here, in a pass (expire_due.c).  A producer
 * does so itself whose unique key it has.
 *
 * A task that is leased may go on, and be acknowledged.  So nothing is done
 * about it while it is; its lease is marked, and when that ends with the task
 * as it was, the pass looks at it again (queue_state_outlived).  When it is
 * nacked or released, or its lease runs out, who writes its row ends it
 * (expire_settled).
 *
 * A claim may come between the look for a lease and the deletion of the row,
 * by a clock that it has read before.  Look and lease of a claim are under the
 * row's page lock, and the deletion takes that: after it no lease can come.
 * If there is one then, the deletion is undone, with those of the same batch,
 * which are in a subtransaction; and they are done once more, without that
 * task.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "common/contracts.h"
#include "common/run_as.h"
#include "shmem/groups.h"
#include "shmem/leases.h"
#include "shmem/stats.h"
#include "storage/durable_leases.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "verbs/ended_tasks.h"
#include "verbs/placement.h"
#include "xact/pending.h"
#include "xact/pending_rows.h"

/* How often to begin anew when claims have leased tasks meanwhile. */
#define EXPIRE_ATTEMPTS	3

/* Tasks that are ended in one subtransaction. */
typedef struct ExpireBatch
{
	Relation	rel;
	QueueInfo  *info;
	int			n;
	ExpireEntry *entries;
	bool		wait;
	RowReader	row;
	EndedTasks	ended;
	int			count;			/* of those that were ended */
	bool		claimed;		/* one of them was leased after we had looked */
} ExpireBatch;

/*
 * The task that row has read leaves its place: its group has room, and is not
 * charged for it.
 */
static void
leave_place(RowReader *row)
{
	QueueState *state = row->info->state;
	uint32		group = placement_group(row);
	int64		id = DatumGetInt64(row_value(row, COLUMN_ID));
	float4		cost = DatumGetFloat4(row_value(row, COLUMN_COST));

	if (group == FAIRQ_NO_GROUP)
		return;
	if (!row_is_null(row, COLUMN_ADDRESS))
		pending_expired(state, group, id,
						DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS)),
						row_reader_class(row), cost);
	else if (DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW)
		pending_expired(state, group, id, NULL, row_reader_class(row),
						0);
}

/*
 * Read the row of an entry.  Returns EXPIRE_ENDED if it is to be ended.
 */
static ExpireResult
look_at(ExpireBatch *batch, const ExpireEntry *entry)
{
	RowReader  *row = &batch->row;

	switch (row_reader_read(row, &entry->tid))
	{
		case ROW_GONE:
			return EXPIRE_NOT;
		case ROW_IN_PROGRESS:
			if (!row->deleting)
				return EXPIRE_NOT;
			return EXPIRE_IN_HANDS;
		case ROW_IN_DOUBT:
			return EXPIRE_IN_HANDS;
		case ROW_OWN:
			/* It may have been written by this very statement. */
			CommandCounterIncrement();
			break;
		case ROW_LIVE:
			break;
	}
	if ((entry->id != 0 && DatumGetInt64(row_value(row, COLUMN_ID)) != entry->id) ||
		DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_DEAD ||
		!row_reader_has_expired(row))
		return EXPIRE_NOT;
	return EXPIRE_ENDED;
}

static ExpireResult
expire_entry(ExpireBatch *batch, const ExpireEntry *entry)
{
	RowReader  *row = &batch->row;
	QueueState *state = batch->info->state;
	int			queue = queue_state_number(state);
	ExpireResult result = look_at(batch, entry);
	ItemPointerData tid = row->tuple.t_self;
	LeaseInfo	lease;
	int64		id;

	if (result != EXPIRE_ENDED)
		return result;
	id = DatumGetInt64(row_value(row, COLUMN_ID));
	if (leases_outlive(queue, id))
		return EXPIRE_LEASED;

	pending_reserve(8);
	if (!row_is_null(row, COLUMN_ADDRESS))
	{
		FairqAddress address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));

		pending_lower_at_abort(placement_lane(batch->info, &address), &address);
	}
	if (!row_writer_delete(batch->rel, &tid, batch->wait))
		return EXPIRE_IN_HANDS;
	batch->claimed = leases_find(queue, id, &lease);
	if (batch->claimed)
		elog(ERROR, "task " INT64_FORMAT " was claimed as it expired", id);
	leave_place(row);
	ended_tasks_add(&batch->ended, row, ARCHIVE_EXPIRED, DT_NOBEGIN);
	stats_tally(state, QUEUE_EXPIRED_TASKS, 1);
	stats_tally(state, row_reader_depth(row), -1);
	return EXPIRE_ENDED;
}

static void
expire_batch(void *arg)
{
	ExpireBatch *batch = arg;
	RunAs		owner;

	run_as_owner(batch->rel->rd_rel->relowner, RelationGetRelid(batch->rel), &owner);
	row_reader_begin(&batch->row, batch->rel, batch->info);
	for (int i = 0; i < batch->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		batch->entries[i].result = expire_entry(batch, &batch->entries[i]);
		batch->count += (batch->entries[i].result == EXPIRE_ENDED);
	}
	row_reader_end(&batch->row);
	ended_tasks_write(&batch->ended, batch->rel, batch->info);
	run_as_end(&owner);
}

/*
 * End the tasks at n places that have expired, and say of each what became of
 * it. *ended is raised by how many have.  Nothing is waited for; or (wait)
 * users' row locks are.  Returns NULL; or an error, and then none of them has
 * ended.
 */
ErrorData *
expire_tasks(Relation rel, QueueInfo *info, int n, ExpireEntry *entries, bool wait,
			 int *ended)
{
	AssertRelationLocked(rel, RowExclusiveLock);
	Assert(n >= 0);
	durable_leases_require(rel, info);

	/*
	 * After a start, groups are known from here on, as in remove_cancel: what
	 * is removed here would count as there if they were read later in this
	 * transaction.
	 */
	recovery_tags(rel, info);
	for (int attempt = 0; n > 0 && attempt < EXPIRE_ATTEMPTS; attempt++)
	{
		ExpireBatch batch = {.rel = rel,.info = info,.n = n,.entries = entries,.wait = wait};
		ErrorData  *error = run_as_try(expire_batch, &batch);

		if (error == NULL)
		{
			*ended += batch.count;
			return NULL;
		}
		if (!batch.claimed)
			return error;
		FreeErrorData(error);
	}
	for (int i = 0; i < n; i++)
		entries[i].result = EXPIRE_IN_HANDS;
	return NULL;
}

/*
 * The task that row has read has expired while it was leased, and does not
 * come back: its row is deleted, and its lease settling.
 */
void
expire_settled(RowReader *row, EndedTasks *ended, TimestampTz claimed_at)
{
	ended_tasks_add(ended, row, ARCHIVE_EXPIRED, claimed_at);
	stats_tally(row->info->state, QUEUE_EXPIRED_TASKS, 1);
	stats_tally(row->info->state, row_reader_depth(row), -1);
}
