/*-------------------------------------------------------------------------
 *
 * cron.c
 *	  When a schedule is due: cron expressions, and the next time.
 *
 * An expression is parsed into a bit mask for each field.  The fields are
 * about what a clock on a wall in the schedule's time zone shows.  Such a
 * clock is turned forward and back, so a time that it shows may never come, or
 * come twice. One definition does for all of these:
 *
 *		a local time L comes at the first moment at which the clock shows L or
 *		more.
 *
 * What is passed over comes at the moment of the change, and what is shown
 * twice comes once.  Later local times never come earlier.  So the next time
 * after a moment is that of the first local time in the fields above all that
 * the clock has shown up to then (shown_until).
 *
 * All is in whole seconds.  A search ends after 400 years, in which each date
 * of the calendar falls on each day of the week.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "port/pg_bitutils.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "common/cron.h"

/* Days to search for the next that is in the fields. */
#define SEARCH_DAYS		146097

/* The longest time between two ticks of @every. */
#define EVERY_MAX		(INT64CONST(3653) * SECS_PER_DAY)

typedef struct CronField
{
	const char *what;
	int			min;
	int			max;
	const char *names;			/* of three letters each, of min on */
} CronField;

static const CronField fields[CRON_FIELDS] = {
	{"seconds", 0, 59, ""},
	{"minutes", 0, 59, ""},
	{"hours", 0, 23, ""},
	{"days of the month", 1, 31, ""},
	{"months", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
	{"days of the week", 0, 7, "sunmontuewedthufrisat"},
};

static const struct
{
	const char *name;
	const char *fields;
}			aliases[] = {
	{"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
	{"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"}, {"@midnight", "0 0 * * *"},
	{"@hourly", "0 * * * *"},
};

static const struct
{
	const char *name;
	int			seconds;
}			units[] = {
	{"s", 1}, {"sec", 1}, {"secs", 1}, {"second", 1}, {"seconds", 1},
	{"m", 60}, {"min", 60}, {"mins", 60}, {"minute", 60}, {"minutes", 60},
	{"h", 3600}, {"hour", 3600}, {"hours", 3600},
	{"d", 86400}, {"day", 86400}, {"days", 86400},
};

/* ----------------------------------------------------------------
 * Parsing
 * ----------------------------------------------------------------
 */

static inline bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* A number of up to nine digits. */
static bool
read_number(const char **p, int *value)
{
	const char *start = *p;

	*value = 0;
	while (is_digit(**p) && *p - start < 9)
		*value = *value * 10 + *(*p)++ - '0';
	return *p > start && !is_digit(**p);
}

/* A value of a field: a number, or one of its names. */
static bool
read_value(const char **p, const CronField *field, int *value)
{
	if (is_digit(**p))
		return read_number(p, value) && *value >= field->min && *value <= field->max;
	for (int i = 0; field->names[i] != '\0'; i += 3)
	{
		if (pg_strncasecmp(*p, field->names + i, 3) == 0 && !is_letter((*p)[3]))
		{
			*p += 3;
			*value = field->min + i / 3;
			return true;
		}
	}
	return false;
}

/* One of a list: *, a, a-b, each perhaps with a step; a/n runs to the end. */
static bool
read_range(const char **p, const CronField *field, uint64 *mask)
{
	bool		weekdays = (field == &fields[CRON_WEEKDAY]);
	int			end = weekdays ? 6 : field->max;
	int			from = field->min;
	int			to = end;
	int			step = 1;

	if (**p == '*')
		(*p)++;
	else
	{
		if (!read_value(p, field, &from))
			return false;
		if (**p == '-')
		{
			(*p)++;
			if (!read_value(p, field, &to))
				return false;
			/* Up to Sunday. */
			if (weekdays && to == 0 && from > 0)
				to = 7;
		}
		else if (**p != '/')
			to = from;
	}
	if (**p == '/')
	{
		(*p)++;
		if (!read_number(p, &step) || step < 1 || step > end - field->min + 1)
			return false;
	}
	if (from > to)
		return false;
	for (int i = from; i <= to; i += step)
		*mask |= UINT64CONST(1) << i;
	return true;
}

static bool
read_field(const char *p, const CronField *field, uint64 *mask)
{
	*mask = 0;
	for (;;)
	{
		if (!read_range(&p, field, mask))
			return false;
		if (*p == '\0')
			break;
		if (*p++ != ',')
			return false;
	}
	/* Sunday is 0, and 7. */
	if (field == &fields[CRON_WEEKDAY] && (*mask & 0x80))
		*mask = (*mask & 0x7F) | 1;
	return true;
}

static const char *
field_hint(const CronField *field)
{
	if (field->names[0] != '\0')
		return psprintf("The %s are %d to %d, or names such as %.3s. Lists (%d,%d), ranges (%d-%d) and steps (*/2) can be given.",
						field->what, field->min, field->max, field->names + 3,
						field->min + 1, field->min + 3, field->min + 1, field->min + 4);
	return psprintf("The %s are %d to %d. Lists (%d,%d), ranges (%d-%d) and steps (*/%d) can be given, a step of at most %d.",
					field->what, field->min, field->max,
					field->min + 1, field->min + 3, field->min + 1, field->min + 4, 5,
					field->max - field->min + 1);
}

/* Is there a date in the fields? */
static bool
has_dates(const Cron *cron)
{
	int			day = pg_rightmost_one_pos64(cron->masks[CRON_DAY]);

	/*
	 * Either of the two day fields will do, and each month has all days of
	 * the week.
	 */
	if (!cron->any_day && !cron->any_weekday)
		return true;
	for (int month = 1; month <= MONTHS_PER_YEAR; month++)
	{
		/* 1 stands for a leap year. */
		if ((cron->masks[CRON_MONTH] & (1 << month)) && day <= day_tab[1][month - 1])
			return true;
	}
	return false;
}

/* "15 s", "1 h 30 min" */
static const char *
parse_every(const char *p, Cron *cron, const char **hint)
{
	*hint = "Write for example @every 15 s, @every 10 min or @every 1 h 30 min; the units are s, min, h and d.";
	for (;;)
	{
		int			number;
		int			letters = 0;
		int			unit;

		while (is_space(*p))
			p++;
		if (*p == '\0')
			break;
		if (!read_number(&p, &number))
			return "has no number of seconds, minutes, hours or days";
		while (is_space(*p))
			p++;
		while (is_letter(p[letters]))
			letters++;
		for (unit = 0; unit < (int) lengthof(units); unit++)
		{
			if (strlen(units[unit].name) == (size_t) letters &&
				pg_strncasecmp(p, units[unit].name, letters) == 0)
				break;
		}
		if (unit == lengthof(units))
			return "has a number without a unit that is known";
		p += letters;
		cron->every += (int64) number * units[unit].seconds;
	}
	if (cron->every < 1 || cron->every > EVERY_MAX)
	{
		*hint = "Give at least @every 1 s, and at most ten years.";
		return "is too short or too long";
	}
	return NULL;
}

/* Five fields, or six with seconds first. */
static const char *
parse_fields(const char *expression, Cron *cron, const char **hint)
{
	char	   *copy = pstrdup(expression);
	char	   *words[CRON_FIELDS + 1];
	int			n = 0;
	int			first;

	for (char *word = strtok(copy, " \t\r\n"); word != NULL; word = strtok(NULL, " \t\r\n"))
	{
		if (n <= CRON_FIELDS)
			words[n] = word;
		n++;
	}
	*hint = "Give five fields (minute, hour, day of the month, month, day of the week), six with the second first, @hourly, @daily, @weekly, @monthly, @yearly, or @every 15 s.";
	if (*expression == '@')
		return "is not known";
	if (n != CRON_FIELDS && n != CRON_FIELDS - 1)
		return psprintf("has %d field%s", n, n == 1 ? "" : "s");
	first = CRON_FIELDS - n;
	cron->masks[CRON_SECOND] = 1;
	for (int i = first; i < CRON_FIELDS; i++)
	{
		const char *word = words[i - first];

		if (!read_field(word, &fields[i], &cron->masks[i]))
		{
			*hint = field_hint(&fields[i]);
			return psprintf("has \"%.*s\" for the %s",
							pg_mbcliplen(word, strlen(word), 60), word, fields[i].what);
		}
	}
	cron->any_day = (*words[CRON_DAY - first] == '*');
	cron->any_weekday = (*words[CRON_WEEKDAY - first] == '*');
	if (!has_dates(cron))
	{
		*hint = "Give a day that one of the months has.";
		return "is a date that never comes";
	}
	return NULL;
}

/*
 * Parse an expression.  Returns what is wrong with it, and a hint at what
 * would be right; NULL: nothing.
 */
const char *
cron_parse(const char *expression, Cron *cron, const char **hint)
{
	memset(cron, 0, sizeof(Cron));
	while (is_space(*expression))
		expression++;
	if (strlen(expression) > CRON_MAX)
	{
		*hint = psprintf("It may have %d.", CRON_MAX);
		return psprintf("has %zu bytes", strlen(expression));
	}
	if (pg_strncasecmp(expression, "@every", 6) == 0 && !is_letter(expression[6]))
		return parse_every(expression + 6, cron, hint);
	for (int i = 0; i < (int) lengthof(aliases); i++)
	{
		int			len = strlen(aliases[i].name);

		if (pg_strncasecmp(expression, aliases[i].name, len) == 0 &&
			strspn(expression + len, " \t\r\n") == strlen(expression + len))
			expression = aliases[i].fields;
	}
	return parse_fields(expression, cron, hint);
}

/*
 * The time zone of a name; NULL: there is none.
 */
pg_tz *
cron_time_zone(const char *name)
{
	pg_tz	   *zone = strlen(name) <= TZ_STRLEN_MAX ? pg_tzset(name) : NULL;

	return zone != NULL && pg_tz_acceptable(zone) ? zone : NULL;
}

/* ----------------------------------------------------------------
 * The next time
 *
 * Local times are in seconds, as if the clock were in UTC.
 * ----------------------------------------------------------------
 */

/*
 * The offset of a zone at a moment.  Returns whether it ever changes after
 * that, and then when, and to what.
 */
static bool
offset_at(pg_tz *zone, pg_time_t at, long *offset, pg_time_t *change, long *changed)
{
	int			is_dst;

	*offset = 0;
	return pg_next_dst_boundary(&at, offset, &is_dst, change, changed, &is_dst, zone) > 0;
}

/*
 * The latest that the clock has shown up to a moment: what it shows then, or
 * what it showed before it was turned back.  It is never turned by more than a
 * day.
 */
static int64
shown_until(pg_tz *zone, pg_time_t moment)
{
	pg_time_t	at = moment - SECS_PER_DAY;
	int64		latest = PG_INT64_MIN;
	pg_time_t	change;
	long		offset;
	long		changed;

	while (offset_at(zone, at, &offset, &change, &changed) && change <= moment)
	{
		latest = Max(latest, change - 1 + offset);
		at = change;
	}
	return Max(latest, moment + offset);
}

/* The first moment at which the clock shows a local time or more. */
static pg_time_t
moment_of(pg_tz *zone, int64 local)
{
	pg_time_t	at = local - 2 * SECS_PER_DAY;
	pg_time_t	change;
	long		offset;
	long		changed;

	/* It shows less at first: no zone is as far from UTC. */
	while (offset_at(zone, at, &offset, &change, &changed) &&
		   Max(at, local - offset) >= change)
		at = change;
	return Max(at, local - offset);
}

/* The first value of a field from one on; -1: there is none. */
static inline int
value_from(const Cron *cron, CronFieldNumber field, int from)
{
	uint64		mask = from > 63 ? 0 : cron->masks[field] & (~UINT64CONST(0) << from);

	return mask == 0 ? -1 : pg_rightmost_one_pos64(mask);
}

/* The first time of the day from one on, in seconds; -1: there is none. */
static int
time_from(const Cron *cron, int from)
{
	int			hour = from / SECS_PER_HOUR;
	int			minute = from / SECS_PER_MINUTE % MINS_PER_HOUR;
	int			second = value_from(cron, CRON_SECOND, from % SECS_PER_MINUTE);

	if (!(cron->masks[CRON_MINUTE] & (UINT64CONST(1) << minute)) || second < 0)
	{
		/* Not in this minute, so it is the first second of another. */
		minute = value_from(cron, CRON_MINUTE, second < 0 ? minute + 1 : minute);
		second = value_from(cron, CRON_SECOND, 0);
	}
	if (!(cron->masks[CRON_HOUR] & (UINT64CONST(1) << hour)) || minute < 0)
	{
		hour = value_from(cron, CRON_HOUR, minute < 0 ? hour + 1 : hour);
		minute = value_from(cron, CRON_MINUTE, 0);
		second = value_from(cron, CRON_SECOND, 0);
	}
	return hour < 0 ? -1 : (hour * MINS_PER_HOUR + minute) * SECS_PER_MINUTE + second;
}

static bool
is_day(const Cron *cron, int day, int weekday)
{
	bool		in_days = (cron->masks[CRON_DAY] >> day) & 1;
	bool		in_weekdays = (cron->masks[CRON_WEEKDAY] >> weekday) & 1;

	/* Two that are both restricted are alternatives, as ever in cron. */
	if (cron->any_day || cron->any_weekday)
		return in_days && in_weekdays;
	return in_days || in_weekdays;
}

/*
 * The first local time in the fields from one on; PG_INT64_MAX: none that is
 * within reach.
 */
static int64
local_from(const Cron *cron, int64 local)
{
	int			date = UNIX_EPOCH_JDATE + local / SECS_PER_DAY;
	int			time = local % SECS_PER_DAY;
	int			limit;

	if (time < 0)
	{
		time += SECS_PER_DAY;
		date--;
	}
	limit = date + SEARCH_DAYS;
	while (date <= limit)
	{
		int			year;
		int			month;
		int			day;
		int			found = -1;

		j2date(date, &year, &month, &day);
		if (!(cron->masks[CRON_MONTH] & (1 << month)))
		{
			date = date2j(year, month + 1, 1);
			time = 0;
			continue;
		}
		if (is_day(cron, day, j2day(date)))
			found = time_from(cron, time);
		if (found >= 0)
			return (int64) (date - UNIX_EPOCH_JDATE) * SECS_PER_DAY + found;
		date++;
		time = 0;
	}
	return PG_INT64_MAX;
}

/*
 * The first tick after a moment; DT_NOEND: none that is within reach.
 */
TimestampTz
cron_next(const Cron *cron, pg_tz *zone, TimestampTz after)
{
	int64		local;

	if (after < MIN_TIMESTAMP || after > END_TIMESTAMP - SEARCH_DAYS * USECS_PER_DAY)
		return DT_NOEND;
	if (cron->every > 0)
	{
		int64		every = cron->every * USECS_PER_SEC;
		int64		number = after < cron->anchor ? 0 : (after - cron->anchor) / every;

		return cron->anchor + (number + 1) * every;
	}
	local = local_from(cron, shown_until(zone, timestamptz_to_time_t(after)) + 1);
	if (local == PG_INT64_MAX)
		return DT_NOEND;
	return time_t_to_timestamptz(moment_of(zone, local));
}

/* How many ticks there are after one moment and up to another; at most max. */
static int
count_ticks(const Cron *cron, pg_tz *zone, TimestampTz from, TimestampTz to, int max)
{
	int			n = 0;

	while (n < max && (from = cron_next(cron, zone, from)) <= to)
		n++;
	return n;
}

/*
 * The first of the last max ticks up to a moment, of those from a tick on.
 * Ticks are in whole seconds, so the second before it is found by halving.
 */
TimestampTz
cron_last_of(const Cron *cron, pg_tz *zone, TimestampTz from, TimestampTz to, int max)
{
	TimestampTz many = from - USECS_PER_SEC;	/* there may be more after
												 * this */
	int64		above = (to - many) / USECS_PER_SEC + 1;
	int64		below = -1;

	if (to < from + max * USECS_PER_SEC)
		return from;
	/* After "above" seconds there are max or less, and not after "below". */
	while (above - below > 1)
	{
		int64		middle = below + (above - below) / 2;

		if (count_ticks(cron, zone, many + middle * USECS_PER_SEC, to, max + 1) <= max)
			above = middle;
		else
			below = middle;
	}
	return cron_next(cron, zone, many + above * USECS_PER_SEC);
}
