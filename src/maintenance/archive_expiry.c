/*-------------------------------------------------------------------------
 *
 * archive_expiry.c
 *	  When old rows are removed from archives.
 *
 * Rows that are older than the queue's keep_done are removed by maintenance
 * (archive_removal.c).  What goes wrong with that is no reason for the rest of
 * a pass to fail, for leases have to end in time: it is done in a
 * subtransaction, and after an error left alone for a while.
 *
 * Locking: the lock on the table is not waited for.  The cursor has its own
 * lock; the rest of ArchiveState is guarded by the maintenance lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "storage/lmgr.h"
#include "utils/timestamp.h"

#include "common/maintenance_lock.h"
#include "common/run_as.h"
#include "common/wall_clock.h"
#include "maintenance/maintain.h"
#include "storage/archive.h"

/* How long to leave rows alone that could not be removed, at most. */
#define LAST_RETRY		(300 * USECS_PER_SEC)

/*
 * How often to read an archive from its start, for rows that came there by SQL
 * of a user with a time long past, or with a prepared transaction.
 */
#define REREAD_USECS	USECS_PER_HOUR

/* What remove_once is called with. */
typedef struct RemovalOf
{
	QueueInfo  *info;
	bool		bind;			/* note first whose archive it is */
	ArchiveRemoval removal;
} RemovalOf;

static void
remove_once(void *arg)
{
	RemovalOf  *of = arg;

	if (of->bind)
		archive_bind(RelationGetRelid(of->removal.relation), of->info->relation);
	archive_remove_old(&of->removal);
}

/*
 * Remove rows in a subtransaction.  An error is reported once, and that is all:
 * returns false then.
 */
static bool
try_remove(RemovalOf *of)
{
	QueueInfo  *info = of->info;
	ArchiveState *state = &info->state->archive;
	ErrorData  *error = run_as_try(remove_once, of);

	if (error == NULL)
	{
		state->sqlerrcode = 0;
		return true;
	}
	if (error->sqlerrcode != state->sqlerrcode)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("could not remove old done tasks of queue \"%s\": %s",
						info->name, error->message),
				 error->detail ? errdetail_internal("%s", error->detail) : 0,
				 errhint("It is tried again from time to time.")));
	state->sqlerrcode = error->sqlerrcode;
	FreeErrorData(error);
	return false;
}

/* When a row that was done at a time is to be removed. */
static TimestampTz
expiry(const QueueInfo *info, TimestampTz done_at)
{
	if (done_at == DT_NOBEGIN || done_at >= DT_NOEND - info->keep_done)
		return done_at;
	return done_at + info->keep_done;
}

/*
 * Open the archive of a queue, unless that has to be waited for, or it is not
 * fit: who finishes a task will be told what is wrong with it.  Returns false
 * then, and says when to come again.
 */
static bool
open_archive(Pass *pass, RemovalOf *of)
{
	QueueInfo  *info = pass->info;
	char		name[NAMEDATALEN];
	Archive    *archive;
	Relation	relation;
	Oid			oid = archive_find_table(info->name, name);

	relation = OidIsValid(oid) && ConditionalLockRelationOid(oid, RowExclusiveLock) ?
		try_relation_open(oid, NoLock) : NULL;
	if (relation == NULL)
	{
		pass_again(pass, pass->now + USECS_PER_SEC);
		return false;
	}
	archive = archive_cached(RelationGetRelid(pass->rel));
	of->info = info;
	of->bind = !(archive->valid && archive->relation == oid);
	of->removal.relation = relation;
	of->removal.archive = archive;
	if (archive_look_at(archive, relation, name, pass->rel->rd_rel->relowner) == NULL)
		return true;
	pass_again(pass, pass->now + REREAD_USECS);
	relation_close(relation, NoLock);
	return false;
}

/*
 * Remove from the archive of a queue what is older than keep_done; up to
 * pass->max entries of the index are looked at.  Returns how many were.
 *
 * Nothing is waited for, and no error comes of it.  The caller acts as the
 * owner.
 */
int
archive_expire(Pass *pass, ArchivePass *at)
{
	QueueInfo  *info = pass->info;
	ArchiveState *state = &info->state->archive;
	TimestampTz now = pass->now;
	TimestampTz until = now - info->keep_done;
	RemovalOf	of = {0};
	bool		done;

	AssertMaintenanceLocked(pass->rel);
	if (info->keep_done == 0)
		return 0;
	if (state->retry_at > now)
	{
		pass_again(pass, state->retry_at);
		return 0;
	}

	if (!at->begun)
	{
		if (state->reread_at <= now)
		{
			index_cursor_add(&state->cursor, DT_NOBEGIN);
			state->reread_began = now;
			state->reread_at = now + REREAD_USECS;
		}
		index_cursor_begin(&state->cursor, until, &at->from);
		at->begun = true;
	}
	if (at->from.due > until && !index_cursor_holds(&state->cursor, until))
	{
		pass_again(pass, Min(expiry(info, at->from.due), state->reread_at));
		return 0;
	}

	if (!open_archive(pass, &of))
		return 0;
	of.removal.cursor = &state->cursor;
	of.removal.from = at->from;
	of.removal.until = until;
	of.removal.max = pass->max;
	done = try_remove(&of);
	relation_close(of.removal.relation, NoLock);
	if (!done)
	{
		state->retry_at = wall_clock_retry(now, state->failures++, LAST_RETRY);
		pass_again(pass, state->retry_at);
		return 0;
	}
	at->from = of.removal.from;
	if (of.removal.removed > 0)
		state->failures = 0;
	if (at->from.due <= until)
	{
		pass->more = true;
		return of.removal.looked;
	}

	if (state->reread_began != 0)
	{
		/* Not more than a hundredth of the time is spent with that. */
		state->reread_at = now + Max(REREAD_USECS, 100 * (now - state->reread_began));
		state->reread_began = 0;
	}
	pass_again(pass, Min(expiry(info, at->from.due), state->reread_at));
	if (of.removal.left || index_cursor_holds(&state->cursor, until))
	{
		state->retry_at = wall_clock_retry(now, state->failures++, LAST_RETRY);
		pass_again(pass, state->retry_at);
	}
	return of.removal.looked;
}
