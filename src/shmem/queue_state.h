/*-------------------------------------------------------------------------
 *
 * queue_state.h
 *	  What all processes know about a queue: the shared part.
 *
 * The structures of one queue, each with what guards its fields.  Where a
 * comment says "maintenance lock" that is a heavyweight lock of the queue,
 * which a pass holds until its end (maintain.c): one backend at a time reads
 * and writes such a field.  Where it says nothing a field is set when the queue
 * is made and not changed while it is in use.
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

#include "common/address.h"
#include "common/compat.h"
#include "common/index_cursor.h"
#include "common/task_state.h"
#include "common/virtual_time.h"
#include "shmem/held_looks.h"
#include "shmem/lanes.h"
#include "shmem/limit_table.h"

/*
 * How far a pass has come that looks for tasks of the overflow in no line.  All
 * of it is the pass's, under the maintenance lock.  A walk goes through the
 * groups of the class in the order of their hashes, some at a time, and then
 * rests; what it has come to is a hint, since groups come and go meanwhile.
 */
typedef struct OverflowWalk
{
	TimestampTz began;			/* 0: it has yet to */
	int64		hash;			/* the last group that was looked at ... */
	int64		class;			/* ... and its class */
	TimestampTz rests_until;	/* the next one begins then */
} OverflowWalk;

/*
 * One fair order: the tags of a priority class.  Queues of the policies
 * priority and time use the first one only, for its lanes.  "Group lock" is the
 * creation lock of group_table.c.
 *
 * Virtual time, the highest finish tag and the sum of what was served never go
 * back: who has read one of them may be behind, and is never ahead.
 *
 * A task of the overflow that is in no line, and not in a claimer's hands, has
 * an id of overflow_lost or more, or of overflow_sought or more.  Or it is yet
 * to be noticed: for that a pass goes through all groups (overflow_walk).
 *
 * While the group lock is free group_ring is a group of this order in use, or
 * there is none of it; next_slot is beyond all slots that were given out.
 */
typedef struct QueueOrder
{
	slock_t		mutex;			/* guards the next five */
	VirtualTime virtual_time;	/* v: the highest block claimed so far */
	VirtualTime served_finish;	/* the highest finish tag of a claimed task */
	double		served_cost;	/* what claimed tasks were charged; for views,
								 * so it may be read without the lock */
	int64		overflow_lost;	/* tasks of the overflow from here on may be
								 * in no line; PG_INT64_MAX: none are */
	int64		overflow_sought;	/* and of those that a pass is looking
									 * for, or was when it failed */
	OverflowWalk overflow_walk; /* maintenance lock: for these */
	uint64		next_slot;		/* group lock: slots handed out so far */
	uint32		group_ring;		/* group lock: some group of this order, the
								 * hand of the clock that finds idle ones;
								 * FAIRQ_NO_GROUP: there is none */
	LaneSet		lanes;			/* queue's lock to add some; none: the order
								 * has never been used */
} QueueOrder;

/*
 * Whether something is known that is read from rows.  It goes from UNKNOWN to
 * RECOVERING to KNOWN; back to UNKNOWN if the reading fails, or when the table
 * has another file.  One backend at a time is RECOVERING: that which has set
 * it, under the mutex of QueueRecoveries (queue_state_recovery_begin).  UNKNOWN
 * is 0, which a state that is set up is filled with.
 */
typedef enum QueueRecovery
{
	QUEUE_UNKNOWN,				/* tags and depths are to be read from rows */
	QUEUE_RECOVERING,			/* a backend does */
	QUEUE_KNOWN
} QueueRecovery;

/*
 * The reading of a queue's archive (archive_expiry.c), to remove what has been
 * there for long enough.  A row that is to go is behind the cursor's frontier;
 * or it came there by SQL with a time long past, or with a prepared
 * transaction, and is found when all is read again, at reread_at.
 *
 * A cursor has its own mutex.  The maintenance lock is a heavyweight one, held
 * in a pass until its end.
 */
typedef struct ArchiveState
{
	IndexCursor cursor;			/* finished tasks, by when they were */
	/* The maintenance lock guards the rest. */
	TimestampTz retry_at;		/* it is left alone until then */
	int			failures;		/* since something was removed */
	int			sqlerrcode;		/* of the error that was reported; 0: none */
	TimestampTz reread_at;		/* when to read from the start again */
	TimestampTz reread_began;	/* 0: not doing that */
} ArchiveState;

/* Tasks that have outlived their expires_at leased, remembered one by one. */
#define OUTLIVED_TASKS	32

/*
 * Tasks that have an expires_at: expire_due.c.  A task that has expired and has
 * yet to end is behind the cursor's frontier, or among outlived, or leased and
 * marked (leases_outlive): race 18.
 */
typedef struct QueueExpiry
{
	IndexCursor cursor;			/* of all that are not dead, by their
								 * expires_at */
	slock_t		mutex;			/* guards the next two */
	int			outlived_count;
	int64		outlived[OUTLIVED_TASKS];	/* were leased when the cursor
											 * came to them, and are not any
											 * more */
	bool		passed_over;	/* without a lock: claims, or the worker, have
								 * passed over some that have expired and have
								 * yet to end */
	/* The maintenance lock guards the rest. */
	TimestampTz retry_at;		/* what could not be ended is left alone
								 * until then */
	int			failures;		/* since there was none of that */
	int			sqlerrcode;		/* of the error that was reported; 0: none */
} QueueExpiry;

/*
 * Unique keys that are remembered, also when their tasks have ended: rows of
 * fairq_internal.remembered_key (remembered_keys.c).
 */
typedef struct QueueRemembered
{
	IndexCursor cursor;			/* by when they are to be forgotten */
	pg_atomic_uint64 written;	/* changes with each row; 0: a pass found none
								 * ... */
	pg_atomic_uint32 none_of;	/* ... under the queue's name of this hash */
	TimestampTz reread_at;		/* maintenance lock: when to read them all
								 * again */
} QueueRemembered;

/*
 * The ids of tasks, as far as they were taken from the sequence.  first <= next
 * <= end; all are 0 before the first block is taken (check_ids).
 *
 * next never goes back: an id is given out once, and a block that was overtaken
 * by a later one, or belongs to a number that the node had before, is let go
 * (race 24).  Ids of one block may be written in any order, and some never.
 */
typedef struct QueueIds
{
	slock_t		mutex;			/* guards the rest */
	int64		next;			/* next .. end - 1 are free */
	int64		end;
	int64		first;			/* of all that were given out since the start */
	bool		all_swept;		/* the sweep has seen them all, and sleeps;
								 * whoever takes one wakes it */
	uint16		node;			/* whose ids they are; read without the mutex
								 * by who writes a receipt */
} QueueIds;

/*
 * What of a queue has been read from its rows: recovery.c, durable_restore.c.
 * At most one backend reads each of the three, and the others that need it
 * sleep.  Whether one is known is looked at without the mutex, and a backend
 * that finds it is not goes by queue_state_recovery_begin.
 *
 * All but ids is unknown again when the table has another file, or the queue's
 * groups become others (queue_state_regroup).  While classes is set each class
 * that has rows has its lanes: so queue_ready.c may say that there is nothing.
 */
typedef struct QueueRecoveries
{
	slock_t		mutex;			/* guards the next four */
	QueueRecovery groups;		/* tags and depths */
	bool		classes;		/* every class with rows has its lanes */
	QueueRecovery leases;		/* those that have rows in fairq.durable_lease */
	QueueRecovery ids;			/* the sequence is beyond all that may have
								 * been given out: id_sequence.c */
	ConditionVariable done;		/* of any of the three: broadcast without the
								 * mutex */
	RelFileNumber leases_file;	/* of those rows: written by who recovers
								 * leases, and read without the mutex */
} QueueRecoveries;

/*
 * A task that looks as if it were in no lane: claimable by its row, and in no
 * window, no line and no lease.  It may be in a claimer's hands, or be offered
 * just now; so it counts as lost only if several looks have not found it.
 */
typedef struct MissingTask
{
	int64		id;
	TimestampTz since;			/* the last look that did not find it */
	int			looks;			/* how many have not */
} MissingTask;

#define SWEEP_MISSING	512

/*
 * How far the tasks have been looked through for lost ones: sweep.c.  All of it
 * is the pass's, under the maintenance lock.
 *
 * Ids below done need no look any more: they were given out to transactions
 * that are over, and those in no window were missing.  done is moved when all
 * transactions are over that had begun at the record (record_id, record_xid);
 * looked, which is not before done, when ids are looked at for the first time.
 * The hand goes round all that there is, a part in each sweep.
 */
typedef struct QueueSweep
{
	TimestampTz begun_at;		/* of the last sweep */
	bool		under_way;
	bool		reported;		/* something found, in the log */
	bool		lossy;			/* missing tasks turned out to be lost */
	bool		turn_hand;		/* something has happened since the one before */
	uint64		activity;		/* what had happened when it began */
	int64		record_id;		/* ids below were given out, 0: no record, ... */
	uint64		record_xid;		/* ... to transactions below */
	IndexPosition done;			/* ids below have been looked at for good */
	IndexPosition looked;		/* ... and these once */
	IndexPosition hand;			/* how far round the whole of them */
	int			missing_count;
	MissingTask missing[SWEEP_MISSING];
} QueueSweep;

/*
 * Settings that are looked at with none of the catalogs at hand, as are the
 * limits' defaults (queue_state_publish).  They are those of the newest count
 * of changes that a backend has read completely; race 15 says why own changes
 * are not here before they are committed.
 */
typedef struct QueuePublished
{
	/* The queue's lock to write; read without a lock. */
	int64		max_ready;
	int64		max_ready_per_group;
	bool		charge_seconds;
	pg_atomic_uint32 changes;	/* of settings that have committed; the
								 * queue's lock, if the limits' defaults
								 * change */
} QueuePublished;

/*
 * How many tasks there are, as enqueues and the worker need to know it.  ready
 * and reserved may be off by what open transactions are about to count; and
 * ready, as the counts of groups whose sum it is, by what SQL on the table has
 * put off until the queue is counted anew.
 */
typedef struct QueueCounts
{
	pg_atomic_uint64 ready;		/* the sum over groups; tasks of open
								 * transactions are among them: group_table.c */
	pg_atomic_uint64 counted;	/* rows before this (queue_state_position) are
								 * counted in their groups; 0: none are */
	bool		recount;		/* counts are off: see recovery_recount(); set
								 * without a lock by whoever finds it */
	TimestampTz rests_until;	/* they are not counted anew before: a hint,
								 * written by who has counted, and by a pass */
	pg_atomic_uint64 reserved;	/* tasks of open transactions, of max_depth */
} QueueCounts;

/*
 * What has been counted, see QueueCounter: stats.c.  Nothing is locked, so the
 * figures of two counters, or of a counter and since, may be of two moments.
 * Some are depths, which go up and down with the rows, and are never reset; SQL
 * on the table may have them below zero for a while (queue_state_counter).
 */
typedef struct QueueTallies
{
	TimestampTz since;			/* of those that can be reset */
	pg_atomic_uint64 n[QUEUE_COUNTERS];
} QueueTallies;

/* So many suspects of a queue have a place at a time: suspects.c. */
#define SUSPECT_TASKS	16

/*
 * Which suspects these are; 0 <= count <= SUSPECT_TASKS, and no id is there
 * twice.  Some may be ids whose tasks are gone, which a pass lets go when it
 * asks for room.  turns is counted up by claims, each second of which looks at
 * a suspect first.
 */
typedef struct SuspectTasks
{
	slock_t		mutex;			/* guards the next two */
	int			count;
	int64		tasks[SUSPECT_TASKS];	/* those that have one, as far as
										 * known */
	pg_atomic_uint32 turns;
} SuspectTasks;

/*
 * How far each class has got, where they share by weights: class_shares.c.
 * time and tags are in the same unit, cost / weight, and are not below zero.  A
 * class whose tag is below time has had nothing to be served.
 */
typedef struct ClassShares
{
	slock_t		mutex;			/* guards the rest */
	double		time;			/* virtual time */
	double		tags[FAIRQ_CLASSES];	/* start tags of what is next */
	double		costs[FAIRQ_CLASSES];	/* of a task, usually */
} ClassShares;

/*
 * A queue.  It is in use from queue_lifecycle_attach, by whoever opens its
 * relation first, until queue_lifecycle_release, when that is gone.  In between
 * the identity does not change, and no other entry in use has the same database
 * and relation.  Order of locks: directory, then lock, then those of groups;
 * the mutexes are taken last, and nothing is locked under one.
 *
 * Whoever has a pointer to it, and reads or writes more than a hint, keeps the
 * queue from being released: by a lock on its relation, or the directory's. The
 * memory is there all the same, so that a hint may be read at any time: it may
 * be of the queue that has the entry by then.
 */
typedef struct QueueState
{
	/* Identity; guarded by the directory lock, fixed while in use. */
	bool		in_use;
	Oid			database;
	Oid			relation;
	int			classes;		/* FAIRQ_CLASSES under policy fair, else 1 */

	LWLock		lock;			/* allocation of lanes, relation_file, what is
								 * published and the limits' defaults */
	RelFileNumber relation_file;	/* the file that the lanes' TIDs are of;
									 * read without the lock: who finds
									 * another file looks again with it */

	QueueIds	ids;
	QueueRecoveries recovery;
	IndexCursor due;			/* scheduled tasks, by when they are due */
	QueueExpiry expiry;
	ArchiveState archive;
	QueueSweep	sweep;			/* maintenance lock */
	uint32		clock_steps;	/* maintenance lock: steps of the wall clock
								 * that are allowed for */
	TimestampTz care_until;		/* pass.c: this and the next are written by a
								 * pass, also after it has failed and has its
								 * lock no more; both are hints */
	int			refused_sqlerrcode; /* that was reported; 0: none */
	TimestampTz rests_until;	/* the worker's, which leaves the queue alone
								 * until then: patience.c */

	QueuePublished published;
	QueueLimits limits;			/* limit_table.c */

	QueueCounts counts;
	HeldLooks	held;
	QueueRemembered remembered;
	QueueSuccessors successors;
	SuspectTasks suspects;
	ClassShares shares;

	uint16		owners[FAIRQ_MAX_BUCKETS];	/* sessions' lock: whose a bucket
											 * is */

	pg_atomic_uint64 pass_after;	/* no use in a claim's pass of maintenance
									 * before this */
	pg_atomic_uint64 tick;		/* of the last look at what claims look at now
								 * and then */
	pg_atomic_uint32 expired;	/* leases past their deadline, not taken over */
	QueueTallies tallies;

	QueueOrder	orders[FAIRQ_CLASSES];
} QueueState;

/*
 * What a queue's settings say that all processes go by: read from the catalogs
 * by who opens the queue, and published at once (queue_state_publish), or not
 * at all.
 */
typedef struct QueuePublic
{
	int64		max_ready;
	int64		max_ready_per_group;
	bool		charge_seconds;
	int			node;			/* the number of this node */
	LimitSettings group_defaults;
	LimitSettings subgroup_defaults;
} QueuePublic;

/*
 * What of a queue is kept across a restart: which one its number means, as
 * leases and sessions that are kept have that number (lease_file.c).
 */
typedef struct SavedQueue
{
	int			number;
	Oid			database;
	Oid			relation;
	int			classes;
} SavedQueue;

/*
 * queue_state.c.  Of a QueueState that these take the caller keeps the queue
 * from being released, unless it is said that the result is a hint.
 */
extern Size queue_state_shmem_size(void);
extern void queue_state_shmem_init(void *area, bool found);

extern QueueState *queue_state_make(Oid database, Oid relation, int classes);
extern bool queue_state_full(void);
extern QueueState *queue_state_find(Oid relation);
extern QueueState *queue_state_search(Oid database, Oid relation);
extern QueueState *queue_state_by_number(int number);
extern int	queue_state_number(const QueueState *queue);
extern void queue_state_lock_all(LWLockMode mode);
extern void queue_state_unlock_all(void);
extern QueueState *queue_state_next(int *number);
extern bool queue_state_save(int number, SavedQueue *saved);
extern void queue_state_restore(const SavedQueue *saved);
extern bool queue_state_recovery_begin(QueueState *queue, QueueRecovery *what);
extern void queue_state_recovery_end(QueueState *queue, QueueRecovery *what,
									 QueueRecovery result);
extern bool queue_state_publish(QueueState *queue, const QueuePublic *public,
								uint32 settings);
extern void queue_state_set_defaults(QueueState *queue,
									 const LimitSettings *defaults,
									 const LimitSettings *subgroup_defaults);
extern void queue_state_regroup(QueueState *queue);
extern void queue_state_read_again(Oid relation);

extern bool queue_state_reserve(QueueState *queue, int n, int64 max);
extern void queue_state_unreserve(QueueState *queue, int n);
extern int	queue_state_take_ids(QueueState *queue, int n, int64 *first,
								 bool *wake_sweep);
extern void queue_state_give_ids(QueueState *queue, int64 first, int64 end);
extern void queue_state_ids(QueueState *queue, int64 *first, int64 *end);
extern bool queue_state_sweep_sleeps(QueueState *queue, int64 done);

extern void queue_state_recount(QueueState *queue);
extern void queue_state_outlived(QueueState *queue, int64 task);
extern int	queue_state_take_outlived(QueueState *queue, int64 *tasks);
extern bool queue_state_tick(QueueState *queue, TimestampTz now);

/*
 * Add to a counter, at once, whatever becomes of the transaction: see stats.c.
 * Takes no lock, and never fails.
 */
static inline void
queue_state_count(QueueState *queue, QueueCounter counter, int64 n)
{
	pg_atomic_fetch_add_u64(&queue->tallies.n[counter], n);
}

/* How many tasks with an address are ready: see counts.ready. */
static inline int64
queue_state_ready(QueueState *queue)
{
	return (int64) pg_atomic_read_u64(&queue->counts.ready);
}

/*
 * The class of a priority under policy fair.  A row that was written with SQL
 * may have any.
 */
static inline int
queue_state_class(const QueueState *queue, int64 priority)
{
	return (int) Min(Max(priority, 0), queue->classes - 1);
}

/* All rows of a queue are counted in their groups. */
#define QUEUE_ALL_COUNTED	PG_UINT64_MAX

/*
 * Where a row is in the table, in the order that rows are counted in: 1 or
 * more, for no line pointer has the number 0.  So 0 is before all rows, and
 * QUEUE_ALL_COUNTED behind them.
 */
static inline uint64
queue_state_position(const ItemPointerData *tid)
{
	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

/*
 * Is the task whose row is at a position counted in its group?  The caller
 * holds the row's lock, or the share lock of its page: so the backend that
 * counts rows (recovery.c) has passed it or has yet to come, and is not at it
 * now.
 */
static inline bool
queue_state_is_counted(QueueState *queue, const ItemPointerData *tid)
{
	uint64		counted = pg_atomic_read_u64(&queue->counts.counted);

	return likely(counted == QUEUE_ALL_COUNTED) || queue_state_position(tid) < counted;
}

/* A depth that direct SQL made drift below zero reads as zero. */
static inline int64
queue_state_counter(QueueState *queue, QueueCounter counter)
{
	int64		n = (int64) pg_atomic_read_u64(&queue->tallies.n[counter]);

	return Max(n, 0);
}

/* queue_ready.c: hints, of a moment ago */
extern bool queue_ready_nothing(QueueState *queue, int class);
extern bool queue_ready_bucket(QueueState *queue, int bucket);

/*
 * queue_order.c: virtual time, and which tasks of the overflow are lost.  None
 * of these may fail.  Each takes the order's spinlock, for some instructions,
 * so the caller may hold any lock of ours but that.
 */
extern void queue_order_overflow_lost(QueueState *queue, int class, int64 task);
extern int64 queue_order_lost(const QueueOrder *order);
extern int64 queue_order_take_lost(QueueOrder *order);
extern void queue_order_found_lost(QueueOrder *order);
extern void queue_order_advance(QueueOrder *order, VirtualTime start,
								VirtualTime finish);
extern void queue_order_served(QueueOrder *order, double cost);
extern void queue_order_idle(QueueOrder *order);
extern void queue_order_start_at(QueueOrder *order, VirtualTime first);
extern bool queue_order_raise(QueueOrder *order, VirtualTime floor);
extern VirtualTime queue_order_virtual_time(QueueOrder *order);

/* class_shares.c: priority classes that share a queue by weights */
/*
 * A turn that a class was given: the claim's own copy, from class_shares_begin
 * to class_shares_end, which takes off what was charged in advance.  1 <= most,
 * weight > 0.
 */
typedef struct ClassTurn
{
	int			class;
	int			most;			/* tasks that it may take */
	double		weight;
	double		start;			/* its tag */
	double		charged;		/* in advance */
} ClassTurn;

extern void class_shares_init(ClassShares *shares);
extern bool class_shares_begin(ClassShares *shares, const double *weights,
							   uint32 classes, int max, ClassTurn *turn);
extern void class_shares_end(ClassShares *shares, const ClassTurn *turn, int served,
							 double cost);

/* transit_horizon.c: what backends that commit or claim have yet to tell */
extern Size transit_horizon_shmem_size(void);
extern void transit_horizon_shmem_init(void *area, bool found);

extern void transit_horizon_begins(TimestampTz since);
extern void transit_horizon_commits(TransactionId top, TransactionId last);
extern TransactionId transit_horizon_top(TransactionId xid, int *place);
extern void transit_horizon_ends(void);
extern TimestampTz transit_horizon_oldest(void);

/* queue_lifecycle.c: what happens to all parts of a queue at once */
extern QueueState *queue_lifecycle_attach(Oid relation, int classes);
extern void queue_lifecycle_release(Oid database, Oid relation);
extern void queue_lifecycle_settings_changed(Oid relation);

/* gone_queues.c */
extern int	gone_queues_release(void);

#endif							/* FAIRQ_QUEUE_STATE_H */
