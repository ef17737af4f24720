/*-------------------------------------------------------------------------
 *
 * queue_order.h
 *	  One fair order: virtual time, and which tasks of the overflow are lost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_ORDER_H
#define FAIRQ_QUEUE_ORDER_H

#include "shmem/queue_state.h"

/*
 * None of these may fail.  Each takes the order's spinlock, for some
 * instructions, so the caller may hold any lock of ours but that.
 */
extern void queue_order_overflow_lost(QueueState *queue, int class, int64 task);
extern int64 queue_order_lost(const QueueOrder *order);
extern int64 queue_order_take_lost(QueueOrder *order);
extern void queue_order_found_lost(QueueOrder *order);
extern void queue_order_advance(QueueOrder *order, VirtualTime start,
								VirtualTime finish);
extern void queue_order_served(QueueOrder *order, double cost);
extern void queue_order_idle(QueueOrder *order);
extern void queue_order_start_at(QueueOrder *order, VirtualTime first);
extern bool queue_order_raise(QueueOrder *order, VirtualTime floor);
extern VirtualTime queue_order_virtual_time(QueueOrder *order);

#endif							/* FAIRQ_QUEUE_ORDER_H */
