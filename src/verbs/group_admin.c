/*-------------------------------------------------------------------------
 *
 * group_admin.c
 *	  What groups are given, and that it is taken away.
 *
 * What a group is given is a row of fairq.group_setting, and a limit in shared
 * memory once it has committed (limited_groups.c).  Settings that say nothing
 * that the queue's defaults do not say have neither: a server with many
 * tenants, of which each is paused once, is not to fill up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "utils/builtins.h"

#include "shmem/limited_groups.h"
#include "storage/group_settings.h"
#include "verbs/group_admin.h"
#include "verbs/queue_admin.h"
#include "xact/pending.h"
#include "xact/pending_groups.h"

/*
 * A group has these settings from the commit on.
 */
static void
announce(QueueInfo *info, Relation rel, const text *group, const LimitSettings *settings)
{
	GroupName	name = group_name(group);
	uint32		limit;

	/* Nothing may fail between the two. */
	pending_reserve(1);
	limit = limited_groups_announce(info->state, &name);
	pending_group_set(info->state, limit, settings);
	group_settings_adopt(info, rel);
}

/* Remove a group's row.  Returns whether there was one.  Connected to SPI. */
static bool
delete_row(const QueueInfo *info, const text *group)
{
	Oid			types[2] = {TEXTOID, TEXTOID};
	Datum		values[2] = {CStringGetTextDatum(info->name), PointerGetDatum(group)};

	return queue_admin_execute("DELETE FROM fairq.group_setting"
							   " WHERE queue OPERATOR(pg_catalog.=) $1"
							   " AND group_key OPERATOR(pg_catalog.=) $2",
							   2, types, values, "  ") > 0;
}

/* Write a group's row: what is not given stays.  Connected to SPI. */
static void
write_row(const QueueInfo *info, const text *group, const QueueSettings *settings,
		  LimitSettings *after)
{
	Oid			types[7] = {TEXTOID, TEXTOID};
	Datum		values[7] = {CStringGetTextDatum(info->name), PointerGetDatum(group)};
	char		nulls[8] = "  ";
	Datum		result[5];
	bool		result_nulls[5];

	for (int i = SETTING_GROUP_WEIGHT, n = 2; i <= SETTING_PAUSED; i++, n++)
	{
		types[n] = queue_settings[i].type;
		values[n] = settings->values[i];
		nulls[n] = settings->given[i] ? ' ' : 'n';
	}
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
	group_settings_of_row(result, result_nulls, after);
}

/*
 * Change what a group was given, when the transaction commits.  Errors: 42704,
 * 42501, 53400.
 */
void
group_admin_set(const text *queue, const text *group, const QueueSettings *settings)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(queue, &rel);
	LimitSettings after;

	SPI_connect();
	write_row(info, group, settings, &after);
	if (limit_settings_are_void(&after, &info->group_defaults))
	{
		(void) delete_row(info, group);
		after = LIMIT_SETTINGS_NONE;
	}
	SPI_finish();
	announce(info, rel, group, &after);
	relation_close(rel, NoLock);
}

/*
 * A group has the queue's defaults again, when the transaction commits.
 * Returns whether it had others.
 */
bool
group_admin_reset(const text *queue, const text *group)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(queue, &rel);
	bool		had;

	SPI_connect();
	had = delete_row(info, group);
	SPI_finish();
	if (had)
	{
		LimitSettings none = LIMIT_SETTINGS_NONE;

		announce(info, rel, group, &none);
	}
	relation_close(rel, NoLock);
	return had;
}
