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
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rls.h"
#include "utils/timestamp.h"

#include "common/run_as.h"
#include "shmem/awaiters.h"
#include "shmem/gone_queues.h"
#include "shmem/group_limits.h"
#include "shmem/lanes.h"
#include "shmem/parking.h"
#include "shmem/queue_lifecycle.h"
#include "shmem/waiter_errands.h"
#include "shmem/worker_slots.h"
#include "storage/durable_leases.h"
#include "storage/group_settings.h"
#include "storage/queue_catalog.h"
#include "storage/queue_open.h"
#include "storage/table_check.h"
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

static void
unknown_queue(const char *name)
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
	if (queue_state_publish(info->state, &public, info->settings))
		group_limits_defaults_changed(queue_state_number(info->state));
}

/*
 * Fill a new cache entry from the catalogs.  The relation is open and locked.
 * Returns false if something has changed since it was read.
 */
static bool
fill_entry(QueueInfo *info, Relation rel)
{
	QueueState *state = queue_state_find(RelationGetRelid(rel));

	info->settings = state ? pg_atomic_read_u32(&state->published.changes) : 0;
	pg_read_barrier();

	if (!queue_catalog_read_settings(info))
		unknown_queue(info->name);
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
	return info->valid;
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
		pending_read_again(info->relation);

	LWLockAcquire(&state->lock, LW_EXCLUSIVE);
	if (state->relation_file != fairq_relation_file(rel))
	{
		/* First: what is set aside from now on may have been read since. */
		parking_forget_queue(queue_state_number(state));
		for (int class = 0; class < state->classes; class++)
		{
			Lane	   *lane;

			for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
				lanes_lower(lane, NULL);
		}
		index_cursor_add(&state->due, DT_NOBEGIN);
		index_cursor_add(&state->expiry.cursor, DT_NOBEGIN);
		queue_state_look_from(state, PG_INT64_MIN);
		successor_filter_forget(&state->successors);
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

		/* What was set aside of the overflow is found by reading that again. */
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
					 errhint("The privilege %s on table \"%s.%s\" is required.",
							 mode == ACL_INSERT ? "INSERT" :
							 mode == ACL_SELECT ? "SELECT" :
							 mode == ACL_UPDATE ? "UPDATE" : "DELETE",
							 QUEUE_SCHEMA, RelationGetRelationName(rel))));
	}
	if (rel->rd_rel->relrowsecurity &&
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
		HASHCTL		ctl = {0};

		ctl.keysize = NAMEDATALEN;
		ctl.entrysize = sizeof(CacheSlot);
		ctl.hcxt = TopMemoryContext;
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

static QueueInfo *
open_by_name(const char *name, LOCKMODE lockmode, bool missing_ok, Relation *rel)
{
	for (;;)
	{
		QueueInfo  *info = find_entry(name);
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
				unknown_queue(name);
			}
		}

		*rel = try_relation_open(relation, lockmode);
		if (*rel != NULL)
		{
			/* Invalidations may come after those who wait for them are told. */
			if (info != NULL && info->valid &&
				info->settings != pg_atomic_read_u32(&info->state->published.changes))
				info->valid = false;
			if (info != NULL && info->valid)
			{
				look_after_state(info, *rel);
				return info;
			}

			/* Renamed or replaced before it was locked: look again. */
			if (queue_catalog_relation(name) == relation)
			{
				info = new_entry(name, *rel);
				if (fill_entry(info, *rel))
				{
					look_after_state(info, *rel);
					return info;
				}
			}
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
 * name is checked; privileges are those the caller must have on the table, by
 * GetUserId().  Errors: 22023 for a bad name, 42704 for an unknown queue, 42501
 * for a missing privilege, 42P16 for a table that is not fit.
 */
QueueInfo *
queue_open(const text *name, LOCKMODE lockmode, AclMode privileges,
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
 * Open a queue by its table, which may not be a queue's, or be gone: NULL
 * then, and so is *rel.
 */
QueueInfo *
queue_open_relation(Oid relation, LOCKMODE lockmode,
					AclMode privileges, Relation *rel)
{
	QueueInfo  *info;
	char		name[NAMEDATALEN] = "";

	*rel = NULL;

	/* A backend mostly works on a queue or two: a short walk. */
	if (cache != NULL)
	{
		HASH_SEQ_STATUS status;
		CacheSlot  *slot;

		hash_seq_init(&status, cache);
		while ((slot = hash_seq_search(&status)) != NULL)
		{
			if (is_good(slot->info) && slot->info->relation == relation)
			{
				strlcpy(name, slot->name, NAMEDATALEN);
				hash_seq_term(&status);
				break;
			}
		}
	}
	if (name[0] == '\0')
	{
		const char *queue = queue_catalog_name_of(relation);

		if (queue == NULL)
			return NULL;
		strlcpy(name, queue, NAMEDATALEN);
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
