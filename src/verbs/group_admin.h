/*-------------------------------------------------------------------------
 *
 * group_admin.h
 *	  What groups are given, and that it is taken away.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_ADMIN_H
#define FAIRQ_GROUP_ADMIN_H

#include "storage/queue_settings.h"

extern void group_admin_set(const text *queue, const text *group,
							const QueueSettings *settings);
extern bool group_admin_reset(const text *queue, const text *group);

#endif							/* FAIRQ_GROUP_ADMIN_H */
