/*-------------------------------------------------------------------------
 *
 * lease_file.c
 *	  Leases and sessions across a restart.
 *
 * A clean shutdown writes what lives to a file, and the next start reads it, so
 * that workers that go on through a restart keep their tasks and their
 * receipts stay good.  A crash leaves no file: leases are forgotten then, and
 * their tasks delivered again.
 *
 * The file is in force for the very shutdown that it was written at, which it
 * names by the cluster and the checkpoint that the control file has then, and
 * only if the server goes on from there.  Where it follows another server or
 * recovers, tasks may have been worked on elsewhere since, under other leases.
 *
 * The file is removed as soon as it has been looked at: it must never be read
 * twice.  Should a crash of the machine bring it back, it is refused: the
 * control file tells that the server has run since.  It has a version and a
 * checksum, and its contents are checked all the same; a file that does not fit
 * is left unread with a line in the log.  Nothing depends on it but who holds
 * which task.
 *
 * All of this runs in the postmaster, before and after all other processes, so
 * nothing is locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

#include "common/settings.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"

/* Beside the server's own statistics, which are kept in the like way. */
#define LEASE_FILE		PGSTAT_STAT_PERMANENT_DIRECTORY "/pgfairq.leases"
/*
 * Begins the file, and says which version of the structs it has: change it
 * with any of SavedQueue, SessionInfo, LeaseInfo and those here.
 */
#define LEASE_FILE_MAGIC	0x46514C08

/*
 * The file is a header, and as many SavedQueue, SessionInfo and LeaseInfo as
 * it says, in this order: a lease is restored only if its queue is there.  All
 * are as they are in memory, with padding that is zero.
 */

/*
 * Which shutdown it was: there is no other one of the same, for each writes a
 * checkpoint of its own.  Compared by its bytes, so its padding is zero.
 */
typedef struct Shutdown
{
	uint64		system;			/* identifier of the cluster, from initdb */
	XLogRecPtr	checkpoint;		/* where its last record is */
	TimeLineID	timeline;		/* that this record is on */
} Shutdown;

/*
 * How the file begins: which one it is, and what is in it.  The checksum is of
 * what follows; so a count that is wrong shows, too.
 */
typedef struct LeaseFileHeader
{
	uint32		magic;			/* LEASE_FILE_MAGIC */
	uint32		salt;			/* of the receipts of the leases */
	Shutdown	shutdown;
	int			queues;			/* how many of each follow */
	int			sessions;
	int			leases;
	pg_crc32c	crc;			/* of all that follows */
} LeaseFileHeader;

/*
 * The shutdown that was the last thing to happen to the data; false if it was
 * none, but a crash, or that of a standby, which has no leases.  The exit code
 * does not tell: it is 0 after an immediate shutdown, too, which leaves in
 * shared memory what killed backends were at.
 *
 * Before the postmaster exits the control file is written for the last time,
 * and when it has started again it looks here before anybody writes it anew.
 *
 * *shutdown is set in any case.  Allocates a little in the postmaster, and
 * frees that.  Fails only if the control file cannot be read, without which
 * there is no server.
 */
static bool
last_shutdown(Shutdown *shutdown)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		clean = crc_ok && control->state == DB_SHUTDOWNED;

	memset(shutdown, 0, sizeof(Shutdown));
	shutdown->system = control->system_identifier;
	shutdown->checkpoint = control->checkPoint;
	shutdown->timeline = control->checkPointCopy.ThisTimeLineID;
	pfree(control);
	return clean;
}

/*
 * Is the server about to read WAL that may not be its own: a standby, or one
 * that was restored from a backup?  Asked by the postmaster, before it starts
 * the process that removes these files.
 */
static bool
will_recover(void)
{
	static const char *const signals[] = {
		STANDBY_SIGNAL_FILE, RECOVERY_SIGNAL_FILE, BACKUP_LABEL_FILE
	};

	for (int i = 0; i < (int) lengthof(signals); i++)
	{
		/* If it cannot be told, suppose that it is there. */
		if (access(signals[i], F_OK) == 0 || errno != ENOENT)
			return true;
	}
	return false;
}

/*
 * Write a part of the file, and take it into the checksum.  The caller looks
 * for errors once, by ferror, when all is written.
 */
static void
write_part(FILE *file, const void *data, size_t size, pg_crc32c *crc)
{
	COMP_CRC32C(*crc, data, size);
	(void) fwrite(data, size, 1, file);
}

/*
 * The postmaster exits: write the file, if that is a clean shutdown.  All other
 * processes have ended, and what they owed is done: no lease is settling.
 *
 * The header is written twice: first for its place, and at the end with the
 * counts and the checksum.  The file has its name only when it is complete and
 * on disk.  Errors are logged: a shutdown does not fail for want of the file.
 *
 * A callback of on_shmem_exit: shared memory is still there.  code is the exit
 * code, which after a crash is not 0, or the control file tells.  On return
 * there is a file that is complete, or none.
 */
static void
save(int code, Datum arg)
{
	LeaseFileHeader header = {0};
	FILE	   *file;
	SavedQueue	queue;
	SessionInfo session;
	LeaseInfo	lease;

	if (code != 0 || !last_shutdown(&header.shutdown))
		return;
	file = AllocateFile(LEASE_FILE ".tmp", PG_BINARY_W);
	if (file == NULL)
		goto failed;

	header.magic = LEASE_FILE_MAGIC;
	header.salt = leases_salt();
	INIT_CRC32C(header.crc);
	if (fwrite(&header, sizeof(header), 1, file) != 1)
		goto failed;
	for (int i = 0; i < settings_max_queues; i++)
	{
		if (queue_state_save(i, &queue))
		{
			write_part(file, &queue, sizeof(queue), &header.crc);
			header.queues++;
		}
	}
	for (int i = 1; i <= settings_max_sessions; i++)
	{
		if (sessions_save(i, &session))
		{
			write_part(file, &session, sizeof(session), &header.crc);
			header.sessions++;
		}
	}
	for (int i = 0; i < settings_max_leases && leases_save(i, &lease) >= 0; i++)
	{
		if (leases_save(i, &lease) > 0)
		{
			write_part(file, &lease, sizeof(lease), &header.crc);
			header.leases++;
		}
	}
	FIN_CRC32C(header.crc);
	if (header.leases == 0 && header.sessions == 0)
	{
		/* Nothing to keep: the next start does without. */
		FreeFile(file);
		unlink(LEASE_FILE ".tmp");
		return;
	}
	if (fseek(file, 0, SEEK_SET) != 0 ||
		fwrite(&header, sizeof(header), 1, file) != 1 || ferror(file))
		goto failed;
	if (FreeFile(file) != 0)
	{
		file = NULL;
		goto failed;
	}
	(void) durable_rename(LEASE_FILE ".tmp", LEASE_FILE, LOG);
	return;

failed:
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", LEASE_FILE ".tmp"),
			 errdetail("Leases are forgotten, and their tasks will be delivered again.")));
	if (file != NULL)
		FreeFile(file);
	unlink(LEASE_FILE ".tmp");
}

/*
 * Read the next part into data, and take it into the checksum; false at a
 * premature end.  What it says is checked by who restores it: the checksum
 * finds what was damaged, not what does not fit this server's settings.
 */
static bool
read_part(FILE *file, void *data, size_t size, pg_crc32c *crc)
{
	if (fread(data, size, 1, file) != 1)
		return false;
	COMP_CRC32C(*crc, data, size);
	return true;
}

/*
 * Go through the file after the header.  Without restore only the checksum is
 * looked at.  Returns whether it is right.  With restore each part is handed on
 * as it is read: so the caller goes through the file without it before, and
 * nothing is restored of a file that is damaged.
 *
 * The file is behind its header when this is called.  Counts of the header
 * that are below zero read nothing, and the checksum tells.
 */
static bool
read_parts(FILE *file, const LeaseFileHeader *header, bool restore)
{
	pg_crc32c	crc;
	SavedQueue	queue;
	SessionInfo session;
	LeaseInfo	lease;

	INIT_CRC32C(crc);
	for (int i = 0; i < header->queues; i++)
	{
		if (!read_part(file, &queue, sizeof(queue), &crc))
			return false;
		if (restore)
			queue_state_restore(&queue);
	}
	for (int i = 0; i < header->sessions; i++)
	{
		if (!read_part(file, &session, sizeof(session), &crc))
			return false;
		if (restore)
			sessions_restore(&session);
	}
	for (int i = 0; i < header->leases; i++)
	{
		if (!read_part(file, &lease, sizeof(lease), &crc))
			return false;
		if (restore)
			leases_restore(&lease);
	}
	FIN_CRC32C(crc);
	return EQ_CRC32C(crc, header->crc);
}

/*
 * The server starts: read the file, if it is of the last shutdown, and remove
 * it whether it is or not.  One that is not in force is named in the log, and
 * the server starts without leases.
 *
 * What is restored may be less than the file has: see leases_restore.  On
 * return there is no file, whatever was made of it: a second start must not
 * find it, when tasks have been worked on since.  If it cannot be removed, the
 * next start finds that it is of another shutdown than the last.
 */
static void
load(void)
{
	FILE	   *file = AllocateFile(LEASE_FILE, PG_BINARY_R);
	LeaseFileHeader header;
	Shutdown	last;
	bool		ours;

	if (file == NULL)
	{
		if (errno != ENOENT)
			ereport(LOG,
					(errcode_for_file_access(),
					 errmsg("could not open file \"%s\": %m", LEASE_FILE)));
		return;
	}
	ours = (fread(&header, sizeof(header), 1, file) == 1 &&
			header.magic == LEASE_FILE_MAGIC);
	if (!last_shutdown(&last))
		ereport(LOG,
				(errmsg("ignoring file \"%s\": the server was not shut down after it was written", LEASE_FILE)));
	else if (will_recover())
		ereport(LOG,
				(errmsg("ignoring file \"%s\": the server is going to recover, or to follow another one", LEASE_FILE)));
	else if (ours && memcmp(&header.shutdown, &last, sizeof(last)) != 0)
		ereport(LOG,
				(errmsg("ignoring file \"%s\": it was written at another shutdown than the last", LEASE_FILE)));
	else if (ours && read_parts(file, &header, false) &&
			 fseek(file, sizeof(header), SEEK_SET) == 0)
	{
		/* First the salt, which the receipts of these leases have. */
		leases_set_salt(header.salt);
		(void) read_parts(file, &header, true);
	}
	else
		ereport(LOG,
				(errmsg("ignoring file \"%s\": it is damaged or of another version", LEASE_FILE),
				 errdetail("Leases are forgotten, and their tasks will be delivered again.")));
	FreeFile(file);
	unlink(LEASE_FILE);
}

/*
 * Shared memory has been set up.  Called in the postmaster only, at a start and
 * after a crash: shared memory is new then, and so is the list of functions
 * that are called at exit.  After a crash there is no file to load.
 *
 * All areas of shared memory have been set up, and no other process has them.
 * Never fails for want of the file.
 */
void
lease_file_startup(void)
{
	on_shmem_exit(save, (Datum) 0);
	load();
}
