/*-------------------------------------------------------------------------
 *
 * refilled_tasks.h
 *	  Which tasks of the overflow have been given entries, and count as ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_REFILLED_TASKS_H
#define FAIRQ_REFILLED_TASKS_H

typedef enum RefilledTask
{
	REFILLED_NEW,					/* it is from now on */
	REFILLED_KNOWN,					/* it was before */
	REFILLED_NO_ROOM
} RefilledTask;

extern Size refilled_tasks_shmem_size(void);
extern void refilled_tasks_shmem_init(void *area, bool found);

extern RefilledTask refilled_tasks_add(int queue, int64 task);
extern bool refilled_tasks_take(int queue, int64 task);
extern bool refilled_tasks_has(int queue, int64 task);
extern void refilled_tasks_forget_queue(int queue);

#endif							/* FAIRQ_REFILLED_TASKS_H */
