/*-------------------------------------------------------------------------
 *
 * schedule_table.h
 *	  The schedules of a database: the rows of fairq.schedule.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SCHEDULE_TABLE_H
#define FAIRQ_SCHEDULE_TABLE_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

/* A row. */
typedef struct Schedule
{
	text	   *name;
	text	   *queue;
	Oid			owner;			/* InvalidOid: no role now */
	char	   *owner_name;		/* as of the last tick */
	Oid			owner_oid;		/* in the row */
	char	   *cron;
	char	   *timezone;
	Datum		payload;		/* jsonb */
	text	   *group_key;
	int64		priority;
	bool		has_priority;
	double		cost;
	Datum		headers;		/* jsonb */
	bool		has_headers;
	text	   *task_name;		/* NULL: none */
	text	   *subgroup_key;	/* NULL: none */
	char	   *catch_up;
	bool		overlap;
	bool		active;
	TimestampTz anchor;			/* of @every */
	TimestampTz next_run;		/* DT_NOEND: never */
	TimestampTz last_run;		/* DT_NOBEGIN: never */
	int64		last_task;		/* 0: none */
	int64		skipped;
	int			failures;
	char	   *error;			/* of this tick; NULL: none.  Written only */
	bool		found;			/* there is a row.  Read only */
} Schedule;

/* One that is due. */
typedef struct DueSchedule
{
	text	   *name;
	char	   *queue;
} DueSchedule;

extern Oid	schedule_table_open(void);
extern Oid	schedule_table_owner(const char *name, Oid owner);
extern List *schedule_table_due(const text *queue, TimestampTz now);
extern TimestampTz schedule_table_next(TimestampTz now);
extern bool schedule_table_lock(text *name, TimestampTz now, Schedule *schedule);
extern void schedule_table_ticked(const Schedule *schedule, TimestampTz now);
extern bool schedule_table_find(text *name, bool lock, Schedule *schedule);
extern bool schedule_table_put(const Schedule *schedule);
extern void schedule_table_remove(text *name);
extern int64 schedule_table_count(void);

#endif							/* FAIRQ_SCHEDULE_TABLE_H */
