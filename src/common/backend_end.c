/*-------------------------------------------------------------------------
 *
 * backend_end.c
 *	  Why this backend ends.
 *
 * A backend ends because its client is gone or says so, or because the server
 * ends it: at a shutdown, a restart, by pg_terminate_backend().  The callbacks
 * of its end are told the exit code alone, which is the same for a lost
 * connection.  So we look at the error that ends it, in the server's hook for
 * its log.
 *
 * With log_min_messages = panic, which only a superuser can set, the hook is
 * not called, and such an end is taken for that of the client.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/backend_end.h"

static emit_log_hook_type previous_hook = NULL;
static bool ordered = false;

static void
look_at_error(ErrorData *error)
{
	if (error->elevel == FATAL && error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
		ordered = true;
	if (previous_hook != NULL)
		previous_hook(error);
}

/*
 * Look at errors from now on.  Called once, from _PG_init.
 */
void
backend_end_init(void)
{
	previous_hook = emit_log_hook;
	emit_log_hook = look_at_error;
}

/*
 * Does the server end this backend, and not its client?  For callbacks of the
 * backend's end.
 */
bool
backend_end_is_ordered(void)
{
	return ordered;
}
