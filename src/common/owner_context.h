/*-------------------------------------------------------------------------
 *
 * owner_context.h
 *	  Acting as the owner of a queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_OWNER_CONTEXT_H
#define FAIRQ_OWNER_CONTEXT_H

/* Who we were before. */
typedef struct OwnerContext
{
	Oid			user;
	int			security;
	int			nest_level;
} OwnerContext;

extern Oid	owner_context_owner(Oid relation);
extern void owner_context_enter(Oid owner, OwnerContext *context);
extern void owner_context_leave(const OwnerContext *context);

#endif							/* FAIRQ_OWNER_CONTEXT_H */
