/*-------------------------------------------------------------------------
 *
 * node_admin.c
 *	  Giving this database its number as a node.
 *
 * Ids only grow: what is below the highest of a queue and has no row has
 * ended.  So the number only grows, too, while there are queues that have
 * given out ids under another one.
 *
 * Locking: what is read of the queues has to hold until the transaction has
 * ended.  No other one gives a number meanwhile (the table of the number), and
 * none makes a queue, which would begin with the number of before (the table
 * of settings).  A higher number is safe beside whoever enqueues.  For a lower
 * one nothing is enqueued (the queues' tables), or ids of the number of before
 * would be given out after the look at the last ones.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "executor/spi.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "common/node_number.h"
#include "common/run_as.h"
#include "storage/node_table.h"
#include "storage/own_table.h"
#include "storage/queue_open.h"
#include "verbs/queue_admin.h"

/*
 * The last id that the sequence of a queue has given out, or may have.
 */
static int64
last_id(QueueInfo *info)
{
	int64		result;
	bool		isnull;
	RunAs		context;

	run_as_owner(run_as_owner_of(info->relation), InvalidOid, &context);
	SPI_connect();
	if (SPI_execute(psprintf("SELECT last_value FROM %s",
							 quote_qualified_identifier(QUEUE_SCHEMA,
														get_rel_name(info->id_sequence))),
					true, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not read the sequence of queue \"%s\"", info->name);
	result = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
										 &isnull));
	SPI_finish();
	run_as_end(&context);
	return result;
}

typedef struct Wanted
{
	Oid			relation;
	LOCKMODE	mode;
} Wanted;

/* Take all locks, or none; returns which one others have, or -1. */
static int
try_locks(const Wanted *wanted, int n)
{
	for (int i = 0; i < n; i++)
		if (!ConditionalLockRelationOid(wanted[i].relation, wanted[i].mode))
		{
			for (int taken = 0; taken < i; taken++)
				UnlockRelationOid(wanted[taken].relation, wanted[taken].mode);
			return i;
		}
	return -1;
}

/*
 * Keep the number that is now, the settings, and where the number becomes lower
 * the queues, as they are.  Transactions that write to several queues lock them
 * in any order, so one of ours is waited for only while we have none of the
 * others: no call of theirs ends with a deadlock because of a number.  Returns
 * the mode in which the queues are locked.
 */
static LOCKMODE
lock_all(int node)
{
	Oid			table = node_table_require_owned();

	for (;;)
	{
		List	   *queues = queue_catalog_list(NULL);
		Wanted	   *wanted = palloc((list_length(queues) + 2) * sizeof(Wanted));
		bool		own;
		LOCKMODE	mode = node < node_table_read(&own) ? ShareLock : AccessShareLock;
		int			n = 0;
		int			busy;
		ListCell   *lc;

		wanted[n++] = (Wanted)
		{
			table, ShareRowExclusiveLock
		};
		foreach(lc, queues)
			wanted[n++] = (Wanted)
		{
			lfirst_oid(lc), mode
		};
		wanted[n++] = (Wanted)
		{
			own_table_require(QUEUE_SCHEMA, "queue"), ShareLock
		};
		busy = try_locks(wanted, n);
		if (busy < 0)
		{
			if (mode == ShareLock || node >= node_table_read(&own))
				return mode;
			for (int i = 0; i < n; i++)
				UnlockRelationOid(wanted[i].relation, wanted[i].mode);
			continue;
		}
		LockRelationOid(wanted[busy].relation, wanted[busy].mode);
		UnlockRelationOid(wanted[busy].relation, wanted[busy].mode);
	}
}

/*
 * Proxies know a node of a cluster by its number, and so do receipts, sessions
 * and ids of tasks that are here.
 */
static void
refuse_member(int node)
{
	const NodeFacts *facts = node_table_facts();

	if (facts->number == node ||
		(facts->membership != NODE_ACTIVE && facts->membership != NODE_DRAINING))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot make this node %d: it is node %d of a cluster", node, facts->number),
			 errdetail("Proxies, and the receipts and sessions that it has given out, know it by that number."),
			 errhint("Drain, move and drop it with fairq.drain_node(), fairq.move_tasks() and fairq.drop_node() at a proxy first. If no proxy has it any more, say force => true.")));
}

/*
 * Give this database a number, from 0 to NODE_MAX.  In force for what is
 * enqueued, claimed and opened when it has committed.
 */
void
node_admin_set(int node, bool force)
{
	LOCKMODE	lockmode = lock_all(node);
	ListCell   *lc;

	if (!force)
		refuse_member(node);
	foreach(lc, queue_catalog_list(NULL))
	{
		Relation	rel;
		QueueInfo  *info = queue_open_relation(lfirst_oid(lc), lockmode, 0, &rel);
		int			last;

		if (info == NULL)
			continue;
		last = NODE_OF_ID(last_id(info));
		if (last > node)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot make this node %d: queue \"%s\" has ids of node %d",
							node, info->name, last),
					 errhint("Ids only grow. Give a higher number, or drop the queue.")));
		relation_close(rel, NoLock);
	}
	node_table_write(node);
}
