/*-------------------------------------------------------------------------
 *
 * queue_admin.c
 *	  Creating, altering and dropping queues.
 *
 * The table of a queue is created by the caller, and is the caller's: whoever
 * may create in schema fairq may create queues.  The settings are in a table of
 * the extension, which only the extension's owner may write, so for that we
 * act as the owner, after checking that the caller owns the queue.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_extension_d.h"
#include "catalog/pg_type_d.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "common/run_as.h"
#include "storage/archive.h"
#include "storage/own_table.h"
#include "storage/queue_catalog.h"
#include "storage/queue_open.h"
#include "storage/queue_settings.h"
#include "storage/recovery.h"
#include "storage/row_scan.h"
#include "verbs/queue_admin.h"
#include "xact/pending.h"
#include "xact/pending_queue.h"
#include "xact/pending_rows.h"

/*
 * Run a command on the extension's tables as their owner.  The caller has
 * connected to SPI, and checked that it may be done.  Returns how many rows
 * were written.
 */
uint64
queue_admin_execute(const char *command, int n, Oid *types, Datum *values,
					const char *nulls)
{
	RunAs		context;
	int			result;

	run_as_role(own_table_owner(QUEUE_SCHEMA, "queue"), &context);
	result = SPI_execute_with_args(command, n, types, values, nulls, false, 0);
	run_as_end(&context);
	if (result < 0)
		elog(ERROR, "SPI_execute_with_args failed (%s): %s",
			 SPI_result_code_string(result), command);
	return SPI_processed;
}

/*
 * Write the settings that are given: a new row, or to that of the queue.
 */
static void
write_settings(const char *queue, const QueueSettings *settings, bool new)
{
	Oid			types[QUEUE_SETTINGS + 1] = {TEXTOID};
	Datum		values[QUEUE_SETTINGS + 1] = {CStringGetTextDatum(queue)};
	char		nulls[QUEUE_SETTINGS + 2] = " ";
	StringInfoData names;
	StringInfoData parameters;
	int			n = 1;

	initStringInfo(&names);
	initStringInfo(&parameters);
	for (int i = 0; i < QUEUE_SETTINGS; i++)
	{
		if (!settings->given[i])
			continue;
		types[n] = queue_settings[i].type;
		values[n] = settings->values[i];
		nulls[n] = settings->nulls[i] ? 'n' : ' ';
		n++;
		if (new)
		{
			appendStringInfo(&names, ", %s", queue_settings[i].column);
			appendStringInfo(&parameters, ", $%d", n);
		}
		else
			appendStringInfo(&names, "%s%s = $%d", n > 2 ? ", " : "",
							 queue_settings[i].column, n);
	}
	if (new)
		queue_admin_execute(psprintf("INSERT INTO fairq.queue (queue%s) VALUES ($1%s)",
									 names.data, parameters.data),
							n, types, values, nulls);
	else if (n > 1)
		queue_admin_execute(psprintf("UPDATE fairq.queue SET %s WHERE queue OPERATOR(pg_catalog.=) $1",
									 names.data),
							n, types, values, nulls);
}

/*
 * Forget the settings of a queue, what it has subscribed to, and which of its
 * tasks wait for others.
 */
static void
delete_settings(const char *queue)
{
	Oid			type = TEXTOID;
	Datum		value = CStringGetTextDatum(queue);

	queue_admin_execute("DELETE FROM fairq.queue WHERE queue OPERATOR(pg_catalog.=) $1",
						1, &type, &value, " ");
	queue_admin_execute("DELETE FROM fairq.dependency WHERE queue OPERATOR(pg_catalog.=) $1",
						1, &type, &value, " ");
}

/* A setting is given that says nothing under another policy than fair. */
static void
refuse_unfair(const char *queue, QueueSetting setting, const char *value, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for argument \"%s\" for queue \"%s\", whose policy is not \"fair\": \"%s\"",
					queue_settings[setting].column, queue, value),
			 errhint("%s", hint)));
}

/*
 * Only under policy fair there is an overflow (see placement_assign), are tasks
 * charged for, and have priorities bounds.
 */
static void
check_fair_settings(const char *queue, bool fair, const QueueSettings *settings)
{
	if (!fair && settings->given[SETTING_CHARGE] &&
		strcmp(TextDatumGetCString(settings->values[SETTING_CHARGE]), "cost") != 0)
		refuse_unfair(queue, SETTING_CHARGE, TextDatumGetCString(settings->values[SETTING_CHARGE]),
					  "Leave it out: only under policy \"fair\" are groups charged for their tasks.");
	if (!fair && settings->given[SETTING_CLASS_WEIGHTS] &&
		!settings->nulls[SETTING_CLASS_WEIGHTS])
		refuse_unfair(queue, SETTING_CLASS_WEIGHTS,
					  OidOutputFunctionCall(F_ARRAY_OUT, settings->values[SETTING_CLASS_WEIGHTS]),
					  "Leave it out: only under policy \"fair\" are there priority classes.");
	if (!fair && settings->given[SETTING_SUBGROUPS] &&
		DatumGetBool(settings->values[SETTING_SUBGROUPS]))
		refuse_unfair(queue, SETTING_SUBGROUPS, "true",
					  "Leave it out: only under policy \"fair\" are there shares that can be divided.");
	if (fair && settings->given[SETTING_DEFAULT_PRIORITY])
	{
		int64		priority = DatumGetInt64(settings->values[SETTING_DEFAULT_PRIORITY]);

		if (priority < 0 || priority >= FAIRQ_CLASSES)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid value for argument \"default_priority\" for queue \"%s\", whose policy is \"fair\": \"" INT64_FORMAT "\"",
							queue, priority),
					 errhint("Under policy \"fair\" priorities are 0 to %d.", FAIRQ_CLASSES - 1)));
	}
	for (int i = SETTING_MAX_READY; !fair && i <= SETTING_MAX_READY_PER_GROUP; i++)
	{
		int64		standard = (i == SETTING_MAX_READY) ? 1000000 : 10000;

		if (settings->given[i] && DatumGetInt64(settings->values[i]) != standard)
			refuse_unfair(queue, i, psprintf(INT64_FORMAT, DatumGetInt64(settings->values[i])),
						  "Leave it out: only under policy \"fair\" do tasks wait for room. See \"max_depth\" for a limit.");
	}
}

/* That of fairq.queue. */
#define DEFAULT_PRIORITY	INT64CONST(4)

static bool
wants_archive(const QueueSettings *settings)
{
	return settings->given[SETTING_KEEP_DONE] && !settings->nulls[SETTING_KEEP_DONE];
}

/*
 * A queue's table and what belongs to it, by names that no other queue's can
 * have.
 *
 * VACUUM is not to cut off the empty end of the table: it would lock it
 * exclusively for that, again and again, and the space is soon used.
 *
 * Columns from priority on are added with what most rows have, which then
 * takes no room in these (row_writer.c); it is not to be a default.
 *
 * Keys stay in the row: a claim reads them with the row's page locked, and
 * must not come to another table then.  The index on unique keys is by bytes:
 * what an update of the locale data cannot spoil.
 */
static const char queue_definition[] =
"CREATE TABLE fairq.\"q_%1$s\" ("
" id pg_catalog.int8 NOT NULL,"
" address fairq.address,"
" enqueued_at pg_catalog.timestamptz NOT NULL,"
" state pg_catalog.\"char\" NOT NULL,"
" group_key pg_catalog.text NOT NULL,"
" payload pg_catalog.jsonb NOT NULL,"
" CONSTRAINT \"id_of_%1$s\" PRIMARY KEY (id)"
") WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off);"
"ALTER TABLE fairq.\"q_%1$s\""
" ADD priority pg_catalog.int8 NOT NULL DEFAULT %2$s,"
" ADD cost pg_catalog.float4 NOT NULL DEFAULT 1,"
" ADD attempts pg_catalog.int4 NOT NULL DEFAULT 0,"
" ADD run_at pg_catalog.timestamptz,"
" ADD max_attempts pg_catalog.int4,"
" ADD lease pg_catalog.interval,"
" ADD headers pg_catalog.jsonb,"
" ADD unique_key pg_catalog.text,"
" ADD last_error pg_catalog.text,"
" ADD expires_at pg_catalog.timestamptz,"
" ADD name pg_catalog.text,"
" ADD lost pg_catalog.int4,"
" ADD max_lost pg_catalog.int4,"
" ADD history pg_catalog.jsonb,"
" ADD subgroup_key pg_catalog.text;"
"ALTER TABLE fairq.\"q_%1$s\" ALTER priority DROP DEFAULT, ALTER cost DROP DEFAULT,"
" ALTER attempts DROP DEFAULT, ALTER group_key SET STORAGE MAIN,"
" ALTER subgroup_key SET STORAGE MAIN;"
"CREATE INDEX \"address_of_%1$s\" ON fairq.\"q_%1$s\" USING btree (address)"
" WHERE address IS NOT NULL;"
"CREATE INDEX \"due_of_%1$s\" ON fairq.\"q_%1$s\" USING btree (run_at)"
" WHERE state OPERATOR(pg_catalog.=) 's';"
"CREATE INDEX \"key_of_%1$s\" ON fairq.\"q_%1$s\" USING btree"
" (unique_key COLLATE pg_catalog.\"C\")"
" WHERE unique_key IS NOT NULL AND state OPERATOR(pg_catalog.<>) 'd';"
"CREATE INDEX \"held_of_%1$s\" ON fairq.\"q_%1$s\" USING btree (id)"
" WHERE state OPERATOR(pg_catalog.=) 'h';"
"CREATE INDEX \"expiry_of_%1$s\" ON fairq.\"q_%1$s\" USING btree (expires_at)"
" WHERE expires_at IS NOT NULL AND state OPERATOR(pg_catalog.<>) 'd';"
"CREATE SEQUENCE fairq.\"ids_of_%1$s\" INCREMENT BY " CppAsString2(QUEUE_ID_BLOCK)
" MINVALUE 1 START WITH 1 OWNED BY fairq.\"q_%1$s\".id;"
"CREATE TRIGGER fairq_row_written AFTER INSERT OR UPDATE OR DELETE ON fairq.\"q_%1$s\""
" FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();"
"ALTER TABLE fairq.\"q_%1$s\" ENABLE ALWAYS TRIGGER fairq_row_written";

/* The index on the overflow: by group or subgroup, class and id. */
static const char overflow_index[] =
"CREATE INDEX \"overflow_of_%1$s\" ON fairq.\"q_%1$s\" USING btree"
" (%2$s, priority, id) WHERE state OPERATOR(pg_catalog.=) 'o'";

/* The name of a queue, as it stands between double quotes. */
static const char *
in_quotes(const char *queue)
{
	StringInfoData result;

	initStringInfo(&result);
	for (; *queue != '\0'; queue++)
	{
		if (*queue == '"')
			appendStringInfoChar(&result, '"');
		appendStringInfoChar(&result, *queue);
	}
	return result.data;
}

/* Make the index on the overflow of a queue.  Connected to SPI. */
static void
create_overflow_index(const char *queue, bool subgroups)
{
	run_as_sql(psprintf(overflow_index, in_quotes(queue),
						subgroups ? QUEUE_SUBGROUP_HASH("0") : QUEUE_GROUP_HASH("0")));
}

/*
 * Two that create or drop a queue of a name, one after the other: the second
 * sees what the first has done.  Names that share a lock only wait.
 */
static void
lock_name(const char *queue)
{
	LOCKTAG		tag;
	uint32		hash = hash_bytes((const unsigned char *) queue, strlen(queue));

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId,
					   get_extension_oid("pgfairq", false), 1 + hash % PG_INT16_MAX);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	AcceptInvalidationMessages();
}

/*
 * There is a relation of the name of the table of a queue that is to be
 * created.
 */
static void
name_is_taken(const char *queue, const char *relname)
{
	if (queue_catalog_has_settings(queue))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("queue \"%s\" already exists", queue),
				 errhint("Choose another name, drop the queue with fairq.drop_queue(), or say if_not_exists.")));
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("cannot create queue \"%s\": relation \"%s.%s\" already exists",
					queue, QUEUE_SCHEMA, relname),
			 errhint("It is not a queue's. Choose another name, or rename or drop that relation.")));
}

/*
 * Create a queue.  The caller needs CREATE on schema fairq.  if_not_exists: if
 * there is one of the name it is left as it is.
 */
void
queue_admin_create(const text *name, const QueueSettings *settings, bool if_not_exists)
{
	char		queue[NAMEDATALEN];
	char		relname[NAMEDATALEN];
	Oid			schema = queue_catalog_schema(false);

	queue_catalog_check_name(name, queue);
	queue_catalog_relation_name(queue, relname);
	if (fairq_namespace_aclcheck(schema, GetUserId(), ACL_CREATE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to create queue \"%s\"", queue),
				 errhint("The privilege CREATE on schema \"%s\" is required.", QUEUE_SCHEMA)));
	check_fair_settings(queue, !settings->given[SETTING_POLICY] ||
						strcmp(TextDatumGetCString(settings->values[SETTING_POLICY]), "fair") == 0,
						settings);
	lock_name(queue);
	if (OidIsValid(get_relname_relid(relname, schema)))
	{
		if (!if_not_exists || !queue_catalog_has_settings(queue))
			name_is_taken(queue, relname);
		ereport(NOTICE,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("queue \"%s\" already exists, and is left as it is", queue)));
		return;
	}

	if (wants_archive(settings))
		archive_check_name(queue);

	SPI_connect();
	run_as_sql(psprintf(queue_definition, in_quotes(queue),
						psprintf(INT64_FORMAT, settings->given[SETTING_DEFAULT_PRIORITY] ?
								 DatumGetInt64(settings->values[SETTING_DEFAULT_PRIORITY]) :
								 DEFAULT_PRIORITY)));
	create_overflow_index(queue, settings->given[SETTING_SUBGROUPS] &&
						  DatumGetBool(settings->values[SETTING_SUBGROUPS]));

	/* Settings that a dropped table of this name has left behind are void. */
	delete_settings(queue);
	write_settings(queue, settings, true);
	SPI_finish();
	id_sequence_remember(queue);
	pending_settings(get_relname_relid(relname, schema));
	if (wants_archive(settings))
		archive_provide(queue, get_relname_relid(relname, schema), GetUserId());
}

/*
 * A queue is there for all transactions as soon as it is created, but not its
 * settings, which are written with SQL, for one with an older snapshot.
 */
static void
check_visible(const QueueInfo *info)
{
	Oid			type = TEXTOID;
	Datum		value = CStringGetTextDatum(info->name);
	int			result;
	bool		visible;

	SPI_connect();
	result = SPI_execute_with_args("SELECT FROM fairq.queue WHERE queue OPERATOR(pg_catalog.=) $1",
								   1, &type, &value, " ", false, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute_with_args failed (%s)", SPI_result_code_string(result));
	visible = (SPI_processed > 0);
	SPI_finish();
	if (!visible)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access to queue \"%s\", which was created after the transaction began",
						info->name),
				 errhint("Try the transaction again.")));
}

/*
 * Open a queue that its owner is going to change, one at a time.  What is for
 * one only whose groups are divided is refused else (55000).
 */
QueueInfo *
queue_admin_open(const text *name, bool divided, Relation *rel)
{
	QueueInfo  *info = queue_open(name, ShareUpdateExclusiveLock, QUEUE_OWNER, rel);

	if (IsolationUsesXactSnapshot())
		check_visible(info);
	if (divided && !info->subgroups)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("queue \"%s\" has no subgroups", info->name),
				 errhint("Have its groups divided with fairq.alter_queue(subgroups => true).")));
	return info;
}

/* Tell everybody, at commit. */
static void
settings_changed(Relation rel)
{
	CacheInvalidateRelcache(rel);
	pending_settings(RelationGetRelid(rel));
}

/* Has a queue, whose table is locked exclusively, any task? */
static bool
has_tasks(QueueInfo *info, Relation rel)
{
	RowScan		scan;
	bool		any;

	row_scan_begin(&scan, rel, info);
	any = (row_scan_next(&scan) != NULL);
	row_scan_end(&scan);
	return any;
}

/*
 * Divide the groups of a queue into subgroups, or do not any more, from the
 * commit on.  Tasks that are there have none, which is as if they had the empty
 * one; where groups are not divided none may be there, for it would lose it.
 * The relation is another one then, of the same table.
 */
static void
change_subgroups(QueueInfo *info, Relation *rel, bool subgroups)
{
	Oid			relation = RelationGetRelid(*rel);

	LockRelation(*rel, AccessExclusiveLock);
	if (!subgroups && has_tasks(info, *rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot do without the subgroups of queue \"%s\", which has tasks",
						info->name),
				 errhint("Wait until its tasks are done, dead ones included, or purge it.")));

	/* No index is made on a table that is in use. */
	relation_close(*rel, NoLock);
	SPI_connect();
	run_as_sql(psprintf("DROP INDEX fairq.\"overflow_of_%s\"", in_quotes(info->name)));
	create_overflow_index(info->name, subgroups);
	SPI_finish();
	*rel = relation_open(relation, NoLock);
	pending_regroup(info->state);
}

/*
 * Change settings of a queue; those not given stay.  In force for others', and
 * for what is shared with them, when the transaction has committed.  divided:
 * it is about what its subgroups have that were not given something else, and
 * an error (55000) where groups are not divided.
 */
void
queue_admin_alter(const text *name, const QueueSettings *settings, bool divided)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(name, divided, &rel);
	QueueInfo	after = *info;
	bool		defaults = false;

	check_fair_settings(info->name, info->policy == QUEUE_FAIR, settings);

	/* Now, for after the commit no caller can be told that it cannot be. */
	if (settings->given[SETTING_BUCKETS] &&
		DatumGetInt32(settings->values[SETTING_BUCKETS]) > info->buckets)
	{
		recovery_classes(rel, info);
		queue_catalog_set_up_lanes(info,
								   DatumGetInt32(settings->values[SETTING_BUCKETS]));
	}
	if (wants_archive(settings))
	{
		archive_provide(info->name, RelationGetRelid(rel), rel->rd_rel->relowner);
		/* Rows may be there that have not been read yet. */
		pending_due_added(&info->state->archive.cursor, DT_NOBEGIN, DT_NOEND);
	}
	if (settings->given[SETTING_SUBGROUPS] &&
		DatumGetBool(settings->values[SETTING_SUBGROUPS]) != info->subgroups)
		change_subgroups(info, &rel, !info->subgroups);
	SPI_connect();
	write_settings(info->name, settings, false);
	SPI_finish();
	for (int i = SETTING_SUBGROUP_WEIGHT; i <= SETTING_GROUP_BURST; i++)
	{
		if (!settings->given[i])
			continue;
		queue_settings_store(&after, i, settings->values[i], false);
		defaults = true;
	}
	if (defaults)
	{
		pending_defaults_set(info->state, &after.group_defaults, &after.subgroup_defaults);
		group_settings_adopt(info, rel);
	}
	settings_changed(rel);
	relation_close(rel, NoLock);
}

/*
 * Drop a queue with all its tasks.  Returns false if there is none.
 */
bool
queue_admin_drop(const text *name)
{
	char		queue[NAMEDATALEN];
	char		relname[NAMEDATALEN];
	Oid			schema = queue_catalog_schema(false);
	Oid			relation;
	char	   *archive;

	queue_catalog_check_name(name, queue);
	queue_catalog_relation_name(queue, relname);

	/* Once more with the lock, for which only an owner waits. */
	for (bool locked = false;; locked = true)
	{
		relation = get_relname_relid(relname, schema);
		if (!OidIsValid(relation) || !queue_catalog_has_settings(queue))
			return false;
		if (queue_open_missing(relation, QUEUE_OWNER) != 0)
			queue_catalog_not_owner(queue);
		if (locked)
			break;
		lock_name(queue);
	}

	archive = archive_table_to_drop(queue, relation);
	SPI_connect();
	run_as_sql(psprintf("DROP TABLE %s%s%s",
						quote_qualified_identifier(QUEUE_SCHEMA, relname),
						archive ? ", " : "", archive ? archive : ""));
	delete_settings(queue);
	SPI_finish();
	return true;
}
