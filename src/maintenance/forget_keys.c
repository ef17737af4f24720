/*-------------------------------------------------------------------------
 *
 * forget_keys.c
 *	  When keys that were remembered are forgotten.
 *
 * A key whose time is over is not looked at any more; that its row is deleted
 * is housekeeping.  So the worker comes for the rows together, at most once a
 * second, and what is in the hands of others waits for the next time that all
 * are read.
 *
 * Locking: the maintenance lock.  The cursor has its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "maintenance/maintain.h"
#include "storage/remembered_keys.h"
#include "xact/pending_queue.h"

/*
 * How often to read the keys of a queue from the start, for those that another
 * transaction had in hand, or that came with a trigger disabled.
 */
#define REREAD_USECS	USECS_PER_HOUR

/* Rows that are due are left to come together for so long, in microseconds. */
#define FORGET_USECS	USECS_PER_SEC

/*
 * The first of the passes of a transaction begins: from where on keys are read.
 */
void
forget_keys_begin(Pass *pass, IndexPosition *from)
{
	QueueRemembered *state = &pass->info->state->remembered;

	AssertMaintenanceLocked(pass->rel);
	if (state->reread_at <= pass->now)
	{
		state->reread_at = pass->now + REREAD_USECS;
		index_cursor_add(&state->cursor, DT_NOBEGIN);
		pg_atomic_fetch_add_u64(&state->written, 1);
	}
	index_cursor_begin(&state->cursor, pass->now, from);
}

/*
 * Forget keys whose time is over, up to pass->max; read on at *from, which is
 * moved. Returns how many rows were looked at.
 */
int
forget_keys(Pass *pass, IndexPosition *from)
{
	QueueRemembered *state = &pass->info->state->remembered;
	bool		left = false;
	int			looked = 0;

	AssertMaintenanceLocked(pass->rel);
	if (from->due <= pass->now)
	{
		/*
		 * A pass that was rolled back has perhaps said that there are none:
		 * then the keys are read to their end.
		 */
		if (remembered_keys_any(pass->info))
			looked = remembered_keys_forget(pass->info, pass->now, pass->max, from, &left);
		else
			from->due = DT_NOEND;
		pending_due_read(index_cursor_end, &state->cursor, from);
		if (left)
		{
			state->reread_at = Min(state->reread_at, pass->now + USECS_PER_MINUTE);
			pass_again(pass, state->reread_at);
		}
		if (from->due == DT_NOEND)
			remembered_keys_look_none(pass->info);
	}
	if (from->due <= pass->now)
		pass->more = true;
	else if (from->due != DT_NOEND)
		pass_again(pass, Max(from->due, pass->now + FORGET_USECS));
	return looked;
}
