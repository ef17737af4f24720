/*
 * load.c
 *		What pgbench is to the other systems: clients of Redis that run a step
 *		again and again, each in a thread with a connection of its own, and each
 *		waiting for one answer before it sends the next command.
 *
 *	load SOCKET SCRIPT-DIRECTORY STEP CLIENTS BATCH SECONDS TRANSACTIONS
 *
 * STEP is enqueue, enqueue_many, claim_one, claim_many or cycle. It ends after
 * TRANSACTIONS by all clients together, or if that is 0 after SECONDS. Prints the
 * time at which each transaction ended, in microseconds since the start, and at
 * last how long the mean one took.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define GROUPS 1000

static const char *payload = "{\"kind\": \"thumbnail\", \"file\": \"uploads/2024/05/17/0001234.jpg\", \"width\": 640, \"user\": 1234567}";

typedef struct Client
{
	pthread_t	thread;
	int			number;
	int			fd;
	unsigned int seed;
	char	   *out;			/* the command being put together */
	size_t		out_used,
				out_size;
	char		in[65536];
	size_t		in_at,
				in_used;
	char	  **ids;			/* of the last claim */
	int			nids;
	long		limit;			/* of transactions; 0: none */
	long		done;
	long	   *ended;
	long		ended_size;
} Client;

static const char *socket_path;
static const char *step;
static int	batch;
static double seconds;
static struct timespec start;
static char sha_enqueue[41],
			sha_claim[41],
			sha_ack[41];

static void
fail(const char *what)
{
	fprintf(stderr, "load: %s (%s)\n", what, strerror(errno));
	exit(1);
}

static long
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - start.tv_sec) * 1000000L + (now.tv_nsec - start.tv_nsec) / 1000;
}

static void
append(Client *client, const char *data, size_t length)
{
	if (client->out_used + length > client->out_size)
	{
		client->out_size = 2 * (client->out_used + length);
		client->out = realloc(client->out, client->out_size);
		if (client->out == NULL)
			fail("out of memory");
	}
	memcpy(client->out + client->out_used, data, length);
	client->out_used += length;
}

static void
command(Client *client, int words)
{
	char		head[32];

	client->out_used = 0;
	append(client, head, sprintf(head, "*%d\r\n", words));
}

static void
word(Client *client, const char *text)
{
	char		head[32];
	size_t		length = strlen(text);

	append(client, head, sprintf(head, "$%zu\r\n", length));
	append(client, text, length);
	append(client, "\r\n", 2);
}

static void
send_command(Client *client)
{
	size_t		sent = 0;

	while (sent < client->out_used)
	{
		ssize_t		n = write(client->fd, client->out + sent, client->out_used - sent);

		if (n <= 0 && errno != EINTR)
			fail("the connection was closed");
		if (n > 0)
			sent += n;
	}
}

static char
next_char(Client *client)
{
	if (client->in_at == client->in_used)
	{
		ssize_t		n;

		do
			n = read(client->fd, client->in, sizeof(client->in));
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			fail("the connection was closed");
		client->in_at = 0;
		client->in_used = n;
	}
	return client->in[client->in_at++];
}

static void
read_line(Client *client, char *line, size_t size)
{
	size_t		n = 0;
	char		c;

	while ((c = next_char(client)) != '\r')
		if (n < size - 1)
			line[n++] = c;
	line[n] = '\0';
	next_char(client);
}

/* A reply that is not an array; the caller frees it. */
static char *
read_scalar(Client *client)
{
	char		line[512];
	char	   *value;
	long		length;

	read_line(client, line, sizeof(line));
	if (line[0] == '-')
	{
		fprintf(stderr, "load: %s\n", line + 1);
		exit(1);
	}
	if (line[0] != '$')
		return strdup(line + 1);
	length = atol(line + 1);
	if (length < 0)
		return strdup("");
	value = malloc(length + 1);
	for (long i = 0; i < length; i++)
		value[i] = next_char(client);
	value[length] = '\0';
	next_char(client);
	next_char(client);
	return value;
}

/* An array of id, payload, id, payload … of which the ids are kept. */
static void
read_tasks(Client *client)
{
	char		line[512];
	long		n;

	for (int i = 0; i < client->nids; i++)
		free(client->ids[i]);
	client->nids = 0;
	read_line(client, line, sizeof(line));
	if (line[0] != '*')
	{
		fprintf(stderr, "load: %s\n", line);
		exit(1);
	}
	n = atol(line + 1);
	for (long i = 0; i < n; i += 2)
	{
		client->ids[client->nids++] = read_scalar(client);
		free(read_scalar(client));
	}
}

static void
connect_client(Client *client)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strncpy(address.sun_path, socket_path, sizeof(address.sun_path) - 1);
	client->fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (client->fd < 0 || connect(client->fd, (struct sockaddr *) &address, sizeof(address)) != 0)
		fail("no connection");
	client->ids = calloc(batch + 1, sizeof(char *));
}

static void
enqueue(Client *client, int tasks)
{
	char		number[16];

	command(client, 4 + 2 * tasks);
	word(client, "EVALSHA");
	word(client, sha_enqueue);
	word(client, "1");
	word(client, "bench");
	for (int i = 0; i < tasks; i++)
	{
		sprintf(number, "g%d", rand_r(&client->seed) % GROUPS);
		word(client, number);
		word(client, payload);
	}
	send_command(client);
	free(read_scalar(client));
}

static void
claim(Client *client, int tasks)
{
	char		number[16];

	command(client, 6);
	word(client, "EVALSHA");
	word(client, sha_claim);
	word(client, "1");
	word(client, "bench");
	sprintf(number, "%d", tasks);
	word(client, number);
	sprintf(number, "w%d", client->number);
	word(client, number);
	send_command(client);
	read_tasks(client);
}

static void
ack(Client *client)
{
	char		number[16];

	if (client->nids == 0)
		return;
	command(client, 5 + client->nids);
	word(client, "EVALSHA");
	word(client, sha_ack);
	word(client, "1");
	word(client, "bench");
	sprintf(number, "w%d", client->number);
	word(client, number);
	for (int i = 0; i < client->nids; i++)
		word(client, client->ids[i]);
	send_command(client);
	free(read_scalar(client));
}

static void *
run(void *argument)
{
	Client	   *client = argument;
	bool		many = strcmp(step, "enqueue_many") == 0 || strcmp(step, "claim_many") == 0 ||
		strcmp(step, "cycle") == 0;
	int			tasks = many ? batch : 1;
	bool		enqueues = strncmp(step, "claim", 5) != 0;
	bool		claims = strncmp(step, "enqueue", 7) != 0;

	connect_client(client);
	while (client->limit ? client->done < client->limit : now_us() < seconds * 1e6)
	{
		if (enqueues)
			enqueue(client, tasks);
		if (claims)
		{
			claim(client, tasks);
			ack(client);
		}
		if (client->done == client->ended_size)
		{
			client->ended_size = 2 * client->ended_size + 1024;
			client->ended = realloc(client->ended, client->ended_size * sizeof(long));
			if (client->ended == NULL)
				fail("out of memory");
		}
		client->ended[client->done++] = now_us();
	}
	return NULL;
}

static void
load_script(Client *client, const char *directory, const char *name, char *sha)
{
	char		path[4096];
	char		script[8192];
	size_t		length;
	FILE	   *file;
	char	   *reply;

	snprintf(path, sizeof(path), "%s/%s.lua", directory, name);
	file = fopen(path, "r");
	if (file == NULL)
		fail(path);
	length = fread(script, 1, sizeof(script) - 1, file);
	script[length] = '\0';
	fclose(file);
	command(client, 3);
	word(client, "SCRIPT");
	word(client, "LOAD");
	word(client, script);
	send_command(client);
	reply = read_scalar(client);
	strncpy(sha, reply, 40);
	free(reply);
}

int
main(int argc, char **argv)
{
	Client	   *clients;
	int			nclients;
	long		transactions;
	long		total = 0;

	if (argc != 8)
	{
		fprintf(stderr, "load: wrong arguments\n");
		return 2;
	}
	socket_path = argv[1];
	step = argv[3];
	nclients = atoi(argv[4]);
	batch = atoi(argv[5]);
	seconds = atof(argv[6]);
	transactions = atol(argv[7]);

	clients = calloc(nclients + 1, sizeof(Client));
	connect_client(&clients[nclients]);
	load_script(&clients[nclients], argv[2], "enqueue", sha_enqueue);
	load_script(&clients[nclients], argv[2], "claim", sha_claim);
	load_script(&clients[nclients], argv[2], "ack", sha_ack);

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < nclients; i++)
	{
		clients[i].number = i;
		clients[i].seed = i + 1;
		clients[i].limit = transactions > 0 ? (transactions + nclients - 1) / nclients : 0;
		if (pthread_create(&clients[i].thread, NULL, run, &clients[i]) != 0)
			fail("no thread");
	}
	for (int i = 0; i < nclients; i++)
	{
		pthread_join(clients[i].thread, NULL);
		total += clients[i].done;
		for (long k = 0; k < clients[i].done; k++)
			printf("%ld\n", clients[i].ended[k]);
	}
	fprintf(stderr, "mean %.6f\n", total ? now_us() / 1000.0 * nclients / total : 0.0);
	return 0;
}
