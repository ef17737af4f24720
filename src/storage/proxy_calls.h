/*-------------------------------------------------------------------------
 *
 * proxy_calls.h
 *	  What a node refuses of what comes by a proxy.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PROXY_CALLS_H
#define FAIRQ_PROXY_CALLS_H

extern void proxy_calls_check_number(void);
extern void proxy_calls_check_new(bool waits_here);

#endif							/* FAIRQ_PROXY_CALLS_H */
