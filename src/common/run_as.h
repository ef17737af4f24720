/*-------------------------------------------------------------------------
 *
 * run_as.h
 *	  Running something as another role, or as something that may fail.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_RUN_AS_H
#define FAIRQ_RUN_AS_H

/* The role before, and its context. */
typedef struct RunAs
{
	Oid			user;
	int			security;
	int			nest_level;
	bool		hides_detail;
	ErrorContextCallback callback;
} RunAs;

extern Oid	run_as_owner_of(Oid relation);
extern void run_as_owner(Oid owner, Oid relation, RunAs *context);
extern void run_as_role(Oid role, RunAs *context);
extern void run_as_end(RunAs *context);
extern ErrorData *run_as_try(void (*work) (void *arg), void *arg);
extern ErrorData *run_as_try_all(void (*work) (void *arg), void *arg);
extern void run_as_at_end(void (*func) (void *arg), void *arg);
extern void run_as_sql(const char *command);

#endif							/* FAIRQ_RUN_AS_H */
