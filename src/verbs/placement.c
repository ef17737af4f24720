/*-------------------------------------------------------------------------
 *
 * placement.c
 *	  Giving a task its place in the order.
 *
 * The address is the schedule (idea 1 of src/README.md), and here it is made:
 * under policy fair from the group's tags, by start-time fair queueing; under
 * policy priority and time the block is the number given, and the slot the
 * task's id, so that ties are served first come, first served.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "shmem/groups.h"
#include "shmem/queue_state.h"
#include "shmem/stats.h"
#include "shmem/waiters.h"
#include "storage/recovery.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/*
 * Before a statement gives places to tasks.
 */
void
placement_begin(Placement *placement, Relation rel, QueueInfo *info)
{
	placement->info = info;
	memset(placement->read, 0, sizeof(placement->read));
	recovery_tags(rel, info);
}

/*
 * Tasks of a priority are going to be placed, now or when it is their turn: see
 * to it that there are lanes for them.
 */
void
placement_prepare(QueueInfo *info, int64 priority)
{
	(void) queue_catalog_lane(info, info->policy == QUEUE_FAIR ? priority : 0, 0);
}

/* What the place of the task goes by whose row was read. */
static PlaceFor
place_for(RowReader *row, TimestampTz run_at, bool may_overflow)
{
	PlaceFor	task = {
		.group_key = DatumGetTextPP(row_value(row, COLUMN_GROUP_KEY)),
		.subgroup_key = row_is_null(row, COLUMN_SUBGROUP_KEY) ? NULL :
		DatumGetTextPP(row_value(row, COLUMN_SUBGROUP_KEY)),
		.priority = DatumGetInt64(row_value(row, COLUMN_PRIORITY)),
		.run_at = run_at,
		.cost = DatumGetFloat4(row_value(row, COLUMN_COST)),
		.may_overflow = may_overflow,
	};

	return task;
}

/*
 * The place of one task.
 *
 * Under policy fair there may be no room for it (max_ready,
 * max_ready_per_group): if it may overflow, it does.  The other policies are
 * orders by a number, in which a task that waits elsewhere would be out of
 * order.
 */
void
placement_assign(Placement *placement, const PlaceFor *task, Place *place)
{
	QueueInfo  *info = placement->info;
	FairqAddress *address = &place->address;
	GroupName	name = queue_catalog_group(info, task->group_key, task->subgroup_key);

	Assert(task->group_key != NULL);
	place->waiters = waiters_group(&name);
	address->unused = 0;
	address->class = 0;
	address->fraction = 0;
	address->slot = task->turn;
	place->tagged = (info->policy == QUEUE_FAIR);
	place->overflow = false;
	switch (info->policy)
	{
		case QUEUE_FAIR:
			{
				int			class = queue_state_class(info->state, task->priority);

				if (!placement->read[class])
				{
					/* First: if it fails, no tag has to be given back. */
					placement_prepare(info, class);
					placement->v[class] =
						queue_order_virtual_time(&info->state->orders[class]);
					placement->read[class] = true;
				}
				/* The caller notes what the tag owes, and must not fail. */
				pending_reserve(1);
				place->tag.start = placement->v[class];
				if (unlikely(task->first))
					groups_tag_first(info->state, class, &name, (uint32) task->turn,
									 &place->tag);
				else
					place->overflow = !groups_tag(info->state, class, &name, task->cost,
												  task->may_overflow, &place->tag);
				if (place->overflow)
					return;
				address->class = class;
				address->block = place->tag.start.whole;
				address->fraction = place->tag.start.fraction;
				address->slot = place->tag.slot;
			}
			break;
		case QUEUE_PRIORITY:
			address->block = task->priority;
			break;
		case QUEUE_TIME:
			address->block = task->run_at;
			break;
	}
	address->bucket = address_bucket_of(address->block, address->fraction,
										address->slot, info->buckets);
	place->lane = placement_lane(info, address);
}

/*
 * Write the task that row has read in a place: it is ready when the transaction
 * commits, or in the overflow of its group if there is no room;
 * row->tuple.t_self says where.  Returns false if another transaction changed
 * it, or has it locked and wait is false.
 */
static bool
write_place(RowReader *row, const Place *place, bool wait)
{
	QueueInfo  *info = row->info;
	QueueCounter from = row_reader_depth(row);
	int			placed = -1;

	if (place->overflow)
		pending_overflowed(info->state, place->tag.group,
						   DatumGetInt64(row_value(row, COLUMN_ID)),
						   DatumGetFloat4(row_value(row, COLUMN_COST)));
	else
	{
		placed = pending_placed(place->lane, &place->address,
								place->tagged ? &place->tag : NULL);
		pending_placed_group(placed, place->waiters);
		row_value(row, COLUMN_ADDRESS) = FairqAddressPGetDatum(&place->address);
	}
	row_is_null(row, COLUMN_ADDRESS) = place->overflow;
	row_value(row, COLUMN_STATE) = CharGetDatum(place->overflow ? TASK_OVERFLOW : TASK_READY);
	if (!row_writer_update(row, wait))
	{
		if (place->overflow)
			pending_not_overflowed(info->state, place->tag.group);
		pending_not_placed(placed);
		return false;
	}
	pending_placed_at(placed, &row->tuple.t_self);
	if (place->overflow)
		pending_overflowed_at(info->state, place->tag.group,
							  DatumGetInt64(row_value(row, COLUMN_ID)), &row->tuple.t_self);
	stats_tally(info->state, from, -1);
	stats_tally(info->state,
				place->overflow ? QUEUE_OVERFLOW : QUEUE_ADDRESSED, 1);
	return true;
}

/*
 * Give the task that row has read a fresh place, and write it, as write_place
 * does.
 */
static bool
move(Placement *placement, RowReader *row, TimestampTz run_at, bool may_overflow, bool wait)
{
	PlaceFor	task = place_for(row, run_at, may_overflow);
	Place		place;
	int			got;

	if (row->info->policy != QUEUE_FAIR)
		task.turn = row_writer_new_ids(row->info, 1, &got);
	placement_assign(placement, &task, &place);
	return write_place(row, &place, wait);
}

/*
 * Can the task that row has read be placed?  Not while others have taken the
 * entries of groups.
 */
bool
placement_has_room(RowReader *row)
{
	GroupName	name;

	if (row->info->policy != QUEUE_FAIR || likely(group_table_is_half_free()))
		return true;
	name = row_reader_group(row);
	return groups_enter(row->info->state, row_reader_class(row), &name);
}

/*
 * The task that row has read is due, or will be: it waits from then on.
 */
void
placement_set_due(RowReader *row, TimestampTz due)
{
	row_value(row, COLUMN_RUN_AT) = TimestampTzGetDatum(due);
	row_is_null(row, COLUMN_RUN_AT) = false;
}

/*
 * Write the task that row has read, which has no place from now on: it is dead,
 * held, or scheduled for its run_at.  Returns false as write_place does.
 */
bool
placement_unplace(RowReader *row, char state, bool wait)
{
	QueueState *queue = row->info->state;
	QueueCounter from = row_reader_depth(row);

	row_is_null(row, COLUMN_ADDRESS) = true;
	row_value(row, COLUMN_STATE) = CharGetDatum(state);
	if (!row_writer_update(row, wait))
		return false;
	if (state == TASK_SCHEDULED)
		pending_scheduled(queue, DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)));
	stats_tally(queue, from, -1);
	stats_tally(queue, task_state_depth(state), 1);
	return true;
}

/*
 * Write the row that was read, as it is now, and give its task a place by its
 * run_at: it is ready, in the overflow, or scheduled, also if it could not be
 * placed now.
 */
bool
placement_by_run_at(Placement *placement, RowReader *row, bool wait)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz run_at = row_is_null(row, COLUMN_RUN_AT) ? now :
		DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT));

	if (run_at <= now && placement_has_room(row))
		return move(placement, row, run_at, true, wait);
	placement_set_due(row, run_at);
	return placement_unplace(row, TASK_SCHEDULED, wait);
}

/*
 * A place for a task whose time has come, as its row says.  What was scheduled
 * is in order of when it was due.  It may overflow if it was scheduled for its
 * first attempt, or is dead.
 */
bool
placement_replace(Placement *placement, RowReader *row, bool wait)
{
	char		state = DatumGetChar(row_value(row, COLUMN_STATE));
	bool		scheduled = (state == TASK_SCHEDULED);

	return move(placement, row,
				scheduled ? DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)) :
				GetCurrentTimestamp(),
				state == TASK_DEAD ||
				(scheduled && DatumGetInt32(row_value(row, COLUMN_ATTEMPTS)) == 0 &&
				 row_reader_lost(row) == 0),
				wait);
}

/*
 * A place for a suspect whose time has come, as its row says: the first, or
 * where the order is by a number, the first of those that came after it.  Only
 * so many suspects have one at a time, and one that waited for a backlog of its
 * group would keep those of other groups waiting.
 */
bool
placement_suspect(Placement *placement, RowReader *row, bool wait)
{
	PlaceFor	task = place_for(row, DatumGetTimestampTz(row_value(row, COLUMN_RUN_AT)), false);
	Place		place;

	Assert(DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_SCHEDULED &&
		   row_reader_is_suspect(row));
	task.turn = DatumGetInt64(row_value(row, COLUMN_ID));
	task.first = true;
	placement_assign(placement, &task, &place);
	return write_place(row, &place, wait);
}

/*
 * A place for a task of the overflow that was claimed and is given back:
 * before all that are ready, as it had one that was claimed by now, and in
 * order of their ids.  No start tag is less than 0.
 */
void
placement_first(RowReader *row, FairqAddress *address)
{
	address->unused = 0;
	address->class = row_reader_class(row);
	address->block = -1;
	address->fraction = 0;
	address->slot = DatumGetInt64(row_value(row, COLUMN_ID));
	address->bucket = address_bucket_of(address->block, address->fraction,
										address->slot, row->info->buckets);
}

/*
 * The number of the group of the task that row has read; FAIRQ_NO_GROUP if it
 * is not known.  A task that has an address counts in the class of that, also
 * where SQL has given it another priority since.
 */
uint32
placement_group(RowReader *row)
{
	QueueInfo  *info = row->info;
	GroupName	name = row_reader_group(row);
	GroupTag	tag;

	return groups_look(info->state, row_reader_class(row), &name, &tag) ?
		tag.group : FAIRQ_NO_GROUP;
}

/*
 * The task that row has read is going to be removed or moved: if it was the
 * last of its group, the group is not charged for it.
 */
void
placement_uncharge(RowReader *row, const FairqAddress *address)
{
	QueueInfo  *info = row->info;
	GroupName	name = row_reader_group(row);
	VirtualTime start = {address->block, address->fraction};
	GroupTag	tag;

	/* What of a subgroup has an address it has not been charged for. */
	if (info->policy == QUEUE_FAIR && !info->subgroups &&
		groups_look(info->state, address->class, &name, &tag) &&
		virtual_time_compare(tag.finish,
							 virtual_time_add(start, DatumGetFloat4(row_value(row, COLUMN_COST)),
											  tag.weight)) == 0)
		pending_cancelled(address, &tag);
}

/*
 * The task that row has read leaves its place, other than by its lease: its
 * group has room, unless it is leased when that is committed.  It is not
 * charged for one that has expired.
 */
void
placement_leaves(RowReader *row, bool expired)
{
	uint32		group = placement_group(row);
	bool		of_overflow = DatumGetChar(row_value(row, COLUMN_STATE)) == TASK_OVERFLOW;
	bool		placed = !row_is_null(row, COLUMN_ADDRESS);
	float4		refund = 0;

	if (group == FAIRQ_NO_GROUP || !(placed || of_overflow))
		return;
	if (expired && placed)
		refund = DatumGetFloat4(row_value(row, COLUMN_COST));
	pending_removed(row->info->state, row_reader_class(row), group,
					DatumGetInt64(row_value(row, COLUMN_ID)), !placed, refund);
}

/*
 * A lease is settling, and ends with its task's row leaving its place: that
 * row has read, and it is deleted or written next, or has been deleted.
 *
 * Where SQL has moved the row, the lease does not know where its task counts.
 * If another transaction did that, it has told the lease, unless the row is in
 * no place any more (race 31).  If this one did, it tells at the commit, when
 * leases have ended: so the task counts until it is removed, as one that is not
 * leased, behind what this transaction has noted for the move.
 */
void
placement_leaves_lease(RowReader *row, const LeaseInfo *lease, int settled)
{
	bool		placed = row_reader_is_placed(row);

	if (likely(!row->own && placed))
		return;
	if (placed)
	{
		row_reader_complete(row);
		if (placement_group(row) == lease->group &&
			row_is_null(row, COLUMN_ADDRESS) == lease->overflow)
			return;
		placement_leaves(row, false);
	}
	pending_settled_gone(settled, true);
}

/*
 * The lane that an address is in.  An address may come from a row that a user
 * wrote, so it is checked.
 */
Lane *
placement_lane(QueueInfo *info, const FairqAddress *address)
{
	if (address->bucket >= FAIRQ_MAX_BUCKETS ||
		address->class >= info->state->classes)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("bucket %d or class %d of the address is out of range for queue \"%s\"",
						address->bucket, address->class, info->name),
				 errhint("The bucket must be from 0 to %d, and the class from 0 to %d.",
						 FAIRQ_MAX_BUCKETS - 1, info->state->classes - 1)));
	return queue_catalog_lane(info, address->class, address->bucket);
}

/*
 * The lane and the address of the task that row has read; NULL: it has none.
 */
Lane *
placement_lane_of(RowReader *row, FairqAddress *address)
{
	if (row_is_null(row, COLUMN_ADDRESS))
		return NULL;
	*address = *DatumGetFairqAddressP(row_value(row, COLUMN_ADDRESS));
	return placement_lane(row->info, address);
}
