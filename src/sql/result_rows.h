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
#include "utils/array.h"

#include "shmem/leases.h"
#include "storage/row_reader.h"

/* The most that a row has, that of view fairq.queue_stats. */
#define RESULT_COLUMNS	35

/* A row that is made column by column, from the first one on. */
typedef struct ResultRow
{
	int			n;				/* columns that it has */
	Datum		values[RESULT_COLUMNS];
	bool		nulls[RESULT_COLUMNS];
} ResultRow;

/* The next column; null unless it is known. */
static inline void
result_rows_add_if(ResultRow *row, bool known, Datum value)
{
	Assert(row->n < RESULT_COLUMNS);
	row->nulls[row->n] = !known;
	row->values[row->n++] = value;
}

static inline void
result_rows_add(ResultRow *row, Datum value)
{
	result_rows_add_if(row, true, value);
}

extern void result_rows_add_usecs(ResultRow *row, bool known, int64 usecs);
extern void result_rows_end(ResultRow *row, ReturnSetInfo *rsinfo);
extern Datum result_rows_composite(ResultRow *row, FunctionCallInfo fcinfo);
extern ArrayType *result_rows_array(Datum *elements, int n, Oid type);

extern void result_rows_begin(FunctionCallInfo fcinfo);
extern void result_rows_put(ReturnSetInfo *rsinfo, const Datum *values, const bool *nulls);
extern void result_rows_put_task(RowReader *row, const LeaseInfo *lease, void *arg);
extern void result_rows_put_queue_task(RowReader *row, const LeaseInfo *lease,
									   ReturnSetInfo *rsinfo, const text *queue);

#endif							/* FAIRQ_RESULT_ROWS_H */
