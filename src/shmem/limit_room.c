/*-------------------------------------------------------------------------
 *
 * limit_room.c
 *	  Room for tasks that are taken, and groups that wait for it.
 *
 * Who takes a task out of the line of a group with a limit (turns.c) has room
 * reserved for it, so that no more are in claimers' hands than may be leased.
 * If there is none the line is blocked, and the limit remembers that.  Both is
 * under the limit's lock, under which a lease that ends is counted off: so
 * there is either room, or whoever makes some finds the group (T3 in turns.c).
 *
 * Groups that wait for a token only stand in a heap of their queue, by when
 * they have one.  So nothing looks through all groups.
 *
 * Locking: the lock of a group's limit, see limit_table.c, which is taken after
 * that of a lane.  The lock of a queue's tokens is taken after that.
 *
 * Races: 7 (the last lease ends before the line is blocked) and 29 (a subgroup
 * has room, and its group has not), both in limit_room_reserve.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "shmem/limit_private.h"
#include "shmem/limit_table.h"

/*
 * The first whose token comes is the largest, for a heap has that first. Called
 * under the lock of the queue's tokens, which guards what is compared.
 */
static int
compare_tokens(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const GroupLimit *x = pairingheap_const_container(GroupLimit, node, a);
	const GroupLimit *y = pairingheap_const_container(GroupLimit, node, b);

	return (x->token_due < y->token_due) - (x->token_due > y->token_due);
}

/*
 * A group waits for a token until then; DT_NOEND: it does not.  On return
 * next_token says when the first of the queue has one.  Takes the lock of the
 * queue's tokens.
 */
static void
wait_for_token(GroupLimit *limit, TimestampTz token)
{
	QueueLimits *limits = limit->of_queue;
	pairingheap heap = {.ph_compare = compare_tokens};

	AssertLimitLockedExclusively(limit);
	if (!limit->awaits_token && token == DT_NOEND)
		return;
	LWLockAcquire(&limits->token_lock, LW_EXCLUSIVE);
	/* Only the root is shared: the rest of a heap is the code that compares. */
	heap.ph_root = limits->tokens;
	if (limit->awaits_token)
		pairingheap_remove(&heap, &limit->node);
	limit->awaits_token = (token != DT_NOEND);
	limit->token_due = token;
	if (limit->awaits_token)
		pairingheap_add(&heap, &limit->node);
	limits->tokens = heap.ph_root;
	pg_atomic_write_u64(&limits->next_token, limits->tokens == NULL ? (uint64) DT_NOEND :
						(uint64) pairingheap_container(GroupLimit, node,
													   limits->tokens)->token_due);
	LWLockRelease(&limits->token_lock);
}

/*
 * The line of a class is blocked until there is room; or a token, by then. The
 * caller sets blocked in the line itself, before it unlocks the home lane (T3).
 * The entry's lock is held exclusively; a line that is blocked already stays
 * so, by the number that its group has now.
 */
static void
block(GroupLimit *limit, int class, uint32 group, TimestampTz token)
{
	Assert(class < FAIRQ_CLASSES && group != NOT_BLOCKED);
	if (limit->blocked[class] == NOT_BLOCKED)
		limit->blocked_count++;
	limit->blocked[class] = group;
	wait_for_token(limit, token);
}

/*
 * How many tasks more may be taken, beside those that are in hand; if a token
 * is awaited, by then.  The entry's lock is held exclusively.
 */
static int
room_of(GroupLimit *limit, TimestampTz *token)
{
	bool		limited;

	return limit_table_room(limit, limit->reserved, token, &limited);
}

/*
 * Is a limit still that of a group?  A claim reads its number without the lock
 * of the group's partition: the entry may be another group's by now, or free.
 * Classes have one limit, so theirs are not compared.
 */
static bool
is_of(const GroupLimit *limit, const GroupKey *key)
{
	AssertLimitLocked(limit);
	return limit->in_use && limit->low == key->low && limit->high == key->high &&
		limit->queue == key->queue;
}

/*
 * Keep room for a task of a group that is taken out of its line, where it was
 * parked or not: at each level, or at none.  Returns false if a level has none.
 * A level waits then; or after this task, if it has more and the room is used
 * up.
 *
 * A number is set to NO_LIMIT if it is not the limit of that level any more:
 * then nothing is kept, and the grant finds whether there is another.
 *
 * The numbers that are left are the caller's: each has room kept, which the
 * lease takes (group_limits_take) or the claim gives up
 * (group_limits_give_up), once.  Were the line blocked by the caller, after a
 * look at the limit, the last lease could end between the two, and no other
 * would let the line go on (race 7).  Never fails.
 */
bool
limit_room_reserve(uint32 limits[LIMIT_LEVELS], const RoomLevel levels[LIMIT_LEVELS],
				   bool parked)
{
	uint32		locked[LIMIT_LEVELS];
	int			room[LIMIT_LEVELS];
	TimestampTz token;
	bool		any = true;

	memcpy(locked, limits, sizeof(locked));
	limit_lock_levels(locked);
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		if (limits[i] != NO_LIMIT && !is_of(&limit_entries[limits[i]], levels[i].key))
			limits[i] = NO_LIMIT;
		if (limits[i] == NO_LIMIT)
			continue;
		room[i] = room_of(&limit_entries[limits[i]], &token);
		any &= (room[i] > 0);
	}
	for (int i = 0; i < LIMIT_LEVELS; i++)
	{
		GroupLimit *limit = &limit_entries[limits[i]];

		if (limits[i] == NO_LIMIT)
			continue;
		if (any)
		{
			limit_room_keep(limit);
			limit->parked -= parked;
		}
		if (any ? room[i] <= 1 && levels[i].more : room[i] <= 0)
		{
			/* Now that the room is kept: when the next token comes. */
			(void) room_of(limit, &token);
			block(limit, levels[i].key->class, levels[i].group, token);
			*levels[i].blocked = true;
		}
	}
	limit_unlock_levels(locked);
	return any;
}

/*
 * A group has tasks, and is not blocked: see whether it has to wait.  If there
 * is no room its line is blocked, as in limit_room_reserve; none is kept.
 * NO_LIMIT: it never has to.  Never fails.
 */
void
limit_room_block(uint32 number, const RoomLevel *level)
{
	GroupLimit *limit;
	TimestampTz token;

	if (number == NO_LIMIT)
		return;
	limit = limit_lock(number, LW_EXCLUSIVE);
	if (is_of(limit, level->key) && room_of(limit, &token) <= 0)
	{
		block(limit, level->key->class, level->group, token);
		*level->blocked = true;
	}
	limit_unlock(number);
}

/*
 * Room is kept for a task.  Its token is taken, also of a limit without a rate:
 * there may be one before the token is given back.  The entry's lock is held
 * exclusively, and the caller has found room, or had some kept that it has just
 * given up.
 */
void
limit_room_keep(GroupLimit *limit)
{
	AssertLimitLockedExclusively(limit);
	limit->reserved++;
	limit->tokens -= 1;
}

/*
 * Room that was kept is not needed any more, or taken now.  Its token is there
 * again.  The caller lets the group go on, or takes the room.
 */
void
limit_room_give_up(GroupLimit *limit)
{
	AssertLimitLockedExclusively(limit);
	Assert(limit->in_use && limit->reserved > 0);
	limit->reserved--;
	limit->tokens += 1;
}

/*
 * If a group may have a task its lines are blocked no more: the caller has
 * those of groups go on, when it has unlocked the limit.  Else they wait on,
 * until a token comes if it is that.  Returns how many; groups has room for
 * FAIRQ_CLASSES.
 *
 * All of its classes go on, though there may be room for one task: those that
 * find none are blocked again when they are taken from.  A lane's lock is not
 * taken here, since it comes before that of the limit: between the two a line
 * says that it is blocked, and its limit does not.
 */
int
limit_room_unblock(GroupLimit *limit, uint32 *groups)
{
	TimestampTz token;
	int			n = 0;

	AssertLimitLockedExclusively(limit);
	if (likely(limit->blocked_count == 0))
		return 0;
	if (room_of(limit, &token) <= 0)
	{
		wait_for_token(limit, token);
		return 0;
	}
	for (int class = 0; class < FAIRQ_CLASSES; class++)
	{
		if (limit->blocked[class] == NOT_BLOCKED)
			continue;
		groups[n++] = limit->blocked[class];
		limit->blocked[class] = NOT_BLOCKED;
	}
	limit->blocked_count = 0;
	limit->crowded_until = 0;
	wait_for_token(limit, DT_NOEND);
	return n;
}

/*
 * A group that waits for a token and has it by now; NO_LIMIT: there is none.
 * Without its lock, so that others may have had it go on: the caller looks.
 * Called by each claim, and so without a lock while no token is due; then it
 * takes that of the queue's tokens in shared mode.
 */
uint32
limit_room_first_due(QueueLimits *limits, TimestampTz now)
{
	uint32		result = NO_LIMIT;

	if (likely(limit_room_next_token(limits) > now))
		return NO_LIMIT;
	LWLockAcquire(&limits->token_lock, LW_SHARED);
	if (limits->tokens != NULL)
		result = limit_number(pairingheap_container(GroupLimit, node, limits->tokens));
	LWLockRelease(&limits->token_lock);
	return result;
}

/*
 * A queue is gone: its groups wait for nothing.  Called under the directory
 * lock when its leases have ended, and before its groups and its limits are
 * forgotten (queue_lifecycle_release): no line need be told.  Takes the lock of
 * each of its limits.  Never fails.
 */
void
limit_room_forget_queue(int queue)
{
	for (uint32 i = 0; i < limit_table_high_water(); i++)
	{
		GroupLimit *limit = &limit_entries[i];

		if (!limit->in_use || limit->queue != queue)
			continue;
		(void) limit_lock(i, LW_EXCLUSIVE);
		if (limit->in_use && limit->queue == queue)
		{
			for (int class = 0; class < FAIRQ_CLASSES; class++)
				limit->blocked[class] = NOT_BLOCKED;
			limit->blocked_count = 0;
			limit->reserved = 0;
			wait_for_token(limit, DT_NOEND);
		}
		limit_unlock(i);
	}
}
