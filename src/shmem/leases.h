/*-------------------------------------------------------------------------
 *
 * leases.h
 *	  Leases: who may work on which task until when.
 *
 * These functions take the locks that they need, and return without any.  Of
 * those that backends call three may fail, for they allocate or ask for random
 * values: leases_grant, leases_list and leases_of_session.  All other functions
 * of the lease table may be called at the end of transactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LEASES_H
#define FAIRQ_LEASES_H

#include "datatype/timestamp.h"
#include "storage/itemptr.h"
#include "utils/uuid.h"

#include "shmem/queue_state.h"
#include "shmem/sessions.h"

/*
 * Names one lease, for ever: an entry's number and the token it has, which is
 * never 0.  The entry is used again when the lease is over, the token is not.
 * So a LeaseRef may be kept for any time, and is no right to anything: whoever
 * uses it is told whether the lease is over.
 */
typedef struct LeaseRef
{
	uint32		entry;
	uint64		token;
} LeaseRef;

/* What leases_grant answers: whether the lease is there now, and whose. */
typedef enum LeaseGrant
{
	LEASE_GRANTED,				/* the task is the caller's */
	LEASE_BUSY,					/* another claim has it */
	LEASE_SESSION_OVER			/* the session that should have it is over */
} LeaseGrant;

/* The deadline of a lease that is held in vain: its task is gone. */
#define LEASE_VAIN_UNTIL	INT64CONST(-1)

/*
 * What is known of a lease: a copy for those who look.  It may be out of date
 * as soon as it is made, so whoever changes a lease names it by ref, and is
 * told whether it is over.  Times are by the wall clock; who grants a lease
 * gives those of the steady one (leases_grant).
 *
 * It is also what is kept of a lease across a restart, by a clean shutdown
 * (lease_file.c, whose number of version changes with this) or in
 * fairq.durable_lease.  Its number of a group, and its pid, mean nothing after
 * it.  A deadline of 0 says that it has run out.
 */
typedef struct LeaseInfo
{
	LeaseRef	ref;
	int			queue;			/* number of the queue's state */
	int64		task;
	ItemPointerData tid;		/* a hint */
	TimestampTz deadline;		/* DT_NOEND: it ends with its session or
								 * transaction; or LEASE_VAIN_UNTIL */
	int			attempt;		/* of the task: this is its number */
	int			pid;			/* of the backend that claimed; 0: restored */
	uint32		session;		/* NO_SESSION: none */
	uint32		group;			/* of groups.c; FAIRQ_NO_GROUP: not known */
	TimestampTz started;		/* when it was claimed */
	TimestampTz enqueued_at;	/* of the task: tells it from another one of its
								 * id; 0: not known */
	bool		overflow;		/* its task's row says it is in the overflow */
	bool		settling;		/* a transaction, which has not ended,
								 * settles it */
	bool		excused;		/* should it run out, it is not lost */
	bool		durable;		/* it has a row in fairq.durable_lease ... */
	ItemPointerData durable_tid;	/* ... which was seen there */
	uint64		receipt;		/* first half of its receipt; 0: as usual */
} LeaseInfo;

/* Where a task is counted that is not leased: as ready, or in the overflow. */
typedef struct TaskCount
{
	uint32		group;			/* FAIRQ_NO_GROUP: nowhere */
	bool		overflow;
} TaskCount;

/* What became of a row that leases_restore_durable was given. */
typedef enum LeaseRestored
{
	LEASE_RESTORED,
	LEASE_KNOWN,				/* it was there */
	LEASE_VOID,					/* the task has another one */
	LEASE_NO_ROOM
} LeaseRestored;

/*
 * When a lease ends, for those who look: *until, under a session unless a
 * heartbeat comes.  Never an infinite time, which drivers cannot represent.
 * Returns false if there is none to tell: it was popped, and ends with its
 * transaction; or its session is over, and it is going to be put back.
 */
static inline bool
leases_until(const LeaseInfo *lease, TimestampTz *until)
{
	*until = lease->deadline;
	if (unlikely(lease->session != NO_SESSION))
	{
		TimestampTz alive_until = sessions_alive_until(lease->session);

		*until = Min(*until, alive_until);
		return alive_until != 0;
	}
	return *until != DT_NOEND;
}

/*
 * Whether less than a fifth of a lease is left: of its length, or of what
 * leases of its queue usually have, if it was extended or is a long one.  One
 * that its session ends has no deadline that could be near.  usual is in
 * microseconds, and now is by the wall clock, as the times of the lease are.
 */
static inline bool
leases_near_end(const LeaseInfo *lease, int64 usual, TimestampTz now)
{
	return lease->deadline - now < Min(lease->deadline - lease->started, usual) / 5;
}

extern Size leases_shmem_size(void);
extern void leases_shmem_init(void *area, bool found);

/*
 * Granting: lease_table.c, leases.c.  leases_grant is called with the content
 * lock of the row's page held, the other two without.
 */
extern int	leases_reserve(int n);
extern void leases_return_reserved(void);
extern LeaseGrant leases_grant(LeaseInfo *lease, const SessionRef *session,
							   bool counted);

/*
 * Finding, settling and ending: leases.c, receipts in lease_receipts.c.  What
 * takes a LeaseRef answers false, or does nothing, if the lease is over.
 * leases_drop, leases_give_back and leases_displace take locks of groups and
 * limits when the partition's is let go; so the caller holds no lock of a
 * lane, a group or a partition.
 */
extern bool leases_from_receipt(const pg_uuid_t *receipt, LeaseRef *ref);
extern void leases_to_receipt(const LeaseInfo *lease, pg_uuid_t *receipt);
extern bool leases_look(const LeaseRef *ref, LeaseInfo *lease);
extern bool leases_find(int queue, int64 task, LeaseInfo *lease);
extern bool leases_seen(int queue, int64 task, const ItemPointerData *tid);
extern void leases_closing(int queue, int64 task);
extern bool leases_will_look(int queue, int64 task);
extern bool leases_outlive(int queue, int64 task);
extern bool leases_settle(const LeaseRef *ref, LeaseInfo *lease);
extern bool leases_settle_of(const LeaseRef *ref, int queue, LeaseInfo *lease);
extern bool leases_settle_expired(const LeaseRef *ref, LeaseInfo *lease);
extern void leases_unsettle(const LeaseRef *ref, bool wake);
extern void leases_defer_free(void);
extern void leases_free_deferred(void);
extern bool leases_give_back(const LeaseRef *ref, LeaseInfo *lease);
extern bool leases_displace(const LeaseRef *ref);
extern bool leases_drop(const LeaseRef *ref, bool used, LeaseInfo *lease);
extern bool leases_extend(const LeaseRef *ref, TimestampTz deadline,
						  LeaseInfo *lease);

/*
 * Durable leases: lease_restore.c, the last one in lease_receipts.c.  None of
 * these fails.
 */
extern bool leases_set_durable(const LeaseRef *ref, const ItemPointerData *durable_tid);
extern LeaseRestored leases_restore_durable(const LeaseInfo *saved, const pg_uuid_t *receipt,
											LeaseRef *ref);
extern bool leases_find_moved(const pg_uuid_t *receipt, LeaseRef *ref);

/*
 * What groups count of them: leases.c, lease_counts.c.  These take the lock of
 * a lease's partition and, inside it or after it, that of the group's.  None
 * fails.
 */
extern void leases_adopt(const LeaseRef *ref, uint32 group);
extern bool leases_count_row(int queue, int64 task, LeaseInfo *lease);
extern void leases_count_anew(int queue);
extern void leases_leave_groups(int queue);
extern void leases_task_removed(int queue, int64 task, uint64 was, TaskCount in);
extern bool leases_task_written(int queue, int64 task, uint64 was, TaskCount now,
								TaskCount before);

/* When they run out: lease_wheel.c.  now is by the steady clock. */
extern void leases_tick(TimestampTz now);
extern void leases_end_sessions(void);
extern void leases_end_vain(const LeaseRef *ref);
extern int	leases_of_session(const SessionRef *session, LeaseRef **refs);
extern int	leases_expired(int queue, int max, LeaseInfo *leases);
extern TimestampTz leases_next_deadline(void);

/* All of a queue, or of the server: leases.c */
extern int	leases_count(int queue, int *overflow);
extern int	leases_list(LeaseInfo **leases);

/* Across a restart, in the postmaster: lease_restore.c */
extern uint32 leases_salt(void);
extern void leases_set_salt(uint32 salt);
extern int	leases_save(int number, LeaseInfo *saved);
extern void leases_restore(const LeaseInfo *saved);

/* A queue is gone: leases.c */
extern void leases_forget_queue(int queue);

/* lease_file.c */
extern void lease_file_startup(void);

/* suspects.c: tasks that may be what kills their workers, leased alone */
/* A task that was lost so often is a suspect. */
#define SUSPECT_LOSSES	2

/*
 * Which suspects of a queue have a place in the order, as far as is known: see
 * suspects.c.  None of these fails.  All but suspects_wait(), which looks for
 * leases, take the mutex alone, or nothing.
 */
extern bool suspects_note(QueueState *queue, int64 task);
extern void suspects_forget(QueueState *queue, int64 task);
extern int	suspects_copy(QueueState *queue, int64 *tasks);
extern bool suspects_any(QueueState *queue);
extern bool suspects_wait(QueueState *queue);
extern bool suspects_turn(QueueState *queue);

/* quarantine.c */
/*
 * What a session may claim.  Whatever changes that takes the lock of the table
 * of sessions, and does nothing if the slot is another session's by now.
 */
typedef enum QuarantineStep
{
	QUARANTINE_OPEN,			/* as usual */
	QUARANTINE_READY,			/* it has no lease: first a suspect */
	QUARANTINE_CLOSED			/* nothing now */
} QuarantineStep;

extern QuarantineStep quarantine_step(const SessionRef *ref, QueueState *queue,
									  TimestampTz now);
extern bool quarantine_enter(const SessionRef *ref, QueueState *queue,
							 TimestampTz now, bool nothing_else);
extern void quarantine_drain(const SessionRef *ref, QueueState *queue,
							 TimestampTz now);
extern void quarantine_leave(const SessionRef *ref, TimestampTz now);
extern bool quarantine_is_on(uint32 number);

#endif							/* FAIRQ_LEASES_H */
