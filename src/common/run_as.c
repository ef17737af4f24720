/*-------------------------------------------------------------------------
 *
 * run_as.c
 *	  Running something as another role, or as something that may fail.
 *
 * Some of what is done to a queue's tables is not the business of the role
 * that happens to call: maintenance, and writing the archive.  It is done with
 * the privileges of the tables' owner, and so is what the owner has attached
 * to them (constraints, expressions, triggers), in a restricted context, as
 * autovacuum and REINDEX do: it can do nothing to the caller's session.
 *
 * After an error the end of the (sub)transaction restores the role.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "common/compat.h"
#include "common/run_as.h"

/* The owner of a table; InvalidOid: it is gone. */
Oid
run_as_owner_of(Oid relation)
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

/*
 * Be the owner of a queue, in a restricted context, until run_as_end.
 */
void
run_as_owner(Oid owner, RunAs *context)
{
	GetUserIdAndSecContext(&context->user, &context->security);
	SetUserIdAndSecContext(owner, context->security | SECURITY_RESTRICTED_OPERATION);
	context->nest_level = NewGUCNestLevel();
	fairq_restrict_search_path();
}

/*
 * Be a role, with the caller's settings and search path: only to run commands
 * of our own, which name schemas.  Until run_as_end.
 */
void
run_as_role(Oid role, RunAs *context)
{
	GetUserIdAndSecContext(&context->user, &context->security);
	SetUserIdAndSecContext(role, context->security | SECURITY_LOCAL_USERID_CHANGE);
	context->nest_level = 0;
}

void
run_as_end(const RunAs *context)
{
	if (context->nest_level > 0)
		AtEOXact_GUC(false, context->nest_level);
	SetUserIdAndSecContext(context->user, context->security);
}

/*
 * Call work(arg) in a subtransaction, in the caller's memory context.  Returns
 * NULL when that is done; or the error, when it has failed and is rolled back:
 * the caller handles it, or throws it on (ReThrowError).
 *
 * What work leaves in local variables of the caller's has to be reached by arg.
 */
ErrorData *
run_as_try(void (*work) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		work(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/*
 * Call func(arg), which may not fail, when the transaction is over, however it
 * ends.
 */
void
run_as_at_end(void (*func) (void *arg), void *arg)
{
	MemoryContextCallback *callback = MemoryContextAlloc(TopTransactionContext,
														 sizeof(MemoryContextCallback));

	callback->func = func;
	callback->arg = arg;
	MemoryContextRegisterResetCallback(TopTransactionContext, callback);
}

/*
 * Run a command that has no parameters and returns no rows.  The caller has
 * connected to SPI.
 */
void
run_as_sql(const char *command)
{
	int			result = SPI_execute(command, false, 0);

	if (result < 0)
		elog(ERROR, "SPI_execute failed (%s): %s",
			 SPI_result_code_string(result), command);
}
