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

#define MAX_MEMBERS		8192

/* How long a session drains at first, in microseconds: quarantine.c. */
#define QUARANTINE_PATIENCE		(10 * USECS_PER_SEC)

typedef enum QuarantineState
{
	QUARANTINE_OFF,
	QUARANTINE_DRAINING,		/* it claims nothing, until it has no lease */
	QUARANTINE_ALONE			/* it has the lease of a suspect, or is about
								 * to */
} QuarantineState;

typedef struct Quarantine
{
	pg_atomic_uint32 state;		/* a QuarantineState; written under the lock */
	uint32		queue;			/* whose suspect it is for */
	uint32		claims_from;	/* the queue that it claimed from last, plus
								 * 1; without the lock */
	TimestampTz since;			/* it is not OFF */
	TimestampTz rest_until;		/* none before that */
	int64		patience;		/* how long it drains at most, microseconds */
} Quarantine;

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
	bool		excused;		/* it has ended in order, or the server has
								 * ended it: nothing that it held is lost */
	bool		unseen;			/* nor if it ends before its worker has come
								 * again after a restart; without the lock */
	int			pid;
	char		name[NAMEDATALEN];
	char		client[SESSION_CLIENT_MAX];
	Quarantine	quarantine;
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

extern FAIRQ_PRIVATE SessionTable *session_table;

/* session_check.c */
#ifdef USE_ASSERT_CHECKING
extern FAIRQ_PRIVATE void session_check_members(void);
#else
#define session_check_members() ((void) 0)
#endif

static inline bool
session_is_alive(const Session *session, TimestampTz now)
{
	pg_atomic_uint64 *deadline = unconstify(pg_atomic_uint64 *, &session->deadline);

	return (TimestampTz) pg_atomic_read_u64(deadline) > now;
}

#endif							/* FAIRQ_SESSION_TABLE_H */
