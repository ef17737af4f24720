/*-------------------------------------------------------------------------
 *
 * group_table.h
 *	  The entries of groups in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_TABLE_H
#define FAIRQ_GROUP_TABLE_H

#include "shmem/queue_state.h"

extern Size group_table_shmem_size(void);
extern void group_table_shmem_init(void *area, bool found);
extern void group_table_forget_queue(int queue);

#endif							/* FAIRQ_GROUP_TABLE_H */
