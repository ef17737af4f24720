/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  The verbs that end a lease or a task: ack, nack, extend, release; cancel,
 *	  purge, revive.
 *
 * Settling a lease first marks it in the lease table: from there on nobody else
 * can settle it, and it does not expire (invariant I3).  Then the row is deleted
 * or changed, by TID.  The lease itself ends when the transaction commits; when
 * it rolls back the lease goes on as if nothing had been.  A receipt whose lease
 * is over, is being settled, or was never ours answers false.
 *
 * extend is the exception: it moves the deadline at once, for it has to hold
 * while a long transaction is still running.
 *
 * Cancelling, purging and reviving go by row.  They may meet a task that is
 * leased: the row is deleted first, after which no lease can be granted on it
 * (a claim looks at the row under the page's lock), and then its lease is
 * settled, if it has one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "common/pg_prng.h"
#include "shmem/queue_order.h"
#include "storage/queue_open.h"
#include "storage/row_reader.h"
#include "storage/row_writer.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "shmem/fed_tasks.h"
#include "shmem/sessions.h"
#include "shmem/stats.h"
#include "shmem/wakeup.h"
#include "storage/durable_leases.h"
#include "storage/durable_table.h"
#include "storage/recovery.h"
#include "verbs/claim.h"
#include "verbs/settle.h"
#include "verbs/unique_keys.h"
#include "xact/pending.h"

/* Tasks of a group that are purged. */
typedef struct GroupCount
{
	uint32		group;			/* hash key */
	int			ready;
	int			overflow;
} GroupCount;

/* Has this backend seen that the leases of all queues are known? */
static bool all_known = false;

static const AclMode verb_privileges[] = {
	[SETTLE_ACK] = ACL_DELETE,
	[SETTLE_NACK] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_RELEASE] = ACL_SELECT | ACL_UPDATE,
	[SETTLE_EXTEND] = ACL_SELECT | ACL_UPDATE,
};

void
settle_begin(Settlement *settlement, SettleVerb verb)
{
	memset(settlement, 0, sizeof(Settlement));
	settlement->verb = verb;
	settlement->lease = -1;
}

static void
close_queue(Settlement *settlement)
{
	if (settlement->rel == NULL)
		return;
	row_reader_end(&settlement->row);
	if (settlement->acked > 0)
	{
		stats_tally(settlement->info->state, QUEUE_ACKED, settlement->acked);
		stats_tally(settlement->info->state, QUEUE_ADDRESSED, -settlement->addressed);
		settlement->acked = 0;
		settlement->addressed = 0;
	}
	archive_write(&settlement->archive, settlement->rel, settlement->info);
	relation_close(settlement->rel, NoLock);
	settlement->rel = NULL;
	settlement->placing = false;
}

void
settle_end(Settlement *settlement)
{
	close_queue(settlement);
}

/*
 * Open the queue of a lease, if it is not the one that is open.  Returns false
 * if it is not one of this database.
 */
static bool
open_queue(Settlement *settlement, const LeaseInfo *lease)
{
	QueueState *state = queue_state_by_number(lease->queue);

	if (settlement->rel != NULL && settlement->info->state == state)
		return true;
	close_queue(settlement);
	if (state->database != MyDatabaseId)
		return false;
	settlement->info = queue_open_relation(state->relation, RowExclusiveLock,
												   verb_privileges[settlement->verb],
												   &settlement->rel);
	if (settlement->info == NULL)
		return false;
	recovery_try_tags(settlement->rel, settlement->info);
	row_reader_begin(&settlement->row, settlement->rel, settlement->info);
	settlement->row.brief = (settlement->verb == SETTLE_ACK);
	return true;
}

/*
 * Read the row of a task.  If another transaction has it in hand, its end is
 * waited for.  Returns false if the task is gone.
 */
static bool
read_task(RowReader *row, int64 id, const ItemPointerData *hint)
{
	for (;;)
	{
		switch (row_reader_task(row, id, hint))
		{
			case ROW_OWN:
				/* It may have been written by this very statement. */
				CommandCounterIncrement();
				return DatumGetInt64(row_value(row, COLUMN_ID)) == id;
			case ROW_LIVE:
				return DatumGetInt64(row_value(row, COLUMN_ID)) == id;
			case ROW_GONE:
				return false;
			case ROW_IN_PROGRESS:
			case ROW_IN_DOUBT:
				XactLockTableWait(row->in_progress, row->rel,
								  &row->tuple.t_self, XLTW_None);
				break;
		}
	}
}

static void
count_move(QueueInfo *info, char from, char to)
{
	stats_tally(info->state, task_state_depth(from), -1);
	stats_tally(info->state, task_state_depth(to), 1);
}

/*
 * The wait after an attempt: exponential, with a jitter of 10 % either way so
 * that tasks that failed together are not retried together (Goodman's queue).
 */
static int64
backoff(const QueueInfo *info, int attempt)
{
	double		usecs = ldexp((double) info->backoff_base, Min(attempt - 1, 62));

	usecs *= 0.9 + 0.2 * pg_prng_double(&pg_global_prng_state);

	/* At the cap, too, but never beyond it. */
	if (usecs > info->backoff_max)
		usecs = info->backoff_max * (1.0 - 0.1 * pg_prng_double(&pg_global_prng_state));
	return (int64) usecs;
}

/*
 * The task that row has read is due, or will be: it waits from then on.
 */
static void
set_due(RowReader *row, TimestampTz due)
{
	row_value(row, COLUMN_RUN_AT) = TimestampTzGetDatum(due);
	row_is_null(row, COLUMN_RUN_AT) = false;
}

/*
 * The task that row has read has had an attempt that failed: it is ready again
 * after a wait (delay in microseconds; -1: the queue's backoff), or dead if that
 * was the last one.
 */
static bool
put_back(RowReader *row, Placement *placement, bool *placing,
		 const LeaseInfo *lease, text *error, int64 delay, bool wait)
{
	QueueInfo  *info = row->info;
	int			max_attempts = claim_max_attempts_of(row);
	char		from = DatumGetChar(row_value(row, COLUMN_STATE));
	ItemPointerData tid = row->tuple.t_self;
	TimestampTz due;

	/* The row may say more, by SQL of a user: attempts are never forgotten. */
	int			attempt = Max(lease->attempt, DatumGetInt32(row_value(row, COLUMN_ATTEMPTS)));

	row_value(row, COLUMN_ATTEMPTS) = Int32GetDatum(attempt);
	if (error != NULL)
	{
		row_value(row, COLUMN_LAST_ERROR) = PointerGetDatum(error);
		row_is_null(row, COLUMN_LAST_ERROR) = false;
	}

	if (max_attempts > 0 && attempt >= max_attempts)
	{
		row_is_null(row, COLUMN_ADDRESS) = true;
		row_value(row, COLUMN_STATE) = CharGetDatum(TASK_DEAD);
		if (!row_writer_update(row->rel, info, &tid, row->values, row->nulls, wait))
			return false;
		stats_tally(info->state, QUEUE_DIED, 1);
		count_move(info, from, TASK_DEAD);
		unique_keys_gone(row);
		return true;
	}

	if (delay < 0)
		delay = backoff(info, attempt);
	if (delay == 0)
	{
		if (!*placing)
			placement_begin(placement, row->rel, info);
		*placing = true;
		set_due(row, GetCurrentTimestamp());
		return placement_replace(placement, row, wait);
	}

	due = GetCurrentTimestamp() + delay;
	row_is_null(row, COLUMN_ADDRESS) = true;
	row_value(row, COLUMN_STATE) = CharGetDatum(TASK_SCHEDULED);
	set_due(row, due);
	if (!row_writer_update(row->rel, info, &tid, row->values, row->nulls, wait))
		return false;
	pending_scheduled(info->state, due);
	count_move(info, from, TASK_SCHEDULED);
	return true;
}

/*
 * The lease on the task that row has read ends, and was another's of the same id:
 * claims that met the lease have passed it by.
 */
static void
offer_again(RowReader *row)
{
	QueueInfo  *info = row->info;

	if (row_is_null(row, COLUMN_ADDRESS))
		queue_order_overflow_lost(info->state, row_reader_class(row),
								  DatumGetInt64(row_value(row, COLUMN_ID)));
	else
	{
		FairqAddress *address = DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));

		pending_offer_at_commit(placement_lane(info, address), address, &row->tuple.t_self);
	}
}

/*
 * Put back the tasks of up to max leases that have run out.  Returns how many
 * were.
 */
int
settle_expired(Relation rel, QueueInfo *info, int max)
{
	LeaseInfo  *expired;
	Placement	placement;
	RowReader	row;
	bool		placing = false;
	text	   *lease_error;
	text	   *session_error;
	int			put = 0;
	int			n;

	if (pg_atomic_read_u32(&info->state->expired) == 0)
		return 0;
	recovery_try_tags(rel, info);
	expired = palloc(max * sizeof(LeaseInfo));
	n = leases_expired(queue_state_number(info->state), max, expired);
	lease_error = cstring_to_text("lease expired");
	session_error = cstring_to_text("session over");
	row_reader_begin(&row, rel, info);
	for (int i = 0; i < n; i++)
	{
		RowStatus	status;
		int			settled;

		CHECK_FOR_INTERRUPTS();
		pending_reserve(8);
		if (!leases_settle_expired(&expired[i].ref, &expired[i]))
			continue;			/* acked, extended or given up just now */

		settled = pending_settled(&expired[i]);

		/*
		 * If the row is in somebody's hands, by SQL of a user or a cancel, it is
		 * not waited for: the lease stays as it is, for the next pass.  Neither
		 * is that of a durable lease, if its claim has not ended.
		 */
		if (durable_leases_busy(rel, info, &expired[i]))
		{
			pending_not_settled(settled);
			continue;
		}
		status = row_reader_task(&row, expired[i].task, &expired[i].tid);
		if (status == ROW_LIVE && row_reader_is_placed(&row) &&
			expired[i].deadline == LEASE_VAIN_UNTIL)
			offer_again(&row);
		if (status == ROW_GONE ||
			(status == ROW_LIVE && (expired[i].deadline == LEASE_VAIN_UNTIL ||
									!row_reader_is_placed(&row))))
		{
			/* Nothing is to be put back: it is gone, or was moved with SQL. */
			durable_leases_delete(rel, info, &expired[i]);
			put++;
		}
		else if (status == ROW_LIVE &&
				 put_back(&row, &placement, &placing, &expired[i],
						  expired[i].session != NO_SESSION &&
						  !sessions_alive(expired[i].session) ?
						  session_error : lease_error, -1, false))
		{
			durable_leases_delete(rel, info, &expired[i]);
			stats_tally(info->state, QUEUE_EXPIRED, 1);
			put++;
		}
		else
			pending_not_settled(settled);
	}
	row_reader_end(&row);
	pfree(expired);
	return put;
}

static bool
move_deadline(Settlement *settlement, const LeaseInfo *lease)
{
	LeaseInfo	moved;

	if (!leases_extend(&lease->ref, settlement->deadline, &moved))
		return false;
	durable_leases_extend(settlement->rel, settlement->info, &moved);
	return true;
}

static bool
extend_lease(Settlement *settlement, const LeaseInfo *lease)
{
	int64		usecs = settlement->lease;

	if (usecs < 0 && lease->session != NO_SESSION)
	{
		/* As long as its session, as it was claimed. */
		settlement->deadline = DT_NOEND;
		return move_deadline(settlement, lease);
	}
	if (usecs < 0)
	{
		if (!read_task(&settlement->row, lease->task, &lease->tid))
			return false;
		usecs = claim_lease_of(&settlement->row);
	}
	settlement->deadline = GetCurrentTimestamp() + usecs;
	if (!move_deadline(settlement, lease))
		return false;
	wakeup_at(MyDatabaseId, settlement->deadline);
	return true;
}

/*
 * Give a task back to its place.  The lease is settling.
 */
static bool
release_task(Settlement *settlement, const LeaseInfo *lease, int settled)
{
	RowReader  *row = &settlement->row;
	FairqAddress address;
	int64		task = 0;

	if (!read_task(row, lease->task, &lease->tid))
		return false;
	if (!row_is_null(row, COLUMN_ADDRESS))
		address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	else if (DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW)
	{
		placement_first(row, &address);
		task = lease->task;
	}
	else
		return false;
	pending_released(settled, placement_lane(settlement->info, &address), &address,
					  task);
	stats_tally(settlement->info->state, QUEUE_RELEASED, 1);
	return true;
}

/*
 * Do with the task of a lease what the verb says.  The lease is settling since just
 * now, and there is room for what is owed for it.
 */
static bool
settle_task(Settlement *settlement, const LeaseInfo *lease)
{
	RowReader  *row = &settlement->row;
	QueueState *state = settlement->info->state;
	int			settled = pending_settled(lease);
	bool		done = false;

	durable_leases_delete(settlement->rel, settlement->info, lease);
	if (settlement->verb == SETTLE_RELEASE)
		return release_task(settlement, lease, settled);

	/* Again if the row was changed, with SQL, between the look and the write. */
	while (!done && read_task(row, lease->task, &lease->tid))
	{
		CHECK_FOR_INTERRUPTS();
		if (settlement->verb == SETTLE_ACK)
			done = row_writer_delete(settlement->rel, &row->tuple.t_self, true);
		else
			done = put_back(row, &settlement->placement, &settlement->placing,
							lease, settlement->error, settlement->delay, true);
	}
	if (!done)
		return false;
	if (settlement->verb == SETTLE_ACK)
	{
		archive_add(&settlement->archive, row, ARCHIVE_ACKED, lease->attempt, lease->started);
		unique_keys_gone(row);
		settlement->acked++;
		if (row_reader_depth(row) == QUEUE_ADDRESSED)
			settlement->addressed++;
		else
			stats_tally(state, row_reader_depth(row), -1);
		if (settlement->now == 0)
			settlement->now = GetCurrentTimestamp();
		stats_tally_value(state, STATS_RUN, settlement->now - lease->started);
	}
	else
		stats_tally(state, QUEUE_NACKED, 1);
	return true;
}

/*
 * Settle a lease that was just looked at.
 */
static bool
settle(Settlement *settlement, LeaseInfo *lease)
{
	if ((lease->session != NO_SESSION && !sessions_alive(lease->session)) ||
		!open_queue(settlement, lease))
		return false;
	if (settlement->verb == SETTLE_EXTEND)
		return extend_lease(settlement, lease);

	pending_reserve(8);
	return leases_settle(&lease->ref, lease) && settle_task(settlement, lease);
}

/*
 * Settle one lease.
 */
bool
settle_lease(Settlement *settlement, const LeaseRef *ref)
{
	LeaseInfo	lease;

	return leases_look(ref, &lease) && settle(settlement, &lease);
}

/*
 * Are the leases of all queues of the database known?  If not, *mine: nor those of
 * one whose leases the caller may settle.
 */
static bool
look_all_known(bool *mine)
{
	List	   *queues = queue_catalog_list();
	ListCell   *lc;
	bool		known = true;

	foreach(lc, queues)
	{
		QueueState *state = queue_state_find(lfirst_oid(lc));

		if (state != NULL && state->recovery.leases == QUEUE_KNOWN)
			continue;
		known = false;
		*mine |= (pg_class_aclmask(lfirst_oid(lc), GetUserId(),
								   ACL_SELECT | ACL_UPDATE | ACL_DELETE, ACLMASK_ANY) != 0);
	}
	list_free(queues);
	return known;
}

/*
 * The lease that a receipt names that does not lead to it: one of before the
 * last crash.  For the others, which are void, this is cheap once all queues
 * have been opened.
 */
static bool
find_restored(const pg_uuid_t *receipt, LeaseRef *ref)
{
	Relation	rel;
	QueueInfo  *info;
	Oid			queue;
	bool		mine = false;

	if (leases_find_moved(receipt, ref))
		return true;
	if (all_known)
		return false;
	if (look_all_known(&mine))
		all_known = true;
	else if (!mine)
		return false;			/* and no stranger has us read all rows again and again */
	else
	{
		queue = durable_table_queue_of(receipt);
		if (!OidIsValid(queue))
			return false;
		/* To open the queue is to restore its leases. */
		info = queue_open_relation(queue, AccessShareLock, 0, &rel);
		if (info == NULL)
			return false;
		if (!leases_find_moved(receipt, ref))
			durable_leases_require(rel, info);
		relation_close(rel, NoLock);
	}
	/* It may have been restored since we looked, and where it was. */
	return leases_find_moved(receipt, ref) || leases_from_receipt(receipt, ref);
}

/*
 * Settle the lease that a receipt names.  Returns whether it was the caller's
 * to settle, and is.
 */
bool
settle_receipt(Settlement *settlement, const pg_uuid_t *receipt)
{
	LeaseRef	ref;
	LeaseInfo	lease;
	bool		usual = leases_from_receipt(receipt, &ref);

	/* Most are of the queue that is open, and need no look before. */
	if (usual && settlement->rel != NULL && settlement->verb != SETTLE_EXTEND)
	{
		pending_reserve(8);
		if (leases_settle_of(&ref, queue_state_number(settlement->info->state), &lease))
			return settle_task(settlement, &lease);
	}
	if (!usual || !leases_look(&ref, &lease))
	{
		if (!find_restored(receipt, &ref) || !leases_look(&ref, &lease))
			return false;
	}
	return settle(settlement, &lease);
}

/*
 * The row of a task, which row has read, was deleted: end its lease.  Returns
 * whether it has one, and that is ours to end.
 */
static bool
settle_deleted(RowReader *row, ArchiveBatch *archive)
{
	QueueInfo  *info = row->info;
	TimestampTz claimed_at = DT_NOBEGIN;
	LeaseInfo	lease;
	bool		settled;

	pending_reserve(4);
	settled = leases_find(queue_state_number(info->state),
						  DatumGetInt64(row_value(row, COLUMN_ID)), &lease) &&
		leases_settle(&lease.ref, &lease);
	if (settled)
	{
		pending_settled(&lease);
		durable_leases_delete(row->rel, info, &lease);
		claimed_at = lease.started;
	}
	archive_add(archive, row,
				DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_DEAD ?
				ARCHIVE_DEAD : ARCHIVE_CANCELLED,
				DatumGetInt32(row_value(row, COLUMN_ATTEMPTS)), claimed_at);
	return settled;
}

/*
 * Count a task that was purged, in what of its group was.
 */
static void
count_purged(HTAB *counts, RowReader *row)
{
	bool		addressed = !row_is_null(row, COLUMN_ADDRESS);
	int64		id = DatumGetInt64(row_value(row, COLUMN_ID));
	int			queue = queue_state_number(row->info->state);
	uint32		number;
	LeaseInfo	lease;
	GroupCount *count;
	bool		found;

	if (row->info->policy != QUEUE_FAIR ||
		(!addressed && DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_OVERFLOW))
		return;
	if (leases_find(queue, id, &lease) || (!addressed && fed_tasks_has(queue, id)))
	{
		/* Somebody is settling it, and may yet release it; or it has a place. */
		placement_leaves(row);
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
settle_cancel(Relation rel, QueueInfo *info, int64 id)
{
	ArchiveBatch archive = {0};
	Placement	placement;
	RowReader	row;
	ItemPointerData tid;
	bool		done = false;

	/*
	 * After a start, groups are known from here on: were they read later in our
	 * transaction, which counts what we remove as if it were there, nobody would
	 * tell them that it is not.
	 */
	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	while (read_task(&row, id, NULL))
	{
		FairqAddress address;
		bool		addressed = !row_is_null(&row, COLUMN_ADDRESS);

		if (addressed)
			address = *DatumGetFairqAddressP(row_value(&row, COLUMN_ADDRESS));
		tid = row.tuple.t_self;
		if (addressed)
		{
			pending_offer_at_abort(placement_lane(info, &address), &address, &tid);
			placement_uncharge(&row, &address);
		}
		if (!row_writer_delete(rel, &tid, true))
		{
			CHECK_FOR_INTERRUPTS();
			continue;			/* moved meanwhile: look again */
		}
		if (!settle_deleted(&row, &archive))
			placement_leaves(&row);
		if (DatumGetChar(row_value(&row, COLUMN_STATE)) != TASK_HELD)
			unique_keys_gone(&row);
		stats_tally(info->state, QUEUE_CANCELLED, 1);
		stats_tally(info->state, row_reader_depth(&row), -1);
		done = true;
		break;
	}
	row_reader_end(&row);
	archive_write(&archive, rel, info);
	return done;
}

/*
 * Remove every task that is not leased, of one group or (NULL) of all.
 * Returns how many.
 */
int64
settle_purge(Relation rel, QueueInfo *info, const text *group)
{
	int			queue = queue_state_number(info->state);
	Snapshot	snapshot = row_reader_snapshot();
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	ArchiveBatch archive = {0};
	Placement	placement;
	RowReader	row;
	HeapTuple	tuple = NULL;
	int64		purged = 0;
	bool		look = false;
	bool		again = false;
	HASHCTL		ctl = {0};
	HTAB	   *counts;
	HASH_SEQ_STATUS status;
	GroupCount *count;

	ctl.keysize = sizeof(uint32);
	ctl.entrysize = sizeof(GroupCount);
	ctl.hcxt = CurrentMemoryContext;
	counts = hash_create("pgfairq purged tasks", 64, &ctl,
						 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	durable_leases_require(rel, info);
	placement_begin(&placement, rel, info);		/* as in settle_cancel */

	/* What is removed is not to be charged for. */
	if (info->policy == QUEUE_FAIR && group == NULL)
		pending_purged(info->state, NULL);
	for (int class = 0; info->policy == QUEUE_FAIR && group != NULL && class < FAIRQ_CLASSES; class++)
	{
		GroupTag	tag;

		if (groups_look(info->state, class, VARDATA_ANY(group),
						VARSIZE_ANY_EXHDR(group), &tag))
			pending_purged(info->state, &tag);
	}

	row_reader_begin(&row, rel, info);
	while (again || (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		ItemPointerData tid = tuple->t_self;
		FairqAddress address;
		LeaseInfo	lease;
		bool		addressed;
		bool		leased;
		bool		isnull;
		Datum		id = heap_getattr(tuple, info->columns[COLUMN_ID],
									  RelationGetDescr(rel), &isnull);

		CHECK_FOR_INTERRUPTS();
		again = false;

		/* Where it is now: it may have been promoted, retried, or replaced. */
		switch (row_reader_lock_task(&row, DatumGetInt64(id), &tid))
		{
			case ROW_LIVE:
				leased = leases_find(queue, DatumGetInt64(row_value(&row, COLUMN_ID)), &lease);
				row_reader_unlock(&row);
				break;
			case ROW_OWN:
				leased = leases_find(queue, DatumGetInt64(row_value(&row, COLUMN_ID)), &lease);
				break;
			default:
				continue;
		}
		if (leased)
			continue;
		if (group != NULL &&
			!row_reader_same_group(DatumGetTextPP(row_value(&row, COLUMN_GROUP_KEY)), group))
			continue;

		tid = row.tuple.t_self;
		addressed = !row_is_null(&row, COLUMN_ADDRESS);
		if (addressed)
		{
			address = *DatumGetFairqAddressP(row_value(&row, COLUMN_ADDRESS));
			pending_lower_at_abort(placement_lane(info, &address), &address);
		}
		again = !row_writer_delete(rel, &tid, true);
		if (again)
			continue;			/* moved meanwhile, or gone */
		if (!settle_deleted(&row, &archive))
			count_purged(counts, &row);
		look |= !row_is_null(&row, COLUMN_UNIQUE_KEY);
		stats_tally(info->state, row_reader_depth(&row), -1);
		purged++;
	}
	hash_seq_init(&status, counts);
	while ((count = hash_seq_search(&status)) != NULL)
	{
		if (count->ready > 0)
			pending_ready_removed(info->state, count->group, count->ready);
		if (count->overflow > 0)
			pending_overflow_removed(info->state, count->group, count->overflow);
	}
	hash_destroy(counts);
	if (look)
		pending_look(info->state);
	row_reader_end(&row);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	archive_write(&archive, rel, info);
	return purged;
}

/*
 * Make the dead task that row has read ready again, with all its attempts.  Is
 * another one of its unique key in flight, it is held behind that; does another
 * one wait, it stays dead.
 */
static bool
revive_task(Placement *placement, RowReader *row)
{
	QueueInfo  *info = row->info;
	bool		has_key = !row_is_null(row, COLUMN_UNIQUE_KEY);
	UniqueKey	key = {.found = KEY_FREE};
	bool		done = false;

	row_value(row, COLUMN_ATTEMPTS) = Int32GetDatum(0);
	set_due(row, GetCurrentTimestamp());
	if (has_key)
		unique_keys_take_for_revival(row->rel, info,
									 DatumGetTextPP(row_value(row, COLUMN_UNIQUE_KEY)),
									 &key);
	switch (key.found)
	{
		case KEY_FREE:
			done = placement_replace(placement, row, true);
			break;
		case KEY_IN_FLIGHT:
			row_value(row, COLUMN_STATE) = CharGetDatum(TASK_HELD);
			pending_reserve(4);
			done = row_writer_update(row->rel, info, &row->tuple.t_self,
										 row->values, row->nulls, true);
			if (done)
			{
				pending_task_held(info->state,
								   DatumGetInt64(row_value(row, COLUMN_ID)), key.id);
				count_move(info, TASK_DEAD, TASK_HELD);
			}
			break;
		case KEY_WAITING:
			break;
	}
	if (has_key)
		unique_keys_let_go(&key);
	return done;
}

/*
 * Make dead tasks ready again, with all their attempts: one, or all.  Returns
 * how many.
 */
int64
settle_revive(Relation rel, QueueInfo *info, bool all, int64 id)
{
	Placement	placement;
	RowReader	row;
	int64		revived = 0;
	TableScanDesc scan = NULL;
	Snapshot	snapshot = NULL;
	ItemPointerData tid;
	RowStatus	status;

	placement_begin(&placement, rel, info);
	row_reader_begin(&row, rel, info);
	if (all)
	{
		snapshot = row_reader_snapshot();
		scan = table_beginscan(rel, snapshot, 0, NULL);
	}
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (all)
		{
			HeapTuple	tuple = heap_getnext(scan, ForwardScanDirection);

			if (tuple == NULL)
				break;
			/* Those that died in our own transaction, too. */
			tid = tuple->t_self;
			status = row_reader_read(&row, &tid);
			if (status != ROW_LIVE && status != ROW_OWN)
				continue;
		}
		else if (!read_task(&row, id, NULL))
			break;

		if (DatumGetChar(row_value(&row, COLUMN_STATE)) == TASK_DEAD &&
			revive_task(&placement, &row))
			revived++;
		if (!all)
			break;
	}
	if (scan != NULL)
	{
		table_endscan(scan);
		UnregisterSnapshot(snapshot);
	}
	row_reader_end(&row);
	return revived;
}
