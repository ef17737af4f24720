/*-------------------------------------------------------------------------
 *
 * queue_open.c
 *	  Opening queues, and what a backend keeps of those it has opened.
 *
 * Here is the cache of what a backend needs to know about a queue's table and
 * its settings.  A cached queue is found by name and marked invalid when
 * anything about its table changes; whoever changes its settings says so with
 * an invalidation of the table's relcache entry (queue_admin.c).  To see that
 * in time the table is locked first, which reads pending invalidations, and
 * then looked at.
 *
 * An entry does not change under a caller that has it: the caller has the
 * table open for as long, and if the table is looked at anew meanwhile that
 * makes another entry.
 *
 * Once an entry is made the table is looked at, whether it can serve as a
 * queue's (table_check.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/sinval.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "common/contracts.h"
#include "common/run_as.h"
#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/waiters.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/queue_catalog.h"
#include "storage/queue_open.h"
#include "storage/queue_settings.h"
#include "xact/pending_queue.h"

typedef struct CacheSlot
{
	char		name[NAMEDATALEN];	/* hash key: the name of the queue */
	QueueInfo  *info;			/* NULL: none */
} CacheSlot;

static HTAB *cache = NULL;

/* Not one whose making was cut short by an error. */
static inline bool
is_good(const QueueInfo *info)
{
	return info != NULL && info->filled && info->valid;
}

static void
relcache_callback(Datum arg, Oid relation)
{
	HASH_SEQ_STATUS status;
	CacheSlot  *slot;

	if (cache == NULL)
		return;
	hash_seq_init(&status, cache);
	while ((slot = hash_seq_search(&status)) != NULL)
	{
		QueueInfo  *info = slot->info;

		if (info != NULL && (!OidIsValid(relation) || info->relation == relation ||
							 info->id_sequence == relation))
			info->valid = false;
	}
}

/*
 * Register for invalidations.  Called once a process, from _PG_init, before
 * anything is cached.
 */
void
queue_open_register(void)
{
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
}

/*
 * The error for a queue that is not there.
 */
void
queue_open_unknown(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("queue \"%s\" does not exist", name),
			 errhint("Create it with fairq.create_queue(), or see the view fairq.queues for those there are.")));
}

/*
 * Let others go by the settings that were read.
 *
 * Not by those that this transaction has written: they are not in force
 * before it commits, and perhaps it does not.  But no other transaction sees
 * a table that is new.
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
	public.node = info->node;
	public.group_defaults = info->group_defaults;
	public.subgroup_defaults = info->subgroup_defaults;
	if (queue_state_publish(info->state, &public, info->settings))
		group_limits_defaults_changed(queue_state_number(info->state));
}

/*
 * Fill a new cache entry from the catalogs.  It is not valid then if something
 * has changed since it was read.
 */
static void
fill_entry(QueueInfo *info, Relation rel)
{
	QueueState *state = queue_state_find(RelationGetRelid(rel));

	AssertRelationLocked(rel, AccessShareLock);
	info->settings = state ? pg_atomic_read_u32(&state->published.changes) : 0;
	pg_read_barrier();

	if (!queue_catalog_read_settings(info))
		queue_open_unknown(info->name);
	table_check(info, rel);

	/*
	 * On a standby always, or other databases would find no room: they cannot
	 * tell what is gone here.
	 */
	if (state == NULL && (RecoveryInProgress() || queue_state_full()))
		(void) gone_queues_release();
	if (state == NULL && rel->rd_createSubid != InvalidSubTransactionId)
		pending_queue_created(info->relation, rel->rd_createSubid);
	info->state = queue_lifecycle_attach(info->relation,
										 info->policy == QUEUE_FAIR ? FAIRQ_CLASSES : 1);
	publish_settings(info, rel->rd_createSubid != InvalidSubTransactionId);
	if (!info->state->limits.known || info->state->limits.prepared)
		group_settings_load(info, rel);

	/* Producers' commits see this; what they do not see is not yet in force. */
	if (!info->own_settings &&
		info->settings == pg_atomic_read_u32(&info->state->published.changes))
		waiter_errands_set_notify(info->state, info->notify && !info->paused);

	info->filled = true;
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

	AssertRelationLocked(rel, AccessShareLock);
	if (likely(state->relation_file == fairq_relation_file(rel)))
		return;

	/* Leases are not compared with rows that may be gone if we fail. */
	if (fairq_relation_rewritten(rel))
		pending_read_again(info->relation);

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	if (state->relation_file != fairq_relation_file(rel))
	{
		/* First: what is parked from now on may have been read since. */
		groups_unpark(state);
		for (int class = 0; class < state->classes; class++)
		{
			Lane	   *lane;

			for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
				lanes_lower(lane, NULL);
		}
		index_cursor_add(&state->due, DT_NOBEGIN);
		index_cursor_add(&state->expiry.cursor, DT_NOBEGIN);
		held_looks_add(&state->held, PG_INT64_MIN, true);
		successor_filter_recount(&state->successors);
		SpinLockAcquire(&state->recovery.mutex);
		if (state->recovery.groups == QUEUE_KNOWN)
			state->recovery.groups = QUEUE_UNKNOWN;
		if (state->recovery.leases == QUEUE_KNOWN)
			state->recovery.leases = QUEUE_UNKNOWN;
		state->recovery.classes = false;
		state->counts.recount = false;
		pg_atomic_write_u64(&state->counts.counted, 0);
		SpinLockRelease(&state->recovery.mutex);
		state->relation_file = fairq_relation_file(rel);

		/* What lines had of the overflow is found by reading that again. */
		worker_slots_wake_at(state->database, 0);
	}
	LWLockRelease(&state->lock);
	awaiters_look_again(queue_state_number(state));
}

/*
 * A queue that is used is as it was left: what shared memory knows of it is of
 * its present file, and its durable leases are leases.
 */
static void
look_after_state(QueueInfo *info, Relation rel)
{
	check_file(info, rel);
	if (unlikely(info->state->recovery.leases != QUEUE_KNOWN))
		durable_leases_restore(rel, info);
}

/*
 * What of the rights that a call needs the caller lacks: 0 if nothing, also if
 * there is no such table any more.
 *
 * This is looked at before the table is locked, or a role with nothing could
 * wait for that lock, and others behind it.  The row of pg_class is asked for
 * first, since the look at privileges wants it to be there; no invalidation
 * comes between the two.
 */
AclMode
queue_open_missing(Oid relation, AclMode rights)
{
	if (rights == 0 || !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation)))
		return 0;
	if (rights == QUEUE_OWNER)
		return fairq_relation_ownercheck(relation, GetUserId()) ? 0 : rights;
	return rights & ~pg_class_aclmask(relation, GetUserId(), rights, ACLMASK_ALL);
}

static void
refuse(const char *name, AclMode missing)
{
	char		relname[NAMEDATALEN];

	if (missing == QUEUE_OWNER)
		queue_catalog_not_owner(name);
	queue_catalog_relation_name(name, relname);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for queue \"%s\"", name),
			 errhint("The privilege %s on table \"%s.%s\" is required.",
					 (missing & ACL_INSERT) ? "INSERT" :
					 (missing & ACL_SELECT) ? "SELECT" :
					 (missing & ACL_UPDATE) ? "UPDATE" : "DELETE",
					 QUEUE_SCHEMA, relname)));
}

/*
 * Policies are not applied by us, so the rows are not for roles that are under
 * them.
 */
static void
check_policies(const QueueInfo *info, Relation rel, AclMode rights)
{
	if (rights != 0 && rights != QUEUE_OWNER && rel->rd_rel->relrowsecurity &&
		check_enable_rls(info->relation, InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("row-level security is enabled for queue \"%s\"", info->name),
				 errdetail("Policies are not applied to the rows of a queue."),
				 errhint("Disable row-level security on the table, or use a role that bypasses it.")));
}

/*
 * The cached entry of a queue; NULL: there is none that is good.
 */
static inline QueueInfo *
find_entry(const char *name)
{
	CacheSlot  *slot = (cache == NULL) ? NULL : hash_search(cache, name, HASH_FIND, NULL);

	return slot != NULL && is_good(slot->info) ? slot->info : NULL;
}

static void
free_entry(void *info)
{
	pfree(info);
}

/*
 * Make a new entry for a queue, whose table is open.
 *
 * The old one may be in use: a function of ours writes a row, which runs code
 * of the user's (constraints, defaults, triggers of the archive), which
 * changes the table or its name and calls us again.  The outer function goes
 * on with what it has.  So the old entry stays as it is until the end of the
 * transaction, unless only our caller has the table open.
 */
static QueueInfo *
new_entry(const char *name, Relation rel)
{
	CacheSlot  *slot;
	bool		found;

	if (cache == NULL)
	{
		HASHCTL		ctl = {.keysize = NAMEDATALEN, .entrysize = sizeof(CacheSlot),
		.hcxt = TopMemoryContext};

		cache = hash_create("pgfairq queues", 32, &ctl,
							HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	slot = hash_search(cache, name, HASH_ENTER, &found);
	if (!found)
		slot->info = NULL;
	if (slot->info != NULL && slot->info->filled &&
		(slot->info->relation != RelationGetRelid(rel) || rel->rd_refcnt > 1))
	{
		run_as_at_end(free_entry, slot->info);
		slot->info = NULL;
	}
	if (slot->info == NULL)
		slot->info = MemoryContextAlloc(TopMemoryContext, sizeof(QueueInfo));
	memset(slot->info, 0, sizeof(QueueInfo));
	strlcpy(slot->info->name, name, NAMEDATALEN);
	slot->info->relation = RelationGetRelid(rel);
	slot->info->valid = true;
	return slot->info;
}

/*
 * Open the queue of a name, with the rights that the caller needs.  They are
 * looked at before the table is locked, and again where something was changed
 * meanwhile: as RangeVarGetRelidExtended() does it for SQL's own commands.
 */
static QueueInfo *
open_by_name(const char *name, LOCKMODE lockmode, AclMode rights, bool missing_ok,
			 Relation *rel)
{
	for (;;)
	{
		QueueInfo  *info = find_entry(name);
		uint64		changes = SharedInvalidMessageCounter;
		AclMode		missing;
		Oid			relation;

		if (info != NULL)
			relation = info->relation;
		else
		{
			relation = queue_catalog_relation(name);
			if (!OidIsValid(relation))
			{
				if (missing_ok)
					return NULL;
				queue_open_unknown(name);
			}
		}

		missing = queue_open_missing(relation, rights);
		if (unlikely(missing != 0))
		{
			/* They may have been granted just now, or the queue be another. */
			AcceptInvalidationMessages();
			if (changes != SharedInvalidMessageCounter)
				continue;
			refuse(name, missing);
		}

		*rel = try_relation_open(relation, lockmode);
		if (*rel != NULL && changes != SharedInvalidMessageCounter &&
			queue_open_missing(relation, rights) != 0)
			relation_close(*rel, lockmode);
		else if (*rel != NULL)
		{
			/* Invalidations may come after those who wait for them are told. */
			if (info != NULL && info->valid &&
				info->settings != pg_atomic_read_u32(&info->state->published.changes))
				info->valid = false;
			if ((info == NULL || !info->valid) && queue_catalog_relation(name) == relation)
			{
				info = new_entry(name, *rel);
				fill_entry(info, *rel);
			}
			if (info != NULL && info->valid)
			{
				check_policies(info, *rel, rights);
				look_after_state(info, *rel);
				return info;
			}
			/* Renamed or replaced before it was locked: look again. */
			relation_close(*rel, lockmode);
		}
		else if (info != NULL)
			info->valid = false;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Open a queue's table, and return what is known about the queue.
 *
 * name is checked; rights are the privileges that the caller must have on the
 * table, or QUEUE_OWNER, by GetUserId().  Who has them not is refused without a
 * lock on the table.  Errors: 22023 for a bad name, 42704 for an unknown queue,
 * 42501 for a missing right, 42P16 for a table that is not fit.
 */
QueueInfo *
queue_open(const text *name, LOCKMODE lockmode, AclMode rights, Relation *rel)
{
	char		key[NAMEDATALEN];

	queue_catalog_check_name(name, key);
	return open_by_name(key, lockmode, rights, false, rel);
}

/*
 * The cached entry of a table.  A backend mostly works on a queue or two: a
 * short walk.
 */
static CacheSlot *
find_slot(Oid relation)
{
	HASH_SEQ_STATUS status;
	CacheSlot  *slot;

	if (cache == NULL)
		return NULL;
	hash_seq_init(&status, cache);
	while ((slot = hash_seq_search(&status)) != NULL)
	{
		if (is_good(slot->info) && slot->info->relation == relation)
		{
			hash_seq_term(&status);
			break;
		}
	}
	return slot;
}

/*
 * Can a queue be opened by its table without its settings being read, as far as
 * this can be told without a lock on the table?
 */
bool
queue_open_is_known(Oid relation)
{
	CacheSlot  *slot = find_slot(relation);

	return slot != NULL &&
		slot->info->settings == pg_atomic_read_u32(&slot->info->state->published.changes);
}

/*
 * Open a queue by its table, which may not be a queue's, or be gone: NULL
 * then, and so is *rel.
 */
QueueInfo *
queue_open_relation(Oid relation, LOCKMODE lockmode, AclMode rights,
					Relation *rel)
{
	CacheSlot  *known = find_slot(relation);
	const char *queue = known != NULL ? known->name : queue_catalog_name_of(relation);
	QueueInfo  *info;
	char		name[NAMEDATALEN];

	*rel = NULL;
	if (queue == NULL)
		return NULL;
	strlcpy(name, queue, NAMEDATALEN);
	info = open_by_name(name, lockmode, rights, true, rel);
	if (info == NULL || info->relation != relation)
	{
		/* Gone, renamed, or replaced by another of its name. */
		if (info != NULL)
			relation_close(*rel, lockmode);
		*rel = NULL;
		return NULL;
	}
	return info;
}
