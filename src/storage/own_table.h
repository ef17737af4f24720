/*-------------------------------------------------------------------------
 *
 * own_table.h
 *	  The extension's own tables: found by name, written with SQL as their owner.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_OWN_TABLE_H
#define FAIRQ_OWN_TABLE_H

#include "access/htup.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

#define OWN_STATEMENT_PARAMETERS	24

/* A statement, and its plan once it was run; one for a process. */
typedef struct OwnStatement
{
	const char *text;
	int			parameters;
	Oid			types[OWN_STATEMENT_PARAMETERS];
	SPIPlanPtr	plan;
} OwnStatement;

extern Oid	own_table_find(const char *schema, const char *name);
extern Oid	own_table_require(const char *schema, const char *name);
extern Oid	own_table_owner(const char *schema, const char *name);
extern Relation own_table_open(const char *schema, const char *name, LOCKMODE lockmode);
extern Datum own_table_column(Relation table, HeapTuple tuple, AttrNumber column);
extern uint64 own_table_execute(Oid owner, OwnStatement *statement, Datum *values,
								const char *nulls);
extern void own_table_insert(Relation table, OwnStatement *statement, Datum *values);
extern TriggerData *own_table_trigger(FunctionCallInfo fcinfo, const char *schema,
									  const char *name, TriggerEvent event, TriggerEvent mask);

#endif							/* FAIRQ_OWN_TABLE_H */
