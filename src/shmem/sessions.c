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
#include "utils/timestamp.h"

#include "common/backend_end.h"
#include "common/node_number.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/session_table.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"

/*
 * How often leases of sessions that are over are looked for once more, in
 * microseconds.
 */
#define TELL_USECS		USECS_PER_SEC

SessionTable *session_table = NULL;

/* This backend has opened a bound session, which ends when it does. */
static bool has_bound = false;

/*
 * The memory for all sessions that there may be: so a session that is refused
 * is one too many, and nothing else fails for want of room (invariant I10).
 */
Size
sessions_shmem_size(void)
{
	return add_size(offsetof(SessionTable, sessions),
					mul_size(settings_max_sessions, sizeof(Session)));
}

/* Set up the table, of which all slots are free, or find it (found). */
void
sessions_shmem_init(void *area, bool found)
{
	session_table = area;
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
 * The connection closes: so do its bound sessions.  Their leases end in a
 * pass, for which the worker is woken.  Never fails: the backend exits.
 *
 * Whether they are excused is what the end of the backend says: a client that
 * went away has lost its tasks, and a server that ends it has not.
 */
static void
close_bound(int code, Datum arg)
{
	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < session_table->high_water; i++)
	{
		Session    *session = &session_table->sessions[i];

		if (session->token != 0 && session->info.bound && session->info.pid == MyProcPid)
		{
			session->info.excused |= backend_end_is_ordered();
			pg_atomic_write_u64(&session->deadline, 0);
		}
	}
	LWLockRelease(&session_table->lock);
	worker_slots_wake_at(MyDatabaseId, 0);
}

/*
 * Copy the session in a slot, counted from 0, whether it is over or not.  Its
 * deadline and its leases are those of a moment ago, for they change without
 * the lock.
 */
static void
copy_session(int i, SessionInfo *info)
{
	Session    *session = &session_table->sessions[i];

	AssertLocked(&session_table->lock);
	*info = session->info;
	info->deadline = wall_clock_shown(pg_atomic_read_u64(&session->deadline));
	info->leases = pg_atomic_read_u32(&session->leases);
	info->excused |= session->unseen;
}

/*
 * Use a free slot, that of the number in *info, for a session that lives until
 * deadline, by the steady clock.  It has been in no quarantine, whatever the
 * slot's last one was.  The count of leases stays as it is: see sessions_open.
 * The caller has the table locked, or is the postmaster at its start.
 *
 * deadline comes last: until then whoever has the number takes it for over.
 */
static void
enter_session(const SessionInfo *info, TimestampTz deadline, bool unseen)
{
	Session    *session = &session_table->sessions[info->ref.number - 1];

	session->token = info->ref.token;
	session->info = *info;
	session->told = session->reaped = false;
	session->unseen = unseen;
	pg_atomic_write_u32(&session->quarantine.state, QUARANTINE_OFF);
	session->quarantine.claims_from = 0;
	session->quarantine.rest_until = 0;
	session->quarantine.patience = QUARANTINE_PATIENCE;
	session_table->high_water = Max(session_table->high_water, (int) info->ref.number);
	pg_atomic_write_u64(&session->deadline, deadline);
}

/*
 * The address of the client of this backend; empty: it is on this machine.
 * May allocate, and fail: so it is asked for before the table is locked.
 */
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
 * for the uuid.  *ref tells which it is.  It is in force at once, and is not
 * undone by a rollback.  Raises an error if there is no slot left, or no
 * memory; there is no session then.
 *
 * A slot that is free has no leases, or one for a moment: a claim under the
 * session that had it before counts first, and takes that back when it sees the
 * token (sessions_lease_begins).
 *
 * The caller holds no lock of ours.  A bound session ends with the backend,
 * not with the transaction.  On return the worker knows when the session may
 * be over.
 */
void
sessions_open(const char *name, int64 ttl, bool is_bound, int node, SessionRef *ref)
{
	SessionInfo info;
	TimestampTz steady;
	int			slot = 0;

	Assert(ttl > 0);
	AssertNotLocked(&session_table->lock);
	memset(&info, 0, sizeof(info));
	info.ref.node = node;
	strlcpy(info.name, name, NAMEDATALEN);
	info.database = MyDatabaseId;
	info.role = GetUserId();
	info.ttl = ttl;
	info.opened_at = wall_clock_both(&steady);
	info.bound = is_bound;
	info.pid = MyProcPid;
	strlcpy(info.client, client_address(), SESSION_CLIENT_MAX);
	/* As many bits as the uuid has for it; 0 is for a slot that is free. */
	while (info.ref.token == 0)
	{
		if (!pg_strong_random(&info.ref.token, sizeof(info.ref.token)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random value for a session")));
		info.ref.token &= NODE_TOKEN_MASK;
	}
	if (is_bound && !has_bound)
	{
		/* First: nothing fails once the session is there. */
		before_shmem_exit(close_bound, (Datum) 0);
		has_bound = true;
	}

	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	while (slot < settings_max_sessions && session_table->sessions[slot].token != 0)
		slot++;
	info.ref.number = slot + 1;
	if (slot < settings_max_sessions)
		enter_session(&info, steady + ttl, false);
	session_check_members();
	LWLockRelease(&session_table->lock);

	if (slot == settings_max_sessions)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("cannot have more than %d sessions at a time", settings_max_sessions),
				 errhint("Raise the setting \"%s\" and restart the server, or close sessions.",
						 "pgfairq.max_sessions")));
	*ref = info.ref;
	worker_slots_wake_at(MyDatabaseId, info.opened_at + ttl);
}

/*
 * The uuid of a session: number, node and token, version 8.  It cannot be
 * guessed, for the token is random.
 *
 * Nothing is locked or looked at: it may be of a session that is over.
 */
void
sessions_to_uuid(const SessionRef *ref, pg_uuid_t *uuid)
{
	node_make_uuid(((uint64) ref->number << 32) | ((uint64) ref->node << NODE_UUID_SHIFT),
				   ref->token, uuid);
}

/*
 * The session of a uuid, if it lives and is of this database.  Returns false if
 * not, also for a uuid that is none of ours.  It may end at any time after:
 * whatever depends on it looks again, by the token.
 *
 * *info is set only if the result is true.  A uuid whose number or token fits
 * no slot is no error, for workers may come with one that is long over.
 */
bool
sessions_find(const pg_uuid_t *uuid, SessionInfo *info)
{
	uint64		high;
	uint64		token;
	uint32		number;
	const Session *session;
	bool		found = false;

	if (!node_split_uuid(uuid, &high, &token))
		return false;
	number = high >> 32;
	/* Beside the node's bits there are no others. */
	if ((uint32) (high & ~NODE_UUID_MASK) != (8 << 12) ||
		number < 1 || number > (uint32) settings_max_sessions)
		return false;

	session = &session_table->sessions[number - 1];
	LWLockAcquire(&session_table->lock, LW_SHARED);
	if (session->token == token && session->info.database == MyDatabaseId &&
		session_is_alive(session, wall_clock_steady()))
	{
		copy_session(number - 1, info);
		found = true;
	}
	LWLockRelease(&session_table->lock);
	return found;
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
 *
 * The caller has found the session by its uuid (sessions_find).  If the slot
 * is another session's by now, the token tells.
 */
bool
sessions_heartbeat(const SessionRef *ref)
{
	Session    *session = &session_table->sessions[ref->number - 1];
	TimestampTz now = wall_clock_steady();
	uint64		deadline = pg_atomic_read_u64(&session->deadline);

	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	while ((TimestampTz) deadline > now && session->token == ref->token)
	{
		/* Not if it was closed between the look and the write. */
		if (pg_atomic_compare_exchange_u64(&session->deadline, &deadline,
										   now + session->info.ttl))
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
 * pass of the worker sees to, and for which it is woken.  One that is over, or
 * has another token, is left as it is.
 */
void
sessions_close(const SessionRef *ref)
{
	Session    *session = &session_table->sessions[ref->number - 1];

	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	if (session->token == ref->token)
	{
		session->info.excused |= session_is_alive(session, wall_clock_steady());
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
sessions_save(uint32 number, SessionInfo *saved)
{
	Session    *session = &session_table->sessions[number - 1];

	if (number == SESSION_OVER || session->token == 0 || session->info.bound ||
		!session_is_alive(session, wall_clock_steady()))
		return false;
	*saved = session->info;
	return true;
}

/*
 * Open a session as it was, with another ttl to go: its worker could not send a
 * heartbeat while the server was down.  It keeps its number and token, so the
 * uuid that the worker has is good.  Does nothing if it does not fit.  For the
 * postmaster when it starts, before it restores the leases.
 */
void
sessions_restore(const SessionInfo *saved)
{
	SessionInfo info = *saved;

	if (saved->ref.number < 1 || saved->ref.number > (uint32) settings_max_sessions ||
		saved->ref.token == 0 || saved->ttl <= 0)
		return;
	info.bound = info.excused = false;
	info.pid = 0;
	info.client[0] = '\0';
	enter_session(&info, wall_clock_steady() + info.ttl, true);
}

/*
 * When the session of a lease ends, unless a heartbeat comes; 0: it is over.  A
 * lease that the caller has read before may have ended since, and this be about
 * another session.
 *
 * number is that of a lease's session, so not NO_SESSION.  The result is by
 * the wall clock; a heartbeat may move it at once.
 */
TimestampTz
sessions_alive_until(uint32 number)
{
	TimestampTz deadline;

	if (number == SESSION_OVER)
		return 0;
	Assert(number != NO_SESSION && number <= (uint32) settings_max_sessions);
	deadline = pg_atomic_read_u64(&session_table->sessions[number - 1].deadline);
	return deadline > wall_clock_steady() ? wall_clock_shown(deadline) : 0;
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
 *
 * The caller has the partition locked exclusively, and the lease it enters
 * next is what the count is for; sessions_lease_ends takes it back.  A claim
 * that is between its look here and the lease when the session is closed gets
 * a lease of a session that is over, which the next look finds
 * (leases_end_sessions).
 */
bool
sessions_lease_begins(const SessionRef *ref)
{
	Session    *session = &session_table->sessions[ref->number - 1];

	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	pg_atomic_fetch_add_u32(&session->leases, 1);
	if (((volatile Session *) session)->token == ref->token &&
		session_is_alive(session, wall_clock_steady()))
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
 *
 * The caller has the partition locked, and the lease is in the table no more
 * when that is let go.  Once the count is 0 the slot may be another session's,
 * so nothing of the session is read after that but for its quarantine.
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
 *
 * It may be over, which is what the caller asks.  *info is set only if the
 * result is true.
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
	wall_clock_check();
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
 * Take out members: those of a session (NO_SESSION: of none) and of a queue
 * (-1: of none).  The others stay in their order.  The caller has the table
 * locked exclusively.
 */
void
session_drop_members(uint32 number, int queue)
{
	int			kept = 0;

	AssertLockedExclusively(&session_table->lock);
	for (int i = 0; i < session_table->member_count; i++)
	{
		Member		member = session_table->members[i];

		if (member.session != number && (int) member.queue != queue)
			session_table->members[kept++] = member;
	}
	session_table->member_count = kept;
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
 * Never fails.  The caller has no lock of ours, and now is by the steady clock.
 * It is called in each pass, of whatever queue and database.
 */
bool
sessions_overdue(TimestampTz now)
{
	bool		again;
	bool		tell = false;

	LWLockAcquire(&session_table->lock, LW_EXCLUSIVE);
	again = (now >= session_table->told_at + TELL_USECS);
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
			 * the session before it was over, and have a lease only now.  It
			 * is a member of nothing then.  Buckets that have it for their
			 * owner are dealt anew by the next that asks (session_buckets.c).
			 */
			if (session->reaped)
			{
				session_drop_members(i + 1, -1);
				session->token = 0;
			}
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
 *
 * By the wall clock, and only of sessions of that database, for each has a
 * worker of its own.  A session that is over and keeps its slot is looked at
 * four times a second.
 */
TimestampTz
sessions_next_deadline(Oid database)
{
	TimestampTz next = DT_NOEND;

	LWLockAcquire(&session_table->lock, LW_SHARED);
	for (int i = 0; i < session_table->high_water; i++)
	{
		Session    *session = &session_table->sessions[i];
		TimestampTz deadline = wall_clock_shown(pg_atomic_read_u64(&session->deadline));

		/* One that is over is looked at until its slot is free. */
		if (session->token != 0 && session->info.database == database)
			next = Min(next, deadline > 0 ? deadline :
					   GetCurrentTimestamp() + USECS_PER_SEC / 4);
	}
	LWLockRelease(&session_table->lock);
	return next;
}
