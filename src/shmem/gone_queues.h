/*-------------------------------------------------------------------------
 *
 * gone_queues.h
 *	  Queues that are gone without a call of ours.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GONE_QUEUES_H
#define FAIRQ_GONE_QUEUES_H

extern int	gone_queues_release(void);

#endif							/* FAIRQ_GONE_QUEUES_H */
