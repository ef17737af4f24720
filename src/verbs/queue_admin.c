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

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "shmem/groups.h"
#include "storage/archive.h"
#include "storage/group_settings.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "verbs/queue_admin.h"
#include "xact/pending.h"

/* The columns of fairq.queue. */
static const struct
{
	const char *name;
	Oid			type;
}			setting_columns[QUEUE_SETTINGS] = {
	[SETTING_POLICY] = {"policy", TEXTOID},
	[SETTING_BUCKETS] = {"buckets", INT4OID},
	[SETTING_LEASE] = {"lease", INTERVALOID},
	[SETTING_MAX_ATTEMPTS] = {"max_attempts", INT4OID},
	[SETTING_BACKOFF_BASE] = {"backoff_base", INTERVALOID},
	[SETTING_BACKOFF_MAX] = {"backoff_max", INTERVALOID},
	[SETTING_MAX_READY] = {"max_ready", INT8OID},
	[SETTING_MAX_READY_PER_GROUP] = {"max_ready_per_group", INT8OID},
	[SETTING_MAX_TASKS] = {"max_tasks", INT8OID},
	[SETTING_KEEP_DONE] = {"keep_done", INTERVALOID},
	[SETTING_DURABLE_LEASES] = {"durable_leases", BOOLOID},
	[SETTING_CHARGE] = {"charge", TEXTOID},
	[SETTING_NOTIFY] = {"notify", BOOLOID},
	[SETTING_GROUP_WEIGHT] = {"group_weight", FLOAT4OID},
	[SETTING_GROUP_MAX_LEASED] = {"group_max_leased", INT4OID},
	[SETTING_GROUP_RATE] = {"group_rate", FLOAT4OID},
	[SETTING_GROUP_BURST] = {"group_burst", INT4OID},
	[SETTING_PAUSED] = {"paused", BOOLOID},
};

/*
 * Run a command on the extension's tables as their owner.  The caller has
 * connected to SPI, and checked that it may be done.  Returns how many rows were
 * written.
 */
uint64
queue_admin_execute(const char *command, int n, Oid *types, Datum *values,
					const char *nulls)
{
	Oid			relation = get_relname_relid("queue", queue_catalog_schema(false));
	Oid			owner = run_as_owner_of(relation);
	RunAs		context;
	int			result;

	if (!OidIsValid(owner))
		elog(ERROR, "table fairq.queue is missing");
	run_as_role(owner, &context);
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
		types[n] = setting_columns[i].type;
		values[n] = settings->values[i];
		nulls[n] = settings->nulls[i] ? 'n' : ' ';
		n++;
		if (new)
		{
			appendStringInfo(&names, ", %s", setting_columns[i].name);
			appendStringInfo(&parameters, ", $%d", n);
		}
		else
			appendStringInfo(&names, "%s%s = $%d", n > 2 ? ", " : "",
							 setting_columns[i].name, n);
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

/* Forget the settings of a queue, and what it has subscribed to. */
static void
delete_settings(const char *queue)
{
	Oid			type = TEXTOID;
	Datum		value = CStringGetTextDatum(queue);

	queue_admin_execute("DELETE FROM fairq.queue WHERE queue OPERATOR(pg_catalog.=) $1",
						1, &type, &value, " ");
}

/*
 * Only under policy fair there is an overflow (see placement_assign), and are
 * tasks charged for.
 */
static void
check_fair_settings(const char *queue, bool fair, const QueueSettings *settings)
{
	if (!fair && settings->given[SETTING_CHARGE] &&
		strcmp(TextDatumGetCString(settings->values[SETTING_CHARGE]), "cost") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"charge\" is '%s', and queue \"%s\" is not of policy fair",
						TextDatumGetCString(settings->values[SETTING_CHARGE]), queue),
				 errhint("Leave it out: only under policy fair are groups charged for their tasks.")));
	for (int i = SETTING_MAX_READY; !fair && i <= SETTING_MAX_READY_PER_GROUP; i++)
	{
		int64		standard = (i == SETTING_MAX_READY) ? 1000000 : 10000;

		if (settings->given[i] && DatumGetInt64(settings->values[i]) != standard)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"%s\" is " INT64_FORMAT ", and queue \"%s\" is not of policy fair",
							setting_columns[i].name,
							DatumGetInt64(settings->values[i]), queue),
					 errhint("Leave it out: only under policy fair do tasks wait for room. See \"max_tasks\" for a limit.")));
	}
}

static bool
wants_archive(const QueueSettings *settings)
{
	return settings->given[SETTING_KEEP_DONE] && !settings->nulls[SETTING_KEEP_DONE];
}

/*
 * Create a queue.  The caller needs CREATE on schema fairq.
 */
void
queue_admin_create(const text *name, const QueueSettings *settings)
{
	char		queue[NAMEDATALEN];
	char		relname[NAMEDATALEN];
	char		sequence[NAMEDATALEN];
	char		index[NAMEDATALEN];
	Oid			schema = queue_catalog_schema(false);
	const char *table;
	StringInfoData sql;

	queue_catalog_check_name(name, queue);
	queue_catalog_relation_name(queue, relname);
	if (fairq_namespace_aclcheck(schema, GetUserId(), ACL_CREATE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to create queue \"%s\"", queue),
				 errhint("It takes the privilege CREATE on schema %s.", QUEUE_SCHEMA)));
	check_fair_settings(queue, !settings->given[SETTING_POLICY] ||
				   strcmp(TextDatumGetCString(settings->values[SETTING_POLICY]), "fair") == 0,
				   settings);
	if (OidIsValid(get_relname_relid(relname, schema)))
	{
		if (queue_catalog_has_settings(queue))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("queue \"%s\" already exists", queue),
					 errhint("Choose another name, or drop the queue with fairq.drop_queue().")));
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("cannot create queue \"%s\": there is a relation %s that is not a queue's",
						queue, quote_qualified_identifier(QUEUE_SCHEMA, relname)),
				 errhint("Choose another name, or rename or drop that relation.")));
	}

	if (wants_archive(settings))
		archive_check_name(queue);

	table = quote_qualified_identifier(QUEUE_SCHEMA, relname);
	/* Names that no other queue's table can have. */
	snprintf(sequence, sizeof(sequence), "ids_of_%s", queue);
	snprintf(index, sizeof(index), "address_of_%s", queue);

	SPI_connect();
	initStringInfo(&sql);

	/*
	 * VACUUM is not to cut off the empty end of the table: it would lock it
	 * exclusively for that, again and again, and the space is soon used.
	 *
	 * Columns from priority on are added with what most rows have, which then
	 * takes no room in these (queue_index.c); it is not to be a default.
	 */
	appendStringInfo(&sql,
					 "CREATE TABLE %s ("
					 " id pg_catalog.int8 NOT NULL,"
					 " address fairq.address,"
					 " enqueued_at pg_catalog.timestamptz NOT NULL,"
					 " state pg_catalog.\"char\" NOT NULL,"
					 " group_key pg_catalog.text NOT NULL,"
					 " payload pg_catalog.jsonb NOT NULL,"
					 " CONSTRAINT %s PRIMARY KEY (id)"
					 ") WITH (autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off)",
					 table, quote_identifier(psprintf("id_of_%s", queue)));
	run_as_sql(sql.data);

	resetStringInfo(&sql);
	appendStringInfo(&sql,
					 "ALTER TABLE %s"
					 " ADD priority pg_catalog.int8 NOT NULL DEFAULT 0,"
					 " ADD cost pg_catalog.float4 NOT NULL DEFAULT 1,"
					 " ADD attempts pg_catalog.int4 NOT NULL DEFAULT 0,"
					 " ADD run_at pg_catalog.timestamptz,"
					 " ADD max_attempts pg_catalog.int4,"
					 " ADD lease pg_catalog.interval,"
					 " ADD headers pg_catalog.jsonb,"
					 " ADD unique_key pg_catalog.text,"
					 " ADD last_error pg_catalog.text",
					 table);
	run_as_sql(sql.data);
	resetStringInfo(&sql);
	/*
	 * Keys stay in the row: a claim reads them with the row's page locked, and
	 * must not come to another table then.
	 */
	appendStringInfo(&sql, "ALTER TABLE %s ALTER priority DROP DEFAULT,"
					 " ALTER cost DROP DEFAULT, ALTER attempts DROP DEFAULT,"
					 " ALTER group_key SET STORAGE MAIN",
					 table);
	run_as_sql(sql.data);

	resetStringInfo(&sql);
	appendStringInfo(&sql, "CREATE INDEX %s ON %s USING btree (address)"
					 " WHERE address IS NOT NULL",
					 quote_identifier(index), table);
	run_as_sql(sql.data);

	resetStringInfo(&sql);
	appendStringInfo(&sql, "CREATE INDEX %s ON %s USING btree (run_at)"
					 " WHERE state OPERATOR(pg_catalog.=) '%c'",
					 quote_identifier(psprintf("due_of_%s", queue)), table,
					 TASK_SCHEDULED);
	run_as_sql(sql.data);

	/* The overflow, by group, class and id; group_table.c has the same hash. */
	resetStringInfo(&sql);
	appendStringInfo(&sql, "CREATE INDEX %s ON %s USING btree"
					 " (pg_catalog.hashtextextended(group_key COLLATE pg_catalog.\"C\", 0), priority, id)"
					 " WHERE state OPERATOR(pg_catalog.=) '%c'",
					 quote_identifier(psprintf("overflow_of_%s", queue)), table,
					 TASK_OVERFLOW);
	run_as_sql(sql.data);

	/* By bytes: what an update of the locale data cannot spoil. */
	resetStringInfo(&sql);
	appendStringInfo(&sql, "CREATE INDEX %s ON %s USING btree (unique_key COLLATE pg_catalog.\"C\")"
					 " WHERE unique_key IS NOT NULL AND state OPERATOR(pg_catalog.<>) '%c'",
					 quote_identifier(psprintf("key_of_%s", queue)), table, TASK_DEAD);
	run_as_sql(sql.data);

	resetStringInfo(&sql);
	appendStringInfo(&sql, "CREATE INDEX %s ON %s USING btree (id)"
					 " WHERE state OPERATOR(pg_catalog.=) '%c'",
					 quote_identifier(psprintf("held_of_%s", queue)), table, TASK_HELD);
	run_as_sql(sql.data);

	resetStringInfo(&sql);
	appendStringInfo(&sql, "CREATE SEQUENCE %s INCREMENT BY %d MINVALUE 1 START WITH 1 OWNED BY %s.id",
					 quote_qualified_identifier(QUEUE_SCHEMA, sequence),
					 QUEUE_ID_BLOCK, table);
	run_as_sql(sql.data);

	resetStringInfo(&sql);
	appendStringInfo(&sql, "CREATE TRIGGER fairq_row_written"
					 " AFTER INSERT OR UPDATE OR DELETE ON %s"
					 " FOR EACH ROW EXECUTE FUNCTION fairq.row_written()",
					 table);
	run_as_sql(sql.data);
	resetStringInfo(&sql);
	appendStringInfo(&sql, "ALTER TABLE %s ENABLE ALWAYS TRIGGER fairq_row_written",
					 table);
	run_as_sql(sql.data);

	/* Settings that a dropped table of this name has left behind are void. */
	delete_settings(queue);
	write_settings(queue, settings, true);
	SPI_finish();
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

/* Open a queue that its owner is going to change, one at a time. */
QueueInfo *
queue_admin_open(const text *name, Relation *rel)
{
	QueueInfo  *info = queue_open(name, ShareUpdateExclusiveLock, 0, rel);

	queue_catalog_check_owner(info);
	if (IsolationUsesXactSnapshot())
		check_visible(info);
	return info;
}

/* Tell everybody, at commit. */
static void
settings_changed(Relation rel)
{
	CacheInvalidateRelcache(rel);
	pending_settings(RelationGetRelid(rel));
}

/*
 * Change settings of a queue; those not given stay.  In force for others', and for
 * what is shared with them, when the transaction has committed.
 */
void
queue_admin_alter(const text *name, const QueueSettings *settings)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(name, &rel);

	check_fair_settings(info->name, info->policy == QUEUE_FAIR, settings);

	/* Now, for once it has committed there is nobody to tell that it cannot be. */
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
		/* Rows may be there that nobody has read yet. */
		pending_due_added(&info->state->archive.cursor, DT_NOBEGIN, DT_NOEND);
	}
	SPI_connect();
	write_settings(info->name, settings, false);
	SPI_finish();
	if (settings->given[SETTING_GROUP_WEIGHT] || settings->given[SETTING_GROUP_MAX_LEASED] ||
		settings->given[SETTING_GROUP_RATE] || settings->given[SETTING_GROUP_BURST])
	{
		LimitSettings defaults = info->group_defaults;

		if (settings->given[SETTING_GROUP_WEIGHT])
			defaults.weight = DatumGetFloat4(settings->values[SETTING_GROUP_WEIGHT]);
		if (settings->given[SETTING_GROUP_MAX_LEASED])
			defaults.max_leased = DatumGetInt32(settings->values[SETTING_GROUP_MAX_LEASED]);
		if (settings->given[SETTING_GROUP_RATE])
			defaults.rate = DatumGetFloat4(settings->values[SETTING_GROUP_RATE]);
		if (settings->given[SETTING_GROUP_BURST])
			defaults.burst = DatumGetInt32(settings->values[SETTING_GROUP_BURST]);
		pending_defaults_set(info->state, &defaults);
		group_settings_adopt(info, rel);
	}
	settings_changed(rel);
	relation_close(rel, NoLock);
}

/*
 * Change what a group was given, when the transaction commits.  Errors: 42704,
 * 42501, 53400.
 */
void
queue_admin_set_group(const text *queue, const text *group,
					  const GroupSettings *settings)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(queue, &rel);
	Oid			types[7] = {TEXTOID, TEXTOID, FLOAT4OID, INT4OID, FLOAT4OID, INT4OID, BOOLOID};
	Datum		values[7] = {0};
	char		nulls[8] = "       ";
	Datum		result[5];
	bool		result_nulls[5];
	LimitSettings after;
	uint32		limit;

	values[0] = CStringGetTextDatum(info->name);
	values[1] = PointerGetDatum(group);
	values[2] = Float4GetDatum(settings->values.weight);
	values[3] = Int32GetDatum(settings->values.max_leased);
	values[4] = Float4GetDatum(settings->values.rate);
	values[5] = Int32GetDatum(settings->values.burst);
	values[6] = BoolGetDatum(settings->values.paused);
	nulls[2] = settings->has_weight ? ' ' : 'n';
	nulls[3] = settings->has_max_leased ? ' ' : 'n';
	nulls[4] = settings->has_rate ? ' ' : 'n';
	nulls[5] = settings->has_burst ? ' ' : 'n';
	nulls[6] = settings->has_paused ? ' ' : 'n';

	SPI_connect();
	queue_admin_execute("INSERT INTO fairq.group_setting AS s"
						" (queue, group_key, weight, max_leased, rate, burst, paused)"
						" VALUES ($1, $2, $3, $4, $5, $6, coalesce($7, false))"
						" ON CONFLICT (queue, group_key) DO UPDATE SET"
						" weight = coalesce($3, s.weight),"
						" max_leased = coalesce($4, s.max_leased),"
						" rate = coalesce($5, s.rate),"
						" burst = coalesce($6, s.burst),"
						" paused = coalesce($7, s.paused)"
						" RETURNING weight, max_leased, rate, burst, paused",
						7, types, values, nulls);
	if (SPI_processed != 1)
		elog(ERROR, "settings of a group were written " UINT64_FORMAT " times", SPI_processed);
	heap_deform_tuple(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, result, result_nulls);
	group_settings_of_row(result, result_nulls, &after);
	SPI_finish();

	/* Nothing may fail between the two. */
	pending_reserve(1);
	limit = groups_announce_limit(info->state, VARDATA_ANY(group),
								  VARSIZE_ANY_EXHDR(group));
	pending_group_set(info->state, limit, &after);
	group_settings_adopt(info, rel);
	relation_close(rel, NoLock);
}

/*
 * Change what the other groups of a queue may have.
 */
void
queue_admin_set_group_defaults(const text *queue, const GroupSettings *settings)
{
	QueueSettings changes = {0};

	if (settings->has_weight)
		queue_setting(&changes, SETTING_GROUP_WEIGHT, Float4GetDatum(settings->values.weight));
	if (settings->has_max_leased)
		queue_setting(&changes, SETTING_GROUP_MAX_LEASED, Int32GetDatum(settings->values.max_leased));
	if (settings->has_rate)
		queue_setting(&changes, SETTING_GROUP_RATE, Float4GetDatum(settings->values.rate));
	if (settings->has_burst)
		queue_setting(&changes, SETTING_GROUP_BURST, Int32GetDatum(settings->values.burst));
	queue_admin_alter(queue, &changes);
}

/*
 * Stop (or let go on) claims from a queue.
 */
void
queue_admin_pause(const text *name, bool paused)
{
	QueueSettings settings = {0};
	Relation	rel;
	QueueInfo  *info = queue_admin_open(name, &rel);

	queue_setting(&settings, SETTING_PAUSED, BoolGetDatum(paused));
	SPI_connect();
	write_settings(info->name, &settings, false);
	SPI_finish();
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
	relation = get_relname_relid(relname, schema);
	if (!OidIsValid(relation) || !queue_catalog_has_settings(queue))
		return false;
	if (!fairq_relation_ownercheck(relation, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of queue \"%s\"", queue),
				 errhint("Use the role that owns the queue's table.")));

	archive = archive_table_to_drop(queue, relation);
	SPI_connect();
	run_as_sql(psprintf("DROP TABLE %s%s%s",
					 quote_qualified_identifier(QUEUE_SCHEMA, relname),
					 archive ? ", " : "", archive ? archive : ""));
	delete_settings(queue);
	SPI_finish();
	return true;
}
