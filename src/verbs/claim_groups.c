/*-------------------------------------------------------------------------
 *
 * claim_groups.c
 *	  Claims of tasks of some groups only.
 *
 * They walk through the lanes, in the order of the addresses across them, and
 * pass over the tasks of other groups.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "shmem/queue_state.h"
#include "shmem/turns.h"
#include "storage/queue_index.h"
#include "storage/row_reader.h"
#include "verbs/claim_private.h"
#include "xact/pending.h"

static bool
group_wanted(Claim *claim)
{
	const ClaimRequest *request = claim->request;
	text	   *key = DatumGetTextPP(row_value(&claim->row, COLUMN_GROUP_KEY));

	for (int i = 0; i < request->group_count; i++)
	{
		if (row_reader_same_text(key, request->groups[i]))
			return true;
	}
	return false;
}

/*
 * Claim the task at a place if it is of the groups wanted.  *finish is raised
 * to its finish tag, or *left lowered to its start tag if it is passed over.
 */
static void
claim_wanted(Claim *claim, Lane *lane, const LaneEntry *place,
			 VirtualTime *finish, VirtualTime *left)
{
	RowReader  *row = &claim->row;
	LaneEntry	entry = *place;
	RowStatus	status = row_reader_entry(row, &entry);
	VirtualTime start = {place->block, place->fraction};
	VirtualTime task_start;
	VirtualTime task_finish;
	LeaseInfo	lease;
	bool		at_limit;

	/* The key is looked at without the page's lock: it may be toasted. */
	if (status == ROW_LIVE)
		row_reader_unlock(row);
	if (!claim_can_lease(claim, lane, status, &entry) ||
		!row_reader_is_at(row, lane, &entry))
		return;
	if (!group_wanted(claim))
	{
		if (virtual_time_compare(start, *left) < 0 &&
			!leases_find(claim->queue, DatumGetInt64(row_value(row, COLUMN_ID)), &lease))
			*left = start;
		return;
	}
	if (!claim_can_lease(claim, lane, row_reader_entry(row, &entry), &entry))
		return;
	if (!row_reader_is_at(row, lane, &entry))
	{
		row_reader_unlock(row);
		return;
	}
	if (unlikely(claim_asks(claim)) && !claim_admits(claim))
	{
		row_reader_unlock(row);
		if (virtual_time_compare(start, *left) < 0)
			*left = start;
		return;
	}
	if (claim_grant(claim, lane, &entry, &task_start, &task_finish, &at_limit))
	{
		*finish = virtual_time_max(*finish, task_finish);
		claim->full |= claim->alone;
		return;
	}
	if (unlikely(claim->alone))
		claim_alone_not(claim);
	if (at_limit)
	{
		if (virtual_time_compare(start, *left) < 0)
			*left = start;
		claim_park(claim, lane, &entry, false);
	}
}

/* The line of a group that is asked for, as it was seen last. */
typedef struct WantedLine
{
	GroupKey	key;
	uint32		group;			/* its entry, if that is still its own */
	LaneView	view;
	Lane	   *lane;
	LaneEntry	first;			/* unless there is none */
} WantedLine;

/*
 * The lines in a class of the groups that are asked for.  Returns how many.
 */
static int
find_lines(Claim *claim, int class, WantedLine *lines)
{
	int			n = 0;

	for (int i = 0; i < claim->request->group_count; i++)
	{
		GroupName	name = queue_catalog_whole_group(claim->info, claim->request->groups[i]);
		GroupTag	tag;

		if (groups_look(claim->info->state, class, &name, &tag))
		{
			lines[n].key = (GroupKey) {.low = name.low, .high = name.high,
				.queue = claim->queue, .class = class};
			lines[n++].group = tag.group;
		}
	}
	return n;
}

/*
 * The line that comes first, read as far as that takes; NULL: all are empty.
 */
static WantedLine *
first_line(Claim *claim, WantedLine *lines, int n)
{
	WantedLine *first = NULL;

	for (WantedLine *line = lines; line < lines + n; line++)
	{
		int			taken;

		line->view = turns_look(&line->key, line->group, &line->lane, &line->first);
		while (line->view == LANE_UNREAD || line->view == LANE_REFILLING)
		{
			CHECK_FOR_INTERRUPTS();
			if (!claim_read_line(&claim->row, line->lane, line->group, NULL, NULL, &taken) &&
				!turns_read_wait(line->lane, line->group))
				break;
			line->view = turns_look(&line->key, line->group, &line->lane, &line->first);
			/* No room to keep what was read. */
			if (taken < 0)
				break;
		}
		if (line->view == LANE_READY &&
			(first == NULL || lanes_compare(&line->first, &first->first) < 0))
			first = line;
	}
	return first;
}

/*
 * Claim tasks of some groups of a class: walk through the lanes, in the order
 * of the addresses across them, and pass over the others.  Lanes are left as
 * they are: whoever comes to an entry of a task that we leased passes over it.
 * Returns false if there are no more leases to be had.
 */
bool
claim_of_groups(Claim *claim, int class)
{
	QueueInfo  *info = claim->info;
	int			max = claim->request->max_tasks;
	QueueOrder *order = &info->state->orders[class];
	VirtualTime finish = {PG_INT64_MIN, 0};
	VirtualTime left = {PG_INT64_MAX, 0};	/* the first that we pass over */
	WantedLine *lines = palloc(claim->request->group_count * sizeof(WantedLine));
	int			n_lines = find_lines(claim, class, lines);
	LaneWalk   *sources = palloc(FAIRQ_MAX_BUCKETS * sizeof(LaneWalk));
	Lane	   *lane;
	int			n_sources = 0;

	for (int b = 0; b < FAIRQ_MAX_BUCKETS && (lane = lanes_next(&order->lanes, &b)) != NULL; b++)
	{
		if (claim_wants_bucket(claim, lane))
			queue_index_walk_window(&sources[n_sources++], lane, LANE_WINDOW / 8);
		else
			left.whole = PG_INT64_MIN;
	}

	while (claim->got < max && !claim->full)
	{
		LaneWalk   *best = NULL;
		WantedLine *line = first_line(claim, lines, n_lines);
		const LaneEntry *entry;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n_sources; i++)
		{
			LaneWalk   *source = &sources[i];

			if (queue_index_has_entry(claim->rel, info, source) &&
				(best == NULL ||
				 lanes_compare(&source->read.entries[source->at],
							   &best->read.entries[best->at]) < 0))
				best = source;
		}
		entry = best == NULL ? NULL : &best->read.entries[best->at];
		if (entry == NULL && line == NULL)
			break;
		if (leases_reserve(1) == 0)
		{
			if (claim->got == 0)
				claim_no_leases(claim);
			return false;
		}
		if (line != NULL && (entry == NULL || lanes_compare(&line->first, entry) < 0))
		{
			claim_turn_of(claim, &line->key, line->group, &finish);
			continue;
		}
		pending_reserve(8);
		claim_wanted(claim, best->lane, &best->read.entries[best->at++], &finish, &left);
	}

	/* Virtual time goes on to the first that is left, or was passed over. */
	for (int i = 0; i < n_sources; i++)
	{
		LaneWalk   *source = &sources[i];

		if (source->at < source->n || source->read.more)
		{
			const LaneEntry *entry = source->at < source->n ?
				&source->read.entries[source->at] : &source->read.next;
			VirtualTime next = {entry->block, entry->fraction};

			if (virtual_time_compare(next, left) < 0)
				left = next;
		}
		pfree(source->read.entries);
	}
	pfree(sources);
	pfree(lines);
	claim_tell_served(claim, order);
	if (info->policy == QUEUE_FAIR && finish.whole != PG_INT64_MIN)
		queue_order_advance(order, left.whole == PG_INT64_MAX ? finish : left, finish);
	return true;
}
