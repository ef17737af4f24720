/*-------------------------------------------------------------------------
 *
 * held_pass.h
 *	  The pass that looks at held tasks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_HELD_PASS_H
#define FAIRQ_HELD_PASS_H

#include "verbs/pass.h"

extern int	held_pass(Pass *pass);

#endif							/* FAIRQ_HELD_PASS_H */
