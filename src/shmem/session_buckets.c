/*-------------------------------------------------------------------------
 *
 * session_buckets.c
 *	  Which sessions own which buckets of a queue.
 *
 * Sessions that ask for a queue's buckets are its members; each gets its
 * share, and no bucket belongs to two.  A session that asks has the shares
 * adjusted to the members that live: they keep what they have as far as it is
 * within their share.
 *
 * A bucket's owner is the number of a session, which may be over: its buckets
 * are dealt to others when one of these asks the next time.  Owners say who may
 * begin a claim.  They say nothing of leases, so a task that is leased stays
 * with its session when the bucket goes to another one.
 *
 * Locking: as in session_table.h.  The lock is taken with the queue's relation
 * locked, or with the directory locked when the queue goes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/wall_clock.h"
#include "shmem/session_table.h"

/*
 * Take out those members that have left, of all queues, and have a session be
 * a member of this one.  Returns how many the queue has; 0: there is no room
 * for the session.  The caller has the table locked exclusively.  The order of
 * the members stays, and with it which of them has the larger share.
 */
static int
join_queue(uint32 queue_number, uint32 number)
{
	TimestampTz now = wall_clock_steady();
	int			members = 0;
	int			kept = 0;
	bool		mine = false;

	AssertLockedExclusively(&session_table->lock);
	Assert(number > 0 && number <= (uint32) settings_max_sessions);
	for (int i = 0; i < session_table->member_count; i++)
	{
		Member		member = session_table->members[i];

		if (!session_is_alive(&session_table->sessions[member.session - 1], now))
			continue;
		session_table->members[kept++] = member;
		if (member.queue == queue_number)
		{
			members++;
			mine |= (member.session == number);
		}
	}
	session_table->member_count = kept;
	if (mine)
		return members;
	if (kept == MAX_MEMBERS)
		return 0;
	session_table->members[kept].session = number;
	session_table->members[kept].queue = queue_number;
	session_table->member_count++;
	return members + 1;
}

/*
 * Deal bucket_count buckets of a queue out between the sessions that live and
 * ask for them, of which the caller's is one.  Returns how many are the
 * caller's, and which; -1 if there are too many members.
 *
 * The caller has the queue's relation locked, and has just found session
 * number alive.  buckets has room for bucket_count; they ascend.  Fails only
 * for want of memory, before anything is locked.  It is in force at once.  A
 * session that had a bucket which is another's now hears of it when it claims
 * from it.
 *
 * On return each bucket below bucket_count has an owner, for shares add up to
 * that; those beyond have none.  A session that lived a moment ago may be over
 * by now, and has buckets until the next one asks.
 */
int
sessions_deal(QueueState *queue, int bucket_count, uint32 number, int *buckets)
{
	uint32		queue_number = queue_state_number(queue);
	int		   *owned = palloc0((settings_max_sessions + 1) * sizeof(int));
	int		   *share = palloc0((settings_max_sessions + 1) * sizeof(int));
	const Member *members = session_table->members;
	int			member_count;
	int			n = 0;
	int			next = 0;

	Assert(bucket_count > 0 && bucket_count <= FAIRQ_MAX_BUCKETS);
	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	member_count = join_queue(queue_number, number);
	if (member_count == 0)
	{
		LWLockRelease(&session_table->lock);
		return -1;
	}

	/* Shares differ by one at most; the first that came have the larger. */
	for (int i = 0; i < session_table->member_count; i++)
	{
		if (members[i].queue == queue_number)
		{
			share[members[i].session] = bucket_count / member_count +
				(next < bucket_count % member_count ? 1 : 0);
			next++;
		}
	}

	/*
	 * First all that is beyond the share of its owner is taken away, or of
	 * one that is no member any more, whose share is 0.  Then what has no
	 * owner goes to the members that lack some, in the order in which they
	 * came.  There may have been more buckets before, with owners.
	 */
	for (int b = bucket_count; b < FAIRQ_MAX_BUCKETS; b++)
		queue->owners[b] = NO_SESSION;
	for (int b = 0; b < bucket_count; b++)
	{
		uint32		owner = queue->owners[b];

		if (owner > (uint32) settings_max_sessions || owned[owner] >= share[owner])
			queue->owners[b] = NO_SESSION;
		else
			owned[owner]++;
	}
	next = 0;
	for (int b = 0; b < bucket_count; b++)
	{
		if (queue->owners[b] == NO_SESSION)
		{
			while (next < session_table->member_count &&
				   (members[next].queue != queue_number ||
					owned[members[next].session] >= share[members[next].session]))
				next++;
			if (next < session_table->member_count)
			{
				queue->owners[b] = members[next].session;
				owned[members[next].session]++;
			}
		}
		if (queue->owners[b] == number)
			buckets[n++] = b;
	}
	session_check_members();
	LWLockRelease(&session_table->lock);
	pfree(owned);
	pfree(share);
	return n;
}

/*
 * A queue is gone: it has no members.  The next that is set up with its number
 * begins without owners.  Never fails.  The caller has the directory locked,
 * and no session is dealt buckets of the queue any more, for that takes a lock
 * on its relation.
 */
void
sessions_forget_queue(QueueState *queue)
{
	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	session_drop_members(NO_SESSION, queue_state_number(queue));
	session_check_members();
	memset(queue->owners, 0, sizeof(queue->owners));
	LWLockRelease(&session_table->lock);
}

/*
 * Of n buckets that a session wants to claim from, the first that is another's
 * by now, or none of the bucket_count that the queue has; -1: none.  A session
 * that never asked for its buckets may claim from all.  A bucket that is dealt
 * to another after this look is claimed from once more, which does no harm:
 * owners say who may begin a claim, and leases who has a task.
 *
 * The caller has the queue's relation locked.  Buckets that no queue may have
 * are passed over, for other code refuses them.  Never fails.
 */
int
sessions_lost_bucket(QueueState *queue, int bucket_count, uint32 number,
					 const int *buckets, int n)
{
	uint32		queue_number = queue_state_number(queue);
	bool		member = false;
	int			lost = -1;

	LWLockAcquire(&session_table->lock, LW_SHARED);
	for (int i = 0; i < session_table->member_count; i++)
		member |= (session_table->members[i].session == number &&
				   session_table->members[i].queue == queue_number);
	for (int i = 0; member && i < n && lost < 0; i++)
	{
		if (buckets[i] >= 0 && buckets[i] < FAIRQ_MAX_BUCKETS &&
			(buckets[i] >= bucket_count || queue->owners[buckets[i]] != number))
			lost = buckets[i];
	}
	LWLockRelease(&session_table->lock);
	return lost;
}
