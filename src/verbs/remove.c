/*-------------------------------------------------------------------------
 *
 * remove.c
 *	  The verbs that go by row: cancel, purge, revive.
 *
 * They may meet a task that is leased: the row is deleted first, after which
 * no lease can be granted on it (a claim looks at the row under the page's
 * lock), and then its lease is settled, if it has one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "shmem/groups.h"
#include "shmem/leases.h"
#include "shmem/stats.h"
#include "storage/durable_leases.h"
#include "storage/row_reader.h"
#include "storage/row_scan.h"
#include "verbs/ended_tasks.h"
#include "verbs/enqueue.h"
#include "verbs/placement.h"
#include "verbs/settle.h"
#include "verbs/unique_keys.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/* Tasks of a group that are purged. */
typedef struct GroupCount
{
	uint32		group;			/* hash key */
	int			ready;
	int			overflow;
} GroupCount;

/*
 * The row of a task, which row has read, was deleted: end its lease.  Returns
 * whether it has one, and that is ours to end.
 */
static bool
settle_deleted(RowReader *row, EndedTasks *ended)
{
	QueueInfo  *info = row->info;
	TimestampTz claimed_at = DT_NOBEGIN;
	LeaseInfo	lease;
	bool		leased;
	bool		settled;

	pending_reserve(4);
	leased = row_reader_lease(row, &lease);
	settled = (leased && leases_settle(&lease.ref, &lease));
	if (settled)
	{
		placement_leaves_lease(row, &lease, pending_settled(&lease));
		durable_leases_delete(row->rel, info, &lease);
		claimed_at = lease.started;
	}
	else if (leased)
		pending_vain(&lease);
	ended_tasks_add(ended, row,
					DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_DEAD ?
					ARCHIVE_DEAD : ARCHIVE_CANCELLED, claimed_at);
	return settled;
}

/*
 * Count a task that was purged, in what of its group was.
 */
static void
count_purged(HTAB *counts, RowReader *row)
{
	bool		addressed = !row_is_null(row, COLUMN_ADDRESS);
	uint32		number;
	LeaseInfo	lease;
	GroupCount *count;
	bool		found;

	if (row->info->policy != QUEUE_FAIR ||
		(!addressed && DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_OVERFLOW))
		return;
	if (row_reader_lease(row, &lease))
	{
		/* It is being settled, and may yet be released. */
		placement_leaves(row, false);
		return;
	}
	number = placement_group(row);
	if (number == FAIRQ_NO_GROUP)
		return;
	count = hash_search(counts, &number, HASH_ENTER, &found);
	if (!found)
		count->ready = count->overflow = 0;
	if (addressed)
		count->ready++;
	else
		count->overflow++;
}

/*
 * Remove a task in whatever state.  Returns false if there is none.
 */
bool
remove_cancel(Relation rel, QueueInfo *info, int64 id)
{
	EndedTasks	ended = {0};
	Placement	placement;
	RowReader	row;
	bool		done = false;

	/*
	 * After a start, groups are known from here on.  A read later in our
	 * transaction counts what we remove as if it were there, and that would
	 * not be put right.
	 */
	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	/* Again if it was moved between the look and the deletion. */
	while (!done && row_reader_task_wait(&row, id, NULL))
	{
		FairqAddress address;
		Lane	   *lane = placement_lane_of(&row, &address);

		CHECK_FOR_INTERRUPTS();
		if (lane != NULL)
		{
			pending_offer_at_abort(lane, &address, &row.tuple.t_self);
			placement_uncharge(&row, &address);
		}
		done = row_writer_delete(&row, true);
	}
	if (done)
	{
		if (!settle_deleted(&row, &ended))
			placement_leaves(&row, false);
		stats_tally(info->state, QUEUE_CANCELLED, 1);
	}
	row_reader_end(&row);
	ended_tasks_write(&ended, rel, info);
	return done;
}

/* A purge under way. */
typedef struct Purge
{
	const text *group;			/* NULL: all */
	RowReader	row;
	EndedTasks	ended;
	HTAB	   *counts;			/* of GroupCount */
	int64		purged;
} Purge;

/* Groups need not charge for what is removed. */
static void
announce_purge(QueueInfo *info, const text *group)
{
	GroupTag	tag;

	if (info->policy != QUEUE_FAIR)
		return;
	if (group == NULL)
		pending_purged(info->state, NULL);
	for (int class = 0; group != NULL && class < FAIRQ_CLASSES; class++)
	{
		GroupName	name = queue_catalog_whole_group(info, group);

		if (groups_look(info->state, class, &name, &tag))
			pending_purged(info->state, &tag);
	}
}

/*
 * Remove a task, whose row was at a TID, if it is to be.  Returns false if the
 * row has moved meanwhile, or is gone: then it is to be looked at once more.
 */
static bool
purge_task(Purge *purge, int64 id, const ItemPointerData *seen)
{
	RowReader  *row = &purge->row;
	ItemPointerData tid = *seen;
	FairqAddress address;
	Lane	   *lane;
	LeaseInfo	lease;
	RowStatus	status;
	bool		leased;

	/* Where it is now: it may have been promoted, retried, or replaced. */
	status = row_reader_lock_task(row, id, &tid);
	if (status != ROW_LIVE && status != ROW_OWN)
		return true;
	leased = row_reader_lease(row, &lease);
	if (status == ROW_LIVE)
		row_reader_unlock(row);
	if (leased ||
		(purge->group != NULL &&
		 !row_reader_same_text(DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY)), purge->group)))
		return true;

	lane = placement_lane_of(row, &address);
	if (lane != NULL)
		pending_lower_at_abort(lane, &address);
	if (!row_writer_delete(row, true))
		return false;
	if (!settle_deleted(row, &purge->ended))
		count_purged(purge->counts, row);
	purge->purged++;
	return true;
}

/*
 * Remove every task that is not leased, of one group or (NULL) of all.
 * Returns how many.
 */
int64
remove_purge(Relation rel, QueueInfo *info, const text *group)
{
	Purge		purge = {.group = group,.ended.many = true};
	Placement	placement;
	RowScan		scan;
	HeapTuple	tuple;
	HASHCTL		ctl = {0};
	HASH_SEQ_STATUS status;
	GroupCount *count;

	row_scan_begin(&scan, rel, info);
	ctl.keysize = sizeof(uint32);
	ctl.entrysize = sizeof(GroupCount);
	ctl.hcxt = CurrentMemoryContext;
	purge.counts = hash_create("pgfairq purged tasks", 64, &ctl,
							   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	durable_leases_require(rel, info);
	placement_begin(&placement, rel, info); /* as in remove_cancel */
	announce_purge(info, group);

	row_reader_begin(&purge.row, rel, info);
	while ((tuple = row_scan_next(&scan)) != NULL)
	{
		while (!purge_task(&purge, row_scan_id(&scan, tuple), &tuple->t_self))
			CHECK_FOR_INTERRUPTS();
	}
	hash_seq_init(&status, purge.counts);
	while ((count = hash_seq_search(&status)) != NULL)
	{
		if (count->ready > 0)
			pending_ready_removed(info->state, count->group, count->ready);
		if (count->overflow > 0)
			pending_overflow_removed(info->state, count->group, count->overflow);
	}
	hash_destroy(purge.counts);
	row_reader_end(&purge.row);
	row_scan_end(&scan);
	ended_tasks_write(&purge.ended, rel, info);
	return purge.purged;
}

/*
 * A dead task has expired and is to run all the same: it has as long as a new
 * one.
 */
static void
renew_expiry(RowReader *row)
{
	NewTask		task = {.run_at = DT_NOBEGIN,.expires_at = DT_NOBEGIN};
	TimestampTz expires_at = enqueue_expires_at(row->info, &task, GetCurrentTimestamp());

	row_value(row, COLUMN_EXPIRES_AT) = TimestampTzGetDatum(expires_at);
	row_is_null(row, COLUMN_EXPIRES_AT) = (expires_at == DT_NOEND);
}

/*
 * Make the task whose row was read ready again, with all its attempts, if it
 * is dead.  If a task with its unique key is leased, the revived task becomes
 * held.  If one is waiting, the task stays dead; so it does while it is leased.
 */
static bool
revive_task(Placement *placement, RowReader *row)
{
	QueueInfo  *info = row->info;
	bool		has_key = !row_is_null(row, COLUMN_UNIQUE_KEY);
	UniqueKey	key = {.found = KEY_FREE};
	LeaseInfo	lease;
	bool		done = false;

	if (DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_DEAD)
		return false;
	/* SQL has made it so while it is leased; or this transaction ends that. */
	if (row_reader_lease(row, &lease) && !(row->own && lease.settling))
		return false;
	row_value(row, COLUMN_ATTEMPTS) = Int32GetDatum(0);

	/* A suspect stays one: whatever killed its workers is still there. */
	row_is_null(row, COLUMN_LOST) = !row_reader_is_suspect(row);
	row_value(row, COLUMN_LOST) = Int32GetDatum(SUSPECT_LOSSES);
	placement_set_due(row, GetCurrentTimestamp());
	if (row_reader_has_expired(row))
		renew_expiry(row);
	if (has_key)
		unique_keys_take(placement, row, NULL, &key);
	switch (key.found)
	{
		case KEY_FREE:
			done = placement_replace(placement, row, true);
			break;
		case KEY_IN_FLIGHT:
			pending_reserve(4);
			done = placement_unplace(row, TASK_HELD, true);
			if (done)
				pending_task_held(info->state,
								  DatumGetInt64(row_value(row, COLUMN_ID)), key.id);
			break;
		case KEY_WAITING:
			break;
	}
	if (has_key)
		unique_keys_let_go(&key);
	return done;
}

/*
 * Make a dead task ready again, with all its attempts.  Returns how many.
 */
int64
remove_revive(Relation rel, QueueInfo *info, int64 id)
{
	Placement	placement;
	RowReader	row;
	int64		revived = 0;

	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	if (row_reader_task_wait(&row, id, NULL))
		revived = revive_task(&placement, &row);
	row_reader_end(&row);
	return revived;
}

/*
 * Make all dead tasks of a group, or (NULL) of all, ready again.  Returns how
 * many.
 */
int64
remove_revive_all(Relation rel, QueueInfo *info, const text *group)
{
	Placement	placement;
	RowReader	row;
	RowScan		scan;
	HeapTuple	tuple;
	int64		revived = 0;

	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	row_scan_begin(&scan, rel, info);
	while ((tuple = row_scan_next(&scan)) != NULL)
	{
		ItemPointerData tid = tuple->t_self;
		RowStatus	status = row_reader_read(&row, &tid);

		/* Those that died in our own transaction, too. */
		if ((status == ROW_LIVE || status == ROW_OWN) &&
			(group == NULL ||
			 row_reader_same_text(DatumGetTextPP(row_value(&row, COLUMN_GROUP_KEY)), group)))
		{
			(void) row_reader_wait_writer(&row.tuple, true);
			revived += revive_task(&placement, &row);
		}
	}
	row_scan_end(&scan);
	row_reader_end(&row);
	return revived;
}
