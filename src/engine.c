/*-------------------------------------------------------------------------
 *
 * engine.c
 *	  What the library of a proxy, pgfairq_cluster, calls of this one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/run_as.h"
#include "common/wall_clock.h"
#include "engine.h"
#include "sql/arguments.h"
#include "sql/result_rows.h"

const FairqEngine fairq_engine = {
	.version = FAIRQ_VERSION,
	.arguments_function = arguments_function,
	.arguments_null = arguments_null,
	.arguments_queue = arguments_queue,
	.arguments_queues = arguments_queues,
	.arguments_concern = arguments_concern,
	.arguments_duration = arguments_duration,
	.arguments_max_tasks = arguments_max_tasks,
	.arguments_outside_transaction = arguments_outside_transaction,
	.result_rows_begin = result_rows_begin,
	.result_rows_put = result_rows_put,
	.own_table_require = own_table_require,
	.own_table_owner = own_table_owner,
	.own_table_open = own_table_open,
	.own_table_column = own_table_column,
	.own_table_execute = own_table_execute,
	.run_as_try = run_as_try,
	.run_as_try_all = run_as_try_all,
	.wall_clock_real = wall_clock_real,
	.wall_clock_usecs = wall_clock_usecs,
};
