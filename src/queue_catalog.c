/*-------------------------------------------------------------------------
 *
 * queue_catalog.c
 *	  Which queues there are, and how they are set.
 *
 * A queue is a table fairq.q_<name> and a row of settings in fairq.queue.
 * Here is the cache of what a backend needs to know about both.  A cached
 * queue is found by name and marked invalid when anything about its table
 * changes; whoever changes its settings says so with an invalidation of the
 * table's relcache entry (queue_admin.c).  To see that in time the table is
 * locked first, which reads pending invalidations, and then looked at.
 *
 * Once an entry is made the table is looked at, whether it can serve as a queue's
 * (queue_table.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class_d.h"
#include "catalog/pg_extension_d.h"
#include "commands/extension.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "durable_leases.h"
#include "group_settings.h"
#include "handover.h"
#include "lanes.h"
#include "new_queues.h"
#include "queue_catalog.h"
#include "queue_table.h"
#include "waiting.h"
#include "wakeup.h"

static HTAB *cache = NULL;

/* Counts all invalidations, to notice one that comes while an entry is filled. */
static uint64 invalidations = 0;

static void
relcache_callback(Datum arg, Oid relation)
{
	HASH_SEQ_STATUS status;
	QueueInfo  *info;

	invalidations++;
	if (cache == NULL)
		return;
	hash_seq_init(&status, cache);
	while ((info = hash_seq_search(&status)) != NULL)
	{
		if (!OidIsValid(relation) || info->relation == relation ||
			info->id_sequence == relation)
			info->valid = false;
	}
}

/*
 * Register for invalidations.  Called once a process, from _PG_init, before
 * anything is cached.
 */
void
queue_catalog_register(void)
{
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
}

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
				 errmsg("invalid queue name \"%.*s\"%s",
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

static void
unknown_queue(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("queue \"%s\" does not exist", name),
			 errhint("Create it with fairq.create_queue(), or see the view fairq.queues for those there are.")));
}

/*
 * The depth that a task counts in, by what column state says.
 */
QueueCounter
queue_catalog_depth(char state)
{
	switch (state)
	{
		case TASK_SCHEDULED:
			return QUEUE_SCHEDULED;
		case TASK_OVERFLOW:
			return QUEUE_OVERFLOW;
		case TASK_HELD:
			return QUEUE_HELD;
		case TASK_DEAD:
			return QUEUE_DEAD;
	}
	return QUEUE_ADDRESSED;
}

/*
 * What users call a state.  A ready task may be leased; the row does not say.
 */
const char *
queue_catalog_state_name(char state)
{
	switch (state)
	{
		case TASK_SCHEDULED:
			return "scheduled";
		case TASK_OVERFLOW:
			return "overflow";
		case TASK_HELD:
			return "held";
		case TASK_DEAD:
			return "dead";
	}
	return "ready";
}

/* The length of an interval in microseconds, a month counted as 30 days. */
int64
queue_catalog_usecs(const Interval *interval)
{
	double		usecs = (double) interval->time +
		(interval->day + interval->month * 30.0) * USECS_PER_DAY;

	/* Who writes rows with SQL may write anything: nothing is beyond a century. */
	if (usecs < 0)
		return 0;
	if (usecs > 36525.0 * USECS_PER_DAY)
		return INT64CONST(36525) * USECS_PER_DAY;
	return interval->time +
		(interval->day + interval->month * INT64CONST(30)) * USECS_PER_DAY;
}

/*
 * Read the settings of a queue.  Returns false if it has none.
 */
static bool
read_settings(QueueInfo *info)
{
	Oid			relid = get_relname_relid("queue", queue_catalog_schema(false));
	Relation	rel = table_open(relid, AccessShareLock);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;
	Oid			index = InvalidOid;
	List	   *indexes = RelationGetIndexList(rel);

	if (indexes != NIL)
		index = linitial_oid(indexes);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(info->name));
	scan = systable_beginscan(rel, index, OidIsValid(index), NULL, 1, &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
	{
		Datum		values[32];
		bool		nulls[32];
		char	   *policy;

		info->own_settings =
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
		Assert(tupdesc->natts <= (int) lengthof(values));
		heap_deform_tuple(tuple, tupdesc, values, nulls);
#define SETTING(name) values[get_attnum(relid, name) - 1]
#define IS_NULL(name) nulls[get_attnum(relid, name) - 1]
		policy = TextDatumGetCString(SETTING("policy"));
		info->policy = strcmp(policy, "fair") == 0 ? QUEUE_FAIR :
			strcmp(policy, "priority") == 0 ? QUEUE_PRIORITY : QUEUE_TIME;
		info->buckets = DatumGetInt32(SETTING("buckets"));
		info->lease = queue_catalog_usecs(DatumGetIntervalP(SETTING("lease")));
		info->max_attempts = DatumGetInt32(SETTING("max_attempts"));
		info->backoff_base = queue_catalog_usecs(DatumGetIntervalP(SETTING("backoff_base")));
		info->backoff_max = queue_catalog_usecs(DatumGetIntervalP(SETTING("backoff_max")));
		info->max_ready = DatumGetInt64(SETTING("max_ready"));
		info->max_ready_per_group = DatumGetInt64(SETTING("max_ready_per_group"));
		info->max_tasks = IS_NULL("max_tasks") ? 0 :
			DatumGetInt64(SETTING("max_tasks"));
		info->keep_done = IS_NULL("keep_done") ? 0 :
			queue_catalog_usecs(DatumGetIntervalP(SETTING("keep_done")));
		info->durable_leases = DatumGetBool(SETTING("durable_leases"));
		info->charge_seconds = strcmp(TextDatumGetCString(SETTING("charge")), "seconds") == 0;
		info->notify = DatumGetBool(SETTING("notify"));
		info->paused = DatumGetBool(SETTING("paused"));
		info->group_defaults.weight = DatumGetFloat4(SETTING("group_weight"));
		info->group_defaults.max_leased = DatumGetInt32(SETTING("group_max_leased"));
		info->group_defaults.rate = DatumGetFloat4(SETTING("group_rate"));
		info->group_defaults.burst = DatumGetInt32(SETTING("group_burst"));
		info->group_defaults.paused = false;
#undef IS_NULL
#undef SETTING
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Lock the extension, and its table of settings for reading, unless that has to
 * be waited for.  DROP EXTENSION locks the extension first: who has that lock
 * does not meet it half way.
 */
bool
queue_catalog_lock_settings(void)
{
	Oid			extension = get_extension_oid("pgfairq", true);
	Oid			relid;
	LOCKTAG		tag;

	if (!OidIsValid(extension))
		return false;
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extension, 0);
	if (LockAcquire(&tag, AccessShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL ||
		get_extension_oid("pgfairq", true) != extension)
		return false;
	relid = queue_catalog_member("queue");
	return OidIsValid(relid) && ConditionalLockRelationOid(relid, AccessShareLock) &&
		queue_catalog_member("queue") == relid;
}

/*
 * The tables of all queues of the database, in a list of Oid.
 */
List *
queue_catalog_list(void)
{
	List	   *result = NIL;
	Oid			schema = queue_catalog_schema(false);
	Oid			relid = get_relname_relid("queue", schema);
	Relation	rel = table_open(relid, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		bool		isnull;
		Datum		name = heap_getattr(tuple, get_attnum(relid, "queue"),
										RelationGetDescr(rel), &isnull);
		char		relname[NAMEDATALEN];
		Oid			queue;

		queue_catalog_relation_name(TextDatumGetCString(name), relname);
		queue = get_relname_relid(relname, schema);
		if (OidIsValid(queue))
			result = lappend_oid(result, queue);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

/*
 * Has a relation such a name as the tables of queues have?
 */
bool
queue_catalog_is_named_so(Oid relation)
{
	char	   *name = get_rel_name(relation);

	return name != NULL && strncmp(name, "q_", 2) == 0 &&
		get_rel_namespace(relation) == queue_catalog_schema(true);
}

/*
 * Is there a queue of this name, as far as the settings know?
 */
bool
queue_catalog_has_settings(const char *queue)
{
	QueueInfo	info = {0};

	strlcpy(info.name, queue, NAMEDATALEN);
	return read_settings(&info);
}

/*
 * Let others go by the settings that were read.
 *
 * Not by those that this transaction has written: they are not in force before it
 * commits, and perhaps it does not.  But nobody else sees a table that is new.
 */
static void
publish_settings(const QueueInfo *info, bool new)
{
	QueuePublic public;

	if (info->own_settings && !new)
		return;
	public.max_ready = info->max_ready;
	public.max_ready_per_group = info->max_ready_per_group;
	public.charge_seconds = info->charge_seconds;
	public.group_defaults = info->group_defaults;
	if (queue_state_publish(info->state, &public, info->settings))
		limits_defaults_changed(queue_state_number(info->state));
}

/*
 * Fill a cache entry from the catalogs.  The relation is open and locked.
 */
static void
fill_entry(QueueInfo *info, Relation rel)
{
	uint64		before = invalidations;
	QueueState *state = queue_state_find(RelationGetRelid(rel));

	info->settings = state ? pg_atomic_read_u32(&state->settings) : 0;
	pg_read_barrier();

	if (!read_settings(info))
		unknown_queue(info->name);
	queue_table_examine(info, rel);

	info->relation = RelationGetRelid(rel);
	info->state = queue_state_attach(info->relation,
									 info->policy == QUEUE_FAIR ? FAIRQ_CLASSES : 1);
	publish_settings(info, rel->rd_createSubid != InvalidSubTransactionId);
	if (!info->state->limits.known || info->state->limits.prepared)
		group_settings_load(info, rel);
	if (rel->rd_createSubid != InvalidSubTransactionId)
		new_queues_add(info->relation, rel->rd_createSubid);

	/* Producers' commits see this; what they do not see is not yet in force. */
	if (!info->own_settings &&
		info->settings == pg_atomic_read_u32(&info->state->settings))
		waiting_set_notify(info->state, info->notify && !info->paused);

	/* Something may have changed since it was read: read it once more. */
	info->valid = (before == invalidations);
}

/*
 * If the table's file is another one than the lanes were filled from (VACUUM
 * FULL, CLUSTER, TRUNCATE, or the first time), the lanes' TIDs mean nothing:
 * have them read again, and the tags and depths too.
 */
static void
check_file(QueueInfo *info, Relation rel)
{
	QueueState *state = info->state;

	if (likely(state->relation_file == fairq_relation_file(rel)))
		return;

	/* Leases are not compared with rows that may be gone if we fail. */
	if (fairq_relation_rewritten(rel))
		handover_read_again(info->relation);

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	if (state->relation_file != fairq_relation_file(rel))
	{
		/* First: what is set aside from now on may have been read since. */
		limits_forget_parked(queue_state_number(state));
		for (int class = 0; class < state->classes; class++)
		{
			Lane	   *lane;

			for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
				lanes_lower(lane, NULL);
		}
		due_cursor_add(&state->due, DT_NOBEGIN);
		queue_state_look_from(state, PG_INT64_MIN);
		SpinLockAcquire(&state->recovery_mutex);
		if (state->recovery == QUEUE_KNOWN)
			state->recovery = QUEUE_UNKNOWN;
		if (state->leases == QUEUE_KNOWN)
			state->leases = QUEUE_UNKNOWN;
		state->classes_known = false;
		SpinLockRelease(&state->recovery_mutex);
		state->relation_file = fairq_relation_file(rel);

		/* What was set aside of the overflow is found by reading that again. */
		wakeup_at(state->database, 0);
	}
	LWLockRelease(&state->lock);
}

/*
 * A queue that is used is as it was left: what shared memory knows of it is of
 * its present file, and its durable leases are leases.
 */
static void
look_after_state(QueueInfo *info, Relation rel)
{
	check_file(info, rel);
	if (unlikely(info->state->leases != QUEUE_KNOWN))
		durable_leases_restore(rel, info);
}

static void
check_privileges(QueueInfo *info, Relation rel, AclMode privileges)
{
	AclMode		missing;

	if (privileges == 0)
		return;
	missing = privileges & ~pg_class_aclmask(info->relation, GetUserId(), privileges,
											 ACLMASK_ALL);
	for (int i = 0; missing != 0 && i < N_ACL_RIGHTS; i++)
	{
		AclMode		mode = missing & (UINT64CONST(1) << i);

		if (mode != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("permission denied for queue \"%s\"", info->name),
					 errhint("It takes the privilege %s on table %s.",
							 mode == ACL_INSERT ? "INSERT" :
							 mode == ACL_SELECT ? "SELECT" :
							 mode == ACL_UPDATE ? "UPDATE" : "DELETE",
							 quote_qualified_identifier(QUEUE_SCHEMA,
														RelationGetRelationName(rel)))));
	}
	if (rel->rd_rel->relrowsecurity &&
		check_enable_rls(info->relation, InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("row security is enabled for queue \"%s\"", info->name),
				 errdetail("Policies are not applied to the rows of a queue."),
				 errhint("Disable row security on the table, or use a role that bypasses it.")));
}

static QueueInfo *
cache_entry(const char *name)
{
	QueueInfo  *info;
	bool		found;

	if (cache == NULL)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = NAMEDATALEN;
		ctl.entrysize = sizeof(QueueInfo);
		ctl.hcxt = TopMemoryContext;
		cache = hash_create("pgfairq queues", 32, &ctl,
							HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	info = hash_search(cache, name, HASH_ENTER, &found);
	if (!found)
	{
		info->valid = false;
		info->relation = InvalidOid;
		info->id_sequence = InvalidOid;
		info->state = NULL;
	}
	return info;
}

static QueueInfo *
open_by_name(const char *name, LOCKMODE lockmode, bool missing_ok, Relation *rel)
{
	for (;;)
	{
		QueueInfo  *info = cache_entry(name);
		Oid			relation = info->relation;

		if (!info->valid)
		{
			char		relname[NAMEDATALEN];
			Oid			schema = queue_catalog_schema(true);

			queue_catalog_relation_name(name, relname);
			relation = OidIsValid(schema) ?
				get_relname_relid(relname, schema) : InvalidOid;
			if (!OidIsValid(relation))
			{
				hash_search(cache, name, HASH_REMOVE, NULL);
				if (missing_ok)
					return NULL;
				unknown_queue(name);
			}
		}

		*rel = try_relation_open(relation, lockmode);
		/* Invalidations may come after those who wait for them were told. */
		if (*rel != NULL && info->valid && info->relation == relation &&
			info->settings != pg_atomic_read_u32(&info->state->settings))
			info->valid = false;
		if (*rel != NULL && info->valid && info->relation == relation)
		{
			look_after_state(info, *rel);
			return info;
		}
		if (*rel != NULL && !info->valid)
		{
			char		relname[NAMEDATALEN];

			/* Renamed or replaced before it was locked: look again. */
			queue_catalog_relation_name(name, relname);
			if (get_relname_relid(relname, RelationGetNamespace(*rel)) == relation)
			{
				fill_entry(info, *rel);
				if (info->valid)
				{
					look_after_state(info, *rel);
					return info;
				}
			}
		}
		if (*rel != NULL)
			relation_close(*rel, lockmode);
		info->valid = false;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Open a queue's table, and return what is known about the queue.
 *
 * name is checked; privileges are those the caller must have on the table, by
 * GetUserId().  Errors: 22023 for a bad name, 42704 for an unknown queue, 42501
 * for a missing privilege, 42P16 for a table that is not fit.
 */
QueueInfo *
queue_catalog_open(const text *name, LOCKMODE lockmode, AclMode privileges,
				   Relation *rel)
{
	char		key[NAMEDATALEN];
	QueueInfo  *info;

	queue_catalog_check_name(name, key);
	info = open_by_name(key, lockmode, false, rel);
	check_privileges(info, *rel, privileges);
	return info;
}

/*
 * The same for a table, which may not be a queue's, or be gone: NULL then, and so
 * is *rel.
 */
QueueInfo *
queue_catalog_open_relation(Oid relation, LOCKMODE lockmode,
							AclMode privileges, Relation *rel)
{
	QueueInfo  *info = NULL;
	char		name[NAMEDATALEN] = "";
	char	   *relname;

	*rel = NULL;

	/* A backend mostly works on a queue or two: a short walk. */
	if (cache != NULL)
	{
		HASH_SEQ_STATUS status;

		hash_seq_init(&status, cache);
		while ((info = hash_seq_search(&status)) != NULL)
		{
			if (info->valid && info->relation == relation)
			{
				strlcpy(name, info->name, NAMEDATALEN);
				hash_seq_term(&status);
				break;
			}
		}
	}
	if (name[0] == '\0')
	{
		if (!queue_catalog_is_named_so(relation))
			return NULL;
		relname = get_rel_name(relation);
		if (relname == NULL)
			return NULL;
		strlcpy(name, relname + 2, NAMEDATALEN);
	}
	info = open_by_name(name, lockmode, true, rel);
	if (info == NULL || info->relation != relation)
	{
		/* Gone, renamed, or replaced by another of its name. */
		if (info != NULL)
			relation_close(*rel, lockmode);
		*rel = NULL;
		return NULL;
	}
	check_privileges(info, *rel, privileges);
	return info;
}

/*
 * Only the owner may go on.
 */
void
queue_catalog_check_owner(const QueueInfo *info)
{
	if (!fairq_relation_ownercheck(info->relation, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of queue \"%s\"", info->name),
				 errhint("Use the role that owns the queue's table.")));
}

static void
no_lanes(QueueInfo *info, int missing)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("cannot set up %d more lanes for queue \"%s\"", missing, info->name),
			 errhint("Raise the setting \"%s\" and restart the server, or use fewer queues, buckets or priority classes.",
					 "pgfairq.max_lanes")));
}

/*
 * The lane of a class and a bucket of a queue, set up if it is not there yet:
 * with those of all buckets that new tasks of the class go to, so that there is
 * one moment at which lanes may run out.
 *
 * Any bucket may have tasks.  When a queue has fewer buckets than before, what
 * is in the others stays there; rows come from dumps, by SQL and by replication.
 * And the number of buckets that a process knows may be out of date.  So lanes
 * are where tasks are or may come, whatever the settings say; and who looks for
 * tasks looks at the lanes.
 */
Lane *
queue_catalog_lane(QueueInfo *info, int class, int bucket)
{
	QueueState *state = info->state;
	LaneSet    *set = &state->orders[class].lanes;
	Lane	   *lane = lanes_of(set, bucket);
	int			missing;
	bool		done;

	if (likely(lane != NULL))
		return lane;

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	done = lanes_set_up(&set, 1, info->buckets, bucket, &missing);
	LWLockRelease(&state->lock);
	if (!done)
		no_lanes(info, missing);
	return lanes_of(set, bucket);
}

/*
 * Set up what it takes for new tasks to go to so many buckets, in each class in
 * use, or at least the first.
 */
void
queue_catalog_set_up_lanes(QueueInfo *info, int buckets)
{
	QueueState *state = info->state;
	LaneSet    *sets[FAIRQ_CLASSES];
	int			n = 0;
	int			missing;
	bool		done;

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	for (int class = 0; class < state->classes; class++)
	{
		if (lanes_any(&state->orders[class].lanes))
			sets[n++] = &state->orders[class].lanes;
	}
	if (n == 0)
		sets[n++] = &state->orders[0].lanes;
	done = lanes_set_up(sets, n, buckets, -1, &missing);
	LWLockRelease(&state->lock);
	if (!done)
		no_lanes(info, missing);
}
