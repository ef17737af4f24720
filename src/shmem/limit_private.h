/*-------------------------------------------------------------------------
 *
 * limit_private.h
 *	  What limit_table.c, parking.c and parked_tree.c share: a group's limit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_LIMITS_PRIVATE_H
#define FAIRQ_GROUP_LIMITS_PRIVATE_H

#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "storage/lwlock.h"

#include "common/virtual_time.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"

/* What a group waits for that has places set aside. */
typedef enum LimitLine
{
	NOT_IN_LINE,				/* a lease to end, or to be resumed; or it does not
								 * wait */
	LINE_OFFERED,				/* that what was offered is taken */
	LINE_TURN,					/* its turn */
	LINE_TOKEN					/* a token */
} LimitLine;

typedef struct GroupLimit
{
	/* table lock */
	uint64		low;			/* the group's key, see group_private.h */
	uint64		high;
	int			queue;
	uint32		hash_next;		/* or next in the free list */

	/* the entry's lock */
	bool		in_use;			/* table lock, too, to change */
	bool		given;			/* has settings of its own */
	bool		announced;		/* is there for settings only that have not been
								 * committed */
	int			pending;		/* settings of open transactions */
	int			joining;		/* groups are about to be told: nothing is taken
								 * until what they have in flight is counted */
	int			references;		/* groups that know it: its classes */
	int			leased;
	LimitSettings settings;
	double		tokens;
	TimestampTz token_time;		/* tokens are counted up to then */

	/* the same, for parking.c */
	uint32		root;			/* of the tree of places set aside */
	int			parked;			/* how many there are */
	int			offered;		/* places on their way: a hint */
	bool		dropped;		/* places were let go: from dropped_from on */
	uint8		line;			/* a LimitLine */
	uint8		turn_class;
	int			dropped_class;
	LaneEntry	dropped_from;
	VirtualTime turn;			/* start tag of the next place to be offered, in
								 * turn_class */

	/* lock of the queue's lines */
	pairingheap_node node;		/* of LINE_TURN or LINE_TOKEN */
	dlist_node	offered_node;	/* of LINE_OFFERED */
	uint8		line_class;		/* LINE_TURN: what orders it */
	VirtualTime line_turn;
	TimestampTz line_token;		/* the same of LINE_TOKEN */
} GroupLimit;

/* limit_table.c */
extern GroupLimit *limits_get(uint32 number);
extern uint32 limits_number(const GroupLimit *limit);
extern LWLock *limits_lock(uint32 number);
extern uint32 limits_high_water(void);
extern int	limits_room(GroupLimit *limit, TimestampTz *token);

static inline QueueLimits *
limits_of(const GroupLimit *limit)
{
	return &queue_state_by_number(limit->queue)->limits;
}

/* Does a group wait, with places set aside?  Entry locked. */
static inline bool
limit_waits(const GroupLimit *limit)
{
	return limit->parked > 0 || limit->dropped;
}

/* parked_tree.c */
typedef struct ParkedPlace
{
	LaneEntry	entry;
	Lane	   *lane;
	float4		charge;			/* of the task, by its group's weight */
	uint32		left;			/* or next in the free list */
	uint32		right;
} ParkedPlace;

extern Size parked_places_shmem_size(void);
extern void parked_places_shmem_init(void *area, bool found);
extern void parked_places_init(GroupLimit *limit);
extern const ParkedPlace *parked_places_first(const GroupLimit *limit);
extern int	parked_places_compare(const FairqAddress *address,
								  const ParkedPlace *place);
extern int	parked_places_before(const GroupLimit *limit,
								 const FairqAddress *address, int max);
extern int	parked_places_tasks(const GroupLimit *limit, int64 *tasks, int size);
extern bool parked_places_there(const GroupLimit *limit,
								const FairqAddress *address);
extern bool parked_places_add(GroupLimit *limit, Lane *lane, const LaneEntry *entry,
							  double charge);
extern void parked_places_remove_first(GroupLimit *limit);
extern bool parked_places_remove(GroupLimit *limit, const FairqAddress *address);

/* parking.c */
extern void set_aside_init(GroupLimit *limit);
extern void set_aside_clear(GroupLimit *limit);
extern int	set_aside_go_on(uint32 number);
extern bool set_aside_before(const GroupLimit *limit, const FairqAddress *address);
extern void set_aside_taken(GroupLimit *limit, const FairqAddress *address);

#endif							/* FAIRQ_GROUP_LIMITS_PRIVATE_H */
