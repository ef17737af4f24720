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
#include "pgstat.h"
#include "storage/lock.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
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
 * An error while we are the owner says in its DETAIL what is in a row, or in a
 * key, as the owner may know.  A caller that may not read the table is not
 * told.
 *
 * Called by ereport, which has what it says of the error in hand: the copy is
 * in a memory context of ours.
 */
static void
hide_detail(void *arg)
{
	int			category = ERRCODE_TO_CATEGORY(geterrcode());
	MemoryContext old;
	ErrorData  *error;

	if (category != ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION && category != ERRCODE_DATA_EXCEPTION)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	error = CopyErrorData();
	MemoryContextSwitchTo(old);
	if (error->detail != NULL)
		errdetail("It is shown to roles that have the privilege SELECT on the table.");
	FreeErrorData(error);
}

/*
 * Be the owner of a queue, in a restricted context, until run_as_end.
 * relation: whose rows are in hand; InvalidOid: none's.
 */
void
run_as_owner(Oid owner, Oid relation, RunAs *context)
{
	Assert(OidIsValid(owner));
	GetUserIdAndSecContext(&context->user, &context->security);
	context->hides_detail = OidIsValid(relation) && context->user != owner &&
		pg_class_aclcheck(relation, context->user, ACL_SELECT) != ACLCHECK_OK;
	if (context->hides_detail)
	{
		context->callback.callback = hide_detail;
		context->callback.arg = NULL;
		context->callback.previous = error_context_stack;
		error_context_stack = &context->callback;
	}
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
	context->hides_detail = false;
}

void
run_as_end(RunAs *context)
{
	Assert(OidIsValid(context->user));
	if (context->hides_detail)
		error_context_stack = context->callback.previous;
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
run_as_try_all(void (*work) (void *arg), void *arg)
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
		patience_own_work(false);
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/*
 * As run_as_try_all(), but a cancel is meant for more than this work, and
 * thrown on.
 */
ErrorData *
run_as_try(void (*work) (void *arg), void *arg)
{
	ErrorData  *error = run_as_try_all(work, arg);

	if (error != NULL && error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	return error;
}

/*
 * Call work(arg) in a transaction of its own, which waits for others for as
 * long as patience has it.  Returns NULL; or the error, in the caller's memory
 * context, when it has failed and is rolled back, logged if that is wanted.
 * For a background process, between its transactions.
 */
ErrorData *
run_as_transaction(void (*work) (void *arg), void *arg, bool log)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		patience_begin();
		work(arg);
		PopActiveSnapshot();
		CommitTransactionCommand();
		patience_end();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		patience_end();
		if (log)
			EmitErrorReport();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);

	/*
	 * What owners' code could leave in our session in spite of its restricted
	 * context: we go on for ever, and with others' queues.
	 */
	LockReleaseSession(USER_LOCKMETHOD);
	pgstat_report_stat(false);
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
