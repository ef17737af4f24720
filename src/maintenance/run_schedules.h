/*-------------------------------------------------------------------------
 *
 * run_schedules.h
 *	  Running the schedules that are due.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_RUN_SCHEDULES_H
#define FAIRQ_RUN_SCHEDULES_H

#include "storage/schedule_table.h"
#include "verbs/enqueue.h"

/* Checks a task for a queue, and raises an error if it does not take it. */
typedef void (*ScheduledTaskCheck) (const Schedule *schedule, QueueInfo *info, NewTask *task);

extern void run_schedules_task(const Schedule *schedule, NewTask *task);
extern void run_schedules_register(ScheduledTaskCheck check);
extern bool run_schedules_tick(text *name, TimestampTz *next);
extern void run_schedules_failed(text *name, const ErrorData *error);
extern void run_schedules_by_hand(const text *queue);

#endif							/* FAIRQ_RUN_SCHEDULES_H */
