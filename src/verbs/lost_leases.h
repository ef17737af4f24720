/*-------------------------------------------------------------------------
 *
 * lost_leases.h
 *	  Leases that end without an answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LOST_LEASES_H
#define FAIRQ_LOST_LEASES_H

#include "verbs/pass.h"

extern int	lost_leases_end(Pass *pass);

#endif							/* FAIRQ_LOST_LEASES_H */
