/*-------------------------------------------------------------------------
 *
 * lease_handover.c
 *	  Leases go to the standbys at a clean shutdown.
 *
 * At a planned switchover the primary is shut down and a standby is promoted.
 * The lease file stays with the data of the primary.  So the worker of each
 * database, when it ends because the server is being shut down, writes the
 * leases of its database as rows, as those of queues with durable leases are
 * (durable_leases.c).  The server sends to its standbys all that was written
 * before the checkpoint of its shutdown, which waits for the workers to end.
 * What is promoted then reads the rows as after a crash: receipts are good,
 * deadlines are what they were, and no task is given to another worker.
 *
 * Nothing depends on it.  If there is no worker, or it fails, tasks are
 * delivered again, as after any promotion.  Without a standby that is
 * connected nothing is written.
 *
 * If the same server starts again, it has the leases from its file, and rows
 * of the same tokens.  They agree, and whatever ends such a lease deletes its
 * row, whether the queue writes rows itself or not.
 *
 * A lease is written when the other processes of the database have ended: until
 * then it may be settled, and transactions that claimed roll back.  Should one
 * of them not come to an end, nothing is written.  Leases of sessions stay
 * behind: where a standby is promoted there are none of these.
 *
 * Only leases of queues whose rows have been read since the start are written:
 * others may have rows already, of the shutdown before.
 *
 * Locking: the lease table's, to copy it.  The lock of the table of rows is
 * tried: a prepared transaction may have it, and would keep the server from
 * ending.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/pidfile.h"

#include "common/settings.h"
#include "common/wall_clock.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "storage/durable_leases.h"
#include "storage/queue_catalog.h"
#include "worker/worker.h"

/*
 * How many leases are handed over.  To read them takes a look at each task's
 * row, before the queue is used where the standby was promoted.
 */
#define HANDOVER_LEASES		100000

/* How long to wait for the other processes of the database. */
#define HANDOVER_WAIT_USECS	(10 * USECS_PER_SEC)

/*
 * Is the server being shut down, other than by SIGQUIT, which ends us before we
 * could ask?  The postmaster tells pg_ctl in its lock file.
 */
static bool
server_stops(void)
{
	FILE	   *file = AllocateFile("postmaster.pid", "r");
	char		line[MAXPGPATH];
	bool		stops = false;

	if (file == NULL)
		return false;
	for (int n = 1; n <= LOCK_FILE_LINE_PM_STATUS && fgets(line, sizeof(line), file); n++)
		stops = (n == LOCK_FILE_LINE_PM_STATUS &&
				 strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0);
	FreeFile(file);
	return stops;
}

/* How many processes send WAL; with ours_only those that use the database. */
static int
wal_senders(bool ours_only)
{
	int			n = 0;

	for (int i = 0; i < max_wal_senders; i++)
	{
		int			pid = ((volatile WalSnd *) &WalSndCtl->walsnds[i])->pid;
		PGPROC	   *proc = (pid != 0 && ours_only) ? BackendPidGetProc(pid) : NULL;

		if (pid != 0 && (!ours_only || (proc != NULL && proc->databaseId == MyDatabaseId)))
			n++;
	}
	return n;
}

/*
 * Does another process use the database?  Those that send its changes go on
 * until the end.  A process that ends gives back its leases before it is not
 * counted any more.
 */
static bool
database_is_used(void)
{
	return CountDBBackends(MyDatabaseId) > 1 + wal_senders(true);
}

/* Wait until we are alone in the database.  Returns whether we are. */
static bool
wait_for_others(void)
{
	int64		give_up = wall_clock_real() + HANDOVER_WAIT_USECS;

	while (database_is_used())
	{
		if (wall_clock_real() >= give_up || !PostmasterIsAlive())
			return false;
		pg_usleep(5000L);
	}
	return true;
}

/* Is a lease to be written as a row of its queue? */
static bool
goes_along(const LeaseInfo *lease)
{
	return lease->ref.token != 0 && !lease->durable && !lease->settling &&
		lease->session == NO_SESSION && lease->deadline > 0 && lease->deadline != DT_NOEND;
}

/*
 * Write the leases of each queue of the database that has any.  Returns how
 * many.
 */
static int
write_leases(LeaseInfo *leases, int n)
{
	LeaseInfo  *of_queue = palloc(Max(Min(n, HANDOVER_LEASES), 1) * sizeof(LeaseInfo));
	int			written = 0;

	/*
	 * Those of other databases may come and go meanwhile, for rows are not
	 * written with the directory locked.  Ours stay: we are alone.
	 */
	for (int queue = 0; queue < settings_max_queues; queue++)
	{
		SavedQueue	there;
		int			count = 0;

		if (!queue_state_save(queue, &there) || there.database != MyDatabaseId ||
			queue_state_by_number(queue)->recovery.leases != QUEUE_KNOWN)
			continue;
		for (int i = 0; i < n && written + count < HANDOVER_LEASES; i++)
		{
			if (leases[i].queue == queue && goes_along(&leases[i]))
				of_queue[count++] = leases[i];
		}
		if (count > 0)
			durable_leases_write(there.relation, of_queue, count);
		written += count;
	}
	return written;
}

/*
 * The worker ends: hand over the leases, if the server does, too.  Interrupts
 * are held, and an error would end the process at once, so nothing is waited
 * for but the other processes, and that for a time.
 */
static void
hand_over(int code, Datum arg)
{
	Oid			table;
	LeaseInfo  *leases;
	int			n;

	if (wal_senders(false) == 0 || !server_stops())
		return;
	AbortOutOfAnyTransaction();
	if (!wait_for_others())
	{
		ereport(LOG,
				(errmsg("leases are not handed over to standbys: other processes of the database have not ended")));
		return;
	}

	StartTransactionCommand();
	n = leases_list(&leases);
	table = queue_catalog_member("durable_lease");
	if (n > 0 && OidIsValid(table) && ConditionalLockRelationOid(table, RowExclusiveLock))
	{
		int			written = write_leases(leases, n);

		if (written > 0)
			ereport(LOG,
					(errmsg("handed over %d leases to standbys", written),
					 errdetail("They are good where a standby is promoted.")));
	}
	CommitTransactionCommand();
}

/*
 * The worker of a database begins.
 */
void
lease_handover_begin(void)
{
	before_shmem_exit(hand_over, (Datum) 0);
}
