/*-------------------------------------------------------------------------
 *
 * result_rows.h
 *	  The rows that functions of schema fairq return.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_RESULT_ROWS_H
#define FAIRQ_RESULT_ROWS_H

#include "fmgr.h"
#include "nodes/execnodes.h"

#include "shmem/leases.h"
#include "storage/row_reader.h"

extern void result_rows_begin(FunctionCallInfo fcinfo);
extern void result_rows_put(ReturnSetInfo *rsinfo, const Datum *values, const bool *nulls);
extern void result_rows_put_task(RowReader *row, const LeaseInfo *lease, void *arg);
extern void result_rows_put_queue_task(RowReader *row, const LeaseInfo *lease,
									   ReturnSetInfo *rsinfo, const text *queue);

#endif							/* FAIRQ_RESULT_ROWS_H */
