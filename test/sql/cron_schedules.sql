-- fairq.schedule and fairq.unschedule: what they take, who may, what a replacement keeps, what
-- the view shows to whom. The queues and schedules of this file start with "cro", its roles with
-- regress_fairq. Ticks themselves are in test/t/time_cron.pl and time_cron_clock.pl.
--
-- Seen to fail: leave check_owner() out of sql_schedules.c; let keep_old() keep nothing; let
-- the view show payloads to pg_monitor.
\pset format unaligned
\pset tuples_only on
\pset null (null)

CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
    hint text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'null');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || replace(SQLERRM, '"' || session_user || '"', '"us"') || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END
$$;
GRANT EXECUTE ON FUNCTION pg_temp.try(text) TO PUBLIC;
SELECT fairq.create_queue('cro'), fairq.create_queue('cro priority', 'priority');

-- A schedule, with defaults and without.
SELECT fairq.schedule('cro', 'cro', '0 0 1 1 *') = date_trunc('year', now() AT TIME ZONE 'UTC' + interval '1 year') AT TIME ZONE 'UTC';
SELECT queue, owner = current_user, cron, timezone, catch_up, overlap, active, next_run > now(), last_run, last_task, skipped, failures, last_error, last_error_at, group_key, priority, cost, payload, headers
    FROM fairq.schedules WHERE name = 'cro';
SELECT pg_temp.try($$ SELECT fairq.schedule('crö ☃ '' "', 'cro priority', '@yearly', '[1, "ü"]', group_key => 'g', priority => -5, cost => 2.5, headers => '{"a": 1}',
    timezone => 'Asia/Kolkata', catch_up => 'all', overlap => true) IS NOT NULL $$);
SELECT name, queue, cron, timezone, catch_up, overlap, active, group_key, priority, cost, payload, headers FROM fairq.schedules WHERE name LIKE 'crö%';
SELECT fairq.unschedule('crö ☃ '' "'), fairq.unschedule('crö ☃ '' "');
-- Null is the default, but for the first three.
SELECT fairq.schedule('cro', 'cro', '0 0 1 1 *', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) > now();
SELECT cron, timezone, catch_up, overlap, active, group_key, priority, cost, payload, headers FROM fairq.schedules WHERE name = 'cro';

-- What a replacement keeps: the next time, due already or not, if the times stay the same.
BEGIN;
UPDATE fairq.schedule SET next_run = '2020-01-01 00:00+00', failures = 3, last_error = 'x', last_task = 7, skipped = 5 WHERE name = 'cro';
SELECT fairq.schedule('cro', 'cro', '0 0 1 1 *', '{"new": 1}') AT TIME ZONE 'UTC';
SELECT payload, failures, last_error, last_task, skipped FROM fairq.schedules WHERE name = 'cro';
ROLLBACK;
-- One that is too far, after the clock was wrong, is mended; another queue has other tasks.
BEGIN;
UPDATE fairq.schedule SET next_run = '9999-01-01 00:00+00', last_task = 7 WHERE name = 'cro';
SELECT fairq.schedule('cro', 'cro priority', '0 0 1 1 *') < '9000-01-01';
SELECT last_task FROM fairq.schedules WHERE name = 'cro';
ROLLBACK;
-- Other times, or another zone, or stopped and started: from now.
BEGIN;
UPDATE fairq.schedule SET next_run = '2020-01-01 00:00+00' WHERE name = 'cro';
SELECT fairq.schedule('cro', 'cro', '0 0 2 1 *') > now();
UPDATE fairq.schedule SET next_run = '2020-01-01 00:00+00' WHERE name = 'cro';
SELECT fairq.schedule('cro', 'cro', '0 0 2 1 *', timezone => 'Asia/Kolkata') > now();
UPDATE fairq.schedule SET next_run = '2020-01-01 00:00+00' WHERE name = 'cro';
SELECT fairq.schedule('cro', 'cro', '0 0 2 1 *', timezone => 'Asia/Kolkata', active => false);
SELECT active, next_run FROM fairq.schedules WHERE name = 'cro';
SELECT fairq.schedule('cro', 'cro', '0 0 2 1 *', timezone => 'Asia/Kolkata') > now();
ROLLBACK;
-- @every counts from when it was made, and goes on counting from there.
BEGIN;
SELECT fairq.schedule('cro every', 'cro', '@every 1 h') BETWEEN now() + interval '59 min 59 s' AND clock_timestamp() + interval '1 h';
UPDATE fairq.schedule SET anchor = '2020-01-01 00:00:17+00' WHERE name = 'cro every';
SELECT to_char(fairq.schedule('cro every', 'cro', '@every 1 h', '2') AT TIME ZONE 'UTC', 'MI:SS');
ROLLBACK;
-- A rollback leaves none, and a savepoint as few.
BEGIN;
SELECT fairq.schedule('cro gone', 'cro', '@daily') > now();
SAVEPOINT s;
SELECT fairq.unschedule('cro gone');
ROLLBACK TO s;
SELECT count(*) FROM fairq.schedules WHERE name = 'cro gone';
ROLLBACK;
SELECT count(*) FROM fairq.schedules WHERE name = 'cro gone';

-- Bad input, one argument after the other.
SELECT pg_temp.try(format('SELECT fairq.schedule(%s)', arguments)) FROM (VALUES
    (1, $$NULL, 'cro', '@daily'$$), (2, $$'', 'cro', '@daily'$$), (3, $$repeat('x', 256), 'cro', '@daily'$$), (4, $$repeat('é', 128), 'cro', '@daily'$$),
    (5, $$'cro bad', NULL, '@daily'$$), (6, $$'cro bad', '', '@daily'$$), (7, $$'cro bad', 'cro none', '@daily'$$), (8, $$'cro bad', repeat('q', 100), '@daily'$$), (9, $$'cro bad', 'Cro', '@daily'$$),
    (10, $$'cro bad', 'cro', NULL$$), (11, $$'cro bad', 'cro', ''$$), (12, $$'cro bad', 'cro', '60 * * * *'$$), (13, $$'cro bad', 'cro', '0 0 30 2 *'$$), (14, $$'cro bad', 'cro', '@every 0 s'$$),
    (20, $$'cro bad', 'cro', '@daily', group_key => repeat('g', 1025)$$), (21, $$'cro bad', 'cro', '@daily', priority => 10$$), (22, $$'cro bad', 'cro', '@daily', priority => -1$$),
    (23, $$'cro bad', 'cro', '@daily', cost => 0$$), (24, $$'cro bad', 'cro', '@daily', cost => 'NaN'$$), (25, $$'cro bad', 'cro', '@daily', cost => 'Infinity'$$), (26, $$'cro bad', 'cro', '@daily', cost => -1$$), (27, $$'cro bad', 'cro', '@daily', cost => 1e300$$),
    (30, $$'cro bad', 'cro', '@daily', headers => '[1]'$$), (31, $$'cro bad', 'cro', '@daily', headers => '"x"'$$), (32, $$'cro bad', 'cro', '@daily', headers => 'null'$$),
    (33, $$'cro bad', 'cro', '@daily', timezone => 'Mars'$$), (34, $$'cro bad', 'cro', '@daily', timezone => ''$$), (35, $$'cro bad', 'cro', '@daily', timezone => repeat('z', 1000)$$),
    (36, $$'cro bad', 'cro', '@daily', catch_up => 'some'$$), (37, $$'cro bad', 'cro', '@daily', catch_up => ''$$), (38, $$'cro bad', 'cro', '@daily', catch_up => 'ALL'$$)) v(n, arguments) ORDER BY n;
SELECT pg_temp.try('SELECT fairq.unschedule(NULL)'), pg_temp.try($$ SELECT fairq.unschedule('') $$), pg_temp.try($$ SELECT fairq.unschedule('cro none') $$);
BEGIN READ ONLY;
SELECT pg_temp.try($$ SELECT fairq.schedule('cro bad', 'cro', '@daily') $$), pg_temp.try($$ SELECT fairq.unschedule('cro') $$);
ROLLBACK;
SELECT name FROM fairq.schedules WHERE name LIKE 'cro%';
-- The largest there may be.
SELECT pg_temp.try($$ SELECT length(name) FROM (SELECT fairq.schedule(repeat('é', 127), 'cro', repeat(' ', 2000) || '@daily', to_jsonb(repeat('p', 1000000)), repeat('g', 1024))) x, fairq.schedules s WHERE length(name) = 127 $$);
SELECT length(payload::text), length(group_key), fairq.unschedule(name) FROM fairq.schedules WHERE length(name) = 127;

-- Privileges: INSERT on the queue. The owner, his members and superusers replace and remove.
CREATE ROLE regress_fairq_cron;
CREATE ROLE regress_fairq_cron_member;
CREATE ROLE regress_fairq_cron_other;
CREATE ROLE regress_fairq_cron_monitor;
GRANT regress_fairq_cron TO regress_fairq_cron_member;
GRANT pg_monitor TO regress_fairq_cron_monitor;
SET ROLE regress_fairq_cron;
SELECT pg_temp.try($$ SELECT fairq.schedule('cro role', 'cro', '@yearly') $$);
RESET ROLE;
GRANT INSERT ON fairq.q_cro TO regress_fairq_cron, regress_fairq_cron_other;
SET ROLE regress_fairq_cron;
SELECT pg_temp.try($$ SELECT fairq.schedule('cro role', 'cro', '@yearly', '{"secret": 1}', headers => '{"secret": 2}') IS NOT NULL $$);
SELECT pg_temp.try($$ SELECT fairq.schedule('cro', 'cro', '@yearly') $$), pg_temp.try($$ SELECT fairq.unschedule('cro') $$);
SELECT name, owner, payload, headers FROM fairq.schedules;
SELECT pg_temp.try('TABLE fairq.schedule'), pg_temp.try('DELETE FROM fairq.schedule'), pg_temp.try('UPDATE fairq.schedule SET owner = ''postgres''');
RESET ROLE;
CREATE FUNCTION pg_temp.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$ BEGIN RAISE NOTICE 'leaked %', $1; RETURN true; END $$;
SET ROLE regress_fairq_cron_other;
SELECT pg_temp.try($$ SELECT fairq.schedule('cro role', 'cro', '@yearly') $$), pg_temp.try($$ SELECT fairq.unschedule('cro role') $$);
SELECT count(*) FROM fairq.schedules;
-- What a function of one's own in a condition is not shown either.
SELECT count(*) FROM fairq.schedules WHERE pg_temp.leak(name);
SET ROLE regress_fairq_cron_monitor;
SELECT name, replace(owner, session_user, 'us'), payload, headers FROM fairq.schedules WHERE name LIKE 'cro%' ORDER BY name;
SET ROLE regress_fairq_cron_member;
SELECT pg_temp.try($$ SELECT fairq.schedule('cro role', 'cro', '@yearly', '{"by": "member"}') IS NOT NULL $$);
SELECT name, owner, payload FROM fairq.schedules;
RESET ROLE;
-- A superuser replaces it, and it stays his whose it is.
SELECT fairq.schedule('cro role', 'cro', '@monthly') > now();
SELECT name, owner, cron FROM fairq.schedules WHERE name = 'cro role';
SET ROLE regress_fairq_cron_member;
SELECT fairq.unschedule('cro role');
RESET ROLE;
SELECT has_function_privilege('regress_fairq_cron_other', 'fairq_internal.schedule_written()', 'EXECUTE'), pg_temp.try('SELECT fairq_internal.schedule_written()');

SELECT count(fairq.unschedule(name)) FROM fairq.schedules WHERE name LIKE 'cro%';
SELECT fairq.drop_queue('cro'), fairq.drop_queue('cro priority');
DROP ROLE regress_fairq_cron_member, regress_fairq_cron_other, regress_fairq_cron_monitor, regress_fairq_cron;
