/*-------------------------------------------------------------------------
 *
 * queue_settings.c
 *	  What can be set of a queue: the columns of fairq.queue.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "common/virtual_time.h"
#include "common/wall_clock.h"
#include "storage/queue_settings.h"

/* In the order of QueuePolicy, and of QueueInfo.charge_seconds. */
static const char *const policies[] = {"fair", "priority", "time", NULL};
static const char *const charges[] = {"cost", "seconds", NULL};

#define ANY			((double) PG_INT64_MIN), ((double) PG_INT64_MAX)
#define FROM(min)	(min), ((double) PG_INT64_MAX)
#define FIELD(name)	offsetof(QueueInfo, name), sizeof(((QueueInfo *) 0)->name)

const SettingDef queue_settings[QUEUE_SETTINGS] = {
	[SETTING_POLICY] = {"policy", "policy", TEXTOID, policies, false, false, ANY,
	"It must be \"fair\", \"priority\" or \"time\".", FIELD(policy)},
	[SETTING_BUCKETS] = {"buckets", "buckets", INT4OID, NULL, false, false, 1, FAIRQ_MAX_BUCKETS,
	"It must be from 1 to " CppAsString2(FAIRQ_MAX_BUCKETS) ".", FIELD(buckets)},
	[SETTING_LEASE] = {"lease", "lease", INTERVALOID, NULL, false, false, ANY, NULL,
	FIELD(lease)},
	[SETTING_MAX_ATTEMPTS] = {"max_attempts", "max_attempts", INT4OID, NULL, false, false, FROM(0),
	"It must be 0, for no limit, or more.", FIELD(max_attempts)},
	[SETTING_BACKOFF_BASE] = {"backoff_base", "backoff_base", INTERVALOID, NULL, false, true, ANY,
	NULL, FIELD(backoff_base)},
	[SETTING_BACKOFF_MAX] = {"backoff_max", "backoff_max", INTERVALOID, NULL, false, true, ANY,
	NULL, FIELD(backoff_max)},
	[SETTING_MAX_READY] = {"max_ready", "max_ready", INT8OID, NULL, false, false, FROM(1),
	"It must be 1 or more.", FIELD(max_ready)},
	[SETTING_MAX_READY_PER_GROUP] = {"max_ready_per_group", "max_ready_per_group", INT8OID, NULL,
	false, false, FROM(1), "It must be 1 or more.", FIELD(max_ready_per_group)},
	[SETTING_MAX_DEPTH] = {"max_depth", "max_depth", INT8OID, NULL, true, false, FROM(0),
	"It must be 0 (no limit) or more.", FIELD(max_depth)},
	[SETTING_KEEP_DONE] = {"keep_done", "keep_done", INTERVALOID, NULL, true, true, ANY, NULL,
	FIELD(keep_done)},
	[SETTING_DURABLE_LEASES] = {"durable_leases", "durable_leases", BOOLOID, NULL, false, false,
	ANY, NULL, FIELD(durable_leases)},
	[SETTING_CHARGE] = {"charge", "charge", TEXTOID, charges, false, false, ANY,
	"It must be \"cost\" or \"seconds\".", FIELD(charge_seconds)},
	[SETTING_NOTIFY] = {"notify", "notify", BOOLOID, NULL, false, false, ANY, NULL, FIELD(notify)},
	[SETTING_EXPIRE_AFTER] = {"expire_after", "expire_after", INTERVALOID, NULL, true, true, ANY, NULL,
	FIELD(expire_after)},
	[SETTING_BACKOFF_JITTER] = {"backoff_jitter", "backoff_jitter", FLOAT8OID, NULL, false, false,
	0, 1, "It must be from 0 (none) to 1.", FIELD(backoff_jitter)},
	[SETTING_DEFAULT_PRIORITY] = {"default_priority", "default_priority", INT8OID, NULL, false,
	false, ANY, NULL, FIELD(default_priority)},
	[SETTING_GROUP_REQUIRED] = {"group_required", "group_required", BOOLOID, NULL, false, false,
	ANY, NULL, FIELD(group_required)},
	[SETTING_MAX_LOST] = {"max_lost", "max_lost", INT4OID, NULL, false, false, FROM(0),
	"It must be 0, for no limit, or more.", FIELD(max_lost)},
	[SETTING_CLASS_WEIGHTS] = {"class_weights", "class_weights", FLOAT8ARRAYOID, NULL, true,
		false, FAIRQ_MIN_WEIGHT, FAIRQ_MAX_WEIGHT,
		"Give one number from 0.001 to 1000 for each class from 0 on, at most "
		CppAsString2(FAIRQ_CLASSES) "; or '{}', for none.", FIELD(class_weights)},
	[SETTING_SUBGROUPS] = {"subgroups", "subgroups", BOOLOID, NULL, false, false, ANY, NULL,
	FIELD(subgroups)},
	[SETTING_SUBGROUP_WEIGHT] = {"subgroup_weight", "weight", FLOAT4OID, NULL, false, false,
		(float4) FAIRQ_MIN_WEIGHT, FAIRQ_MAX_WEIGHT, "It must be from 0.001 to 1000.",
	FIELD(subgroup_defaults.weight)},
	[SETTING_SUBGROUP_MAX_LEASED] = {"subgroup_max_leased", "max_leased", INT4OID, NULL, false, false,
	FROM(0), "It must be 0 (no limit) or more.", FIELD(subgroup_defaults.max_leased)},
	[SETTING_SUBGROUP_RATE] = {"subgroup_rate", "rate", FLOAT4OID, NULL, false, true, 1e-5f, 1e6f,
		"It must be 0 (no limit), or from 0.00001 to 1000000 a second.",
	FIELD(subgroup_defaults.rate)},
	[SETTING_SUBGROUP_BURST] = {"subgroup_burst", "burst", INT4OID, NULL, false, false, 0, 1000000,
	"It must be from 0 (as many as rate) to 1000000.", FIELD(subgroup_defaults.burst)},
	[SETTING_GROUP_WEIGHT] = {"group_weight", "weight", FLOAT4OID, NULL, false, false,
		(float4) FAIRQ_MIN_WEIGHT, FAIRQ_MAX_WEIGHT, "It must be from 0.001 to 1000.",
	FIELD(group_defaults.weight)},
	[SETTING_GROUP_MAX_LEASED] = {"group_max_leased", "max_leased", INT4OID, NULL, false, false,
	FROM(0), "It must be 0 (no limit) or more.", FIELD(group_defaults.max_leased)},
	[SETTING_GROUP_RATE] = {"group_rate", "rate", FLOAT4OID, NULL, false, true, 1e-5f, 1e6f,
		"It must be 0 (no limit), or from 0.00001 to 1000000 a second.",
	FIELD(group_defaults.rate)},
	[SETTING_GROUP_BURST] = {"group_burst", "burst", INT4OID, NULL, false, false, 0, 1000000,
	"It must be from 0 (as many as rate) to 1000000.", FIELD(group_defaults.burst)},
	[SETTING_PAUSED] = {"paused", "paused", BOOLOID, NULL, false, false, ANY, NULL, FIELD(paused)},
};

#undef FIELD
#undef FROM
#undef ANY

/*
 * Which of the words of a setting a value is; -1: none.
 */
int
queue_settings_word(const SettingDef *def, const char *value)
{
	for (int i = 0; def->words[i] != NULL; i++)
	{
		if (strcmp(value, def->words[i]) == 0)
			return i;
	}
	return -1;
}

/*
 * Weights of classes.  Those that are not given are as the last one that is.
 */
static void
store_weights(double *weights, ArrayType *given)
{
	Datum	   *values;
	int			n;

	deconstruct_array(given, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &values, NULL, &n);
	for (int i = 0; i < FAIRQ_CLASSES; i++)
		weights[i] = (n == 0) ? 0 : DatumGetFloat8(values[Min(i, n - 1)]);
	pfree(values);
}

/*
 * Set a field of info to what the column of a setting says.
 */
void
queue_settings_store(QueueInfo *info, QueueSetting which, Datum value, bool isnull)
{
	const SettingDef *def = &queue_settings[which];
	void	   *field = (char *) info + def->offset;

	Assert(!isnull || def->null_is_zero);
	if (isnull)
		memset(field, 0, def->size);
	else if (def->type == FLOAT4OID)
		*(float4 *) field = DatumGetFloat4(value);
	else if (def->type == FLOAT8OID)
		*(double *) field = DatumGetFloat8(value);
	else if (def->type == FLOAT8ARRAYOID)
		store_weights(field, DatumGetArrayTypeP(value));
	else
	{
		int64		number = def->type == INT8OID ? DatumGetInt64(value) :
			def->type == INT4OID ? DatumGetInt32(value) :
			def->type == BOOLOID ? DatumGetBool(value) :
			def->type == INTERVALOID ? wall_clock_usecs(DatumGetIntervalP(value)) :
			queue_settings_word(def, TextDatumGetCString(value));

		if (def->size == sizeof(int64))
			*(int64 *) field = number;
		else if (def->size == sizeof(int))
			*(int *) field = (int) number;
		else
			*(bool *) field = (number != 0);
	}
}
