/*-------------------------------------------------------------------------
 *
 * engine.h
 *	  What the library of a proxy, pgfairq_cluster, calls of this one.
 *
 * A proxy has no queues, and works where this library is not preloaded.  It
 * calls these functions alone.  So a proxy and a node refuse an argument in the
 * same words, and tables of the extensions are read and written in one way.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ENGINE_H
#define FAIRQ_ENGINE_H

#include "fmgr.h"
#include "nodes/execnodes.h"

#include "storage/own_table.h"

/* The rendezvous variable of the server by which it is found. */
#define FAIRQ_ENGINE	"pgfairq engine"

typedef struct FairqEngine
{
	const char *version;		/* first: the rest is as that version has it */

	/* sql/arguments.h: arguments are checked at a proxy as at a node */
	const char *(*arguments_function) (FunctionCallInfo fcinfo);
	void		(*arguments_null) (FunctionCallInfo fcinfo, const char *argument,
								   const char *hint);
	text	   *(*arguments_queue) (FunctionCallInfo fcinfo);
	int			(*arguments_queues) (FunctionCallInfo fcinfo, text ***names);
	void		(*arguments_concern) (const text *queue);
	int64		(*arguments_duration) (FunctionCallInfo fcinfo, int number,
									   const char *argument, int64 fallback, bool zero_ok);
	int			(*arguments_max_tasks) (FunctionCallInfo fcinfo, int number, int fallback);
	void		(*arguments_outside_transaction) (FunctionCallInfo fcinfo,
												  const char *instead);

	/* sql/result_rows.h: rows of nodes are passed on */
	void		(*result_rows_begin) (FunctionCallInfo fcinfo);
	void		(*result_rows_put) (ReturnSetInfo *rsinfo, const Datum *values,
									const bool *nulls);

	/* storage/own_table.h: fairq.node and others are tables of a proxy */
	Oid			(*own_table_require) (const char *schema, const char *name);
	Oid			(*own_table_owner) (const char *schema, const char *name);
	Relation	(*own_table_open) (const char *schema, const char *name, LOCKMODE lockmode);
	Datum		(*own_table_column) (Relation table, HeapTuple tuple, AttrNumber column);
	uint64		(*own_table_execute) (Oid owner, OwnStatement *statement, Datum *values,
									  const char *nulls);

	/* common/run_as.h: a call of a node may fail */
	ErrorData  *(*run_as_try) (void (*work) (void *arg), void *arg);
	ErrorData  *(*run_as_try_all) (void (*work) (void *arg), void *arg);

	/* common/wall_clock.h: how long it has taken */
	int64		(*wall_clock_real) (void);
	int64		(*wall_clock_usecs) (const Interval *interval);
} FairqEngine;

extern const FairqEngine fairq_engine;

#endif							/* FAIRQ_ENGINE_H */
