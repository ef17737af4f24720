/*-------------------------------------------------------------------------
 *
 * group_admin.c
 *	  What groups and subgroups are given, and that it is taken away.
 *
 * What one is given is a row of fairq.group_setting, and a limit in shared
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

#include "shmem/groups.h"
#include "storage/queue_settings.h"
#include "verbs/queue_admin.h"
#include "xact/pending.h"
#include "xact/pending_rows.h"

/*
 * Remove a row: of a group, or of a subgroup (else NULL).  Returns whether
 * there was one.  Connected to SPI.
 */
static bool
delete_row(const QueueInfo *info, const text *group, const text *subgroup)
{
	Oid			types[3] = {TEXTOID, TEXTOID, TEXTOID};
	Datum		values[3] = {CStringGetTextDatum(info->name), PointerGetDatum(group),
	PointerGetDatum(subgroup)};

	return queue_admin_execute("DELETE FROM fairq.group_setting"
							   " WHERE queue OPERATOR(pg_catalog.=) $1"
							   " AND group_key OPERATOR(pg_catalog.=) $2"
							   " AND (subgroup_key OPERATOR(pg_catalog.=) $3"
							   " OR (subgroup_key IS NULL AND $3 IS NULL))",
							   3, types, values, subgroup == NULL ? "  n" : "   ") > 0;
}

/*
 * Write a row, of a group or of a subgroup (else NULL): what is not given
 * stays.  Connected to SPI.
 */
static void
write_row(const QueueInfo *info, const text *group, const text *subgroup,
		  const QueueSettings *settings, LimitSettings *after)
{
	Oid			types[8] = {TEXTOID, TEXTOID, TEXTOID};
	Datum		values[8] = {CStringGetTextDatum(info->name), PointerGetDatum(group),
	PointerGetDatum(subgroup)};
	char		nulls[9] = "   ";
	Datum		result[5];
	bool		result_nulls[5];

	nulls[2] = (subgroup == NULL) ? 'n' : ' ';
	for (int i = SETTING_GROUP_WEIGHT, n = 3; i <= SETTING_PAUSED; i++, n++)
	{
		types[n] = queue_settings[i].type;
		values[n] = settings->values[i];
		nulls[n] = settings->given[i] ? ' ' : 'n';
	}
	queue_admin_execute("INSERT INTO fairq.group_setting AS s"
						" (queue, group_key, subgroup_key, weight, max_leased, rate, burst, paused)"
						" VALUES ($1, $2, $3, $4, $5, $6, $7, coalesce($8, false))"
						" ON CONFLICT (queue, group_key, subgroup_key) DO UPDATE SET"
						" weight = coalesce($4, s.weight),"
						" max_leased = coalesce($5, s.max_leased),"
						" rate = coalesce($6, s.rate),"
						" burst = coalesce($7, s.burst),"
						" paused = coalesce($8, s.paused)"
						" RETURNING weight, max_leased, rate, burst, paused",
						8, types, values, nulls);
	if (SPI_processed != 1)
		elog(ERROR, "settings of a group were written " UINT64_FORMAT " times", SPI_processed);
	heap_deform_tuple(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, result, result_nulls);
	group_settings_of_row(result, result_nulls, after);
}

/*
 * Change what a group was given, or a subgroup of it (else NULL), when the
 * transaction commits; or (settings are NULL) it has the queue's defaults again
 * then.  Returns whether it was given something, now or before.  Errors: 42704,
 * 42501, 53400; of a subgroup 55000, where groups are not divided.
 */
bool
group_admin_set(const text *queue, const text *group, const text *subgroup,
				const QueueSettings *settings)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(queue, subgroup != NULL, &rel);
	GroupName	name = subgroup == NULL ? queue_catalog_whole_group(info, group) :
		group_name_of_subgroup(group, subgroup);
	LimitSettings after = LIMIT_SETTINGS_NONE;
	bool		given = true;

	SPI_connect();
	if (settings == NULL)
		given = delete_row(info, group, subgroup);
	else
	{
		write_row(info, group, subgroup, settings, &after);
		if (limit_settings_are_void(&after, subgroup == NULL ? &info->group_defaults :
									&info->subgroup_defaults))
		{
			(void) delete_row(info, group, subgroup);
			after = LIMIT_SETTINGS_NONE;
		}
	}
	SPI_finish();
	if (given)
	{
		uint32		limit;

		/* Nothing may fail between the two. */
		pending_reserve(1);
		limit = limited_groups_make(info->state, &name, true);
		pending_group_set(info->state, limit, &after);
		group_settings_adopt(info, rel);
	}
	relation_close(rel, NoLock);
	return given;
}
