/*-------------------------------------------------------------------------
 *
 * row_trigger.c
 *	  Rows of queues that are written by others than us.
 *
 * A queue is an ordinary table, and users write to it: with SQL, with COPY,
 * through logical replication.  The row trigger of the table, which is
 * fired always, tells the engine of such rows, so that they are handed
 * over like all others.  Our own writes fire no triggers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "utils/rel.h"

#include "common/shared_memory.h"
#include "shmem/groups.h"
#include "shmem/stats.h"
#include "shmem/waiters.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "verbs/held_tasks.h"
#include "verbs/placement.h"
#include "xact/pending.h"
#include "xact/pending_ended.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

PG_FUNCTION_INFO_V1(fairq_row_written);

/*
 * The overflow is found by priority class, so a row with one that is none is
 * refused, as it is by enqueue.
 */
static void
check_class(RowReader *row)
{
	int64		priority = DatumGetInt64(row_value(row, COLUMN_PRIORITY));
	int			classes = row->info->state->classes;

	if (priority < 0 || priority >= classes)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("priority " INT64_FORMAT " is out of range for queue \"%s\"",
						priority, row->info->name),
				 errhint("Under policy \"fair\" priorities must be 0 to %d.", classes - 1)));
}

/*
 * Is it known what a queue has?  If not, who counts the rows that there are is
 * to come by, or has just missed this one.
 */
static bool
is_counted(Relation rel, QueueInfo *info)
{
	if (info->state->recovery.groups == QUEUE_UNKNOWN)
	{
		pending_not_counted(info->state);
		return false;
	}
	recovery_tags(rel, info);
	return true;
}

/*
 * So is a row of policy fair whose place in virtual time is beyond all
 * others: a claim of it would take the whole class there, and the time is not
 * without end.
 */
static void
check_block(QueueInfo *info, const FairqAddress *address)
{
	if (address->block >= FAIRQ_TAGS_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("block " INT64_FORMAT " of the address is out of range for queue \"%s\"",
						address->block, info->name),
				 errhint("Under policy \"fair\" blocks must be less than " INT64_FORMAT ".",
						 FAIRQ_TAGS_ROWS)));
}

/* No removal that a row written is a part of. */
#define NOT_REMOVED		(-1)

/*
 * A row with an address, or in the overflow, was written, or (change -1)
 * removed: its group has one task more, or less.  *removed names the removal,
 * for the row that takes its place.
 */
static void
note_of_group(RowReader *row, int change, int *removed)
{
	QueueInfo  *info = row->info;
	GroupName	name = row_reader_group(row);
	bool		in_overflow = row_is_null(row, COLUMN_ADDRESS);
	int			class = row_reader_class(row);
	int64		id = DatumGetInt64(row_value(row, COLUMN_ID));
	GroupTag	tag;

	pending_reserve(2);
	if (change < 0)
	{
		if (groups_look(info->state, class, &name, &tag))
			*removed = pending_removed(info->state, class, tag.group, id, in_overflow, 0);
		return;
	}
	if (info->policy != QUEUE_FAIR)
		return;
	if (in_overflow)
		placement_prepare(info, class);
	tag.group = groups_begin_row(info->state, class, &name, in_overflow);
	if (in_overflow)
		pending_overflowed(info->state, tag.group, id, 1);
	pending_row_written(info->state, tag.group, id, in_overflow, *removed);
}

/*
 * A row is there (change 1) or not any more (change -1) when the transaction
 * has committed.
 */
static void
note_row(RowReader *row, int change, int *removed)
{
	QueueInfo  *info = row->info;
	char		task_state;
	bool		known;

	if (change > 0 && info->policy == QUEUE_FAIR)
		check_class(row);
	/* Who awaits the task looks what has become of it. */
	if (change < 0)
		pending_task_ended(info->state, DatumGetInt64(row_value(row, COLUMN_ID)), AWAITERS_LOOK);
	/* It may be held behind others, or others behind it. */
	task_state = row_is_null(row, COLUMN_STATE) ? TASK_READY :
		DatumGetChar(row_value(row, COLUMN_STATE));
	if (task_state == TASK_HELD || !row_is_null(row, COLUMN_UNIQUE_KEY))
		pending_look(info->state);

	if (change > 0 && !row_is_null(row, COLUMN_EXPIRES_AT) && task_state != TASK_DEAD)
		pending_expiry(info->state, DatumGetTimestampTz(row_value(row, COLUMN_EXPIRES_AT)));

	if (!row_is_null(row, COLUMN_ADDRESS))
	{
		FairqAddress address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
		Lane	   *lane = placement_lane(info, &address);

		if (change > 0 && info->policy == QUEUE_FAIR)
			check_block(info, &address);
		/* An old row is as it was if this is rolled back. */
		if (change > 0)
			pending_offer_at_commit(lane, &address, &row->tuple.t_self);
		else
			pending_offer_at_abort(lane, &address, &row->tuple.t_self);
		if (is_counted(row->rel, info))
			note_of_group(row, change, removed);
		stats_tally(info->state, QUEUE_ADDRESSED, change);
		return;
	}

	if (task_state_depth(task_state) == QUEUE_ADDRESSED)
		return;					/* ready, but nowhere: it is never claimed */
	known = is_counted(row->rel, info);
	stats_tally(info->state, task_state_depth(task_state), change);
	if (task_state == TASK_OVERFLOW && info->policy == QUEUE_FAIR && known)
		note_of_group(row, change, removed);
	if (task_state == TASK_SCHEDULED && change > 0 && !row_is_null(row, COLUMN_RUN_AT))
		pending_scheduled(info->state, DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)));
}

/*
 * Tasks may wait for one whose row is removed or changed: it has ended if it is
 * not there any more, or dead.
 */
static void
note_end(RowReader *old, RowReader *new)
{
	QueueInfo  *info = old->info;
	int64		id = DatumGetInt64(row_value(old, COLUMN_ID));

	if (likely(!successor_filter_any(&info->state->successors)))
		return;
	if (DatumGetChar(row_value(old, COLUMN_STATE)) == TASK_HELD)
		pending_task_held(info->state, id, 0);
	if (new == NULL || DatumGetInt64(row_value(new, COLUMN_ID)) != id)
		successors_ended(info, id, PREDECESSOR_REMOVED);
	else if (DatumGetChar(row_value(new, COLUMN_STATE)) == TASK_DEAD)
		successors_ended(info, id, PREDECESSOR_FAILED);
}

/*
 * fairq_internal.row_written(): row trigger after INSERT, UPDATE or DELETE.
 */
Datum
fairq_row_written(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	QueueInfo  *info;
	Relation	rel;
	RowReader	old;
	RowReader	new;
	int			removed = NOT_REMOVED;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_AFTER(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired AFTER ROW on INSERT, UPDATE or DELETE",
						"fairq_internal.row_written"),
				 errhint("fairq.create_queue() sets it up.")));

	/* Not preloaded: there is no engine to tell. */
	if (!shared_memory_ready())
		PG_RETURN_POINTER(NULL);
	if (!extension_version_is_ours && !extension_version_matches(0))
	{
		pending_read_again(RelationGetRelid(trigger->tg_relation));
		PG_RETURN_POINTER(NULL);
	}
	info = queue_open_relation(RelationGetRelid(trigger->tg_relation),
							   NoLock, 0, &rel);
	if (info == NULL)
		PG_RETURN_POINTER(NULL);

	/* What the readers have goes with the trigger's memory. */
	if (!TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
	{
		(void) row_reader_wait_writer(trigger->tg_trigtuple, true);
		row_reader_begin(&old, rel, info);
		row_reader_take(&old, trigger->tg_trigtuple);
		note_row(&old, -1, &removed);
	}
	if (!TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
	{
		row_reader_begin(&new, rel, info);
		row_reader_take(&new, TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ?
						trigger->tg_trigtuple : trigger->tg_newtuple);
	}
	if (!TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		note_end(&old, TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? &new : NULL);
	if (!TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		note_row(&new, 1, &removed);
	relation_close(rel, NoLock);
	PG_RETURN_POINTER(NULL);
}
