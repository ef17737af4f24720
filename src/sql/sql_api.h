/*-------------------------------------------------------------------------
 *
 * sql_api.h
 *	  What the files with SQL functions share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SQL_API_H
#define FAIRQ_SQL_API_H

#include "fmgr.h"
#include "nodes/execnodes.h"

#include "shmem/leases.h"
#include "storage/queue_relation.h"

/* sql_rows.c */
extern void sql_api_begin_rows(FunctionCallInfo fcinfo);
extern void sql_api_put_row(ReturnSetInfo *rsinfo, const Datum *values, const bool *nulls);
extern void sql_api_put_task(RowReader *row, const LeaseInfo *lease, void *arg);

#endif							/* FAIRQ_SQL_API_H */
