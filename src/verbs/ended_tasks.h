/*-------------------------------------------------------------------------
 *
 * ended_tasks.h
 *	  The ends of tasks, and of leases whose tasks were not done.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ENDED_TASKS_H
#define FAIRQ_ENDED_TASKS_H

#include "shmem/leases.h"
#include "storage/archive.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"

/* Tasks of a queue that a statement ends; zero: none yet. */
typedef struct EndedTasks
{
	bool		many;			/* a pass looks behind them: the caller's to
								 * set */
	bool		look;			/* there is something to look behind */
	int			acked;			/* to be counted, */
	int			addressed;		/* and those whose rows had addresses */
	ArchiveBatch archive;
} EndedTasks;

/* ended_tasks.c: what the end of a task means to others */
extern void ended_tasks_add(EndedTasks *ended, RowReader *row, ArchiveOutcome outcome,
							TimestampTz claimed_at);
extern void ended_tasks_died(RowReader *row);
extern void ended_tasks_write(EndedTasks *ended, Relation rel, QueueInfo *info);

/* expire.c: ending tasks whose expires_at has passed */
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

/* put_back.c: what becomes of a task that was not done when its lease ended */
extern void put_back_count_name(RowReader *row, NameCounter counter);
extern int64 put_back_backoff(const QueueInfo *info, int times);
extern bool put_back_dead(RowReader *row, bool wait);
extern bool put_back_later(RowReader *row, int64 delay, bool wait);
extern bool put_back_again(Placement *placement, RowReader *row, int64 delay, bool wait);
extern void put_back_at_place(RowReader *row, int64 task, int settled);

/* task_history.c: how the last runs of a task have ended */
extern void task_history_add(RowReader *row, const LeaseInfo *lease, bool lost,
							 const text *error);
extern const char *task_history_worker(const LeaseInfo *lease);

#endif							/* FAIRQ_ENDED_TASKS_H */
