/*-------------------------------------------------------------------------
 *
 * claim_private.h
 *	  A claim in progress, as the files see it that make up the verb: claim.c,
 *	  claim_grant.c, claim_hand.c, claim_lanes.c, claim_groups.c and
 *	  claim_turns.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CLAIM_PRIVATE_H
#define FAIRQ_CLAIM_PRIVATE_H

#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/stats.h"
#include "verbs/claim.h"
#include "verbs/ended_tasks.h"

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
	TimestampTz steady;			/* now, by the steady clock */
	int			got;
	double		served_cost;	/* what they were charged, those of this order
								 * that it does not know yet */
	double		turns_cost;		/* and those that orders know of */
	Lane	   *refilling;		/* a lane that another backend is reading */
	LaneTurn   *turn;			/* of the entry that is looked at, if it was
								 * taken out of a line */
	bool		drained;		/* the class has nothing left */
	bool		met_expired;	/* tasks that have expired were passed over */
	QuarantineStep quarantine;	/* of the session */
	bool		nothing_else;	/* there is nothing to claim but suspects */
	bool		met_suspect;	/* one was passed over */
	bool		turn_asked;		/* whether it has the turn of one */
	bool		has_turn;
	bool		alone;			/* it has a suspect, and takes nothing else */
	bool		full;			/* it takes nothing else, however little it has */
	TimestampTz first_deadline; /* of the leases granted */
	StatsBatch	waits;			/* how long the tasks have waited */
	EndedTasks	ended;			/* tasks popped */
	LeaseInfo  *durable;		/* leases to be written, but for a pop */
	int			durable_count;
	int			durable_size;
} Claim;

/* claim_hand.c: there is room for what is just taken, besides. */
#define CLAIM_HAND_SIZE	(2 * LANE_WINDOW)

extern LaneEntry claim_hand[CLAIM_HAND_SIZE];
extern Lane *claim_hand_lanes[CLAIM_HAND_SIZE];
extern LaneTurn claim_hand_turns[CLAIM_HAND_SIZE];	/* of those that are turns */
extern int	claim_in_hand;

extern void claim_hand_give_back(int kept);
extern void claim_hand_hold(Lane *lane, int n, int max);
extern void claim_hand_set_aside(Claim *claim, int number);
extern LaneTurn *claim_hand_reserved(const uint32 limits[LIMIT_LEVELS]);
extern void claim_hand_give_up(LaneTurn *turn);
extern void claim_hand_led_nowhere(LaneTurn *turn);
extern bool claim_hand_any_aside(void);

extern bool claim_can_lease(Claim *claim, Lane *lane, RowStatus status,
							const LaneEntry *entry);
extern bool claim_grant(Claim *claim, Lane *lane, const LaneEntry *entry,
						VirtualTime *start, VirtualTime *finish, bool *at_limit);
extern void claim_park(Claim *claim, Lane *lane, const LaneEntry *entry, bool taken);
extern void claim_tell_served(Claim *claim, QueueOrder *order);
extern void claim_no_leases(Claim *claim);
extern bool claim_admits(Claim *claim);
extern void claim_alone_not(Claim *claim);
extern void claim_give_back_aside(void);
extern bool claim_from_lanes(Claim *claim, int class, int most);
extern void claim_turn_of(Claim *claim, const GroupKey *key, uint32 group, VirtualTime *finish);
extern bool claim_of_groups(Claim *claim, int class);

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
