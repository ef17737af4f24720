/*-------------------------------------------------------------------------
 *
 * stat_groups.c
 *	  The functions behind the views of groups and of their subgroups, and what
 *	  names a group there.
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
#include "utils/float.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "common/group_name.h"
#include "shmem/groups.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "storage/recovery.h"

PG_FUNCTION_INFO_V1(fairq_stats_of_groups);
PG_FUNCTION_INFO_V1(fairq_stats_of_subgroups);
PG_FUNCTION_INFO_V1(fairq_group_id);

static int
compare_groups(const void *a, const void *b)
{
	return memcmp(((const GroupInfo *) a)->hash, ((const GroupInfo *) b)->hash,
				  sizeof(((GroupInfo *) 0)->hash));
}

/* Make one of the infos of a group in two of its classes. */
static void
merge_infos(GroupInfo *to, const GroupInfo *from)
{
	if (to->ready == 0 || (from->ready > 0 && from->head_time < to->head_time))
		to->head_time = from->head_time;
	to->ready += from->ready;
	to->leased += from->leased;
	to->overflow += from->overflow;
	to->served += from->served;
	to->served_cost += from->served_cost;
	to->due += from->due;
	to->all_served += from->all_served;
	to->run_time += from->run_time;
	if (to->limit == NO_LIMIT)
		to->limit = from->limit;
}

/* The hash of a group, and where its info is: sorted in place of the infos. */
typedef struct GroupPlace
{
	uint64		hash[2];
	int			at;
} GroupPlace;

static int
compare_places(const void *a, const void *b)
{
	return memcmp(((const GroupPlace *) a)->hash, ((const GroupPlace *) b)->hash,
				  sizeof(((GroupPlace *) 0)->hash));
}

/*
 * Make one of a group's classes.  Returns how many groups there are; kept says
 * where they are among the infos.
 */
static int
merge_classes(GroupInfo *infos, int n, int *kept)
{
	GroupPlace *places = palloc_array(GroupPlace, Max(n, 1));
	int			count = 0;

	for (int i = 0; i < n; i++)
	{
		memcpy(places[i].hash, infos[i].hash, sizeof(places[i].hash));
		places[i].at = i;
	}
	qsort(places, n, sizeof(GroupPlace), compare_places);
	for (int i = 0; i < n; i++)
	{
		if (i > 0 && compare_places(&places[i - 1], &places[i]) == 0)
			merge_infos(&infos[kept[count - 1]], &infos[places[i].at]);
		else
			kept[count++] = places[i].at;
	}
	pfree(places);
	return count;
}

static inline bool
has_work(const GroupInfo *info)
{
	return info->ready > 0 || info->leased > 0 || info->overflow > 0;
}

/*
 * What decides how much a group is due: since when it has work, from where its
 * class begins; for how long, which ends with what there was to be served, but
 * for the overflow; and its weight.
 */
typedef struct Due
{
	double		since;
	double		length;
	double		weight;
	int			at;				/* of its info */
} Due;

/* What a group was due when its class had come so far beyond its begin. */
static inline double
due_at(const Due *due, double far)
{
	return due->weight * Max(Min(far - due->since, due->length), 0);
}

/*
 * What all groups of a class were served lies between the tags since when they
 * have work and a tag that is the same for all: it is where what is due to
 * them is as much as they were served.  In steps: what is due is a line with
 * as many bends as groups.
 */
#define STEPS	60

/*
 * Of the groups of a class: where they begin, what they were served, and the
 * least weight.  Returns how many they are.
 */
static int
class_begin(const GroupInfo *infos, int n, int class, VirtualTime *base,
			double *served, double *lightest)
{
	int			count = 0;

	for (int i = 0; i < n; i++)
	{
		if (infos[i].class != class || !infos[i].known)
			continue;
		if (count++ == 0 || virtual_time_compare(infos[i].since, *base) < 0)
			*base = infos[i].since;
		*served += infos[i].served_cost;
		*lightest = Min(*lightest, infos[i].weight);
	}
	return count;
}

/*
 * What the groups of a class are due.  The steps go over dues, with room for n
 * of them, for infos are much larger.
 */
static void
share_out(GroupInfo *infos, int n, int class, Due *dues)
{
	VirtualTime base;
	double		served = 0;
	double		lightest = FAIRQ_MAX_WEIGHT;
	double		low = 0;
	double		high = 0;
	int			count = 0;

	if (class_begin(infos, n, class, &base, &served, &lightest) == 0)
		return;
	for (int i = 0; i < n; i++)
	{
		const GroupInfo *info = &infos[i];
		Due		   *due = &dues[count];

		if (info->class != class || !info->known)
			continue;
		due->since = virtual_time_distance(base, info->since);
		due->length = info->overflow != 0 ? get_float8_infinity() :
			virtual_time_distance(info->since, info->finish);
		due->weight = info->weight;
		due->at = i;
		high = Max(high, virtual_time_distance(base, virtual_time_max(info->since,
																	  info->finish)));
		count++;
	}
	high += served / lightest;
	for (int step = 0; step < STEPS && served > 0; step++)
	{
		double		middle = (low + high) / 2;
		double		sum = 0;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < count; i++)
			sum += due_at(&dues[i], middle);
		if (sum < served)
			low = middle;
		else
			high = middle;
	}
	for (int i = 0; i < count; i++)
		infos[dues[i].at].due = due_at(&dues[i], high);
}

/*
 * What each group was due of what its class has served, while it had work.
 */
static void
find_dues(QueueState *state, GroupInfo *infos, int n)
{
	Due		   *dues;

	for (int i = 0; i < n; i++)
	{
		GroupInfo  *info = &infos[i];
		QueueOrder *order = &state->orders[info->class];
		double		now = ((volatile QueueOrder *) order)->served_cost;
		bool		waits = info->ready > 0 || info->overflow > 0 ||
			virtual_time_compare(queue_order_virtual_time(order), info->finish) <= 0;

		info->weight = info->limit == NO_LIMIT ? state->limits.defaults.weight :
			limit_table_weight(info->limit);
		info->due = info->all_served = 0;
		if (info->known)
			info->all_served = Max((waits ? now : info->leased_cost) - info->since_cost,
								   info->served_cost);
	}
	dues = palloc_array(Due, Max(n, 1));
	for (int class = 0; class < state->classes; class++)
		share_out(infos, n, class, dues);
	pfree(dues);
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

/* What a group or a subgroup may have, in force. */
static void
copy_limit(const GroupInfo *info, const LimitSettings *defaults, LimitInfo *limit)
{
	if (info->limit != NO_LIMIT)
	{
		limit_table_copy(info->limit, limit);
		return;
	}
	memset(limit, 0, sizeof(LimitInfo));
	limit->settings = *defaults;
}

/* From weight on: the limits of a group or a subgroup. */
static void
put_limit(const LimitInfo *limit, Datum *values, bool *nulls)
{
	const LimitSettings *settings = &limit->settings;

	values[0] = Float4GetDatum(settings->weight);
	values[1] = Int32GetDatum(settings->max_leased);
	nulls[1] = (settings->max_leased == 0);
	values[2] = Float4GetDatum(settings->rate);
	values[3] = Int32GetDatum(settings->burst);
	values[4] = Float8GetDatum(limit->tokens);
	nulls[2] = nulls[3] = nulls[4] = (settings->rate == 0);
	values[5] = BoolGetDatum(settings->paused);
}

static void
put_groups(ReturnSetInfo *rsinfo, const char *name, QueueState *state)
{
	TimestampTz now = GetCurrentTimestamp();
	GroupInfo  *infos;
	int			n = groups_list(state, false, &infos);
	LimitInfo  *limits = palloc(Max(n, 1) * sizeof(LimitInfo));
	int		   *kept = palloc_array(int, Max(n, 1));
	double		weights = 0;

	n = groups_part(infos, n);
	find_dues(state, infos, n);
	n = merge_classes(infos, n, kept);
	for (int i = 0; i < n; i++)
	{
		copy_limit(&infos[kept[i]], &state->limits.defaults, &limits[i]);
		if (has_work(&infos[kept[i]]))
			weights += limits[i].settings.weight;
	}
	for (int i = 0; i < n; i++)
	{
		GroupInfo  *info = &infos[kept[i]];
		Datum		values[20];
		bool		nulls[20] = {false};
		bool		known = info->all_served > 0;
		double		share = known ? info->served_cost / info->all_served : 0;
		double		expected = known ? info->due / info->all_served :
			limits[i].settings.weight / weights;

		if (!has_work(info))
			continue;
		values[0] = CStringGetTextDatum(name);
		values[1] = key_of(info);
		values[2] = Int64GetDatum(info->ready);
		values[3] = Int64GetDatum(info->overflow);
		values[4] = Int64GetDatum(info->leased);
		put_limit(&limits[i], values + 5, nulls + 5);
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
	pfree(kept);
}

/* A subgroup, the group it is of, and what it may have. */
typedef struct Subgroup
{
	GroupInfo	info;
	const GroupInfo *group;
	LimitInfo	limit;
} Subgroup;

static int
compare_numbers(const void *a, const void *b)
{
	uint32		x = ((const GroupInfo *) a)->number;
	uint32		y = ((const GroupInfo *) b)->number;

	return (x > y) - (x < y);
}

/* Those of a group, each with its classes one after the other. */
static int
compare_subgroups(const void *a, const void *b)
{
	const Subgroup *x = a;
	const Subgroup *y = b;
	int			order = compare_groups(x->group, y->group);

	return order != 0 ? order : compare_groups(&x->info, &y->info);
}

/*
 * The subgroups among n infos, with their groups, those of a group one after
 * the other; and of each one only.  Those are left out whose groups have gone
 * while they were listed.  Returns how many.
 */
static int
find_subgroups(QueueState *state, GroupInfo *infos, int n, Subgroup *found)
{
	int			groups = groups_part(infos, n);
	int			count = 0;
	int			kept = 0;

	qsort(infos, groups, sizeof(GroupInfo), compare_numbers);
	for (int i = groups; i < n; i++)
	{
		GroupInfo	key = {.number = infos[i].above};

		found[count].info = infos[i];
		found[count].group = bsearch(&key, infos, groups, sizeof(GroupInfo), compare_numbers);
		count += (found[count].group != NULL);
	}
	qsort(found, count, sizeof(Subgroup), compare_subgroups);
	for (int i = 0; i < count; i++)
	{
		if (kept > 0 && compare_subgroups(&found[kept - 1], &found[i]) == 0)
			merge_infos(&found[kept - 1].info, &found[i].info);
		else
			found[kept++] = found[i];
	}
	for (int i = 0; i < kept; i++)
		copy_limit(&found[i].info, &state->limits.subgroup_defaults, &found[i].limit);
	return kept;
}

/*
 * One subgroup, of whose group all were served so much, and those with work
 * have so much weight.
 */
static void
put_subgroup(ReturnSetInfo *rsinfo, const char *name, const Subgroup *subgroup,
			 double served, double weights)
{
	const GroupInfo *info = &subgroup->info;
	Datum		values[18];
	bool		nulls[18] = {false};

	values[0] = CStringGetTextDatum(name);
	values[1] = key_of(subgroup->group);
	values[2] = key_of(info);
	values[3] = Int64GetDatum((int64) info->overflow + info->ready);
	values[4] = Int64GetDatum(info->leased);
	put_limit(&subgroup->limit, values + 5, nulls + 5);
	values[11] = Int64GetDatum((int64) info->served);
	values[12] = Float8GetDatum(info->served_cost);
	nulls[13] = (served <= 0);
	values[13] = Float8GetDatum(nulls[13] ? 0 : info->served_cost / served);
	values[14] = Float8GetDatum(subgroup->limit.settings.weight / weights);
	values[15] = usecs_to_interval(info->run_time);
	values[16] = UUIDPGetDatum(&subgroup->group->id);
	values[17] = UUIDPGetDatum(&info->id);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_subgroups(ReturnSetInfo *rsinfo, const char *name, QueueState *state)
{
	GroupInfo  *infos;
	int			n = groups_list(state, false, &infos);
	Subgroup   *subgroups = MemoryContextAllocHuge(CurrentMemoryContext,
												   Max(n, 1) * sizeof(Subgroup));
	int			end;

	n = find_subgroups(state, infos, n, subgroups);
	for (int first = 0; first < n; first = end)
	{
		double		served = 0;
		double		weights = 0;

		for (end = first; end < n &&
			 compare_groups(subgroups[first].group, subgroups[end].group) == 0; end++)
		{
			served += subgroups[end].info.served_cost;
			if (has_work(&subgroups[end].info))
				weights += subgroups[end].limit.settings.weight;
		}
		for (int i = first; i < end; i++)
			if (has_work(&subgroups[i].info))
				put_subgroup(rsinfo, name, &subgroups[i], served, weights);
	}
	pfree(subgroups);
	pfree(infos);
}

/* What a queue has for a view. */
typedef void (*PutStats) (ReturnSetInfo *rsinfo, const char *name, QueueState *state);

/* Of all queues that the caller may look at. */
static void
put_visible(FunctionCallInfo fcinfo, PutStats put)
{
	ListCell   *lc;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);

	/* On a standby nothing is counted. */
	if (RecoveryInProgress())
		return;
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
				put((ReturnSetInfo *) fcinfo->resultinfo, queue, state);
			continue;
		}
		recovery_tags(rel, info);
		put((ReturnSetInfo *) fcinfo->resultinfo, info->name, info->state);
		relation_close(rel, AccessShareLock);
	}
}

/*
 * fairq_internal.stats_of_groups(): one row a group with work.
 */
Datum
fairq_stats_of_groups(PG_FUNCTION_ARGS)
{
	put_visible(fcinfo, put_groups);
	return (Datum) 0;
}

/*
 * fairq_internal.stats_of_subgroups(): one row a subgroup with work.
 */
Datum
fairq_stats_of_subgroups(PG_FUNCTION_ARGS)
{
	put_visible(fcinfo, put_subgroups);
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
