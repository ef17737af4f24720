/*-------------------------------------------------------------------------
 *
 * group_limits.h
 *	  What a group may have in flight: taken, given back, and changed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_LIMITS_H
#define FAIRQ_GROUP_LIMITS_H

#include "shmem/limit_table.h"

extern bool group_limits_take(const uint32 limits[LIMIT_LEVELS],
							  const uint32 reserved[LIMIT_LEVELS]);
extern void group_limits_give_up(uint32 number);
extern void group_limits_give(uint32 number, bool unused);
extern void group_limits_joined(uint32 number, TimestampTz crowded_until);
extern void group_limits_change(uint32 number, const LimitSettings *settings);
extern void group_limits_defaults_changed(int queue);
extern TimestampTz group_limits_tick(QueueLimits *limits, TimestampTz now);

#endif							/* FAIRQ_GROUP_LIMITS_H */
