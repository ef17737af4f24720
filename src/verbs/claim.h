/*-------------------------------------------------------------------------
 *
 * claim.h
 *	  The verb claim.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CLAIM_H
#define FAIRQ_CLAIM_H

#include "shmem/leases.h"
#include "shmem/sessions.h"
#include "storage/queue_catalog.h"
#include "storage/row_reader.h"

/* What a claimer asks for; all values are checked. */
typedef struct ClaimRequest
{
	int			max_tasks;
	int64		lease;			/* microseconds; -1: the task's or the queue's */
	int			bucket_count;	/* -1: all */
	const int  *buckets;
	int			group_count;	/* -1: all */
	text	  **groups;
	SessionRef	session;		/* number NO_SESSION: none */
	bool		pop;			/* claim and ack at once */
	bool		beside;			/* the call has tasks of other queues: nothing
								 * that is leased alone */
} ClaimRequest;

/* Called for each task claimed, with its row and its lease. */
typedef void (*ClaimSink) (RowReader *row, const LeaseInfo *lease, void *arg);

extern int	claim_tasks(Relation rel, QueueInfo *info,
						const ClaimRequest *request,
						ClaimSink sink, void *arg);
extern void claim_at_abort(void);
extern int64 claim_lease_of(RowReader *row);
extern int	claim_max_attempts_of(RowReader *row);
extern bool claim_resolve_doubts(QueueState *state);
extern bool claim_refill(Relation rel, QueueInfo *info, Lane *lane);
extern bool claim_read_line(RowReader *row, Lane *lane, uint32 group, LaneEntry *entry,
							LaneTurn *turn, int *taken);
extern bool claim_look(Relation rel, QueueInfo *info, Lane *lane, LaneTop *top);

#endif							/* FAIRQ_CLAIM_H */
