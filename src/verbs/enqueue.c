/*-------------------------------------------------------------------------
 *
 * enqueue.c
 *	  The verb enqueue.
 *
 * One heap insert, its index entries, and at commit an offer to the lane.  The
 * address comes from shared memory before the row is written; no row is locked
 * and no row is shared (invariant I6).  But for tasks with a unique key: those
 * are looked up first (unique_keys.c), and so are those that a task is to come
 * after (dependencies.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "catalog/pg_collation_d.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "common/contracts.h"
#include "common/node_number.h"
#include "shmem/stats.h"
#include "storage/node_table.h"
#include "storage/remembered_keys.h"
#include "storage/row_reader.h"
#include "verbs/enqueue.h"
#include "verbs/held_tasks.h"
#include "verbs/placement.h"
#include "verbs/unique_keys.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/* Tasks that are placed and written in one go, to bound memory. */
#define ENQUEUE_BATCH	1000

#define NOT_PLACED		'\0'

/* A new task, its id and where it goes. */
typedef struct NewPlace
{
	const NewTask *task;
	int64		id;				/* 0: none yet */
	char		state;			/* NOT_PLACED: none yet */
	int			placed;			/* its pending action; -1: none */
	Place		place;			/* with TASK_READY */
} NewPlace;

/*
 * Give ids to new tasks; those whose id is not 0 have one.
 */
static void
take_ids(QueueInfo *info, int n, NewPlace *places)
{
	int64		first = 0;
	int			left = 0;
	int			wanted = 0;

	Assert(n > 0);
	for (int i = 0; i < n; i++)
		wanted += (places[i].id == 0);
	for (int i = 0; i < n; i++)
	{
		if (places[i].id != 0)
			continue;
		if (left == 0)
			first = row_writer_new_ids(info, wanted, &left);
		places[i].id = first++;
		left--;
		wanted--;
	}
}

/*
 * Give a place to a new task.
 */
static void
place_task(Placement *placement, NewPlace *place, TimestampTz now)
{
	const NewTask *task = place->task;
	PlaceFor	place_for;

	place->placed = -1;
	place->state = (task->run_at > now) ? TASK_SCHEDULED : TASK_READY;
	if (place->state != TASK_READY)
	{
		placement_prepare(placement->info, task->priority);
		return;
	}
	place_for.turn = place->id;
	place_for.group_key = task->group_key;
	place_for.subgroup_key = task->subgroup_key;
	place_for.priority = task->priority;
	place_for.run_at = task->run_at == DT_NOBEGIN ? now : task->run_at;
	place_for.cost = task->cost;
	place_for.may_overflow = true;
	place_for.first = false;
	placement_assign(placement, &place_for, &place->place);
	if (place->place.overflow)
	{
		place->state = TASK_OVERFLOW;
		pending_overflowed(placement->info->state, place->place.tag.group, place->id,
						   task->cost);
	}
	else
	{
		place->placed = pending_placed(place->place.lane, &place->place.address,
									   place->place.tagged ? &place->place.tag : NULL);
		pending_placed_group(place->placed, place->place.waiters);
	}
}

/*
 * The task does not need its place after all.
 */
static void
give_up_place(QueueInfo *info, NewPlace *place)
{
	if (place->state == TASK_OVERFLOW)
		pending_not_overflowed(info->state, place->place.tag.group);
	else if (place->placed >= 0)
		pending_not_placed(place->placed);
	place->placed = -1;
	place->state = NOT_PLACED;
}

/*
 * See that there is room for n more tasks.
 */
static void
make_room(QueueInfo *info, int n)
{
	if (info->max_depth > 0 && !pending_room(info->state, n, info->max_depth))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot enqueue %d more: queue \"%s\" is limited to " INT64_FORMAT " tasks",
						n, info->name, info->max_depth),
				 errhint("Try again when tasks are done, or raise \"max_depth\" of the queue with fairq.alter_queue().")));
}

/*
 * How large payloads are, as jsonb in memory, however they come.
 */
static void
count_payloads(QueueState *queue, int n, NewPlace *const *places)
{
	int64		bytes = 0;

	for (int i = 0; i < n; i++)
	{
		int64		size = toast_raw_datum_size(places[i]->task->payload) - VARHDRSZ;

		bytes += size;
		stats_tally_value(queue, STATS_PAYLOAD, size);
	}
	stats_tally(queue, QUEUE_PAYLOAD_BYTES, bytes);
}

/*
 * Write the rows of new tasks that have their places.
 */
static void
write_tasks(Relation rel, QueueInfo *info, int n, NewPlace *const *places, TimestampTz now)
{
	int			natts = info->natts;
	Datum	   *value_area = palloc0(n * natts * sizeof(Datum));
	bool	   *null_area = palloc(n * natts * sizeof(bool));
	Datum	  **values = palloc(n * sizeof(Datum *));
	bool	  **nulls = palloc(n * sizeof(bool *));
	ItemPointer tids = palloc(n * sizeof(ItemPointerData));

	Assert(n > 0);
	memset(null_area, true, n * natts * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		const NewPlace *place = places[i];
		const NewTask *task = place->task;

		values[i] = value_area + i * natts;
		nulls[i] = null_area + i * natts;
		enqueue_set_values(info, task, now, values[i], nulls[i]);
#define SET(column, value) \
		do { \
			values[i][info->columns[column] - 1] = (value); \
			nulls[i][info->columns[column] - 1] = false; \
		} while (0)
		SET(COLUMN_ID, Int64GetDatum(place->id));
		if (place->state == TASK_READY)
			SET(COLUMN_ADDRESS, FairqAddressPGetDatum(&place->place.address));
		SET(COLUMN_ENQUEUED_AT, TimestampTzGetDatum(now));
		SET(COLUMN_STATE, CharGetDatum(place->state));
		if (task->run_at != DT_NOBEGIN)
			SET(COLUMN_RUN_AT, TimestampTzGetDatum(task->run_at));
		else if (info->policy == QUEUE_TIME)
			SET(COLUMN_RUN_AT, TimestampTzGetDatum(now));
		if (task->unique_key != NULL)
			SET(COLUMN_UNIQUE_KEY, PointerGetDatum(task->unique_key));
#undef SET
		if (task->name != NULL)
			stats_tally_name(info->state, PointerGetDatum(task->name), NAME_ENQUEUED);
	}

	row_writer_insert(rel, info, n, values, nulls, tids);
	for (int i = 0; i < n; i++)
	{
		pending_placed_at(places[i]->placed, &tids[i]);
		if (places[i]->state == TASK_OVERFLOW)
			pending_overflowed_at(info->state, places[i]->place.tag.group, places[i]->id,
								  &tids[i]);
		if (places[i]->state == TASK_SCHEDULED)
			pending_scheduled(info->state, places[i]->task->run_at);
		stats_tally(info->state, task_state_depth(places[i]->state), 1);
	}
	stats_tally(info->state, QUEUE_ENQUEUED, n);
	count_payloads(info->state, n, places);
}

/* ----------------------------------------------------------------
 * Tasks that wait for others
 * ----------------------------------------------------------------
 */

/*
 * What a task has to wait for; id is that of a new one.
 */
static void
read_waits(RowReader *row, const NewTask *task, int64 id, NewDependencies *waits)
{
	bool		brief = row->brief;
	int			last;

	memset(waits, 0, sizeof(NewDependencies));
	if (task->after_count == 0)
		return;

	/*
	 * Ids are given out in order, so all before this one have been; those of
	 * other nodes of a cluster have come from there, or are over.
	 */
	last = task->after_count - 1;
	while (last >= 0 && NODE_OF_ID(task->after[last]) > NODE_OF_ID(id) &&
		   node_table_facts()->membership != NODE_ALONE)
		last--;
	if (last >= 0 && task->after[last] >= id)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cannot wait for task " INT64_FORMAT " of queue \"%s\": there has not been one yet",
						task->after[last], row->info->name),
				 errhint("Give the ids of earlier tasks of the queue.")));
	waits->task = id;
	waits->on_dead = task->on_dead;
	waits->n = task->after_count;
	waits->predecessors = palloc(waits->n * sizeof(int64));
	memcpy(waits->predecessors, task->after, waits->n * sizeof(int64));
	row->brief = true;
	dependencies_read(row, waits);
	row->brief = brief;
	if (waits->n == 0)
		proxy_calls_check_new(false);
}

/*
 * A new task that waits for others was written: so is for which.  A pass looks
 * at it when that is committed (dependencies.c).
 */
static void
write_waits(QueueInfo *info, const NewDependencies *waits)
{
	if (waits->n == 0)
		return;
	dependency_table_insert(info, waits);
	/* New ids are the highest: of many tasks it is noted once. */
	pending_look_from(info->state, waits->task);
}

/* Tasks without a unique key, which are to come after none. */
static void
enqueue_batch(Placement *placement, Relation rel, QueueInfo *info, int n,
			  const NewTask *tasks, int64 *ids)
{
	NewPlace   *places = palloc0_array(NewPlace, n);
	NewPlace  **list = palloc_array(NewPlace *, n);
	TimestampTz now = GetCurrentTimestamp();

	Assert(n > 0);
	take_ids(info, n, places);
	for (int i = 0; i < n; i++)
	{
		places[i].task = &tasks[i];
		place_task(placement, &places[i], now);
		list[i] = &places[i];
		ids[i] = places[i].id;
	}
	write_tasks(rel, info, n, list, now);
}

/* ----------------------------------------------------------------
 * Tasks that are enqueued one by one
 * ----------------------------------------------------------------
 */

/* Has a task a key, or is it to come after others? */
static bool
is_alone(const NewTask *task)
{
	return task->unique_key != NULL || task->after_count > 0;
}

/*
 * The order in which tasks with keys are written: by key.  So two transactions
 * with the same keys do not wait for each other.
 */
static int
compare_keys(const void *a, const void *b)
{
	const NewPlace *x = *(NewPlace *const *) a;
	const NewPlace *y = *(NewPlace *const *) b;
	const text *key = x->task->unique_key;
	const text *other = y->task->unique_key;
	int			result = varstr_cmp(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key),
									VARDATA_ANY(other), VARSIZE_ANY_EXHDR(other),
									C_COLLATION_OID);

	if (result == 0)
		result = (x < y) ? -1 : 1;
	return result;
}

/*
 * One task by itself.  place perhaps has an id, and a place in order, which is
 * given up if it is not needed.
 */
static int64
enqueue_one(Placement *placement, RowReader *row, NewPlace *place, TimestampTz now)
{
	QueueInfo  *info = row->info;
	NewTask		copy = *place->task;
	const NewTask *task = &copy;
	NewDependencies waits;
	UniqueKey	key = {.found = KEY_FREE};

	Assert(task->unique_for == 0 || task->unique_key != NULL);
	if (task->after_count > 0)
		take_ids(info, 1, place);
	read_waits(row, task, place->id, &waits);
	copy.waits = &waits;
	if (task->unique_key != NULL)
		unique_keys_take(placement, row, task, &key);
	if (key.found != KEY_FREE)
		give_up_place(info, place);
	if (key.found != KEY_WAITING)
	{
		if (task->unique_key != NULL)
			make_room(info, 1);
		take_ids(info, 1, place);
		if (key.found == KEY_IN_FLIGHT || waits.n > 0)
		{
			place->state = TASK_HELD;
			placement_prepare(info, task->priority);
		}
		else if (place->state == NOT_PLACED)
			place_task(placement, place, now);
		write_tasks(row->rel, info, 1, &place, now);
		if (key.found == KEY_IN_FLIGHT)
			pending_task_held(info->state, place->id, key.id);
		write_waits(info, &waits);
		key.id = place->id;
	}
	else
		stats_tally(info->state, QUEUE_DEDUPLICATED, 1);

	/*
	 * The time runs from the call that has begun it: duplicates do not extend
	 * it.  A task that has expired already will not be done, so it keeps none
	 * from being done.
	 */
	if (task->unique_for > 0 && !key.remembered &&
		enqueue_expires_at(info, task, GetCurrentTimestamp()) > GetCurrentTimestamp())
		remembered_keys_add(info, task->unique_key, key.id,
							GetCurrentTimestamp() + task->unique_for);
	if (task->unique_key != NULL)
		unique_keys_let_go(&key);
	return key.id;
}

/*
 * Tasks of which some have a unique key, or a single one that is to come after
 * others.
 *
 * Those are written in the order of their keys, but tasks of a group are
 * served in the order given.  So all that seem to be new get their ids and
 * places first.
 */
static void
enqueue_some_alone(Placement *placement, Relation rel, QueueInfo *info, int n,
				   const NewTask *tasks, int64 *ids)
{
	NewPlace   *places = palloc0_array(NewPlace, n);
	NewPlace  **list = palloc_array(NewPlace *, n);
	bool	   *repeated = palloc0_array(bool, n);
	TimestampTz now = GetCurrentTimestamp();
	MemoryContext task_context;
	RowReader	row;
	int			alone = 0;
	int			others = 0;

	for (int i = 0; i < n; i++)
	{
		places[i].task = &tasks[i];
		places[i].state = NOT_PLACED;
		places[i].placed = -1;
		if (is_alone(&tasks[i]))
			list[alone++] = &places[i];
	}
	qsort(list, alone, sizeof(NewPlace *), compare_keys);
	for (int i = 1; i < alone; i++)
		repeated[list[i] - places] = row_reader_same_text(list[i - 1]->task->unique_key,
														  list[i]->task->unique_key);

	row_reader_begin(&row, rel, info);
	for (int i = 0; n > 1 && i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (tasks[i].unique_key != NULL &&
			(repeated[i] ||
			 unique_keys_guess(&row, tasks[i].unique_key) != KEY_FREE))
			continue;
		take_ids(info, 1, &places[i]);
		place_task(placement, &places[i], now);
	}
	task_context = AllocSetContextCreate(CurrentMemoryContext, "pgfairq unique key",
										 ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < alone; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(task_context);

		CHECK_FOR_INTERRUPTS();
		ids[list[i] - places] = enqueue_one(placement, &row, list[i], now);
		MemoryContextSwitchTo(old);
		MemoryContextReset(task_context);
	}
	MemoryContextDelete(task_context);
	row_reader_end(&row);

	for (int i = 0; i < n; i++)
	{
		if (!is_alone(&tasks[i]))
		{
			list[others++] = &places[i];
			ids[i] = places[i].id;
		}
	}
	if (others > 0)
	{
		make_room(info, others);
		write_tasks(rel, info, others, list, now);
	}
}

/*
 * Enqueue n tasks, and set ids to theirs.  They exist when and only when the
 * transaction commits.
 *
 * rel stays locked until the end of the transaction.
 */
void
enqueue_tasks(Relation rel, QueueInfo *info, int n, const NewTask *tasks,
			  int64 *ids)
{
	Placement	placement;
	bool		unique = false;

	AssertRelationLocked(rel, RowExclusiveLock);
	Assert(n >= 0);
	if (n == 0)
		return;
	proxy_calls_check_new(tasks[0].after_count > 0);
	placement_begin(&placement, rel, info);
	Assert(n == 1 || tasks[0].after_count == 0);
	for (int i = 0; i < n && !unique; i++)
		unique = (tasks[i].unique_key != NULL);
	if (!unique)
		make_room(info, n);
	if (unique || tasks[0].after_count > 0)
	{
		enqueue_some_alone(&placement, rel, info, n, tasks, ids);
		return;
	}
	for (int done = 0; done < n; done += ENQUEUE_BATCH)
		enqueue_batch(&placement, rel, info, Min(ENQUEUE_BATCH, n - done),
					  tasks + done, ids + done);
}
