/*-------------------------------------------------------------------------
 *
 * lane_check.h
 *	  Whether a lane is as it should be, in builds with assertions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LANE_CHECK_H
#define FAIRQ_LANE_CHECK_H

#include "shmem/lanes.h"

#ifdef USE_ASSERT_CHECKING
extern void lane_check(const Lane *lane);
#else
#define lane_check(lane)	((void) 0)
#endif

#endif							/* FAIRQ_LANE_CHECK_H */
