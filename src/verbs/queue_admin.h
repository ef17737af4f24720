/*-------------------------------------------------------------------------
 *
 * queue_admin.h
 *	  Creating, altering and dropping queues.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_ADMIN_H
#define FAIRQ_QUEUE_ADMIN_H

#include "storage/queue_catalog.h"

/* What can be set of a queue: the columns of fairq.queue. */
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
	SETTING_MAX_TASKS,
	SETTING_KEEP_DONE,
	SETTING_DURABLE_LEASES,
	SETTING_CHARGE,
	SETTING_NOTIFY,
	SETTING_GROUP_WEIGHT,
	SETTING_GROUP_MAX_LEASED,
	SETTING_GROUP_RATE,
	SETTING_GROUP_BURST,
	SETTING_PAUSED
} QueueSetting;

#define QUEUE_SETTINGS	(SETTING_PAUSED + 1)

/* Settings as given; those not given have their default, or stay as they are. */
typedef struct QueueSettings
{
	bool		given[QUEUE_SETTINGS];
	bool		nulls[QUEUE_SETTINGS];
	Datum		values[QUEUE_SETTINGS];
} QueueSettings;

/* What is to be set of a group; those that are not given stay. */
typedef struct GroupSettings
{
	bool		has_weight;
	bool		has_max_leased;
	bool		has_rate;
	bool		has_burst;
	bool		has_paused;
	LimitSettings values;
} GroupSettings;

static inline void
queue_setting(QueueSettings *settings, QueueSetting which, Datum value)
{
	settings->given[which] = true;
	settings->nulls[which] = false;
	settings->values[which] = value;
}

extern void queue_admin_create(const text *name, const QueueSettings *settings);
extern void queue_admin_alter(const text *name, const QueueSettings *settings);
extern void queue_admin_set_group(const text *queue, const text *group,
								  const GroupSettings *settings);
extern void queue_admin_set_group_defaults(const text *queue,
										   const GroupSettings *settings);
extern bool queue_admin_drop(const text *name);
extern void queue_admin_pause(const text *name, bool paused);
extern QueueInfo *queue_admin_open(const text *name, Relation *rel);
extern uint64 queue_admin_execute(const char *command, int n, Oid *types,
								  Datum *values, const char *nulls);

#endif							/* FAIRQ_QUEUE_ADMIN_H */
