/*-------------------------------------------------------------------------
 *
 * own_table.h
 *	  The extension's own tables: found by name, written with SQL as their owner.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_OWN_TABLE_H
#define FAIRQ_OWN_TABLE_H

#include "access/genam.h"
#include "access/htup.h"
#include "access/transam.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#define OWN_STATEMENT_PARAMETERS	24

/* The column of a queue's name, in the tables that have one for all queues. */
#define OWN_TABLE_QUEUE	1

/* A statement, and its plan once it was run; one for a process. */
typedef struct OwnStatement
{
	const char *text;
	int			parameters;
	Oid			types[OWN_STATEMENT_PARAMETERS];
	SPIPlanPtr	plan;
} OwnStatement;

/* A read of the rows of a queue that are there now, in order of an index. */
typedef struct OwnScan
{
	Relation	table;
	Relation	index;
	SnapshotData dirty;
	SysScanDesc scan;
} OwnScan;

/* Has another transaction the row in hand that was read last? */
static inline bool
own_table_busy(const OwnScan *scan)
{
	return TransactionIdIsValid(scan->dirty.xmin) || TransactionIdIsValid(scan->dirty.xmax);
}

/* The row that an INSERT or UPDATE writes. */
static inline HeapTuple
own_table_new_row(const TriggerData *trigger)
{
	return TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple :
		trigger->tg_trigtuple;
}

extern Oid	own_table_find(const char *schema, const char *name);
extern Oid	own_table_require(const char *schema, const char *name);
extern Oid	own_table_owner(const char *schema, const char *name);
extern Relation own_table_open(const char *schema, const char *name, LOCKMODE lockmode);
extern Relation own_table_index(Relation table, const char *name);
extern Datum own_table_column(Relation table, HeapTuple tuple, AttrNumber column);
extern void own_table_scan(OwnScan *scan, Relation table, const char *index,
						   const char *queue, ScanKey keys, int n);
extern void own_table_scan_end(OwnScan *scan);
extern SysScanDesc own_table_rows_of(Relation table, const char *queue, Snapshot snapshot);
extern SPIPlanPtr own_table_prepare(const char *sql, int nargs, Oid *types);
extern uint64 own_table_execute(Oid owner, OwnStatement *statement, Datum *values,
								const char *nulls);
extern void own_table_run(const char *schema, const char *name, OwnStatement *statement,
						  Datum *values);
extern TriggerData *own_table_trigger(FunctionCallInfo fcinfo, const char *schema,
									  const char *name, TriggerEvent event);

#endif							/* FAIRQ_OWN_TABLE_H */
