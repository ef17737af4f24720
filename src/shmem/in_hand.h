/*-------------------------------------------------------------------------
 *
 * in_hand.h
 *	  Entries that a claim has taken from lanes, and not leased yet.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_IN_HAND_H
#define FAIRQ_IN_HAND_H

#include "shmem/lanes.h"

extern void in_hand_add(Lane *lane, const LaneEntry *entries, int n, int max);
extern int	in_hand_entries(LaneEntry **entries, Lane ***lanes);
extern void in_hand_let_go(int done);
extern void in_hand_at_abort(void);

#endif							/* FAIRQ_IN_HAND_H */
