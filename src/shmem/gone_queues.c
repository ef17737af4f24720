/*-------------------------------------------------------------------------
 *
 * gone_queues.c
 *	  Queues that are gone without a call of ours.
 *
 * On a standby queues that were looked at have shared state, and when the
 * primary drops them, or their database, that comes with the WAL: no function
 * of ours is called.  So whoever looks at one more there looks which are
 * gone; so does whoever finds no room for another queue, or for lanes, and
 * each worker when it starts.
 *
 * Locking: a queue's state is in use only by who has a lock on its table.
 * Here it is locked against all of them, unless that has to be waited for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "common/settings.h"
#include "shmem/queue_state.h"

/* Is there a relation of this oid, as far as this backend's cache knows? */
static inline bool
relation_exists(Oid relation)
{
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation));
}

/*
 * Release the state of a table of this database if it is gone.  Not if our own
 * transaction has dropped it, which still owes things to it.
 */
static bool
release_if_gone(Oid relation)
{
	/* A drop's replay waits for any lock; a standby can have no higher one. */
	LOCKMODE	lockmode = RecoveryInProgress() ? RowExclusiveLock : AccessExclusiveLock;
	LockAcquireResult result;
	LOCKTAG		tag;
	bool		gone = false;

	if (relation_exists(relation))
		return false;
	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation);
	result = LockAcquire(&tag, lockmode, false, true);
	if (result == LOCKACQUIRE_NOT_AVAIL)
		return false;
	if (result == LOCKACQUIRE_OK)
	{
		/* It was new, and we could not see it, if it is there now. */
		AcceptInvalidationMessages();
		gone = !relation_exists(relation);
		if (gone)
			queue_lifecycle_release(MyDatabaseId, relation);
	}
	LockRelease(&tag, lockmode, false);
	return gone;
}

/*
 * Release what queues of this database have in shared memory that are gone,
 * and those of databases that are.  Returns how many.
 *
 * The caller has no lock of ours: a queue is released under the directory
 * lock.  It may fail, as all that reads the catalogs, and waits for no lock on
 * a relation.
 */
int
gone_queues_release(void)
{
	int			released = 0;

	for (int i = 0; i < settings_max_queues; i++)
	{
		SavedQueue	queue;

		if (!queue_state_save(i, &queue))
			continue;
		if (queue.database == MyDatabaseId)
			released += release_if_gone(queue.relation);
		else if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(queue.database)))
		{
			queue_lifecycle_release(queue.database, InvalidOid);
			released++;
		}
	}
	return released;
}
