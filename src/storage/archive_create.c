/*-------------------------------------------------------------------------
 *
 * archive_create.c
 *	  Making the table of an archive, or using the one that is there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "lib/stringinfo.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "common/run_as.h"
#include "storage/archive.h"

/*
 * Refuse to create a queue whose archive's name is taken.
 */
void
archive_check_name(const char *queue)
{
	char		name[NAMEDATALEN];

	if (OidIsValid(archive_find_table(queue, name)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("cannot keep done tasks of queue \"%s\": relation \"%s.%s\" already exists",
						queue, QUEUE_SCHEMA, name),
				 errhint("Choose another name for the queue, or rename or drop that relation.")));
}

/* The command that creates the index with which fairq.await finds a task. */
static const char *
id_index(const char *queue, const char *name)
{
	return psprintf("CREATE INDEX %s ON %s (id)",
					quote_identifier(psprintf("id_done_of_%s", queue)),
					quote_qualified_identifier(QUEUE_SCHEMA, name));
}

static void
run_sql_as(Oid owner, const char *sql)
{
	RunAs		context;

	run_as_role(owner, &context);
	SPI_connect();
	run_as_sql(sql);
	SPI_finish();
	run_as_end(&context);
}

static void
create_archive(const char *queue, const char *name, Oid owner)
{
	StringInfoData sql;

	if (fairq_namespace_aclcheck(queue_catalog_schema(false), owner, ACL_CREATE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to keep done tasks of queue \"%s\"", queue),
				 errhint("Its owner needs the privilege CREATE on schema \"%s\".", QUEUE_SCHEMA)));

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE TABLE %s (",
					 quote_qualified_identifier(QUEUE_SCHEMA, name));
	for (int i = 0; i < DONE_COLUMNS; i++)
		appendStringInfo(&sql, "%s %s, ", archive_columns[i].name,
						 archive_columns[i].definition);
	appendStringInfo(&sql, "CONSTRAINT %s PRIMARY KEY (done_at, id))",
					 quote_identifier(psprintf("when_done_of_%s", queue)));

	appendStringInfo(&sql, "; %s", id_index(queue, name));
	run_sql_as(owner, sql.data);
}

/*
 * An archive of an earlier version gets the columns that it lacks, and an index
 * to find results.
 */
static void
complete_archive(const char *queue, Oid archive, const char *name, Oid owner,
				 const ArchiveShape *shape)
{
	const char *add = archive_add_columns(archive, name, ~UINT32_C(0));

	if (add != NULL)
		run_sql_as(owner, add);
	if (!OidIsValid(shape->by_id))
		run_sql_as(owner, id_index(queue, name));
}

/*
 * See that a queue has an archive: create it, or use the one that it had.
 */
void
archive_provide(const char *queue, Oid table, Oid owner)
{
	char		name[NAMEDATALEN];
	Oid			oid = archive_find_table(queue, name);

	if (OidIsValid(oid))
	{
		Relation	relation = relation_open(oid, AccessShareLock);
		ArchiveShape shape;
		const char *problem = archive_problem(relation, owner, &shape);

		if (problem != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("cannot keep done tasks of queue \"%s\" in relation \"%s.%s\"",
							queue, QUEUE_SCHEMA, name),
					 errdetail_internal("%s", problem),
					 errhint("Rename or drop that relation.")));
		relation_close(relation, NoLock);
		complete_archive(queue, oid, name, owner, &shape);
	}
	else
	{
		create_archive(queue, name, owner);
		oid = archive_find_table(queue, name);
	}
	archive_bind(oid, table);
}
