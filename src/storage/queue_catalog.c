/*-------------------------------------------------------------------------
 *
 * queue_catalog.c
 *	  Which queues there are, and how they are set.
 *
 * A queue is a table fairq.q_<name> and a row of settings in fairq.queue.
 * What a backend keeps of both is in queue_open.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_extension_d.h"
#include "commands/extension.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "common/shared_memory.h"
#include "shmem/lanes.h"
#include "shmem/queue_state.h"
#include "storage/node_table.h"
#include "storage/own_table.h"
#include "storage/queue_settings.h"

Oid
queue_catalog_schema(bool missing_ok)
{
	return get_namespace_oid(QUEUE_SCHEMA, missing_ok);
}

/*
 * A table of the extension, by its name; InvalidOid: there is none.
 *
 * A name alone says nothing: in a database without the extension anybody may
 * have a schema and tables that are called like ours.
 */
Oid
queue_catalog_member(const char *name)
{
	Oid			extension = get_extension_oid("pgfairq", true);
	Oid			schema = queue_catalog_schema(true);
	Oid			relid;

	if (!OidIsValid(extension) || !OidIsValid(schema))
		return InvalidOid;
	relid = get_relname_relid(name, schema);
	if (!OidIsValid(relid) ||
		getExtensionOfObject(RelationRelationId, relid) != extension)
		return InvalidOid;
	return relid;
}

/*
 * Check the name of a queue and copy it to result, which has NAMEDATALEN bytes.
 */
void
queue_catalog_check_name(const text *name, char *result)
{
	int			len = VARSIZE_ANY_EXHDR(name);

	if (len == 0 || len > QUEUE_NAME_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid queue name: \"%.*s%s\"",
						pg_mbcliplen(VARDATA_ANY(name), len, 100),
						VARDATA_ANY(name),
						len > 100 ? "..." : ""),
				 errhint("The name of a queue has 1 to %d bytes.", QUEUE_NAME_MAX)));
	memset(result, 0, NAMEDATALEN);
	memcpy(result, VARDATA_ANY(name), len);
}

/*
 * The name of the table of a queue.
 */
void
queue_catalog_relation_name(const char *queue, char *result)
{
	snprintf(result, NAMEDATALEN, "q_%s", queue);
}

/*
 * The relation that has that name now; InvalidOid: there is none.
 */
Oid
queue_catalog_relation(const char *queue)
{
	char		name[NAMEDATALEN];
	Oid			schema = queue_catalog_schema(true);

	queue_catalog_relation_name(queue, name);
	return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

/*
 * The queue that a row of one of our tables is about, for its trigger; NULL:
 * nothing is kept of it in shared memory, or there is none.
 */
QueueState *
queue_catalog_state_of_row(Relation table, HeapTuple tuple)
{
	Oid			relation = shared_memory_ready() ?
		queue_catalog_relation(TextDatumGetCString(own_table_column(table, tuple,
																	OWN_TABLE_QUEUE))) :
		InvalidOid;

	return OidIsValid(relation) ? queue_state_find(relation) : NULL;
}

/*
 * Read the settings of the queue info->name.  Returns false if it has none.
 */
bool
queue_catalog_read_settings(QueueInfo *info)
{
	Relation	rel = own_table_open(QUEUE_SCHEMA, "queue", AccessShareLock);
	SysScanDesc scan = own_table_rows_of(rel, info->name, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	bool		found = HeapTupleIsValid(tuple);
	bool		own_node;

	if (found)
	{
		info->own_settings =
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
		for (int i = 0; i < QUEUE_SETTINGS; i++)
		{
			AttrNumber	column = get_attnum(RelationGetRelid(rel), queue_settings[i].column);
			bool		isnull;
			Datum		value = heap_getattr(tuple, column, RelationGetDescr(rel), &isnull);

			queue_settings_store(info, i, value, isnull);
		}
		info->group_defaults.paused = false;
		info->subgroup_defaults.paused = false;
		info->node = node_table_read(&own_node);
		info->own_settings |= own_node;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Lock the extension, unless that has to be waited for.  DROP EXTENSION locks
 * it first: who has that lock does not meet it half way.
 */
bool
queue_catalog_lock_extension(void)
{
	Oid			extension = get_extension_oid("pgfairq", true);
	LOCKTAG		tag;

	if (!OidIsValid(extension))
		return false;
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extension, 0);
	return LockAcquire(&tag, AccessShareLock, false, true) != LOCKACQUIRE_NOT_AVAIL &&
		get_extension_oid("pgfairq", true) == extension;
}

/*
 * Lock the extension, and its table of settings for reading, unless that has to
 * be waited for.
 */
bool
queue_catalog_lock_settings(void)
{
	Oid			relid;

	if (!queue_catalog_lock_extension())
		return false;
	relid = queue_catalog_member("queue");
	return OidIsValid(relid) && ConditionalLockRelationOid(relid, AccessShareLock) &&
		queue_catalog_member("queue") == relid;
}

/*
 * The tables of all queues of the database, in a list of Oid: those that a
 * snapshot sees (NULL: that there are now).
 */
List *
queue_catalog_list(Snapshot snapshot)
{
	List	   *result = NIL;
	Relation	rel = own_table_open(QUEUE_SCHEMA, "queue", AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;

	if (get_attnum(RelationGetRelid(rel), "queue") != OWN_TABLE_QUEUE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("the first column of table \"%s.%s\" is not \"queue\"", QUEUE_SCHEMA, "queue"),
				 errhint("Undo the change that was made to the table.")));
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Datum		name = own_table_column(rel, tuple, OWN_TABLE_QUEUE);
		Oid			queue = queue_catalog_relation(TextDatumGetCString(name));

		if (OidIsValid(queue))
			result = lappend_oid(result, queue);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

/*
 * The name of the queue whose table a relation is by its own name; NULL: it is
 * named in another way, or gone.  Who has looked at it before may find it
 * renamed, or moved to another schema, by its owner.
 */
char *
queue_catalog_name_of(Oid relation)
{
	char	   *name = get_rel_name(relation);

	if (name == NULL || strncmp(name, "q_", 2) != 0 || name[2] == '\0' ||
		strlen(name + 2) > QUEUE_NAME_MAX ||
		get_rel_namespace(relation) != queue_catalog_schema(true))
		return NULL;
	return name + 2;
}

/*
 * Is there a queue of this name, as far as the settings know?
 */
bool
queue_catalog_has_settings(const char *queue)
{
	QueueInfo	info = {0};

	strlcpy(info.name, queue, NAMEDATALEN);
	return queue_catalog_read_settings(&info);
}

/*
 * The error for what only the owner of a queue may do.
 */
void
queue_catalog_not_owner(const char *queue)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("must be owner of queue \"%s\"", queue),
			 errhint("Use the role that owns the queue's table.")));
}

/*
 * Set up what it takes for new tasks to go to so many buckets, in a class, or
 * (-1) in each that is in use and at least the first; and one more bucket, or
 * (-1) none.
 */
static void
set_up_lanes(QueueInfo *info, int class, int buckets, int bucket)
{
	QueueState *state = info->state;
	bool		done = false;

	Assert(buckets > 0 && buckets <= FAIRQ_MAX_BUCKETS);
	while (!done)
	{
		LaneSet    *sets[FAIRQ_CLASSES];
		int			n = 0;
		int			missing;

		LWLockAcquire(&state->lock, LW_EXCLUSIVE);
		for (int c = 0; c < state->classes; c++)
		{
			LaneSet    *lanes = &state->orders[c].lanes;

			if (class == -1 ? lanes_any(lanes) : c == class)
				sets[n++] = lanes;
		}
		if (n == 0)
			sets[n++] = &state->orders[0].lanes;
		done = lane_table_set_up(sets, n, buckets, bucket, &missing);
		LWLockRelease(&state->lock);
		if (!done && gone_queues_release() == 0)
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("cannot set up %d more lanes for queue \"%s\"", missing, info->name),
					 errhint("Raise the setting \"%s\" and restart the server, or use fewer queues, buckets or priority classes.",
							 "pgfairq.max_lanes")));
	}
}

/*
 * The lane of a class and a bucket of a queue, set up if it is not there yet:
 * with those of all buckets that new tasks of the class go to, so that there is
 * one moment at which lanes may run out.
 *
 * Any bucket may have tasks.  When a queue has fewer buckets than before, what
 * is in the others stays there; rows come from dumps, by SQL and by
 * replication.  And the number of buckets that a process knows may be out of
 * date.  So lanes are where tasks are or may come, whatever the settings say;
 * and who looks for tasks looks at the lanes.
 */
Lane *
queue_catalog_lane(QueueInfo *info, int class, int bucket)
{
	LaneSet    *set = &info->state->orders[class].lanes;
	Lane	   *lane = lanes_of(set, bucket);

	Assert(class >= 0 && class < info->state->classes);
	Assert(bucket >= 0 && bucket < FAIRQ_MAX_BUCKETS);
	if (likely(lane != NULL))
		return lane;
	set_up_lanes(info, class, info->buckets, bucket);
	return lanes_of(set, bucket);
}

/*
 * Set up what it takes for new tasks to go to so many buckets, in each class in
 * use, or at least the first.
 */
void
queue_catalog_set_up_lanes(QueueInfo *info, int buckets)
{
	set_up_lanes(info, -1, buckets, -1);
}
