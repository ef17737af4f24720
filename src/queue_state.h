/*-------------------------------------------------------------------------
 *
 * queue_state.h
 *	  What all processes know about a queue: the shared part.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_STATE_H
#define FAIRQ_QUEUE_STATE_H

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/itemptr.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "address.h"
#include "compat.h"
#include "due_cursor.h"
#include "lanes.h"
#include "group_limits.h"
#include "virtual_time.h"

/* What is counted since stats_reset. */
typedef enum QueueCounter
{
	QUEUE_ENQUEUED,
	QUEUE_CLAIMED,
	QUEUE_ACKED,
	QUEUE_NACKED,
	QUEUE_RELEASED,
	QUEUE_EXPIRED,
	QUEUE_CANCELLED,
	QUEUE_DIED,
	QUEUE_SWEPT,				/* tasks that nobody had handed over */
	QUEUE_PAYLOAD_BYTES,		/* of what was enqueued */
	/* how many there are now; never reset */
	QUEUE_ADDRESSED,			/* tasks with an address: ready or leased */
	QUEUE_SCHEDULED,
	QUEUE_OVERFLOW,
	QUEUE_HELD,
	QUEUE_DEAD
} QueueCounter;

#define QUEUE_COUNTERS	(QUEUE_DEAD + 1)
#define QUEUE_FIRST_DEPTH	QUEUE_ADDRESSED

/*
 * One fair order: the tags of a priority class.  Queues of the policies
 * priority and time use the first one only, for its lanes.
 */
typedef struct QueueOrder
{
	slock_t		mutex;			/* guards the next four */
	VirtualTime virtual_time;	/* v: the highest block claimed so far */
	VirtualTime served_finish;	/* the highest finish tag of a claimed task */
	int64		overflow_lost;	/* tasks of the overflow from here on may have
								 * lost their places in lanes; PG_INT64_MAX:
								 * none have */
	int64		overflow_sought;	/* the same of those that a pass is looking for,
									 * or was when it failed */
	uint64		next_slot;		/* group lock: slots handed out so far */
	uint32		group_ring;		/* group lock: some group of this order, the
								 * hand of the clock that finds idle ones */
	LaneSet		lanes;			/* queue's lock to add some; none: the order
								 * has never been used */
} QueueOrder;

typedef enum QueueRecovery
{
	QUEUE_UNKNOWN,				/* tags and depths have to be read from the rows */
	QUEUE_RECOVERING,			/* somebody does */
	QUEUE_KNOWN
} QueueRecovery;

/* The reading of a queue's archive (archive.c). */
typedef struct ArchiveState
{
	DueCursor	cursor;			/* finished tasks, by when they were */
	/* The maintenance lock guards the rest. */
	TimestampTz retry_at;		/* it is left alone until then */
	int			failures;		/* since something was removed */
	int			sqlerrcode;		/* of the error that was reported; 0: none */
	TimestampTz reread_at;		/* when to read from the start again */
	TimestampTz reread_began;	/* 0: not doing that */
} ArchiveState;

/* Held tasks to look at that are remembered one by one. */
#define HELD_LOOKS		32

/* A task that looks as if nobody had handed it over. */
typedef struct SweepSuspect
{
	int64		id;
	TimestampTz since;			/* the last look that did not find it */
	int			looks;			/* how many have not */
} SweepSuspect;

#define SWEEP_SUSPECTS	512

/* How far the tasks have been looked through for lost ones: sweep.c. */
typedef struct QueueSweep
{
	TimestampTz begun_at;		/* of the last sweep */
	bool		under_way;
	bool		reported;		/* something found, in the log */
	bool		lossy;			/* suspects turned out to be lost */
	bool		turn_hand;		/* something has happened since the one before */
	uint64		activity;		/* what had happened when it began */
	int64		record_id;		/* ids below were given out, 0: no record, ... */
	uint64		record_xid;		/* ... to transactions below */
	DuePlace	done;			/* ids below have been looked at for good */
	DuePlace	looked;			/* ... and these once */
	DuePlace	hand;			/* how far round the whole of them */
	int			suspect_count;
	SweepSuspect suspects[SWEEP_SUSPECTS];
} QueueSweep;

typedef struct QueueState
{
	/* Identity; guarded by the directory lock, fixed while in use. */
	bool		in_use;
	Oid			database;
	Oid			relation;
	int			classes;		/* FAIRQ_CLASSES under policy fair, else 1 */

	LWLock		lock;			/* allocation of lanes, relation_file */
	RelFileNumber relation_file;	/* the file that the lanes' TIDs are of */

	slock_t		id_mutex;		/* guards the ids */
	int64		next_id;		/* ids next_id .. end_id - 1 are free */
	int64		end_id;
	int64		first_id;		/* of all that were given out since the start */
	bool		sweep_sleeps;	/* it has looked at them all */

	slock_t		recovery_mutex; /* guards the next three */
	QueueRecovery recovery;
	bool		classes_known;	/* every class with rows has its lanes */
	QueueRecovery leases;		/* are those in the lease table
								 * that have rows in fairq.durable_lease? */
	ConditionVariable recovery_done;	/* of either */
	RelFileNumber leases_file;	/* whoever recovers: the file of those rows */

	DueCursor	due;			/* scheduled tasks, by when they are due */
	ArchiveState archive;
	QueueSweep	sweep;			/* maintenance lock */
	uint32		clock_steps;	/* the same: of the wall clock, that are allowed for */

	/* Settings that are looked at with none of the catalogs at hand, and so are
	 * the limits' defaults; the queue's lock to write (queue_state_publish). */
	int64		max_ready;
	int64		max_ready_per_group;
	bool		charge_seconds;

	QueueLimits limits;			/* group_limits.c */

	pg_atomic_uint64 ready;		/* tasks that are ready, those of open transactions
								 * too: the sum over groups */
	pg_atomic_uint32 fed_tasks; /* of these, of the overflow (fed_tasks.c) */
	pg_atomic_uint64 counted;	/* rows before this place (queue_state_place) are
								 * counted in their groups; 0: none are */
	bool		recount;		/* counts are off: count anew (recovery_recount) */

	pg_atomic_uint32 overflowing;	/* groups that may have tasks in the overflow */

	pg_atomic_uint64 reserved;	/* tasks of open transactions, of max_tasks */

	/* Groups that have room for tasks of their overflow: group_overflow.c. */
	slock_t		hungry_mutex;	/* guards the next eight */
	uint32		hungry_first;
	uint32		hungry_last;
	int			hungry_count;
	int			being_fed;		/* groups, by transactions under way */
	int			dry;			/* groups that have run out of places, and are being
								 * fed; read without the lock */
	uint32		dry_epoch;		/* claims have given up waiting for those of earlier
								 * ones */
	uint32		feeds;			/* groups that were fed, and their tasks offered */
	bool		feeds_late;		/* somebody has waited for that in vain */
	ConditionVariable fed;
	TimestampTz hungry_seek_at; /* maintenance lock: when to look at all groups */
	uint32		hungry_seeks;	/* the same: how often that was done */

	slock_t		looks_mutex;	/* guards the next three */
	int			look_count;
	int64		looks[HELD_LOOKS];	/* held tasks that may have nothing before them */
	int64		look_from;		/* and all from this id on; PG_INT64_MAX: none */

	uint16		owners[FAIRQ_MAX_BUCKETS];	/* sessions' lock: whose a bucket is */

	pg_atomic_uint32 settings;	/* counts their changes that have committed; the
								 * queue's lock, if the limits' defaults change */
	pg_atomic_uint64 pass_after;	/* no use in a claim's pass of maintenance
									 * before this */
	TimestampTz stats_reset;
	pg_atomic_uint64 tick;		/* of the last look at what claims look at now
								 * and then */
	pg_atomic_uint32 expired;	/* leases past their deadline, not taken over */
	pg_atomic_uint64 counters[QUEUE_COUNTERS];

	QueueOrder	orders[FAIRQ_CLASSES];
} QueueState;

/* What a queue's settings say that all processes go by. */
typedef struct QueuePublic
{
	int64		max_ready;
	int64		max_ready_per_group;
	bool		charge_seconds;
	LimitSettings group_defaults;
} QueuePublic;

/* What of a queue is kept across a restart: which one its number means. */
typedef struct SavedQueue
{
	int			number;
	Oid			database;
	Oid			relation;
	int			classes;
} SavedQueue;

extern Size queue_state_shmem_size(void);
extern void queue_state_shmem_init(void *area, bool found);

extern QueueState *queue_state_attach(Oid relation, int classes);
extern bool queue_state_full(void);
extern QueueState *queue_state_find(Oid relation);
extern QueueState *queue_state_by_number(int number);
extern int	queue_state_number(const QueueState *queue);
extern void queue_state_release(Oid database, Oid relation);
extern bool queue_state_save(int number, SavedQueue *saved);
extern void queue_state_restore(const SavedQueue *saved);
extern bool queue_state_recovery_begin(QueueState *queue, QueueRecovery *what);
extern void queue_state_recovery_end(QueueState *queue, QueueRecovery *what,
									 QueueRecovery result);
extern int	queue_state_reclaim_groups(void);
extern bool queue_state_has_ready(QueueState *queue, int bucket);
extern void queue_state_settings_changed(Oid relation);
extern bool queue_state_publish(QueueState *queue, const QueuePublic *public,
								uint32 settings);
extern void queue_state_set_defaults(QueueState *queue,
									 const LimitSettings *defaults);
extern void queue_state_read_again(Oid relation);

extern void queue_state_fed(QueueState *queue, bool fed);
extern void queue_state_wait_dry(QueueState *queue, TimestampTz give_up);
extern bool queue_state_feeds(QueueState *queue, uint32 feeds);
extern bool queue_state_wait_fed(QueueState *queue, uint32 feeds,
								 TimestampTz give_up);
extern void queue_state_seek_hungry(QueueState *queue, bool held);
extern void queue_state_overflow_lost(QueueState *queue, int class, int64 task);
extern int64 queue_state_take_lost(QueueOrder *order);
extern void queue_state_found_lost(QueueOrder *order);
extern int64 queue_state_lost(const QueueOrder *order);
extern bool queue_state_reserve(QueueState *queue, int n, int64 max);
extern void queue_state_unreserve(QueueState *queue, int n);
extern int	queue_state_take_ids(QueueState *queue, int n, int64 *first,
								 bool *wake_sweep);
extern void queue_state_give_ids(QueueState *queue, int64 first, int64 end);
extern void queue_state_ids(QueueState *queue, int64 *first, int64 *end);
extern bool queue_state_sweep_sleeps(QueueState *queue, int64 done);

extern void queue_state_recount(QueueState *queue);
extern void queue_state_look(QueueState *queue, int64 task);
extern void queue_state_look_from(QueueState *queue, int64 from);
extern int	queue_state_take_looks(QueueState *queue, int64 *tasks, int64 *from);
extern bool queue_state_has_looks(QueueState *queue);
extern bool queue_state_tick(QueueState *queue, TimestampTz now);
extern void queue_state_advance(QueueOrder *order, VirtualTime start,
								VirtualTime finish);
extern void queue_state_idle(QueueOrder *order);
extern void queue_state_start_at(QueueOrder *order, VirtualTime first);
extern VirtualTime queue_state_virtual_time(QueueOrder *order);

static inline void
queue_state_count(QueueState *queue, QueueCounter counter, int64 n)
{
	pg_atomic_fetch_add_u64(&queue->counters[counter], n);
}

static inline int64
queue_state_ready(QueueState *queue)
{
	return (int64) pg_atomic_read_u64(&queue->ready);
}

/*
 * The class of a priority under policy fair.  A row that was written with SQL may
 * have any.
 */
static inline int
queue_state_class(const QueueState *queue, int64 priority)
{
	return (int) Min(Max(priority, 0), queue->classes - 1);
}

/* All rows of a queue are counted in their groups. */
#define QUEUE_ALL_COUNTED	PG_UINT64_MAX

/* Where a row is in the table, in the order that rows are counted in. */
static inline uint64
queue_state_place(const ItemPointerData *tid)
{
	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

/*
 * Is the task whose row is at a place, and locked, counted in its group?
 */
static inline bool
queue_state_is_counted(QueueState *queue, const ItemPointerData *tid)
{
	uint64		counted = pg_atomic_read_u64(&queue->counted);

	return likely(counted == QUEUE_ALL_COUNTED) || queue_state_place(tid) < counted;
}

/* A depth that direct SQL made drift below zero reads as zero. */
static inline int64
queue_state_counter(QueueState *queue, QueueCounter counter)
{
	int64		n = (int64) pg_atomic_read_u64(&queue->counters[counter]);

	return Max(n, 0);
}

#endif							/* FAIRQ_QUEUE_STATE_H */
