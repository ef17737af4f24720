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

#include "catalog/objectaccess.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_database_d.h"
#include "miscadmin.h"

#include "database_hooks.h"
#include "handover.h"
#include "shared_state.h"

static object_access_hook_type prev_object_access_hook = NULL;

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subobject,
			  void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class, object, subobject, arg);

	if (access != OAT_DROP || subobject != 0 || !shared_state_ready())
		return;
	if (class == RelationRelationId && queue_state_find(object) != NULL)
		handover_release_queue(MyDatabaseId, object);
	else if (class == DatabaseRelationId)
		handover_release_queue(object, InvalidOid);
}

/*
 * Called once a process, from _PG_init, when preloaded.
 */
void
database_hooks_install(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_access;
}
