/*-------------------------------------------------------------------------
 *
 * suspects.h
 *	  Tasks that may be what kills their workers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SUSPECTS_H
#define FAIRQ_SUSPECTS_H

#include "shmem/queue_state.h"
#include "shmem/sessions.h"

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

#endif							/* FAIRQ_SUSPECTS_H */
