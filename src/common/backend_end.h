/*-------------------------------------------------------------------------
 *
 * backend_end.h
 *	  Why this backend ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_BACKEND_END_H
#define FAIRQ_BACKEND_END_H

extern void backend_end_init(void);
extern bool backend_end_is_ordered(void);

#endif							/* FAIRQ_BACKEND_END_H */
