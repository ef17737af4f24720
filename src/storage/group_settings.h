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

extern void group_settings_of_row(const Datum *values, const bool *nulls,
								  LimitSettings *settings);
extern void group_settings_adopt(QueueInfo *info, Relation rel);
extern void group_settings_load(QueueInfo *info, Relation rel);

#endif							/* FAIRQ_GROUP_SETTINGS_H */
