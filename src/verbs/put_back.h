/*-------------------------------------------------------------------------
 *
 * put_back.h
 *	  What becomes of a task whose lease has ended without its being done.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PUT_BACK_H
#define FAIRQ_PUT_BACK_H

#include "shmem/leases.h"
#include "storage/row_reader.h"
#include "verbs/placement.h"

/* Tasks of one queue that are put back; zero: none yet. */
typedef struct PutBack
{
	bool		placing;
	Placement	placement;
} PutBack;

extern void put_back_count_name(RowReader *row, NameCounter counter);
extern int64 put_back_backoff(const QueueInfo *info, int times);
extern bool put_back_dead(RowReader *row, bool wait);
extern bool put_back_later(RowReader *row, int64 delay, bool wait);
extern bool put_back_again(PutBack *back, RowReader *row, int64 delay, bool wait);
extern void put_back_at_place(RowReader *row, int64 task, int settled);
extern void put_back_set_due(RowReader *row, TimestampTz due);
extern void put_back_count_move(QueueInfo *info, char from, char to);

#endif							/* FAIRQ_PUT_BACK_H */
