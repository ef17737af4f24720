/*-------------------------------------------------------------------------
 *
 * node_health.h
 *	  Which servers of nodes answer, as the probe of a proxy has found.
 *
 * The head of node_health.c says what is locked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_HEALTH_H
#define FAIRQ_NODE_HEALTH_H

/* Its lock, as pg_stat_activity shows it. */
#define NODE_HEALTH_TRANCHE		"FairqNode"

/* The longest address that is probed, with its end. */
#define NODE_ADDRESS_LENGTH		256

/* How many servers the table has room for. */
#define NODE_HEALTH_SERVERS		512

/*
 * What is known of a server.  A server is known by its number, from 0 on, which
 * is good for as long as this server runs; -1 is one of which nothing is known.
 */
typedef enum NodeHealth
{
	NODE_HEALTH_UNKNOWN,		/* not probed, or not lately */
	NODE_HEALTH_WELL,			/* answers, or refuses at once */
	NODE_HEALTH_SILENT			/* does neither */
} NodeHealth;

extern Size node_health_shmem_size(void);
extern void node_health_shmem_init(void *area, bool found);

/*
 * For backends of a proxy.  None fails.  node_health_find and
 * node_health_take_start take the table's lock, which is the last of ours; the
 * others read atomics alone.
 */
extern int	node_health_find(const char *address);
extern void node_health_want(int server);
extern NodeHealth node_health_of(int server);
extern int64 node_health_well_since(int server);
extern bool node_health_take_start(void);

/* For the probe, of which there is one.  server is not -1. */
extern bool node_health_probe_begin(void);
extern int	node_health_servers(void);
extern bool node_health_wanted(int server, char *address);
extern void node_health_judge(int server, bool silent);

/* node_probe.c: the process that finds out */
extern void node_probe_settings_define(void);
extern void node_probe_start(void);
extern PGDLLEXPORT void node_probe_main(Datum arg);

#endif							/* FAIRQ_NODE_HEALTH_H */
