/*-------------------------------------------------------------------------
 *
 * promote_due.h
 *	  Making scheduled tasks ready.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PROMOTE_DUE_H
#define FAIRQ_PROMOTE_DUE_H

#include "verbs/pass.h"

extern int	promote_due(Pass *pass, IndexPosition *from);

#endif							/* FAIRQ_PROMOTE_DUE_H */
