/*-------------------------------------------------------------------------
 *
 * maintain.h
 *	  One bounded pass of what time does to a queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_MAINTAIN_H
#define FAIRQ_MAINTAIN_H

#include "maintenance/duties.h"
#include "storage/queue_catalog.h"

/* Parts of a pass, each of which may fail when the others do not. */
typedef enum Duty
{
	DUTY_LEASES,				/* that have run out */
	DUTY_EXPIRY,				/* of tasks */
	DUTY_READY,					/* tasks that are due, or have room */
	DUTY_HELD,					/* tasks, and what they wait for */
	DUTY_OLD,					/* rows of the archive, and keys */
	DUTIES
} Duty;

/* Passes of one transaction, which go on from each other. */
typedef struct Maintenance
{
	bool		begun;
	bool		claiming;		/* for a claim: only what makes tasks ready */
	bool		by_hand;		/* at a user's wish, not because it is time */
	int			duties;			/* 1 << Duty: only these; 0: all */
	int			max;			/* rows that a pass writes; 0: as many as it
								 * likes */
	IndexPosition due_from;		/* where to read on in what is due ... */
	IndexPosition expired_from; /* ... and in what has expired */
	ArchivePass archive;
	IndexPosition keys_from;	/* and in keys that are remembered */
	int64		moved;			/* tasks, by all passes */
	int			sweep_passes;	/* in which there was more to look at */
	int64		archived;		/* entries of the archive, and keys, looked
								 * at, by all */
	TimestampTz next;			/* when something will be due again */
} Maintenance;

extern void maintain_tick(TimestampTz now);
extern bool maintain_pass(Relation rel, QueueInfo *info, Maintenance *maintenance);
extern bool maintain_is_due(QueueInfo *info);
extern TimestampTz maintain_next_due(QueueInfo *info);
extern TimestampTz maintain_next_lease(void);

#endif							/* FAIRQ_MAINTAIN_H */
