/*-------------------------------------------------------------------------
 *
 * pass.h
 *	  A pass over what is due of a queue, as its parts see it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PASS_H
#define FAIRQ_PASS_H

#include "storage/queue_catalog.h"

/*
 * What a part of a pass does at most that takes care: each row is a
 * subtransaction, and of more than 64 of a transaction the snapshots of all
 * other backends do not know the ids.
 */
#define PASS_CARE_ROWS	50

typedef struct Pass
{
	Relation	rel;
	QueueInfo  *info;
	TimestampTz now;
	int			max;			/* how much a part does, or looks at */
	bool		care;			/* rows may be refused: pass.c */

	/* results, which each part adds to */
	bool		more;			/* there is more to do now */
	TimestampTz next;			/* else when to come again */
} Pass;

/* The pass is to come again at a time, if not before. */
static inline void
pass_again(Pass *pass, TimestampTz at)
{
	if (at < pass->next)
		pass->next = at;
}

/* pass.c */
extern bool pass_takes_care(const QueueInfo *info, TimestampTz now);
extern void pass_failed(const QueueInfo *info, TimestampTz now, int sqlerrcode);
extern bool pass_try(Pass *pass, const char *what, void (*work) (void *arg), void *arg);

/* lost_leases.c: leases that end without an answer */
extern int	lost_leases_end(Pass *pass);

/* held_pass.c: held tasks */
extern int	held_pass(Pass *pass);

#endif							/* FAIRQ_PASS_H */
