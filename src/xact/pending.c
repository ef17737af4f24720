/*-------------------------------------------------------------------------
 *
 * pending.c
 *	  Pending actions: what a transaction owes to others when it ends.
 *
 * Tasks change hands at the end of transactions: an enqueued row becomes
 * claimable at commit; a claim that rolls back gives its leases back and
 * offers the rows to the next claimer; a lease that is being settled ends at
 * commit and goes on at rollback.  This file keeps the list of the actions
 * that are owed, in order, each with its kind and its subtransaction, and has
 * them carried out in the transaction's callbacks: forwards at commit,
 * backwards at rollback.  What an action of a kind does is known to the file
 * that defines the kind.
 *
 * Backwards, because what came later was built on what came before: a task
 * that was claimed and acked in one transaction is first unsettled, then its
 * lease is dropped, then the row is offered.  Always in that order: a row that
 * is offered while its lease still stands looks like a row that another
 * backend has leased, so the next claimer passes it over, and it is lost until
 * the sweep finds it.  For the same reason all leases that end at commit end
 * before any row is offered, wherever they are in the list, for the row may
 * have been written before the lease was settled.  So commit has three phases:
 *
 *		leases end
 *		all else, in order
 *		what has to wait until all tasks are counted and offered
 *
 * The callbacks run when the transaction has ended for everybody else (it is
 * out of the proc array) and while it still has its locks on the relations.
 * lanes.c relies on the first; the second keeps the shared state of a queue
 * from being released under us.  They must not fail, so they allocate nothing:
 * what they need is in the list.
 *
 * A list of millions of actions would be a lot of memory.  From PENDING_MAX
 * actions on those of new rows are folded (pending_rows.c).
 *
 * A prepared transaction gives no callback when it ends, and the process that
 * ends it knows nothing of our list.  So a kind refuses PREPARE TRANSACTION if
 * what is in shared memory would stay: leases, and queues that go or come.  So
 * does a pass over a queue, for the prepared transaction would keep the
 * maintenance lock, and there would be no pass until it has ended.  Rows that
 * the transaction wrote are left in doubt: their lanes remember the first, and
 * claims look whether the transaction has ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "common/contracts.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "shmem/stats.h"
#include "shmem/waiters.h"
#include "xact/pending.h"

/*
 * The list, of TopMemoryContext, in the order in which actions were noted.  It
 * is empty outside of transactions.  subid does not descend along it, so what
 * a subtransaction has noted is its end (check_actions).
 *
 * 0 <= actions_count <= actions_size, which is what there is room for.
 */
static PendingAction *actions = NULL;
static int	actions_count = 0;
static int	actions_size = 0;

/*
 * Is there any action of a phase?  It may say so of an action that was undone
 * or dropped since; it never denies one that is there.
 */
static bool phase_used[PENDING_PHASES];

/*
 * What else is done at a moment, in order: hooks[moment][0 ..
 * hooks_count[moment] - 1].  Set once a process.
 */
#define MAX_HOOKS		8
static void (*hooks[PENDING_MOMENTS][MAX_HOOKS]) (void);
static int	hooks_count[PENDING_MOMENTS] = {0};

/*
 * The last subtransaction that has committed and has noted an action, or had a
 * child that has.  InvalidTransactionId: none has.
 */
static TransactionId last_writer = InvalidTransactionId;

/* What is owed is being done: nothing new may be noted. */
static bool carrying_out PG_USED_FOR_ASSERTS_ONLY = false;

/*
 * The transaction that is being prepared, from before_prepare on.
 * InvalidTransactionId if it has none; out of date once it has been prepared.
 */
static TransactionId preparing_xid = InvalidTransactionId;

/*
 * What was owed has been taken back.  The action keeps its place in the list,
 * for others have the numbers of those behind it.
 */
static const PendingKind nothing = {
	.name = "nothing",
	.prepare = pending_nothing,
};

/*
 * For a kind of which nothing is owed when it is prepared.  It says so, for a
 * kind that says nothing is refused by an assertion in pending_add.
 */
void
pending_nothing(PendingAction *action)
{
}

/*
 * Make room for n actions.  The caller does so before it does something in
 * shared memory that an action has to undo: to note the action cannot fail
 * then.
 *
 * The room is for the next n that are noted by whatever code, until the
 * transaction ends.  So a verb reserves once for all that it may note for one
 * task, and does so again for the next.  The list grows to twice its size: to
 * note n actions costs O(n).
 */
void
pending_reserve(int n)
{
	int			size = Max(actions_size, 128);

	Assert(n > 0);
	if (actions_count + n <= actions_size)
		return;
	while (size < actions_count + n)
		size *= 2;
	if (actions == NULL)
		actions = MemoryContextAllocHuge(TopMemoryContext, size * sizeof(PendingAction));
	else
		actions = repalloc_huge(actions, size * sizeof(PendingAction));
	actions_size = size;
}

/*
 * Note an action; the caller fills in its data.  The result, and every other
 * pointer to an action, is good until the next one is noted.
 *
 * Without room that was reserved it may fail for want of memory.  So it may be
 * called so only before there is anything to be undone.
 */
PendingAction *
pending_add(const PendingKind *kind)
{
	PendingAction *action;

	AssertInTransaction();
	Assert(!carrying_out);
	Assert(kind->prepare != NULL || kind->refused != NULL || kind->check_prepare != NULL);
	if (unlikely(actions_count == actions_size))
		pending_reserve(1);
	action = &actions[actions_count++];
	action->kind = kind;
	action->subid = action->undone_with = GetCurrentSubTransactionId();
	phase_used[kind->phase] = true;
	return action;
}

/*
 * The number of the next action that is noted.  Numbers ascend from 0 in each
 * transaction.  One may be used again when its action was undone, dropped or,
 * at a rollback, moved up: so whoever keeps one looks by pending_find.
 */
int
pending_mark(void)
{
	return actions_count;
}

/*
 * An action by its number; NULL if there is none, also for a number below
 * zero.  It may be of any kind, and be one that was dropped.
 */
PendingAction *
pending_action(int number)
{
	return number >= 0 && number < actions_count ? &actions[number] : NULL;
}

/*
 * Is the action that a number leads to one of a kind and of this
 * subtransaction?  Then it is returned, else NULL.  The number may be a hint
 * that is out of date.
 */
PendingAction *
pending_find(int number, const PendingKind *kind)
{
	PendingAction *action = pending_action(number);

	return action != NULL && action->kind == kind &&
		action->subid == GetCurrentSubTransactionId() ? action : NULL;
}

/* So many actions are looked at, from the last one on. */
#define RECENT_ACTIONS	8

/*
 * The data of the latest action of a kind and of this subtransaction whose
 * data begins with a pointer to subject, if it is one of the last few; else
 * NULL.  So that of a run of them there is one, with others in between.
 *
 * The caller may change the data so that the action stands for one more.  An
 * action of a parent is not found: it would stay if only this subtransaction
 * rolls back.
 */
void *
pending_recent(const PendingKind *kind, const void *subject)
{
	for (int i = 1; i <= RECENT_ACTIONS; i++)
	{
		PendingAction *action = pending_find(actions_count - i, kind);

		if (action != NULL && memcmp(action->u.data, &subject, sizeof(subject)) == 0)
			return action->u.data;
	}
	return NULL;
}

/*
 * From now on something else is owed.  The caller brings the data into the
 * form of the new kind.  Also called while actions are carried out, by the
 * callback of the action itself: then the new kind's phase is a later one, and
 * is carried out in its turn.
 */
void
pending_become(PendingAction *action, const PendingKind *kind)
{
	Assert(action >= actions && action < actions + actions_count);
	action->kind = kind;
	phase_used[kind->phase] = true;
}

/*
 * Nothing is owed: what the action was about has not come to pass.  The caller
 * has undone what it stood for, and freed what it points to; no callback is
 * called.  The last one leaves the list, so that a loop which notes and drops
 * does not make it grow.
 */
void
pending_drop(PendingAction *action)
{
	Assert(action >= actions && action < actions + actions_count);
	action->kind = &nothing;
	if (action == &actions[actions_count - 1])
		actions_count--;
}

/* A function that is called at commit, and with what (pending_call). */
typedef struct OwedCall
{
	QueueState *queue;
	PendingCall call;
	uint32		number;
	int			n;
} OwedCall;

static void
make_call(PendingAction *action)
{
	OwedCall   *owed = pending_data(action, OwedCall);

	owed->call(owed->queue, owed->number, owed->n);
}

static const PendingKind owed_call = {
	.name = "call",
	.commit = make_call,
	.prepare = make_call,
};

/*
 * A function is to be called at commit, or when the transaction is prepared,
 * in its turn among the other actions.  It must not fail.  If the transaction
 * or this subtransaction rolls back it is not called.  The caller has the
 * queue's relation locked until the transaction ends, which keeps the queue.
 */
void
pending_call(PendingCall call, QueueState *queue, uint32 number, int n)
{
	Assert(call != NULL);
	*pending_new(owed_call, OwedCall) = (OwedCall) {queue, call, number, n};
}

/*
 * The transaction that is being prepared; for prepare callbacks.  It has an id
 * if it has written a row.
 */
TransactionId
pending_preparing(void)
{
	return preparing_xid;
}

/*
 * Have hook called at a moment.  Hooks are called in the order in which they
 * were registered, once a process from _PG_init.  Those of a transaction that
 * has ended are called before its actions are undone (PENDING_AT_ABORT): so
 * what a claim has in hand is given back before its leases are.
 */
void
pending_hook(PendingMoment moment, void (*hook) (void))
{
	Assert(hooks_count[moment] < MAX_HOOKS);
	hooks[moment][hooks_count[moment]++] = hook;
}

static void
call_hooks(PendingMoment moment)
{
	for (int i = 0; i < hooks_count[moment]; i++)
		hooks[moment][i] ();
}

#ifdef USE_ASSERT_CHECKING

/* So many actions are looked at, from the last one on. */
#define CHECK_ACTIONS	256

/* What a subtransaction has noted is behind what its parents have. */
static void
check_actions(void)
{
	Assert(actions_count >= 0 && actions_count <= actions_size);
	for (int i = actions_count - 1; i > Max(actions_count - CHECK_ACTIONS, 0); i--)
	{
		Assert(actions[i].subid >= actions[i - 1].subid);
		Assert(actions[i].kind == &nothing || phase_used[actions[i].kind->phase]);
	}
}

#else
#define check_actions() ((void) 0)
#endif

/*
 * Between these nothing is allocated and nothing fails, for the transaction
 * has ended.  In builds with assertions that is a critical section, so that an
 * error would be a PANIC there and not be passed over.
 */
static void
begin_carrying_out(void)
{
	check_actions();
	BEGIN_NO_FAILURE();
	carrying_out = true;
}

static void
end_carrying_out(void)
{
	carrying_out = false;
	END_NO_FAILURE();
}

/* Nothing is owed any more; give a large list's memory back. */
static void
forget_actions(void)
{
	actions_count = 0;
	last_writer = InvalidTransactionId;
	memset(phase_used, 0, sizeof(phase_used));
	call_hooks(PENDING_AT_END);
	if (actions_size > 16384)
	{
		pfree(actions);
		actions = NULL;
		actions_size = 0;
	}
}

/*
 * Carry out the actions of a phase, in order.  The list keeps its length
 * meanwhile: a callback may change what an action is (pending_become), but
 * notes none.
 */
static void
carry_out(PendingPhase phase)
{
	if (!phase_used[phase])
		return;
	for (int i = 0; i < actions_count; i++)
	{
		const PendingKind *kind = actions[i].kind;

		if (kind->phase == phase && kind->commit != NULL)
			kind->commit(&actions[i]);
	}
}

/*
 * The transaction has committed.  Leases end first, all of them, and their
 * entries become free at once (leases_defer_free): race 3 is guarded by that,
 * and group counts learn which leases have ended together.  Rows are offered
 * next, for each finds its lease gone.
 */
static void
commit_actions(void)
{
	if (phase_used[PENDING_LEASES_END])
	{
		leases_defer_free();
		carry_out(PENDING_LEASES_END);
		leases_free_deferred();
	}
	carry_out(PENDING_IN_ORDER);
	carry_out(PENDING_LAST);
}

/*
 * Undo what was done in a subtransaction (InvalidSubTransactionId: in all of
 * the transaction), the last first.  An action that is undone only with one of
 * its parents is the next parent's from now on, behind what that one has noted
 * before.
 *
 * Meanwhile the tasks are in our hands alone: the sweep is told since when
 * (transit_horizon.c, race 14).
 */
static void
abort_actions(SubTransactionId subid, SubTransactionId parent)
{
	int			first = actions_count;
	int			end = actions_count;

	if (actions_count > 0)
		transit_horizon_begins(GetCurrentTimestamp());
	while (first > 0 && actions[first - 1].subid >= subid)
	{
		PendingAction *action = &actions[--first];

		if (action->undone_with >= subid && action->kind->abort != NULL)
			action->kind->abort(action);
	}
	actions_count = first;
	for (int i = first; i < end; i++)
	{
		if (actions[i].undone_with >= subid)
			continue;
		actions[actions_count] = actions[i];
		actions[actions_count++].subid = parent;
	}
	transit_horizon_ends();
}

/*
 * PREPARE TRANSACTION is about to begin: it can still be refused (race 13).
 * First all kinds are asked whether it is, then they do what they have to.
 */
static void
before_prepare(void)
{
	for (int i = 0; i < actions_count; i++)
	{
		const PendingKind *kind = actions[i].kind;

		if (kind->refused != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("%s", kind->refused),
					 errhint("%s", kind->refused_hint)));
		if (kind->check_prepare != NULL)
			kind->check_prepare(&actions[i]);
	}
	preparing_xid = GetTopTransactionIdIfAny();
	for (int i = 0; i < actions_count; i++)
	{
		if (actions[i].kind->before_prepare != NULL)
			actions[i].kind->before_prepare(&actions[i]);
	}
}

/*
 * The transaction is prepared.  No callback tells when it ends and how.
 * Counted is what will have happened if it commits, as most do; if it does
 * not, the queue is counted anew later (race 13).
 */
static void
prepare_actions(void)
{
	for (int i = 0; i < actions_count; i++)
	{
		if (actions[i].kind->prepare != NULL)
			actions[i].kind->prepare(&actions[i]);
	}
}

/*
 * Callback of the server at the end of a transaction.  The order of each case
 * matters:
 *
 *	 waiters are told last (waiters_defer, waiters_say), so that a waiter that
 *	 asks for many tasks finds them all, and finds none of them leased;
 *
 *	 the list is forgotten at the very end, outside of the critical section,
 *	 for hooks are called then, and its memory may be freed.
 *
 * Before the commit the time is noted from which on tasks are in our hands
 * (race 14): whoever sees the rows as committed before they are offered knows
 * then why they are in no window.  So are the ids of subtransactions that wrote
 * some, for whoever waits for what is owed for these (race 32).
 */
static void
pending_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
			stats_at_commit();
			begin_carrying_out();
			waiters_defer();
			commit_actions();
			transit_horizon_ends();
			waiters_say();
			end_carrying_out();
			forget_actions();
			break;

		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			stats_at_abort();
			begin_carrying_out();
			waiters_defer();
			call_hooks(PENDING_AT_ABORT);
			abort_actions(InvalidSubTransactionId, InvalidSubTransactionId);
			waiters_say();
			end_carrying_out();
			forget_actions();
			break;

		case XACT_EVENT_PRE_PREPARE:
			call_hooks(PENDING_BEFORE_COMMIT);
			before_prepare();
			break;

		case XACT_EVENT_PREPARE:
			stats_before_prepare(preparing_xid);
			stats_at_commit();
			begin_carrying_out();
			prepare_actions();
			end_carrying_out();
			forget_actions();
			break;

		case XACT_EVENT_PRE_COMMIT:
			call_hooks(PENDING_BEFORE_COMMIT);
			/* FALLTHROUGH */
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			if (actions_count == 0)
				break;
			transit_horizon_begins(GetCurrentStatementStartTimestamp());
			if (unlikely(TransactionIdIsValid(last_writer)))
				transit_horizon_commits(GetTopTransactionId(), last_writer);
			break;
	}
}

/*
 * A subtransaction is about to commit.  Ids ascend, but one whose child has
 * written has a lower id than that.
 */
static void
note_writer(SubTransactionId subid)
{
	TransactionId xid = GetCurrentTransactionIdIfAny();

	if (TransactionIdIsValid(xid) &&
		actions_count > 0 && actions[actions_count - 1].subid >= subid &&
		(!TransactionIdIsValid(last_writer) || TransactionIdPrecedes(last_writer, xid)))
		last_writer = xid;
}

/*
 * Callback of the server at the end of a subtransaction.  At its commit what
 * it has noted is its parent's, and nothing is done as yet.  At its rollback
 * that is undone at once: a lease that a rolled back savepoint has claimed can
 * be claimed by another backend while this transaction goes on.
 */
static void
pending_subxact_callback(SubXactEvent event, SubTransactionId subid,
						 SubTransactionId parent, void *arg)
{
	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			stats_at_subcommit(subid, parent);
			for (int i = actions_count - 1; i >= 0 && actions[i].subid >= subid; i--)
				actions[i].subid = parent;
			break;

		case SUBXACT_EVENT_ABORT_SUB:
			stats_at_subabort(subid);
			begin_carrying_out();
			waiters_defer();
			call_hooks(PENDING_AT_ABORT);
			abort_actions(subid, parent);
			waiters_say();
			end_carrying_out();
			break;

		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			note_writer(subid);
			break;

		case SUBXACT_EVENT_START_SUB:
			break;
	}
}

/*
 * Register the callbacks.  Called once a process, from _PG_init.
 */
void
pending_register(void)
{
	RegisterXactCallback(pending_xact_callback, NULL);
	RegisterSubXactCallback(pending_subxact_callback, NULL);
}
