/*-------------------------------------------------------------------------
 *
 * replenished_tasks.h
 *	  Which tasks of the overflow have been given entries, and count as ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_REPLENISHED_TASKS_H
#define FAIRQ_REPLENISHED_TASKS_H

typedef enum ReplenishedTask
{
	REPLENISHED_NEW,			/* it is from now on */
	REPLENISHED_KNOWN,			/* it was before */
	REPLENISHED_NO_ROOM
} ReplenishedTask;

extern Size replenished_tasks_shmem_size(void);
extern void replenished_tasks_shmem_init(void *area, bool found);

extern ReplenishedTask replenished_tasks_add(int queue, int64 task);
extern bool replenished_tasks_take(int queue, int64 task);
extern bool replenished_tasks_has(int queue, int64 task);
extern void replenished_tasks_forget_queue(int queue);

#endif							/* FAIRQ_REPLENISHED_TASKS_H */
