/*-------------------------------------------------------------------------
 *
 * group_list.c
 *	  What is known of the groups of a queue, for views.
 *
 * Entries are not listed by queue: so all of the server's are gone through,
 * and which are the queue's is looked at without a lock first.  A view of many
 * groups is not to stop the queue, so each is copied by itself: what is listed
 * is not as of one moment.
 *
 * Locking: as in group_table.c: the creation lock in shared mode, then that of
 * one partition, then that of the group's home lane; all are released before
 * the next group.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/group_private.h"

/*
 * Has any group of a queue a turn?  The lanes are asked, one by one, without
 * their locks: so the answer is of a moment ago, and a view that is told that
 * there is none may miss one that comes just now.
 */
static bool
any_turns(QueueState *queue)
{
	for (int class = 0; class < queue->classes; class++)
	{
		Lane	   *lane;

		for (int b = 0; (lane = lanes_next(&queue->orders[class].lanes, &b)) != NULL; b++)
			if (lanes_have_turns(lane))
				return true;
	}
	return false;
}

/*
 * Copy what is known of the groups of a queue, a palloc'd array of one entry
 * for each group and class that has an entry, and for each subgroup; turns:
 * only of those that have a turn, without a look at any group if none has.
 * Returns how many.
 *
 * The caller holds no lock of ours; it may be cancelled here.  Not even the
 * queue's table need be locked: of a queue that goes meanwhile nothing more is
 * found.  Weights and dues are left to the caller.
 *
 * Of a group and a subgroup that come meanwhile the latter may be listed, and
 * the former not: callers pass it over.
 */
int
groups_list(QueueState *queue, bool turns, GroupInfo **infos)
{
	int			queue_number = queue_state_number(queue);
	uint32		high_water = group_table->free.high_water;
	int			size = 64;
	int			n = 0;

	*infos = palloc(size * sizeof(GroupInfo));
	if (turns && !any_turns(queue))
		return 0;
	for (uint32 i = 0; i < high_water; i++)
	{
		FairGroup  *group = &group_entries[i];
		GroupInfo  *info;

		/* As of a moment ago, so that most are passed over without a lock. */
		if (!((volatile FairGroup *) group)->in_use ||
			((volatile FairGroup *) group)->key.queue != queue_number ||
			(turns && (((volatile FairGroup *) group)->line.lane == 0 ||
					   !((volatile FairGroup *) group)->line.standing)))
			continue;
		/* What may fail is done before the locks are taken. */
		CHECK_FOR_INTERRUPTS();
		if (n == size)
		{
			size *= 2;
			*infos = repalloc_huge(*infos, size * sizeof(GroupInfo));
		}

		/* The entry may have become that of a group of another queue since. */
		if (group_table_lock_hint(i) == NULL)
			continue;
		if (group->key.queue != queue_number)
		{
			group_table_unlock(group);
			continue;
		}
		info = &(*infos)[n++];

		/* All that follows is of one moment, but for what is in the line. */
		info->number = i;
		info->above = group->key.above;
		info->class = group->key.class;
		info->hash[0] = group->key.low;
		info->hash[1] = group->key.high;
		info->finish = group->finish;
		info->ready = group->ready;
		info->leased = group->leased;
		info->overflow = group->overflow;
		/* Takes the home lane's lock, after the partition's. */
		info->turns = group->line.lane != 0 &&
			turn_lines_turn(group, &info->turn, &info->kept);
		info->slot = group->slot;
		info->served = group->served;
		info->served_cost = group->served_cost;
		info->known = group->since.whole != v_none.whole;
		info->since = group->since;
		info->since_cost = group->since_cost;
		info->leased_cost = group->leased_cost;
		info->run_time = group->run_time;
		info->head_time = group->head_time;
		info->limit = group->limit;
		info->keylen = group->keylen;
		memcpy(info->key, group->shown, Min(group->keylen, GROUP_KEY_SHOWN));
		info->id = group->id;
		group_table_unlock(group);
		/* Of a longer key the entry has it: shown is not all of that. */
		if (info->keylen <= GROUP_KEY_SHOWN)
			group_id(info->key, info->keylen, &info->id);
	}
	return n;
}

/*
 * Of n infos those of groups come first, and then those of subgroups.  Returns
 * how many the former are.  Both are in no order that a caller may rely on: so
 * one pass will do, in which each group changes places with the first subgroup
 * before it.
 */
int
groups_part(GroupInfo *infos, int n)
{
	int			groups = 0;

	for (int i = 0; i < n; i++)
		if (infos[i].above == FAIRQ_NO_GROUP)
		{
			GroupInfo	other = infos[groups];

			infos[groups++] = infos[i];
			infos[i] = other;
		}
	return groups;
}
