/*-------------------------------------------------------------------------
 *
 * maintain.h
 *	  One bounded pass of what time does to a queue, and the duties that it has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_MAINTAIN_H
#define FAIRQ_MAINTAIN_H

#include "storage/archive.h"
#include "storage/queue_catalog.h"
#include "verbs/pass.h"

/* Passes of one transaction over an archive, which go on from each other. */
typedef struct ArchivePass
{
	bool		begun;
	IndexPosition from;
} ArchivePass;

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

/* maintain.c */
extern void maintain_tick(void);
extern bool maintain_pass(Relation rel, QueueInfo *info, Maintenance *maintenance);
extern bool maintain_is_due(QueueInfo *info);
extern TimestampTz maintain_next_due(QueueInfo *info);
extern TimestampTz maintain_next_lease(void);

/*
 * The duties of a pass over a queue, each in a file of its own.
 */

/* archive_expiry.c */
extern int	archive_expire(Pass *pass, ArchivePass *at);

/* expire_due.c */
extern int	expire_due(Pass *pass, IndexPosition *from);
extern bool expire_is_due(QueueState *state, TimestampTz now);

/* promote_due.c */
extern int	promote_due(Pass *pass, IndexPosition *from);

/* find_overflow.c */
extern void find_overflow(Pass *pass);

/* count_dependencies.c */
extern void count_dependencies(Pass *pass);

/* forget_keys.c */
extern void forget_keys_begin(Pass *pass, IndexPosition *from);
extern int	forget_keys(Pass *pass, IndexPosition *from);

/* sweep.c */
extern bool sweep_pass(Pass *pass, bool by_hand, bool first);
extern bool sweep_is_due(QueueInfo *info, TimestampTz now);

#endif							/* FAIRQ_MAINTAIN_H */
