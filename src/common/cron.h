/*-------------------------------------------------------------------------
 *
 * cron.h
 *	  When a schedule is due: cron expressions, and the next time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CRON_H
#define FAIRQ_CRON_H

#include "datatype/timestamp.h"
#include "pgtime.h"

#define CRON_MAX	1000		/* bytes of an expression */

typedef enum CronFieldNumber
{
	CRON_SECOND,
	CRON_MINUTE,
	CRON_HOUR,
	CRON_DAY,
	CRON_MONTH,
	CRON_WEEKDAY
} CronFieldNumber;

#define CRON_FIELDS	(CRON_WEEKDAY + 1)

typedef struct Cron
{
	int64		every;			/* seconds from one to the next; 0: by the
								 * fields */
	TimestampTz anchor;			/* that is counted from here */
	uint64		masks[CRON_FIELDS]; /* bit n: n is one of the field's values */
	bool		any_day;		/* the field begins with a star */
	bool		any_weekday;
} Cron;

extern const char *cron_parse(const char *expression, Cron *cron, const char **hint);
extern pg_tz *cron_time_zone(const char *name);
extern TimestampTz cron_next(const Cron *cron, pg_tz *zone, TimestampTz after);
extern TimestampTz cron_last_of(const Cron *cron, pg_tz *zone, TimestampTz from,
								TimestampTz to, int max);

#endif							/* FAIRQ_CRON_H */
