/*-------------------------------------------------------------------------
 *
 * key_tasks.c
 *	  The tasks of a unique key.
 *
 * Rows that move.  An index scan that sees uncommitted rows may miss one that
 * is moved meanwhile: its old version is gone when it is read, and its new
 * entry came behind.  A snapshot taken after that sees one of them.  So "there
 * is none" is said after a look with each.
 *
 * Locking: the lock of a key, for the hash of it, is a heavyweight lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "shmem/leases.h"
#include "verbs/unique_keys.h"

/* The lock of a key. */
void
key_tasks_lock_tag(Relation rel, const text *key, LOCKTAG *tag)
{
	/* An object of a catalog that has this queue's oid: there is none. */
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationGetRelid(rel),
					   hash_bytes((const unsigned char *) VARDATA_ANY(key),
								  VARSIZE_ANY_EXHDR(key)), 0);
}

bool
key_tasks_is_leased(QueueInfo *info, int64 id)
{
	LeaseInfo	lease;

	return leases_find(queue_state_number(info->state), id, &lease);
}

static bool
is_there(const KeyTasks *tasks, int64 id)
{
	for (int i = 0; i < tasks->n; i++)
	{
		if (tasks->rows[i].id == id)
			return true;
	}
	/* More than we keep to: they were written with SQL. */
	return tasks->n == KEY_VERSIONS;
}

/*
 * Read the tasks of a key.
 */
void
key_tasks_read(Relation rel, QueueInfo *info, const text *key, KeyTasks *tasks)
{
	memset(tasks, 0, offsetof(KeyTasks, rows));
	tasks->n = queue_index_key(rel, info, key, NULL, KEY_VERSIONS, tasks->rows);
	for (int i = 0; i < tasks->n; i++)
	{
		const KeyRow *row = &tasks->rows[i];
		bool		held = (row->state == TASK_HELD);
		bool		leased = !held && key_tasks_is_leased(info, row->id);

		if (TransactionIdIsValid(row->busy) && !leased)
		{
			tasks->busy = row->busy;
			if (held)
			{
				tasks->busy_held = true;
				tasks->busy_id = row->id;
			}
		}
		else if (held)
		{
			tasks->has_held = true;
			tasks->held = *row;
		}
		else if (!tasks->has_first || leased)
		{
			tasks->has_first = true;
			tasks->in_flight = leased;
			tasks->first = *row;
		}
	}
}

/*
 * What tasks a key has, now.
 */
void
key_tasks_find(Relation rel, QueueInfo *info, const text *key, KeyTasks *tasks)
{
	for (;;)
	{
		KeyRow		rows[KEY_VERSIONS];
		Snapshot	latest;
		int			n;
		bool		missed = false;

		CHECK_FOR_INTERRUPTS();
		key_tasks_read(rel, info, key, tasks);
		if (tasks->has_first || TransactionIdIsValid(tasks->busy))
			return;

		/* One may have moved. */
		latest = RegisterSnapshot(GetLatestSnapshot());
		/* What this very command has deleted is gone, too. */
		latest->curcid = InvalidCommandId;
		n = queue_index_key(rel, info, key, latest, KEY_VERSIONS, rows);
		UnregisterSnapshot(latest);
		for (int i = 0; i < n; i++)
			missed |= !is_there(tasks, rows[i].id);
		if (!missed)
			return;
	}
}
