/*-------------------------------------------------------------------------
 *
 * pending.h
 *	  What a transaction owes to others when it ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_H
#define FAIRQ_PENDING_H

#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"

extern void pending_register(void);
extern void pending_reserve(int n);

extern int	pending_placed(Lane *lane, const FairqAddress *address,
						   const GroupTag *tag);
extern void pending_placed_group(int placed, const char *key, int keylen);
extern void pending_placed_at(int placed, const ItemPointerData *tid);
extern void pending_not_placed(int placed);
extern void pending_offer_at_commit(Lane *lane, const FairqAddress *address,
									const ItemPointerData *tid);
extern void pending_offer_at_abort(Lane *lane, const FairqAddress *address,
								   const ItemPointerData *tid);
extern void pending_lower_at_abort(Lane *lane, const FairqAddress *address);
extern void pending_passed(Lane *lane, const LaneEntry *place, bool written);
extern void pending_claimed(const LeaseInfo *lease, Lane *lane,
							const LaneEntry *place);
extern int	pending_settled(const LeaseInfo *lease);
extern void pending_released(int settled, Lane *lane,
							 const FairqAddress *address, int64 task);
extern void pending_not_settled(int settled);
extern void pending_read_again(Oid relation);
extern void pending_cancelled(const FairqAddress *address, const GroupTag *tag);
extern void pending_purged(QueueState *queue, const GroupTag *tag);
extern void pending_group_set(QueueState *queue, uint32 limit,
							  const LimitSettings *settings);
extern void pending_defaults_set(QueueState *queue,
								 const LimitSettings *settings);
extern bool pending_room(QueueState *queue, int n, int64 max);
extern void pending_removed(QueueState *queue, uint32 group, int64 task,
							const FairqAddress *address);
extern void pending_ready_removed(QueueState *queue, uint32 group, int n);
extern void pending_row_written(QueueState *queue, uint32 group, int64 task,
								bool of_overflow);
extern void pending_not_counted(QueueState *queue);
extern int	pending_mark(void);
extern void pending_not_moved(int mark);
extern void pending_overflow_removed(QueueState *queue, uint32 group, int n);
extern void pending_overflowed(QueueState *queue, uint32 group, int64 id);
extern void pending_not_overflowed(QueueState *queue, uint32 group);
extern int	pending_feeding(QueueState *queue, uint32 group, int64 lost);
extern bool pending_feeds(void);
extern void pending_fed_now(int feeding, int moved, int64 next, int64 held, int64 lost);
extern void pending_fed(int feeding, int moved, int written, int64 next, int64 held,
						int64 lost);
extern void pending_scheduled(QueueState *queue, TimestampTz due);
extern void pending_due_added(DueCursor *cursor, TimestampTz due,
							  TimestampTz wake_at);
extern void pending_due_done(DueCursor *cursor, const DuePlace *place);
extern void pending_due_read(DueCursor *cursor, const DuePlace *frontier);
extern void pending_due_held(DueCursor *cursor, const DuePlace *place);
extern void pending_task_held(QueueState *queue, int64 task, int64 before);
extern void pending_look(QueueState *queue);
extern void pending_looked(QueueState *queue, int64 task, bool all);
extern void pending_session_closed(const SessionRef *session);
extern void pending_settings(Oid relation);
extern void pending_probe(void);
extern void pending_maintained(Oid relation);
extern void pending_release_queue(Oid database, Oid relation);

#endif							/* FAIRQ_PENDING_H */
