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
check_class(QueueInfo *info, HeapTuple tuple, TupleDesc tupdesc)
{
	bool		isnull;
	int64		priority = DatumGetInt64(heap_getattr(tuple, info->columns[COLUMN_PRIORITY],
													  tupdesc, &isnull));

	if (priority < 0 || priority >= info->state->classes)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("priority " INT64_FORMAT " is out of range for queue \"%s\"",
						priority, info->name),
				 errhint("Under policy \"fair\" priorities must be 0 to %d.",
						 info->state->classes - 1)));
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

/* What the task of a row counts for. */
static GroupName
name_of(QueueInfo *info, HeapTuple tuple, TupleDesc tupdesc)
{
	bool		isnull;
	bool		none;
	Datum		group = heap_getattr(tuple, info->columns[COLUMN_GROUP_KEY], tupdesc, &isnull);
	Datum		subgroup = heap_getattr(tuple, info->columns[COLUMN_SUBGROUP_KEY], tupdesc,
										&none);

	return queue_catalog_group(info, DatumGetTextPP(group),
							   none ? NULL : DatumGetTextPP(subgroup));
}

/*
 * A row with an address (else NULL: in the overflow) was written, or (change
 * -1) removed: its group has one task more, or less.
 */
static void
note_of_group(Relation rel, QueueInfo *info, HeapTuple tuple, TupleDesc tupdesc,
			  const FairqAddress *address, int change)
{
	bool		isnull;
	GroupName	name = name_of(info, tuple, tupdesc);
	int64		priority = DatumGetInt64(heap_getattr(tuple, info->columns[COLUMN_PRIORITY],
													  tupdesc, &isnull));
	int			class = address ? address->class : queue_state_class(info->state, priority);
	int64		id = DatumGetInt64(heap_getattr(tuple, info->columns[COLUMN_ID],
												tupdesc, &isnull));
	GroupTag	tag;

	pending_reserve(2);
	if (change < 0)
	{
		if (groups_look(info->state, class, &name, &tag))
			pending_removed(info->state, tag.group, id, address);
		return;
	}
	if (info->policy != QUEUE_FAIR)
		return;
	if (address != NULL)
		tag.group = groups_begin_row(info->state, class, &name);
	else
	{
		placement_prepare(info, class);
		group_overflow_begins(info->state, class, &name, &tag);
		pending_overflowed(info->state, tag.group, id, 1);
	}
	pending_row_written(info->state, tag.group, id, address == NULL);
}

/*
 * A row is there (change 1) or not any more (change -1) when the transaction
 * has committed.
 */
static void
note_row(Relation rel, QueueInfo *info, HeapTuple tuple, TupleDesc tupdesc, int change)
{
	bool		isnull;
	bool		known;
	Datum		value;
	char		task_state;

	if (change > 0 && info->policy == QUEUE_FAIR)
		check_class(info, tuple, tupdesc);
	/* Who awaits the task looks what has become of it. */
	if (change < 0)
		pending_task_ended(info->state,
						   DatumGetInt64(heap_getattr(tuple, info->columns[COLUMN_ID],
													  tupdesc, &isnull)),
						   AWAITERS_LOOK);
	/* It may be held behind others, or others behind it. */
	value = heap_getattr(tuple, info->columns[COLUMN_STATE], tupdesc, &isnull);
	task_state = isnull ? TASK_READY : DatumGetChar(value);
	if (task_state == TASK_HELD ||
		!heap_attisnull(tuple, info->columns[COLUMN_UNIQUE_KEY], tupdesc))
		pending_look(info->state);

	value = heap_getattr(tuple, info->columns[COLUMN_EXPIRES_AT], tupdesc, &isnull);
	if (change > 0 && !isnull && task_state != TASK_DEAD)
		pending_expiry(info->state, DatumGetTimestampTz(value));

	value = heap_getattr(tuple, info->columns[COLUMN_ADDRESS], tupdesc, &isnull);
	if (!isnull)
	{
		FairqAddress address = *DatumGetFairqAddressP(value);
		Lane	   *lane = placement_lane(info, &address);

		if (change > 0 && info->policy == QUEUE_FAIR)
			check_block(info, &address);
		/* An old row is as it was if this is rolled back. */
		if (change > 0)
			pending_offer_at_commit(lane, &address, &tuple->t_self);
		else
			pending_offer_at_abort(lane, &address, &tuple->t_self);
		if (is_counted(rel, info))
			note_of_group(rel, info, tuple, tupdesc, &address, change);
		stats_tally(info->state, QUEUE_ADDRESSED, change);
		return;
	}

	if (task_state_depth(task_state) == QUEUE_ADDRESSED)
		return;					/* ready, but nowhere: it is never claimed */
	known = is_counted(rel, info);
	stats_tally(info->state, task_state_depth(task_state), change);
	if (task_state == TASK_OVERFLOW && info->policy == QUEUE_FAIR && known)
		note_of_group(rel, info, tuple, tupdesc, NULL, change);
	if (task_state == TASK_SCHEDULED)
	{
		value = heap_getattr(tuple, info->columns[COLUMN_RUN_AT], tupdesc, &isnull);
		if (change > 0 && !isnull)
			pending_scheduled(info->state, DatumGetTimestampTz(value));
	}
}

/*
 * Tasks may wait for one whose row is removed or changed: it has ended if it is
 * not there any more, or dead.
 */
static void
note_end(QueueInfo *info, TupleDesc tupdesc, HeapTuple old, HeapTuple new)
{
	bool		isnull;
	AttrNumber	id_column = info->columns[COLUMN_ID];
	AttrNumber	state_column = info->columns[COLUMN_STATE];
	int64		id = DatumGetInt64(heap_getattr(old, id_column, tupdesc, &isnull));

	if (likely(!successor_filter_any(&info->state->successors)))
		return;
	if (DatumGetChar(heap_getattr(old, state_column, tupdesc, &isnull)) == TASK_HELD)
		pending_task_held(info->state, id, 0);
	if (new == NULL || DatumGetInt64(heap_getattr(new, id_column, tupdesc, &isnull)) != id)
		successors_ended(info, id, PREDECESSOR_REMOVED);
	else if (DatumGetChar(heap_getattr(new, state_column, tupdesc, &isnull)) == TASK_DEAD)
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
	TupleDesc	tupdesc;

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
	tupdesc = RelationGetDescr(rel);

	if (!TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		note_row(rel, info, trigger->tg_trigtuple, tupdesc, -1);
	if (!TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		note_end(info, tupdesc, trigger->tg_trigtuple,
				 TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : NULL);
	if (!TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
		note_row(rel, info, TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ?
				 trigger->tg_trigtuple : trigger->tg_newtuple, tupdesc, 1);
	relation_close(rel, NoLock);
	PG_RETURN_POINTER(NULL);
}
