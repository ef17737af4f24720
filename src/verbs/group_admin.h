/*-------------------------------------------------------------------------
 *
 * group_admin.h
 *	  What groups and subgroups are given, and that it is taken away.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_ADMIN_H
#define FAIRQ_GROUP_ADMIN_H

#include "storage/queue_settings.h"

extern void group_admin_set(const text *queue, const text *group, const text *subgroup,
							const QueueSettings *settings);
extern bool group_admin_reset(const text *queue, const text *group, const text *subgroup);

#endif							/* FAIRQ_GROUP_ADMIN_H */
