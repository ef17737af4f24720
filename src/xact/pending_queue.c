/*-------------------------------------------------------------------------
 *
 * pending_queue.c
 *	  Pending actions about queues as a whole.
 *
 * Queues that come and go, their settings, room and counts; sessions; what
 * becomes due; and tasks that are held behind others of their unique key.
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

/* A queue by its table. */
typedef struct PendingRelation
{
	Oid			database;		/* of pending_release_queue() only */
	Oid			relation;
} PendingRelation;

typedef struct PendingQueue
{
	QueueState *queue;
	int			n;				/* of room: what was reserved */
} PendingQueue;

typedef struct PendingDue
{
	IndexCursor *cursor;
	IndexPosition place;
	TimestampTz wake_at;		/* of a row that was added */
	IndexCursorChange change;	/* of rows that were read */
} PendingDue;

/* A task that is held behind another, or all from it on. */
typedef struct PendingLook
{
	QueueState *queue;
	int64		task;
	int64		before;			/* what it is held behind */
	bool		all;
} PendingLook;

/* Settings were changed: the worker is woken when all can see them. */
static bool wake_when_seen = false;

/* Where the list has a queue that is to be counted anew: a hint, by queue. */
#define RECOUNT_HINTS	64
static int	recount_hints[RECOUNT_HINTS];

static void
release_created(PendingAction *action)
{
	queue_lifecycle_release(MyDatabaseId,
							pending_data(action, PendingRelation)->relation);
}

/* No callback tells us that a prepared transaction was rolled back. */
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

static void
release(PendingAction *action)
{
	PendingRelation *queue = pending_data(action, PendingRelation);

	queue_lifecycle_release(queue->database, queue->relation);
}

static void
refuse_dropped(PendingAction *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has dropped a queue"),
			 errhint("Drop queues in a transaction that is not prepared.")));
}

/* A queue is forgotten after everything else that the list has of it. */
static const PendingKind dropped_queue = {
	.name = "dropped queue",
	.phase = PENDING_LAST,
	.commit = release,
	.check_prepare = refuse_dropped,
};

/*
 * A queue's relation is being dropped (relation InvalidOid: a database is).
 */
void
pending_release_queue(Oid database, Oid relation)
{
	PendingRelation *queue = pending_new(dropped_queue, PendingRelation);

	queue->database = database;
	queue->relation = relation;
}

static void
settings_changed(PendingAction *action)
{
	queue_lifecycle_settings_changed(pending_data(action, PendingRelation)->relation);
	wake_when_seen = true;
}

static const PendingKind changed_settings = {
	.name = "changed settings",
	.commit = settings_changed,
	.prepare = settings_changed,
};

/*
 * Settings of a queue are changed: something else may be due now, or
 * claimable.
 */
void
pending_settings(Oid relation)
{
	Assert(OidIsValid(relation));
	pending_new(changed_settings, PendingRelation)->relation = relation;
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

static void
probe(PendingAction *action)
{
	worker_slots_probe(MyDatabaseId);
}

static const PendingKind probed_database = {
	.name = "probe",
	.commit = probe,
	.prepare = probe,
};

/*
 * Extensions or databases come or go: perhaps ours.  The launcher looks.
 */
void
pending_probe(void)
{
	(void) pending_add(&probed_database);
}

static void
schedules_changed(PendingAction *action)
{
	worker_slots_schedules(MyDatabaseId);
}

static void
refuse_schedules(PendingAction *action)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has made or changed a schedule"),
			 errhint("Call fairq.schedule() in a transaction that is not prepared.")));
}

static const PendingKind changed_schedules = {"changed schedules",
.commit = schedules_changed,.check_prepare = refuse_schedules};

/*
 * Schedules were written: the worker looks at them.
 */
void
pending_schedules(void)
{
	if (pending_find(pending_mark() - 1, &changed_schedules) == NULL)
		(void) pending_add(&changed_schedules);
}

static void
refuse_maintained(PendingAction *action)
{
	/* Unless it was dropped since. */
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
 * has ended.
 */
void
pending_maintained(Oid relation)
{
	Assert(OidIsValid(relation));
	pending_new(maintained_queue, PendingRelation)->relation = relation;
}

static void
unreserve(PendingAction *action)
{
	PendingQueue *room = pending_data(action, PendingQueue);

	queue_state_unreserve(room->queue, room->n);
}

/* Room stays reserved for the new tasks until they are counted. */
static const PendingKind reserved_room = {
	.name = "reserved room",
	.phase = PENDING_LAST,
	.commit = unreserve,
	.abort = unreserve,
	.prepare = unreserve,
};

/*
 * Reserve room for n tasks more in a queue that may have max.  Returns false
 * if there is none.
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

static void
read_again(PendingAction *action)
{
	queue_state_read_again(pending_data(action, PendingRelation)->relation);
	worker_slots_wake_at(MyDatabaseId, 0);
}

static const PendingKind unknown_rows = {
	.name = "unknown rows",
	.commit = read_again,
	.prepare = read_again,
};

/*
 * Rows may have been written without our trigger: they are read anew.
 */
void
pending_read_again(Oid relation)
{
	Assert(OidIsValid(relation));
	pending_new(unknown_rows, PendingRelation)->relation = relation;
}

static void
recount(PendingAction *action)
{
	queue_state_recount(pending_data(action, PendingQueue)->queue);
}

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

/* Once for a queue and subtransaction is enough. */
static void
note_recount(const PendingKind *kind, QueueState *queue)
{
	int		   *hint = &recount_hints[queue_state_number(queue) % RECOUNT_HINTS];
	PendingAction *action = pending_find(*hint, kind);

	if (action != NULL && pending_data(action, PendingQueue)->queue == queue)
		return;
	*hint = pending_mark();
	pending_data(pending_add(kind), PendingQueue)->queue = queue;
}

/*
 * Rows were written that are in no count: the queue is counted anew at commit.
 */
void
pending_not_counted(QueueState *queue)
{
	note_recount(&uncounted_rows, queue);
}

/*
 * Not all is known that is to be given back at rollback: the queue is counted
 * anew then.
 */
void
pending_recount_at_abort(QueueState *queue)
{
	note_recount(&unknown_tags, queue);
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
 * A session is being closed.
 */
void
pending_session_closed(const SessionRef *session)
{
	Assert(session->number > 0 && session->token != 0);
	*pending_new(closed_session, SessionRef) = *session;
}

static void
add_due(PendingAction *action)
{
	PendingDue *due = pending_data(action, PendingDue);

	index_cursor_add(due->cursor, due->place.due);
	worker_slots_wake_at(MyDatabaseId, due->wake_at);
}

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
 * wake_at.  Of a run of them the earliest says it all.
 */
void
pending_due_added(IndexCursor *cursor, TimestampTz due, TimestampTz wake_at)
{
	PendingDue *added = NULL;

	/* Other actions may be in between. */
	for (int i = 1; i <= 8 && added == NULL; i++)
	{
		PendingAction *action = pending_find(pending_mark() - i, &added_due);

		if (action != NULL && pending_data(action, PendingDue)->cursor == cursor)
			added = pending_data(action, PendingDue);
	}
	if (added == NULL)
	{
		added = pending_new(added_due, PendingDue);
		added->cursor = cursor;
		added->place.due = due;
		added->wake_at = wake_at;
		return;
	}
	added->place.due = Min(added->place.due, due);
	added->wake_at = Min(added->wake_at, wake_at);
}

/*
 * A task was scheduled.
 */
void
pending_scheduled(QueueState *queue, TimestampTz due)
{
	pending_due_added(&queue->due, due, due);
}

/*
 * The row of a task that expires at a time was written.
 */
void
pending_expiry(QueueState *queue, TimestampTz expires_at)
{
	pending_due_added(&queue->expiry.cursor, expires_at, expires_at + EXPIRY_USECS);
}

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
 * hands.
 */
void
pending_outlived_taken(QueueState *queue)
{
	pending_new(taken_outlived, PendingQueue)->queue = queue;
}

/*
 * A pass has read rows that are due, and this transaction deals with them.
 * change is what index_cursor.c is told of them at commit, and place where:
 * index_cursor_done, index_cursor_end or index_cursor_hold.
 */
void
pending_due_read(IndexCursorChange change, IndexCursor *cursor, const IndexPosition *place)
{
	PendingDue *read = pending_new(changed_due, PendingDue);

	read->cursor = cursor;
	read->place = *place;
	read->change = change;
}

static void
look(PendingAction *action)
{
	PendingLook *held = pending_data(action, PendingLook);

	if (held->all)
		held_looks_add_from(&held->queue->held, held->task);
	else
		held_looks_add(&held->queue->held, held->task);
	worker_slots_wake_at(held->queue->database, 0);
}

/*
 * A task that is held has been written, or is as it was.  From now on it is
 * seen by whoever ends the lease of the task before it.  A backend that has
 * looked already may not have seen it, or may have left it to us: then the
 * lease says so until it is over.
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

static const PendingKind wanted_look = {
	.name = "look at held tasks",
	.commit = look,
	.prepare = look,
};

/* What a pass has looked at is as it was. */
static void
look_anew(PendingAction *action)
{
	PendingLook *taken = pending_data(action, PendingLook);

	if (taken->all)
		held_looks_walk_anew(&taken->queue->held, taken->task);
	else
		held_looks_put_back(&taken->queue->held, taken->task);
	worker_slots_wake_at(taken->queue->database, 0);
}

static const PendingKind taken_look = {
	.name = "held tasks that were looked at",
	.abort = look_anew,
	.prepare = look_anew,
};

/*
 * A task that is held behind another one was written.
 */
void
pending_task_held(QueueState *queue, int64 task, int64 before)
{
	PendingLook *held = pending_new(held_task, PendingLook);

	Assert(task != 0);
	held->queue = queue;
	held->task = task;
	held->before = before;
	held->all = false;
}

/*
 * Held tasks were written that have to be looked at, or tasks go that others
 * may be held behind: all from an id on are looked at.
 */
void
pending_look_from(QueueState *queue, int64 task)
{
	PendingLook *wanted;

	/* Of a run of them one is enough; other actions may be in between. */
	for (int i = 1; i <= 4; i++)
	{
		PendingAction *action = pending_find(pending_mark() - i, &wanted_look);

		wanted = action ? pending_data(action, PendingLook) : NULL;
		if (wanted != NULL && wanted->queue == queue)
		{
			wanted->task = Min(wanted->task, task);
			return;
		}
	}
	wanted = pending_new(wanted_look, PendingLook);
	wanted->queue = queue;
	wanted->task = task;
	wanted->all = true;
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
 * from an id on.
 */
void
pending_looked(QueueState *queue, int64 task, bool all)
{
	PendingLook *taken = pending_new(taken_look, PendingLook);

	taken->queue = queue;
	taken->task = task;
	taken->all = all;
}
