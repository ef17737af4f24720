/*-------------------------------------------------------------------------
 *
 * pass.c
 *	  A pass whose rows the owner's code may refuse.
 *
 * A constraint of the owner's, or a column's default, may raise an error when a
 * row is written, and there is no pass without writing.  One task that is
 * refused is no reason for all others to wait.  So a queue of which a pass has
 * failed for that is looked after with care for some minutes: each row is
 * written in a subtransaction, and one that is refused stays as it is.  In
 * tables without such code, and as long as nothing is refused, there are no
 * subtransactions.
 *
 * Locking: the maintenance lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/maintenance_lock.h"
#include "common/run_as.h"
#include "common/wall_clock.h"
#include "verbs/pass.h"

/* For how long after a row was refused. */
#define CARE_USECS		(5 * USECS_PER_MINUTE)

/*
 * Is it the row that is to blame, and not the server, or a lock?
 */
static bool
is_refusal(const QueueInfo *info, int sqlerrcode)
{
	if (info->plain || sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
		return false;
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_TO_CATEGORY(ERRCODE_TRANSACTION_ROLLBACK):
		case ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES):
		case ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION):
		case ERRCODE_TO_CATEGORY(ERRCODE_SYSTEM_ERROR):
		case ERRCODE_TO_CATEGORY(ERRCODE_INTERNAL_ERROR):
			return false;
	}
	return true;
}

/*
 * Is care to be taken in a pass that begins now?
 */
bool
pass_takes_care(const QueueInfo *info, TimestampTz now)
{
	return unlikely(wall_clock_ahead(info->state->care_until, now, CARE_USECS));
}

/*
 * A pass has failed with an error: the next one takes care, if that helps.
 */
void
pass_failed(const QueueInfo *info, TimestampTz now, int sqlerrcode)
{
	if (!is_refusal(info, sqlerrcode))
		return;
	if (!pass_takes_care(info, now))
		info->state->refused_sqlerrcode = 0;
	info->state->care_until = now + CARE_USECS;
}

/*
 * Do work(arg), which writes one row, in a pass that takes care: in a
 * subtransaction, so it begins and ends its own readers of rows.  Returns false
 * if the row was refused, and all is rolled back: then the rest of the pass
 * goes on, and this is reported once, as "could not <what> of queue".
 */
bool
pass_try(Pass *pass, const char *what, void (*work) (void *arg), void *arg)
{
	QueueState *state = pass->info->state;
	ErrorData  *error;

	AssertMaintenanceLocked(pass->rel);
	Assert(pass->care);
	error = run_as_try(work, arg);
	if (error == NULL)
		return true;
	if (!is_refusal(pass->info, error->sqlerrcode))
		ReThrowError(error);
	if (state->refused_sqlerrcode != error->sqlerrcode)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not %s of queue \"%s\": %s", what, pass->info->name,
						error->message),
				 error->detail ? errdetail_internal("%s", error->detail) : 0,
				 errhint("Other tasks go on, and it is tried again.  Change the constraint, or the task with SQL.")));
	state->refused_sqlerrcode = error->sqlerrcode;
	state->care_until = pass->now + CARE_USECS;
	FreeErrorData(error);
	return false;
}
