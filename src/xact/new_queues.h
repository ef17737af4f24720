/*-------------------------------------------------------------------------
 *
 * new_queues.h
 *	  Queues whose tables were created in this transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NEW_QUEUES_H
#define FAIRQ_NEW_QUEUES_H

extern void new_queues_add(Oid relation, SubTransactionId subid);
extern void new_queues_at_subcommit(SubTransactionId subid,
									SubTransactionId parent);
extern void new_queues_at_abort(SubTransactionId subid);
extern void new_queues_check_prepare(void);
extern void new_queues_forget(void);

#endif							/* FAIRQ_NEW_QUEUES_H */
