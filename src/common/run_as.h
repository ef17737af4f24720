/*-------------------------------------------------------------------------
 *
 * run_as.h
 *	  Running something as another role, or as something that may fail; and how
 *	  long the worker waits for others in one piece of work.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_RUN_AS_H
#define FAIRQ_RUN_AS_H

#include "datatype/timestamp.h"
#include "utils/elog.h"

/* The role before, and its context. */
typedef struct RunAs
{
	Oid			user;
	int			security;
	int			nest_level;
	bool		hides_detail;
	ErrorContextCallback callback;
} RunAs;

/* run_as.c */
extern Oid	run_as_owner_of(Oid relation);
extern void run_as_owner(Oid owner, Oid relation, RunAs *context);
extern void run_as_role(Oid role, RunAs *context);
extern void run_as_end(RunAs *context);
extern ErrorData *run_as_try(void (*work) (void *arg), void *arg);
extern ErrorData *run_as_try_all(void (*work) (void *arg), void *arg);
extern ErrorData *run_as_transaction(void (*work) (void *arg), void *arg, bool log);
extern void run_as_at_end(void (*func) (void *arg), void *arg);
extern void run_as_sql(const char *command);

/* patience.c */
/* Owner's code that goes on after it was cancelled is not run for so long. */
#define PATIENCE_REST_USECS		(300 * USECS_PER_SEC)

extern void patience_register(void);
extern void patience_begin(void);
extern void patience_end(void);
extern void patience_of(TimestampTz *rests_until);
extern bool patience_lost(void);
extern bool patience_gave_up(void);
extern void patience_own_work(bool own);
extern void patience_explain(ErrorData *error);

#endif							/* FAIRQ_RUN_AS_H */
