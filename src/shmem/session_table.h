/*-------------------------------------------------------------------------
 *
 * session_table.h
 *	  The table of sessions as the files see it that work on it: sessions.c,
 *	  session_buckets.c, session_check.c and quarantine.c.
 *
 * Locking: the lock guards slots, members and the owners of buckets (in
 * QueueState), but for what is atomic.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SESSION_TABLE_H
#define FAIRQ_SESSION_TABLE_H

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/settings.h"
#include "shmem/sessions.h"

/*
 * So many pairs of a session and a queue whose buckets it asks for: a limit of
 * the server, beyond which sessions_deal refuses.
 */
#define MAX_MEMBERS		8192

/* How long a session drains at first, in microseconds: quarantine.c. */
#define QUARANTINE_PATIENCE		(10 * USECS_PER_SEC)

/*
 * Where a session is that is to claim a suspect alone (quarantine.c).  It
 * begins with DRAINING or ALONE; DRAINING becomes ALONE, and either ends with
 * OFF.
 */
typedef enum QuarantineState
{
	QUARANTINE_OFF,
	QUARANTINE_DRAINING,		/* it claims nothing, until it has no lease */
	QUARANTINE_ALONE			/* it has the lease of a suspect, or is about
								 * to */
} QuarantineState;

/*
 * The quarantine of a session.  The lock of the table guards it, but for the
 * atomic state, which is read without it, and claims_from.  What is not OFF
 * has a queue and a since.
 */
typedef struct Quarantine
{
	pg_atomic_uint32 state;		/* a QuarantineState; written under the lock */
	uint32		queue;			/* number of the queue whose suspect it is
								 * for; stays when it is over */
	uint32		claims_from;	/* the queue that it claimed from last, plus
								 * 1; without the lock */
	TimestampTz since;			/* when it began; all times are by the
								 * steady clock */
	TimestampTz rest_until;		/* none before that */
	int64		patience;		/* how long it drains at most, microseconds */
} Quarantine;

/*
 * A slot, of a session or free.  The lock of the table guards it but for the
 * atomic fields and unseen.  While that is free this holds:
 *
 *	 A free slot has token 0; a slot at or beyond high_water is free.  The
 *	 others have a random token of 62 bits, and keep it until the slot is free
 *	 again: what info says stays as long, but for excused.
 *
 *	 deadline is exchanged without the lock by heartbeats, while it is ahead.
 *	 It is 0 from when the session is closed, and stays 0: no heartbeat brings
 *	 it back.
 *
 *	 leases is at least the number of leases of the session in the lease table:
 *	 a lease is counted first when it begins and last when it ends.  A slot
 *	 with any is not given back (sessions_overdue).
 */
typedef struct Session
{
	uint64		token;			/* 0: free; claims and heartbeats compare it
								 * without the lock */
	SessionInfo info;			/* but for deadline and leases, which are here */
	pg_atomic_uint64 deadline;	/* by the steady clock; 0: closed, or its
								 * connection is */
	pg_atomic_uint32 leases;	/* that it has, or a claim is about to find
								 * that it may not have */
	bool		told;			/* its leases were told that it is over */
	bool		reaped;			/* it was seen to be over and without leases */
	bool		unseen;			/* excused if it ends before its worker has
								 * come again after a restart; without the
								 * lock */
	Quarantine	quarantine;
} Session;

/* A session that asks for its share of the buckets of a queue. */
typedef struct Member
{
	uint32		session;		/* number of its slot, from 1 */
	uint32		queue;			/* number of its state */
} Member;

/*
 * The table.  While its lock is free, each of members[0 .. member_count - 1]
 * is of a slot that is not free, and no two are alike (session_check_members).
 * Their order is that in which they came, by which buckets are dealt.
 */
typedef struct SessionTable
{
	LWLock		lock;			/* the order of locks is in src/README.md */
	int			high_water;		/* slots from this one on, from 0, were
								 * never used; does not go back */
	int			member_count;
	TimestampTz told_at;		/* when leases were told last, by the steady
								 * clock */
	Member		members[MAX_MEMBERS];
	Session		sessions[FLEXIBLE_ARRAY_MEMBER];
} SessionTable;

extern FAIRQ_PRIVATE SessionTable *session_table;

/* sessions.c */
extern FAIRQ_PRIVATE void session_drop_members(uint32 number, int queue);

/* session_check.c */
#ifdef USE_ASSERT_CHECKING
extern FAIRQ_PRIVATE void session_check_members(void);
#else
#define session_check_members() ((void) 0)
#endif

/*
 * Does a session live at a time of the steady clock?  Without the lock: a
 * heartbeat, or a close, may change that at once.  A free slot does not.
 */
static inline bool
session_is_alive(const Session *session, TimestampTz now)
{
	pg_atomic_uint64 *deadline = unconstify(pg_atomic_uint64 *, &session->deadline);

	return (TimestampTz) pg_atomic_read_u64(deadline) > now;
}

#endif							/* FAIRQ_SESSION_TABLE_H */
