/*-------------------------------------------------------------------------
 *
 * result_rows.c
 *	  The rows that functions of schema fairq return.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "funcapi.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "sql/result_rows.h"

/* See keep_memory. */
#define KEPT_MEMORY		(512 * 1024)

/* A longer row is left to core. */
#define ROW_BYTES		4096
#define ROW_COLUMNS		16

/* Of fairq.task. */
#define TASK_COLUMNS	13

/*
 * The text of a hundred receipts takes more memory than glibc keeps at the end
 * of the heap: 128 kB, until a piece of more than that has been allocated and
 * freed, and then twice as much as that piece.  So without this each statement
 * of a session that claims might give pages back to the system and take them
 * again, zeroed, which is a tenth of its time.
 */
static void
keep_memory(void)
{
	static bool kept = false;

	if (likely(kept))
		return;
	kept = true;
	pfree(MemoryContextAlloc(TopMemoryContext, KEPT_MEMORY));
}

/*
 * A function is going to return rows.
 */
void
result_rows_begin(FunctionCallInfo fcinfo)
{
	keep_memory();
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
}

/*
 * Return a row.  As tuplestore_putvalues does, which however goes through the
 * columns twice, with a call for each: a twentieth of what a task costs that is
 * claimed with others.
 */
void
result_rows_put(ReturnSetInfo *rsinfo, const Datum *values, const bool *nulls)
{
	TupleDesc	desc = rsinfo->setDesc;
	union
	{
		HeapTupleHeaderData header;
		char		bytes[ROW_BYTES];
		double		aligned;
	}			row;
	HeapTupleData tuple = {0};
	HeapTupleHeader header = &row.header;
	Size		lengths[ROW_COLUMNS];
	bool		has_nulls = false;
	Size		head = MAXALIGN(SizeofHeapTupleHeader + BITMAPLEN(ROW_COLUMNS));
	Size		most = head;
	char	   *start = row.bytes + head;
	Size		offset = 0;

	Assert(desc->natts <= ROW_COLUMNS);
	for (int i = 0; i < desc->natts; i++)
	{
		int			length = TupleDescAttr(desc, i)->attlen;

		has_nulls |= nulls[i];
		if (!nulls[i])
		{
			lengths[i] = length > 0 ? (Size) length : VARSIZE_ANY(DatumGetPointer(values[i]));
			most += lengths[i] + MAXIMUM_ALIGNOF;
		}
	}
	if (most > sizeof(row))
	{
		/* It does not change them. */
		tuplestore_putvalues(rsinfo->setResult, desc, unconstify(Datum *, values),
							 unconstify(bool *, nulls));
		return;
	}

	/* What is between values has to be zero, or would be taken for a length. */
	memset(&row, 0, most);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(desc, i);

		if (nulls[i])
			continue;
		header->t_bits[i >> 3] |= 1 << (i & 7);
		if (column->attbyval)
		{
			offset = att_align_nominal(offset, column->attalign);
			store_att_byval(start + offset, values[i], column->attlen);
		}
		else
		{
			offset = att_align_datum(offset, column->attalign, column->attlen, values[i]);
			memcpy(start + offset, DatumGetPointer(values[i]), lengths[i]);
			if (column->attlen < 0)
			{
				header->t_infomask |= HEAP_HASVARWIDTH;
				if (VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
					header->t_infomask |= HEAP_HASEXTERNAL;
			}
		}
		offset += lengths[i];
	}
	if (has_nulls)
		header->t_infomask |= HEAP_HASNULL;
	HeapTupleHeaderSetNatts(header, desc->natts);
	header->t_hoff = head;
	tuple.t_data = header;
	tuple.t_len = head + offset;
	tuplestore_puttuple(rsinfo->setResult, &tuple);
}

/* The next column: an interval. */
void
result_rows_add_usecs(ResultRow *row, bool known, int64 usecs)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = usecs;
	result_rows_add_if(row, known, IntervalPGetDatum(interval));
}

/*
 * Return a row that is made, and begin the next one.
 */
void
result_rows_end(ResultRow *row, ReturnSetInfo *rsinfo)
{
	Assert(row->n == rsinfo->setDesc->natts);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
	row->n = 0;
}

/*
 * A row that is made as the one result of a function.
 */
Datum
result_rows_composite(ResultRow *row, FunctionCallInfo fcinfo)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	Assert(row->n == tupdesc->natts);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), row->values, row->nulls));
}

/*
 * An array without nulls.
 */
ArrayType *
result_rows_array(Datum *elements, int n, Oid type)
{
	int16		length;
	bool		by_value;
	char		align;

	get_typlenbyvalalign(type, &length, &by_value, &align);
	return construct_array(elements, n, type, length, by_value, align);
}

/*
 * One row of type fairq.task; if the queue is given, of type fairq.queue_task.
 * lease is NULL for those who only look.
 */
static inline void
put_task(RowReader *row, const LeaseInfo *lease, ReturnSetInfo *rsinfo, const text *queue)
{
	Datum		columns[TASK_COLUMNS + 1];
	bool		is_null[TASK_COLUMNS + 1] = {false};
	int			before = (queue != NULL) ? 1 : 0;
	Datum	   *values = columns + before;
	bool	   *nulls = is_null + before;
	pg_uuid_t	receipt;
	TimestampTz until;

	if (queue != NULL)
		columns[0] = PointerGetDatum(queue);
	values[0] = row_value(row, COLUMN_ID);
	values[2] = row_value(row, COLUMN_GROUP_KEY);
	values[3] = row_value(row, COLUMN_PAYLOAD);
	values[4] = row_value(row, COLUMN_HEADERS);
	nulls[4] = row_is_null(row, COLUMN_HEADERS);
	values[5] = row_value(row, COLUMN_PRIORITY);
	values[7] = row_value(row, COLUMN_ENQUEUED_AT);
	values[9] = row_value(row, COLUMN_ADDRESS);
	values[10] = row_value(row, COLUMN_EXPIRES_AT);
	values[11] = row_value(row, COLUMN_NAME);
	nulls[11] = row_is_null(row, COLUMN_NAME);
	values[12] = row_value(row, COLUMN_SUBGROUP_KEY);
	nulls[12] = row_is_null(row, COLUMN_SUBGROUP_KEY);
	/* Rows that are written with SQL may have infinite times. */
	nulls[7] = TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(values[7]));
	nulls[10] = row_is_null(row, COLUMN_EXPIRES_AT) ||
		TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(values[10]));
	if (lease != NULL)
	{
		leases_to_receipt(lease, &receipt);
		values[1] = UUIDPGetDatum(&receipt);
		values[6] = Int32GetDatum(lease->attempt);
		nulls[8] = !leases_until(lease, &until);
		values[8] = TimestampTzGetDatum(until);
	}
	else
	{
		nulls[1] = nulls[8] = true;
		values[6] = Int32GetDatum(row_reader_attempt(row));
	}
	result_rows_put(rsinfo, columns, is_null);
}

void
result_rows_put_task(RowReader *row, const LeaseInfo *lease, void *arg)
{
	put_task(row, lease, arg, NULL);
}

void
result_rows_put_queue_task(RowReader *row, const LeaseInfo *lease,
						   ReturnSetInfo *rsinfo, const text *queue)
{
	put_task(row, lease, rsinfo, queue);
}
