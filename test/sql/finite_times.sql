-- No infinite time leaves the interface, whatever state tasks are in: drivers have none,
-- and fail while they decode what was claimed.
-- The queues of this file start with "fin".
-- To see it fail: let leases_until() return the deadline of a lease as it is; or take
-- TIMESTAMP_NOT_FINITE() out of result_rows.c, inspect_tasks.c, task_position.c,
-- archive_look.c or sql_await.c.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset null (null)

-- What statements return, and how many of the rows have an infinite time.
CREATE TEMP TABLE seen (what text, rows bigint, infinite bigint);
CREATE FUNCTION pg_temp.look(what text, query text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO seen SELECT %L, count(*), count(*) FILTER (WHERE to_jsonb(x)::text ~ ''"-?infinity"'') FROM (%s) x', what, query);
END
$$;
-- All views, and all functions that return what is known of tasks.
CREATE FUNCTION pg_temp.walk() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'fairq'::regnamespace AND relkind = 'v' LOOP
        PERFORM pg_temp.look(name, format('SELECT * FROM fairq.%I', name));
    END LOOP;
    FOR name IN SELECT queue FROM fairq.queues WHERE queue LIKE 'fin%' LOOP
        PERFORM pg_temp.look('peek', format('SELECT * FROM fairq.peek(%L, 100)', name));
        PERFORM pg_temp.look('tasks', format('SELECT * FROM fairq.tasks(%L)', name));
        PERFORM pg_temp.look('get_task', format('SELECT t.* FROM fairq.%I, fairq.get_task(%L, id) t', 'q_' || name, name));
        PERFORM pg_temp.look('get_task_position', format('SELECT t.* FROM fairq.%I, fairq.get_task_position(%L, id) t', 'q_' || name, name));
        PERFORM pg_temp.look('await', format('SELECT t.* FROM fairq.done_tasks, fairq.await(%L, id, ''0'') t WHERE queue = %L', name, name));
    END LOOP;
END
$$;

SELECT fairq.create_queue('fin', buckets => 1, max_ready_per_group => 3, keep_done => '1 day', max_attempts => 1);
SELECT fairq.create_queue('fin durable', buckets => 1, durable_leases => true, expire_after => '1 h');
SELECT fairq.create_queue('fin time', 'time', buckets => 1);
SELECT fairq.open_session('fin', '1 h') AS session \gset
SELECT fairq.open_session('fin bound', '10 years', true) AS bound \gset

-- expires_at 'infinity' is never, also where the queue has another default: null.
SELECT count(fairq.enqueue(queue, '0', 'never', expires_at => 'infinity')) FROM unnest('{fin,fin durable,fin time}'::text[]) queue;
SELECT count(*), count(expires_at) FROM unnest('{fin,fin durable,fin time}'::text[]) queue, LATERAL fairq.tasks(queue) WHERE group_key = 'never';
SELECT count(fairq.enqueue(queue, to_jsonb(n), 'g', run_at => '-infinity')) FROM unnest('{fin,fin durable,fin time}'::text[]) queue, generate_series(1, 8) n;
SELECT count(fairq.enqueue(queue, '1', 'scheduled', delay => '9 years')) FROM unnest('{fin,fin durable,fin time}'::text[]) queue;
SELECT count(fairq.enqueue(queue, to_jsonb(n), 'key', unique_key => 'a')) FROM unnest('{fin,fin durable,fin time}'::text[]) queue, generate_series(1, 2) n;
SELECT fairq.schedule('fin at', 'fin', '@every 1 h') IS NULL AS at, fairq.schedule('fin never', 'fin', '@every 1 h', active => false) IS NULL AS never,
    fairq.schedule('fin leap', 'fin', '0 0 29 2 *') IS NULL AS leap;
SELECT pg_temp.walk();

-- Leases: of a session, bound or not, with a lease of its own and without; of none; of any of the queues.
SELECT pg_temp.look('claim', format('SELECT * FROM fairq.claim(%L, 1, session => %L)', queue, session))
    FROM unnest('{fin,fin durable,fin time}'::text[]) queue, unnest(ARRAY[:'session', :'bound']) session;
SELECT pg_temp.look('claim', format('SELECT * FROM fairq.claim(%L, 1, %L, session => %L)', queue, lease, session))
    FROM unnest('{fin,fin durable}'::text[]) queue, unnest('{1 h,10 years}'::text[]) lease, unnest(ARRAY[:'session', :'bound']) session;
SELECT pg_temp.look('claim_any', format($$ SELECT * FROM fairq.claim_any('{fin,fin durable,fin time}', 2, session => %L) $$, session)) FROM unnest(ARRAY[:'session', :'bound']) session;
SELECT pg_temp.look('ack_and_claim', format('SELECT * FROM fairq.ack_and_claim(%L, ARRAY(SELECT receipt FROM fairq.leases WHERE queue = %L LIMIT 1), 1, session => %L)', queue, queue, :'session'))
    FROM unnest('{fin,fin durable,fin time}'::text[]) queue;
SELECT pg_temp.look('claim', 'SELECT * FROM fairq.claim(''fin'', 1)');
SELECT count(*) > 10 AS leased, count(lease_until) = count(*) AS known FROM fairq.leases WHERE queue LIKE 'fin%';
SELECT pg_temp.walk();
SELECT count(pg_temp.look('extend', format('SELECT fairq.extend(%L, lease => %L)', receipt, lease))) > 20 FROM fairq.leases, unnest('{NULL,10 years,1 h}'::text[]) lease WHERE queue LIKE 'fin%';
SELECT fairq.heartbeat(:'session');
SELECT pg_temp.walk();

-- In a transaction: popped, and acknowledged; both may be rolled back.
BEGIN;
SELECT pg_temp.look('pop', format('SELECT * FROM fairq.pop(%L, 1)', queue)) FROM unnest('{fin,fin durable,fin time}'::text[]) queue;
SELECT count(fairq.ack(receipt)) > 0 FROM (SELECT receipt FROM fairq.leases WHERE queue LIKE 'fin%' AND state = 'held' LIMIT 3) l;
SELECT count(*) FILTER (WHERE state = 'settling') > 3 AS settling FROM fairq.leases WHERE queue LIKE 'fin%';
SELECT pg_temp.walk();
SELECT what, infinite FROM seen WHERE infinite > 0;
ROLLBACK;
SELECT pg_temp.walk();

-- The session is over: its leases are going to be put back. Dead, done, cancelled.
SELECT fairq.close_session(:'bound') > 0;
SELECT pg_temp.walk();
SELECT count(fairq.nack(receipt, 'no')) > 0 FROM (SELECT receipt FROM fairq.leases WHERE queue = 'fin' LIMIT 1) l;
SELECT fairq.cancel('fin', id) FROM fairq.tasks('fin', 'scheduled') LIMIT 1;
SELECT pg_temp.walk();
SELECT count(fairq.release(receipt)) > 0 FROM fairq.leases WHERE queue LIKE 'fin%';
SELECT count(*) FROM fairq.pop('fin', 1, group_keys => '{never}');

-- What is written with SQL.
SELECT fairq.create_queue('fin sql', buckets => 1, keep_done => '1 day');
SELECT fairq.create_queue('fin held', buckets => 1, keep_done => '1 day');
INSERT INTO fairq."q_fin sql" (id, enqueued_at, priority, cost, attempts, state, group_key, payload, run_at, expires_at)
    SELECT n, t, 0, 1, 0, 's', 'g', '1', t, 'infinity' FROM unnest('{infinity,infinity}'::timestamptz[]) WITH ORDINALITY u(t, n);
INSERT INTO fairq."q_fin sql" (id, address, enqueued_at, priority, cost, attempts, state, group_key, payload, run_at, expires_at)
    SELECT n, '(0,1,1)', t, 0, 1, 0, 'r', 'g', '1', t, 'infinity' FROM unnest('{infinity,-infinity}'::timestamptz[]) WITH ORDINALITY u(t, n2), LATERAL (SELECT n2 + 10) o(n);
INSERT INTO fairq."q_fin sql" (id, enqueued_at, priority, cost, attempts, state, group_key, payload, run_at, expires_at)
    SELECT n, t, 0, 1, 20, 'd', 'g', '1', t, t FROM unnest('{infinity,-infinity}'::timestamptz[]) WITH ORDINALITY u(t, n2), LATERAL (SELECT n2 + 20) o(n);
INSERT INTO fairq."done_fin sql" (id, enqueued_at, claimed_at, done_at, run_at, priority, cost, attempts, outcome, group_key, payload)
    VALUES (100, 'infinity', 'infinity', 'infinity', 'infinity', 0, 1, 1, 'acked', 'g', '1');
SELECT pg_temp.walk();
SELECT pg_temp.look('claim', 'SELECT * FROM fairq.claim(''fin sql'', 1)');
SELECT pg_temp.look('pop', 'SELECT * FROM fairq.pop(''fin sql'', 1)');
SELECT pg_temp.walk();

SELECT what, bool_or(rows > 0) AS rows, sum(infinite) AS infinite FROM seen GROUP BY what ORDER BY what COLLATE "C";
SELECT count(fairq.unschedule(name)) FROM unnest('{fin at,fin never,fin leap}'::text[]) name;
SELECT count(fairq.close_session(session)) > 0 FROM fairq.sessions WHERE name LIKE 'fin%';
SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'fin%';
