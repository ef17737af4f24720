/*-------------------------------------------------------------------------
 *
 * group_settings.c
 *	  What groups and subgroups were given: the rows of fairq.group_setting.
 *
 * They are read once for each queue, by the first who opens it after a start
 * of the server; from then on whoever changes a row hands over what it says,
 * when that has committed (limit_table.c has it then).  Whoever reads the rows
 * while one is handed over reads them once more, so that the older does not
 * replace the newer.
 *
 * What a prepared transaction changes is not handed over.  So it has every
 * backend look at the queue's settings anew when it commits, and the one that
 * does reads the rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"

#include "shmem/groups.h"
#include "storage/durable_leases.h"
#include "storage/own_table.h"
#include "storage/queue_settings.h"

/*
 * A row of fairq.group_setting, or a result of the same columns from weight on.
 */
void
group_settings_of_row(const Datum *values, const bool *nulls, LimitSettings *settings)
{
	settings->weight = nulls[0] ? -1 : DatumGetFloat4(values[0]);
	settings->max_leased = nulls[1] ? -1 : DatumGetInt32(values[1]);
	settings->rate = nulls[2] ? -1 : DatumGetFloat4(values[2]);
	settings->burst = nulls[3] ? -1 : DatumGetInt32(values[3]);
	settings->paused = DatumGetBool(values[4]);
}

/*
 * Groups of a queue are about to get limits, and that has been said: from now
 * on no lease is granted whose group is not known.  Adopt those that were.
 */
void
group_settings_adopt(QueueInfo *info, Relation rel)
{
	QueueLimits *limits = &info->state->limits;

	if (likely(pg_atomic_read_u32(&limits->strangers) == 0))
		return;
	lease_rows_check(rel, info, true);
	pg_atomic_write_u32(&limits->strangers, 0);
}

static void
settle_now(QueueState *state, const GroupName *name, const LimitSettings *settings)
{
	uint32		limit = limited_groups_make(state, name, true);

	limited_groups_settle(state, limit, settings);
}

/*
 * A prepared transaction may have taken settings away: groups that have some
 * and no row have none.
 */
static void
forget_others(QueueState *state, HTAB *found)
{
	LimitSettings none = LIMIT_SETTINGS_NONE;
	GroupName  *names;
	int			n = limit_table_given(queue_state_number(state), &names);

	for (int i = 0; i < n; i++)
	{
		uint64		key[] = {names[i].low, names[i].high};

		if (hash_search(found, key, HASH_FIND, NULL) == NULL)
			settle_now(state, &names[i], &none);
	}
	pfree(names);
}

static void
read_rows(QueueInfo *info, HTAB *found)
{
	Relation	rel = own_table_open(QUEUE_SCHEMA, "group_setting", AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	/* Without our own changes: they are not in force yet. */
	snapshot->curcid = FirstCommandId;
	scan = own_table_rows_of(rel, info->name, snapshot);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Datum		values[8];
		bool		nulls[8];
		GroupName	name;
		LimitSettings settings;
		uint64		key[2];

		heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
		group_settings_of_row(values + 2, nulls + 2, &settings);
		name = nulls[7] ? queue_catalog_whole_group(info, DatumGetTextPP(values[1])) :
			group_name_of_subgroup(DatumGetTextPP(values[1]), DatumGetTextPP(values[7]));
		key[0] = name.low;
		key[1] = name.high;
		hash_search(found, key, HASH_ENTER, NULL);
		settle_now(info->state, &name, &settings);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
}

/*
 * Read what the groups of a queue were given.  The queue's table is open.
 */
void
group_settings_load(QueueInfo *info, Relation rel)
{
	QueueLimits *limits = &info->state->limits;
	uint32		changes;

	/* On a standby changes are not handed over, and nothing is claimed. */
	if (RecoveryInProgress())
		return;
	do
	{
		/* Of groups: the two halves of their keys. */
		HASHCTL		ctl = {.keysize = 2 * sizeof(uint64), .entrysize = 2 * sizeof(uint64),
		.hcxt = CurrentMemoryContext};
		HTAB	   *found = hash_create("pgfairq groups with settings", 64, &ctl,
										HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

		CHECK_FOR_INTERRUPTS();

		changes = pg_atomic_read_u32(&limits->changes);
		read_rows(info, found);
		if (limits->known)
			forget_others(info->state, found);
		hash_destroy(found);
	} while (changes != pg_atomic_read_u32(&limits->changes));

	/* At first this is done when leases are read (durable_leases_restore). */
	if (limits->known)
		lease_rows_check(rel, info, true);
	limits->known = true;
}
