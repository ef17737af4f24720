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

#include "leases.h"
#include "queue_relation.h"

extern void sql_api_put_task(RowReader *row, const LeaseInfo *lease, void *arg);

#endif							/* FAIRQ_SQL_API_H */
