/*-------------------------------------------------------------------------
 *
 * subtransaction.c
 *	  To try something that may fail, and to free something when nobody can be
 *	  using it any more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "common/subtransaction.h"

/*
 * Call work(arg) in a subtransaction, in the caller's memory context.  Returns NULL when
 * that is done; or the error, when it has failed and is rolled back: the caller handles it,
 * or throws it on (ReThrowError).
 *
 * What work leaves in local variables of the caller's has to be reached by arg.
 */
ErrorData *
subtransaction_try(void (*work) (void *arg), void *arg)
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
 * Call func(arg), which may not fail, when the transaction is over, however it ends.
 */
void
transaction_at_end(void (*func) (void *arg), void *arg)
{
	MemoryContextCallback *callback = MemoryContextAlloc(TopTransactionContext,
														 sizeof(MemoryContextCallback));

	callback->func = func;
	callback->arg = arg;
	MemoryContextRegisterResetCallback(TopTransactionContext, callback);
}
