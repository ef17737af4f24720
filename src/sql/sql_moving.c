/*-------------------------------------------------------------------------
 *
 * sql_moving.c
 *	  What moving tasks between nodes needs beside SQL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "common/run_as.h"
#include "sql/arguments.h"
#include "sql/result_rows.h"
#include "storage/queue_open.h"
#include "storage/row_reader.h"

PG_FUNCTION_INFO_V1(fairq_as_owner);
PG_FUNCTION_INFO_V1(fairq_tasks_here);

/*
 * fairq_internal.as_owner(queue, statement, argument): for administrators, who
 * may do it anyway.  The owner's triggers, constraints and expressions run as
 * the owner, and in a context where they cannot become the caller: neither now,
 * nor in a deferred trigger.
 */
Datum
fairq_as_owner(PG_FUNCTION_ARGS)
{
	Relation	rel;
	RunAs		context;
	Oid			type = JSONBOID;
	Datum		value = PG_GETARG_DATUM(2);
	int			result;

	arguments_begin(fcinfo);
	if (PG_ARGISNULL(1))
		arguments_null(fcinfo, "statement", "Give a statement.");
	(void) queue_open(arguments_queue(fcinfo), RowExclusiveLock, 0, &rel);
	result_rows_begin(fcinfo);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	run_as_owner(rel->rd_rel->relowner, RelationGetRelid(rel), &context);
	result = SPI_execute_with_args(text_to_cstring(PG_GETARG_TEXT_PP(1)), 1, &type, &value,
								   PG_ARGISNULL(2) ? "n" : " ", false, 0);
	run_as_end(&context);
	if (result < 0)
		elog(ERROR, "SPI_execute_with_args failed (%s)", SPI_result_code_string(result));
	if (SPI_tuptable != NULL && SPI_gettypeid(SPI_tuptable->tupdesc, 1) != JSONBOID)
		arguments_invalid(fcinfo, "statement", text_to_cstring(PG_GETARG_TEXT_PP(1)),
						  "Give one that returns rows of one column of type jsonb, or none.");
	for (uint64 i = 0; SPI_tuptable != NULL && i < SPI_processed; i++)
	{
		bool		isnull;
		Datum		row = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);

		result_rows_put((ReturnSetInfo *) fcinfo->resultinfo, &row, &isnull);
	}
	SPI_finish();
	relation_close(rel, NoLock);
	return (Datum) 0;
}

/*
 * fairq_internal.tasks_here(queue, ids): those of the ids whose tasks are in
 * the queue, also if they are dead.  For whoever may enqueue, and with the same
 * eyes as an enqueue that waits for them.
 */
Datum
fairq_tasks_here(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	RowReader	row;
	Datum	   *ids;
	int			n;
	int			here = 0;

	arguments_begin(fcinfo);
	n = arguments_array(fcinfo, 1, "ids", INT8OID, &ids, NULL);
	if (n < 0)
		arguments_null(fcinfo, "ids", "Give the ids of tasks.");
	info = queue_open(arguments_queue(fcinfo), AccessShareLock, ACL_INSERT, &rel);
	row_reader_begin(&row, rel, info);
	row.brief = true;
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (row_reader_task(&row, DatumGetInt64(ids[i]), NULL) != ROW_GONE)
			ids[here++] = ids[i];
	}
	row_reader_end(&row);
	relation_close(rel, NoLock);
	PG_RETURN_ARRAYTYPE_P(result_rows_array(ids, here, INT8OID));
}
