/*-------------------------------------------------------------------------
 *
 * group_settings.h
 *	  What groups were given: the rows of fairq.group_setting.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_SETTINGS_H
#define FAIRQ_GROUP_SETTINGS_H

#include "storage/queue_catalog.h"

/* What is to be set; those that are not given stay. */
typedef struct GroupSettings
{
	bool		has_weight;
	bool		has_max_leased;
	bool		has_rate;
	bool		has_burst;
	bool		has_paused;
	LimitSettings values;
} GroupSettings;

extern void group_settings_adopt(QueueInfo *info, Relation rel);
extern void group_settings_set(const text *queue, const text *group,
							   const GroupSettings *settings);
extern void group_settings_set_defaults(const text *queue,
										const GroupSettings *settings);
extern void group_settings_load(QueueInfo *info, Relation rel);

#endif							/* FAIRQ_GROUP_SETTINGS_H */
