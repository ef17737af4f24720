/*-------------------------------------------------------------------------
 *
 * node_health.h
 *	  Which servers of nodes answer, as the probe of a proxy has found.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_HEALTH_H
#define FAIRQ_NODE_HEALTH_H

/* The longest address that is probed, with its end. */
#define NODE_ADDRESS_LENGTH		256

/* How many servers the table has room for. */
#define NODE_HEALTH_SERVERS		512

/* What is known of a server. */
typedef enum NodeHealth
{
	NODE_HEALTH_UNKNOWN,		/* not probed, or not lately */
	NODE_HEALTH_WELL,			/* answers, or refuses at once */
	NODE_HEALTH_SILENT			/* does neither */
} NodeHealth;

extern Size node_health_shmem_size(void);
extern void node_health_shmem_init(void *area, bool found);
extern int	node_health_find(const char *address);
extern void node_health_want(int server);
extern NodeHealth node_health_of(int server);
extern int64 node_health_well_since(int server);
extern bool node_health_take_start(void);
extern bool node_health_probe_begin(void);
extern int	node_health_servers(void);
extern bool node_health_wanted(int server, char *address);
extern void node_health_judge(int server, bool silent);

#endif							/* FAIRQ_NODE_HEALTH_H */
