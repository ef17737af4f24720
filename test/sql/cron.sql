-- When a schedule is due: cron expressions and the next time, as arithmetic. Both changes
-- of summer time in zones with rules of their own, leap years, and what is refused.
--
-- Seen to fail, in common/cron.c: shown_until() without what the clock showed before it was
-- turned back (an hour runs twice); moment_of() without Max(at, …) (a time that is passed
-- over runs an hour late, or never); is_day() with "and" for two day fields that are
-- restricted; time_from() without the first second of another minute.
\pset format unaligned
\pset tuples_only on
\pset null (null)
SET statement_timeout = '60 s';

-- The next n ticks after a local time, by that clock, with the offset where it is of interest.
CREATE FUNCTION pg_temp.ticks(cron text, zone text, after timestamptz, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := after;
    ticks text[];
BEGIN
    PERFORM set_config('timezone', zone, true);
    FOR i IN 1 .. n LOOP
        at := fairq_internal.cron_next(cron, zone, at, after);
        EXIT WHEN at IS NULL;
        ticks := ticks || to_char(at, 'YYYY-MM-DD HH24:MI:SSOF');
    END LOOP;
    RETURN rpad(cron, 20) || coalesce(array_to_string(ticks, ', '), 'never');
END
$$;
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
    hint text;
BEGIN
    EXECUTE statement INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || SQLERRM || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END
$$;

-- Fields. 2026-01-01 is a Thursday.
SELECT pg_temp.ticks(cron, 'UTC', '2026-01-01 00:00:00+00', 3) FROM (VALUES
    (1, '* * * * *'), (2, '* * * * * *'), (3, '0 0 * * * *'), (4, '*/15 * * * *'), (5, '*/15 * * * * *'), (6, '7-59/20 * * * *'), (7, '5/20 * * * *'),
    (8, '0 3 * * *'), (9, '30 3,15 * * *'), (10, '0 22-23 * * *'), (11, '59 23 31 12 *'), (12, '0 0 1 */6 *'), (13, '0 0 1 jan,jul *'), (14, '0 0 1 JUN-AUG *'),
    (15, '0 0 * * mon'), (16, '0 0 * * 1-5'), (17, '0 0 * * sat,sun'), (18, '0 0 * * 0'), (19, '0 0 * * 7'), (20, '0 0 * * sat-sun'), (21, '0 0 * * 5-7'),
    (22, '0 0 * * */2'), (23, '0 0 31 * *'), (24, '0 0 29 2 *'), (25, '0 0 1-7 * mon'), (26, '0 0 13 * fri'), (27, '0 0 */2 * mon'), (28, '0 0 13 * */5'),
    (29, '0 0 30 2 mon'), (30, '@hourly'), (31, '@daily'), (32, '@Midnight'), (33, '@weekly'), (34, '@monthly'), (35, '@yearly'), (36, '@ANNUALLY'),
    (37, '@every 15 s'), (38, '@every 1 min'), (39, '@every 1h30m'), (40, '@every 36 hours'), (41, '@every 2 d 1 s'), (42, E' \t*/30  *\n* * * '),
    (43, '58,59 59 23 31 12 *'), (44, '0,0,0 0 1 1 *'), (45, '0 0 1 1 * '), (46, '59 59 23 * * *'), (47, '00 007 * * *')) v(n, cron) ORDER BY n;

-- From the last second in the fields to the first of another minute.
SELECT pg_temp.ticks('10,40 * * * * *', 'UTC', '2026-01-01 00:00:45+00', 3), pg_temp.ticks('20,50 5,6 * * * *', 'UTC', '2026-01-01 00:05:50+00', 3);

-- Leap years, with those that are none.
SELECT pg_temp.ticks('0 0 29 2 *', 'UTC', '2095-03-01 00:00+00', 3), pg_temp.ticks('0 0 29 2 *', 'UTC', '2396-03-01 00:00+00', 2);
-- A 29 February that is a Sunday (both fields begin with a star), 28 years from one to the next, or 40.
SELECT pg_temp.ticks('0 0 */28 2 */7', 'UTC', '2032-02-29 00:00+00', 2);
SELECT pg_temp.ticks('0 0 29-29/1 2 *', 'UTC', '2028-01-01 00:00+00', 1);

-- Berlin: on 2026-03-29 there is no 2 o'clock, on 2026-10-25 there are two. Once each.
SELECT pg_temp.ticks(cron, 'Europe/Berlin', '2026-03-29 00:59:59+01', 4) FROM (VALUES
    (1, '30 2 * * *'), (2, '0 2 * * *'), (3, '0 3 * * *'), (4, '0 2,3 * * *'), (5, '*/30 * * * *'), (6, '*/20 2 * * *'), (7, '0 30 2 * * *'), (8, '0 4 * * *'), (9, '59 59 1 * * *'), (10, '@every 30 min')) v(n, cron) ORDER BY n;
SELECT pg_temp.ticks(cron, 'Europe/Berlin', '2026-10-25 00:59:59+02', 5) FROM (VALUES
    (1, '30 2 * * *'), (2, '0 2 * * *'), (3, '0 3 * * *'), (4, '0 2,3 * * *'), (5, '*/30 * * * *'), (6, '*/20 2 * * *'), (7, '0 4 * * *'), (8, '59 59 2 * * *'), (9, '@every 30 min')) v(n, cron) ORDER BY n;
-- From within the hour that comes again, in its first turn and its second.
SELECT pg_temp.ticks('*/20 * * * *', 'Europe/Berlin', '2026-10-25 02:30:00+02', 4);
SELECT pg_temp.ticks('*/20 * * * *', 'Europe/Berlin', '2026-10-25 02:00:00+01', 4), pg_temp.ticks('*/20 * * * *', 'Europe/Berlin', '2026-10-25 02:30:00+01', 2);
-- New York, south of the equator, half an hour (Lord Howe: 02:00 is 01:30, and 02:00 is 02:30), at midnight (Havana), none (Kolkata, UTC).
SELECT pg_temp.ticks('30 2 * * *', 'America/New_York', '2026-03-07 12:00-05', 3), pg_temp.ticks('30 1 * * *', 'America/New_York', '2026-10-31 12:00-04', 3);
SELECT pg_temp.ticks('*/15 1-2 * * *', 'Australia/Lord_Howe', '2026-04-05 00:00+11', 9), pg_temp.ticks('*/15 1-2 * * *', 'Australia/Lord_Howe', '2026-10-04 00:00+10:30', 7);
SELECT pg_temp.ticks('0 0 * * *', 'America/Havana', '2026-03-07 12:00-05', 3), pg_temp.ticks('30 0 * * *', 'America/Havana', '2024-11-02 12:00-04', 3);
SELECT pg_temp.ticks('30 2 * * *', 'Asia/Kolkata', '2026-03-28 12:00+00', 2), pg_temp.ticks('30 2 * * *', 'UTC', '2026-03-28 12:00+00', 2);
-- A day that never was (Samoa went from 29 to 31 December 2011), and one that came twice (Kwajalein, 1969, the other way).
SELECT pg_temp.ticks('0 12 * * *', 'Pacific/Apia', '2011-12-28 12:00-10', 3), pg_temp.ticks('0 12 30 12 *', 'Pacific/Apia', '2011-12-28 12:00-10', 2);
SELECT pg_temp.ticks('0 12 * * *', 'Pacific/Kwajalein', '1969-09-29 00:00+11', 4);
-- Zones that are offsets, or rules, and names in small letters.
SELECT pg_temp.ticks('0 0 * * *', 'Etc/GMT-14', '2026-01-01 00:00+00', 1), pg_temp.ticks('0 0 * * *', 'CET-1CEST,M3.5.0,M10.5.0/3', '2026-03-28 12:00+00', 2), pg_temp.ticks('0 0 * * *', 'europe/berlin', '2026-03-28 12:00+00', 1);
-- Far from now.
SELECT pg_temp.ticks('0 0 1 1 *', 'Europe/Berlin', '9999-06-01 00:00+00', 1), pg_temp.ticks('0 0 1 1 *', 'Europe/Berlin', '0001-06-01 00:00+00', 1), pg_temp.ticks('0 0 1 1 *', 'Europe/Berlin', '0044-03-15 00:00+00 BC', 1);
SELECT pg_temp.ticks('0 0 1 1 *', 'Europe/Berlin', 'infinity', 1), pg_temp.ticks('0 0 1 1 *', 'Europe/Berlin', '-infinity', 1), pg_temp.ticks('0 0 1 1 *', 'Europe/Berlin', '294276-12-31 00:00+00', 1), pg_temp.ticks('0 0 1 1 *', 'Europe/Berlin', '4714-11-24 00:00+00 BC', 1);

-- A year of minutes in two zones: each next one is later, is in the fields, and nothing in the fields is passed over.
WITH RECURSIVE t(at) AS (
    SELECT fairq_internal.cron_next('*/7 1-3 * * *', 'Europe/Berlin', '2026-01-01 00:00+01', '2026-01-01 00:00+01')
    UNION ALL SELECT fairq_internal.cron_next('*/7 1-3 * * *', 'Europe/Berlin', at, at) FROM t WHERE at < '2027-01-01 00:00+01'),
minutes AS (SELECT m FROM generate_series('2026-01-01 00:01+01'::timestamptz, '2027-01-01 00:00+01', '1 min') m
    WHERE extract(hour FROM m AT TIME ZONE 'Europe/Berlin') BETWEEN 1 AND 3 AND extract(minute FROM m AT TIME ZONE 'Europe/Berlin')::int % 7 = 0)
SELECT (SELECT count(*) FROM t WHERE at < '2027-01-01 00:00+01'), (SELECT count(*) FROM minutes),
    (SELECT string_agg(m::text, ' ') FROM (SELECT at AT TIME ZONE 'UTC' AS m FROM t WHERE at < '2027-01-01 00:00+01' EXCEPT SELECT m AT TIME ZONE 'UTC' FROM minutes) x) AS not_in_fields,
    (SELECT count(*) || ' from ' || min(m) || ' to ' || max(m) FROM (SELECT m AT TIME ZONE 'UTC' AS m FROM minutes EXCEPT SELECT at AT TIME ZONE 'UTC' FROM t) x) AS passed_over;

-- What is refused.
SELECT pg_temp.try(format('SELECT fairq_internal.cron_next(%L, ''UTC'', ''2026-01-01'', ''2026-01-01'')', cron)) FROM (VALUES
    (1, NULL), (2, ''), (3, '*'), (4, '* * * *'), (5, '* * * * * * *'), (6, '60 * * * *'), (7, '* 24 * * *'), (8, '* * 0 * *'), (9, '* * 32 * *'), (10, '* * * 0 *'), (11, '* * * 13 *'),
    (12, '* * * * 8'), (13, '60 * * * * *'), (14, '-1 * * * *'), (15, '5-1 * * * *'), (16, '*/0 * * * *'), (17, '*/61 * * * *'), (18, '*/ * * * *'), (19, '1- * * * *'), (20, '1,,2 * * * *'),
    (21, ',1 * * * *'), (22, '1, * * * *'), (23, '1;2 * * * *'), (24, '** * * * *'), (25, '*-5 * * * *'), (26, '1-2-3 * * * *'), (27, '1/2/3 * * * *'), (28, 'a * * * *'), (29, '* * * foo *'),
    (30, '* * * january *'), (31, '* * * * fri-mon'), (32, 'mon * * * *'), (33, '0 0 30 2 *'), (34, '0 0 31 feb,apr,jun,sep,nov *'), (35, '0 0 30-31 2 *'), (36, '0 0 31 2 */2'), (37, '@reboot'), (38, '@'), (39, '@hourly x'), (40, '@hourlyx'),
    (41, '@every'), (42, '@every '), (43, '@every 15'), (44, '@every s'), (45, '@every 0 s'), (46, '@every -1 s'), (47, '@every 1.5 s'), (48, '@every 1 month'), (49, '@every 100 ms'), (50, '@every 4000 d'),
    (51, '@every 9999999999 s'), (52, '@every 999999999 d 999999999 d'), (53, '@everything'), (54, '* * * * ☃'), (55, '１ * * * *'), (56, '99999999999999999999 * * * *'), (57, '4294967296 * * * *'), (58, '* * L * *'), (59, '? * * * *'), (60, '* * * * 1#2')) v(n, cron) ORDER BY n;
SELECT pg_temp.try(format('SELECT fairq_internal.cron_next(%L, ''UTC'', ''2026-01-01'', ''2026-01-01'')', repeat('1,', 600) || '1 * * * *'));
SELECT left(pg_temp.try(format('SELECT fairq_internal.cron_next(%L, ''UTC'', ''2026-01-01'', ''2026-01-01'')', repeat('é', 400) || ' * * * *')), 300);
SELECT pg_temp.try(format('SELECT fairq_internal.cron_next(''@hourly'', %L, ''2026-01-01'', ''2026-01-01'')', zone)) FROM (VALUES
    (1, ''), (2, 'Mars'), (3, 'Europe/Berlinn'), (4, '../../etc/passwd'), (5, repeat('x', 300)), (6, '☃'), (7, 'posixrules/../x'), (8, '/etc/localtime')) v(n, zone) ORDER BY n;
-- The search is bounded: the longest ways to the next time, many times.
BEGIN;
SET LOCAL statement_timeout = '30 s';
SELECT count(fairq_internal.cron_next('0 0 */28 2 */7', 'Australia/Lord_Howe', '2072-02-29'::timestamptz + n * interval '1 day', '2072-02-29')) FROM generate_series(1, 2000) n;
COMMIT;
