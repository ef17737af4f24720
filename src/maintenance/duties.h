/*-------------------------------------------------------------------------
 *
 * duties.h
 *	  The duties of a pass over a queue, each in a file of its own.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DUTIES_H
#define FAIRQ_DUTIES_H

#include "storage/archive.h"
#include "storage/queue_catalog.h"
#include "verbs/pass.h"

/* archive_expiry.c */
/* Passes of one transaction over an archive, which go on from each other. */
typedef struct ArchivePass
{
	bool		begun;
	IndexPosition from;
} ArchivePass;

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
extern bool sweep_pass(Relation rel, QueueInfo *info, TimestampTz now, bool by_hand,
					   bool first, TimestampTz *next);
extern bool sweep_is_due(QueueInfo *info, TimestampTz now);

#endif							/* FAIRQ_DUTIES_H */
