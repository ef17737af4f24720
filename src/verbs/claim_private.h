/*-------------------------------------------------------------------------
 *
 * claim_private.h
 *	  A claim in progress, as the files see it that make up the verb: claim.c,
 *	  claim_grant.c, claim_lanes.c, claim_groups.c and claim_feed.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CLAIM_PRIVATE_H
#define FAIRQ_CLAIM_PRIVATE_H

#include "shmem/group_overflow.h"
#include "shmem/lanes.h"
#include "shmem/quarantine.h"
#include "shmem/parking.h"
#include "shmem/stats.h"
#include "verbs/claim.h"
#include "verbs/ended_tasks.h"

/* A group whose last place a claim has used up, and which it is to refill. */
typedef struct DryGroup
{
	StarvedGroup starved;
	int			feeding;		/* its pending action */
} DryGroup;

#define MAX_DRY_GROUPS	LANE_WINDOW

/* A claim in progress. */
typedef struct Claim
{
	Relation	rel;
	QueueInfo  *info;
	int			queue;			/* number of its state */
	const ClaimRequest *request;
	int			buckets;		/* of the queue, and ... */
	bool	   *wanted;			/* those asked for; NULL: all */
	ClaimSink	sink;
	void	   *arg;
	RowReader	row;
	TimestampTz now;
	int			got;
	double		served_cost;	/* what they were charged, those of this order
								 * that it does not know yet */
	double		turns_cost;		/* and those that orders know of */
	Lane	   *refilling;		/* a lane that another backend is reading */
	bool		drained;		/* the class has nothing left */
	bool		stray;			/* an entry led nowhere: perhaps one that was
								 * offered for a group at its limit */
	bool		met_expired;	/* tasks that have expired were passed over */
	QuarantineStep quarantine;	/* of the session */
	bool		nothing_else;	/* there is nothing to claim but suspects */
	bool		met_suspect;	/* one was passed over */
	bool		turn_asked;		/* whether it has the turn of one */
	bool		turn;
	bool		alone;			/* it has a suspect, and takes nothing else */
	bool		full;			/* it takes nothing else, however little it has */
	GroupAtLimit at_limit;		/* the group of the task that was refused last */
	TimestampTz first_deadline; /* of the leases granted */
	StatsBatch	waits;			/* how long the tasks have waited */
	EndedTasks	ended;			/* tasks popped */
	LeaseInfo  *durable;		/* leases to be written, but for a pop */
	int			durable_count;
	int			durable_size;
	TimestampTz give_up;		/* waiting for tasks of the overflow */
	int			waits_for_others;	/* to lease what they have taken */
	DryGroup   *dry;			/* room for MAX_DRY_GROUPS; NULL: none yet */
	int			dry_count;
	bool		dry_met;		/* these, or some that others refill, have
								 * been met: */
	VirtualTime dry_finish;		/* what begins here or later is after them */
} Claim;

extern bool claim_can_lease(Claim *claim, Lane *lane, RowStatus status,
							const LaneEntry *entry);
extern bool claim_grant(Claim *claim, Lane *lane, const LaneEntry *entry,
						VirtualTime *finish, uint32 *limit);
extern void claim_tell_served(Claim *claim, QueueOrder *order);
extern void claim_no_leases(Claim *claim);
extern void claim_note_dry(Claim *claim, const GroupLease *group);
extern void claim_feed_dry(Claim *claim);
extern void claim_wait_dry(Claim *claim);
extern bool claim_admits(Claim *claim);
extern void claim_alone_not(Claim *claim);
extern void claim_give_back_aside(void);
extern void claim_from_lanes(Claim *claim);
extern void claim_of_groups(Claim *claim);

/* Do the classes of the queue share by weights? */
static inline bool
claim_by_weights(const Claim *claim)
{
	return claim->info->class_weights[0] > 0;
}

/* The classes that may have anything, a bit for each. */
static inline uint32
claim_classes(const Claim *claim)
{
	QueueState *state = claim->info->state;
	uint32		classes = 0;

	for (int class = 0; class < state->classes; class++)
		if (lanes_any(&state->orders[class].lanes))
			classes |= 1 << class;
	return classes;
}

/*
 * Would the task at a place be claimed before a group that is to be refilled
 * first?
 */
static inline bool
claim_passes_dry(const Claim *claim, const LaneEntry *entry)
{
	VirtualTime start = {entry->block, entry->fraction};

	return claim->dry_met && virtual_time_compare(start, claim->dry_finish) >= 0;
}

/*
 * Does it take a look (claim_admits) whether the claim may have the task whose
 * row is read?
 */
static inline bool
claim_asks(Claim *claim)
{
	return row_reader_is_suspect(&claim->row) || claim->quarantine == QUARANTINE_READY;
}

/*
 * Is a lane of a bucket that the caller asked for?  Buckets from when the queue
 * had more of them go with those there are, in turn, so that who owns one of
 * these (sessions.c) owns those, too.
 */
static inline bool
claim_wants_bucket(const Claim *claim, const Lane *lane)
{
	return claim->wanted == NULL || claim->wanted[lane->bucket % claim->buckets];
}

#endif							/* FAIRQ_CLAIM_PRIVATE_H */
