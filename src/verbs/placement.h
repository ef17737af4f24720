/*-------------------------------------------------------------------------
 *
 * placement.h
 *	  Giving a task its place in the order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PLACEMENT_H
#define FAIRQ_PLACEMENT_H

#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "storage/queue_catalog.h"
#include "storage/row_reader.h"

/* What virtual time was when a statement began, read once for each class. */
typedef struct Placement
{
	QueueInfo  *info;
	bool		read[FAIRQ_CLASSES];
	VirtualTime v[FAIRQ_CLASSES];
} Placement;

/* What the place of a task goes by. */
typedef struct PlaceFor
{
	int64		turn;			/* among those of one number, but under policy
								 * fair */
	const text *group_key;
	const text *subgroup_key;	/* NULL: none, or that with the empty key */
	int64		priority;		/* checked: 0..9 under policy fair */
	TimestampTz run_at;			/* under policy time */
	double		cost;
	bool		may_overflow;
	bool		first;			/* before all that are ready */
} PlaceFor;

/* A task's place: where it is, and what it owes there. */
typedef struct Place
{
	FairqAddress address;
	Lane	   *lane;
	GroupTag	tag;
	bool		tagged;
	uint16		waiters;		/* who waits for its group (waiters_group) */
	bool		overflow;		/* it has none, but waits for room */
} Place;

extern void placement_begin(Placement *placement, Relation rel, QueueInfo *info);
extern void placement_prepare(QueueInfo *info, int64 priority);
extern void placement_assign(Placement *placement, const PlaceFor *task, Place *place);
extern bool placement_has_room(RowReader *row);
extern void placement_set_due(RowReader *row, TimestampTz due);
extern bool placement_unplace(RowReader *row, char state, bool wait);
extern bool placement_by_run_at(Placement *placement, RowReader *row, bool wait);
extern void placement_first(RowReader *row, FairqAddress *address);
extern uint32 placement_group(RowReader *row);
extern void placement_uncharge(RowReader *row, const FairqAddress *address);
extern void placement_leaves(RowReader *row, bool expired);
extern void placement_leaves_lease(RowReader *row, const LeaseInfo *lease, int settled);
extern bool placement_suspect(Placement *placement, RowReader *row, bool wait);
extern bool placement_replace(Placement *placement, RowReader *row, bool wait);
extern Lane *placement_lane(QueueInfo *info, const FairqAddress *address);
extern Lane *placement_lane_of(RowReader *row, FairqAddress *address);

#endif							/* FAIRQ_PLACEMENT_H */
