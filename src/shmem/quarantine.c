/*-------------------------------------------------------------------------
 *
 * quarantine.c
 *	  Sessions that run a suspect task, alone.
 *
 * A task that was lost SUSPECT_LOSSES times (suspects.c) may be what kills its
 * worker, or may have been beside what did.  From then on it runs where nothing
 * else is at risk: a session that holds one holds nothing else.  So whatever
 * kills its worker then is the cause, and no other task is lost with it.
 *
 * A session without leases can take one at once.  If all are busy one of them
 * drains: its claims answer nothing until its last lease has ended, then it
 * takes the suspect, and works as usual when that has ended.  Three rules bound
 * what this costs the others:
 *
 *	 Of the sessions that claim from a queue at most half, or one, are in
 *	 quarantine at a time.
 *
 *	 A session rests as long as its quarantine took, before the next: it
 *	 spends half of its time in it at most.  It need not rest if there is
 *	 nothing else to do.
 *
 *	 A session whose leases do not end drains for QUARANTINE_PATIENCE, gives
 *	 up and rests; the next time for twice as long.
 *
 * The session is the unit: a worker is to have one for all that can die
 * together, its process.
 *
 * Locking: the lock of the table of sessions.  Whether a session is in
 * quarantine at all is read without it, by each claim.  So a claim of the same
 * session, on another connection, that has looked before may get its leases
 * beside the suspect: that takes two claims of one session at the same moment,
 * and does harm only if that very task kills its worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/leases.h"
#include "shmem/session_table.h"

/* How long a session drains at most, in microseconds. */
#define QUARANTINE_PATIENCE_MAX	(SECS_PER_HOUR * USECS_PER_SEC)

static inline Session *
session_of(const SessionRef *ref)
{
	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	return &session_table->sessions[ref->number - 1];
}

static inline QuarantineState
state_of(const Session *session)
{
	return (QuarantineState)
		pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &session->quarantine.state));
}

static inline void
set_state(Session *session, QuarantineState state)
{
	AssertLockedExclusively(&session_table->lock);
	pg_atomic_write_u32(&session->quarantine.state, state);
}

/*
 * The session works as usual, and rests as long as that took: since it began to
 * drain, where it did.
 */
static void
leave(Session *session, TimestampTz now)
{
	Quarantine *quarantine = &session->quarantine;

	quarantine->rest_until = 2 * now - quarantine->since;
	set_state(session, QUARANTINE_OFF);
}

/*
 * May one more session that claims from a queue be in quarantine?  A session
 * counts for the queue that it claimed from last.  That is written without the
 * lock, so the count may be off by those that are just changing theirs.
 */
static bool
others_go_on(const QueueState *queue, TimestampTz now)
{
	uint32		number = queue_state_number(queue);
	int			sessions = 0;
	int			away = 0;

	AssertLocked(&session_table->lock);
	for (int i = 0; i < session_table->high_water; i++)
	{
		const Session *session = &session_table->sessions[i];

		if (session->token == 0 || session->quarantine.claims_from != number + 1 ||
			!session_is_alive(session, now))
			continue;
		sessions++;
		away += (state_of(session) != QUARANTINE_OFF);
	}
	return away < Max(sessions / 2, 1);
}

/*
 * A step of one that is, or was just now, in quarantine.  The lock of the table
 * comes before those of leases: suspects_wait() looks for leases under it.
 */
static QuarantineStep
step(Session *session, QueueState *queue, TimestampTz now)
{
	Quarantine *quarantine = &session->quarantine;
	bool		idle = (pg_atomic_read_u32(&session->leases) == 0);

	AssertLockedExclusively(&session_table->lock);
	switch (state_of(session))
	{
		case QUARANTINE_OFF:
			break;
		case QUARANTINE_ALONE:
			if (!idle)
				return QUARANTINE_CLOSED;
			/* The suspect has ended; the next drain is short again. */
			quarantine->patience = QUARANTINE_PATIENCE;
			leave(session, now);
			break;
		case QUARANTINE_DRAINING:
			if (!suspects_wait(queue_state_by_number(quarantine->queue)))
			{
				/* Another session has it: nothing was gained. */
				set_state(session, QUARANTINE_OFF);
				break;
			}
			if (idle && quarantine->queue == (uint32) queue_state_number(queue))
				return QUARANTINE_READY;
			if (now < quarantine->since + quarantine->patience)
				return QUARANTINE_CLOSED;
			/* Its leases do not end, or it claims from another queue now. */
			quarantine->patience = Min(2 * quarantine->patience, QUARANTINE_PATIENCE_MAX);
			leave(session, now);
			break;
	}
	return QUARANTINE_OPEN;
}

/*
 * A session is going to claim from a queue: what it may.  Called by each claim
 * under a session, before it has anything in hand; without the lock as long as
 * the session is not in quarantine.  Never fails.  After READY the claim calls
 * quarantine_enter() if it comes to a suspect first, else quarantine_leave().
 */
QuarantineStep
quarantine_step(const SessionRef *ref, QueueState *queue, TimestampTz now)
{
	Session    *session = session_of(ref);
	QuarantineStep result;

	session->quarantine.claims_from = queue_state_number(queue) + 1;
	if (likely(state_of(session) == QUARANTINE_OFF))
		return QUARANTINE_OPEN;
	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	result = (session->token == ref->token) ? step(session, queue, now) : QUARANTINE_OPEN;
	LWLockRelease(&session_table->lock);
	return result;
}

/*
 * A claim of a session has come to a suspect, and has nothing yet.  Returns
 * whether it may have it: then the session claims nothing else until that
 * lease has ended.  nothing_else: there is no other task for it, so it need not
 * have rested.  If it gets no lease on the suspect it has to leave.  Never
 * fails; called with the suspect's row locked.
 */
bool
quarantine_enter(const SessionRef *ref, QueueState *queue, TimestampTz now,
				 bool nothing_else)
{
	Session    *session = session_of(ref);
	Quarantine *quarantine = &session->quarantine;
	bool		result = false;

	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	if (session->token == ref->token && pg_atomic_read_u32(&session->leases) == 0)
	{
		if (state_of(session) == QUARANTINE_DRAINING)
			result = true;
		else if (state_of(session) == QUARANTINE_OFF &&
				 (nothing_else || now >= quarantine->rest_until) &&
				 others_go_on(queue, now))
		{
			quarantine->since = now;
			quarantine->queue = queue_state_number(queue);
			result = true;
		}
	}
	if (result)
		set_state(session, QUARANTINE_ALONE);
	LWLockRelease(&session_table->lock);
	return result;
}

/*
 * A claim of a session, which has leases, has come to a suspect: perhaps it is
 * this session that drains for it.  Then its next claims take nothing until its
 * leases have ended (quarantine_step).  Whether it rests is looked at without
 * the lock first, as each claim that passes over a suspect comes here.
 */
void
quarantine_drain(const SessionRef *ref, QueueState *queue, TimestampTz now)
{
	Session    *session = session_of(ref);
	Quarantine *quarantine = &session->quarantine;

	if (now < quarantine->rest_until)
		return;
	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	if (session->token == ref->token && state_of(session) == QUARANTINE_OFF &&
		now >= quarantine->rest_until && others_go_on(queue, now))
	{
		quarantine->since = now;
		quarantine->queue = queue_state_number(queue);
		set_state(session, QUARANTINE_DRAINING);
	}
	LWLockRelease(&session_table->lock);
}

/*
 * There was no suspect for it, or it could not be leased: the session works as
 * usual.  Does nothing if it is not in quarantine any more.
 */
void
quarantine_leave(const SessionRef *ref, TimestampTz now)
{
	Session    *session = session_of(ref);

	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	if (session->token == ref->token && state_of(session) != QUARANTINE_OFF)
		leave(session, now);
	LWLockRelease(&session_table->lock);
}

/*
 * Is the session of a number in quarantine?  For those who only look: without
 * the lock, and the slot may be another session's.
 */
bool
quarantine_is_on(uint32 number)
{
	return number != NO_SESSION && number != SESSION_OVER &&
		state_of(&session_table->sessions[number - 1]) != QUARANTINE_OFF;
}
