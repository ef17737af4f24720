/*-------------------------------------------------------------------------
 *
 * claim_suspects.c
 *	  Which claims may have a suspect, and what becomes of one that is passed
 *	  over.
 *
 * A suspect is leased alone (suspects.c): it is the only task of its claim and,
 * where that has a session, the only lease of the session (quarantine.c).  A
 * claim without a session answers for itself alone: one for a single task may
 * have it, and of those for more each second one.
 *
 * Whatever has nothing else to do takes a suspect, so that idle workers do not
 * wait.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/leases.h"
#include "storage/row_reader.h"
#include "verbs/claim_private.h"

/*
 * May a claim without a session, or one that pops, have a suspect first?
 */
static bool
has_turn(Claim *claim)
{
	if (claim->nothing_else || claim->request->max_tasks == 1)
		return true;

	/* Once for each claim, however many suspects it comes to. */
	if (!claim->turn_asked)
		claim->has_turn = suspects_turn(claim->info->state);
	claim->turn_asked = true;
	return claim->has_turn;
}

/*
 * May the claim have the task whose row is read and locked, as far as suspects
 * go?  If it is one, and may be had, claim->alone is set.
 */
bool
claim_admits(Claim *claim)
{
	const SessionRef *session = &claim->request->session;
	QueueState *state = claim->info->state;
	bool		has_session = (session->number != NO_SESSION);

	Assert(claim->row.locked);
	if (likely(!row_reader_is_suspect(&claim->row)))
	{
		/* It has drained for nothing: another has the suspect. */
		if (unlikely(claim->quarantine == QUARANTINE_READY))
		{
			quarantine_leave(session, claim->steady);
			claim->quarantine = QUARANTINE_OPEN;
		}
		return true;
	}
	(void) suspects_note(state, DatumGetInt64(row_value(&claim->row, COLUMN_ID)));
	if (claim->got > 0 || claim->request->beside)
		claim->alone = false;
	else if (!has_session)
		claim->alone = has_turn(claim);
	else
		claim->alone = quarantine_enter(session, state, claim->steady, claim->nothing_else);
	claim->met_suspect |= !claim->alone;
	return claim->alone;
}

/*
 * A suspect that was admitted could not be leased.
 */
void
claim_alone_not(Claim *claim)
{
	Assert(claim->alone);
	claim->alone = false;
	if (claim->request->session.number != NO_SESSION)
		quarantine_leave(&claim->request->session, claim->steady);
	claim->quarantine = QUARANTINE_OPEN;
}
