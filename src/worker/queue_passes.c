/*-------------------------------------------------------------------------
 *
 * queue_passes.c
 *	  The worker's passes over the queues, and what is set aside of them.
 *
 * A pass has several duties (maintain.h), in one transaction.  If that fails,
 * each duty has a transaction of its own from then on: one that fails is
 * logged once and set aside for a while, longer each time, and the queue's
 * others go on, as do other queues.  So what has to wait for a table that is
 * locked is what needs this table.
 *
 * How long a pass may wait, for locks and for the owner's code, says
 * patience.c.  A duty that was cancelled for that does fewer rows at a time
 * until it has done all that there is.
 *
 * Of a queue in whose code the worker before came to its end, there are no
 * passes for some minutes (QueueState.rests_until).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "common/wall_clock.h"
#include "maintenance/maintain.h"
#include "shmem/queue_state.h"
#include "storage/queue_open.h"
#include "worker/worker.h"

#define LAST_RETRY_SECS		300

/* What a lock keeps from being done is looked at again this soon at least. */
#define LAST_LOCKED_SECS	10

/* How soon to look whether a queue's table has been read. */
#define READER_LOOK_USECS	INT64CONST(100000)

/* A duty that was cancelled does at most so many rows, then a tenth ... */
#define FEWER_ROWS			100

/* A duty of a queue. */
typedef struct DutyRecord
{
	int			failures;
	int			sqlerrcode;		/* of the error that was logged */
	int			max;			/* rows at a time; 0: as many as it likes */
	TimestampTz retry_at;
} DutyRecord;

/* A queue, a pass over which has failed. */
typedef struct FailingQueue
{
	Oid			relation;		/* hash key */
	DutyRecord	duties[DUTIES];
} FailingQueue;

/* A pass, and what came of it. */
typedef struct Turn
{
	Oid			relation;
	Maintenance maintenance;
	bool		more;			/* there is more to do now */
} Turn;

static HTAB *failing = NULL;

static const char *const duty_names[DUTIES] = {
	[DUTY_LEASES] = "end leases that have run out",
	[DUTY_EXPIRY] = "end tasks that have expired",
	[DUTY_READY] = "make tasks ready",
	[DUTY_HELD] = "look at held tasks",
	[DUTY_OLD] = "remove old done tasks and keys",
};

/*
 * Called once, when the worker begins.
 */
void
queue_passes_begin(void)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(FailingQueue)};

	failing = hash_create("pgfairq failing queues", 16, &ctl, HASH_ELEM | HASH_BLOBS);
}

/* Try again what failed: the clock was set, and when to do so means nothing. */
void
queue_passes_retry(void)
{
	HASH_SEQ_STATUS status;
	FailingQueue *entry;

	hash_seq_init(&status, failing);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		for (int duty = 0; duty < DUTIES; duty++)
			entry->duties[duty].retry_at = 0;
	}
}

/*
 * May a queue be opened without waiting?  What a backend knows of a queue it
 * need not read, should its settings be locked.
 */
static bool
may_open(Oid relation)
{
	return queue_catalog_lock_extension() &&
		(queue_catalog_lock_settings() || queue_open_is_known(relation)) &&
		ConditionalLockRelationOid(relation, RowExclusiveLock);
}

/*
 * A pass, of one duty or of all, in a transaction of its own.  arg: the Turn.
 *
 * Its locks are tried: behind a lock on one queue's table all others would
 * wait, and whoever drops the extension or wants the database would meet us
 * with one lock in hand, waiting for another.  What comes to wait all the same
 * does so for as long as patience has it.
 */
static void
one_pass(void *arg)
{
	Turn	   *turn = arg;
	Oid			owner;
	QueueState *state;
	TimestampTz now = GetCurrentTimestamp();
	RunAs		context;
	Relation	rel;
	QueueInfo  *info;

	turn->maintenance.next = now + USECS_PER_SEC;
	if (!may_open(turn->relation))
		return;
	owner = run_as_owner_of(turn->relation);
	state = queue_state_find(turn->relation);
	turn->maintenance.next = PG_INT64_MAX;
	if (state != NULL && wall_clock_ahead(state->rests_until, now, PATIENCE_REST_USECS))
		turn->maintenance.next = state->rests_until;
	else if (OidIsValid(owner))
	{
		/* Nothing of the owner's is looked at with our own privileges. */
		run_as_owner(owner, InvalidOid, &context);
		patience_of(state == NULL ? NULL : &state->rests_until);
		info = queue_open_relation(turn->relation, NoLock, 0, &rel);
		if (info != NULL)
		{
			patience_of(&info->state->rests_until);
			if (queue_reader_reads(rel, info))
				turn->maintenance.next = now + READER_LOOK_USECS;
			else
				turn->more = maintain_pass(rel, info, &turn->maintenance);
			relation_close(rel, NoLock);
		}
		run_as_end(&context);
	}
}

/* When the next pass is wanted after one that has not failed. */
static TimestampTz
next_pass(const Turn *turn)
{
	return turn->more ? GetCurrentTimestamp() : turn->maintenance.next;
}

/* Log an error, unless another duty of the queue has had the same. */
static void
report(FailingQueue *entry, Duty duty, bool opened, const ErrorData *error)
{
	char	   *name;

	for (int i = 0; i < DUTIES; i++)
	{
		if (entry->duties[i].failures > 0 &&
			entry->duties[i].sqlerrcode == error->sqlerrcode)
			return;
	}
	name = queue_catalog_name_of(entry->relation);
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 opened ?
			 errmsg("could not %s of queue \"%s\": %s", duty_names[duty],
					name == NULL ? "?" : name, error->message) :
			 errmsg("could not look after queue \"%s\": %s", name == NULL ? "?" : name,
					error->message),
			 error->detail ? errdetail_internal("%s", error->detail) : 0,
			 error->context ? errcontext("%s", error->context) : 0,
			 errhint("Other queues go on.  It is tried again from time to time.")));
}

/*
 * A duty has failed: note when to try it again.
 */
static void
duty_failed(FailingQueue *entry, Duty duty, const Turn *turn, ErrorData *error)
{
	bool		opened = turn->maintenance.begun;
	DutyRecord *record = &entry->duties[duty];
	bool		lost = patience_lost();
	bool		locked;

	StartTransactionCommand();
	patience_explain(error);
	report(entry, duty, opened, error);
	CommitTransactionCommand();

	locked = (error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE);
	record->sqlerrcode = error->sqlerrcode;
	record->retry_at = wall_clock_retry(GetCurrentTimestamp(), record->failures,
										(locked ? LAST_LOCKED_SECS : LAST_RETRY_SECS) *
										USECS_PER_SEC);
	if (lost && !locked)
		record->max = record->max == 0 ? FEWER_ROWS : Max(record->max / 10, 1);

	/*
	 * A table that is not fit may be one that is being restored: its indexes
	 * and its trigger come last, after minutes perhaps, and then what is due
	 * in it must not wait as long again.  To look at it costs little.
	 */
	if (record->failures == 0 || error->sqlerrcode != ERRCODE_INVALID_TABLE_DEFINITION)
		record->failures++;
	/* It is not for this duty that the queue cannot be opened. */
	for (int i = 0; !opened && i < DUTIES; i++)
		entry->duties[i] = *record;
}

/*
 * Each duty of a queue alone, unless it is set aside.  Returns when to come
 * again.
 */
static TimestampTz
run_duties(FailingQueue *entry)
{
	TimestampTz next = PG_INT64_MAX;
	bool		good = true;

	for (int duty = 0; duty < DUTIES; duty++)
	{
		DutyRecord *record = &entry->duties[duty];
		Turn		turn = {
			.relation = entry->relation,
			.maintenance = {.duties = 1 << duty,.max = record->max}
		};

		if (record->retry_at <= GetCurrentTimestamp())
		{
			ErrorData  *error = run_as_transaction(one_pass, &turn, false);

			if (error != NULL)
			{
				duty_failed(entry, duty, &turn, error);
				FreeErrorData(error);
			}
			else
			{
				record->failures = record->sqlerrcode = 0;
				record->retry_at = 0;
				if (!turn.more)
					record->max = 0;
				next = wall_clock_earlier(next, next_pass(&turn));
			}
		}
		if (record->failures > 0)
			next = Min(next, record->retry_at);
		good &= (record->failures == 0 && record->max == 0);
	}
	if (good)
		hash_search(failing, &entry->relation, HASH_REMOVE, NULL);
	return next;
}

/*
 * One pass on a queue.  Returns when it wants the next: at once if there is
 * more to do, but the other queues have theirs first.
 */
TimestampTz
queue_passes_run(Oid relation)
{
	FailingQueue *entry = hash_search(failing, &relation, HASH_FIND, NULL);
	Turn		turn = {.relation = relation};
	ErrorData  *error;

	if (entry != NULL)
		return run_duties(entry);
	error = run_as_transaction(one_pass, &turn, false);
	if (error == NULL)
		return next_pass(&turn);

	/* Which of its duties was it? */
	FreeErrorData(error);
	entry = hash_search(failing, &relation, HASH_ENTER, NULL);
	memset(entry->duties, 0, sizeof(entry->duties));
	return run_duties(entry);
}
