/*-------------------------------------------------------------------------
 *
 * expire_due.h
 *	  Ending the tasks of a queue that have expired.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_EXPIRE_DUE_H
#define FAIRQ_EXPIRE_DUE_H

#include "verbs/pass.h"

extern int	expire_due(Pass *pass, IndexPosition *from);
extern bool expire_is_due(QueueState *state, TimestampTz now);

#endif							/* FAIRQ_EXPIRE_DUE_H */
