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
#include "sql/result_rows.h"
#include "storage/recovery.h"

PG_FUNCTION_INFO_V1(fairq_stats_of_groups);
PG_FUNCTION_INFO_V1(fairq_stats_of_subgroups);
PG_FUNCTION_INFO_V1(fairq_group_id);

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
			limit_entry_weight(info->limit);
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
		limit_entry_copy(info->limit, limit);
		return;
	}
	memset(limit, 0, sizeof(LimitInfo));
	limit->settings = *defaults;
}

/* The columns of the limits of a group or a subgroup, from weight to paused. */
static void
add_limit(ResultRow *row, const LimitInfo *limit)
{
	const LimitSettings *settings = &limit->settings;
	bool		rated = settings->rate != 0;

	result_rows_add(row, Float4GetDatum(settings->weight));
	result_rows_add_if(row, settings->max_leased != 0, Int32GetDatum(settings->max_leased));
	result_rows_add_if(row, rated, Float4GetDatum(settings->rate));
	result_rows_add_if(row, rated, Int32GetDatum(settings->burst));
	result_rows_add_if(row, rated, Float8GetDatum(limit->tokens));
	result_rows_add(row, BoolGetDatum(settings->paused));
}

/*
 * Are the groups of a queue known?  They may be although it is locked.  On a
 * standby nothing is counted.
 */
static bool
knows_groups(const VisibleQueue *queue)
{
	if (RecoveryInProgress() || queue->state == NULL)
		return false;
	if (queue->info == NULL)
		return queue->state->recovery.groups == QUEUE_KNOWN;
	recovery_tags(queue->rel, queue->info);
	return true;
}

/* A group, or a subgroup, in all of its classes. */
typedef struct GroupRow
{
	uint64		hash[4];		/* of the group of a subgroup, else 0; its own */
	const GroupInfo *group;		/* of a subgroup; else NULL */
	GroupInfo  *info;
	LimitInfo	limit;
} GroupRow;

static int
compare_rows(const void *a, const void *b)
{
	return memcmp(((const GroupRow *) a)->hash, ((const GroupRow *) b)->hash,
				  sizeof(((GroupRow *) 0)->hash));
}

static bool
same_group(const GroupRow *a, const GroupRow *b)
{
	return a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1];
}

static int
compare_numbers(const void *a, const void *b)
{
	uint32		x = ((const GroupInfo *) a)->number;
	uint32		y = ((const GroupInfo *) b)->number;

	return (x > y) - (x < y);
}

/*
 * The rows of the groups among n infos, or of their subgroups; those of a group
 * one after the other.  Left out are subgroups whose groups have gone while
 * they were listed.  Returns how many.  It is rows that are sorted, for infos
 * are much larger.
 */
static int
make_rows(QueueState *state, GroupInfo *infos, int n, bool subgroups, GroupRow *rows)
{
	int			groups = groups_part(infos, n);
	int			count = 0;
	int			kept = 0;

	if (subgroups)
		qsort(infos, groups, sizeof(GroupInfo), compare_numbers);
	else
		find_dues(state, infos, groups);
	for (int i = subgroups ? groups : 0; i < (subgroups ? n : groups); i++)
	{
		GroupInfo	key = {.number = infos[i].above};
		GroupRow   *row = &rows[count];

		memset(row, 0, sizeof(GroupRow));
		row->info = &infos[i];
		memcpy(row->hash + 2, infos[i].hash, sizeof(infos[i].hash));
		if (subgroups)
		{
			row->group = bsearch(&key, infos, groups, sizeof(GroupInfo), compare_numbers);
			if (row->group == NULL)
				continue;
			memcpy(row->hash, row->group->hash, sizeof(row->group->hash));
		}
		count++;
	}
	qsort(rows, count, sizeof(GroupRow), compare_rows);
	for (int i = 0; i < count; i++)
	{
		if (kept > 0 && compare_rows(&rows[kept - 1], &rows[i]) == 0)
			merge_infos(rows[kept - 1].info, rows[i].info);
		else
			rows[kept++] = rows[i];
	}
	for (int i = 0; i < kept; i++)
		copy_limit(rows[i].info, subgroups ? &state->limits.subgroup_defaults :
				   &state->limits.defaults, &rows[i].limit);
	return kept;
}
/*
 * The share of a group of what its class has served while it had work, and what
 * was due to it, or would be by weight among those with work.
 */
static void
put_group(ReturnSetInfo *rsinfo, const VisibleQueue *queue, const GroupRow *group,
		  double served, double weights)
{
	const GroupInfo *info = group->info;
	ResultRow	row = {0};
	bool		known = info->all_served > 0;
	bool		fair = queue->state->classes > 1;	/* else there are no shares */
	double		share = known ? info->served_cost / info->all_served : 0;
	double		expected = known ? info->due / info->all_served :
		group->limit.settings.weight / weights;
	TimestampTz now = GetCurrentTimestamp();

	result_rows_add(&row, CStringGetTextDatum(queue->name));
	result_rows_add(&row, key_of(info));
	result_rows_add(&row, Int64GetDatum(info->ready));
	result_rows_add(&row, Int64GetDatum(info->overflow));
	result_rows_add(&row, Int64GetDatum(info->leased));
	add_limit(&row, &group->limit);
	result_rows_add(&row, Int64GetDatum((int64) info->served));
	result_rows_add(&row, Float8GetDatum(info->served_cost));
	result_rows_add_if(&row, known, Float8GetDatum(share));
	result_rows_add_if(&row, fair, Float8GetDatum(expected));
	result_rows_add_if(&row, known && fair, Float8GetDatum(share - expected));
	result_rows_add_usecs(&row, info->ready != 0, Max(now - info->head_time, 0));
	result_rows_add_usecs(&row, true, info->run_time);
	result_rows_add(&row, Float8GetDatum(info->all_served));
	result_rows_add(&row, UUIDPGetDatum(&info->id));
	result_rows_end(&row, rsinfo);
}

/*
 * The share of a subgroup of what its group was served, and by weight among
 * those with work.
 */
static void
put_subgroup(ReturnSetInfo *rsinfo, const VisibleQueue *queue, const GroupRow *subgroup,
			 double served, double weights)
{
	const GroupInfo *info = subgroup->info;
	ResultRow	row = {0};

	result_rows_add(&row, CStringGetTextDatum(queue->name));
	result_rows_add(&row, key_of(subgroup->group));
	result_rows_add(&row, key_of(info));
	result_rows_add(&row, Int64GetDatum((int64) info->overflow + info->ready));
	result_rows_add(&row, Int64GetDatum(info->leased));
	add_limit(&row, &subgroup->limit);
	result_rows_add(&row, Int64GetDatum((int64) info->served));
	result_rows_add(&row, Float8GetDatum(info->served_cost));
	result_rows_add_if(&row, served > 0, Float8GetDatum(info->served_cost / served));
	result_rows_add(&row, Float8GetDatum(subgroup->limit.settings.weight / weights));
	result_rows_add_usecs(&row, true, info->run_time);
	result_rows_add(&row, UUIDPGetDatum(&subgroup->group->id));
	result_rows_add(&row, UUIDPGetDatum(&info->id));
	result_rows_end(&row, rsinfo);
}

/*
 * The groups of a queue that have work, or the subgroups of each group: a row
 * says what part it has of what all of them were served, and of the weight of
 * those that have work.
 */
static void
put_level(ReturnSetInfo *rsinfo, const VisibleQueue *queue, bool subgroups)
{
	GroupInfo  *infos;
	GroupRow   *rows;
	int			n;
	int			end;

	if (!knows_groups(queue))
		return;
	n = groups_list(queue->state, false, &infos);
	rows = MemoryContextAllocHuge(CurrentMemoryContext, Max(n, 1) * sizeof(GroupRow));
	n = make_rows(queue->state, infos, n, subgroups, rows);
	for (int first = 0; first < n; first = end)
	{
		double		served = 0;
		double		weights = 0;

		for (end = first; end < n && same_group(&rows[first], &rows[end]); end++)
		{
			served += rows[end].info->served_cost;
			if (has_work(rows[end].info))
				weights += rows[end].limit.settings.weight;
		}
		for (int i = first; i < end; i++)
			if (has_work(rows[i].info))
				(subgroups ? put_subgroup : put_group) (rsinfo, queue, &rows[i], served, weights);
	}
	pfree(rows);
	pfree(infos);
}

static void
put_groups(ReturnSetInfo *rsinfo, const VisibleQueue *queue)
{
	put_level(rsinfo, queue, false);
}

static void
put_subgroups(ReturnSetInfo *rsinfo, const VisibleQueue *queue)
{
	put_level(rsinfo, queue, true);
}

/*
 * fairq_internal.stats_of_groups(): one row a group with work.
 */
Datum
fairq_stats_of_groups(PG_FUNCTION_ARGS)
{
	return visible_queues_rows(fcinfo, put_groups);
}

/*
 * fairq_internal.stats_of_subgroups(): one row a subgroup with work.
 */
Datum
fairq_stats_of_subgroups(PG_FUNCTION_ARGS)
{
	return visible_queues_rows(fcinfo, put_subgroups);
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
