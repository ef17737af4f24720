/*-------------------------------------------------------------------------
 *
 * stat_groups.c
 *	  The function behind the view of groups, and what names a group there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "common/group_id.h"
#include "shmem/groups.h"
#include "shmem/limit_table.h"
#include "shmem/queue_order.h"
#include "sql/arguments.h"
#include "sql/visible_queues.h"
#include "storage/recovery.h"

PG_FUNCTION_INFO_V1(fairq_stats_of_groups);
PG_FUNCTION_INFO_V1(fairq_group_id);

static int
compare_groups(const void *a, const void *b)
{
	return memcmp(((const GroupInfo *) a)->hash, ((const GroupInfo *) b)->hash,
				  sizeof(((GroupInfo *) 0)->hash));
}

/* Make one of a group's classes.  Returns how many groups there are. */
static int
merge_classes(GroupInfo *infos, int n)
{
	int			kept = 0;

	qsort(infos, n, sizeof(GroupInfo), compare_groups);
	for (int i = 0; i < n; i++)
	{
		GroupInfo  *to = &infos[kept - 1];

		if (kept == 0 || compare_groups(to, &infos[i]) != 0)
		{
			infos[kept++] = infos[i];
			continue;
		}
		if (to->ready == 0 ||
			(infos[i].ready > 0 && infos[i].head_time < to->head_time))
			to->head_time = infos[i].head_time;
		to->ready += infos[i].ready;
		to->leased += infos[i].leased;
		to->overflow += infos[i].overflow;
		to->served += infos[i].served;
		to->served_cost += infos[i].served_cost;
		to->due += infos[i].due;
		to->all_served += infos[i].all_served;
		to->run_time += infos[i].run_time;
		if (to->limit == NO_LIMIT)
			to->limit = infos[i].limit;
	}
	return kept;
}

static inline bool
has_work(const GroupInfo *info)
{
	return info->ready > 0 || info->leased > 0 || info->overflow > 0;
}

static double
weight_of(const QueueState *state, const GroupInfo *info)
{
	LimitInfo	limit;

	if (info->limit == NO_LIMIT)
		return state->limits.defaults.weight;
	limit_table_copy(info->limit, &limit);
	return limit.settings.weight;
}

/*
 * What a group was due when its class had come so far beyond since: by its
 * weight.  It ends with what there was to be served, but for the overflow.
 */
static double
due_at(const GroupInfo *info, VirtualTime base, double far)
{
	double		length = far - virtual_time_distance(base, info->since);

	if (info->overflow == 0)
		length = Min(length, virtual_time_distance(info->since, info->finish));
	return info->weight * Max(length, 0);
}

/*
 * What all groups of a class were served lies between the tags since when they
 * have work and a tag that is the same for all: it is where what is due to
 * them is as much as they were served.  In steps: what is due is a line with
 * as many bends as groups.
 */
#define STEPS	60

static void
share_out(GroupInfo *infos, int n, int class)
{
	VirtualTime base = {PG_INT64_MAX, 0};
	double		served = 0;
	double		lightest = FAIRQ_MAX_WEIGHT;
	double		low = 0;
	double		high = 0;

	for (int i = 0; i < n; i++)
	{
		if (infos[i].class != class || !infos[i].known)
			continue;
		if (virtual_time_compare(infos[i].since, base) < 0)
			base = infos[i].since;
		served += infos[i].served_cost;
		lightest = Min(lightest, infos[i].weight);
	}
	for (int i = 0; i < n; i++)
	{
		if (infos[i].class == class && infos[i].known)
			high = Max(high, virtual_time_distance(base, virtual_time_max(infos[i].since,
																		  infos[i].finish)));
	}
	high += served / lightest;
	for (int step = 0; step < STEPS && served > 0; step++)
	{
		double		middle = (low + high) / 2;
		double		due = 0;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
		{
			if (infos[i].class == class && infos[i].known)
				due += due_at(&infos[i], base, middle);
		}
		if (due < served)
			low = middle;
		else
			high = middle;
	}
	for (int i = 0; i < n; i++)
	{
		if (infos[i].class == class && infos[i].known)
			infos[i].due = due_at(&infos[i], base, high);
	}
}

/*
 * What each group was due of what its class has served, while it had work.
 */
static void
find_dues(QueueState *state, GroupInfo *infos, int n)
{
	for (int i = 0; i < n; i++)
	{
		GroupInfo  *info = &infos[i];
		QueueOrder *order = &state->orders[info->class];
		double		now = ((volatile QueueOrder *) order)->served_cost;
		bool		waits = info->ready > 0 || info->overflow > 0 ||
			virtual_time_compare(queue_order_virtual_time(order), info->finish) <= 0;

		info->weight = weight_of(state, info);
		info->due = info->all_served = 0;
		if (info->known)
			info->all_served = Max((waits ? now : info->leased_cost) - info->since_cost,
								   info->served_cost);
	}
	for (int class = 0; class < state->classes; class++)
		share_out(infos, n, class);
}

static Datum
usecs_to_interval(int64 usecs)
{
	Interval   *interval = palloc0(sizeof(Interval));

	interval->time = usecs;
	return IntervalPGetDatum(interval);
}

/* The key of a group, or its beginning. */
static Datum
key_of(const GroupInfo *info)
{
	int			len;

	if (info->keylen <= GROUP_KEY_SHOWN)
		return PointerGetDatum(cstring_to_text_with_len(info->key, info->keylen));
	len = pg_mbcliplen(info->key, GROUP_KEY_SHOWN, GROUP_KEY_SHOWN);
	return CStringGetTextDatum(psprintf("%.*s...", len, info->key));
}

static void
put_groups(ReturnSetInfo *rsinfo, const char *name, QueueState *state)
{
	TimestampTz now = GetCurrentTimestamp();
	GroupInfo  *infos;
	int			n = groups_list(state, false, &infos);
	LimitInfo  *limits = palloc(Max(n, 1) * sizeof(LimitInfo));
	double		weights = 0;

	find_dues(state, infos, n);
	n = merge_classes(infos, n);
	for (int i = 0; i < n; i++)
	{
		if (infos[i].limit != NO_LIMIT)
			limit_table_copy(infos[i].limit, &limits[i]);
		else
		{
			memset(&limits[i], 0, sizeof(LimitInfo));
			limits[i].settings = state->limits.defaults;
		}
		if (has_work(&infos[i]))
			weights += limits[i].settings.weight;
	}
	for (int i = 0; i < n; i++)
	{
		GroupInfo  *info = &infos[i];
		const LimitSettings *settings = &limits[i].settings;
		Datum		values[20];
		bool		nulls[20] = {false};
		bool		known = info->all_served > 0;
		double		share = known ? info->served_cost / info->all_served : 0;
		double		expected = known ? info->due / info->all_served :
			settings->weight / weights;

		if (!has_work(info))
			continue;
		values[0] = CStringGetTextDatum(name);
		values[1] = key_of(info);
		values[2] = Int64GetDatum(info->ready);
		values[3] = Int64GetDatum(info->overflow);
		values[4] = Int64GetDatum(info->leased);
		values[5] = Float4GetDatum(settings->weight);
		values[6] = Int32GetDatum(settings->max_leased);
		nulls[6] = (settings->max_leased == 0);
		values[7] = Float4GetDatum(settings->rate);
		values[8] = Int32GetDatum(settings->burst);
		values[9] = Float8GetDatum(limits[i].tokens);
		nulls[7] = nulls[8] = nulls[9] = (settings->rate == 0);
		values[10] = BoolGetDatum(settings->paused);
		values[11] = Int64GetDatum((int64) info->served);
		values[12] = Float8GetDatum(info->served_cost);
		values[13] = Float8GetDatum(share);
		values[14] = Float8GetDatum(expected);
		values[15] = Float8GetDatum(share - expected);
		nulls[13] = !known;
		nulls[14] = (state->classes == 1);	/* no shares but under policy fair */
		nulls[15] = nulls[13] || nulls[14];
		values[16] = usecs_to_interval(Max(now - info->head_time, 0));
		nulls[16] = (info->ready == 0);
		values[17] = usecs_to_interval(info->run_time);
		values[18] = Float8GetDatum(info->all_served);
		values[19] = UUIDPGetDatum(&info->id);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	pfree(infos);
	pfree(limits);
}

/*
 * fairq_internal.stats_of_groups(): one row a group with work.
 */
Datum
fairq_stats_of_groups(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);

	/* On a standby nothing is counted. */
	if (RecoveryInProgress())
		return (Datum) 0;
	foreach(lc, visible_queues_list())
	{
		Relation	rel;
		QueueInfo  *info = visible_queues_open(lfirst_oid(lc), &rel);

		if (info == NULL)
		{
			/* Locked: the groups that are known are known without it. */
			QueueState *state = queue_state_find(lfirst_oid(lc));
			char	   *queue = queue_catalog_name_of(lfirst_oid(lc));

			if (queue != NULL && state != NULL && state->recovery.groups == QUEUE_KNOWN)
				put_groups((ReturnSetInfo *) fcinfo->resultinfo, queue, state);
			continue;
		}
		recovery_tags(rel, info);
		put_groups((ReturnSetInfo *) fcinfo->resultinfo, info->name, info->state);
		relation_close(rel, AccessShareLock);
	}
	return (Datum) 0;
}

/*
 * fairq.group_id(group_key): needs neither queues nor shared memory.
 */
Datum
fairq_group_id(PG_FUNCTION_ARGS)
{
	text	   *key = PG_GETARG_TEXT_PP(0);
	pg_uuid_t  *id = palloc(sizeof(pg_uuid_t));

	group_id(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), id);
	PG_RETURN_UUID_P(id);
}
