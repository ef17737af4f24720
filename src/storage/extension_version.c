/*-------------------------------------------------------------------------
 *
 * extension_version.c
 *	  Is the SQL of this database of the library's version?
 *
 * A new library serves all databases of the server as soon as that has been
 * restarted, and each database gets its functions, views and columns with an
 * ALTER EXTENSION there.  In between the library knows other arguments and
 * columns than the database has, so it refuses: all functions but those of the
 * type address, which do not change, and the triggers.  The row trigger has the
 * queue read again, so rows may be written with SQL meanwhile; tables can be
 * dumped, altered and dropped.
 *
 * What was found is kept until the extension changes.  The server has no cache
 * of extensions that would tell us, so a backend that alters ours invalidates
 * the relcache entry of its table fairq.queue (extension_version_altered).
 * That is sent at commit, undone with the transaction, and is what DROP
 * EXTENSION does anyway.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"

#include "storage/queue_catalog.h"
#include "storage/queue_open.h"

bool		extension_version_is_ours = false;

/* The table whose invalidation says that this may have changed. */
static Oid	watched = InvalidOid;

/* And if the version is another one: that was found out, too. */
static bool is_another = false;

static void
forget(Datum arg, Oid relation)
{
	if (OidIsValid(relation) && relation != watched)
		return;
	extension_version_is_ours = false;
	is_another = false;
}

/*
 * Called once a process, from _PG_init, before anything is cached.
 */
void
extension_version_register(void)
{
	CacheRegisterRelcacheCallback(forget, (Datum) 0);
}

/*
 * The version of the extension in this database; NULL: it is not there.
 */
static char *
read_version(void)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	char	   *version = NULL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("pgfairq"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;

		version = TextDatumGetCString(heap_getattr(tuple, Anum_pg_extension_extversion,
												   RelationGetDescr(rel), &isnull));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return version;
}

/*
 * Is the SQL of the library's version?  If not, that is reported at a level,
 * unless it is 0.
 *
 * Without the extension, for it is just being dropped, there is no other
 * version.
 */
bool
extension_version_matches(int elevel)
{
	char	   *version;

	if (extension_version_is_ours || (is_another && elevel == 0))
		return extension_version_is_ours;

	/* First: what comes while we read is then seen. */
	watched = queue_catalog_member("queue");
	version = read_version();
	if (version == NULL)
		return true;
	if (strcmp(version, FAIRQ_VERSION) == 0)
	{
		extension_version_is_ours = OidIsValid(watched);
		return true;
	}
	is_another = OidIsValid(watched);
	if (elevel != 0)
		ereport(elevel,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"pgfairq\" has version %s in database \"%s\", and the server's library has version %s",
						version, get_database_name(MyDatabaseId), FAIRQ_VERSION),
				 errhint("Run ALTER EXTENSION pgfairq UPDATE in this database; if the library is the older one, install that of version %s and restart the server.",
						 version)));
	return false;
}

/*
 * An extension was created or altered: is it ours, all are told at commit, and
 * we now.
 */
void
extension_version_altered(Oid extension)
{
	Oid			table;

	if (extension != get_extension_oid("pgfairq", true))
		return;
	forget((Datum) 0, InvalidOid);
	table = queue_catalog_member("queue");
	if (OidIsValid(table))
		CacheInvalidateRelcacheByRelid(table);
}
