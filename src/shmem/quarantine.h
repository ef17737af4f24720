/*-------------------------------------------------------------------------
 *
 * quarantine.h
 *	  Sessions that run a suspect task, alone.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUARANTINE_H
#define FAIRQ_QUARANTINE_H

#include "shmem/queue_state.h"
#include "shmem/sessions.h"

/* What a session may claim. */
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

#endif							/* FAIRQ_QUARANTINE_H */
