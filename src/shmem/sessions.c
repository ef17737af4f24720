/*-------------------------------------------------------------------------
 *
 * sessions.c
 *	  Sessions: which workers are alive.
 *
 * A session stands for a worker (Andrew Werner's exactly-once queue).  It lives
 * while heartbeats come within its ttl; a bound one ends with the connection
 * that opened it, too.  Leases claimed under it live as long: when it is over
 * they run out, all at once, and what was claimed cannot be acked any more even
 * by a worker that only slept.
 *
 * A session that is over keeps its slot until the last of its leases has been
 * put back, so that a lease names its session by the number of the slot alone.
 *
 * How a session ends says what becomes of the leases that it leaves behind.
 * One that is closed in order, or whose connection the server itself ends (a
 * shutdown, a restart, pg_terminate_backend), is excused: its tasks are given
 * back as they were.  So is one of before a restart, until its worker has sent
 * a heartbeat, claimed or extended a lease.  One that missed its ttl, or whose
 * client went away, has lost them.
 *
 * Sessions can own buckets (session_buckets.c), and be in quarantine
 * (quarantine.c).
 *
 * Locking: as in session_table.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "common/backend_end.h"
#include "common/node_number.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/session_table.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"

/* How often leases of sessions that are over are looked for once more. */
#define TELL_USECS		USECS_PER_SEC

SessionTable *session_table = NULL;

/*
 * The bound sessions that this backend has opened, by number.  There may be
 * some that are over, and whose slots have been given to other sessions.
 */
static uint32 *bound = NULL;
static int	bound_count = 0;

/*
 * The clock was set: sessions live on for as long as they would have.  A
 * deadline is of the last heartbeat, a ttl before it.  Without the lock: a
 * heartbeat that comes meanwhile is by the clock as it is.
 */
static void
shift_sessions(const ClockStep *step)
{
	for (int i = 0; i < session_table->high_water; i++)
	{
		Session    *session = &session_table->sessions[i];
		uint64		deadline = pg_atomic_read_u64(&session->deadline);

		TimestampTz shifted;

		do
		{
			shifted = wall_clock_shifted((TimestampTz) deadline,
										 (TimestampTz) deadline - session->ttl, step);
		} while (deadline != 0 &&
				 !pg_atomic_compare_exchange_u64(&session->deadline, &deadline, shifted));
	}
}

Size
sessions_shmem_size(void)
{
	return add_size(offsetof(SessionTable, sessions),
					mul_size(settings_max_sessions, sizeof(Session)));
}

void
sessions_shmem_init(void *area, bool found)
{
	session_table = area;
	wall_clock_register(shift_sessions);
	if (found)
		return;
	memset(session_table, 0, sessions_shmem_size());
	LWLockInitialize(&session_table->lock, shared_memory_tranche(FAIRQ_TRANCHE_SESSION));
	for (int i = 0; i < settings_max_sessions; i++)
	{
		pg_atomic_init_u64(&session_table->sessions[i].deadline, 0);
		pg_atomic_init_u32(&session_table->sessions[i].leases, 0);
		pg_atomic_init_u32(&session_table->sessions[i].quarantine.state, QUARANTINE_OFF);
	}
}

/*
 * The connection closes: so do its bound sessions.  Their leases end in a pass,
 * for which the worker is woken.  A slot that is not ours any more is told by
 * its pid.
 */
static void
close_bound(int code, Datum arg)
{
	for (int i = 0; i < bound_count; i++)
	{
		Session    *session = &session_table->sessions[bound[i] - 1];

		LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
		if (session->token != 0 && session->bound && session->pid == MyProcPid)
		{
			session->excused |= backend_end_is_ordered();
			pg_atomic_write_u64(&session->deadline, 0);
		}
		LWLockRelease(&session_table->lock);
	}
	if (bound_count > 0)
		worker_slots_wake_at(MyDatabaseId, 0);
	bound_count = 0;
}

/* Copy the session in a slot, counted from 0, whether it is over or not. */
static void
copy_session(int i, SessionInfo *info)
{
	Session    *session = &session_table->sessions[i];

	AssertLocked(&session_table->lock);
	info->ref.number = i + 1;
	info->ref.node = session->node;
	info->ref.token = session->token;
	strlcpy(info->name, session->name, NAMEDATALEN);
	info->database = session->database;
	info->role = session->role;
	info->ttl = session->ttl;
	info->opened_at = session->opened_at;
	info->deadline = (TimestampTz) pg_atomic_read_u64(&session->deadline);
	info->bound = session->bound;
	info->pid = session->pid;
	info->leases = pg_atomic_read_u32(&session->leases);
	info->excused = session->excused || session->unseen;
	strlcpy(info->client, session->client, SESSION_CLIENT_MAX);
}

/* A new session has been in none. */
static void
forget_quarantine(Quarantine *quarantine)
{
	pg_atomic_write_u32(&quarantine->state, QUARANTINE_OFF);
	quarantine->claims_from = 0;
	quarantine->rest_until = 0;
	quarantine->patience = QUARANTINE_PATIENCE;
}

/* The address of the client of this backend; empty: it is on this machine. */
static const char *
client_address(void)
{
	LOCAL_FCINFO(fcinfo, 0);
	Datum		address;

	InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
	address = inet_client_addr(fcinfo);
	return fcinfo->isnull ? "" : DatumGetCString(DirectFunctionCall1(inet_out, address));
}

/*
 * Open a session of the current role and database.  ttl in microseconds;
 * is_bound: it ends with this backend, too; node is the number of this node,
 * for the uuid.  *info tells what was opened.  It is in force at once, and is
 * not undone by a rollback.  Raises an error if there is no slot left, or no
 * memory; there is no session then.
 *
 * A slot that is free has no leases, or one for a moment: a claim under the
 * session that had it before counts first, and takes that back when it sees the
 * token (sessions_lease_begins).
 */
void
sessions_open(const char *name, int64 ttl, bool is_bound, int node, SessionInfo *info)
{
	TimestampTz now = GetCurrentTimestamp();
	uint64		token = 0;
	const char *client = client_address();
	int			found = -1;

	Assert(ttl > 0);
	/* As many bits as the uuid has for it; 0 is for a slot that is free. */
	while (token == 0)
	{
		if (!pg_strong_random(&token, sizeof(token)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random value for a session")));
		token &= (UINT64CONST(1) << 62) - 1;
	}
	if (is_bound)
	{
		/* Room first: nothing fails once the session is there. */
		if (bound == NULL)
		{
			bound = MemoryContextAlloc(TopMemoryContext,
									   settings_max_sessions * sizeof(uint32));
			before_shmem_exit(close_bound, (Datum) 0);
		}
	}

	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < settings_max_sessions && found < 0; i++)
	{
		Session    *session = &session_table->sessions[i];

		if (session->token != 0)
			continue;
		session->token = token;
		session->node = node;
		session->database = MyDatabaseId;
		session->role = GetUserId();
		session->ttl = ttl;
		session->opened_at = now;
		session->bound = is_bound;
		session->told = session->reaped = session->excused = session->unseen = false;
		session->pid = MyProcPid;
		strlcpy(session->name, name, NAMEDATALEN);
		strlcpy(session->client, client, SESSION_CLIENT_MAX);
		forget_quarantine(&session->quarantine);
		/* The count of leases stays as it is: see above. */
		pg_atomic_write_u64(&session->deadline, now + ttl);
		session_table->high_water = Max(session_table->high_water, i + 1);
		copy_session(i, info);
		found = i;
	}
	session_check_members();
	LWLockRelease(&session_table->lock);

	if (found < 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot have more than %d sessions at a time", settings_max_sessions),
				 errhint("Raise the setting \"%s\" and restart the server, or close sessions.",
						 "pgfairq.max_sessions")));
	if (is_bound)
	{
		int			kept = 0;

		/* Those that are over have their slots given to others. */
		for (int i = 0; i < bound_count; i++)
		{
			if (bound[i] != (uint32) found + 1)
				bound[kept++] = bound[i];
		}
		bound_count = kept;
		bound[bound_count++] = found + 1;
	}
	worker_slots_wake_at(MyDatabaseId, now + ttl);
}

/*
 * The uuid of a session: number, node and token, version 8.  It cannot be
 * guessed, for the token is random.
 */
void
sessions_to_uuid(const SessionRef *ref, pg_uuid_t *uuid)
{
	uint64		high = ((uint64) ref->number << 32) |
		((uint64) ref->node << NODE_UUID_SHIFT) | (8 << 12);
	uint64		low = (UINT64CONST(2) << 62) | ref->token;

	for (int i = 0; i < 8; i++)
	{
		uuid->data[i] = (uint8) (high >> (56 - 8 * i));
		uuid->data[8 + i] = (uint8) (low >> (56 - 8 * i));
	}
}

/*
 * The session of a uuid, if it lives and is of this database.  Returns false if
 * not, also for a uuid that is none of ours.  It may end at any time after:
 * whatever depends on it looks again, by the token.  Takes the table's lock,
 * and may look at the clock, so the caller has no lock of ours.
 */
bool
sessions_find(const pg_uuid_t *uuid, SessionInfo *info)
{
	uint64		high = 0;
	uint64		low = 0;
	uint32		number;
	bool		found = false;

	for (int i = 0; i < 8; i++)
	{
		high = (high << 8) | uuid->data[i];
		low = (low << 8) | uuid->data[8 + i];
	}
	number = high >> 32;
	if ((uint32) (high & ~NODE_UUID_MASK) != (8 << 12) || (low >> 62) != 2 ||
		number < 1 || number > (uint32) settings_max_sessions)
		return false;

	LWLockAcquire(&session_table->lock, LW_SHARED);
	if (session_table->sessions[number - 1].token == (low & ((UINT64CONST(1) << 62) - 1)) &&
		session_table->sessions[number - 1].database == MyDatabaseId &&
		session_is_alive(&session_table->sessions[number - 1], GetCurrentTimestamp()))
	{
		copy_session(number - 1, info);
		found = true;
	}
	LWLockRelease(&session_table->lock);
	/* Unless the clock was set. */
	return found || (wall_clock_check() && sessions_find(uuid, info));
}

/*
 * The worker of a session has been heard of: from now on what it loses counts,
 * where the session was restored.  Without the lock, but the caller knows that
 * the session has its slot: it has a lease, or has just had a heartbeat.
 */
void
sessions_seen(uint32 number)
{
	if (number != SESSION_OVER && unlikely(session_table->sessions[number - 1].unseen))
		session_table->sessions[number - 1].unseen = false;
}

/*
 * A sign of life.  Returns false if the session is over: a heartbeat that comes
 * too late does not bring it back.  True: it lives for its ttl from now on, in
 * force at once, unless it is closed.  Takes no lock, for it comes often: the
 * deadline is exchanged, and whoever ends a session writes 0 there.
 */
bool
sessions_heartbeat(const SessionRef *ref)
{
	Session    *session = &session_table->sessions[ref->number - 1];
	TimestampTz now = GetCurrentTimestamp();
	uint64		deadline = pg_atomic_read_u64(&session->deadline);

	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	while ((TimestampTz) deadline > now && session->token == ref->token)
	{
		/* Not if it was closed between the look and the write. */
		if (pg_atomic_compare_exchange_u64(&session->deadline, &deadline,
										   now + session->ttl))
		{
			sessions_seen(ref->number);
			return true;
		}
	}
	return false;
}

/*
 * End a session, whatever leases it still has.  Never fails: called at commit.
 * It is excused if it still lives: one that has missed its ttl has lost its
 * leases already.  The slot is free when the last of these has ended, which a
 * pass of the worker sees to.  One that is over, or has another token, is left
 * as it is.
 */
void
sessions_close(const SessionRef *ref)
{
	Session    *session = &session_table->sessions[ref->number - 1];

	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	if (session->token == ref->token)
	{
		session->excused |= session_is_alive(session, GetCurrentTimestamp());
		pg_atomic_write_u64(&session->deadline, 0);
	}
	LWLockRelease(&session_table->lock);
	worker_slots_wake_at(MyDatabaseId, 0);
}

/*
 * What is kept of a session; false if it does not live, or is bound to a
 * connection, which does not outlive the server.  For the postmaster when it
 * ends: it is alone, so nothing is locked.
 */
bool
sessions_save(uint32 number, SavedSession *saved)
{
	Session    *session = &session_table->sessions[number - 1];

	if (number == SESSION_OVER || session->token == 0 || session->bound ||
		!session_is_alive(session, GetCurrentTimestamp()))
		return false;
	memset(saved, 0, sizeof(SavedSession));
	saved->ref.number = number;
	saved->ref.token = session->token;
	saved->ref.node = session->node;
	saved->database = session->database;
	saved->role = session->role;
	saved->ttl = session->ttl;
	saved->opened_at = session->opened_at;
	strlcpy(saved->name, session->name, NAMEDATALEN);
	return true;
}

/*
 * Open a session as it was, with another ttl to go: its worker could not send a
 * heartbeat while the server was down.  It keeps its number and token, so the
 * uuid that the worker has is good.  Does nothing if it does not fit.  For the
 * postmaster when it starts, before it restores the leases.
 */
void
sessions_restore(const SavedSession *saved)
{
	Session    *session;

	if (saved->ref.number < 1 || saved->ref.number > (uint32) settings_max_sessions ||
		saved->ref.token == 0 || saved->ttl <= 0)
		return;
	session = &session_table->sessions[saved->ref.number - 1];
	session->token = saved->ref.token;
	session->node = saved->ref.node;
	session->database = saved->database;
	session->role = saved->role;
	session->ttl = saved->ttl;
	session->opened_at = saved->opened_at;
	session->bound = false;
	session->told = session->reaped = session->excused = false;
	session->unseen = true;
	session->pid = 0;
	strlcpy(session->name, saved->name, NAMEDATALEN);
	session->client[0] = '\0';
	forget_quarantine(&session->quarantine);
	pg_atomic_write_u64(&session->deadline, GetCurrentTimestamp() + saved->ttl);
	session_table->high_water = Max(session_table->high_water, (int) saved->ref.number);
}

/*
 * When the session of a lease ends, unless a heartbeat comes; 0: it is over.
 * May look at the clock, so the caller has no lock of ours; a lease that it has
 * read before may have ended since, and this be about another session.
 */
TimestampTz
sessions_alive_until(uint32 number)
{
	TimestampTz deadline;

	if (number == SESSION_OVER)
		return 0;
	do
	{
		deadline = pg_atomic_read_u64(&session_table->sessions[number - 1].deadline);
		if (deadline > GetCurrentTimestamp())
			return deadline;
	} while (wall_clock_check());
	return 0;
}

/*
 * Is it still this session that has its slot?  Asked with a lease of the slot's
 * session locked, which keeps it.
 */
bool
sessions_is(const SessionRef *ref)
{
	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	return ((volatile Session *) &session_table->sessions[ref->number - 1])->token == ref->token;
}

/*
 * Is the session of a lease closed, for good?  One that has only missed its
 * ttl may yet get a heartbeat that looked at the time before; sessions_overdue
 * closes it.
 */
bool
sessions_closed(uint32 number)
{
	return number == SESSION_OVER ||
		pg_atomic_read_u64(&session_table->sessions[number - 1].deadline) == 0;
}

/*
 * A lease of the session begins, if the session is not over.  First it is
 * counted, then looked at: a session that has leases keeps its slot, so it
 * cannot become another one in between.  Returns false, and has counted
 * nothing, if it is over, or another one has its slot.  Takes no lock: called
 * with the lease's partition locked, by each claim.
 */
bool
sessions_lease_begins(const SessionRef *ref)
{
	Session    *session = &session_table->sessions[ref->number - 1];

	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	pg_atomic_fetch_add_u32(&session->leases, 1);
	if (((volatile Session *) session)->token == ref->token &&
		session_is_alive(session, GetCurrentTimestamp()))
	{
		sessions_seen(ref->number);
		return true;
	}
	pg_atomic_fetch_sub_u32(&session->leases, 1);
	return false;
}

/*
 * A lease of the session was restored, which is restored itself.  For the
 * postmaster when it starts.
 */
void
sessions_lease_restored(uint32 number)
{
	if (number != SESSION_OVER)
		pg_atomic_fetch_add_u32(&session_table->sessions[number - 1].leases, 1);
}

/*
 * A lease of the session ends.  With its last one a quarantine may end, too,
 * and its claims go on.  Never fails: called under the lock of the lease's
 * partition, also at commit and abort.  The queue that is told is read without
 * the lock of the table: if it is another by now, some look in vain, and claims
 * of a session in quarantine that sleep look each half second anyway.
 */
void
sessions_lease_ends(uint32 number)
{
	Session    *session = &session_table->sessions[number - 1];

	if (number == SESSION_OVER)
		return;
	Assert(pg_atomic_read_u32(&session->leases) > 0);
	if (pg_atomic_fetch_sub_u32(&session->leases, 1) == 1 &&
		unlikely(pg_atomic_read_u32(&session->quarantine.state) != QUARANTINE_OFF))
		waiters_look_anew(queue_state_by_number(session->quarantine.queue));
}

/*
 * What is known of the session of a lease, which keeps its slot: the caller is
 * settling it.  Returns false if it was one of before a restart.
 */
bool
sessions_look(uint32 number, SessionInfo *info)
{
	if (number == SESSION_OVER)
		return false;
	Assert(number > 0 && number <= (uint32) settings_max_sessions);
	LWLockAcquire(&session_table->lock, LW_SHARED);
	copy_session(number - 1, info);
	LWLockRelease(&session_table->lock);
	return true;
}

/*
 * Copy all sessions into a palloc'd array.  Returns how many.  They are of all
 * databases, and of all roles, and some are over: the caller has to choose.
 */
int
sessions_list(SessionInfo **sessions)
{
	int			n = 0;

	*sessions = palloc(settings_max_sessions * sizeof(SessionInfo));
	LWLockAcquire(&session_table->lock, LW_SHARED);
	for (int i = 0; i < session_table->high_water; i++)
	{
		if (session_table->sessions[i].token != 0)
			copy_session(i, &(*sessions)[n++]);
	}
	LWLockRelease(&session_table->lock);
	return n;
}

/*
 * Give a slot back: it is not a member of anything.  Buckets that have it for
 * their owner are dealt out anew by whoever asks next (session_buckets.c).
 */
static void
forget_session(uint32 number)
{
	int			kept = 0;

	AssertLockedExclusively(&session_table->lock);
	Assert(number > 0 && number <= (uint32) session_table->high_water);
	for (int i = 0; i < session_table->member_count; i++)
	{
		if (session_table->members[i].session != number)
			session_table->members[kept++] = session_table->members[i];
	}
	session_table->member_count = kept;
	session_table->sessions[number - 1].token = 0;
}

/*
 * Close the sessions that are over, and forget those that have no leases any
 * more.  Returns whether any has leases that have to be told
 * (leases_end_sessions), which is then the caller's to do.
 *
 * A session has its leases, and its slot, until their tasks are put back, and
 * that may take for ever: their database has no worker, or their table is
 * locked.  They were told all the same, so it is done again only once a
 * second, for a lease that began in the moment in which the session was
 * closed.  It costs a look at all leases there are, for however many
 * sessions.
 *
 * Never fails.  The caller has no lock of ours, and now is the time by the wall
 * clock.  It is called in each pass, of whatever queue and database.
 */
bool
sessions_overdue(TimestampTz now)
{
	bool		again;
	bool		tell = false;

	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	again = (now < session_table->told_at || now >= session_table->told_at + TELL_USECS);
	for (int i = 0; i < session_table->high_water; i++)
	{
		Session    *session = &session_table->sessions[i];
		uint64		deadline = pg_atomic_read_u64(&session->deadline);

		if (session->token == 0 || (TimestampTz) deadline > now)
			continue;
		/* One that heartbeats at this moment goes on; later it is closed. */
		if (!pg_atomic_compare_exchange_u64(&session->deadline, &deadline, 0))
			continue;
		if (pg_atomic_read_u32(&session->leases) == 0)
		{
			/*
			 * In the second pass that finds none: a claim may have looked at
			 * the session before it was over, and have a lease only now.
			 */
			if (session->reaped)
				forget_session(i + 1);
			session->reaped = true;
		}
		else if (again || !session->told)
			tell = session->told = true;
	}
	if (tell)
		session_table->told_at = now;
	session_check_members();
	LWLockRelease(&session_table->lock);
	return tell;
}

/*
 * When the next session of a database may be over; DT_NOEND: none.  A heartbeat
 * may put that off: then the worker comes for nothing once a ttl.
 */
TimestampTz
sessions_next_deadline(Oid database)
{
	TimestampTz next = DT_NOEND;

	LWLockAcquire(&session_table->lock, LW_SHARED);
	for (int i = 0; i < session_table->high_water; i++)
	{
		Session    *session = &session_table->sessions[i];
		TimestampTz deadline = (TimestampTz) pg_atomic_read_u64(&session->deadline);

		/* One that is over is looked at until its slot is free. */
		if (session->token != 0 && session->database == database)
			next = Min(next, deadline > 0 ? deadline :
					   GetCurrentTimestamp() + USECS_PER_SEC / 4);
	}
	LWLockRelease(&session_table->lock);
	return next;
}
