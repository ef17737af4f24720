/*-------------------------------------------------------------------------
 *
 * forget_keys.h
 *	  When keys that were remembered are forgotten.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_FORGET_KEYS_H
#define FAIRQ_FORGET_KEYS_H

#include "verbs/pass.h"

extern void forget_keys_begin(Pass *pass, IndexPosition *from);
extern int	forget_keys(Pass *pass, IndexPosition *from);

#endif							/* FAIRQ_FORGET_KEYS_H */
