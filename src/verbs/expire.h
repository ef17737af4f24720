/*-------------------------------------------------------------------------
 *
 * expire.h
 *	  Ending tasks whose expires_at has passed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_EXPIRE_H
#define FAIRQ_EXPIRE_H

#include "storage/row_reader.h"
#include "verbs/ended_tasks.h"

/* What became of a task that may have expired. */
typedef enum ExpireResult
{
	EXPIRE_NOT,					/* it is gone or has not; or whoever writes it
								 * says so */
	EXPIRE_ENDED,
	EXPIRE_LEASED,				/* it may go on; its lease says so when it
								 * ends */
	EXPIRE_IN_HANDS				/* of a transaction that may not say when it
								 * ends */
} ExpireResult;

typedef struct ExpireEntry
{
	ItemPointerData tid;		/* where its row is, or the first of its
								 * versions */
	int64		id;				/* 0: any that is there */
	ExpireResult result;
} ExpireEntry;

extern ErrorData *expire_tasks(Relation rel, QueueInfo *info, int n, ExpireEntry *entries,
							   bool wait, int *ended);
extern void expire_settled(RowReader *row, EndedTasks *ended,
						   TimestampTz claimed_at);

#endif							/* FAIRQ_EXPIRE_H */
