/*-------------------------------------------------------------------------
 *
 * fed_tasks.h
 *	  Which tasks of the overflow have been given places, and count as ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_FED_TASKS_H
#define FAIRQ_FED_TASKS_H

typedef enum FedTask
{
	FED_NEW,					/* it is from now on */
	FED_KNOWN,					/* it was before */
	FED_NO_ROOM
} FedTask;

extern Size fed_tasks_shmem_size(void);
extern void fed_tasks_shmem_init(void *area, bool found);

extern FedTask fed_tasks_add(int queue, int64 task);
extern bool fed_tasks_take(int queue, int64 task);
extern bool fed_tasks_has(int queue, int64 task);
extern void fed_tasks_forget_queue(int queue);

#endif							/* FAIRQ_FED_TASKS_H */
