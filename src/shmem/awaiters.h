/*-------------------------------------------------------------------------
 *
 * awaiters.h
 *	  Who waits for the end of a task, and how they are told.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_AWAITERS_H
#define FAIRQ_AWAITERS_H

/* Instead of how a task has ended: its awaiter is to look. */
#define AWAITERS_LOOK		(-1)

extern Size awaiters_shmem_size(void);
extern void awaiters_shmem_init(void *area, bool found);

/* For those who end tasks; never fail. */
extern bool awaiters_any(int queue, int64 task);
extern void awaiters_tell(int queue, int64 task, int outcome);
extern void awaiters_look_again(int queue);

/* For those who wait. */
extern int	awaiters_begin(int queue, int64 task);
extern bool awaiters_told(void);
extern int	awaiters_outcome(void);
extern void awaiters_end(void);

#endif							/* FAIRQ_AWAITERS_H */
