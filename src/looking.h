/*-------------------------------------------------------------------------
 *
 * looking.h
 *	  What those who look at queues share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LOOKING_H
#define FAIRQ_LOOKING_H

#include "nodes/pg_list.h"

extern List *looking_visible_queues(void);

#endif							/* FAIRQ_LOOKING_H */
