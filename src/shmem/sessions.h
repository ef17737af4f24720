/*-------------------------------------------------------------------------
 *
 * sessions.h
 *	  Sessions: which workers are alive.
 *
 * A session is in force as soon as it is opened and is not undone by a
 * rollback.  The table has those of all databases and roles: its callers look
 * whose it is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SESSIONS_H
#define FAIRQ_SESSIONS_H

#include "datatype/timestamp.h"
#include "utils/uuid.h"

#include "shmem/queue_state.h"

/* A lease of no session. */
#define NO_SESSION		0

/* Of one that was restored without its session, which is over. */
#define SESSION_OVER	PG_UINT32_MAX

/* Bytes of a client's address. */
#define SESSION_CLIENT_MAX	48

/*
 * Names a session, for ever: the number of its slot (from 1) and a token, which
 * is never 0 and has 62 bits.  What holds on to a session beyond a call keeps
 * this, or a lease, which keeps the slot: then the number is enough.
 */
typedef struct SessionRef
{
	uint32		number;
	uint16		node;			/* where it was opened: not compared */
	uint64		token;
} SessionRef;

/*
 * What is known of a session: a copy for those who look.  It was true under
 * the lock; deadline and leases may have changed since.  Times are by the wall
 * clock.  It is also what is kept of a session across a restart: lease_file.c,
 * whose number of version changes with this.
 */
typedef struct SessionInfo
{
	SessionRef	ref;
	char		name[NAMEDATALEN];
	Oid			database;
	Oid			role;
	int64		ttl;			/* microseconds, above 0 */
	TimestampTz opened_at;
	TimestampTz deadline;		/* it is over from then on; 0: closed */
	bool		bound;			/* it ends with the connection that opened
								 * it, that of backend pid */
	int			pid;			/* that opened it; 0: before a restart */
	int			leases;			/* that it has, or for a moment one more */
	bool		excused;		/* what it held when it ended is not lost */
	char		client[SESSION_CLIENT_MAX]; /* its address; empty: not known */
} SessionInfo;

extern Size sessions_shmem_size(void);
extern void sessions_shmem_init(void *area, bool found);

/*
 * sessions.c.  Only sessions_open and sessions_list allocate, and so may fail.
 * sessions_open, sessions_find, sessions_close, sessions_look, sessions_list,
 * sessions_overdue and sessions_next_deadline take the lock of the table, and
 * the caller holds none that comes after it; the others take none but, in
 * sessions_lease_ends, that of a list of waiters, which is the last.
 */
extern void sessions_open(const char *name, int64 ttl, bool bound, int node,
						  SessionRef *ref);
extern void sessions_to_uuid(const SessionRef *ref, pg_uuid_t *uuid);
extern bool sessions_find(const pg_uuid_t *uuid, SessionInfo *session);
extern void sessions_seen(uint32 number);
extern bool sessions_heartbeat(const SessionRef *ref);
extern void sessions_close(const SessionRef *ref);
extern TimestampTz sessions_alive_until(uint32 number);
extern bool sessions_is(const SessionRef *ref);
extern bool sessions_closed(uint32 number);
extern bool sessions_look(uint32 number, SessionInfo *info);
extern int	sessions_list(SessionInfo **sessions);

/* For the postmaster, which is alone when it ends and when it starts. */
extern bool sessions_save(uint32 number, SessionInfo *saved);
extern void sessions_restore(const SessionInfo *saved);

/* For leases.c: begin and end are called with the lease's partition locked. */
extern bool sessions_lease_begins(const SessionRef *ref);
extern void sessions_lease_restored(uint32 number);
extern void sessions_lease_ends(uint32 number);

/* For passes, and for the worker that asks when to come again. */
extern bool sessions_overdue(TimestampTz now);
extern TimestampTz sessions_next_deadline(Oid database);

/*
 * session_buckets.c.  All take the lock of the table.  The caller keeps the
 * queue from being released, by a lock on its relation or on the directory.
 */
extern void sessions_forget_queue(QueueState *queue);
extern int	sessions_deal(QueueState *queue, int bucket_count, uint32 number,
						  int *buckets);
extern int	sessions_lost_bucket(QueueState *queue, int bucket_count, uint32 number,
								 const int *buckets, int n);

#endif							/* FAIRQ_SESSIONS_H */
