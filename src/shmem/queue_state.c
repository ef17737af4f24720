/*-------------------------------------------------------------------------
 *
 * queue_state.c
 *	  What all processes know about a queue: the shared part.
 *
 * An array of QueueState, found by (database, relation).  A backend keeps the
 * pointer in its own cache (queue_open.c) and may use it while it holds a
 * lock on the queue's relation: a queue is released when its relation is
 * dropped, which needs an exclusive lock on it.
 *
 * All of it is a hint (idea 4 of src/README.md): a new state starts empty and
 * is filled from the rows (recovery.c).
 *
 * Here are the directory, what is published of a queue's settings, the ids that
 * are at all backends' disposal, and who reads what is not known.  Each other
 * part of the state has a file of its own, which queue_state.h names; lanes,
 * groups, leases and limits are in tables of their own, and know their queue by
 * its number.
 *
 * Locking: the directory lock guards which entries are in use.  It is taken
 * before all other locks of ours.  Each field of a QueueState names its own
 * guard.  Where a function here takes one that is said.
 *
 * Races: 15 (settings are read before they are committed) is guarded by the
 * count of changes (queue_state_publish), 24 (an old number of this node) and
 * 26 by the ids' mutex, 18 (a task that expires leased) by the list of those
 * that have outlived.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "common/node_number.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/groups.h"
#include "shmem/queue_state.h"
#include "shmem/stats.h"
#include "shmem/worker_slots.h"

/*
 * The lock guards which entries are in use, and of what.  An entry stays where
 * it is while it is in use: leases, lanes and groups have the queue's number.
 */
typedef struct QueueDirectory
{
	LWLock		lock;
	int			high_water;		/* entries at and beyond were never used */
	QueueState	queues[FLEXIBLE_ARRAY_MEMBER];
} QueueDirectory;

static QueueDirectory *directory = NULL;

/*
 * The memory for all queues that there may be, pgfairq.max_queues (invariant
 * I10).
 */
Size
queue_state_shmem_size(void)
{
	return add_size(offsetof(QueueDirectory, queues),
					mul_size(settings_max_queues, sizeof(QueueState)));
}

/*
 * Set up the directory, or find it (found).  Entries are set up when they come
 * into use.
 */
void
queue_state_shmem_init(void *area, bool found)
{
	directory = area;
	if (found)
		return;
	LWLockInitialize(&directory->lock,
					 shared_memory_tranche(FAIRQ_TRANCHE_QUEUE));
	directory->high_water = 0;
}

/*
 * The shared state of a queue, or NULL.  The caller holds the directory lock,
 * in either mode.  The result is good for as long as it does, or has the
 * queue's relation locked.  There are few queues, and a backend looks for each
 * once: so all entries are gone through.
 */
QueueState *
queue_state_search(Oid database, Oid relation)
{
	AssertLocked(&directory->lock);
	for (int i = 0; i < directory->high_water; i++)
	{
		QueueState *queue = &directory->queues[i];

		if (queue->in_use && queue->relation == relation &&
			queue->database == database)
			return queue;
	}
	return NULL;
}

/*
 * Set up an entry that is not in use.  Nothing is known of the queue's rows
 * then: unique keys may be remembered, all ids are to be swept, and the next
 * that opens it reads what it needs.
 *
 * The caller holds the directory lock exclusively, or is the postmaster, alone.
 * in_use is set last; but it is the lock that keeps others away until then.
 */
static void
queue_state_init(QueueState *queue, Oid database, Oid relation, int classes)
{
	/* All of recovery is QUEUE_UNKNOWN, and no file is known, by being zero. */
	StaticAssertStmt(QUEUE_UNKNOWN == 0 && InvalidRelFileNumber == 0, "nothing is known");
	memset(queue, 0, sizeof(QueueState));
	queue->database = database;
	queue->relation = relation;
	queue->classes = classes;
	LWLockInitialize(&queue->lock, shared_memory_tranche(FAIRQ_TRANCHE_QUEUE));
	SpinLockInit(&queue->ids.mutex);
	SpinLockInit(&queue->recovery.mutex);
	held_looks_init(&queue->held);
	queue->clock_steps = wall_clock_steps();
	index_cursor_init(&queue->due);
	index_cursor_init(&queue->archive.cursor);
	index_cursor_init(&queue->expiry.cursor);
	SpinLockInit(&queue->expiry.mutex);
	index_cursor_init(&queue->remembered.cursor);
	pg_atomic_init_u64(&queue->remembered.written, 1);
	pg_atomic_init_u32(&queue->remembered.none_of, 0);
	successor_filter_init(&queue->successors);
	SpinLockInit(&queue->suspects.mutex);
	class_shares_init(&queue->shares);
	pg_atomic_init_u32(&queue->suspects.turns, 0);
	queue->ids.all_swept = true;
	queue->sweep.hand.due = PG_INT64_MIN;
	ConditionVariableInit(&queue->recovery.done);
	queue->tallies.since = GetCurrentTimestamp();
	queue->published.max_ready = PG_INT64_MAX;
	queue->published.max_ready_per_group = PG_INT64_MAX;
	pg_atomic_init_u64(&queue->counts.ready, 0);
	pg_atomic_init_u64(&queue->counts.counted, 0);
	pg_atomic_init_u64(&queue->counts.reserved, 0);
	/* Nothing is known of limits yet: groups have none, and a weight of 1. */
	queue->limits.defaults = (LimitSettings) {.weight = 1.0};
	queue->limits.subgroup_defaults = queue->limits.defaults;
	pg_atomic_init_u32(&queue->limits.changes, 0);
	pg_atomic_init_u32(&queue->limits.entries, 0);
	pg_atomic_init_u32(&queue->limits.strangers, 0);
	LWLockInitialize(&queue->limits.token_lock, shared_memory_tranche(FAIRQ_TRANCHE_LIMIT));
	pg_atomic_init_u64(&queue->limits.next_token, (uint64) DT_NOEND);
	pg_atomic_init_u32(&queue->published.changes, 0);
	pg_atomic_init_u64(&queue->pass_after, 0);
	pg_atomic_init_u64(&queue->tick, 0);
	pg_atomic_init_u32(&queue->expired, 0);
	for (int i = 0; i < QUEUE_COUNTERS; i++)
		pg_atomic_init_u64(&queue->tallies.n[i], 0);
	for (int i = 0; i < FAIRQ_CLASSES; i++)
	{
		SpinLockInit(&queue->orders[i].mutex);
		queue->orders[i].overflow_lost = PG_INT64_MAX;
		queue->orders[i].overflow_sought = PG_INT64_MAX;
		queue->orders[i].group_ring = FAIRQ_NO_GROUP;
		queue->orders[i].lanes.queue = queue_state_number(queue);
		queue->orders[i].lanes.class = i;
	}
	queue->in_use = true;
}

/*
 * Make the shared state of a queue that has none; NULL: there is no room.  The
 * caller holds the directory lock exclusively, and has looked under it that
 * there is none.  It sets up what others keep by the queue's number
 * (stats_init_queue) before it releases that lock.  An entry that is free has
 * nothing left of the queue before: that was released with all its parts
 * (queue_lifecycle_release).
 */
QueueState *
queue_state_make(Oid database, Oid relation, int classes)
{
	int			number = 0;

	AssertLockedExclusively(&directory->lock);
	Assert(classes == 1 || classes == FAIRQ_CLASSES);
	Assert(queue_state_search(database, relation) == NULL);
	while (number < directory->high_water && directory->queues[number].in_use)
		number++;
	if (number == settings_max_queues)
		return NULL;
	queue_state_init(&directory->queues[number], database, relation, classes);
	directory->high_water = Max(directory->high_water, number + 1);
	return &directory->queues[number];
}

/*
 * Is there no room for another queue?  That may be otherwise at once.  For who
 * is about to open one, and can release queues that are gone before
 * (gone_queues_release).  Takes the directory lock in shared mode.
 */
bool
queue_state_full(void)
{
	int			in_use = 0;

	queue_state_lock_all(LW_SHARED);
	for (int n = 0; queue_state_next(&n) != NULL;)
		in_use++;
	queue_state_unlock_all();
	return in_use >= settings_max_queues;
}

/*
 * The shared state of a queue of this database, or NULL.  A caller without a
 * lock on the relation may read what is another queue's by then: a hint.  Takes
 * the directory lock in shared mode, and so the caller holds no lock of ours.
 */
QueueState *
queue_state_find(Oid relation)
{
	QueueState *queue;

	queue_state_lock_all(LW_SHARED);
	queue = queue_state_search(MyDatabaseId, relation);
	queue_state_unlock_all();
	return queue;
}

/*
 * The entry of a number, whether it is in use or not.  A queue's leases, lanes
 * and groups go before its entry does: a caller that has one of them locked
 * finds its queue here.  To others, without a lock on the relation, the entry
 * is a hint: it may be another queue's by now.
 */
QueueState *
queue_state_by_number(int number)
{
	Assert(number >= 0 && number < settings_max_queues);
	return &directory->queues[number];
}

#ifdef USE_ASSERT_CHECKING

/*
 * The ids of a queue, whose spinlock is held, are in order (QueueIds).
 */
static void
check_ids(const QueueIds *ids)
{
	AssertSpinLocked(&ids->mutex);
	Assert(ids->next <= ids->end);
	Assert(ids->first <= ids->next);
	Assert(ids->node <= NODE_MAX);
}

#else
#define check_ids(ids)	((void) 0)
#endif

/*
 * The number of a queue: its index in the directory, by which leases, lanes,
 * groups and limits refer to it.
 */
int
queue_state_number(const QueueState *queue)
{
	Assert(queue >= directory->queues && queue < directory->queues + settings_max_queues);
	return (int) (queue - directory->queues);
}

/*
 * Walk over the queues of all databases: lock, call queue_state_next() from
 * number 0 on until it returns NULL, unlock.  The directory lock keeps queues
 * from coming and going meanwhile; who takes a queue out needs it exclusively.
 */
void
queue_state_lock_all(LWLockMode mode)
{
	AssertNotLocked(&directory->lock);
	LWLockAcquire(&directory->lock, mode);
}

/*
 * Release the directory lock: queues that were found by it may go from now on.
 */
void
queue_state_unlock_all(void)
{
	LWLockRelease(&directory->lock);
}

/*
 * The next queue in use from *number on, or NULL; *number is set behind it. The
 * caller holds the directory lock, in either mode, for the whole walk.
 */
QueueState *
queue_state_next(int *number)
{
	AssertLocked(&directory->lock);
	while (*number < directory->high_water)
	{
		QueueState *queue = &directory->queues[(*number)++];

		if (queue->in_use)
			return queue;
	}
	return NULL;
}

/*
 * Rows of a queue of this database may have been written without any backend
 * being told: have the next one that opens it read them anew.  No file has the
 * number that is noted, so check_file() starts over.
 *
 * Takes the directory lock in shared mode and then the queue's.  Never fails:
 * called at commit.
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
 * Begin to read what shared memory does not know of a queue: one backend at a
 * time.  what is a field of queue->recovery.  True: the caller reads it, and
 * calls queue_state_recovery_end.  False: it is known; if another backend is
 * reading it, that is waited for.
 *
 * The caller holds no lock of ours, and may be interrupted while it waits.  No
 * deadlock is detected there: which heavyweight locks the reading takes, the
 * caller has to take before this.
 */
bool
queue_state_recovery_begin(QueueState *queue, QueueRecovery *what)
{
	AssertNotLocked(&queue->lock);
	for (;;)
	{
		QueueRecovery before;

		SpinLockAcquire(&queue->recovery.mutex);
		before = *what;
		if (before == QUEUE_UNKNOWN)
			*what = QUEUE_RECOVERING;
		SpinLockRelease(&queue->recovery.mutex);

		if (before != QUEUE_RECOVERING)
			return before == QUEUE_UNKNOWN;
		/* Join, then look: an end that comes after the look wakes us. */
		ConditionVariablePrepareToSleep(&queue->recovery.done);
		if (*(volatile QueueRecovery *) what == QUEUE_RECOVERING)
			ConditionVariableSleep(&queue->recovery.done,
								   shared_memory_wait_event(FAIRQ_WAIT_RECOVERY));
		ConditionVariableCancelSleep();
	}
}

/*
 * It is known; or, with QUEUE_UNKNOWN, another backend has to read it.  The
 * backend that queue_state_recovery_begin told to read calls this, also at its
 * error or its exit: else the others would sleep for good.  Takes the mutex,
 * and wakes all that wait for any of the three.  Never fails.
 */
void
queue_state_recovery_end(QueueState *queue, QueueRecovery *what,
						 QueueRecovery result)
{
	SpinLockAcquire(&queue->recovery.mutex);
	Assert(*what == QUEUE_RECOVERING && result != QUEUE_RECOVERING);
	*what = result;
	SpinLockRelease(&queue->recovery.mutex);
	ConditionVariableBroadcast(&queue->recovery.done);
}

/*
 * Let all processes go by what a backend has read of a queue's settings, when
 * settings was their count of changes.  Not if there was one since: what was
 * read may be old, and is read again by whoever opens the queue next.
 * Returns whether that changes what groups may have, which the caller then
 * carries out (group_limits_defaults_changed).  Takes the queue's lock.
 */
bool
queue_state_publish(QueueState *queue, const QueuePublic *public, uint32 settings)
{
	bool		changed = false;

	AssertNotLocked(&queue->lock);
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	if (settings == pg_atomic_read_u32(&queue->published.changes))
	{
		queue->published.max_ready = public->max_ready;
		queue->published.max_ready_per_group = public->max_ready_per_group;
		queue->published.charge_seconds = public->charge_seconds;
		changed = !limit_table_same(&queue->limits.defaults, &public->group_defaults) ||
			!limit_table_same(&queue->limits.subgroup_defaults, &public->subgroup_defaults);
		queue->limits.defaults = public->group_defaults;
		queue->limits.subgroup_defaults = public->subgroup_defaults;
		SpinLockAcquire(&queue->ids.mutex);
		queue->ids.node = public->node;
		/* What is left of the number before is not given out: race 24. */
		if (queue->ids.end < NODE_FIRST_ID(public->node))
			queue->ids.next = queue->ids.end;
		check_ids(&queue->ids);
		SpinLockRelease(&queue->ids.mutex);
	}
	LWLockRelease(&queue->lock);
	return changed;
}

/*
 * What groups may have that were not given anything has changed, and that has
 * committed.  Counted in the same moment, so that no backend publishes what
 * was before (race 15).  Takes the queue's lock.  Never fails.  Groups that
 * may go on are the caller's to wake (group_limits_defaults_changed).
 */
void
queue_state_set_defaults(QueueState *queue, const LimitSettings *defaults,
						 const LimitSettings *subgroup_defaults)
{
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	pg_atomic_fetch_add_u32(&queue->published.changes, 1);
	queue->limits.defaults = *defaults;
	queue->limits.subgroup_defaults = *subgroup_defaults;
	LWLockRelease(&queue->lock);
}

/*
 * Groups of a queue are divided from now on, or are not any more, and that has
 * committed: what is known of them is of others.  Whoever opens the queue next
 * reads its rows anew, and what groups were given.  Never fails.  The caller
 * has the relation locked exclusively, and then has leases leave their groups.
 */
void
queue_state_regroup(QueueState *queue)
{
	LWLockAcquire(&queue->lock, LW_EXCLUSIVE);
	pg_atomic_fetch_add_u32(&queue->published.changes, 1);
	queue->limits.prepared = true;
	queue->relation_file = InvalidRelFileNumber;
	LWLockRelease(&queue->lock);
}

/*
 * Reserve room for n tasks more, of the max that the queue may have.  Those of
 * open transactions count, the dead do not.  False: there is none, and nothing
 * is reserved.
 *
 * The caller notes at once what gives it back (queue_state_unreserve) when the
 * transaction has ended and its tasks are counted: in between they count
 * twice, never not at all.  Takes no lock.
 */
bool
queue_state_reserve(QueueState *queue, int n, int64 max)
{
	uint64		reserved = pg_atomic_read_u64(&queue->counts.reserved);

	Assert(n > 0);
	/* No caller is refused for room that another one asked for in vain. */
	do
	{
		int64		total = (int64) reserved + n +
			queue_state_counter(queue, QUEUE_ADDRESSED) +
			queue_state_counter(queue, QUEUE_SCHEDULED) +
			queue_state_counter(queue, QUEUE_OVERFLOW) +
			queue_state_counter(queue, QUEUE_HELD);

		if (total > max)
			return false;
	} while (!pg_atomic_compare_exchange_u64(&queue->counts.reserved, &reserved, reserved + n));
	return true;
}

/*
 * Give back room for n tasks, which this transaction has reserved: it has
 * ended, and what it has written is counted.  Never fails: for the end of
 * transactions.
 */
void
queue_state_unreserve(QueueState *queue, int n)
{
	Assert(n > 0 && pg_atomic_read_u64(&queue->counts.reserved) >= (uint64) n);
	pg_atomic_fetch_sub_u64(&queue->counts.reserved, n);
}

/*
 * Take up to n ids from the block at hand.  Returns how many, from *first on;
 * 0: the block is used up and the caller fetches another one, which is to begin
 * at *first or later.  *wake_sweep: it is some time since the last one took
 * any, and the sweep has to be woken.  The caller has a transaction id by now:
 * once that is over the sweep knows that no row of these ids is still to come.
 */
int
queue_state_take_ids(QueueState *queue, int n, int64 *first, bool *wake_sweep)
{
	int64		taken;

	Assert(n > 0);
	SpinLockAcquire(&queue->ids.mutex);
	taken = Min((int64) n, queue->ids.end - queue->ids.next);
	*first = taken > 0 ? queue->ids.next : Max(queue->ids.end, NODE_FIRST_ID(queue->ids.node));
	queue->ids.next += taken;
	*wake_sweep = (taken > 0 && queue->ids.all_swept);
	if (taken > 0)
		queue->ids.all_swept = false;
	check_ids(&queue->ids);
	SpinLockRelease(&queue->ids.mutex);
	return (int) taken;
}

/*
 * Put the ids first .. end - 1 at all backends' disposal.  A block that was
 * overtaken by a later one is let go, so that ids never run backwards; and so
 * is one below the node's first id.
 */
void
queue_state_give_ids(QueueState *queue, int64 first, int64 end)
{
	Assert(first < end);
	SpinLockAcquire(&queue->ids.mutex);
	if (first >= queue->ids.end && first >= NODE_FIRST_ID(queue->ids.node))
	{
		if (queue->ids.end == 0)
			queue->ids.first = first;
		queue->ids.next = first;
		queue->ids.end = end;
	}
	check_ids(&queue->ids);
	SpinLockRelease(&queue->ids.mutex);
}

/*
 * What is counted of a queue is off, or may be: have a pass see that it is
 * counted anew, and the worker come for that.  Takes no lock: that it is set
 * once too often costs a look at the rows.  Never fails: called at the end of
 * transactions, and under a lane's lock.
 */
void
queue_state_recount(QueueState *queue)
{
	queue->counts.recount = true;
	worker_slots_wake_at(queue->database, 0);
}

/*
 * The lease of a task has ended that was leased when it expired, and the task
 * is as it was: a pass looks at it, or, if there are too many, at all that
 * have expired (race 18).
 *
 * The caller holds the lock of the lease's partition, so that no claim leases
 * the task before it is noted.  Takes spinlocks.  Never fails.
 */
void
queue_state_outlived(QueueState *queue, int64 task)
{
	bool		room;

	SpinLockAcquire(&queue->expiry.mutex);
	room = (queue->expiry.outlived_count < OUTLIVED_TASKS);
	if (room)
		queue->expiry.outlived[queue->expiry.outlived_count++] = task;
	SpinLockRelease(&queue->expiry.mutex);
	if (!room)
		index_cursor_add(&queue->expiry.cursor, DT_NOBEGIN);
	worker_slots_wake_at(queue->database, 0);
}

/*
 * Take those that are to be looked at: tasks has room for OUTLIVED_TASKS.
 * Returns how many.  The caller notes that it has them: if it rolls back, all
 * that has expired is read again (pending_outlived_taken).
 */
int
queue_state_take_outlived(QueueState *queue, int64 *tasks)
{
	int			n;

	SpinLockAcquire(&queue->expiry.mutex);
	n = queue->expiry.outlived_count;
	Assert(n >= 0 && n <= OUTLIVED_TASKS);
	memcpy(tasks, queue->expiry.outlived, n * sizeof(int64));
	queue->expiry.outlived_count = 0;
	SpinLockRelease(&queue->expiry.mutex);
	return n;
}

/*
 * The ids that were given out since the start are from *first on, below *end.
 * Both are 0 if none was.  As of a moment ago: *end may be higher at once.
 */
void
queue_state_ids(QueueState *queue, int64 *first, int64 *end)
{
	SpinLockAcquire(&queue->ids.mutex);
	*first = queue->ids.first;
	*end = queue->ids.next;
	SpinLockRelease(&queue->ids.mutex);
}

/*
 * The sweep has looked at all ids below done: are these all, so that it may
 * sleep until another one is taken?  Whoever takes one after this look finds
 * all_swept and wakes it; whoever took one before is seen here.  The caller
 * has the maintenance lock.
 */
bool
queue_state_sweep_sleeps(QueueState *queue, int64 done)
{
	bool		sleeps;

	SpinLockAcquire(&queue->ids.mutex);
	sleeps = queue->ids.all_swept = (done >= queue->ids.next);
	SpinLockRelease(&queue->ids.mutex);
	return sleeps;
}

/*
 * True for one caller each quarter of a second, who then looks at what need
 * not be looked at by every claim: doubts of lanes whose transactions may have
 * ended.  Takes no lock; now is the time in microseconds.
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
 * What is kept of a queue; false if there is none of this number.  Not locked:
 * a caller that is not alone makes sure of it before anything depends on it.
 * saved has no byte that is not set, for it is written to a file as it is.
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
 * Set a queue up as it was, if it fits; if it does not, nothing happens: what
 * the file says is checked, as the settings may be others by now.  For the
 * postmaster at its start, which is alone and so takes no lock.
 */
void
queue_state_restore(const SavedQueue *saved)
{
	if (saved->number < 0 || saved->number >= settings_max_queues ||
		!OidIsValid(saved->database) || !OidIsValid(saved->relation) ||
		(saved->classes != 1 && saved->classes != FAIRQ_CLASSES))
		return;
	queue_state_init(&directory->queues[saved->number], saved->database,
					 saved->relation, saved->classes);
	directory->high_water = Max(directory->high_water, saved->number + 1);
}
