/*-------------------------------------------------------------------------
 *
 * limit_private.h
 *	  A group's limit, as limit_table.c, parked_tree.c, parking.c and
 *	  group_limits.c see it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LIMIT_PRIVATE_H
#define FAIRQ_LIMIT_PRIVATE_H

#include "lib/ilist.h"
#include "lib/pairingheap.h"
#include "storage/lwlock.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/virtual_time.h"
#include "shmem/lanes.h"
#include "shmem/limit_table.h"

/* What a group waits for that has tasks parked. */
typedef enum LimitLine
{
	NOT_IN_LINE,				/* a lease to end, or to be resumed; or it
								 * does not wait */
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
	QueueLimits *of_queue;

	/* the entry's lock */
	bool		in_use;			/* table lock, too, to change */
	bool		given;			/* has settings of its own */
	bool		announced;		/* is there for settings only that have not
								 * been committed */
	int			pending;		/* settings of open transactions */
	int			joining;		/* groups are about to be told: nothing is
								 * taken until what they have in flight is
								 * counted */
	int			references;		/* groups that know it: its classes */
	int			leased;
	LimitSettings settings;
	double		tokens;
	TimestampTz token_time;		/* tokens are counted up to then */

	/* the entry's lock, for parking.c */
	uint32		root;			/* of the tree of parked entries */
	int			parked;			/* how many there are */
	int			offered;		/* entries on their way: a hint */
	bool		dropped;		/* entries were let go: from dropped_from on */
	uint8		line;			/* a LimitLine */
	uint8		turn_class;
	int			dropped_class;
	LaneEntry	dropped_from;
	VirtualTime turn;			/* start tag of the next entry to be offered,
								 * in turn_class */

	/* lock of the queue's lines */
	pairingheap_node node;		/* of LINE_TURN or LINE_TOKEN */
	dlist_node	offered_node;	/* of LINE_OFFERED */
	uint8		line_class;		/* LINE_TURN: what orders it */
	VirtualTime line_turn;
	TimestampTz line_token;		/* LINE_TOKEN: what orders it */
} GroupLimit;

/* limit_table.c */
extern FAIRQ_PRIVATE GroupLimit *limit_entries;

extern FAIRQ_PRIVATE LWLock *limit_table_lock(uint32 number);
extern FAIRQ_PRIVATE uint32 limit_table_high_water(void);
extern FAIRQ_PRIVATE int limit_table_room(GroupLimit *limit, TimestampTz *token,
										  bool *limited);
extern FAIRQ_PRIVATE void limit_table_change(uint32 number, const LimitSettings *settings);

static inline uint32
limit_number(const GroupLimit *limit)
{
	return limit - limit_entries;
}

#define AssertLimitLocked(limit) \
	AssertLocked(limit_table_lock(limit_number(limit)))
#define AssertLimitLockedExclusively(limit) \
	AssertLockedExclusively(limit_table_lock(limit_number(limit)))

#ifdef USE_ASSERT_CHECKING
extern FAIRQ_PRIVATE void limit_check(const GroupLimit *limit);
extern FAIRQ_PRIVATE void limit_check_lines(const QueueLimits *limits);
extern void parked_tree_check(const GroupLimit *limit);
#else
#define limit_check(limit)	((void) 0)
#define limit_check_lines(limits)	((void) 0)
#define parked_tree_check(limit)	((void) 0)
#endif

/* Lock a limit's entry. */
static inline GroupLimit *
limit_lock(uint32 number, LWLockMode mode)
{
	Assert(number != NO_LIMIT && number < limit_table_high_water());
	LWLockAcquire(limit_table_lock(number), mode);
	return &limit_entries[number];
}

/* Unlock it, when it is as it should be. */
static inline void
limit_unlock(uint32 number)
{
	limit_check(&limit_entries[number]);
	LWLockRelease(limit_table_lock(number));
}

/* Does a group wait, with tasks parked? */
static inline bool
limit_waits(const GroupLimit *limit)
{
	AssertLimitLocked(limit);
	return limit->parked > 0 || limit->dropped;
}

/* parked_tree.c */
typedef struct ParkedEntry
{
	LaneEntry	entry;
	Lane	   *lane;
	uint32		group;			/* of a turn: its group */
	float4		charge;			/* of the task, by its group's weight */
	uint32		left;			/* or next in the free list */
	uint32		right;
} ParkedEntry;

#define NO_PARKED		PG_UINT32_MAX

extern const ParkedEntry *parked_tree_first(const GroupLimit *limit);
extern bool parked_tree_precedes(const GroupLimit *limit, const FairqAddress *address);
extern int	parked_tree_before(const GroupLimit *limit, const FairqAddress *address,
							   int max);
extern bool parked_tree_has(const GroupLimit *limit, const FairqAddress *address);
extern bool parked_tree_add(GroupLimit *limit, Lane *lane, const LaneEntry *entry,
							uint32 group, double charge);
extern void parked_tree_remove_first(GroupLimit *limit);
extern bool parked_tree_remove(GroupLimit *limit, const FairqAddress *address);

/* parking.c */
extern FAIRQ_PRIVATE int parking_go_on(uint32 number);
extern FAIRQ_PRIVATE void parking_taken(GroupLimit *limit, const FairqAddress *address);

#endif							/* FAIRQ_LIMIT_PRIVATE_H */
