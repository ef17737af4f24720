/*-------------------------------------------------------------------------
 *
 * waiters.c
 *	  Who waits for tasks, and how they are told.
 *
 * A claimer that finds nothing may sleep until there is something.  Here are
 * the sleepers: a slot for each backend, in a list for each queue, first
 * come, first told.  Whoever makes tasks claimable (lanes.c: an offer, or a
 * lowered frontier) tells one sleeper for each task, and no more: a word.
 * While no backend waits that is one look at a counter.
 *
 * No task is left lying while a sleeper would take it.  That takes three
 * rules.
 *
 *	 A sleeper first joins the list, then looks for tasks once more, then
 *	 sleeps.  A task is first offered, then the list is looked at.  So either
 *	 the sleeper sees the task or the task's owner sees the sleeper; the locks
 *	 of lane and list are the memory barriers that this takes.
 *
 *	 Who is told leaves the list with the word in its slot, and owes a look.  If
 *	 it cannot look (cancelled, terminated, failed), or if it looked and what
 *	 the word was of may still be there, the word is passed on to the next in
 *	 the list.  There are as many words as tasks, so if all want any task it does
 *	 not matter who takes which.  But if some are choosy it does: who took
 *	 another task than that of the word perhaps took what a choosy one was told
 *	 of.  Then either that one finds nothing and passes its word on, or those
 *	 left in the list may want only the one that is left.  And a word does not
 *	 always know the group, so who wants some may be told in vain.
 *
 *	 A word goes to those only who joined before it was given: who joined later
 *	 has looked later.  So a word that no sleeper wants comes to an end, also if
 *	 those that it passed have joined again.
 *
 * Some only want to tell their client, who may or may not claim then
 * (fairq.wait).  They cannot pass on their word.  The background worker looks
 * a moment later whether there still is something, and tells another one.
 *
 * The worker also has to send a NOTIFY for queues that are set so.  That there
 * is something new is a flag here; the worker is woken, and what comes up to
 * then, and for a moment after the last one, is one NOTIFY.
 *
 * Locking: the lock of a list guards the list and the slots in it.  It is the
 * last one taken: whoever offers may hold others.  attention, pending and the
 * times are atomic.  A slot is written by others only while it is in a
 * list; that it was told is read by its owner without the lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"

#define NO_WAITER		(-1)

/* Groups that a sleeper may name; with more it is told of all. */
#define MAX_GROUPS		8

/* How long the client of a fairq.wait has to claim before another is told. */
#define CLIENT_USECS	INT64CONST(100000)

/* The shortest time between two NOTIFY of a queue. */
#define NOTIFY_USECS	INT64CONST(20000)

/* Bits of attention: how many are in the list, and whether to NOTIFY. */
#define ATTENTION_NOTIFY	((uint32) 1 << 31)

/* That there may be something to claim. */
typedef struct Word
{
	uint64		turn;			/* for those only who joined before */
	int16		bucket;			/* WAITERS_ANY_BUCKET: not known */
	uint16		group;			/* WAITERS_ANY_GROUP: not known */
	bool		many;			/* perhaps of more than one task */
} Word;

typedef struct Waiter
{
	int			queue;			/* number of the list it is in; NO_WAITER:
								 * none */
	int			next;
	int			previous;
	uint64		turn;			/* when it joined */
	volatile bool told;			/* it was taken out of the list ... */
	bool		gone;			/* ... because the queue is no more; else: */
	Word		word;
	bool		claims;
	bool		all_buckets;
	int			queue_buckets;	/* others go with these in turn
								 * (claim_private.h) */
	int			group_count;	/* -1: all; above MAX_GROUPS: all may be */
	uint16		groups[MAX_GROUPS];
	uint32		buckets[FAIRQ_MAX_BUCKETS / 32];
} Waiter;

typedef struct WaiterList
{
	LWLock		lock;
	int			first;
	int			last;
	uint64		turn;			/* of the next who joins */
	int			choosy;			/* how many do not want just any task */
	Oid			database;		/* of the queue, since a backend joined */
	pg_atomic_uint32 attention;
	pg_atomic_uint32 pending;	/* there is something to NOTIFY of */
	pg_atomic_uint64 notify_after;	/* and not before this */
	pg_atomic_uint64 claimed_by;	/* a client claims by then; 0: none */
} WaiterList;

static WaiterList *lists = NULL;
static Waiter *waiters = NULL;

/* What this backend waits for. */
static int	my_queue = NO_WAITER;
static bool my_choosy = false;
static bool my_claims = false;
static bool holding = false;	/* we were told and have not looked since */
static bool satisfied = false;	/* we took what we were told of */
static Word held;

/*
 * Words that are said when all is offered that a transaction has to offer, so
 * that who asks for many tasks finds them.
 */
#define MAX_DEFERRED	64

typedef struct Deferred
{
	int			queue;
	Word		word;
} Deferred;

static bool deferring = false;
static Deferred deferred[MAX_DEFERRED];
static int	deferred_count = 0;

#define LISTS_SIZE		CACHELINEALIGN(mul_size(settings_max_queues, sizeof(WaiterList)))

Size
waiters_shmem_size(void)
{
	return add_size(LISTS_SIZE, mul_size(MaxBackends, sizeof(Waiter)));
}

void
waiters_shmem_init(void *area, bool found)
{
	lists = area;
	waiters = (Waiter *) ((char *) area + LISTS_SIZE);
	if (found)
		return;
	for (int i = 0; i < settings_max_queues; i++)
	{
		WaiterList *list = &lists[i];

		LWLockInitialize(&list->lock, shared_memory_tranche(FAIRQ_TRANCHE_WAITER));
		list->first = list->last = NO_WAITER;
		list->turn = 1;
		list->choosy = 0;
		list->database = InvalidOid;
		pg_atomic_init_u32(&list->attention, 0);
		pg_atomic_init_u32(&list->pending, 0);
		pg_atomic_init_u64(&list->notify_after, 0);
		pg_atomic_init_u64(&list->claimed_by, 0);
	}
	for (int i = 0; i < MaxBackends; i++)
		waiters[i].queue = NO_WAITER;
}

/* The number of our slot. */
static int
me(void)
{
	int			number = (int) (MyProc - ProcGlobal->allProcs);

	Assert(number >= 0 && number < MaxBackends);
	return number;
}

/*
 * What tells a group from most others.  Two that are alike cost a look in vain.
 */
uint16
waiters_group(const GroupName *name)
{
	uint16		group = name->low & 0xFFFF;

	return group == WAITERS_ANY_GROUP ? 1 : group;
}

/* ----------------------------------------------------------------
 * Lists.  Locked exclusively.
 * ----------------------------------------------------------------
 */

static bool
is_choosy(const Waiter *waiter)
{
	return !waiter->all_buckets || waiter->group_count >= 0;
}

static void
join(WaiterList *list, int number)
{
	Waiter	   *waiter = &waiters[number];

	waiter->queue = (int) (list - lists);
	waiter->turn = list->turn++;
	waiter->next = NO_WAITER;
	waiter->previous = list->last;
	if (list->last == NO_WAITER)
		list->first = number;
	else
		waiters[list->last].next = number;
	list->last = number;
	list->choosy += is_choosy(waiter);
	pg_atomic_fetch_add_u32(&list->attention, 1);
}

static void
leave(WaiterList *list, int number)
{
	Waiter	   *waiter = &waiters[number];

	if (waiter->previous == NO_WAITER)
		list->first = waiter->next;
	else
		waiters[waiter->previous].next = waiter->next;
	if (waiter->next == NO_WAITER)
		list->last = waiter->previous;
	else
		waiters[waiter->next].previous = waiter->previous;
	waiter->queue = NO_WAITER;
	list->choosy -= is_choosy(waiter);
	pg_atomic_fetch_sub_u32(&list->attention, 1);
}

/* ----------------------------------------------------------------
 * For those who make tasks claimable
 * ----------------------------------------------------------------
 */

static bool
is_set(const uint32 *bits, int bit)
{
	return (bits[bit / 32] & ((uint32) 1 << (bit % 32))) != 0;
}

static bool
wants(const Waiter *waiter, const Word *word)
{
	if (word->bucket != WAITERS_ANY_BUCKET && !waiter->all_buckets &&
		!is_set(waiter->buckets, word->bucket % waiter->queue_buckets))
		return false;
	if (word->group == WAITERS_ANY_GROUP ||
		waiter->group_count < 0 || waiter->group_count > MAX_GROUPS)
		return true;
	for (int i = 0; i < waiter->group_count; i++)
	{
		if (waiter->groups[i] == word->group)
			return true;
	}
	return false;
}

/*
 * How sure it is that the task will be taken: 0 is best.  Who asks for groups
 * may find that it is of another one, if that is not known, and says so at
 * once; who has a client to tell cannot know what that does.
 */
static int
doubtful(const Waiter *waiter, const Word *word)
{
	if (!waiter->claims)
		return 2;
	return (waiter->group_count >= 0 && word->group == WAITERS_ANY_GROUP) ? 1 : 0;
}

/*
 * Tell the first who wants it, of those of whom it is most sure.  Returns false
 * if there is none.
 */
static bool
tell(WaiterList *list, Word *word, bool new)
{
	int			chosen = NO_WAITER;
	int			best = INT_MAX;
	Oid			database = InvalidOid;

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	if (new)
		word->turn = list->turn;
	for (int i = list->first; i != NO_WAITER && waiters[i].turn < word->turn; i = waiters[i].next)
	{
		int			doubt = doubtful(&waiters[i], word);

		if (doubt < best && wants(&waiters[i], word))
		{
			chosen = i;
			best = doubt;
			if (best == 0)
				break;
		}
	}
	if (chosen != NO_WAITER)
	{
		Waiter	   *waiter = &waiters[chosen];

		leave(list, chosen);
		waiter->word = *word;
		waiter->gone = false;
		pg_write_barrier();
		waiter->told = true;
		if (!waiter->claims)
			database = list->database;
	}
	LWLockRelease(&list->lock);
	if (chosen != NO_WAITER)
		SetLatch(&ProcGlobal->allProcs[chosen].procLatch);
	if (OidIsValid(database))
	{
		TimestampTz when = GetCurrentTimestamp() + CLIENT_USECS;
		uint64		unclaimed = 0;

		if (pg_atomic_compare_exchange_u64(&list->claimed_by, &unclaimed, when))
			worker_slots_errand_at(database, when);
	}
	return chosen != NO_WAITER;
}

/* There is something new in a queue: the worker is to NOTIFY. */
static void
note(int queue)
{
	WaiterList *list = &lists[queue];

	if (pg_atomic_exchange_u32(&list->pending, 1) == 0)
		worker_slots_errand_at(queue_state_by_number(queue)->database,
							   pg_atomic_read_u64(&list->notify_after));
}

static void
announce(int queue, int bucket, uint16 group, bool many)
{
	WaiterList *list = &lists[queue];
	uint32		attention = pg_atomic_read_u32(&list->attention);
	Word		word;

	if (likely(attention == 0))
		return;
	if (attention & ATTENTION_NOTIFY)
		note(queue);
	if ((attention & ~ATTENTION_NOTIFY) == 0)
		return;
	word.bucket = bucket;
	word.group = group;
	word.many = many;
	if (deferring && deferred_count < MAX_DEFERRED)
	{
		deferred[deferred_count].queue = queue;
		deferred[deferred_count++].word = word;
	}
	else
		(void) tell(list, &word, true);
}

/*
 * A transaction begins, and has ended, to offer what it has to.
 */
void
waiters_defer(void)
{
	deferring = true;
}

void
waiters_say(void)
{
	deferring = false;
	for (int i = 0; i < deferred_count; i++)
		(void) tell(&lists[deferred[i].queue], &deferred[i].word, true);
	deferred_count = 0;
}

/*
 * A task of a bucket can be claimed; group is what waiting_group says, or
 * WAITERS_ANY_GROUP.  The caller has had the lane's lock since it could.
 */
void
waiters_offered(int queue, int bucket, uint16 group)
{
	announce(queue, bucket, group, false);
}

/*
 * Tasks of a bucket can perhaps be claimed, it is not known which and how
 * many.
 */
void
waiters_lowered(int queue, int bucket)
{
	announce(queue, bucket, WAITERS_ANY_GROUP, true);
}

/* Tell of a task whose bucket is not known. */
static bool
tell_one(WaiterList *list)
{
	Word		word = {0, WAITERS_ANY_BUCKET, WAITERS_ANY_GROUP, true};

	return tell(list, &word, true);
}

/*
 * The settings of a queue have changed: what could not be claimed perhaps can,
 * and buckets may mean something else.  All look anew.
 */
void
waiters_settings_changed(QueueState *queue)
{
	WaiterList *list = &lists[queue_state_number(queue)];

	/* Who joins now has read them. */
	for (uint32 n = pg_atomic_read_u32(&list->attention) & ~ATTENTION_NOTIFY; n > 0; n--)
	{
		if (!tell_one(list))
			break;
	}
}

/* ----------------------------------------------------------------
 * For those who wait
 * ----------------------------------------------------------------
 */

/*
 * Join those who wait for a queue.  The caller has its relation locked, looks
 * for tasks next, says what came of it (waiters_looked), and may then let go
 * the lock and sleep until waiters_told.  Called again before each look.
 */
void
waiters_begin(const WaiterWants *wanted)
{
	int			queue = queue_state_number(wanted->queue);
	WaiterList *list = &lists[queue];
	int			number = me();
	Waiter	   *waiter = &waiters[number];

	if (my_queue != NO_WAITER && my_queue != queue)
		waiters_end();			/* dropped, and created anew */
	if (my_queue != NO_WAITER && !waiter->told)
		return;					/* woken by something else: the place is kept */
	holding = (my_queue != NO_WAITER && !waiter->gone);
	satisfied = false;
	if (holding)
		held = waiter->word;

	my_queue = queue;
	my_claims = wanted->claims;
	waiter->told = false;
	waiter->gone = false;
	waiter->claims = wanted->claims;
	waiter->all_buckets = (wanted->bucket_count < 0);
	waiter->queue_buckets = wanted->queue_buckets;
	memset(waiter->buckets, 0, sizeof(waiter->buckets));
	for (int i = 0; i < wanted->bucket_count; i++)
		waiter->buckets[wanted->buckets[i] / 32] |= (uint32) 1 << (wanted->buckets[i] % 32);
	waiter->group_count = wanted->group_count;
	for (int i = 0; i < Min(wanted->group_count, MAX_GROUPS); i++)
	{
		GroupName	name = group_name(wanted->groups[i]);

		waiter->groups[i] = waiters_group(&name);
	}
	my_choosy = is_choosy(waiter);

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	list->database = wanted->queue->database;
	join(list, number);
	LWLockRelease(&list->lock);
}

/*
 * A task was claimed: was it the one that we were told of?
 */
void
waiters_took(int bucket, const text *key)
{
	if (holding && held.bucket == bucket && held.group != WAITERS_ANY_GROUP)
	{
		GroupName	name = group_name(key);

		satisfied |= (held.group == waiters_group(&name));
	}
}

/*
 * We have looked, and got so many tasks.  If another waiter may want what we
 * were told of, say so: if there is something to claim, which ready tells.
 */
void
waiters_looked(int got, WaitersReady ready)
{
	bool		pass_on;

	if (!holding)
		return;
	holding = false;
	if (!my_claims)
		pass_on = (got > 0 && held.many);
	else if (got > 0)
		pass_on = (held.many ||
				   (!satisfied &&
					(my_choosy || ((volatile WaiterList *) &lists[my_queue])->choosy > 0))) &&
			ready(queue_state_by_number(my_queue), held.bucket);
	else
		pass_on = my_choosy;
	if (pass_on)
		(void) tell(&lists[my_queue], &held, false);
}

/*
 * Is there reason to look again?
 */
bool
waiters_told(void)
{
	return my_queue == NO_WAITER || waiters[me()].told;
}

/*
 * We do not wait any more.  What we were told since we looked, or have not
 * looked for, another sleeper is told.
 */
void
waiters_end(void)
{
	WaiterList *list;
	Waiter	   *waiter;
	bool		was_told;

	if (my_queue == NO_WAITER)
		return;
	list = &lists[my_queue];
	waiter = &waiters[me()];
	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	was_told = waiter->told && !waiter->gone;
	if (waiter->queue == my_queue)
		leave(list, me());
	LWLockRelease(&list->lock);
	my_queue = NO_WAITER;
	if (holding)
		(void) tell(list, &held, false);
	holding = false;
	if (was_told)
		(void) tell(list, &waiter->word, false);
}

/*
 * The transaction, or a part of it, failed.  Never fails.
 */
void
waiters_at_abort(void)
{
	waiters_end();
}

/*
 * A queue is no more.
 */
void
waiters_queue_gone(int queue)
{
	WaiterList *list = &lists[queue];

	LWLockAcquire(&list->lock, LW_EXCLUSIVE);
	while (list->first != NO_WAITER)
	{
		int			number = list->first;

		leave(list, number);
		waiters[number].gone = true;
		pg_write_barrier();
		waiters[number].told = true;
		SetLatch(&ProcGlobal->allProcs[number].procLatch);
	}
	pg_atomic_write_u32(&list->attention, 0);
	pg_atomic_write_u32(&list->pending, 0);
	pg_atomic_write_u64(&list->notify_after, 0);
	pg_atomic_write_u64(&list->claimed_by, 0);
	LWLockRelease(&list->lock);
}

/*
 * The worker of a database has ended: those who wait have to see for themselves
 * what becomes due.
 */
void
waiters_worker_gone(Oid database)
{
	for (int i = 0; i < settings_max_queues; i++)
	{
		WaiterList *list = &lists[i];

		if ((pg_atomic_read_u32(&list->attention) & ~ATTENTION_NOTIFY) == 0)
			continue;
		LWLockAcquire(&list->lock, LW_SHARED);
		for (int j = list->first; j != NO_WAITER && list->database == database; j = waiters[j].next)
			SetLatch(&ProcGlobal->allProcs[j].procLatch);
		LWLockRelease(&list->lock);
	}
}

/* ----------------------------------------------------------------
 * For the background worker
 * ----------------------------------------------------------------
 */

/*
 * Whether to NOTIFY of a queue, as its settings say.  What became claimable
 * before this was known was not noted, so at the start there is one in any
 * case.
 */
void
waiters_set_notify(QueueState *queue, bool notify)
{
	int			number = queue_state_number(queue);
	WaiterList *list = &lists[number];
	bool		before;

	before = (pg_atomic_read_u32(&list->attention) & ATTENTION_NOTIFY) != 0;
	if (notify == before)
		return;
	if (notify)
	{
		pg_atomic_fetch_or_u32(&list->attention, ATTENTION_NOTIFY);
		note(number);
	}
	else
	{
		pg_atomic_fetch_and_u32(&list->attention, ~ATTENTION_NOTIFY);
		pg_atomic_write_u32(&list->pending, 0);
	}
}

/*
 * What is to be done now for those who wait and listen in a database.  Puts up
 * to max queues to NOTIFY of into queues, and returns how many; *next is when
 * to come again.
 */
int
waiters_errands(Oid database, TimestampTz now, WaitersReady ready, int max,
				int *queues, TimestampTz *next)
{
	int			n = 0;

	*next = PG_INT64_MAX;
	for (int i = 0; i < settings_max_queues; i++)
	{
		WaiterList *list = &lists[i];
		QueueState *queue = queue_state_by_number(i);
		TimestampTz when = pg_atomic_read_u64(&list->claimed_by);

		if (when == 0 && pg_atomic_read_u32(&list->pending) == 0)
			continue;
		if (queue->database != database)
			continue;

		/* A sleeper was told on behalf of a client. */
		if (wall_clock_ahead(when, now, CLIENT_USECS))
			*next = Min(*next, when);
		else if (when != 0)
		{
			pg_atomic_write_u64(&list->claimed_by, 0);
			pg_memory_barrier();
			if (ready(queue, WAITERS_ANY_BUCKET))
				(void) tell_one(list);
		}

		if (pg_atomic_read_u32(&list->pending) == 0)
			continue;
		when = pg_atomic_read_u64(&list->notify_after);
		if (wall_clock_ahead(when, now, USECS_PER_SEC) || n == max)
		{
			*next = Min(*next, Max(when, now));
			continue;
		}
		/* What comes from now on is news again. */
		pg_atomic_write_u64(&list->notify_after, now + NOTIFY_USECS);
		pg_atomic_exchange_u32(&list->pending, 0);
		queues[n++] = i;
	}
	return n;
}

/*
 * That failed.
 */
void
waiters_notify_again(int queue, TimestampTz when)
{
	pg_atomic_write_u64(&lists[queue].notify_after, when);
	pg_atomic_exchange_u32(&lists[queue].pending, 1);
}
