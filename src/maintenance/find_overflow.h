/*-------------------------------------------------------------------------
 *
 * find_overflow.h
 *	  Tasks of the overflow that may be in no line.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_FIND_OVERFLOW_H
#define FAIRQ_FIND_OVERFLOW_H

#include "verbs/pass.h"

extern void find_overflow(Pass *pass);

#endif							/* FAIRQ_FIND_OVERFLOW_H */
