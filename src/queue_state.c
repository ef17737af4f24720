/*-------------------------------------------------------------------------
 *
 * queue_state.c
 *	  What all processes know about a queue: the shared part.
 *
 * An array of QueueState, found by (database, relation).  A backend keeps the
 * pointer in its own cache (queue_catalog.c) and may use it while it holds a
 * lock on the queue's relation: a queue is released when its relation is
 * dropped, which needs an exclusive lock on it.
 *
 * All of it is a hint in the sense of DESIGN's fourth sentence: a new state
 * starts empty and is filled from the rows (recovery.c).
 *
 * Locking: the directory lock guards which entries are in use.  Each field of
 * a QueueState names its own guard.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "fed_tasks.h"
#include "group_overflow.h"
#include "group_table.h"
#include "in_transit.h"
#include "lanes.h"
#include "leases.h"
#include "queue_state.h"
#include "sessions.h"
#include "settings.h"
#include "shared_state.h"
#include "stats.h"
#include "waiting.h"
#include "wakeup.h"
#include "wall_clock.h"

typedef struct QueueDirectory
{
	LWLock		lock;
	int			high_water;		/* entries at and beyond were never used */
	QueueState	queues[FLEXIBLE_ARRAY_MEMBER];
} QueueDirectory;

static QueueDirectory *directory = NULL;

Size
queue_state_shmem_size(void)
{
	return add_size(offsetof(QueueDirectory, queues),
					mul_size(settings_max_queues, sizeof(QueueState)));
}

void
queue_state_shmem_init(void *area, bool found)
{
	directory = area;
	if (found)
		return;
	LWLockInitialize(&directory->lock,
					 shared_state_tranche(FAIRQ_TRANCHE_QUEUE));
	directory->high_water = 0;
}

static QueueState *
queue_state_search(Oid database, Oid relation)
{
	for (int i = 0; i < directory->high_water; i++)
	{
		QueueState *queue = &directory->queues[i];

		if (queue->in_use && queue->relation == relation &&
			queue->database == database)
			return queue;
	}
	return NULL;
}

static void
queue_state_init(QueueState *queue, Oid database, Oid relation, int classes)
{
	memset(queue, 0, sizeof(QueueState));
	queue->database = database;
	queue->relation = relation;
	queue->classes = classes;
	LWLockInitialize(&queue->lock, shared_state_tranche(FAIRQ_TRANCHE_QUEUE));
	SpinLockInit(&queue->id_mutex);
	SpinLockInit(&queue->recovery_mutex);
	SpinLockInit(&queue->looks_mutex);
	queue->look_from = PG_INT64_MIN;
	queue->clock_steps = wall_clock_steps();
	due_cursor_init(&queue->due);
	due_cursor_init(&queue->archive.cursor);
	queue->sweep_sleeps = true;
	queue->sweep.hand.due = PG_INT64_MIN;
	queue->relation_file = InvalidRelFileNumber;
	queue->recovery = QUEUE_UNKNOWN;
	queue->leases = QUEUE_UNKNOWN;
	queue->leases_file = InvalidRelFileNumber;
	ConditionVariableInit(&queue->recovery_done);
	queue->stats_reset = GetCurrentTimestamp();
	queue->max_ready = PG_INT64_MAX;
	queue->max_ready_per_group = PG_INT64_MAX;
	pg_atomic_init_u64(&queue->ready, 0);
	pg_atomic_init_u32(&queue->fed_tasks, 0);
	pg_atomic_init_u64(&queue->counted, 0);
	pg_atomic_init_u64(&queue->reserved, 0);
	limits_init_queue(&queue->limits);
	pg_atomic_init_u32(&queue->overflowing, 0);
	SpinLockInit(&queue->hungry_mutex);
	queue->hungry_first = queue->hungry_last = FAIRQ_NO_GROUP;
	queue->dry = 0;
	queue->dry_epoch = 1;
	ConditionVariableInit(&queue->fed);
	pg_atomic_init_u32(&queue->settings, 0);
	pg_atomic_init_u64(&queue->pass_after, 0);
	pg_atomic_init_u64(&queue->tick, 0);
	pg_atomic_init_u32(&queue->expired, 0);
	for (int i = 0; i < QUEUE_COUNTERS; i++)
		pg_atomic_init_u64(&queue->counters[i], 0);
	for (int i = 0; i < FAIRQ_CLASSES; i++)
	{
		SpinLockInit(&queue->orders[i].mutex);
		queue->orders[i].overflow_lost = PG_INT64_MAX;
		queue->orders[i].overflow_sought = PG_INT64_MAX;
		queue->orders[i].group_ring = FAIRQ_NO_GROUP;
		queue->orders[i].lanes.queue = queue_state_number(queue);
		queue->orders[i].lanes.class = i;
	}
	stats_init_queue(queue_state_number(queue));
	queue->in_use = true;
}

/*
 * The shared state of a queue of this database, made if there is none.  The
 * caller holds a lock on the relation.
 */
QueueState *
queue_state_attach(Oid relation, int classes)
{
	QueueState *queue;

	LWLockAcquire(&directory->lock, LW_SHARED);
	queue = queue_state_search(MyDatabaseId, relation);
	LWLockRelease(&directory->lock);
	if (queue != NULL)
		return queue;

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	queue = queue_state_search(MyDatabaseId, relation);
	for (int i = 0; queue == NULL && i < settings_max_queues; i++)
	{
		if (i >= directory->high_water || !directory->queues[i].in_use)
		{
			queue = &directory->queues[i];
			queue_state_init(queue, MyDatabaseId, relation, classes);
			directory->high_water = Max(directory->high_water, i + 1);
		}
	}
	LWLockRelease(&directory->lock);

	if (queue == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot use more than %d queues at a time",
						settings_max_queues),
				 errhint("Raise the setting \"%s\" and restart the server, or drop queues that are not needed.",
						 "pgfairq.max_queues")));
	return queue;
}

/*
 * Is there no room for another queue?
 */
bool
queue_state_full(void)
{
	int			n = 0;

	LWLockAcquire(&directory->lock, LW_SHARED);
	for (int i = 0; i < directory->high_water; i++)
		n += directory->queues[i].in_use;
	LWLockRelease(&directory->lock);
	return n >= settings_max_queues;
}

/*
 * The shared state of a queue of this database, or NULL.
 */
QueueState *
queue_state_find(Oid relation)
{
	QueueState *queue;

	LWLockAcquire(&directory->lock, LW_SHARED);
	queue = queue_state_search(MyDatabaseId, relation);
	LWLockRelease(&directory->lock);
	return queue;
}

QueueState *
queue_state_by_number(int number)
{
	Assert(number >= 0 && number < settings_max_queues);
	return &directory->queues[number];
}

int
queue_state_number(const QueueState *queue)
{
	return (int) (queue - directory->queues);
}

/*
 * Forget a queue whose relation is gone (or all of a database's, when
 * relation is InvalidOid): its leases, its lanes, its groups.
 */
void
queue_state_release(Oid database, Oid relation)
{
	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	for (int i = 0; i < directory->high_water; i++)
	{
		QueueState *queue = &directory->queues[i];

		if (!queue->in_use || queue->database != database ||
			(OidIsValid(relation) && queue->relation != relation))
			continue;

		leases_forget_queue(i);
		limits_forget_parked(i);
		group_table_forget_queue(i);
		fed_tasks_forget_queue(i);
		limits_forget_queue(i);
		sessions_forget_queue(queue);
		for (int class = 0; class < queue->classes; class++)
			lanes_give_back(&queue->orders[class].lanes);
		queue->in_use = false;
		waiting_queue_gone(i);
	}
	LWLockRelease(&directory->lock);
}

/*
 * Rows of a queue of this database may have been written without anybody being
 * told: have the next who opens it read them anew.
 */
void
queue_state_read_again(Oid relation)
{
	QueueState *queue;

	LWLockAcquire(&directory->lock, LW_SHARED);
	queue = queue_state_search(MyDatabaseId, relation);
	if (queue != NULL)
	{
		LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
		queue->relation_file = InvalidRelFileNumber;
		LWLockRelease(&queue->lock);
	}
	LWLockRelease(&directory->lock);
}

/*
 * Begin to read what shared memory does not know of a queue: one at a time.
 * True: the caller reads it, and says when it is done.  False: it is known;
 * if somebody else is reading it, that is waited for.
 */
bool
queue_state_recovery_begin(QueueState *queue, QueueRecovery *what)
{
	for (;;)
	{
		QueueRecovery before;

		SpinLockAcquire(&queue->recovery_mutex);
		before = *what;
		if (before == QUEUE_UNKNOWN)
			*what = QUEUE_RECOVERING;
		SpinLockRelease(&queue->recovery_mutex);

		if (before != QUEUE_RECOVERING)
			return before == QUEUE_UNKNOWN;
		ConditionVariablePrepareToSleep(&queue->recovery_done);
		if (*(volatile QueueRecovery *) what == QUEUE_RECOVERING)
			ConditionVariableSleep(&queue->recovery_done, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();
	}
}

/*
 * It is known; or, with QUEUE_UNKNOWN, somebody else has to read it.
 */
void
queue_state_recovery_end(QueueState *queue, QueueRecovery *what,
						 QueueRecovery result)
{
	SpinLockAcquire(&queue->recovery_mutex);
	*what = result;
	SpinLockRelease(&queue->recovery_mutex);
	ConditionVariableBroadcast(&queue->recovery_done);
}

/*
 * Is there nothing to claim in an order, as far as its lanes know?  They do not
 * if they are not set up: after a start, until somebody claims.
 *
 * With the lanes' locks: a look without may find a lane empty whose refill ends just
 * then (lanes_look), and its groups would be given more than they may have ready.
 * The caller sees to it that the queue, and so its lanes, stay.
 */
static bool
nothing_ready(QueueState *queue, int class)
{
	Lane	   *lane;

	/* What waits for its turn may be claimed. */
	if (limits_in_turn(&queue->limits) || !queue->classes_known)
		return false;
	for (int b = 0; (lane = lanes_next(&queue->orders[class].lanes, &b)) != NULL; b++)
	{
		LaneTop		top;

		lanes_look_locked(lane, &top);
		if (top.view != LANE_EMPTY)
			return false;
	}
	return true;
}

/*
 * A group was fed, and its tasks have been offered; or (fed false) it is in the
 * list of the hungry again.
 */
void
queue_state_fed(QueueState *queue, bool fed)
{
	SpinLockAcquire(&queue->hungry_mutex);
	queue->being_fed--;
	if (fed)
	{
		queue->feeds++;
		queue->feeds_late = false;
	}
	SpinLockRelease(&queue->hungry_mutex);
	ConditionVariableBroadcast(&queue->fed);
}

/*
 * Will any group be fed soon, by all we know, or was one since feeds was read?
 */
bool
queue_state_feeds(QueueState *queue, uint32 feeds)
{
	bool		result;

	SpinLockAcquire(&queue->hungry_mutex);
	result = queue->feeds != feeds ||
		((queue->hungry_count > 0 || queue->being_fed > 0) && !queue->feeds_late);
	SpinLockRelease(&queue->hungry_mutex);
	return result;
}

/*
 * Wait until a group is fed that was not when feeds was read.  False if that has
 * not happened by give_up; then nobody waits any more until it has.
 */
bool
queue_state_wait_fed(QueueState *queue, uint32 feeds, TimestampTz give_up)
{
	bool		done;
	bool		late;

	/* By a clock that is not set meanwhile. */
	give_up += wall_clock_real() - GetCurrentTimestamp();
	ConditionVariablePrepareToSleep(&queue->fed);
	for (;;)
	{
		int64		now = wall_clock_real();

		SpinLockAcquire(&queue->hungry_mutex);
		done = (queue->feeds != feeds);
		late = queue->feeds_late || now >= give_up;
		if (!done)
			queue->feeds_late = late;
		SpinLockRelease(&queue->hungry_mutex);
		if (done || late)
			break;
		ConditionVariableTimedSleep(&queue->fed, (give_up - now) / 1000 + 1,
									PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return done && !late;
}

/*
 * Wait until no group is dry.  If that has not happened by give_up, nobody waits for
 * those any more: whoever feeds them may have a transaction open.
 */
void
queue_state_wait_dry(QueueState *queue, TimestampTz give_up)
{
	ConditionVariablePrepareToSleep(&queue->fed);
	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		bool		done;

		SpinLockAcquire(&queue->hungry_mutex);
		if (queue->dry > 0 && now >= give_up)
		{
			queue->dry = 0;
			if (++queue->dry_epoch == 0)
				queue->dry_epoch = 1;
		}
		done = (queue->dry == 0);
		SpinLockRelease(&queue->hungry_mutex);
		if (done)
			break;
		ConditionVariableTimedSleep(&queue->fed, (give_up - now) / 1000 + 1,
									PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

/*
 * Look for groups that have room for tasks of their overflow and that nobody
 * noticed.  A class starves if there is nothing to claim in its lanes, and nobody is
 * about to lease what was there: what its groups have ready, some open transaction
 * has in hand.
 */
void
queue_state_seek_hungry(QueueState *queue, bool held)
{
	for (int class = 0; class < queue->classes; class++)
		group_overflow_seek_hungry(queue, class,
								   nothing_ready(queue, class) &&
								   in_transit_oldest() == DT_NOEND, held);
}

static bool
bucket_has_ready(QueueState *queue, int bucket)
{
	if (limits_in_turn(&queue->limits) || !queue->classes_known)
		return true;
	for (int class = 0; class < queue->classes; class++)
	{
		Lane	   *lane = lanes_of(&queue->orders[class].lanes, bucket);
		LaneTop		top;

		if (lane == NULL)
			continue;
		lanes_look_locked(lane, &top);
		if (top.view != LANE_EMPTY)
			return true;
	}
	return false;
}

/*
 * Does a bucket, or with a negative number any, look as if there were something
 * to claim?  False also for a queue that was dropped.
 *
 * Whoever asks lets somebody sleep if there is not, so it is asked with the lanes'
 * locks, and with the directory's, under which lanes are not given back.
 */
bool
queue_state_has_ready(QueueState *queue, int bucket)
{
	bool		result = false;

	LWLockAcquire(&directory->lock, LW_SHARED);
	if (queue->in_use && bucket >= 0)
		result = bucket_has_ready(queue, bucket);
	else if (queue->in_use)
	{
		for (int class = 0; class < queue->classes && !result; class++)
			result = !nothing_ready(queue, class);
	}
	LWLockRelease(&directory->lock);
	return result;
}

/*
 * Settings of a queue of this database have changed, and that has committed.
 * Other backends are sent invalidations a moment later, when those who waited
 * for the change may have looked already: so it is counted, too.
 */
void
queue_state_settings_changed(Oid relation)
{
	QueueState *queue = queue_state_find(relation);

	if (queue != NULL)
	{
		pg_atomic_fetch_add_u32(&queue->settings, 1);
		waiting_settings_changed(queue);
	}
}

/*
 * Let all processes go by what somebody read of a queue's settings, when settings
 * was their count of changes.  Not if there was one since: what was read may be
 * old, and is read again by whoever opens the queue next.  Returns whether that
 * changes what groups may have.
 */
bool
queue_state_publish(QueueState *queue, const QueuePublic *public, uint32 settings)
{
	bool		changed = false;

	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	if (settings == pg_atomic_read_u32(&queue->settings))
	{
		queue->max_ready = public->max_ready;
		queue->max_ready_per_group = public->max_ready_per_group;
		queue->charge_seconds = public->charge_seconds;
		changed = !limits_same(&queue->limits.defaults, &public->group_defaults);
		queue->limits.defaults = public->group_defaults;
	}
	LWLockRelease(&queue->lock);
	return changed;
}

/*
 * What groups may have that were not given anything has changed, and that has
 * committed.  Counted in the same moment, so that nobody publishes what was before.
 */
void
queue_state_set_defaults(QueueState *queue, const LimitSettings *defaults)
{
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	pg_atomic_fetch_add_u32(&queue->settings, 1);
	queue->limits.defaults = *defaults;
	LWLockRelease(&queue->lock);
}

/*
 * Free the entries of groups without work, of all queues.  Returns how many.
 */
int
queue_state_reclaim_groups(void)
{
	int			freed = 0;

	LWLockAcquire(&directory->lock, LW_SHARED);
	for (int i = 0; i < directory->high_water; i++)
	{
		QueueState *queue = &directory->queues[i];

		for (int class = 0; queue->in_use && class < queue->classes; class++)
			freed += group_table_reclaim(queue, class, nothing_ready(queue, class));
	}
	LWLockRelease(&directory->lock);
	return freed;
}

/*
 * A task of the overflow may have lost its place in its lane: have a pass read the
 * overflow of its class again, from that on.  Never fails: called at the end of
 * transactions, and under a lane's lock.
 */
void
queue_state_overflow_lost(QueueState *queue, int class, int64 task)
{
	QueueOrder *order = &queue->orders[class];
	bool		first;

	SpinLockAcquire(&order->mutex);
	first = (order->overflow_lost == PG_INT64_MAX);
	order->overflow_lost = Min(order->overflow_lost, task);
	SpinLockRelease(&order->mutex);
	if (first)
		wakeup_at(queue->database, 0);
}

/*
 * From which task on the overflow has to be read again; PG_INT64_MAX: it need not
 * be.  Without the lock: who asks may come a moment too early.
 */
int64
queue_state_lost(const QueueOrder *order)
{
	const volatile QueueOrder *now = order;

	return Min(now->overflow_lost, now->overflow_sought);
}

/*
 * The same for the pass that does so (one at a time), which says when it has.  Should
 * it fail, or be ended, the next one finds what it was looking for.
 */
int64
queue_state_take_lost(QueueOrder *order)
{
	int64		result;

	if (queue_state_lost(order) == PG_INT64_MAX)
		return PG_INT64_MAX;
	SpinLockAcquire(&order->mutex);
	result = Min(order->overflow_sought, order->overflow_lost);
	order->overflow_sought = result;
	order->overflow_lost = PG_INT64_MAX;
	SpinLockRelease(&order->mutex);
	return result;
}

void
queue_state_found_lost(QueueOrder *order)
{
	SpinLockAcquire(&order->mutex);
	order->overflow_sought = PG_INT64_MAX;
	SpinLockRelease(&order->mutex);
}

/*
 * Reserve room for n tasks more, of the max that the queue may have.  Those of
 * open transactions count, the dead do not.  What is reserved is given back when
 * the transaction has ended and its tasks are counted.
 */
bool
queue_state_reserve(QueueState *queue, int n, int64 max)
{
	uint64		reserved = pg_atomic_read_u64(&queue->reserved);

	/* Nobody is refused because of room that somebody else asked for in vain. */
	do
	{
		int64		total = (int64) reserved + n +
			queue_state_counter(queue, QUEUE_ADDRESSED) +
			queue_state_counter(queue, QUEUE_SCHEDULED) +
			queue_state_counter(queue, QUEUE_OVERFLOW) +
			queue_state_counter(queue, QUEUE_HELD);

		if (total > max)
			return false;
	} while (!pg_atomic_compare_exchange_u64(&queue->reserved, &reserved, reserved + n));
	return true;
}

void
queue_state_unreserve(QueueState *queue, int n)
{
	pg_atomic_fetch_sub_u64(&queue->reserved, n);
}

/*
 * Take up to n ids from the block at hand.  Returns how many, from *first on;
 * 0: the block is used up and the caller fetches another one.  *wake_sweep: it
 * is some time since the last one took any, and the sweep has to be woken.
 */
int
queue_state_take_ids(QueueState *queue, int n, int64 *first, bool *wake_sweep)
{
	int64		taken;

	SpinLockAcquire(&queue->id_mutex);
	taken = Min((int64) n, queue->end_id - queue->next_id);
	*first = queue->next_id;
	queue->next_id += taken;
	*wake_sweep = (taken > 0 && queue->sweep_sleeps);
	if (taken > 0)
		queue->sweep_sleeps = false;
	SpinLockRelease(&queue->id_mutex);
	return (int) taken;
}

/*
 * Put the ids first .. end - 1 at everybody's disposal.  A block that was
 * overtaken by a later one is let go, so that ids never run backwards.
 */
void
queue_state_give_ids(QueueState *queue, int64 first, int64 end)
{
	SpinLockAcquire(&queue->id_mutex);
	if (first >= queue->end_id)
	{
		if (queue->end_id == 0)
			queue->first_id = first;
		queue->next_id = first;
		queue->end_id = end;
	}
	SpinLockRelease(&queue->id_mutex);
}

/*
 * What is counted of a queue is off, or may be: have a pass see that it is counted anew.
 * Never fails: called at the end of transactions, and under a lane's lock.
 */
void
queue_state_recount(QueueState *queue)
{
	queue->recount = true;
	wakeup_at(queue->database, 0);
}

/*
 * A held task may have nothing before it any more: have a pass look at it.
 */
void
queue_state_look(QueueState *queue, int64 task)
{
	bool		there = false;

	SpinLockAcquire(&queue->looks_mutex);
	for (int i = 0; i < queue->look_count && !there; i++)
		there = (queue->looks[i] == task);
	if (!there && queue->look_count < HELD_LOOKS)
		queue->looks[queue->look_count++] = task;
	else if (!there)
		queue->look_from = Min(queue->look_from, task);
	SpinLockRelease(&queue->looks_mutex);
}

/*
 * Have a pass look at all held tasks from an id on.
 */
void
queue_state_look_from(QueueState *queue, int64 from)
{
	SpinLockAcquire(&queue->looks_mutex);
	queue->look_from = Min(queue->look_from, from);
	SpinLockRelease(&queue->looks_mutex);
}

/*
 * Take what is to be looked at: the result says how many tasks there are, which
 * has room for HELD_LOOKS, and *from from where on all (PG_INT64_MAX: none).
 */
int
queue_state_take_looks(QueueState *queue, int64 *tasks, int64 *from)
{
	int			n;

	SpinLockAcquire(&queue->looks_mutex);
	n = queue->look_count;
	memcpy(tasks, queue->looks, n * sizeof(int64));
	*from = queue->look_from;
	queue->look_count = 0;
	queue->look_from = PG_INT64_MAX;
	SpinLockRelease(&queue->looks_mutex);
	return n;
}

bool
queue_state_has_looks(QueueState *queue)
{
	return ((volatile QueueState *) queue)->look_count > 0 ||
		((volatile QueueState *) queue)->look_from != PG_INT64_MAX;
}

/*
 * The ids that were given out since the start are from *first on, below *end.
 */
void
queue_state_ids(QueueState *queue, int64 *first, int64 *end)
{
	SpinLockAcquire(&queue->id_mutex);
	*first = queue->first_id;
	*end = queue->next_id;
	SpinLockRelease(&queue->id_mutex);
}

/*
 * The sweep has looked at all ids below done: are these all, so that it may sleep
 * until another one is taken?
 */
bool
queue_state_sweep_sleeps(QueueState *queue, int64 done)
{
	bool		sleeps;

	SpinLockAcquire(&queue->id_mutex);
	sleeps = queue->sweep_sleeps = (done >= queue->next_id);
	SpinLockRelease(&queue->id_mutex);
	return sleeps;
}

/*
 * True for one caller each quarter of a second, who then looks at what need
 * not be looked at by every claim.
 */
bool
queue_state_tick(QueueState *queue, TimestampTz now)
{
	uint64		tick = now / (USECS_PER_SEC / 4);
	uint64		last = pg_atomic_read_u64(&queue->tick);

	/* From the future: the clock has been set back. */
	return (last < tick || last > tick + 4) &&
		pg_atomic_compare_exchange_u64(&queue->tick, &last, tick);
}

/*
 * A task was claimed: virtual time is at least its start tag.  Unless that was made
 * up: then it is as far as one task may advance it, and charged from there.
 */
void
queue_state_advance(QueueOrder *order, VirtualTime start, VirtualTime finish)
{
	SpinLockAcquire(&order->mutex);
	order->virtual_time = virtual_time_leap(order->virtual_time, start);
	if (unlikely(finish.whole >= FAIRQ_TAGS_LEAP))
		finish = virtual_time_at_most(finish, order->virtual_time.whole + FAIRQ_MAX_CHARGE);
	order->served_finish = virtual_time_max(order->served_finish, finish);
	SpinLockRelease(&order->mutex);
}

/*
 * The rows were read, and this is the first start tag: virtual time begins there, if
 * nothing has been claimed.  Else it is known, and goes on from where it is.
 */
void
queue_state_start_at(QueueOrder *order, VirtualTime first)
{
	const VirtualTime none = {0, 0};

	first = virtual_time_at_most(first, FAIRQ_TAGS_START);
	SpinLockAcquire(&order->mutex);
	if (virtual_time_compare(order->virtual_time, none) == 0)
	{
		order->virtual_time = virtual_time_max(none, first);
		order->served_finish = virtual_time_max(order->served_finish, first);
	}
	SpinLockRelease(&order->mutex);
}

/*
 * Nothing is ready: the busy period is over, and whoever comes next starts
 * level.  Start-time fair queueing sets virtual time to the highest finish
 * tag of a task that was served (not: assigned; tasks of a transaction still
 * open must not be put ahead of everybody who comes meanwhile).
 */
void
queue_state_idle(QueueOrder *order)
{
	SpinLockAcquire(&order->mutex);
	order->virtual_time = virtual_time_max(order->virtual_time,
										   order->served_finish);
	SpinLockRelease(&order->mutex);
}

VirtualTime
queue_state_virtual_time(QueueOrder *order)
{
	VirtualTime result;

	SpinLockAcquire(&order->mutex);
	result = order->virtual_time;
	SpinLockRelease(&order->mutex);
	return result;
}

/*
 * What is kept of a queue; false if there is none of this number.
 */
bool
queue_state_save(int number, SavedQueue *saved)
{
	QueueState *queue = &directory->queues[number];

	if (number >= directory->high_water || !queue->in_use)
		return false;
	memset(saved, 0, sizeof(SavedQueue));
	saved->number = number;
	saved->database = queue->database;
	saved->relation = queue->relation;
	saved->classes = queue->classes;
	return true;
}

/*
 * Set a queue up as it was, if it fits.
 */
void
queue_state_restore(const SavedQueue *saved)
{
	if (saved->number < 0 || saved->number >= settings_max_queues ||
		!OidIsValid(saved->database) || !OidIsValid(saved->relation) ||
		(saved->classes != 1 && saved->classes != FAIRQ_CLASSES))
		return;
	for (int i = directory->high_water; i < saved->number; i++)
		directory->queues[i].in_use = false;
	queue_state_init(&directory->queues[saved->number], saved->database,
					 saved->relation, saved->classes);
	directory->high_water = Max(directory->high_water, saved->number + 1);
}
