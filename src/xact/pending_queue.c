/*-------------------------------------------------------------------------
 *
 * pending_queue.c
 *	  Pending actions about queues as a whole.
 *
 * Queues that come and go, their settings, room and counts; sessions; what
 * becomes due; and tasks that are held behind others of their unique key.
 *
 * An action about a queue names its state where the queue's relation is locked
 * until the end, and its table where the state may not be known or may go.
 *
 * Locking: none while an action is noted.  What is called at the end takes the
 * locks of the state that it changes: of the directory, cursors, held tasks or
 * sessions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"

#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "shmem/worker_slots.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"

/*
 * A queue by its table: for what has to be done where no state may be known.
 */
typedef struct PendingRelation
{
	Oid			database;		/* of pending_release_queue() only */
	Oid			relation;
} PendingRelation;

/* A queue by its state, which a lock on its relation keeps until the end. */
typedef struct PendingQueue
{
	QueueState *queue;
	int			n;				/* of room: what was reserved */
} PendingQueue;

/*
 * A cursor over rows that become due: one that was added, or a place that was
 * read.  Of wake_at and change one is set, by the kind.
 */
typedef struct PendingDue
{
	IndexCursor *cursor;
	IndexPosition place;		/* of an added row only its time */
	TimestampTz wake_at;		/* of a row that was added */
	IndexCursorChange change;	/* of rows that were read */
} PendingDue;

/* A task that is held behind another, or all from it on. */
typedef struct PendingLook
{
	QueueState *queue;
	int64		task;
	int64		before;			/* what it is held behind */
	bool		all;			/* all from it on, not it alone */
} PendingLook;

/*
 * Settings were changed: the worker is woken when all can see them.  From the
 * callback at commit until that of the release of locks (release_callback).
 */
static bool wake_when_seen = false;

/* The table never was: its state goes. */
static void
release_created(PendingAction *action)
{
	queue_lifecycle_release(MyDatabaseId,
							pending_data(action, PendingRelation)->relation);
}

/*
 * No callback tells us that a prepared transaction was rolled back, and the
 * state of a table that never was would stay (race 13).
 */
static void
refuse_created(PendingAction *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has created a queue and used it"),
			 errdetail("Its table is \"%s\".",
					   get_rel_name(pending_data(action, PendingRelation)->relation)),
			 errhint("Create queues in a transaction that is not prepared.")));
}

static const PendingKind created_queue = {
	.name = "created queue",
	.abort = release_created,
	.check_prepare = refuse_created,
};

/*
 * A queue's shared state is about to be set up whose table is new in this
 * transaction, in the subtransaction created.  If that is rolled back there
 * never was such a table, and the state goes.  The caller notes this before it
 * uses the state, so that whatever else the list has of the queue is undone
 * before.
 */
void
pending_queue_created(Oid relation, SubTransactionId created)
{
	PendingAction *action = pending_add(&created_queue);

	Assert(OidIsValid(relation));
	action->undone_with = created;
	pending_data(action, PendingRelation)->relation = relation;
}

/*
 * The table is gone, for all to see.  The transaction still has its lock, so
 * no other backend uses the state.
 */
static void
release(PendingAction *action)
{
	PendingRelation *queue = pending_data(action, PendingRelation);

	queue_lifecycle_release(queue->database, queue->relation);
}

/* A queue is forgotten after everything else that the list has of it. */
static const PendingKind dropped_queue = {
	.name = "dropped queue",
	.phase = PENDING_LAST,
	.commit = release,
	.refused = "cannot PREPARE a transaction that has dropped a queue",
	.refused_hint = "Drop queues in a transaction that is not prepared.",
};

/*
 * A queue's relation is being dropped (relation InvalidOid: a database is).
 * At commit its state is released, with its leases and members.
 */
void
pending_release_queue(Oid database, Oid relation)
{
	PendingRelation *queue = pending_new(dropped_queue, PendingRelation);

	queue->database = database;
	queue->relation = relation;
}

/*
 * The count of changes moves, so that backends read the settings again (race
 * 15).
 */
static void
settings_changed(QueueState *queue, uint32 relation, int n)
{
	queue_lifecycle_settings_changed(relation);
	wake_when_seen = true;
}

/*
 * Settings of a queue are changed: something else may be due now, or
 * claimable.  The worker is woken when the transaction has let go its locks.
 */
void
pending_settings(Oid relation)
{
	Assert(OidIsValid(relation));
	pending_call(settings_changed, NULL, relation, 0);
}

/*
 * Invalidations are sent after the callback at commit, and locks are released
 * after that: now.  A worker that was woken before might still go by the old
 * settings.
 */
static void
release_callback(ResourceReleasePhase phase, bool commit, bool top, void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !wake_when_seen)
		return;
	wake_when_seen = false;
	worker_slots_wake_at(MyDatabaseId, 0);
}

/*
 * Called once a process, from _PG_init.
 */
void
pending_queue_register(void)
{
	RegisterResourceReleaseCallback(release_callback, NULL);
}

/* The launcher looks whether the database needs a worker. */
static void
probe(QueueState *queue, uint32 relation, int n)
{
	worker_slots_probe(MyDatabaseId);
}

/*
 * Extensions or databases come or go: perhaps ours.  The launcher looks.
 */
void
pending_probe(void)
{
	pending_call(probe, NULL, InvalidOid, 0);
}

/* Schedules are read again by the worker of this database. */
static void
schedules_changed(PendingAction *action)
{
	worker_slots_look_at(MyDatabaseId, WORKER_SCHEDULES, 0);
}

static const PendingKind changed_schedules = {
	.name = "changed schedules",
	.commit = schedules_changed,
	.refused = "cannot PREPARE a transaction that has made or changed a schedule",
	.refused_hint = "Call fairq.schedule() in a transaction that is not prepared.",
};

/*
 * Schedules were written: the worker looks at them after the commit.  A run of
 * them is one action.
 */
void
pending_schedules(void)
{
	if (pending_find(pending_mark() - 1, &changed_schedules) == NULL)
		(void) pending_add(&changed_schedules);
}

/*
 * The queue's table is named, unless it was dropped since.  No lock of ours is
 * held: the catalog is looked at.
 */
static void
refuse_maintained(PendingAction *action)
{
	const char *table = get_rel_name(pending_data(action, PendingRelation)->relation);

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has maintained a queue"),
			 table ? errdetail("No other process could maintain the queue of table \"%s\" until the prepared transaction has ended.",
							   table) : 0,
			 errhint("Call fairq.maintain() in a transaction of its own; so do with claims, which maintain a queue where there is no background worker.")));
}

static const PendingKind maintained_queue = {
	.name = "maintained queue",
	.check_prepare = refuse_maintained,
};

/*
 * A queue is being maintained: there is no other pass until this transaction
 * has ended.  So it cannot be prepared (race 13).  The caller has the
 * maintenance lock of the queue.
 */
void
pending_maintained(Oid relation)
{
	Assert(OidIsValid(relation));
	pending_new(maintained_queue, PendingRelation)->relation = relation;
}

/* By now the tasks are counted, or there are none. */
static void
unreserve(PendingAction *action)
{
	PendingQueue *room = pending_data(action, PendingQueue);

	queue_state_unreserve(room->queue, room->n);
}

/*
 * Room stays reserved for the new tasks until they are counted: so it is given
 * back in the last phase, and no other enqueue takes it meanwhile.
 */
static const PendingKind reserved_room = {
	.name = "reserved room",
	.phase = PENDING_LAST,
	.commit = unreserve,
	.abort = unreserve,
	.prepare = unreserve,
};

/*
 * Reserve room for n tasks more in a queue that may have max.  Returns false
 * if there is none, and notes nothing then.  The room comes back when the
 * transaction ends, whatever becomes of it.  Fails before it is reserved, or
 * not at all.
 */
bool
pending_room(QueueState *queue, int n, int64 max)
{
	PendingQueue *room;

	pending_reserve(1);
	if (!queue_state_reserve(queue, n, max))
		return false;
	room = pending_new(reserved_room, PendingQueue);
	room->queue = queue;
	room->n = n;
	return true;
}

/*
 * The state forgets what it knows of the rows, and the worker is woken to read
 * them.
 */
static void
read_again(QueueState *queue, uint32 relation, int n)
{
	queue_state_read_again(relation);
	worker_slots_wake_at(MyDatabaseId, 0);
}

/*
 * Rows may have been written without our trigger: they are read anew, by
 * whoever needs to know them first after the commit (recovery.c).
 */
void
pending_read_again(Oid relation)
{
	Assert(OidIsValid(relation));
	pending_call(read_again, NULL, relation, 0);
}

/* The queue is counted anew when no transaction writes to it (race 13). */
static void
recount(PendingAction *action)
{
	queue_state_recount(pending_data(action, PendingQueue)->queue);
}

/*
 * The rows of this transaction are in no count: if there is one it is made
 * anew.
 */
static void
recount_if_counted(PendingAction *action)
{
	QueueState *queue = pending_data(action, PendingQueue)->queue;

	/* A backend that counts them just now may have come too early. */
	if (queue->recovery.groups != QUEUE_UNKNOWN)
		queue_state_recount(queue);
}

/*
 * A count that is made before a prepared transaction has ended does not see
 * its rows.
 */
static const PendingKind uncounted_rows = {
	.name = "uncounted rows",
	.commit = recount_if_counted,
	.prepare = recount,
};

static const PendingKind unknown_tags = {
	.name = "unknown tags",
	.abort = recount,
	.prepare = pending_nothing,
};

/*
 * Rows were written that are in no count: the queue is counted anew at commit.
 * A run of them is one action.
 */
void
pending_not_counted(QueueState *queue)
{
	if (pending_recent(&uncounted_rows, queue) == NULL)
		pending_new(uncounted_rows, PendingQueue)->queue = queue;
}

/*
 * Not all is known that is to be given back at rollback: the queue is counted
 * anew then.  A run of these is one action.
 */
void
pending_recount_at_abort(QueueState *queue)
{
	if (pending_recent(&unknown_tags, queue) == NULL)
		pending_new(unknown_tags, PendingQueue)->queue = queue;
}

static void
close_session(PendingAction *action)
{
	sessions_close(pending_data(action, SessionRef));
}

static const PendingKind closed_session = {
	.name = "closed session",
	.commit = close_session,
	.prepare = close_session,
};

/*
 * A session is being closed.  It lives until the commit, and its leases with
 * it.
 */
void
pending_session_closed(const SessionRef *session)
{
	Assert(session->number > 0 && session->token != 0);
	*pending_new(closed_session, SessionRef) = *session;
}

/*
 * The row can be seen: the cursor goes back to it, if it has passed, and then
 * the worker is woken.
 */
static void
add_due(PendingAction *action)
{
	PendingDue *due = pending_data(action, PendingDue);

	index_cursor_add(due->cursor, due->place.due);
	worker_slots_wake_at(MyDatabaseId, due->wake_at);
}

/*
 * What was read has been dealt with.  At rollback the cursor stays, and the
 * rows are read again.
 */
static void
change_due(PendingAction *action)
{
	PendingDue *due = pending_data(action, PendingDue);

	due->change(due->cursor, &due->place);
}

static const PendingKind added_due = {
	.name = "row that becomes due",
	.commit = add_due,
	.prepare = add_due,
};

static const PendingKind changed_due = {
	.name = "change of a due cursor",
	.commit = change_due,
	.prepare = pending_nothing,
};

/*
 * A row was added that cursor has to find, and the worker to look for at
 * wake_at.  Times are by the wall clock.  Of a run of them the earliest says
 * it all.
 */
void
pending_due_added(IndexCursor *cursor, TimestampTz due, TimestampTz wake_at)
{
	PendingDue *added = pending_recent(&added_due, cursor);

	if (added == NULL)
	{
		added = pending_new(added_due, PendingDue);
		added->cursor = cursor;
		added->place.due = added->wake_at = DT_NOEND;
	}
	added->place.due = Min(added->place.due, due);
	added->wake_at = Min(added->wake_at, wake_at);
}

/*
 * A task was scheduled: its row, which is not claimable before due, was
 * written.
 */
void
pending_scheduled(QueueState *queue, TimestampTz due)
{
	pending_due_added(&queue->due, due, due);
}

/*
 * The row of a task that expires at a time was written: a new one, or one that
 * is put back after its lease (race 18).
 */
void
pending_expiry(QueueState *queue, TimestampTz expires_at)
{
	pending_due_added(&queue->expiry.cursor, expires_at, expires_at + EXPIRY_USECS);
}

/* They are in no list any more, so all that has expired is read again. */
static void
read_all_expired(PendingAction *action)
{
	index_cursor_add(&pending_data(action, PendingQueue)->queue->expiry.cursor, DT_NOBEGIN);
}

static const PendingKind taken_outlived = {
	.name = "expired tasks that were leased",
	.abort = read_all_expired,
	.prepare = read_all_expired,
};

/*
 * Tasks whose leases have ended since they expired are in this transaction's
 * hands: the caller has just taken them (queue_state_take_outlived), with room
 * reserved before.  If it rolls back the cursor finds them (race 18).
 */
void
pending_outlived_taken(QueueState *queue)
{
	pending_new(taken_outlived, PendingQueue)->queue = queue;
}

/*
 * A pass has read rows that are due, and this transaction deals with them.
 * change is what index_cursor.c is told of them at commit, and place where,
 * which is copied: index_cursor_done, index_cursor_end or index_cursor_hold.
 */
void
pending_due_read(IndexCursorChange change, IndexCursor *cursor, const IndexPosition *place)
{
	PendingDue *read = pending_new(changed_due, PendingDue);

	read->cursor = cursor;
	read->place = *place;
	read->change = change;
}

/*
 * Passes look at a held task, or at all from an id on: first it is noted, then
 * the worker is woken.
 */
static void
look(PendingAction *action)
{
	PendingLook *held = pending_data(action, PendingLook);

	held_looks_add(&held->queue->held, held->task, held->all);
	worker_slots_wake_at(held->queue->database, 0);
}

/*
 * A task that is held has been written, or is as it was.  From now on it is
 * seen by whoever ends the lease of the task before it.  A backend that has
 * looked already may not have seen it, or may have left it to us: then the
 * lease says so until it is over (race 10).
 */
static void
look_behind(PendingAction *action)
{
	PendingLook *held = pending_data(action, PendingLook);

	if (!leases_will_look(queue_state_number(held->queue), held->before))
		look(action);
}

/*
 * When the transaction is prepared, passes look at once, and again and again
 * while it is in doubt.
 */
static const PendingKind held_task = {
	.name = "held task",
	.commit = look_behind,
	.abort = look_behind,
	.prepare = look,
};

/* Passes look behind tasks that have gone, when that is committed. */
static const PendingKind wanted_look = {
	.name = "look at held tasks",
	.commit = look,
	.prepare = look,
};

/* What a pass has looked at is as it was: it is to be looked at again. */
static void
look_anew(PendingAction *action)
{
	PendingLook *taken = pending_data(action, PendingLook);

	held_looks_put_back(&taken->queue->held, taken->task, taken->all);
	worker_slots_wake_at(taken->queue->database, 0);
}

/* A pass has it in hand, and gives it back unless it commits. */
static const PendingKind taken_look = {
	.name = "held tasks that were looked at",
	.abort = look_anew,
	.prepare = look_anew,
};

static PendingLook *
new_look(const PendingKind *kind, QueueState *queue, int64 task, bool all)
{
	PendingLook *held = pending_new(*kind, PendingLook);

	held->queue = queue;
	held->task = task;
	held->all = all;
	return held;
}

/*
 * A task that is held behind another one was written; before is the id of
 * that, or 0: it is not known, and a pass looks in any case.
 */
void
pending_task_held(QueueState *queue, int64 task, int64 before)
{
	Assert(task != 0);
	new_look(&held_task, queue, task, false)->before = before;
}

/*
 * Held tasks were written that have to be looked at, or tasks go that others
 * may be held behind: all from an id on are looked at.  A run of these is one
 * action, from the lowest id on.
 */
void
pending_look_from(QueueState *queue, int64 task)
{
	PendingLook *wanted = pending_recent(&wanted_look, queue);

	if (wanted == NULL)
		(void) new_look(&wanted_look, queue, task, true);
	else
		wanted->task = Min(wanted->task, task);
}

/*
 * Tasks go that others may be held behind, and it is not known which.
 */
void
pending_look(QueueState *queue)
{
	pending_look_from(queue, PG_INT64_MIN);
}

/*
 * What was to be looked at is in this transaction's hands: a held task, or all
 * from an id on.  If it rolls back it is to be looked at again.  The caller
 * has just taken it, with room reserved before.
 */
void
pending_looked(QueueState *queue, int64 task, bool all)
{
	(void) new_look(&taken_look, queue, task, all);
}
