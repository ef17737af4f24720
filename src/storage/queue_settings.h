/*-------------------------------------------------------------------------
 *
 * queue_settings.h
 *	  What can be set of a queue, the columns of fairq.queue; and what groups were
 *	  given, the rows of fairq.group_setting.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_SETTINGS_H
#define FAIRQ_QUEUE_SETTINGS_H

#include "storage/queue_catalog.h"

/* In the order of the arguments of the functions that set them. */
typedef enum QueueSetting
{
	SETTING_POLICY,
	SETTING_BUCKETS,
	SETTING_LEASE,
	SETTING_MAX_ATTEMPTS,
	SETTING_BACKOFF_BASE,
	SETTING_BACKOFF_MAX,
	SETTING_MAX_READY,
	SETTING_MAX_READY_PER_GROUP,
	SETTING_MAX_DEPTH,
	SETTING_KEEP_DONE,
	SETTING_DURABLE_LEASES,
	SETTING_CHARGE,
	SETTING_NOTIFY,
	SETTING_EXPIRE_AFTER,
	SETTING_BACKOFF_JITTER,
	SETTING_DEFAULT_PRIORITY,
	SETTING_GROUP_REQUIRED,
	SETTING_MAX_LOST,
	SETTING_CLASS_WEIGHTS,
	SETTING_SUBGROUPS,
	SETTING_SUBGROUP_WEIGHT,
	SETTING_SUBGROUP_MAX_LEASED,
	SETTING_SUBGROUP_RATE,
	SETTING_SUBGROUP_BURST,
	SETTING_GROUP_WEIGHT,
	SETTING_GROUP_MAX_LEASED,
	SETTING_GROUP_RATE,
	SETTING_GROUP_BURST,
	SETTING_PAUSED
} QueueSetting;

#define QUEUE_SETTINGS	(SETTING_PAUSED + 1)

typedef struct SettingDef
{
	const char *column;
	const char *argument;
	Oid			type;
	const char *const *words;	/* a text is one of these, up to a NULL */
	bool		null_is_zero;	/* in the table, and an argument of 0 is null */
	bool		zero_ok;		/* though min is above that */
	double		min;			/* of a number */
	double		max;
	const char *hint;			/* at what may be given */
	Size		offset;			/* in QueueInfo */
	Size		size;
} SettingDef;

extern const SettingDef queue_settings[QUEUE_SETTINGS];

/*
 * Settings as given; those not given have their default, or stay as they are.
 */
typedef struct QueueSettings
{
	bool		given[QUEUE_SETTINGS];
	bool		nulls[QUEUE_SETTINGS];
	Datum		values[QUEUE_SETTINGS];
} QueueSettings;

static inline void
queue_settings_give(QueueSettings *settings, QueueSetting which, Datum value)
{
	settings->given[which] = true;
	settings->nulls[which] = false;
	settings->values[which] = value;
}

/* queue_settings.c */
extern int	queue_settings_word(const SettingDef *def, const char *value);
extern void queue_settings_store(QueueInfo *info, QueueSetting which, Datum value,
								 bool isnull);

/* group_settings.c */
extern void group_settings_of_row(const Datum *values, const bool *nulls,
								  LimitSettings *settings);
extern void group_settings_adopt(QueueInfo *info, Relation rel);
extern void group_settings_load(QueueInfo *info, Relation rel);

#endif							/* FAIRQ_QUEUE_SETTINGS_H */
