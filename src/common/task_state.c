/*-------------------------------------------------------------------------
 *
 * task_state.c
 *	  The states of tasks, and the counters of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/task_state.h"

/*
 * The depth that a task counts in, by what column state says.
 */
QueueCounter
task_state_depth(char state)
{
	switch (state)
	{
		case TASK_SCHEDULED:
			return QUEUE_SCHEDULED;
		case TASK_OVERFLOW:
			return QUEUE_OVERFLOW;
		case TASK_HELD:
			return QUEUE_HELD;
		case TASK_DEAD:
			return QUEUE_DEAD;
	}
	return QUEUE_ADDRESSED;
}

/*
 * What users call a state.  A ready task may be leased; the row does not say.
 */
const char *
task_state_name(char state)
{
	switch (state)
	{
		case TASK_SCHEDULED:
			return "scheduled";
		case TASK_OVERFLOW:
			return "overflow";
		case TASK_HELD:
			return "held";
		case TASK_DEAD:
			return "dead";
	}
	return "ready";
}
