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
 * Sessions can own buckets.  Those that ask for a queue's are its members;
 * each gets its share of the buckets, and no bucket belongs to two.  Whoever
 * asks has the shares adjusted to the members that live: they keep what they
 * have as far as it is within their share.
 *
 * Locking: the lock guards slots, members and the owners of buckets (in
 * QueueState), but for what is atomic.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/node_number.h"
#include "common/settings.h"
#include "common/shared_memory.h"
#include "common/wall_clock.h"
#include "shmem/sessions.h"
#include "shmem/worker_slots.h"

#define MAX_MEMBERS		8192

/* How often leases of sessions that are over are looked for once more. */
#define TELL_USECS		USECS_PER_SEC

typedef struct Session
{
	uint64		token;			/* 0: free */
	uint16		node;
	Oid			database;
	Oid			role;
	int64		ttl;
	TimestampTz opened_at;
	pg_atomic_uint64 deadline;	/* 0: closed, or its connection is */
	pg_atomic_uint32 leases;
	bool		bound;
	bool		told;			/* its leases were told that it is over */
	bool		reaped;			/* it was seen to be over and without leases */
	int			pid;
	char		name[NAMEDATALEN];
} Session;

typedef struct Member
{
	uint32		session;
	uint32		queue;
} Member;

typedef struct SessionTable
{
	LWLock		lock;
	int			high_water;
	int			member_count;
	TimestampTz told_at;		/* when leases were told last */
	Member		members[MAX_MEMBERS];
	Session		sessions[FLEXIBLE_ARRAY_MEMBER];
} SessionTable;

static SessionTable *table = NULL;

/* The bound sessions that this backend has opened. */
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
	for (int i = 0; i < table->high_water; i++)
	{
		Session    *session = &table->sessions[i];
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
	table = area;
	wall_clock_register(shift_sessions);
	if (found)
		return;
	memset(table, 0, sessions_shmem_size());
	LWLockInitialize(&table->lock, shared_memory_tranche(FAIRQ_TRANCHE_SESSION));
	for (int i = 0; i < settings_max_sessions; i++)
	{
		pg_atomic_init_u64(&table->sessions[i].deadline, 0);
		pg_atomic_init_u32(&table->sessions[i].leases, 0);
	}
}

#ifdef USE_ASSERT_CHECKING

/* So many members are looked at, from one more on each time. */
#define CHECK_MEMBERS	32

static uint32 looks = 0;

/*
 * The members are sessions, each once in a queue.  The table is locked, and
 * unlocked then.
 */
static void
check_members(void)
{
	AssertLocked(&table->lock);
	Assert(table->high_water >= 0 && table->high_water <= settings_max_sessions);
	Assert(table->member_count >= 0 && table->member_count <= MAX_MEMBERS);
	for (int i = 0; i < Min(table->member_count, CHECK_MEMBERS); i++)
	{
		const Member *member = &table->members[(looks + i) % table->member_count];

		Assert(member->session > 0 && member->session <= (uint32) table->high_water);
		Assert(member->queue < (uint32) settings_max_queues);
		Assert(table->sessions[member->session - 1].token != 0);
		for (const Member *other = table->members; other < member; other++)
			Assert(other->session != member->session || other->queue != member->queue);
	}
	looks++;
}

#else
#define check_members() ((void) 0)
#endif

static inline bool
is_alive(const Session *session, TimestampTz now)
{
	pg_atomic_uint64 *deadline = unconstify(pg_atomic_uint64 *, &session->deadline);

	return (TimestampTz) pg_atomic_read_u64(deadline) > now;
}

/* The connection closes: so do its bound sessions. */
static void
close_bound(int code, Datum arg)
{
	for (int i = 0; i < bound_count; i++)
	{
		Session    *session = &table->sessions[bound[i] - 1];

		LWLockAcquire(&table->lock, LW_EXCLUSIVE);
		if (session->token != 0 && session->bound && session->pid == MyProcPid)
			pg_atomic_write_u64(&session->deadline, 0);
		LWLockRelease(&table->lock);
	}
	if (bound_count > 0)
		worker_slots_wake_at(MyDatabaseId, 0);
	bound_count = 0;
}

static void
copy_session(int i, SessionInfo *info)
{
	Session    *session = &table->sessions[i];

	AssertLocked(&table->lock);
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
}

/*
 * Open a session.  ttl in microseconds; node is the number of this node.
 */
void
sessions_open(const char *name, int64 ttl, bool is_bound, int node, SessionInfo *info)
{
	TimestampTz now = GetCurrentTimestamp();
	uint64		token = 0;
	int			found = -1;

	Assert(ttl > 0);
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

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < settings_max_sessions && found < 0; i++)
	{
		Session    *session = &table->sessions[i];

		if (session->token != 0)
			continue;
		session->token = token;
		session->node = node;
		session->database = MyDatabaseId;
		session->role = GetUserId();
		session->ttl = ttl;
		session->opened_at = now;
		session->bound = is_bound;
		session->told = session->reaped = false;
		session->pid = MyProcPid;
		strlcpy(session->name, name, NAMEDATALEN);
		pg_atomic_write_u64(&session->deadline, now + ttl);
		table->high_water = Max(table->high_water, i + 1);
		copy_session(i, info);
		found = i;
	}
	check_members();
	LWLockRelease(&table->lock);

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
 * The uuid of a session: number, node and token, version 8.
 */
void
sessions_to_uuid(const SessionRef *ref, pg_uuid_t *uuid)
{
	uint64		high = ((uint64) ref->number << 32) | ((uint64) ref->node << NODE_UUID_SHIFT) | (8 << 12);
	uint64		low = (UINT64CONST(2) << 62) | ref->token;

	for (int i = 0; i < 8; i++)
	{
		uuid->data[i] = (uint8) (high >> (56 - 8 * i));
		uuid->data[8 + i] = (uint8) (low >> (56 - 8 * i));
	}
}

/*
 * The session of a uuid, if it lives and is of this database.
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

	LWLockAcquire(&table->lock, LW_SHARED);
	if (table->sessions[number - 1].token == (low & ((UINT64CONST(1) << 62) - 1)) &&
		table->sessions[number - 1].database == MyDatabaseId &&
		is_alive(&table->sessions[number - 1], GetCurrentTimestamp()))
	{
		copy_session(number - 1, info);
		found = true;
	}
	LWLockRelease(&table->lock);
	/* Unless the clock was set. */
	return found || (wall_clock_check() && sessions_find(uuid, info));
}

/*
 * A sign of life.  Returns false if the session is over: a heartbeat that comes
 * too late does not bring it back.
 */
bool
sessions_heartbeat(const SessionRef *ref)
{
	Session    *session = &table->sessions[ref->number - 1];
	TimestampTz now = GetCurrentTimestamp();
	uint64		deadline = pg_atomic_read_u64(&session->deadline);

	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	while ((TimestampTz) deadline > now && session->token == ref->token)
	{
		/* Not if it was closed between the look and the write. */
		if (pg_atomic_compare_exchange_u64(&session->deadline, &deadline,
										   now + session->ttl))
			return true;
	}
	return false;
}

/*
 * End a session, whatever leases it still has.  Never fails: called at commit.
 */
void
sessions_close(const SessionRef *ref)
{
	Session    *session = &table->sessions[ref->number - 1];

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	if (session->token == ref->token)
		pg_atomic_write_u64(&session->deadline, 0);
	LWLockRelease(&table->lock);
	worker_slots_wake_at(MyDatabaseId, 0);
}

/*
 * What is kept of a session; false if it does not live, or is bound to a
 * connection, which does not outlive the server.
 */
bool
sessions_save(uint32 number, SavedSession *saved)
{
	Session    *session = &table->sessions[number - 1];

	if (number == SESSION_OVER || session->token == 0 || session->bound ||
		!is_alive(session, GetCurrentTimestamp()))
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
 * heartbeat while the server was down.
 */
void
sessions_restore(const SavedSession *saved)
{
	Session    *session;

	if (saved->ref.number < 1 || saved->ref.number > (uint32) settings_max_sessions ||
		saved->ref.token == 0 || saved->ttl <= 0)
		return;
	session = &table->sessions[saved->ref.number - 1];
	session->token = saved->ref.token;
	session->node = saved->ref.node;
	session->database = saved->database;
	session->role = saved->role;
	session->ttl = saved->ttl;
	session->opened_at = saved->opened_at;
	session->bound = false;
	session->told = session->reaped = false;
	session->pid = 0;
	strlcpy(session->name, saved->name, NAMEDATALEN);
	pg_atomic_write_u64(&session->deadline, GetCurrentTimestamp() + saved->ttl);
	table->high_water = Max(table->high_water, (int) saved->ref.number);
}

/*
 * When the session of a lease ends, unless a heartbeat comes; 0: it is over.
 */
TimestampTz
sessions_alive_until(uint32 number)
{
	TimestampTz deadline;

	if (number == SESSION_OVER)
		return 0;
	do
	{
		deadline = pg_atomic_read_u64(&table->sessions[number - 1].deadline);
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
	return ((volatile Session *) &table->sessions[ref->number - 1])->token == ref->token;
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
		pg_atomic_read_u64(&table->sessions[number - 1].deadline) == 0;
}

/*
 * A lease of the session begins, if the session is not over.  First it is
 * counted, then looked at: a session that has leases keeps its slot, so it
 * cannot become another one in between.
 */
bool
sessions_lease_begins(const SessionRef *ref)
{
	Session    *session = &table->sessions[ref->number - 1];

	Assert(ref->number > 0 && ref->number <= (uint32) settings_max_sessions);
	pg_atomic_fetch_add_u32(&session->leases, 1);
	if (((volatile Session *) session)->token == ref->token &&
		is_alive(session, GetCurrentTimestamp()))
		return true;
	pg_atomic_fetch_sub_u32(&session->leases, 1);
	return false;
}

void
sessions_lease_restored(uint32 number)
{
	if (number != SESSION_OVER)
		pg_atomic_fetch_add_u32(&table->sessions[number - 1].leases, 1);
}

void
sessions_lease_ends(uint32 number)
{
	Assert(number == SESSION_OVER ||
		   pg_atomic_read_u32(&table->sessions[number - 1].leases) > 0);
	if (number != SESSION_OVER)
		pg_atomic_fetch_sub_u32(&table->sessions[number - 1].leases, 1);
}

/*
 * Copy all sessions into a palloc'd array.  Returns how many.
 */
int
sessions_list(SessionInfo **sessions)
{
	int			n = 0;

	*sessions = palloc(settings_max_sessions * sizeof(SessionInfo));
	LWLockAcquire(&table->lock, LW_SHARED);
	for (int i = 0; i < table->high_water; i++)
	{
		if (table->sessions[i].token != 0)
			copy_session(i, &(*sessions)[n++]);
	}
	LWLockRelease(&table->lock);
	return n;
}

/* Give a slot back: it is not a member of anything. */
static void
forget_session(uint32 number)
{
	int			kept = 0;

	AssertLockedExclusively(&table->lock);
	Assert(number > 0 && number <= (uint32) table->high_water);
	for (int i = 0; i < table->member_count; i++)
	{
		if (table->members[i].session != number)
			table->members[kept++] = table->members[i];
	}
	table->member_count = kept;
	table->sessions[number - 1].token = 0;
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
 */
bool
sessions_overdue(TimestampTz now)
{
	bool		again;
	bool		tell = false;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	again = (now < table->told_at || now >= table->told_at + TELL_USECS);
	for (int i = 0; i < table->high_water; i++)
	{
		Session    *session = &table->sessions[i];

		if (session->token == 0 || is_alive(session, now))
			continue;
		/* Whoever heartbeats now finds it closed. */
		pg_atomic_write_u64(&session->deadline, 0);
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
		table->told_at = now;
	check_members();
	LWLockRelease(&table->lock);
	return tell;
}

/*
 * When the next session of a database may be over; DT_NOEND: none.
 */
TimestampTz
sessions_next_deadline(Oid database)
{
	TimestampTz next = DT_NOEND;

	LWLockAcquire(&table->lock, LW_SHARED);
	for (int i = 0; i < table->high_water; i++)
	{
		Session    *session = &table->sessions[i];
		TimestampTz deadline = (TimestampTz) pg_atomic_read_u64(&session->deadline);

		/* One that is over is looked at until its slot is free. */
		if (session->token != 0 && session->database == database)
			next = Min(next, deadline > 0 ? deadline :
					   GetCurrentTimestamp() + USECS_PER_SEC / 4);
	}
	LWLockRelease(&table->lock);
	return next;
}

/* ----------------------------------------------------------------
 * Buckets
 * ----------------------------------------------------------------
 */

/*
 * Take out those members that have left, of all queues, and have a session be
 * a member of this one.  Returns how many the queue has; 0: there is no room
 * for the session.
 */
static int
join_queue(uint32 queue_number, uint32 number)
{
	TimestampTz now = GetCurrentTimestamp();
	int			members = 0;
	int			kept = 0;
	bool		mine = false;

	AssertLockedExclusively(&table->lock);
	Assert(number > 0 && number <= (uint32) settings_max_sessions);
	for (int i = 0; i < table->member_count; i++)
	{
		Member		member = table->members[i];

		if (!is_alive(&table->sessions[member.session - 1], now))
			continue;
		table->members[kept++] = member;
		if (member.queue == queue_number)
		{
			members++;
			mine |= (member.session == number);
		}
	}
	table->member_count = kept;
	if (mine)
		return members;
	if (kept == MAX_MEMBERS)
		return 0;
	table->members[kept].session = number;
	table->members[kept].queue = queue_number;
	table->member_count++;
	return members + 1;
}

/*
 * Deal bucket_count buckets of a queue out between the sessions that live and
 * ask for them, of which the caller's is one.  Returns how many are the
 * caller's, and which; -1 if there are too many members.
 */
int
sessions_deal(QueueState *queue, int bucket_count, uint32 number, int *buckets)
{
	uint32		queue_number = queue_state_number(queue);
	int		   *owned = palloc0((settings_max_sessions + 1) * sizeof(int));
	int		   *share = palloc0((settings_max_sessions + 1) * sizeof(int));
	int			members;
	int			n = 0;
	int			next = 0;

	Assert(bucket_count > 0 && bucket_count <= FAIRQ_MAX_BUCKETS);
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	members = join_queue(queue_number, number);
	if (members == 0)
	{
		LWLockRelease(&table->lock);
		return -1;
	}

	/* Shares differ by one at the most; who came first has the larger ones. */
	for (int i = 0; i < table->member_count; i++)
	{
		if (table->members[i].queue == queue_number)
		{
			share[table->members[i].session] = bucket_count / members +
				(next < bucket_count % members ? 1 : 0);
			next++;
		}
	}
	/* There may have been more buckets before, with owners. */
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
			while (next < table->member_count &&
				   (table->members[next].queue != queue_number ||
					owned[table->members[next].session] >= share[table->members[next].session]))
				next++;
			if (next < table->member_count)
			{
				queue->owners[b] = table->members[next].session;
				owned[table->members[next].session]++;
			}
		}
		if (queue->owners[b] == number)
			buckets[n++] = b;
	}
	check_members();
	LWLockRelease(&table->lock);
	pfree(owned);
	pfree(share);
	return n;
}

/*
 * A queue is gone: it has no members.
 */
void
sessions_forget_queue(QueueState *queue)
{
	uint32		number = queue_state_number(queue);
	int			kept = 0;

	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	for (int i = 0; i < table->member_count; i++)
	{
		if (table->members[i].queue != number)
			table->members[kept++] = table->members[i];
	}
	table->member_count = kept;
	check_members();
	memset(queue->owners, 0, sizeof(queue->owners));
	LWLockRelease(&table->lock);
}

/*
 * Of n buckets that a session wants to claim from, the first that is another's
 * by now, or none of the bucket_count that the queue has; -1: none.  A session
 * that never asked for its buckets may claim from all.
 */
int
sessions_lost_bucket(QueueState *queue, int bucket_count, uint32 number,
					 const int *buckets, int n)
{
	uint32		queue_number = queue_state_number(queue);
	bool		member = false;
	int			lost = -1;

	LWLockAcquire(&table->lock, LW_SHARED);
	for (int i = 0; i < table->member_count; i++)
		member |= (table->members[i].session == number &&
				   table->members[i].queue == queue_number);
	for (int i = 0; member && i < n && lost < 0; i++)
	{
		if (buckets[i] >= 0 && buckets[i] < FAIRQ_MAX_BUCKETS &&
			(buckets[i] >= bucket_count || queue->owners[buckets[i]] != number))
			lost = buckets[i];
	}
	LWLockRelease(&table->lock);
	return lost;
}
