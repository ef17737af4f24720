/*-------------------------------------------------------------------------
 *
 * visible_queues.c
 *	  Which queues the caller may see, and opening them for a look.
 *
 * These are the queues that the caller may read, and all of them for members of
 * pg_monitor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_authid_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/snapmgr.h"

#include "common/run_as.h"
#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "storage/queue_open.h"

/* May the caller see the figures of the queue with this table? */
bool
visible_queues_may_see(Oid relation)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_MONITOR) ||
		pg_class_aclcheck(relation, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

/*
 * The queues of this database that the caller may see: their tables' oids.
 */
List *
visible_queues_list(void)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, queue_catalog_list(GetActiveSnapshot()))
	{
		if (visible_queues_may_see(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	}
	return result;
}

/* Open the table of a queue, which is locked; arg is its oid. */
static void
open_once(void *arg)
{
	Relation	rel;

	if (queue_open_relation(*(Oid *) arg, NoLock, 0, &rel) != NULL)
	{
		relation_close(rel, NoLock);
		return;
	}
	*(Oid *) arg = InvalidOid;
}

/*
 * Can the table of a queue, which is locked, be opened as one?  Not if it has
 * been made unfit, or if there are more queues than there is room for.  What
 * opens it says so with an error.
 */
static bool
can_be_opened(Oid relation)
{
	ErrorData  *error = run_as_try(open_once, &relation);

	if (error == NULL)
		return OidIsValid(relation);
	if (error->sqlerrcode != ERRCODE_INVALID_TABLE_DEFINITION &&
		error->sqlerrcode != ERRCODE_CONFIGURATION_LIMIT_EXCEEDED)
		ReThrowError(error);
	FreeErrorData(error);
	return false;
}

/*
 * Open the table of a queue for its figures, unless it, or an index, is locked
 * (VACUUM FULL, ALTER TABLE, REINDEX), or it cannot serve as a queue: a view
 * over all queues neither waits for one of them nor fails because of it.  NULL
 * then, and if it is gone.
 */
QueueInfo *
visible_queues_open(Oid relation, Relation *rel)
{
	QueueInfo  *info = NULL;
	bool		locked = false;
	ListCell   *lc;

	if (!ConditionalLockRelationOid(relation, AccessShareLock))
		return NULL;
	*rel = try_relation_open(relation, NoLock);
	if (*rel != NULL)
	{
		List	   *indexes = RelationGetIndexList(*rel);

		foreach(lc, indexes)
		{
			/* A look is enough: it is bad luck if it is locked just now. */
			locked = !ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock);
			if (locked)
				break;
			UnlockRelationOid(lfirst_oid(lc), AccessShareLock);
		}
		relation_close(*rel, NoLock);
		if (!locked && can_be_opened(relation))
			info = queue_open_relation(relation, NoLock, 0, rel);
	}
	if (info == NULL)
		UnlockRelationOid(relation, AccessShareLock);
	return info;
}

/*
 * The rows of a view that has some for each queue that the caller may see and
 * that is not gone.
 */
Datum
visible_queues_rows(FunctionCallInfo fcinfo, VisibleQueueRows rows)
{
	ListCell   *lc;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, visible_queues_list())
	{
		Oid			relation = lfirst_oid(lc);
		VisibleQueue queue = {0};

		queue.info = visible_queues_open(relation, &queue.rel);
		queue.name = queue.info ? queue.info->name : queue_catalog_name_of(relation);
		queue.state = queue.info ? queue.info->state : queue_state_find(relation);
		if (queue.name != NULL)
			rows((ReturnSetInfo *) fcinfo->resultinfo, &queue);
		if (queue.info != NULL)
			relation_close(queue.rel, AccessShareLock);
	}
	return (Datum) 0;
}
