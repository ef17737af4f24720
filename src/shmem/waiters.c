/*-------------------------------------------------------------------------
 *
 * waiters.c
 *	  Who waits for tasks, and how they are told.
 *
 * A claimer that finds nothing may sleep until there is something.  The
 * sleepers are in a list for each queue (waiter_seats.c), first come, first
 * told.  A backend that makes tasks claimable (lanes.c: an offer, or a lowered
 * frontier) tells one sleeper for each task, and no more: a word.  While no
 * backend waits that is one look at a counter.
 *
 * No task is left lying while a sleeper would take it.  That takes three
 * rules.
 *
 *	 A sleeper first joins the list, then looks for tasks once more, then
 *	 sleeps.  A task is first offered, then the list is looked at.  So either
 *	 the sleeper sees the task or the task's owner sees the sleeper; the locks
 *	 of lane and list are the memory barriers that this takes.
 *
 *	 A sleeper that is told leaves the list with the word in its seat, and owes
 *	 a look.  If it cannot look (cancelled, terminated, failed), or if it
 *	 looked and what the word was of may still be there, the word is passed on
 *	 to the next in the list.  There are as many words as tasks, so if all want
 *	 any task it does not matter which sleeper takes which.  But if some are
 *	 choosy it does: a sleeper that took another task than that of its word
 *	 perhaps took what a choosy one was told of.  Then either that one finds
 *	 nothing and passes its word on, or those left in the list may want only
 *	 the one that is left.  And a word does not always know the group, so a
 *	 sleeper that wants some may be told in vain.
 *
 *	 A word goes only to sleepers that joined before it was given: one that
 *	 joined later has looked later.  So a word that no sleeper wants comes to
 *	 an end, also if those that it passed have joined again.
 *
 * A sleeper that waits for any of several queues has a seat in the list of
 * each, and each seat keeps the rules by itself: it joins, then that queue is
 * looked at; if it was told, it owes a look at that queue, or passes the word
 * on.  A sleeper that has what it wants from one queue owes no look at the
 * next.  It is only when it ends its wait that it gives up its seats, and
 * passes on the words that it was told in those.
 *
 * Some only want to tell their client, which may or may not claim then
 * (fairq.wait, fairq.wait_any).  They cannot pass on their word, so the
 * background worker looks after it (waiter_errands.c).
 *
 * Locking: waiter_seats.c, which takes the lock of a list.  Here is what is
 * private to this backend: what it waits for, the word that it owes a look for,
 * and words that it defers.
 *
 * Races: 8 (a sleeper looks, a task comes, the sleeper sleeps) is guarded by
 * the first of these rules, 9 (a sleeper that is told does not take the task)
 * by the second.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/waiter_seats.h"
#include "shmem/waiters.h"

/*
 * What this backend waits for: the lists of its seats.  NULL: there is none, or
 * it was given up by an abort.
 */
static WaiterList *my_lists[WAITERS_SEATS];
static int	my_count = 0;
static bool my_choosy = false;
static bool my_claims = false;

/* The seat whose queue we are looking at. */
static int	looking = 0;
static bool holding = false;	/* we were told in it and have not looked
								 * since */
static bool satisfied = false;	/* we took what we were told of */
static WaiterWord held;

/*
 * Words that are said when all is offered that a transaction has to offer, so
 * that a sleeper that asks for many tasks finds them.
 */
#define MAX_DEFERRED	64

typedef struct Deferred
{
	int			queue;
	WaiterWord	word;
} Deferred;

/* Set from waiters_defer() to waiters_say(), between which nothing fails. */
static bool deferring = false;
static Deferred deferred[MAX_DEFERRED];
static int	deferred_count = 0;

/* ----------------------------------------------------------------
 * For those who make tasks claimable
 * ----------------------------------------------------------------
 */

/*
 * Something of a queue can be claimed: tell one sleeper that wants it, or note
 * that this is to be done at the end (waiters_say), and have the worker NOTIFY
 * if the queue is set so.  When there is no room to note it is told at once.
 * Never fails.
 */
static void
announce(int queue, int bucket, uint16 group, bool many)
{
	WaiterList *list = waiter_seats_list(queue);
	uint32		attention = pg_atomic_read_u32(&list->attention);
	WaiterWord	word;

	if (likely(attention == 0))
		return;
	if (attention & ATTENTION_NOTIFY)
		waiter_errands_note(queue);
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
		(void) waiter_seats_tell(list, &word, true);
}

/*
 * A transaction begins to offer what it has to: sleepers are told of that at
 * the end.  Called when the transaction has ended, as waiters_say, which is
 * sure to follow.
 */
void
waiters_defer(void)
{
	deferring = true;
}

/* The transaction has offered what it had to: sleepers are told of it now. */
void
waiters_say(void)
{
	deferring = false;
	for (int i = 0; i < deferred_count; i++)
		(void) waiter_seats_tell(waiter_seats_list(deferred[i].queue), &deferred[i].word,
								 true);
	deferred_count = 0;
}

/*
 * A task of a bucket can be claimed; group is what waiters_group says, or
 * WAITERS_ANY_GROUP.  The caller has had the lane's lock since it could: a
 * sleeper that joined its list before is told, and one that joins later sees
 * the task (race 8).
 */
void
waiters_offered(int queue, int bucket, uint16 group)
{
	announce(queue, bucket, group, false);
}

/*
 * Tasks of a bucket (WAITERS_ANY_BUCKET: of some) can perhaps be claimed, it
 * is not known which and how many.  A sleeper that is told of that passes the
 * word on when it has taken one, as long as there are more.
 */
void
waiters_lowered(int queue, int bucket)
{
	announce(queue, bucket, WAITERS_ANY_GROUP, true);
}

/*
 * What could not be claimed perhaps can, and not by every session: settings of
 * a queue have changed, and buckets may mean something else; or a suspect has
 * a place.  All that wait by now look anew; a sleeper that joins later has
 * read the change.  The caller has made it visible before this.
 */
void
waiters_look_anew(QueueState *queue)
{
	WaiterList *list = waiter_seats_list(queue_state_number(queue));

	/* As many as are there by now: one that joins has read the change. */
	for (uint32 n = waiter_seats_count(list); n > 0; n--)
	{
		if (!waiter_seats_tell_one(list))
			break;
	}
}

/* ----------------------------------------------------------------
 * For those who wait
 * ----------------------------------------------------------------
 */

/*
 * Give up a seat.  What we were told in it since we looked, or have not looked
 * for, another sleeper is told (race 9).  Never fails: called at abort, too.
 */
static void
give_up(int seat)
{
	WaiterList *list = my_lists[seat];
	WaiterSeat *mine = waiter_seats_mine(seat);
	bool		told;

	Assert(seat >= 0 && seat < WAITERS_SEATS);
	if (list == NULL)
		return;
	told = waiter_seats_leave(list, mine);
	my_lists[seat] = NULL;
	if (holding && looking == seat)
	{
		holding = false;
		(void) waiter_seats_tell(list, &held, false);
	}
	if (told)
		(void) waiter_seats_tell(list, &mine->word, false);
}

/*
 * Join those who wait for a queue, with a seat: 0, or the next one.  The caller
 * has its relation locked, looks for tasks next, says what came of it
 * (waiters_looked), and may then let go the lock and sleep until waiters_told.
 * Called again before each look.
 *
 * On return the seat is in the queue's list, and a word that was in it is held:
 * it is passed on if the look does not end it.
 */
void
waiters_begin(const WaiterWants *wanted, int seat)
{
	WaiterList *list = waiter_seats_list(queue_state_number(wanted->queue));
	WaiterSeat *mine = waiter_seats_mine(seat);

	Assert(seat >= 0 && seat < WAITERS_SEATS);
	if (my_lists[seat] != NULL && my_lists[seat] != list)
		give_up(seat);			/* dropped, and created anew */
	looking = seat;
	if (my_lists[seat] != NULL && !mine->told)
		return;					/* woken by something else: the seat is kept */
	/* The rest is ours, as take_out has left it. */
	pg_read_barrier();
	holding = (my_lists[seat] != NULL && !mine->gone);
	satisfied = false;
	if (holding)
		held = mine->word;

	my_claims = wanted->claims;
	if (seat == 0 && my_count <= 1)
		my_choosy = waiter_seats_want(wanted);
	my_lists[seat] = list;
	my_count = Max(my_count, seat + 1);
	waiter_seats_join(list, mine, wanted->queue->database);
}

/*
 * A task was claimed, of this bucket and group key: was it the one that we were
 * told of?  Called between waiters_begin and waiters_looked, for each task.
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
 * were told of, say so: if there is something to claim, which ready tells.  The
 * caller still has the relation of the queue locked, and no lock of ours.
 */
void
waiters_looked(int got, WaitersReady ready)
{
	WaiterList *list = my_lists[looking];
	bool		pass_on;

	if (!holding)
		return;
	holding = false;
	if (!my_claims)
		pass_on = (got > 0 && held.many);
	else if (got > 0)
		pass_on = (held.many ||
				   (!satisfied &&
					(my_choosy || ((volatile WaiterList *) list)->choosy > 0))) &&
			ready(queue_state_by_number(waiter_seats_queue(list)), held.bucket);
	else
		pass_on = my_choosy;
	if (pass_on)
		(void) waiter_seats_tell(list, &held, false);
}

/*
 * Is there reason to look again at the queue of a seat: were we told in it, or
 * has an abort given it up?  Without a lock: the latch is set after told.
 */
bool
waiters_told_in(int seat)
{
	return my_lists[seat] == NULL || waiter_seats_mine(seat)->told;
}

/*
 * Is there reason to look again, at the queue of any of our seats?
 */
bool
waiters_told(void)
{
	for (int seat = 0; seat < my_count; seat++)
	{
		if (waiters_told_in(seat))
			return true;
	}
	return my_count == 0;
}

/*
 * We do not wait any more: each seat is given up, and what we were told and
 * have not looked for is passed on.  Also when the transaction, or a part of
 * it, fails: a hook of pending_hook.  Never fails; does nothing if we do not
 * wait.
 */
void
waiters_end(void)
{
	if (my_count == 0)
		return;
	for (int seat = 0; seat < my_count; seat++)
		give_up(seat);
	my_count = 0;
	waiter_seats_awake();
}
