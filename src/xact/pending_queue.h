/*-------------------------------------------------------------------------
 *
 * pending_queue.h
 *	  Pending actions about queues as a whole.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PENDING_QUEUE_H
#define FAIRQ_PENDING_QUEUE_H

#include "common/index_cursor.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"

/*
 * How long after their expires_at a pass comes for tasks, in microseconds: so
 * it comes not for each, but for some at once.
 */
#define EXPIRY_USECS	INT64CONST(200000)

/* index_cursor_done, index_cursor_end or index_cursor_hold */
typedef void (*IndexCursorChange) (IndexCursor *cursor, const IndexPosition *place);

/*
 * pending_queue.c.  pending_queue_register is called once a process.  All
 * others are called in a transaction, with the queue's relation locked if they
 * take a QueueState or a cursor of it: the lock is held until the transaction
 * ends, and keeps the queue until what is noted has been carried out.  None
 * takes a lock of ours.
 *
 * Each notes an action, which fails only for want of memory, and not if room
 * was reserved.  What they say is done when the transaction has ended.
 */
extern void pending_queue_register(void);

extern void pending_queue_created(Oid relation, SubTransactionId created);
extern void pending_release_queue(Oid database, Oid relation);
extern void pending_settings(Oid relation);
extern void pending_probe(void);
extern void pending_schedules(void);
extern void pending_maintained(Oid relation);
extern bool pending_room(QueueState *queue, int n, int64 max);
extern void pending_read_again(Oid relation);
extern void pending_not_counted(QueueState *queue);
extern void pending_recount_at_abort(QueueState *queue);
extern void pending_session_closed(const SessionRef *session);

/* What becomes due, and what a pass has read of that. */
extern void pending_scheduled(QueueState *queue, TimestampTz due);
extern void pending_due_added(IndexCursor *cursor, TimestampTz due,
							  TimestampTz wake_at);
extern void pending_expiry(QueueState *queue, TimestampTz expires_at);
extern void pending_outlived_taken(QueueState *queue);
extern void pending_due_read(IndexCursorChange change, IndexCursor *cursor,
							 const IndexPosition *place);

/* Tasks that are held behind others of their unique key. */
extern void pending_task_held(QueueState *queue, int64 task, int64 before);
extern void pending_look(QueueState *queue);
extern void pending_look_from(QueueState *queue, int64 task);
extern void pending_looked(QueueState *queue, int64 task, bool all);

#endif							/* FAIRQ_PENDING_QUEUE_H */
