/*-------------------------------------------------------------------------
 *
 * owner_context.c
 *	  Acting as the owner of a queue.
 *
 * Some of what we do to a queue's tables is not the business of who happens to
 * call: maintenance, and writing the archive.  It is done with the privileges
 * of the tables' owner, and so is what he has attached to them (constraints,
 * expressions, triggers), in a restricted context, as autovacuum and REINDEX
 * do: it can do nothing to the caller's session.
 *
 * After an error the end of the (sub)transaction makes us ourselves again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/syscache.h"

#include "common/compat.h"
#include "common/owner_context.h"

/* The owner of a table; InvalidOid: it is gone. */
Oid
owner_context_owner(Oid relation)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return owner;
}

void
owner_context_enter(Oid owner, OwnerContext *context)
{
	GetUserIdAndSecContext(&context->user, &context->security);
	SetUserIdAndSecContext(owner, context->security | SECURITY_RESTRICTED_OPERATION);
	context->nest_level = NewGUCNestLevel();
	fairq_restrict_search_path();
}

void
owner_context_leave(const OwnerContext *context)
{
	AtEOXact_GUC(false, context->nest_level);
	SetUserIdAndSecContext(context->user, context->security);
}
