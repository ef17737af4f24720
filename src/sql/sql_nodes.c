/*-------------------------------------------------------------------------
 *
 * sql_nodes.c
 *	  The functions of schema fairq about numbers of nodes.
 *
 * Those that read a number out of an id or a uuid need neither queues nor
 * shared memory: a server that has none of both routes with them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "common/node_number.h"
#include "common/shared_memory.h"
#include "sql/arguments.h"
#include "storage/node_table.h"
#include "storage/own_table.h"
#include "storage/queue_catalog.h"
#include "verbs/queue_admin.h"
#include "xact/pending_queue.h"

PG_FUNCTION_INFO_V1(fairq_set_node);
PG_FUNCTION_INFO_V1(fairq_this_node);
PG_FUNCTION_INFO_V1(fairq_node_of_id);
PG_FUNCTION_INFO_V1(fairq_node_of_uuid);
PG_FUNCTION_INFO_V1(fairq_node_written);
PG_FUNCTION_INFO_V1(fairq_lineage);

/*
 * fairq.set_node(node, force)
 */
Datum
fairq_set_node(PG_FUNCTION_ARGS)
{
	int			node;

	arguments_begin(fcinfo);
	node = arguments_number(fcinfo, 0, "node", 0, NODE_MAX,
							psprintf("Give a number from 0 to %d.", NODE_MAX));
	node_admin_set(node, !PG_ARGISNULL(1) && PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}

/*
 * fairq.this_node(): the number of this database, as the transaction sees it.
 */
Datum
fairq_this_node(PG_FUNCTION_ARGS)
{
	bool		own;

	PG_RETURN_INT32(node_table_read(&own));
}

/*
 * fairq.node_of_id(id): strict.  NULL if no node gives such an id.
 */
Datum
fairq_node_of_id(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);

	if (id <= 0)
		PG_RETURN_NULL();
	PG_RETURN_INT32(NODE_OF_ID(id));
}

/*
 * fairq.node_of_receipt(receipt), fairq.node_of_session(session): strict.
 * NULL if it is not one of ours: they are of version 8.
 */
Datum
fairq_node_of_uuid(PG_FUNCTION_ARGS)
{
	const unsigned char *data = PG_GETARG_UUID_P(0)->data;

	if (!NODE_GAVE_UUID(data))
		PG_RETURN_NULL();
	PG_RETURN_INT32(NODE_OF_UUID(data));
}

/*
 * fairq_internal.node_written(): statement trigger after each change of the
 * table, also by a restore: what is known of the queues is void.
 */
Datum
fairq_node_written(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	(void) own_table_trigger(fcinfo, INTERNAL_SCHEMA, NODE_TABLE, TRIGGER_EVENT_AFTER);
	if (!shared_memory_ready())
		PG_RETURN_POINTER(NULL);

	CacheInvalidateRelcacheByRelid(own_table_require(INTERNAL_SCHEMA, NODE_TABLE));

	/* A queue that is being made has the number of before: it is awaited. */
	LockRelationOid(own_table_require(QUEUE_SCHEMA, "queue"), ShareLock);
	foreach(lc, queue_catalog_list(NULL))
	{
		CacheInvalidateRelcacheByRelid(lfirst_oid(lc));
		pending_settings(lfirst_oid(lc));
	}
	PG_RETURN_POINTER(NULL);
}

/*
 * fairq_internal.lineage(): NULL on a standby, which gives out no ids.
 */
Datum
fairq_lineage(PG_FUNCTION_ARGS)
{
	if (RecoveryInProgress())
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(id_sequence_lineage()));
}
