/*-------------------------------------------------------------------------
 *
 * task_state.h
 *	  The states of tasks, and the counters of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TASK_STATE_H
#define FAIRQ_TASK_STATE_H

/* What column state says. */
#define TASK_READY		'r'		/* ready or leased */
#define TASK_SCHEDULED	's'		/* until run_at */
#define TASK_OVERFLOW	'o'		/* until there is room */
#define TASK_HELD		'h'		/* behind another of its unique key */
#define TASK_DEAD		'd'

/* What is counted since stats_reset. */
typedef enum QueueCounter
{
	QUEUE_ENQUEUED,
	QUEUE_CLAIMED,
	QUEUE_ACKED,
	QUEUE_NACKED,
	QUEUE_RELEASED,
	QUEUE_EXPIRED,				/* leases */
	QUEUE_CANCELLED,
	QUEUE_DIED,
	QUEUE_SWEPT,				/* tasks that were in no lane */
	QUEUE_SNOOZED,				/* released with a delay */
	QUEUE_PAYLOAD_BYTES,		/* of what was enqueued */
	QUEUE_EXPIRED_TASKS,		/* that have ended so */
	QUEUE_DEDUPLICATED,			/* enqueues that made no new task */
	QUEUE_NEAR_END,				/* acks near the end of the lease */
	/* how many there are now; never reset */
	QUEUE_ADDRESSED,			/* tasks with an address: ready or leased */
	QUEUE_SCHEDULED,
	QUEUE_OVERFLOW,
	QUEUE_HELD,
	QUEUE_DEAD
} QueueCounter;

/* What is counted of the tasks of a name. */
typedef enum NameCounter
{
	NAME_ENQUEUED,
	NAME_DONE,
	NAME_FAILED,				/* attempts */
	NAME_LOST,					/* leases */
	NAME_DIED
} NameCounter;

#define NAME_COUNTERS	(NAME_DIED + 1)

/* Bytes of a name. */
#define MAX_TASK_NAME	100

#define QUEUE_COUNTERS	(QUEUE_DEAD + 1)
#define QUEUE_FIRST_DEPTH	QUEUE_ADDRESSED

extern QueueCounter task_state_depth(char state);
extern const char *task_state_name(char state);

#endif							/* FAIRQ_TASK_STATE_H */
