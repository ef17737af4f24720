/*-------------------------------------------------------------------------
 *
 * maintain.c
 *	  One bounded pass of what time does to a queue.
 *
 * Leases that have run out, tasks that have expired or become due, overflow
 * that is in no line, tasks that are held for nothing any more, transactions
 * that were prepared and have ended, rows of the archive that are old, keys
 * that were remembered long enough; and now and then a look for what was
 * overlooked.  The background worker calls it when something is due,
 * fairq.maintain() at a user's wish; claims that come up short call it where
 * there is no worker, for what makes tasks ready.  It is bounded: the
 * transaction is short, and the caller comes again if there is more.  (But for
 * the look for overflow, which comes to each group that has any.)
 *
 * One pass at a time on a queue: the maintenance lock, which is tried, not
 * waited for.  It is held to the end of the transaction, in which what was
 * done can be seen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class_d.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/maintenance_lock.h"
#include "common/run_as.h"
#include "common/wall_clock.h"
#include "maintenance/maintain.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"
#include "shmem/worker_slots.h"
#include "storage/archive.h"
#include "storage/recovery.h"
#include "verbs/claim.h"
#include "verbs/pass.h"
#include "xact/pending_queue.h"

/* Rows that a pass writes at most. */
#define PASS_ROWS		1000

/* Passes of one transaction in which a sweep may ask for more. */
#define SWEEP_PASSES	100

/*
 * Sessions that have missed their ttl, or were closed with leases, are over:
 * so are their leases, of whatever queue.  And leases whose time it is have
 * run out.  This is noted in shared memory only, by whoever comes first, and
 * takes no lock on a queue: what is noted is not due any more, so the worker
 * does not come again and again for a queue that it cannot have.
 */
void
maintain_tick(void)
{
	TimestampTz now;

	(void) wall_clock_both(&now);
	if (sessions_overdue(now))
		leases_end_sessions();
	leases_tick(now);
}

/*
 * What was put off for a while is looked at with this pass.
 */
static void
look_at_all(QueueState *state)
{
	state->counts.rests_until = 0;
	for (int class = 0; class < state->classes; class++)
		state->orders[class].overflow_walk.rests_until = 0;
	index_cursor_rest(&state->due, 0);
	index_cursor_rest(&state->expiry.cursor, 0);
	held_looks_hurry(&state->held);
}

/*
 * If the clock was set since the last pass: what is left alone until a time,
 * which may be an hour off now, is looked at.
 */
static void
clock_was_set(QueueState *state, TimestampTz now)
{
	uint32		steps = wall_clock_steps();

	Assert(maintenance_lock_held(state->relation));
	if (likely(state->clock_steps == steps))
		return;
	state->clock_steps = steps;
	look_at_all(state);
	state->archive.retry_at = 0;
	state->expiry.retry_at = 0;
	state->archive.reread_at = 0;
	state->archive.reread_began = 0;
	state->remembered.reread_at = 0;
	state->successors.recount_at = 0;
	state->sweep.begun_at = now;
	for (int i = 0; i < state->sweep.missing_count; i++)
		state->sweep.missing[i].since = now;

	/*
	 * What was passed over has perhaps not expired any more: all is read
	 * anew.
	 */
	if (state->expiry.passed_over)
		pending_read_again(state->relation);
	state->expiry.passed_over = false;
	/* Groups that wait for tokens work out anew until when. */
	group_limits_defaults_changed(queue_state_number(state));
}

static inline bool
has(const Maintenance *maintenance, Duty duty)
{
	return maintenance->duties == 0 || (maintenance->duties & (1 << duty)) != 0;
}

/* End leases that have run out.  Returns how many. */
static int
end_leases(Pass *pass)
{
	int			ended = lost_leases_end(pass);

	if (pg_atomic_read_u32(&pass->info->state->expired) > 0)
	{
		/* More, or their rows are being written and they have to wait. */
		pass->more |= (ended > 0);
		pass_again(pass, pass->now + USECS_PER_SEC);
	}
	return ended;
}

/* Make tasks ready for which it is time. */
static int
make_ready(Pass *pass, Maintenance *maintenance)
{
	QueueState *state = pass->info->state;
	int			moved = promote_due(pass, &maintenance->due_from);

	/* What was in doubt may be in no line now. */
	if (claim_resolve_doubts(state))
		pass_again(pass, pass->now + LANE_DOUBT_USECS);
	find_overflow(pass);
	pass_again(pass, group_limits_tick(&state->limits, pass->now));
	/* It is written to just now, and the writer does not say when it ends. */
	if (state->counts.recount)
		pass_again(pass, pass->now + USECS_PER_SEC);
	return moved;
}

static bool
do_pass(Relation rel, QueueInfo *info, Maintenance *maintenance)
{
	TimestampTz now = GetCurrentTimestamp();
	Pass		pass = {
		.rel = rel,
		.info = info,
		.now = now,
		.max = maintenance->max > 0 ? maintenance->max : PASS_ROWS,
		.care = pass_takes_care(info, now),
		.next = DT_NOEND,
	};
	bool		first = !maintenance->begun;
	int			moved = 0;
	LOCKTAG		tag;

	if (unlikely(pass.care))
		pass.max = Min(pass.max, PASS_CARE_ROWS);

	maintenance->next = DT_NOEND;
	maintain_tick();
	maintenance_lock_tag(RelationGetRelid(rel), &tag);
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		maintenance->next = now + USECS_PER_SEC;
		return false;
	}
	clock_was_set(info->state, now);
	if (maintenance->by_hand && first)
		look_at_all(info->state);
	recovery_recount(rel, info);
	if (first)
	{
		pending_maintained(RelationGetRelid(rel));
		index_cursor_begin(&info->state->due, now, &maintenance->due_from);
		index_cursor_begin(&info->state->expiry.cursor, now, &maintenance->expired_from);
		forget_keys_begin(&pass, &maintenance->keys_from);
	}
	maintenance->begun = true;
	/* Before anything is written. */
	if (has(maintenance, DUTY_HELD))
		count_dependencies(&pass);
	if (has(maintenance, DUTY_LEASES))
		moved += end_leases(&pass);
	if (has(maintenance, DUTY_EXPIRY))
		moved += expire_due(&pass, &maintenance->expired_from);
	if (has(maintenance, DUTY_READY))
		moved += make_ready(&pass, maintenance);
	if (has(maintenance, DUTY_HELD))
		moved += held_pass(&pass);
	if (has(maintenance, DUTY_READY))
		pass.more |= sweep_pass(&pass, maintenance->by_hand, first) &&
			++maintenance->sweep_passes < SWEEP_PASSES;
	maintenance->moved += moved;
	if (has(maintenance, DUTY_OLD) && !maintenance->claiming)
	{
		maintenance->archived += archive_expire(&pass, &maintenance->archive);
		maintenance->archived += forget_keys(&pass, &maintenance->keys_from);
	}
	maintenance->next = pass.next;
	return pass.more;
}

/*
 * Do what is due, up to a bound.  Returns whether there is more to do now;
 * else maintenance->next is when to come again, or earlier if a backend
 * schedules something.
 *
 * The work is the caller's transaction's: its tasks can be claimed when it
 * commits.  It is done as the owner of the queue, for writing a row runs what
 * the owner has attached to the table (constraints, index expressions).
 */
bool
maintain_pass(Relation rel, QueueInfo *info, Maintenance *maintenance)
{
	RunAs		context;
	bool		more;

	AssertRelationLocked(rel, RowExclusiveLock);
	run_as_owner(rel->rd_rel->relowner, RelationGetRelid(rel), &context);
	PG_TRY();
	{
		more = do_pass(rel, info, maintenance);
	}
	PG_CATCH();
	{
		pass_failed(info, GetCurrentTimestamp(), geterrcode());
		PG_RE_THROW();
	}
	PG_END_TRY();
	run_as_end(&context);
	return more;
}

/*
 * Does a queue look as if a pass would find something to do?  Cheap.
 */
bool
maintain_is_due(QueueInfo *info)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		lost = false;

	for (int class = 0; class < info->state->classes; class++)
		lost |= (queue_order_lost(&info->state->orders[class]) != PG_INT64_MAX);
	maintain_tick();
	return lost || info->state->counts.recount || pg_atomic_read_u32(&info->state->expired) > 0 ||
		held_looks_next(&info->state->held) <= now ||
		successor_filter_is_stale(&info->state->successors) ||
		index_cursor_next(&info->state->due) <= now || expire_is_due(info->state, now) ||
		sweep_is_due(info, now) ||
		limit_room_next_token(&info->state->limits) <= now;
}

/*
 * When there may be something to do of a queue, for who has no worker.
 */
TimestampTz
maintain_next_due(QueueInfo *info)
{
	QueueState *state = info->state;

	return wall_clock_earlier(wall_clock_earlier(index_cursor_next(&state->due),
												 index_cursor_next(&state->expiry.cursor)),
							  wall_clock_earlier(limit_room_next_token(&state->limits),
												 maintain_next_lease()));
}

/*
 * When the next lease of the server, or session of the database, may end.
 */
TimestampTz
maintain_next_lease(void)
{
	return wall_clock_earlier(leases_next_deadline(),
							  sessions_next_deadline(MyDatabaseId));
}
