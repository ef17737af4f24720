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
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

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

/* A new task's id and where it goes. */
typedef struct NewPlace
{
	int64		id;
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
 * A task will get its place later.
 */
static void
prepare_later(QueueInfo *info, const NewTask *task)
{
	placement_prepare(info, info->policy == QUEUE_FAIR ? task->priority : 0);
}

/*
 * Give a place to a new task.
 */
static void
place_task(Placement *placement, const NewTask *task, TimestampTz now,
		   NewPlace *place)
{
	PlaceFor	place_for;

	place->placed = -1;
	place->state = (task->run_at > now) ? TASK_SCHEDULED : TASK_READY;
	if (place->state != TASK_READY)
	{
		prepare_later(placement->info, task);
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
count_payloads(QueueState *queue, int n, const NewTask *const *tasks)
{
	int64		bytes = 0;

	for (int i = 0; i < n; i++)
	{
		int64		size = toast_raw_datum_size(tasks[i]->payload) - VARHDRSZ;

		bytes += size;
		stats_tally_value(queue, STATS_PAYLOAD, size);
	}
	stats_tally(queue, QUEUE_PAYLOAD_BYTES, bytes);
}

/*
 * Write the rows of new tasks that have their places.
 */
static void
write_tasks(Relation rel, QueueInfo *info, int n, const NewTask *const *tasks,
			const NewPlace *const *places, TimestampTz now)
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
		const NewTask *task = tasks[i];
		const NewPlace *place = places[i];
		TimestampTz expires_at = enqueue_expires_at(info, task, now);

		values[i] = value_area + i * natts;
		nulls[i] = null_area + i * natts;
#define SET(column, value) \
		do { \
			values[i][info->columns[column] - 1] = (value); \
			nulls[i][info->columns[column] - 1] = false; \
		} while (0)
		SET(COLUMN_ID, Int64GetDatum(place->id));
		if (place->state == TASK_READY)
			SET(COLUMN_ADDRESS, FairqAddressPGetDatum(&place->place.address));
		SET(COLUMN_ENQUEUED_AT, TimestampTzGetDatum(now));
		SET(COLUMN_PRIORITY, Int64GetDatum(task->priority));
		SET(COLUMN_COST, Float4GetDatum(task->cost));
		SET(COLUMN_ATTEMPTS, Int32GetDatum(0));
		SET(COLUMN_STATE, CharGetDatum(place->state));
		SET(COLUMN_GROUP_KEY, PointerGetDatum(task->group_key));
		if (task->subgroup_key != NULL)
			SET(COLUMN_SUBGROUP_KEY, PointerGetDatum(task->subgroup_key));
		SET(COLUMN_PAYLOAD, task->payload);
		if (task->run_at != DT_NOBEGIN)
			SET(COLUMN_RUN_AT, TimestampTzGetDatum(task->run_at));
		else if (info->policy == QUEUE_TIME)
			SET(COLUMN_RUN_AT, TimestampTzGetDatum(now));
		if (task->max_attempts >= 0)
			SET(COLUMN_MAX_ATTEMPTS, Int32GetDatum(task->max_attempts));
		if (task->lease != NULL)
			SET(COLUMN_LEASE, IntervalPGetDatum(task->lease));
		if (task->has_headers)
			SET(COLUMN_HEADERS, task->headers);
		if (task->unique_key != NULL)
			SET(COLUMN_UNIQUE_KEY, PointerGetDatum(task->unique_key));
		if (expires_at != DT_NOEND)
			SET(COLUMN_EXPIRES_AT, TimestampTzGetDatum(expires_at));
		if (task->name != NULL)
		{
			SET(COLUMN_NAME, PointerGetDatum(task->name));
			stats_tally_name(info->state, PointerGetDatum(task->name), NAME_ENQUEUED);
		}
		if (task->max_lost >= 0)
			SET(COLUMN_MAX_LOST, Int32GetDatum(task->max_lost));
#undef SET
	}

	row_writer_insert(rel, info, n, values, nulls, tids);
	for (int i = 0; i < n; i++)
	{
		pending_placed_at(places[i]->placed, &tids[i]);
		if (places[i]->state == TASK_OVERFLOW)
			pending_overflowed_at(info->state, places[i]->place.tag.group, places[i]->id,
								  &tids[i]);
		if (places[i]->state == TASK_SCHEDULED)
			pending_scheduled(info->state, tasks[i]->run_at);
		stats_tally(info->state, task_state_depth(places[i]->state), 1);
	}
	stats_tally(info->state, QUEUE_ENQUEUED, n);
	count_payloads(info->state, n, tasks);
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

/*
 * A task without a unique key that is to come after others.
 */
static int64
enqueue_after(Placement *placement, Relation rel, QueueInfo *info, const NewTask *task)
{
	TimestampTz now = GetCurrentTimestamp();
	NewPlace	place = {.placed = -1,.state = NOT_PLACED};
	const NewPlace *const place_list[] = {&place};
	NewDependencies waits;
	RowReader	row;

	take_ids(info, 1, &place);
	row_reader_begin(&row, rel, info);
	read_waits(&row, task, place.id, &waits);
	row_reader_end(&row);
	if (waits.n > 0)
	{
		place.state = TASK_HELD;
		prepare_later(info, task);
	}
	else
		place_task(placement, task, now, &place);
	write_tasks(rel, info, 1, &task, place_list, now);
	write_waits(info, &waits);
	return place.id;
}

/* Tasks without a unique key. */
static void
enqueue_batch(Placement *placement, Relation rel, QueueInfo *info, int n,
			  const NewTask *tasks, int64 *ids)
{
	NewPlace   *places = palloc0_array(NewPlace, n);
	const NewTask **task_list = palloc_array(const NewTask *, n);
	const NewPlace **place_list = palloc_array(const NewPlace *, n);
	TimestampTz now = GetCurrentTimestamp();

	Assert(n > 0);
	take_ids(info, n, places);
	for (int i = 0; i < n; i++)
	{
		place_task(placement, &tasks[i], now, &places[i]);
		task_list[i] = &tasks[i];
		place_list[i] = &places[i];
		ids[i] = places[i].id;
	}
	write_tasks(rel, info, n, task_list, place_list, now);
}

/* ----------------------------------------------------------------
 * Unique keys
 * ----------------------------------------------------------------
 */

/*
 * The order in which tasks with keys are written: by key.  So two transactions
 * with the same keys do not wait for each other.
 */
static int
compare_keys(const void *a, const void *b)
{
	const NewTask *x = *(const NewTask *const *) a;
	const NewTask *y = *(const NewTask *const *) b;
	int			len = Min(VARSIZE_ANY_EXHDR(x->unique_key), VARSIZE_ANY_EXHDR(y->unique_key));
	int			result = memcmp(VARDATA_ANY(x->unique_key), VARDATA_ANY(y->unique_key), len);

	if (result == 0)
		result = (int) VARSIZE_ANY_EXHDR(x->unique_key) -
			(int) VARSIZE_ANY_EXHDR(y->unique_key);
	if (result == 0)
		result = (x < y) ? -1 : 1;
	return result;
}

static bool
same_key(const NewTask *x, const NewTask *y)
{
	return VARSIZE_ANY_EXHDR(x->unique_key) == VARSIZE_ANY_EXHDR(y->unique_key) &&
		memcmp(VARDATA_ANY(x->unique_key), VARDATA_ANY(y->unique_key),
			   VARSIZE_ANY_EXHDR(x->unique_key)) == 0;
}

/*
 * One task with a key.  place has an id, and perhaps a place in order, which is
 * given up if it is not needed.
 */
static int64
enqueue_with_key(Placement *placement, RowReader *row, const NewTask *given,
				 NewPlace *place, TimestampTz now)
{
	QueueInfo  *info = row->info;
	NewTask		copy = *given;
	const NewTask *task = &copy;
	NewDependencies waits;
	UniqueKey	key;

	if (task->after_count > 0)
		take_ids(info, 1, place);
	read_waits(row, task, place->id, &waits);
	copy.waits = &waits;
	unique_keys_take(placement, row, task, &key);
	if (key.found != KEY_FREE)
		give_up_place(info, place);
	if (key.found != KEY_WAITING)
	{
		const NewTask *const task_list[] = {task};
		const NewPlace *const place_list[] = {place};

		make_room(info, 1);
		take_ids(info, 1, place);
		if (key.found == KEY_IN_FLIGHT || waits.n > 0)
		{
			place->state = TASK_HELD;
			prepare_later(info, task);
		}
		else if (place->state == NOT_PLACED)
			place_task(placement, task, now, place);
		write_tasks(row->rel, info, 1, task_list, place_list, now);
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
	unique_keys_let_go(&key);
	return key.id;
}

/*
 * Tasks of which some have a unique key.
 *
 * Those are written in the order of their keys, but tasks of a group are
 * served in the order given.  So all that seem to be new get their ids and
 * places first.
 */
static void
enqueue_unique(Placement *placement, Relation rel, QueueInfo *info, int n,
			   const NewTask *tasks, int64 *ids)
{
	NewPlace   *places = palloc_array(NewPlace, n);
	const NewTask **task_list = palloc_array(const NewTask *, n);
	const NewPlace **place_list = palloc_array(const NewPlace *, n);
	bool	   *repeated = palloc0_array(bool, n);
	TimestampTz now = GetCurrentTimestamp();
	MemoryContext task_context;
	RowReader	row;
	int			keyed = 0;
	int			others = 0;

	for (int i = 0; i < n; i++)
	{
		places[i].id = 0;
		places[i].state = NOT_PLACED;
		places[i].placed = -1;
		if (tasks[i].unique_key != NULL)
			task_list[keyed++] = &tasks[i];
	}
	qsort(task_list, keyed, sizeof(NewTask *), compare_keys);
	for (int i = 1; i < keyed; i++)
		repeated[task_list[i] - tasks] = same_key(task_list[i - 1], task_list[i]);

	row_reader_begin(&row, rel, info);
	for (int i = 0; n > 1 && i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (tasks[i].unique_key != NULL &&
			(repeated[i] ||
			 unique_keys_guess(&row, tasks[i].unique_key) != KEY_FREE))
			continue;
		take_ids(info, 1, &places[i]);
		place_task(placement, &tasks[i], now, &places[i]);
	}
	task_context = AllocSetContextCreate(CurrentMemoryContext, "pgfairq unique key",
										 ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < keyed; i++)
	{
		int			at = task_list[i] - tasks;
		MemoryContext old = MemoryContextSwitchTo(task_context);

		CHECK_FOR_INTERRUPTS();
		ids[at] = enqueue_with_key(placement, &row, task_list[i], &places[at], now);
		MemoryContextSwitchTo(old);
		MemoryContextReset(task_context);
	}
	MemoryContextDelete(task_context);
	row_reader_end(&row);

	for (int i = 0; i < n; i++)
	{
		if (tasks[i].unique_key == NULL)
		{
			task_list[others] = &tasks[i];
			place_list[others++] = &places[i];
			ids[i] = places[i].id;
		}
	}
	if (others > 0)
	{
		make_room(info, others);
		write_tasks(rel, info, others, task_list, place_list, now);
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
	for (int i = 0; i < n && !unique; i++)
		unique = (tasks[i].unique_key != NULL);
	if (unique)
	{
		enqueue_unique(&placement, rel, info, n, tasks, ids);
		return;
	}
	make_room(info, n);
	if (tasks[0].after_count > 0)
	{
		Assert(n == 1);
		ids[0] = enqueue_after(&placement, rel, info, &tasks[0]);
		return;
	}
	for (int done = 0; done < n; done += ENQUEUE_BATCH)
		enqueue_batch(&placement, rel, info, Min(ENQUEUE_BATCH, n - done),
					  tasks + done, ids + done);
}
