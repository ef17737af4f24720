/*-------------------------------------------------------------------------
 *
 * handover.h
 *	  What a transaction owes to others when it ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_HANDOVER_H
#define FAIRQ_HANDOVER_H

#include "shmem/groups.h"
#include "shmem/lanes.h"
#include "shmem/leases.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"

extern void handover_register(void);
extern void handover_reserve(int n);

extern int	handover_placed(Lane *lane, const FairqAddress *address,
							const GroupTag *tag);
extern void handover_group(int placed, const char *key, int keylen);
extern void handover_written(int placed, const ItemPointerData *tid);
extern void handover_not_written(int placed);
extern void handover_offer_at_commit(Lane *lane, const FairqAddress *address,
									 const ItemPointerData *tid);
extern void handover_offer_at_abort(Lane *lane, const FairqAddress *address,
									const ItemPointerData *tid);
extern void handover_lower_at_abort(Lane *lane, const FairqAddress *address);
extern void handover_passed(Lane *lane, const LaneEntry *place, bool written);
extern void handover_claimed(const LeaseInfo *lease, Lane *lane,
							 const LaneEntry *place);
extern int	handover_settled(const LeaseInfo *lease);
extern void handover_released(int settled, Lane *lane,
							  const FairqAddress *address, int64 task);
extern void handover_not_settled(int settled);
extern void handover_read_again(Oid relation);
extern void handover_cancelled(const FairqAddress *address, const GroupTag *tag);
extern void handover_purged(QueueState *queue, const GroupTag *tag);
extern void handover_group_set(QueueState *queue, uint32 limit,
							   const LimitSettings *settings);
extern void handover_defaults_set(QueueState *queue,
								  const LimitSettings *settings);
extern bool handover_room(QueueState *queue, int n, int64 max);
extern void handover_removed(QueueState *queue, uint32 group, int64 task,
							 const FairqAddress *address);
extern void handover_ready_removed(QueueState *queue, uint32 group, int n);
extern void handover_row_written(QueueState *queue, uint32 group, int64 task,
								 bool of_overflow);
extern void handover_not_counted(QueueState *queue);
extern int	handover_mark(void);
extern void handover_not_moved(int mark);
extern void handover_overflow_removed(QueueState *queue, uint32 group, int n);
extern void handover_overflowed(QueueState *queue, uint32 group, int64 id);
extern void handover_not_overflowed(QueueState *queue, uint32 group);
extern int	handover_feeding(QueueState *queue, uint32 group, int64 lost);
extern bool handover_feeds(void);
extern void handover_fed_now(int feeding, int moved, int64 next, int64 held, int64 lost);
extern void handover_fed(int feeding, int moved, int written, int64 next, int64 held,
						 int64 lost);
extern void handover_count(QueueState *queue, QueueCounter counter, int64 n);
extern void handover_scheduled(QueueState *queue, TimestampTz due);
extern void handover_due_added(DueCursor *cursor, TimestampTz due,
							   TimestampTz wake_at);
extern void handover_due_done(DueCursor *cursor, const DuePlace *place);
extern void handover_due_read(DueCursor *cursor, const DuePlace *frontier);
extern void handover_due_held(DueCursor *cursor, const DuePlace *place);
extern void handover_task_held(QueueState *queue, int64 task, int64 before);
extern void handover_look(QueueState *queue);
extern void handover_looked(QueueState *queue, int64 task, bool all);
extern void handover_session_closed(const SessionRef *session);
extern void handover_settings(Oid relation);
extern void handover_probe(void);
extern void handover_maintained(Oid relation);
extern void handover_release_queue(Oid database, Oid relation);

#endif							/* FAIRQ_HANDOVER_H */
