/*-------------------------------------------------------------------------
 *
 * binary.c
 *	  What pgbench is to claims and acks in the protocol's text format, for
 *	  the binary one, which pgbench does not speak and most drivers do.
 *
 *	binary CLIENTS TRANSACTIONS LOG CLAIM ACK
 *
 * Each client is a thread with a connection of its own (where to: libpq's
 * environment variables) and does so many transactions: CLAIM, which returns
 * one row with one array, and ACK, whose only parameter $1 is that array. Both
 * are prepared, all values go in binary, and each is a transaction of the
 * server's, as it is in pgbench.
 *
 * It prints the number of transactions, their latency and rate as pgbench
 * does, and writes to LOG a line for each as pgbench's option -l does, so that
 * measure.py reads the one like the other. The times there are not of the day.
 * The first error ends it.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BINARY 1				/* libpq's number for that format */

typedef struct Transaction
{
	int64_t		start;			/* microseconds */
	int64_t		end;
} Transaction;

typedef struct Client
{
	pthread_t	thread;
	int			number;
	PGconn	   *conn;
	Transaction *transactions;
} Client;

static int	nclients;
static int	ntransactions;		/* of each client */
static const char *claim_sql;
static const char *ack_sql;

/* Nobody begins before all are connected and have their statements. */
static pthread_barrier_t ready;

static void fail(const char *format,...) __attribute__((format(printf, 1, 2), noreturn));

/*
 * Ends the process with a message, for all threads. Whoever fails second waits
 * here for the end, so there is one message; and not by exit(), whose handlers
 * would take away what the others use.
 */
static void
fail(const char *format,...)
{
	static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
	va_list		arguments;

	pthread_mutex_lock(&first);
	fprintf(stderr, "binary: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	_exit(1);
}

static int64_t
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000) + time.tv_nsec / 1000;
}

/* libpq's messages end with a newline, and there is one already. */
static const char *
message_of(PGconn *conn)
{
	char	   *message = PQerrorMessage(conn);
	size_t		length = strlen(message);

	while (length > 0 && message[length - 1] == '\n')
		message[--length] = '\0';
	return message;
}

static PGresult *
checked(Client *client, PGresult *result, const char *what)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		fail("Client %d could not %s: %s", client->number, what, message_of(client->conn));
	return result;
}

/* Binary values are not converted: what the claim gives has to be of the type that the ack takes. */
static void
check_types(Client *client)
{
	PGresult   *claim = checked(client, PQdescribePrepared(client->conn, "claim"), "ask what the claim returns");
	PGresult   *ack = checked(client, PQdescribePrepared(client->conn, "ack"), "ask what the ack takes");

	if (PQnfields(claim) != 1)
		fail("The claim should return one column, not %d: %s", PQnfields(claim), claim_sql);
	if (PQnparams(ack) != 1)
		fail("The ack should have one parameter, not %d: %s", PQnparams(ack), ack_sql);
	if (PQftype(claim, 0) != PQparamtype(ack, 0))
		fail("The claim returns values of type %u, but the ack takes those of type %u.",
			 PQftype(claim, 0), PQparamtype(ack, 0));
	PQclear(claim);
	PQclear(ack);
}

static void
open_connection(Client *client)
{
	client->conn = PQconnectdb("fallback_application_name=binary");
	if (PQstatus(client->conn) != CONNECTION_OK)
		fail("Client %d could not connect: %s", client->number, message_of(client->conn));
	PQclear(checked(client, PQprepare(client->conn, "claim", claim_sql, 0, NULL), "prepare the claim"));
	PQclear(checked(client, PQprepare(client->conn, "ack", ack_sql, 0, NULL), "prepare the ack"));
	check_types(client);
}

static void
claim_and_ack(Client *client)
{
	PGresult   *claimed;
	const char *values[1];
	int			lengths[1];
	const int	formats[1] = {BINARY};

	claimed = checked(client, PQexecPrepared(client->conn, "claim", 0, NULL, NULL, NULL, BINARY), "claim");
	if (PQntuples(claimed) != 1)
		fail("The claim should return one row, but returned %d.", PQntuples(claimed));
	if (PQgetisnull(claimed, 0, 0))
		fail("The claim should return an array, but returned NULL.");
	values[0] = PQgetvalue(claimed, 0, 0);
	lengths[0] = PQgetlength(claimed, 0, 0);
	PQclear(checked(client, PQexecPrepared(client->conn, "ack", 1, values, lengths, formats, BINARY), "acknowledge"));
	PQclear(claimed);
}

static void *
run(void *argument)
{
	Client	   *client = argument;

	open_connection(client);
	pthread_barrier_wait(&ready);
	for (int i = 0; i < ntransactions; i++)
	{
		client->transactions[i].start = now();
		claim_and_ack(client);
		client->transactions[i].end = now();
	}
	PQfinish(client->conn);
	return NULL;
}

static void
write_log(const char *path, const Client *clients)
{
	FILE	   *log = fopen(path, "w");

	if (log == NULL)
		fail("\"%s\" could not be written: %s", path, strerror(errno));
	for (int i = 0; i < nclients; i++)
		for (int k = 0; k < ntransactions; k++)
		{
			const Transaction *each = &clients[i].transactions[k];

			fprintf(log, "%d %d %" PRId64 " 0 %" PRId64 " %06" PRId64 "\n", i, k + 1, each->end - each->start,
					each->end / 1000000, each->end % 1000000);
		}
	if (ferror(log) != 0 || fclose(log) != 0)
		fail("\"%s\" could not be written: %s", path, strerror(errno));
}

static int
positive(const char *text, const char *what)
{
	char	   *end;
	long		number = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || number < 1 || number > INT_MAX)
		fail("The number of %s should be one from 1 on, not \"%s\".", what, text);
	return (int) number;
}

int
main(int argc, char **argv)
{
	Client	   *clients;
	int64_t		start = INT64_MAX;
	int64_t		end = 0;
	double		seconds;
	double		total;

	if (argc != 6)
		fail("It takes five arguments: the number of clients, that of the transactions of each,"
			 " a file for the log, the claim and the ack.");
	nclients = positive(argv[1], "clients");
	ntransactions = positive(argv[2], "transactions");
	claim_sql = argv[4];
	ack_sql = argv[5];

	clients = calloc(nclients, sizeof(Client));
	if (clients == NULL || pthread_barrier_init(&ready, NULL, nclients + 1) != 0)
		fail("There is no memory for %d clients.", nclients);
	for (int i = 0; i < nclients; i++)
	{
		clients[i].number = i;
		clients[i].transactions = calloc(ntransactions, sizeof(Transaction));
		if (clients[i].transactions == NULL)
			fail("There is no memory for the times of %d transactions.", ntransactions);
		errno = pthread_create(&clients[i].thread, NULL, run, &clients[i]);
		if (errno != 0)
			fail("The thread of client %d could not be started: %s", i, strerror(errno));
	}
	pthread_barrier_wait(&ready);
	for (int i = 0; i < nclients; i++)
	{
		const Transaction *each = clients[i].transactions;

		pthread_join(clients[i].thread, NULL);
		if (each[0].start < start)
			start = each[0].start;
		if (each[ntransactions - 1].end > end)
			end = each[ntransactions - 1].end;
	}

	seconds = (end - start) / 1e6;
	total = (double) nclients * ntransactions;
	write_log(argv[3], clients);
	printf("number of transactions actually processed: %.0f\n", total);
	printf("latency average = %.3f ms\n", 1000.0 * seconds * nclients / total);
	printf("tps = %.6f (without initial connection time)\n", total / seconds);
	return 0;
}
