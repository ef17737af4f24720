/*-------------------------------------------------------------------------
 *
 * claim_turns.c
 *	  Claims that read on in the overflow of a group.
 *
 * When it is the turn of a group whose line is empty (turns.c) a claim reads
 * the next tasks of the line in the index, and their rows: for what they cost,
 * and to leave out what is gone, leased or in hands.  Nothing is written.
 *
 * Who inserts a task of the overflow, or has it leased, tells its line when
 * that is over.  A row that another transaction is changing or deleting is in
 * doubt (lane_doubts.c), and one of our own is read again when our transaction
 * ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/turns.h"
#include "storage/queue_index.h"
#include "verbs/claim.h"
#include "xact/pending.h"
#include "xact/pending_rows.h"

/* Entries of the index that are read at a time, and in all, about. */
#define LOOKS			64
#define MOST_LOOKS		4096

/* A line, as it is read. */
typedef struct LineReading
{
	RowReader  *row;
	Lane	   *lane;
	TurnRead	read;
	OverflowTask *tasks;
	int			n;
	int64		unread;			/* the first that our own transaction may have
								 * changed; PG_INT64_MAX: none */
	TransactionId doubtful;		/* noted to have tasks in hand */
} LineReading;

/*
 * A row of the line is being changed or deleted by another transaction: unless
 * the task is leased, in which case the lease's end tells.
 */
static void
note_doubt(LineReading *reading, int64 id)
{
	RowReader  *row = reading->row;
	LaneEntry	entry = lane_entry_last;
	LeaseInfo	lease;

	if (row->in_progress == reading->doubtful ||
		leases_find(queue_state_number(row->info->state), id, &lease))
		return;
	reading->doubtful = row->in_progress;
	lanes_entry_set_turn(&entry, id, 0);
	lane_doubts_add(reading->lane, row->in_progress, &entry, false);
}

/*
 * Look at an entry of the line.
 */
static void
look_at(LineReading *reading, int64 id, const ItemPointerData *tid)
{
	RowReader  *row = reading->row;
	QueueState *state = row->info->state;
	OverflowTask *task = &reading->tasks[reading->n];
	GroupName	name;
	LeaseInfo	lease;

	switch (row_reader_read(row, tid))
	{
		case ROW_GONE:
			/* It may be this transaction that has removed it. */
			if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
				reading->unread = Min(reading->unread, id);
			return;
		case ROW_OWN:
			reading->unread = Min(reading->unread, id);
			return;
		case ROW_IN_PROGRESS:
			if (row->deleting)
				note_doubt(reading, id);
			return;
		case ROW_IN_DOUBT:
			note_doubt(reading, id);
			return;
		case ROW_LIVE:
			break;
	}
	if (DatumGetInt64(row_value(row, COLUMN_ID)) != id ||
		DatumGetChar(row_value(row, COLUMN_STATE)) != TASK_OVERFLOW)
		return;
	name = row_reader_group(row);
	if (name.low != reading->read.key.low || name.high != reading->read.key.high ||
		leases_find(queue_state_number(state), id, &lease))
		return;
	/* One that has expired is for a pass to end. */
	if (row_reader_has_expired(row))
	{
		state->expiry.passed_over = true;
		return;
	}
	task->id = id;
	task->tid = row->tuple.t_self;
	task->cost = DatumGetFloat4(row_value(row, COLUMN_COST));
	reading->n++;
}

/*
 * Read on in the line of the first turn of a lane, or (not FAIRQ_NO_GROUP) of a
 * group, if that may have a task.  Returns false if there is nothing to read,
 * or another backend is reading.  If there is no room for what was read *taken
 * is 1, and the first task was taken, into *entry and *turn; or -1, if entry is
 * NULL.
 */
bool
claim_read_line(RowReader *row, Lane *lane, uint32 group, LaneEntry *entry, LaneTurn *turn,
				int *taken)
{
	LineReading reading = {
		.row = row,
		.lane = lane,
		.unread = PG_INT64_MAX,
	};
	OverflowRead line;
	int			looked = 0;

	*taken = 0;
	if (turns_read_dropped(lane, group) ||
		(pg_atomic_read_u32(&row->info->state->limits.entries) > 0 &&
		 turns_block_unread(lane, group)))
		return true;
	pending_reserve(1);
	if (!turns_read_begin(lane, group, &reading.read))
		return false;
	reading.tasks = palloc((reading.read.max + LOOKS) * sizeof(OverflowTask));
	line.hash = (int64) reading.read.key.low;
	line.class = reading.read.key.class;
	line.kept = &row->overflow;
	line.ids = palloc((reading.read.max + LOOKS) * sizeof(int64));
	line.tids = palloc((reading.read.max + LOOKS) * sizeof(ItemPointerData));
	line.next.id = reading.read.from;
	ItemPointerSetInvalid(&line.next.tid);

	/* Not to between the entries of one id: what the line keeps is the id. */
	while (line.next.id != PG_INT64_MAX &&
		   ((reading.n < reading.read.max && looked < MOST_LOOKS) ||
			ItemPointerIsValid(&line.next.tid)))
	{
		int			n;

		CHECK_FOR_INTERRUPTS();
		line.max = Max(reading.read.max - reading.n, 1);
		n = queue_index_overflow(row->rel, row->info, &line);
		looked += n;
		for (int i = 0; i < n && reading.n < reading.read.max + LOOKS; i++)
		{
			if (i % LOOKS == 0)
				row_reader_fetch(row, &line.tids[i], sizeof(ItemPointerData), Min(LOOKS, n - i));
			look_at(&reading, line.ids[i], &line.tids[i]);
		}
	}
	if (reading.unread != PG_INT64_MAX)
		pending_overflow_unread(row->info->state, reading.read.key.class, reading.read.group,
								reading.unread);
	*taken = turns_read_end(reading.tasks, reading.n, line.next.id, entry, turn);
	pfree(reading.tasks);
	pfree(line.ids);
	pfree(line.tids);
	return true;
}
