/*-------------------------------------------------------------------------
 *
 * claim_feed.c
 *	  Claims that feed groups whose places they have used up.
 *
 * The worker moves tasks out of the overflow before a group runs out of
 * places (replenish_overflow.c).  But claims may be faster.  Then a group
 * with work would have nothing in the lanes, and the others would be served
 * instead of it: weights would hold no more.  So a claim that leases the last
 * task of a group that has a place, and finds that there may be more in the
 * overflow, moves some itself: what it has in hand that begins at the group's
 * F, or later, goes back to the lanes, the group is fed, and what is first
 * then is claimed.  Before anything else is claimed, and before the claim
 * returns: so a group is not dry for longer than that takes.
 *
 * Other claimers wait meanwhile, for what they would take may come after what
 * that group is given.  That is for the reading of at most REFILL_DRY rows;
 * and of a pass of the worker, if it is at that group already.
 *
 * Without a worker claims keep groups fed, and do it when they find nothing
 * (sql_claim.c).
 *
 * If there is no room for them in the lanes, which groups without end may use
 * up, the group is left to the worker, who writes their rows, which a claim
 * does not (invariant I4).  It is passed over then, and has that made up for:
 * as long as it has overflow it begins at F again, not at virtual time
 * (groups_tag).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "shmem/replenish.h"
#include "shmem/worker_slots.h"
#include "verbs/claim_private.h"
#include "verbs/replenish_overflow.h"
#include "xact/pending.h"
#include "xact/pending_groups.h"

/*
 * A task was leased, after which its group may have no places left.
 */
void
claim_note_dry(Claim *claim, const GroupLease *group)
{
	StarvedGroup starved;
	GroupDry	dry;

	Assert(group->group != FAIRQ_NO_GROUP);
	Assert(claim->dry_count >= 0 && claim->dry_count <= MAX_DRY_GROUPS);
	if (claim->dry_count == MAX_DRY_GROUPS || !worker_slots_alive(MyDatabaseId))
		return;
	if (claim->dry == NULL)
		claim->dry = palloc(MAX_DRY_GROUPS * sizeof(DryGroup));
	/* What comes after group_overflow_is_dry must not fail. */
	pending_reserve(1);
	dry = group_overflow_is_dry(claim->info->state, group->group, &starved);
	if (dry == GROUP_NOT_DRY)
		return;
	if (!claim->dry_met || virtual_time_compare(group->finish, claim->dry_finish) < 0)
		claim->dry_finish = group->finish;
	claim->dry_met = true;
	if (dry == GROUP_IS_DRY)
	{
		claim->dry[claim->dry_count].starved = starved;
		claim->dry[claim->dry_count++].feeding =
			pending_feeding(claim->info->state, starved.group, starved.lost);
	}
}

/*
 * Feed those groups.
 */
void
claim_feed_dry(Claim *claim)
{
	claim->dry_met = false;

	/* From the last one on, as then the list of what is owed gets no longer. */
	while (claim->dry_count > 0)
	{
		DryGroup   *dry = &claim->dry[--claim->dry_count];

		refill_dry_group(claim->rel, claim->info, &dry->starved, dry->feeding);
	}
}

/*
 * Wait until those are fed that others are feeding.  Not for ourselves: a pass
 * in this transaction says what it has fed when that commits.
 */
void
claim_wait_dry(Claim *claim)
{
	if (pending_feeds())
		return;
	leases_return_reserved();
	CHECK_FOR_INTERRUPTS();
	replenish_wait_dry(claim->info->state, claim->give_up);
	claim->now = GetCurrentTimestamp();
}
