/*-------------------------------------------------------------------------
 *
 * schedule_table.h
 *	  The schedules of a database: the rows of fairq.schedule.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SCHEDULE_TABLE_H
#define FAIRQ_SCHEDULE_TABLE_H

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* The columns of a row: first the arguments of fairq.schedule(), in order. */
typedef enum ScheduleColumn
{
	SCHEDULE_NAME, SCHEDULE_QUEUE, SCHEDULE_CRON, SCHEDULE_PAYLOAD, SCHEDULE_GROUP_KEY,
	SCHEDULE_PRIORITY, SCHEDULE_COST, SCHEDULE_HEADERS, SCHEDULE_TIMEZONE, SCHEDULE_CATCH_UP,
	SCHEDULE_OVERLAP, SCHEDULE_ACTIVE, SCHEDULE_TASK_NAME, SCHEDULE_SUBGROUP_KEY,
	SCHEDULE_ANCHOR,			/* of @every */
	SCHEDULE_OWNER,				/* its name, as of the last tick */
	SCHEDULE_OWNER_OID,
	SCHEDULE_NEXT_RUN,			/* null: never */
	SCHEDULE_LAST_RUN, SCHEDULE_LAST_TASK,
	SCHEDULE_SKIPPED, SCHEDULE_FAILURES, SCHEDULE_LAST_ERROR, SCHEDULE_LAST_ERROR_AT,
	SCHEDULE_COLUMNS
} ScheduleColumn;

#define SCHEDULE_ARGUMENTS	SCHEDULE_ANCHOR

/* A row.  Its values are as they are stored, or given: perhaps toasted. */
typedef struct Schedule
{
	Datum		values[SCHEDULE_COLUMNS];
	char		nulls[SCHEDULE_COLUMNS];	/* 'n' or ' ', as for SPI */
	Oid			owner;			/* InvalidOid: no role now */
	bool		found;			/* it is in the table */
} Schedule;

static inline bool
schedule_has(const Schedule *schedule, ScheduleColumn column)
{
	return schedule->nulls[column] == ' ';
}

static inline void
schedule_set(Schedule *schedule, ScheduleColumn column, Datum value)
{
	schedule->values[column] = value;
	schedule->nulls[column] = ' ';
}

/* An infinite one is null. */
static inline void
schedule_set_time(Schedule *schedule, ScheduleColumn column, TimestampTz time)
{
	schedule->values[column] = TimestampTzGetDatum(time);
	schedule->nulls[column] = TIMESTAMP_NOT_FINITE(time) ? 'n' : ' ';
}

static inline TimestampTz
schedule_time(const Schedule *schedule, ScheduleColumn column, TimestampTz null)
{
	return schedule_has(schedule, column) ?
		DatumGetTimestampTz(schedule->values[column]) : null;
}

/* NULL: it is null. */
static inline text *
schedule_text(const Schedule *schedule, ScheduleColumn column)
{
	return schedule_has(schedule, column) ? DatumGetTextPP(schedule->values[column]) : NULL;
}

static inline char *
schedule_string(const Schedule *schedule, ScheduleColumn column)
{
	return TextDatumGetCString(schedule->values[column]);
}

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
extern void schedule_table_ticked(Schedule *schedule);
extern bool schedule_table_find(text *name, bool lock, Schedule *schedule);
extern bool schedule_table_put(Schedule *schedule);
extern void schedule_table_remove(text *name);
extern int64 schedule_table_count(void);

#endif							/* FAIRQ_SCHEDULE_TABLE_H */
