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
 * (settle.c).
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
 * Read the row of an entry.  Returns EXPIRE_ENDED if it is to be ended.
 */
static ExpireResult
look_at(ExpireBatch *batch, const ExpireEntry *entry)
{
	RowReader  *row = &batch->row;
	RowStatus	status = row_reader_read(row, &entry->tid);

	if (status == ROW_IN_DOUBT || (status == ROW_IN_PROGRESS && row->deleting))
		return EXPIRE_IN_HANDS;
	if (status == ROW_GONE || status == ROW_IN_PROGRESS)
		return EXPIRE_NOT;
	/* It may have been written by this very statement. */
	if (status == ROW_OWN)
		CommandCounterIncrement();
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
	int			queue = queue_state_number(batch->info->state);
	ExpireResult result = look_at(batch, entry);
	FairqAddress address;
	Lane	   *lane;
	LeaseInfo	lease;
	int64		id;

	if (result != EXPIRE_ENDED)
		return result;
	id = DatumGetInt64(row_value(row, COLUMN_ID));
	if (leases_outlive(queue, id))
		return EXPIRE_LEASED;

	pending_reserve(8);
	lane = placement_lane_of(row, &address);
	if (lane != NULL)
		pending_lower_at_abort(lane, &address);
	if (!row_writer_delete(row, batch->wait))
		return EXPIRE_IN_HANDS;
	batch->claimed = leases_find(queue, id, &lease);
	if (batch->claimed)
		elog(ERROR, "task " INT64_FORMAT " was claimed as it expired", id);
	placement_leaves(row, true);
	ended_tasks_add(&batch->ended, row, ARCHIVE_EXPIRED, DT_NOBEGIN);
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
