/*-------------------------------------------------------------------------
 *
 * sweep.c
 *	  Looking for tasks that were not handed over.
 *
 * Rows become claimable when they are handed over (pending.c).  If a row ever
 * slips by, by a mistake of ours or of the server's, no claim finds it until
 * the next restart: it lies before its lane's frontier and is in no window.
 * So now and then a pass looks.  It is to find nothing; what it finds is
 * counted, and in the log.
 *
 * Ids grow with time, so the index on id is read forwards, each part of it
 * once:
 *
 *	 A record says up to which id ids had been given out at a moment, and which
 *	 transaction id was next.  Whoever has one of these ids had a transaction id
 *	 before (row_writer_new_ids).  So when the oldest running transaction,
 *	 prepared ones included, is not older than that, all rows with these ids are
 *	 there or never will be: they are looked at, for good, and the next record
 *	 is made.  A snapshot that is held for hours does not matter, and entries of
 *	 rows that are gone are met once.
 *
 *	 A transaction that writes and stays open for long keeps the record from
 *	 being settled.  Meanwhile later ids are looked at as well, once, so that
 *	 what slipped by does not wait for it; and for good when it has ended.
 *
 * So a task is looked at once or twice in all.  That does not cover tasks that
 * are put back long after they came: nacked, released, promoted.  For those,
 * and for ids of direct SQL that do not follow the sequence, a hand goes round
 * the whole index, so many entries a sweep, for as long as there is any
 * activity.
 *
 * A row between its transaction's end and its hand-over, or between window
 * and lease, looks as if it were lost.  So it is missing at first, and
 * looked up again a moment later, when no backend has had any in hand for so
 * long (transit_horizon.c); and some times more if a backend has new ones by
 * then, which may be the same.  A task that is offered without being lost
 * does no harm: it has one offer too many, which is dropped.
 *
 * A sweep is begun every pgfairq.sweep_interval if there is anything new; if
 * not there is none, until an id is taken.
 *
 * Locking: QueueSweep is guarded by the maintenance lock of the queue, but for
 * what its fields say.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "shmem/groups.h"
#include "shmem/queue_state.h"
#include "shmem/stats.h"
#include "storage/procarray.h"
#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "common/settings.h"
#include "maintenance/maintain.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/turns.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/* Entries of the index that a pass looks at. */
#define SWEEP_ENTRIES	1000

/* Entries that the hand looks at in a sweep. */
#define HAND_ENTRIES	500

/*
 * In microseconds: how long a sweep waits for the transactions that were
 * running when it began, and how long after a first look a missing task is
 * looked up.
 */
#define SETTLE_USECS	INT64CONST(200000)
#define MISSING_USECS	INT64CONST(300000)

/*
 * How long to wait, in all, for backends that have had tasks in hand since
 * then.  One that has them for longer is stuck, and a task that is lost is
 * not to wait for it.
 */
#define TRANSIT_USECS	INT64CONST(10000000)

/*
 * How many looks must not find a task, if during each of them a backend had
 * tasks in hand that it had not at the look before.  One look may miss a task
 * that is in hand just then, such as one that is claimed and released all the
 * time; several looks in a row hardly do.
 */
#define MISSING_LOOKS	8

/* A pass in progress. */
typedef struct Sweeper
{
	QueueInfo  *info;
	QueueSweep *sweep;
	RowReader	row;
	TimestampTz now;
	int			found;			/* tasks that were lost */
	bool		full;			/* there is no room for another missing task */
} Sweeper;

/*
 * Will no pass come across the task that row has read, which has an
 * expires_at, when it has expired?
 */
static bool
expiry_is_overlooked(QueueState *state, RowReader *row)
{
	LeaseInfo	lease;

	return DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_DEAD &&
		!index_cursor_has(&state->expiry.cursor,
						  DatumGetTimestampTz(row_value(row, COLUMN_EXPIRES_AT))) &&
		!row_reader_lease(row, &lease);
}

/*
 * Is the task that row has read one that no claim will come across?
 */
static bool
is_overlooked(QueueInfo *info, RowReader *row)
{
	QueueState *state = info->state;
	const FairqAddress *address;
	LeaseInfo	lease;
	Lane	   *lane;
	GroupName	name;
	GroupTag	tag;
	int			class;
	int64		id;

	if (!row_is_null(row, COLUMN_EXPIRES_AT))
	{
		if (expiry_is_overlooked(state, row))
			return true;
		/* Claims pass it over, and no place is kept for it. */
		if (row_reader_has_expired(row))
			return false;
	}

	/* What else can be lost belongs here, with how to mend it below. */
	switch (DatumGetChar(row_value(row, COLUMN_STATE)))
	{
		case TASK_READY:
			if (row_is_null(row, COLUMN_ADDRESS))
				return false;	/* written by SQL; not to be claimed */
			address = DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
			if (address->class >= state->classes)
				return false;
			lane = lanes_of(&state->orders[address->class].lanes, address->bucket);

			/* A lane that is not set up yet finds its rows when it is. */
			if ((lane != NULL ? lanes_has(lane, address) : !state->recovery.classes) ||
				row_reader_lease(row, &lease))
				return false;

			/*
			 * Of a group at its limit any task may be set aside; those that
			 * are not are found when it has gone on.
			 */
			name = row_reader_group(row);
			return !limited_groups_waits(state, &name);
		case TASK_SCHEDULED:
			if (row_is_null(row, COLUMN_RUN_AT))
				return false;
			return !index_cursor_has(&state->due,
									 DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)));
		case TASK_OVERFLOW:
			class = row_reader_class(row);
			id = DatumGetInt64(row_value(row, COLUMN_ID));
			if (info->policy != QUEUE_FAIR || state->recovery.groups != QUEUE_KNOWN ||
				leases_find(queue_state_number(state), id, &lease) ||
				id >= queue_order_lost(&state->orders[class]))
				return false;

			name = row_reader_group(row);
			return !groups_look(state, class, &name, &tag) || !turns_have(tag.group, id);
		default:
			/* Held tasks are looked at by a pass of their own. */
			return false;
	}
}

/*
 * Hand the task over, when this transaction commits; or have a pass find it.
 */
static void
mend(QueueInfo *info, RowReader *row)
{
	if (!row_is_null(row, COLUMN_EXPIRES_AT) && expiry_is_overlooked(info->state, row))
		pending_expiry(info->state,
					   DatumGetTimestampTz(row_value(row, COLUMN_EXPIRES_AT)));
	else if (DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_READY)
	{
		const FairqAddress *address =
			DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));

		pending_offer_at_commit(placement_lane(info, address), address,
								&row->tuple.t_self);
	}
	else if (DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW)
		queue_order_overflow_lost(info->state, row_reader_class(row),
								  DatumGetInt64(row_value(row, COLUMN_ID)));
	else
		pending_scheduled(info->state,
						  DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)));
	stats_tally(info->state, QUEUE_SWEPT, 1);
}

static void
report(Sweeper *sweeper)
{
	if (sweeper->found == 0 || sweeper->sweep->reported)
		return;
	sweeper->sweep->reported = true;
	ereport(LOG,
			(errmsg("sweep of queue \"%s\" found claimable tasks that were in no lane: %d",
					sweeper->info->name, sweeper->found),
			 errdetail("What it found can be claimed now. Further tasks are counted in column \"swept\" of fairq.queue_stats."),
			 errhint("Please report this to the authors of pgfairq.")));
}

/*
 * May a missing task that this look did not find either be in others' hands?
 * It is, if tasks have been all the time since the look before; if a backend
 * has some now, or had, it may be, and is given some looks more.
 *
 * before is since when a backend has had tasks in hand, just before the look.
 * A backend that had this one in hand during the look had it by then, or has
 * taken it since and has it still.  One that took it and let go of it within
 * the look would have to be met in the looks before as well.
 */
static bool
may_be_in_hand(MissingTask *task, TimestampTz before, TimestampTz now)
{
	TimestampTz oldest = transit_horizon_oldest();

	oldest = Min(oldest, before);
	if (now >= task->since + TRANSIT_USECS)
		return false;
	if (oldest <= task->since)
		return true;
	if (oldest == DT_NOEND || task->looks == MISSING_LOOKS)
		return false;
	task->since = GetCurrentTimestamp();
	task->looks++;
	return true;
}

/*
 * Look up those that have been missing for long enough.
 */
static void
judge_missing(Sweeper *sweeper)
{
	QueueSweep *sweep = sweeper->sweep;
	MissingTask missing[SWEEP_MISSING];
	int			n = 0;
	int			looked = 0;
	int			lost = 0;

	for (int i = 0; i < sweep->missing_count; i++)
	{
		MissingTask *task = &sweep->missing[i];

		if (task->since + MISSING_USECS <= sweeper->now)
		{
			TimestampTz before = transit_horizon_oldest();

			CHECK_FOR_INTERRUPTS();
			looked++;
			if (row_reader_task(&sweeper->row, task->id, NULL) != ROW_LIVE ||
				!is_overlooked(sweeper->info, &sweeper->row))
				continue;
			if (!may_be_in_hand(task, before, sweeper->now))
			{
				mend(sweeper->info, &sweeper->row);
				lost++;
				continue;
			}
		}
		missing[n++] = *task;
	}
	if (looked == 0)
		return;
	memcpy(sweep->missing, missing, n * sizeof(MissingTask));
	sweep->missing_count = n;

	/* If most of them were lost, so will others be: no need to wait. */
	sweep->lossy = sweep->under_way && lost > looked / 2;
	sweeper->found += lost;
}

/*
 * Have a task looked up again in a while.  False if there is no room.
 */
static bool
miss(Sweeper *sweeper, int64 id)
{
	QueueSweep *sweep = sweeper->sweep;

	for (int i = 0; i < sweep->missing_count; i++)
	{
		if (sweep->missing[i].id == id)
			return true;		/* the hand comes across it, too */
	}
	if (sweep->missing_count == SWEEP_MISSING)
		return false;

	/* Not when the pass began: who has it in hand may have come since. */
	sweep->missing[sweep->missing_count++] = (MissingTask) {id, GetCurrentTimestamp(), 1};
	return true;
}

/*
 * Look at the rows of the ids from *from on, below upto: at up to max entries
 * of the index.  *from is moved, to upto if there are no more.
 */
static void
look_at_ids(Sweeper *sweeper, IndexPosition *from, int64 upto, int max)
{
	QueueSweep *sweep = sweeper->sweep;
	RowReader  *row = &sweeper->row;
	PlaceRead	read = {
		.max = max,
		.last = upto - 1,
		.next = *from,
	};
	int			n;

	if (sweeper->full || from->due >= upto)
		return;
	read.entries = palloc(max * sizeof(IndexPosition));
	n = queue_index_places(row->rel, sweeper->info->id_index, &read);
	if (read.next.due > upto)
		read.next.due = upto;
	for (int i = 0; i < n && !sweeper->full; i++)
	{
		CHECK_FOR_INTERRUPTS();

		/*
		 * A row in the hands of a transaction is that one's to hand over, or
		 * its lane's to remember.
		 */
		if (row_reader_read(row, &read.entries[i].tid) != ROW_LIVE ||
			!is_overlooked(sweeper->info, row))
			continue;
		if (sweep->lossy)
		{
			mend(sweeper->info, row);
			sweeper->found++;
		}
		else if (!miss(sweeper, DatumGetInt64(row_value(row, COLUMN_ID))))
		{
			sweeper->full = true;
			read.next = read.entries[i];
		}
	}
	pfree(read.entries);
	*from = read.next;
}

/* What has happened to a queue, in one number that changes whenever it does. */
static uint64
activity(QueueState *state)
{
	uint64		result = 0;

	for (int i = QUEUE_ENQUEUED; i <= QUEUE_DIED; i++)
		result += pg_atomic_read_u64(&state->tallies.n[i]);
	return result;
}

/*
 * Is there anything that has not been looked at?  If not, the next backend
 * that takes an id wakes the worker.
 */
static bool
is_wanted(QueueState *state)
{
	QueueSweep *sweep = &state->sweep;

	return sweep->under_way || sweep->missing_count > 0 || sweep->record_id > 0 ||
		sweep->activity != activity(state) ||
		!queue_state_sweep_sleeps(state, sweep->done.due);
}

/* When the next sweep is to begin. */
static TimestampTz
next_sweep(const QueueSweep *sweep)
{
	return sweep->begun_at + settings_sweep_interval * INT64CONST(1000);
}

/*
 * Would a pass do anything now?
 */
bool
sweep_is_due(QueueInfo *info, TimestampTz now)
{
	return settings_sweep_interval > 0 &&
		next_sweep(&info->state->sweep) <= now && is_wanted(info->state);
}

/*
 * Has everything ended that was running when the record was made?
 */
static bool
is_settled(const QueueSweep *sweep)
{
	FullTransactionId next = ReadNextFullTransactionId();
	TransactionId oldest = GetOldestActiveTransactionId();
	uint32		age = XidFromFullTransactionId(next) - oldest;

	/* More transactions may have begun between the two looks. */
	if ((int32) age < 0)
		age = 0;
	return U64FromFullTransactionId(next) - age >= sweep->record_xid;
}

static void
begin_sweep(Sweeper *sweeper)
{
	QueueState *state = sweeper->info->state;
	QueueSweep *sweep = sweeper->sweep;
	int64		first;
	int64		end;

	sweep->under_way = true;
	sweep->lossy = false;
	sweep->begun_at = sweeper->now;
	sweep->turn_hand = (sweep->activity != activity(state));
	sweep->activity = activity(state);
	if (sweep->record_id > 0)
		return;

	/*
	 * The ids first: whoever has one of them has a transaction id by now.  Of
	 * ids from before the server's start the lanes know nothing, so that
	 * their tasks are found in the index.
	 */
	queue_state_ids(state, &first, &end);
	sweep->done.due = Max(sweep->done.due, first);
	sweep->record_id = end;
	sweep->record_xid = U64FromFullTransactionId(ReadNextFullTransactionId());
}

/*
 * Look on.  Returns whether there is more to do now.
 */
static bool
go_on(Sweeper *sweeper)
{
	QueueSweep *sweep = sweeper->sweep;

	if (is_settled(sweep))
	{
		look_at_ids(sweeper, &sweep->done, sweep->record_id, SWEEP_ENTRIES);
		if (sweep->done.due < sweep->record_id)
			return !sweeper->full;
		sweep->record_id = 0;
	}
	else if (sweeper->now < sweep->begun_at + SETTLE_USECS)
		return false;
	else
	{
		int64		first;
		int64		end;

		queue_state_ids(sweeper->info->state, &first, &end);
		if (index_cursor_compare(&sweep->looked, &sweep->done) < 0)
			sweep->looked = sweep->done;
		look_at_ids(sweeper, &sweep->looked, end, SWEEP_ENTRIES);
		if (sweep->looked.due < end)
			return !sweeper->full;
	}

	/* Not if it might meet what has just been mended. */
	if (sweep->turn_hand && !sweep->lossy)
		look_at_ids(sweeper, &sweep->hand, PG_INT64_MAX, HAND_ENTRIES);
	if (sweep->hand.due == PG_INT64_MAX)
		sweep->hand.due = PG_INT64_MIN;
	sweep->under_way = false;
	return false;
}

/*
 * Do what there is to do of a sweep, up to a bound; begin one if it is time,
 * or in the first pass that a user wishes.  Returns whether there is more to
 * do now.
 *
 * What is found is handed over when the transaction commits.
 */
bool
sweep_pass(Pass *pass, bool by_hand, bool first)
{
	QueueInfo  *info = pass->info;
	TimestampTz now = pass->now;
	QueueSweep *sweep = &info->state->sweep;
	Sweeper		sweeper = {
		.info = info,
		.sweep = sweep,
		.now = now,
	};
	bool		begin;
	bool		more = false;

	AssertMaintenanceLocked(pass->rel);
	if ((settings_sweep_interval == 0 && !by_hand) || !is_wanted(info->state))
		return false;
	begin = by_hand ? first : (now >= next_sweep(sweep));

	row_reader_begin(&sweeper.row, pass->rel, info);
	judge_missing(&sweeper);
	if (begin && !sweep->under_way)
		begin_sweep(&sweeper);
	if (sweep->under_way)
		more = go_on(&sweeper);
	row_reader_end(&sweeper.row);
	report(&sweeper);

	/* By then all of them have been missing for long enough. */
	if (sweep->missing_count > 0)
		pass_again(pass, GetCurrentTimestamp() + MISSING_USECS);
	/* If there is no room it goes on when some of these are judged. */
	if (sweep->under_way && !sweeper.full)
		pass_again(pass, Max(now, sweep->begun_at + SETTLE_USECS));
	else if (settings_sweep_interval > 0 && is_wanted(info->state))
		pass_again(pass, next_sweep(sweep));
	return more;
}
