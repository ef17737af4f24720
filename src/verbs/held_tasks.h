/*-------------------------------------------------------------------------
 *
 * held_tasks.h
 *	  Tasks that are held behind others of their unique keys become ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_HELD_TASKS_H
#define FAIRQ_HELD_TASKS_H

#include "storage/row_reader.h"
#include "verbs/placement.h"

extern void held_tasks_gone(RowReader *row);
extern bool held_tasks_let_run(Placement *placement, RowReader *row,
							   const ItemPointerData *tid);
extern void held_tasks_register(void);

#endif							/* FAIRQ_HELD_TASKS_H */
