/*-------------------------------------------------------------------------
 *
 * node_health.c
 *	  Which servers of nodes answer, as the probe of a proxy has found.
 *
 * A backend of a proxy puts the addresses of its nodes here; the probe
 * (node_probe.c) tries each that a backend has asked for lately, and writes
 * what has come of it.  So what one process finds all others know, and a
 * backend that is new knows it before it goes there.
 *
 * An address stays in the table: a number of it is good for as long as the
 * server runs.  When the table is full more addresses are not probed.
 *
 * Locking: the lock guards the addresses, how many there are, and which process
 * is the probe.  The rest is atomic, and is read in signal handlers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"

#include "cluster/engine_link.h"
#include "cluster/node_health.h"

/* For how long a server is probed that no backend asks for. */
#define WANTED_USECS	(3600 * USECS_PER_SEC)

/* How old what the probe has found may be. */
#define KNOWN_USECS		(20 * USECS_PER_SEC)

/* A probe that was started and is not there is started again after this. */
#define START_USECS		(5 * USECS_PER_SEC)

/*
 * A server.  Times are of wall_clock_real, in microseconds.  The address is
 * written once, before the entry is counted in n, and not changed any more: so
 * whoever has a number reads it without the lock.  Backends write wanted, the
 * probe the other three.
 */
typedef struct HealthServer
{
	char		address[NODE_ADDRESS_LENGTH];
	pg_atomic_uint64 wanted;	/* when a backend last asked */
	pg_atomic_uint64 judged;	/* when the probe last knew; 0: not yet */
	pg_atomic_uint64 silent;	/* since when; 0: it is not */
	pg_atomic_uint64 well;		/* since when, if it is */
} HealthServer;

/*
 * The lock guards started_at, n and the addresses of new servers.  probe is
 * written under the lock but for its end.  n never goes down, and is
 * NODE_HEALTH_SERVERS at most.
 */
typedef struct HealthTable
{
	pg_atomic_uint32 probe;		/* its pid; 0: there is none */
	int64		started_at;		/* a probe was, last; it may have failed */
	int			n;
	HealthServer servers[NODE_HEALTH_SERVERS];
} HealthTable;

static HealthTable *table = NULL;
static LWLock *lock;

/*
 * The memory for the addresses of NODE_HEALTH_SERVERS servers (invariant I10).
 */
Size
node_health_shmem_size(void)
{
	return sizeof(HealthTable);
}

/*
 * Set up the table, which has no servers, or find it (found).  Without it,
 * where the library is not preloaded, table is NULL and nothing is ever known.
 */
void
node_health_shmem_init(void *area, bool found)
{
	table = area;
	lock = &GetNamedLWLockTranche(NODE_HEALTH_TRANCHE)->lock;
	if (found)
		return;
	pg_atomic_init_u32(&table->probe, 0);
	table->started_at = 0;
	table->n = 0;
}

/*
 * The number of a server, which is entered if it is new; -1: it is not probed,
 * for the library is not preloaded, its address is too long, or the table is
 * full.  Looks at all of them under the lock: that is for when a backend reads
 * which nodes there are, not for each call.  Nothing is known of server -1.
 */
int
node_health_find(const char *address)
{
	int			found = -1;

	if (table == NULL || strlen(address) >= NODE_ADDRESS_LENGTH)
		return -1;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	for (int i = 0; i < table->n && found < 0; i++)
		if (strcmp(table->servers[i].address, address) == 0)
			found = i;
	if (found < 0 && table->n < NODE_HEALTH_SERVERS)
	{
		HealthServer *server = &table->servers[table->n];

		strcpy(server->address, address);
		pg_atomic_init_u64(&server->wanted, (uint64) engine->wall_clock_real());
		pg_atomic_init_u64(&server->judged, 0);
		pg_atomic_init_u64(&server->silent, 0);
		pg_atomic_init_u64(&server->well, 0);
		found = table->n++;
	}
	LWLockRelease(lock);
	return found;
}

/*
 * The server is going to be called: it is probed for the next hour.  Written
 * once a second, not with each call.  Takes no lock.
 */
void
node_health_want(int server)
{
	int64		now;

	if (server < 0)
		return;
	now = engine->wall_clock_real();
	if (now - (int64) pg_atomic_read_u64(&table->servers[server].wanted) > USECS_PER_SEC)
		pg_atomic_write_u64(&table->servers[server].wanted, (uint64) now);
}

/*
 * What is known of it now.  May be called in a signal handler: it takes no lock
 * and reads atomics alone.  What was found too long ago is not known any more,
 * so if the probe ends all servers are unknown some seconds later.
 */
NodeHealth
node_health_of(int server)
{
	int64		judged;

	if (server < 0)
		return NODE_HEALTH_UNKNOWN;
	judged = (int64) pg_atomic_read_u64(&table->servers[server].judged);
	if (judged == 0 || engine->wall_clock_real() - judged > KNOWN_USECS)
		return NODE_HEALTH_UNKNOWN;
	return pg_atomic_read_u64(&table->servers[server].silent) != 0 ?
		NODE_HEALTH_SILENT : NODE_HEALTH_WELL;
}

/*
 * Since when it is well, by wall_clock_real; 0: it is not, as far as is known.
 * One that the probe has always found well is so since the first time.
 */
int64
node_health_well_since(int server)
{
	if (node_health_of(server) != NODE_HEALTH_WELL)
		return 0;
	return (int64) pg_atomic_read_u64(&table->servers[server].well);
}

/*
 * Is there no probe, and is this the process that is to start it?  True for one
 * caller each START_USECS, until there is one: the caller need not succeed.
 * While there is a probe this is one look, without the lock.
 */
bool
node_health_take_start(void)
{
	bool		take;
	int64		now;

	if (table == NULL || pg_atomic_read_u32(&table->probe) != 0)
		return false;
	now = engine->wall_clock_real();
	LWLockAcquire(lock, LW_EXCLUSIVE);
	take = pg_atomic_read_u32(&table->probe) == 0 &&
		(table->started_at == 0 || now - table->started_at > START_USECS);
	if (take)
		table->started_at = now;
	LWLockRelease(lock);
	return take;
}

/* ----------------------------------------------------------------
 * For the probe
 * ----------------------------------------------------------------
 */

/*
 * The probe ends.  Without the lock: no other process is the probe before this.
 */
static void
probe_ends(int code, Datum arg)
{
	pg_atomic_write_u32(&table->probe, 0);
}

/*
 * This process is the probe until it ends.  False: there is one, and the caller
 * exits; two may have been started where the first was slow to come.
 */
bool
node_health_probe_begin(void)
{
	bool		begun;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	begun = pg_atomic_read_u32(&table->probe) == 0;
	if (begun)
		pg_atomic_write_u32(&table->probe, (uint32) MyProcPid);
	LWLockRelease(lock);
	if (begun)
		on_shmem_exit(probe_ends, (Datum) 0);
	return begun;
}

/* How many servers there are: their numbers are from 0 on. */
int
node_health_servers(void)
{
	int			n;

	LWLockAcquire(lock, LW_SHARED);
	n = table->n;
	LWLockRelease(lock);
	return n;
}

/*
 * Is a server to be probed?  Its address is copied, of up to
 * NODE_ADDRESS_LENGTH bytes.  server is below what node_health_servers() said.
 */
bool
node_health_wanted(int server, char *address)
{
	HealthServer *its = &table->servers[server];

	Assert(server >= 0 && server < NODE_HEALTH_SERVERS);
	if (engine->wall_clock_real() - (int64) pg_atomic_read_u64(&its->wanted) > WANTED_USECS)
		return false;
	strcpy(address, its->address);
	return true;
}

/*
 * What has come of a probe of a server: it is silent from the first time on
 * that it is, and well from the first on that it is not.  The probe alone calls
 * this.  judged is written last: a server is unknown until then if it is the
 * first time.
 */
void
node_health_judge(int server, bool silent)
{
	HealthServer *its = &table->servers[server];
	uint64		now = (uint64) engine->wall_clock_real();

	Assert(server >= 0 && server < NODE_HEALTH_SERVERS);
	if (!silent && (pg_atomic_read_u64(&its->well) == 0 || pg_atomic_read_u64(&its->silent) != 0))
		pg_atomic_write_u64(&its->well, now);
	if (!silent)
		pg_atomic_write_u64(&its->silent, 0);
	else if (pg_atomic_read_u64(&its->silent) == 0)
		pg_atomic_write_u64(&its->silent, now);
	pg_atomic_write_u64(&its->judged, now);
}
