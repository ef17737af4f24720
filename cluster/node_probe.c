/*-------------------------------------------------------------------------
 *
 * node_probe.c
 *	  The process that finds out which servers of nodes answer.
 *
 * PL/Proxy waits for a server as long as that takes, and each backend would
 * have to find out by itself that one hangs.  So the server of a proxy that has
 * the library preloaded has one process that tries all servers of nodes once a
 * second, and writes into shared memory (node_health.c) which of them do not
 * answer.  A backend that needs a node starts it; it is connected to no
 * database, so it serves all of them, runs at a standby, and is in the way of
 * no command.
 *
 * A try is a connection and the eight bytes that ask for encryption by GSSAPI.
 * A server answers them with one byte before it looks at anything else, and
 * writes nothing in its log; a pooler does so, or ends the connection, which is
 * a sign of life, too.  So there is no role and no password to it, and next to
 * no work for the server.
 *
 * The hosts of a node are tried as libpq tries them: the next one where a
 * connection is refused, or not made in time; the first that takes the
 * connection has to answer.  Who refuses at once is not silent: that costs a
 * backend nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/ip.h"
#include "libpq/pqcomm.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "cluster/engine_link.h"
#include "cluster/node_health.h"
#include "common/compat.h"

/* How long a host has to take a connection, and to answer. */
#define HOST_USECS		USECS_PER_SEC

/* A server is silent after so many tries: one may be late. */
#define TRIES			2

/* How long the addresses of names are good. */
#define NAMES_USECS		(30 * USECS_PER_SEC)

/* Ends when there is nothing to probe for so long. */
#define IDLE_USECS		(60 * USECS_PER_SEC)

/* How long to wait for tries before looking what else is due. */
#define POLL_MSECS		50

#define MAX_ADDRESSES	8

typedef enum TryState
{
	TRY_OVER,
	TRY_CONNECTS,
	TRY_ASKS
} TryState;

/* A server, as this process knows it. */
typedef struct ProbedServer
{
	struct sockaddr_storage addresses[MAX_ADDRESSES];
	socklen_t	lengths[MAX_ADDRESSES];
	int			n;
	int64		resolved_at;	/* 0: not */
	int			failed;			/* tries, one after the other */
	int64		due;			/* the next try */

	/* the try under way */
	TryState	state;
	int			next;			/* address */
	int			socket;
	int64		deadline;
	bool		waited;			/* an address did not refuse, nor answer */
} ProbedServer;

static ProbedServer *servers[NODE_HEALTH_SERVERS];

/* The setting, in milliseconds. */
static int	interval = 1000;

void
node_probe_settings_define(void)
{
	DefineCustomIntVariable("pgfairq.node_probe_interval",
							"Time between looks of a proxy whether its nodes answer; 0: never.", NULL,
							&interval,
							1000, 0, 5000,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
}

/* ----------------------------------------------------------------
 * For backends
 * ----------------------------------------------------------------
 */

/*
 * See to it that there is a probe, if there can be.
 */
void
node_probe_start(void)
{
	BackgroundWorker worker = {0};

	if (interval == 0 || !node_health_take_start())
		return;
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "pgfairq_cluster", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "node_probe_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "pgfairq probe of nodes", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "pgfairq probe of nodes", BGW_MAXLEN);
	if (!RegisterDynamicBackgroundWorker(&worker, NULL))
		ereport(LOG,
				(errmsg("could not start the pgfairq probe of nodes"),
				 errhint("Raise the setting \"%s\" and restart the server.", "max_worker_processes")));
}

/* ----------------------------------------------------------------
 * Addresses
 * ----------------------------------------------------------------
 */

/* The addresses of a host and a port, behind those that there are. */
static void
resolve_host(ProbedServer *server, const char *host, const char *port)
{
	struct addrinfo hint = {.ai_socktype = SOCK_STREAM,.ai_family = AF_UNSPEC};
	struct addrinfo *found = NULL;
	char		path[MAXPGPATH];

	if (host[0] == '/' || host[0] == '@')
	{
		snprintf(path, sizeof(path), "%s/.s.PGSQL.%s", host, port);
		hint.ai_family = AF_UNIX;
		host = NULL;
		port = path;
	}
	if (pg_getaddrinfo_all(host, port, &hint, &found) != 0)
		return;
	for (struct addrinfo *each = found; each != NULL; each = each->ai_next)
	{
		if (server->n == MAX_ADDRESSES)
			break;
		memcpy(&server->addresses[server->n], each->ai_addr, each->ai_addrlen);
		server->lengths[server->n++] = each->ai_addrlen;
	}
	pg_freeaddrinfo_all(hint.ai_family, found);
}

/*
 * An address is "host,host port,port", of which a single port is for all hosts.
 */
static void
resolve(ProbedServer *server, char *address)
{
	char	   *ports = strchr(address, ' ');
	char	   *port;
	char	   *hosts = address;
	char	   *host;

	server->n = 0;
	server->resolved_at = engine->wall_clock_real();
	if (ports == NULL)
		return;
	*ports++ = '\0';
	port = strsep(&ports, ",");
	while ((host = strsep(&hosts, ",")) != NULL)
	{
		resolve_host(server, host, port[0] == '\0' ? DEF_PGPORT_STR : port);
		if (ports != NULL)
			port = strsep(&ports, ",");
	}
}

/* ----------------------------------------------------------------
 * A try
 * ----------------------------------------------------------------
 */

static void
end_try(int number, bool answered)
{
	ProbedServer *server = servers[number];

	if (server->socket >= 0)
		close(server->socket);
	server->socket = -1;
	server->state = TRY_OVER;
	if (answered)
	{
		server->failed = 0;
		node_health_judge(number, false);
		return;
	}
	server->resolved_at = 0;
	if (++server->failed >= TRIES)
		node_health_judge(number, true);
}

/*
 * A host has refused a connection; other errors are no word of it, and come
 * when they come.
 */
static void
note_error(ProbedServer *server, int error)
{
	if (error != ECONNREFUSED && error != ENOENT)
		server->waited = true;
}

/* Connect to the next address that does not refuse. */
static void
next_address(int number)
{
	ProbedServer *server = servers[number];

	if (server->socket >= 0)
		close(server->socket);
	server->socket = -1;
	while (server->next < server->n)
	{
		struct sockaddr *address = (struct sockaddr *) &server->addresses[server->next];
		socklen_t	length = server->lengths[server->next++];

		server->socket = socket(address->sa_family, SOCK_STREAM, 0);
		if (server->socket < 0)
			continue;
		if (pg_set_noblock(server->socket) &&
			(connect(server->socket, address, length) == 0 || errno == EINPROGRESS))
		{
			server->state = TRY_CONNECTS;
			server->deadline = engine->wall_clock_real() + HOST_USECS;
			return;
		}
		note_error(server, errno);
		close(server->socket);
		server->socket = -1;
	}
	end_try(number, !server->waited);
}

/* The connection is made, or refused. */
static void
ask(int number)
{
	ProbedServer *server = servers[number];
	uint32		packet[2] = {pg_hton32(sizeof(packet)), pg_hton32(NEGOTIATE_GSS_CODE)};
	int			error = 0;
	socklen_t	length = sizeof(error);

	if (getsockopt(server->socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0)
	{
		note_error(server, error);
		next_address(number);
		return;
	}
	if (send(server->socket, packet, sizeof(packet), 0) != sizeof(packet))
	{
		end_try(number, true);	/* it has ended the connection at once */
		return;
	}
	server->state = TRY_ASKS;
	server->deadline = engine->wall_clock_real() + HOST_USECS;
}

/* Whatever comes, the end of the connection included, is a sign of life. */
static void
go_on(int number, bool ready, int64 now)
{
	ProbedServer *server = servers[number];

	if (ready && server->state == TRY_CONNECTS)
		ask(number);
	else if (ready)
		end_try(number, true);
	else if (now >= server->deadline)
	{
		server->waited = true;
		if (server->state == TRY_CONNECTS)
			next_address(number);
		else
			end_try(number, false);
	}
}

/* Begin a try of a server. */
static void
begin_try(int number, char *address)
{
	ProbedServer *server = servers[number];
	int64		now = engine->wall_clock_real();

	server->due = now + interval * INT64CONST(1000);
	if (now - server->resolved_at > NAMES_USECS)
		resolve(server, address);
	server->next = 0;
	server->waited = false;
	if (server->n > 0)
		next_address(number);
}

/*
 * Begin the tries that are due, of the servers that are wanted.  Returns when
 * the next is, and PG_INT64_MAX if there is none.
 */
static int64
begin_tries(void)
{
	char		address[NODE_ADDRESS_LENGTH];
	int64		next = PG_INT64_MAX;
	int			n = node_health_servers();

	for (int i = 0; i < n; i++)
	{
		if (!node_health_wanted(i, address))
			continue;
		if (servers[i] == NULL)
		{
			servers[i] = MemoryContextAllocZero(TopMemoryContext, sizeof(ProbedServer));
			servers[i]->socket = -1;
		}
		if (servers[i]->state == TRY_OVER && engine->wall_clock_real() >= servers[i]->due)
			begin_try(i, address);
		next = Min(next, servers[i]->due);
	}
	return next;
}

/* Follow the tries that are under way.  Returns whether there are any. */
static bool
follow_tries(void)
{
	static struct pollfd polled[NODE_HEALTH_SERVERS];
	static int	numbers[NODE_HEALTH_SERVERS];
	int			open = 0;
	int			ready;
	int64		now;

	for (int i = 0; i < NODE_HEALTH_SERVERS; i++)
		if (servers[i] != NULL && servers[i]->state != TRY_OVER)
		{
			polled[open].fd = servers[i]->socket;
			polled[open].events = servers[i]->state == TRY_CONNECTS ? POLLOUT : POLLIN;
			polled[open].revents = 0;
			numbers[open++] = i;
		}
	if (open == 0)
		return false;
	ready = poll(polled, open, POLL_MSECS);
	now = engine->wall_clock_real();
	for (int i = 0; i < open; i++)
		go_on(numbers[i], ready > 0 && polled[i].revents != 0, now);
	return true;
}

void
node_probe_main(Datum arg)
{
	int64		busy_at = engine->wall_clock_real();
	uint32		wait_event = fairq_new_wait_event("FairqProbe");

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	if (!node_health_probe_begin())
		proc_exit(0);

	/* A name server that does not answer must not keep us for long. */
	setenv("RES_OPTIONS", "timeout:1 attempts:1", 0);

	while (!ShutdownRequestPending && interval > 0)
	{
		int64		next = begin_tries();
		int64		now = engine->wall_clock_real();
		bool		open = follow_tries();

		if (next != PG_INT64_MAX)
			busy_at = now;
		else if (now - busy_at > IDLE_USECS)
			break;

		/* By the latch we hear of signals, and of the postmaster's end. */
		next = Min(next, now + USECS_PER_SEC);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 open ? 0 : Max(next - now, 0) / 1000 + 1,
						 wait_event);
		ResetLatch(MyLatch);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	proc_exit(0);
}
