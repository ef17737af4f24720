/*-------------------------------------------------------------------------
 *
 * id_sequence.h
 *	  The sequence that a queue's ids come from, and where it has to go on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ID_SEQUENCE_H
#define FAIRQ_ID_SEQUENCE_H

#include "storage/queue_catalog.h"

extern char *id_sequence_lineage(void);
extern void id_sequence_remember(const char *queue);
extern void id_sequence_advance(QueueInfo *info, int64 next_id);
extern void id_sequence_catch_up(QueueInfo *info);

/*
 * See that no id is given out that may have been given out already.  Before
 * any is.
 */
static inline void
id_sequence_follow(QueueInfo *info)
{
	if (unlikely(info->state->recovery.ids != QUEUE_KNOWN))
		id_sequence_catch_up(info);
}

#endif							/* FAIRQ_ID_SEQUENCE_H */
