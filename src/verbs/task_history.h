/*-------------------------------------------------------------------------
 *
 * task_history.h
 *	  How the last runs of a task have ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_TASK_HISTORY_H
#define FAIRQ_TASK_HISTORY_H

#include "shmem/leases.h"
#include "storage/row_reader.h"

extern void task_history_add(RowReader *row, const LeaseInfo *lease, bool lost,
							 const text *error);
extern const char *task_history_worker(const LeaseInfo *lease);

#endif							/* FAIRQ_TASK_HISTORY_H */
