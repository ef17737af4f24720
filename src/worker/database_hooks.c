/*-------------------------------------------------------------------------
 *
 * database_hooks.c
 *	  What happens to tables and databases that concerns us.
 *
 * However a queue's table goes (drop_queue, DROP TABLE, DROP EXTENSION, DROP
 * OWNED, DROP DATABASE), its shared state goes with it, at commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension_d.h"
#include "catalog/pg_trigger.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "common/compat.h"
#include "common/shared_memory.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/queue_catalog.h"
#include "storage/queue_open.h"
#include "worker/worker.h"
#include "xact/pending_queue.h"

static object_access_hook_type prev_object_access_hook = NULL;
static ProcessUtility_hook_type prev_process_utility_hook = NULL;

/*
 * The table of a trigger, if it is the one that queue tables have.
 */
static Oid
table_of_trigger(Oid trigger)
{
	Relation	rel = table_open(TriggerRelationId, AccessShareLock);
	Oid			table = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_trigger_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(trigger));
	scan = systable_beginscan(rel, TriggerOidIndexId, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_trigger form = (Form_pg_trigger) GETSTRUCT(tuple);

		if (strcmp(NameStr(form->tgname), "fairq_row_written") == 0)
			table = form->tgrelid;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return table;
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subobject,
			  void *arg)
{
	bool		altered = access == OAT_POST_CREATE || access == OAT_POST_ALTER;
	bool		dropped = access == OAT_DROP && subobject == 0;
	Oid			table;

	if (prev_object_access_hook)
		prev_object_access_hook(access, class, object, subobject, arg);

	if (!shared_memory_ready() || !(altered || dropped))
		return;
	switch (class)
	{
		case ExtensionRelationId:
			/* It is there now, or of a version that a worker can serve. */
			if (altered)
				extension_version_altered(object);
			pending_probe();
			break;
		case DatabaseRelationId:
			/* It may have become one that is to have a worker, or none. */
			if (altered)
				pending_probe();
			else
				pending_release_queue(object, InvalidOid);
			break;
		case TriggerRelationId:
			/* Enabled, disabled or made: rows may have come without it. */
			if (altered && OidIsValid(table = table_of_trigger(object)))
				pending_read_again(table);
			break;
		case RelationRelationId:
			if (dropped && queue_state_find(object) != NULL)
				pending_release_queue(MyDatabaseId, object);
			if (dropped && queue_catalog_name_of(object) != NULL)
				durable_table_forget_queue(object);
			break;
	}
}

/*
 * May a database be copied by CREATE DATABASE?  As createdb() decides it.
 */
static bool
may_copy(Oid database)
{
	HeapTuple	tuple;
	bool		may = superuser();

	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	if (HeapTupleIsValid(tuple))
	{
		may |= ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	if (!may || fairq_database_ownercheck(database, GetUserId()))
		return may;
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(database));
	if (!HeapTupleIsValid(tuple))
		return false;
	may = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate;
	ReleaseSysCache(tuple);
	return may;
}

/*
 * The database that a command wants for itself; InvalidOid: none.  Not inlined:
 * gcc would take its variables for such as a PG_TRY of the caller may clobber.
 */
static pg_noinline Oid
wanted_database(Node *command)
{
	const char *name = NULL;
	Oid			database;
	ListCell   *lc;

	switch (nodeTag(command))
	{
		case T_DropdbStmt:
			name = castNode(DropdbStmt, command)->dbname;
			break;
		case T_RenameStmt:
			if (castNode(RenameStmt, command)->renameType == OBJECT_DATABASE)
				name = castNode(RenameStmt, command)->subname;
			break;
		case T_CreatedbStmt:
			foreach(lc, castNode(CreatedbStmt, command)->options)
			{
				DefElem    *option = lfirst_node(DefElem, lc);

				if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
					name = defGetString(option);
			}
			break;
		case T_AlterDatabaseStmt:
			foreach(lc, castNode(AlterDatabaseStmt, command)->options)
			{
				if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
					name = castNode(AlterDatabaseStmt, command)->dbname;
			}
			break;
		default:
			break;
	}
	database = name == NULL ? InvalidOid : get_database_oid(name, true);
	if (!OidIsValid(database))
		return InvalidOid;

	/* Only who may carry the command out has our worker leave. */
	if (nodeTag(command) == T_CreatedbStmt ? !may_copy(database) :
		!fairq_database_ownercheck(database, GetUserId()))
		return InvalidOid;
	return database;
}

/*
 * DROP DATABASE and its like fail while anybody is connected, and our worker
 * is: have it leave first.
 */
static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	Oid			database = shared_memory_ready() ?
		wanted_database(pstmt->utilityStmt) : InvalidOid;

	PG_TRY();
	{
		if (OidIsValid(database))
			worker_slots_fence(database);
		if (prev_process_utility_hook)
			prev_process_utility_hook(pstmt, query, read_only_tree, context,
									  params, environment, dest, completion);
		else
			standard_ProcessUtility(pstmt, query, read_only_tree, context,
									params, environment, dest, completion);
	}
	PG_FINALLY();
	{
		if (OidIsValid(database))
			worker_slots_unfence(database);
	}
	PG_END_TRY();
}

/*
 * Called once a process, from _PG_init, when preloaded.
 */
void
database_hooks_install(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_access;
	prev_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
