/*-------------------------------------------------------------------------
 *
 * session_check.c
 *	  Whether sessions are as they should be, in builds with assertions.
 *
 * A session that is over is a member until the next one asks for its buckets,
 * or until its slot is given back.  So what is looked at is the token.
 *
 * Locking: as in session_table.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/session_table.h"

#ifdef USE_ASSERT_CHECKING

/* So many members are looked at, from one more on each time. */
#define CHECK_MEMBERS	32

/* Of this process. */
static uint32 looks = 0;

/*
 * The members are sessions, each once in a queue.  The table is locked, and
 * unlocked then.
 */
void
session_check_members(void)
{
	AssertLocked(&session_table->lock);
	Assert(session_table->high_water >= 0 && session_table->high_water <= settings_max_sessions);
	Assert(session_table->member_count >= 0 && session_table->member_count <= MAX_MEMBERS);
	for (int i = 0; i < Min(session_table->member_count, CHECK_MEMBERS); i++)
	{
		const Member *member = &session_table->members[(looks + i) % session_table->member_count];

		Assert(member->session > 0 && member->session <= (uint32) session_table->high_water);
		Assert(member->queue < (uint32) settings_max_queues);
		Assert(session_table->sessions[member->session - 1].token != 0);
		for (const Member *other = session_table->members; other < member; other++)
			Assert(other->session != member->session || other->queue != member->queue);
	}
	looks++;
}

#endif
