/*-------------------------------------------------------------------------
 *
 * subtransaction.h
 *	  To try something that may fail.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SUBTRANSACTION_H
#define FAIRQ_SUBTRANSACTION_H

extern ErrorData *subtransaction_try(void (*work) (void *arg), void *arg);
extern void transaction_at_end(void (*func) (void *arg), void *arg);

#endif							/* FAIRQ_SUBTRANSACTION_H */
